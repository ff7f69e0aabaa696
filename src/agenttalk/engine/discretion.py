"""The secrets that this process has handed to agents: kept in memory alone, and taken out of whatever is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from agenttalk.errors import AgentTalkError, Code, InputError
from agenttalk.ports import Ended, Folder, Proof
from agenttalk.rules import redaction
from agenttalk.rules.evidence import Result
from agenttalk.rules.redaction import NONE, Secrets

_PIECE: Final = 1024 * 1024
_DEEPEST: Final = 200


class Discretion:
    """What must not be said. It grows with each agent that is started, and ends with the process."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self.secrets: Secrets = NONE
        """All that are known."""

    def learn(self, handed: Mapping[str, str]) -> None:
        """Note what an agent is handed. A variable that has another value by now is a secret with both."""
        if not handed:
            return
        known = set(self._values.values())
        new = {name: value for name, value in redaction.secrets(handed).values.items() if value not in known}
        if new:
            for name, value in new.items():
                self._values[name if name not in self._values else f"{name} ({len(self._values)})"] = value
            self.secrets = Secrets(dict(self._values))

    def ended(self, ended: Ended) -> Ended:
        """How a turn ended, without them."""
        known = self.secrets
        if not known:
            return ended
        return replace(
            ended,
            stdout=known.redact_bytes(ended.stdout),
            stderr=known.redact_bytes(ended.stderr),
            error=known.redact(ended.error),
        )

    def proof(self, proof: Proof) -> Proof:
        """What was found out about a turn's work, without them."""
        known = self.secrets
        if not known:
            return proof
        return replace(
            proof,
            evidence=tuple(replace(each, detail=known.redact(each.detail)) for each in proof.evidence),
            told=known.redact_json(proof.told),
            results=tuple(self.result(each) for each in proof.results),
            refused=known.redact(proof.refused),
            conflict=known.redact(proof.conflict),
        )

    def result(self, result: Result) -> Result:
        """What came of a check, without them."""
        known = self.secrets
        if not known:
            return result
        return replace(result, detail=known.redact(result.detail), output=known.redact(result.output))

    def withhold(self, folder: Folder, path: str, limit: int) -> None:
        """Remove a file that holds one, and raise InputError. One that cannot be read is somebody else's matter."""
        name = self._in_file(folder, path, limit) if self.secrets else None
        if name is not None:
            folder.remove(path)
            shown = self.secrets.redact(path.rpartition("/")[2])
            raise InputError(
                Code.SECRET_EXPOSED,
                f"{shown!r} holds the value of {name}, so it was removed and nothing is handed over",
                hint="hand it over without the secret",
            )

    def _in_file(self, folder: Folder, path: str, limit: int) -> str | None:
        if name := self.secrets.found(path.encode("utf-8", "surrogateescape")):
            return name
        before = b""
        try:
            with folder.stream(path, limit) as stream:
                while piece := stream.read(_PIECE):
                    if name := self.secrets.found(before + piece):
                        return name
                    before = (before + piece)[-self.secrets.longest :]
        except AgentTalkError:
            return None
        return None

    def withhold_tree(self, folder: Folder, top: str, limit: int) -> None:
        """The same for every file of a tree, but for its own repository."""
        if self.secrets:
            for path in _files(folder, top, _DEEPEST):
                self.withhold(folder, path, limit)


def _files(folder: Folder, top: str, depth: int) -> Iterator[str]:
    with folder.sub(top) as here:
        entries = sorted(here.scan())
    for entry in entries:
        if entry.kind == "regular":
            yield f"{top}/{entry.name}"
        elif entry.kind == "folder" and entry.name != ".git":
            if not depth:
                raise InputError(Code.FILE_UNSAFE, f"the folders of {top!r} are nested too deep to be looked into")
            yield from _files(folder, f"{top}/{entry.name}", depth - 1)
