"""The secrets that this process has given to agents: kept only in memory, and removed from all that is written."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MachineError, MissingError
from agenttalk.rules.core import redaction
from agenttalk.rules.core.redaction import NO_SECRETS, Secrets

if TYPE_CHECKING:
    from agenttalk.ports.agents import TurnEnd
    from agenttalk.ports.folders import Folder
    from agenttalk.rules.proof.evidence import CheckResult
    from agenttalk.rules.proof.performance import WorkProof

LOG = logging.getLogger(__name__)
TOKEN: Final = "AGENTTALK_TOKEN"  # noqa: S105 - the name of a variable
_REMEMBERED: Final = 16
"""Tokens of ended attempts that are still removed from texts: some of these may just be written."""
_REPOSITORY: Final = ".git"
"""The folder of a tree's own repository is not searched."""
_PIECE: Final = 1024 * 1024
_DEEPEST: Final = 200


class SecretGuard:
    """Holds the secrets that must not be written. It grows with each agent that is started, and ends with the process.

    Tokens of attempts are good while these last; they are forgotten some attempts later.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._live: Counter[str] = Counter()
        self._dead: deque[str] = deque(maxlen=_REMEMBERED)
        self.secrets: Secrets = NO_SECRETS
        """All known secrets."""

    def register(self, handed: Mapping[str, str]) -> None:
        """Register the variables that an agent gets. Both values of a variable that changed are secrets."""
        self.register_values(redaction.collect_secrets(handed).values if handed else {})

    def register_values(self, values: Mapping[str, str]) -> None:
        """Register secrets under any names. Those that are too short to recognise are left out."""
        known = set(self._values.values())
        new = {name: each for name, each in values.items() if each not in known and len(each) >= redaction.SHORTEST}
        if new:
            for name, value in new.items():
                self._values[name if name not in self._values else f"{name} ({len(self._values)})"] = value
            self._rebuild()

    @contextmanager
    def guard_token(self, token: str) -> Iterator[None]:
        """Register the token of an attempt while it lasts, and for texts that are checked soon afterwards."""
        secret = redaction.extract_secret_part(token)
        if len(secret) < redaction.SHORTEST:
            yield
            return
        self._live[secret] += 1
        self._rebuild()
        try:
            yield
        finally:
            self._live[secret] -= 1
            if not self._live[secret]:
                del self._live[secret]
                self._dead.append(secret)

    def _rebuild(self) -> None:
        tokens = dict.fromkeys((*self._live, *self._dead))
        known = {TOKEN if not number else f"{TOKEN} ({number})": each for number, each in enumerate(tokens)}
        self.secrets = Secrets({**known, **self._values})

    def redact_ended(self, ended: TurnEnd) -> TurnEnd:
        """Return the end of a turn without secrets."""
        known = self.secrets
        if not known:
            return ended
        return replace(
            ended,
            stdout=known.redact_bytes(ended.stdout),
            stderr=known.redact_bytes(ended.stderr),
            error=known.redact(ended.error),
        )

    def redact_proof(self, proof: WorkProof) -> WorkProof:
        """Return the findings about a turn's work without secrets."""
        known = self.secrets
        if not known:
            return proof
        return replace(
            proof,
            evidence=tuple(replace(each, detail=known.redact(each.detail)) for each in proof.evidence),
            check_records=known.redact_json(proof.check_records),
            results=tuple(self.redact_result(each) for each in proof.results),
            refused=known.redact(proof.refused),
            conflict=known.redact(proof.conflict),
            diff=known.redact(proof.diff),
        )

    def redact_result(self, result: CheckResult) -> CheckResult:
        """Return the result of a check without secrets."""
        known = self.secrets
        if not known:
            return result
        return replace(result, detail=known.redact(result.detail), output=known.redact(result.output))

    def refuse_if_secret(self, folder: Folder, path: str, limit: int) -> None:
        """Remove a file that holds a secret, and raise InputError. A file that cannot be read is left to the caller."""
        name = self._in_file(folder, path, limit) if self.secrets else None
        if name is not None:
            folder.remove(path)
            shown = self.secrets.redact(path.rpartition("/")[2])
            raise InputError(
                Code.SECRET_EXPOSED,
                f"{shown!r} holds the value of {name}, so it was removed and nothing is handed over",
                hint="hand it over without the secret",
            )

    def _in_file(self, folder: Folder, path: str, limit: int, named: str = "") -> str | None:
        """Return the name of a secret in a file or its name. Raises MachineError when the file cannot be read."""
        if name := self.secrets.find_name((named or path).encode("utf-8", "surrogateescape")):
            return name
        before = b""
        try:
            with folder.stream(path, limit, linked=True) as stream:
                while piece := stream.read(_PIECE):
                    if name := self.secrets.find_name(before + piece):
                        return name
                    before = (before + piece)[-self.secrets.longest :]
        except (InputError, MissingError):
            return None
        return None

    def _is_bad(self, folder: Folder, path: str, limit: int) -> bool:
        """Whether a file that an agent left has to be removed. A file that the engine cannot read is removed, too."""
        try:
            return self._in_file(folder, path, limit, named=path.rpartition("/")[2]) is not None
        except MachineError:
            return True

    def refuse_tree_if_secret(self, folder: Folder, top: str, limit: int, since: int = 0) -> None:
        """Do the same for every file of a tree that was changed since then, except in its own repository."""
        if self.secrets:
            for path in _files(folder, top, _DEEPEST, since):
                self.refuse_if_secret(folder, path, limit)

    def scrub_tree(self, folder: Folder, top: str, limit: int, since: int = 0, spared: str = "") -> None:
        """Remove every file that holds a secret: it is not delivered, and must not stay either.

        A folder can be `spared` that is removed later. Raises InputError for a tree that is too deep to search.
        """
        if not self.secrets:
            return
        for path in list(_files(folder, top, _DEEPEST, since, spared)):
            if self._is_bad(folder, path, limit):
                LOG.warning("a file that holds a secret was removed from %s", top, extra={"action": "turn.tidy"})
                with suppress(AgentTalkError):
                    folder.remove(path)


def _files(folder: Folder, top: str, depth: int, since: int, spared: str = "") -> Iterator[str]:
    """List files that were changed since then, by the file system's own time, which no program can set."""
    try:
        with folder.open_folder(top) as here:
            entries = sorted(here.scan(since))
    except MissingError:
        return
    except MachineError as error:
        raise InputError(Code.FILE_UNSAFE, f"{top!r} cannot be looked into") from error
    for entry in entries:
        if entry.kind == "folder":
            if entry.name == _REPOSITORY or f"{top}/{entry.name}" == spared:
                continue
            if not depth:
                raise InputError(Code.FILE_UNSAFE, f"the folders of {top!r} are nested too deeply to be searched")
            yield from _files(folder, f"{top}/{entry.name}", depth - 1, since, spared)
        elif entry.kind == "regular":
            yield f"{top}/{entry.name}"
