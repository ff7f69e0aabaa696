"""Temporary folders of turns and checks. If this process is killed, the next engine of the same user removes them.

Programs see the name of such a folder, so it says nothing. A note in a folder of ours says which ones we made. The
process that made it holds a lock on the note, which the kernel frees with the process.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agenttalk.adapters import sandbox

_PREFIX: Final = "tmp"
_LONGEST: Final = 4096
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class TemporaryFolder:
    """A temporary folder, and the note about it."""

    path: Path
    note: Path | None
    descriptor: int
    """Where the lock on the note is held."""

    def remove(self) -> None:
        """Remove the folder with everything in it, then the note."""
        sandbox.erase(self.path)
        if self.note is not None:
            with suppress(OSError):
                self.note.unlink()
                self.note.parent.rmdir()  # unless there are other notes
            os.close(self.descriptor)


def make_temporary_folder(parent: Path | None = None, *, prefix: str = _PREFIX) -> TemporaryFolder:
    """Make a folder with rights for this user alone. Where a note cannot be made, there is none."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).absolute()
    for _ in range(_TRIES):  # another process may remove a folder that is empty
        with suppress(OSError):
            return TemporaryFolder(path, *_write_note(path))
    return TemporaryFolder(path, None, -1)


def _write_note(path: Path) -> tuple[Path, int]:
    """Write the note about a folder. Returns it, and the descriptor that holds its lock."""
    note = _folder_of_notes() / secrets.token_hex(8)
    note.parent.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(note.parent):
        raise PermissionError(f"{note.parent} is not a folder of ours alone")
    descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # Locked while it is empty: who finds it before that has nothing to remove.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, os.fsencode(path))
    except OSError:
        os.close(descriptor)
        raise
    return note, descriptor


def sweep_temporary_folders() -> None:
    """Remove the folders whose processes are dead, with their notes."""
    notes = _folder_of_notes()
    with suppress(OSError):
        if _is_ours(notes):
            for name in os.listdir(notes):  # noqa: PTH208 - names are enough
                _sweep(notes / name)


def _sweep(note: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path = Path(os.fsdecode(os.read(descriptor, _LONGEST)))
            with suppress(FileNotFoundError):
                if path.is_absolute() and _is_ours(path):
                    sandbox.erase(path)
            note.unlink()
        finally:
            os.close(descriptor)


def _is_ours(folder: Path) -> bool:
    """Return whether this is a folder, and no link, that only this user can use."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _folder_of_notes() -> Path:
    return Path(tempfile.gettempdir()) / f"agenttalk-made-{os.getuid()}"
