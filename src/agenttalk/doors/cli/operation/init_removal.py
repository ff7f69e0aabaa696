"""`agenttalk init --remove`: takes out what init added to a repository, but for what was changed since.

Each step is harmless when it is repeated, and the record goes last: after a kill the next call finishes.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.store import operator_folder, root_lock
from agenttalk.contracts.errors import AgentTalkError, MissingError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.operation import init_record
from agenttalk.doors.cli.operation.init_additions import LARGEST
from agenttalk.rules.text import cli_words

if TYPE_CHECKING:
    from agenttalk.doors.cli.operation.init_record import AdditionRecord, InitRecord, Place
    from agenttalk.engine.core.access import Token
    from agenttalk.rules.core.config_merge import ConfigMergeResult

_STORE: Final = ("data/system.db", "data/system.db-wal", "data/system.db-shm", "data/engine.lock")
"""What the root's state consists of when nothing but tokens was made in it. The database goes first."""
_IGNORE: Final = ".gitignore"
_OWN: Final = ("heads.json", "heads.json.lock", "operator.token")
"""What the operator's folder of a root holds."""


class Removal(NamedTuple):
    """What became of an addition."""

    file: str
    what: Literal["removed", "taken out", "gone", "changed", "left"]
    why: str = ""

    @property
    def is_unfinished(self) -> bool:
        """Whether the next call has to try again."""
        return self.what == "left"


def remove_additions(repository: Path, root: Path) -> list[Removal]:
    """Remove what init added to a repository and its root. Empty if nothing is recorded.

    A root that another repository uses, too, stays, and is removed with that one.
    """
    with init_record.lock_setup():
        record = init_record.read_record(repository, root)
        if record is None:
            return []
        init_record.remove_drafts(record)
        other = init_record.find_other(repository, root)
        removed = _Removals(record)
        if other is not None:
            init_record.write_record(Path(other.repository), root, other.take_over(record))
            removed.remove_files(repository, "repository")
            why = cli_words.OBSTACLES["shared"](folder=other.repository)
            removed.done.append(Removal(str(root), "changed", why))
        else:
            running = root.is_dir() and root_lock.running_engine(root) is not None
            removed.done += _revoke_tokens(root, record)
            removed.remove_files(repository, "repository")
            removed.remove_files(root, "root")
            if record.made_root and not removed.left:
                removed.done += _remove_root(root, record, running=running)
        removed.conclude(repository, root)
        return removed.done


class _Removals:
    """What was removed, and what is left for the next call."""

    def __init__(self, record: InitRecord) -> None:
        self._record = record
        self.done: list[Removal] = []
        self.left: list[AdditionRecord] = []

    def remove_files(self, folder: Path, place: Place) -> None:
        """Remove the additions in a place, the newest first. What keeps a root that we made out of git goes with it."""
        for added in reversed(self._record.files):
            kept = self._record.made_root and added.path == _IGNORE
            if added.place == place and not (place == "root" and kept):
                self.done.append(_remove_file(folder, added))
                self.left += [added] if self.done[-1].is_unfinished else []

    def conclude(self, repository: Path, root: Path) -> None:
        """Forget what was removed."""
        if self.left:
            init_record.write_record(repository, root, self._record.with_only(self.left))
        elif not any(each.is_unfinished for each in self.done):
            init_record.forget_record(repository, root)


def _revoke_tokens(root: Path, record: InitRecord) -> Iterator[Removal]:
    """Revoke the tokens that init made, and remove their files."""
    if record.tokens and (root / _STORE[0]).is_file():
        for each in _list_tokens(root):
            if each["id"] in record.tokens and each["revoked_at"] is None:
                _revoke(root, each["id"])
                yield Removal(cli_words.TOKEN_OF(agent=each["name"]), "removed", cli_words.OBSTACLES["revoked"]())
    for agent in record.agents:
        token = operator_folder.agent_token_of(root, agent)
        if token is not None and _id_of(token) in record.tokens:
            operator_folder.forget_agent_token(root, agent)


def _revoke(root: Path, token_id: str) -> None:
    path = f"/api/tokens/{token_id}/revoke"
    root_access.ask_root(root, path, lambda local: local.operation.revoke_token(token_id), {})


def _list_tokens(root: Path) -> list[Token]:
    return root_access.ask_root(root, "/api/tokens", lambda local: local.operation.list_tokens())["tokens"]


def _id_of(token: str) -> str:
    from agenttalk.rules.core.tokens import token_id

    return token_id(token)


def _remove_file(folder: Path, added: AdditionRecord) -> Removal:
    """Remove a file, or what was added to it, unless it was changed."""
    shown = added.path if added.place == "repository" else str(folder / added.path)
    try:
        if not folder.is_dir():
            return Removal(shown, "gone")
        with SafeFolder.open(folder) as opened:
            removal = _take_out(opened, added, shown)
            if removal.what in {"removed", "gone"}:
                for each in added.folders:
                    with suppress(AgentTalkError, OSError):  # others put something into it
                        opened.remove(each)
            return removal
    except (AgentTalkError, OSError) as error:
        return Removal(shown, "left", error.message if isinstance(error, AgentTalkError) else str(error))


def _take_out(folder: SafeFolder, added: AdditionRecord, shown: str) -> Removal:
    try:
        data = folder.read(added.path, LARGEST)
    except MissingError:
        return Removal(shown, "gone")
    except AgentTalkError as error:  # a link or a folder has its place now: that is not ours
        return Removal(shown, "changed", error.message)
    same = hashlib.sha256(data).hexdigest() == added.sha256
    if added.made and same:
        folder.remove(added.path)
        return Removal(shown, "removed")
    taken = _reduce(data, added)
    if taken.why:
        return Removal(shown, "changed", taken.why)
    if taken.text is None:
        return Removal(shown, "gone")
    text = added.blank if same and added.blank else taken.text
    if added.made and not text.strip():
        folder.remove(added.path)
        return Removal(shown, "removed")
    rights = stat.S_IMODE((folder.path / added.path).stat().st_mode)
    folder.write(added.path, text.encode(), mode=rights)
    (folder.path / added.path).chmod(rights)
    return Removal(shown, "taken out")


def _reduce(data: bytes, added: AdditionRecord) -> ConfigMergeResult:
    """Take the addition out of the content of a file."""
    from agenttalk.rules.core.config_merge import ConfigMergeResult, remove_from_json, remove_from_text

    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ConfigMergeResult(why=cli_words.OBSTACLES["not_text"]())
    if added.keys:
        return remove_from_json(text, added.keys, added.value, held=added.held, first=added.first)
    if added.piece:
        return remove_from_text(text, added.piece)
    return ConfigMergeResult(why=cli_words.OBSTACLES["changed"]())


def _remove_root(root: Path, record: InitRecord, *, running: bool) -> Iterator[Removal]:
    """Remove a root that init made, if nothing but init's own state is in it."""
    shown = str(root)
    if not root.is_dir():
        _empty_operator_folder(root)
        yield Removal(shown, "gone")
        return
    more = "" if not running else cli_words.OBSTACLES["running"]()
    more = more or _find_more(root, record)
    if more:
        yield Removal(shown, "left" if running else "changed", more)
        return
    try:
        with SafeFolder.open(root) as folder:
            for path in (*_STORE, "data", "agents", "system_runtime", _IGNORE):
                folder.remove(path)
        _empty_operator_folder(root)
        root.rmdir()
    except (AgentTalkError, OSError) as error:
        yield Removal(shown, "left", error.message if isinstance(error, AgentTalkError) else str(error))
        return
    yield Removal(shown, "removed")


def _find_more(root: Path, record: InitRecord) -> str:
    """Say what a root holds that init did not make; empty if there is nothing."""
    known = {*_STORE, "data", "agents", "system_runtime", _IGNORE}
    found = sorted(path for each in root.rglob("*") if (path := each.relative_to(root).as_posix()) not in known)
    if found:
        return cli_words.OBSTACLES["holds_more"](path=found[0])
    try:
        if (root / _IGNORE).read_text() != "*\n":
            return cli_words.OBSTACLES["file_changed"](file=_IGNORE)
    except FileNotFoundError:  # it is nearly removed
        return ""
    if not (root / _STORE[0]).is_file():
        return ""
    others = [each for each in _list_tokens(root) if each["id"] not in record.tokens]
    return cli_words.OBSTACLES["other_tokens"](name=others[0]["name"]) if others else ""


def _empty_operator_folder(root: Path) -> None:
    """Remove what the operator's folder knows of a root that is gone."""
    folder = operator_folder.folder_of(root)
    for name in _OWN:
        (folder / name).unlink(missing_ok=True)
