"""Files that must survive a power cut: written aside, synced, put in place, and the folder synced too."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from agenttalk.contracts.errors import Code, MachineError

PRIVATE: Final = ("data", "system_runtime", "workspaces", "agenttalk.toml")
"""What of a root other users have no business with. Folders of agents may be made for others to work in."""


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each entered durably into the one that holds it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error
    sync_folder(folder.parent)


def make_private(file: Path) -> None:
    """Make a file that other users cannot read, unless it is there. Raises MachineError."""
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise write_error(file, error) from error


def close_to_others(root: Path) -> None:
    """Take a root's state, settings and work away from other users, also what was made with other rights."""
    for name in PRIVATE:
        path = root / name
        try:
            rights = stat.S_IMODE(path.lstat().st_mode)
            if rights & 0o077 and not path.is_symlink():
                path.chmod(rights & ~0o077)
        except OSError:  # it is missing, or another user owns it
            continue


def sync_folder(folder: Path) -> None:
    """Make what was created, renamed or removed in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DraftFile:
    """A file in the making, under a name that no other file has. `place` makes it durable and visible at once."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.path = folder / f".{secrets.token_hex(12)}.tmp"
        try:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise write_error(self.path, error) from error

    def write(self, data: bytes) -> None:
        """Append."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise write_error(self.path, error) from error

    def place(self, path: Path) -> None:
        """Sync it, give it its name, sync the folder."""
        try:
            os.fsync(self._descriptor)
            make_folder(path.parent)
            self.path.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise write_error(path, error) from error

    def close(self) -> None:
        """Let go, and remove what was not placed."""
        os.close(self._descriptor)
        self.path.unlink(missing_ok=True)


def write_durably(path: Path, data: bytes) -> None:
    """Put a whole file in place; after a crash it is the old one or the new one."""
    draft = DraftFile(path.parent)
    try:
        draft.write(data)
        draft.place(path)
    finally:
        draft.close()


def write_error(path: Path, error: OSError) -> MachineError:
    """Translate the error of a file."""
    return MachineError(
        Code.FILE_UNWRITABLE,
        f"cannot write {path}: {error.strerror or error}",
        hint="look at the folder's permissions and at the free space",
    )
