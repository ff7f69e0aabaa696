"""Remembers what `agenttalk init` added to a repository, so that `agenttalk init --remove` takes out exactly that.

The record lies in the operator's folder: an agent that is kept in its own folder cannot name files there that are to be
removed. It is written before the files are, so it may name additions that were never made.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from agenttalk.adapters.mailbox import sweep
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.store import files, operator_folder, root_lock
from agenttalk.contracts.core.base import Part
from agenttalk.contracts.errors import AgentTalkError, Code, MachineError

Place = Literal["repository", "root"]


class AdditionRecord(Part):
    """A file that init made, or to which it added something."""

    place: Place
    path: str
    sha256: str
    """Hash of the file after the addition."""
    made: bool
    """Whether init made the whole file."""
    folders: tuple[str, ...] = ()
    """Folders that init made for it, the innermost first."""
    piece: str = ""
    """The text that was added at its end."""
    keys: tuple[str, ...] = ()
    """The path of the entry that was added to JSON."""
    value: Any = None
    """That entry."""
    held: int = 0
    """How many of the keys were there before."""
    first: dict[str, Any] | None = None
    """Fields that init put into a new file besides."""
    blank: str = ""
    """What the file held before, if that was nothing but space."""


class InitRecord(Part):
    """What init added for one repository and one root."""

    repository: str
    root: str
    made_root: bool
    """Whether the root was made by init."""
    files: tuple[AdditionRecord, ...] = ()
    tokens: tuple[str, ...] = ()
    """Ids of the tokens that it made."""
    agents: tuple[str, ...] = ()
    """The agents that it made tokens for."""

    def with_additions(self, added: Iterable[AdditionRecord]) -> InitRecord:
        """Return the record with further additions. A newer one replaces an older one to the same file.

        Folders that were made for the older one stay known: a process may have been killed between folder and file.
        """
        known = {(each.place, each.path): each for each in self.files}
        for each in added:
            before = known.get((each.place, each.path))
            folders = tuple(dict.fromkeys((*each.folders, *(before.folders if before is not None else ()))))
            inner_first = sorted(folders, key=lambda path: -path.count("/"))
            known[each.place, each.path] = each.model_copy(update={"folders": tuple(inner_first)})
        return self.model_copy(update={"files": tuple(known.values())})

    def with_only(self, left: Sequence[AdditionRecord]) -> InitRecord:
        """Return the record with some of its files, which remember the folders of the others, too."""
        every: dict[Place, list[str]] = {"repository": [], "root": []}
        for each in self.files:
            every[each.place] += each.folders
        inner_first = {
            place: tuple(sorted(dict.fromkeys(paths), key=lambda path: -path.count("/")))
            for place, paths in every.items()
        }
        kept = (each.model_copy(update={"folders": inner_first[each.place]}) for each in left)
        return self.model_copy(update={"files": tuple(kept)})

    def take_over(self, other: InitRecord) -> InitRecord:
        """Return the record with the additions of another one to the root, which both use."""
        taken = self.with_additions(each for each in other.files if each.place == "root")
        update = {
            "made_root": self.made_root or other.made_root,
            "tokens": tuple(dict.fromkeys((*self.tokens, *other.tokens))),
            "agents": tuple(dict.fromkeys((*self.agents, *other.agents))),
        }
        return taken.model_copy(update=update)

    def list_folders(self, place: Place) -> list[str]:
        """List the folders of the files that were added, but for the top."""
        found = (str(Path(each.path).parent) for each in self.files if each.place == place)
        return list(dict.fromkeys(each for each in found if each != "."))

    def with_token(self, agent: str, token_id: str) -> InitRecord:
        """Return the record with a further token."""
        tokens = tuple(dict.fromkeys((*self.tokens, token_id)))
        return self.model_copy(update={"tokens": tokens, "agents": tuple(dict.fromkeys((*self.agents, agent)))})


@contextmanager
def lock_setup() -> Iterator[None]:
    """Let one process of this user at a time set up or undo."""
    folder = operator_folder.folder_of(Path()).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise files.write_error(folder, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_record(repository: Path, root: Path) -> InitRecord | None:
    """Read the record of a repository and its root; None if nothing is recorded. Raises MachineError."""
    return _read(_path_of(repository, root))


def _read(path: Path) -> InitRecord | None:
    try:
        return TypeAdapter(InitRecord).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise MachineError(
            Code.FILE_UNREADABLE,
            f"cannot read {path}, which says what 'agenttalk init' added",
            hint="look at it; without it, init neither adds to what it knows nor removes anything",
        ) from error


def find_other(repository: Path, root: Path) -> InitRecord | None:
    """Find the record of another repository that uses the same root; None if there is none. Raises MachineError."""
    own = _path_of(repository, root)
    others = sorted(path for path in own.parent.glob("init-*.json") if path != own)
    return next((found for path in others if (found := _read(path)) is not None), None)


def write_record(repository: Path, root: Path, record: InitRecord) -> None:
    """Write the record durably, before what it names is done. Raises MachineError."""
    path = _path_of(repository, root)
    folder = operator_folder.ensure_folder(root)
    draft = folder / f".{secrets.token_hex(12)}.tmp"
    try:
        operator_folder.write_private(draft, record.model_dump_json(indent=2).encode() + b"\n")
        draft.replace(path)
        files.sync_folder(folder)
    except OSError as error:
        raise files.write_error(path, error) from error
    finally:
        draft.unlink(missing_ok=True)


def remove_drafts(record: InitRecord) -> None:
    """Remove what a killed process left beside the files of a record. An engine cleans its root by itself."""
    repository, root = Path(record.repository), Path(record.root)
    places: list[tuple[Path, list[str]]] = [(repository, record.list_folders("repository"))]
    if root.is_dir() and root_lock.running_engine(root) is None:
        places.append((root, ["agents", "data", *record.list_folders("root")]))
    for folder, relatives in places:
        with suppress(AgentTalkError), SafeFolder.open(folder) as opened:
            sweep.remove_drafts(opened, relatives)


def forget_record(repository: Path, root: Path) -> None:
    """Remove the record, and the operator's folder of the root if nothing else is in it."""
    path = _path_of(repository, root)
    try:
        with SafeFolder.open(path.parent) as folder:
            sweep.remove_drafts(folder)
            folder.remove(path.name)
        path.parent.rmdir()
    except (AgentTalkError, OSError):  # it holds more, or is gone
        return


def _path_of(repository: Path, root: Path) -> Path:
    name = hashlib.sha256(os.fsencode(repository.resolve())).hexdigest()[:16]
    return operator_folder.folder_of(root) / f"init-{name}.json"
