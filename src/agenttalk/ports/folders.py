"""Folders that agents write in, and what lies there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class FolderEntry(NamedTuple):
    """What a folder holds under a name. A symlink is described itself, not what it points to."""

    name: str
    kind: Literal["regular", "folder", "other"]
    size: int
    inode: int
    mtime_ns: int
    nlink: int
    ctime_ns: int = 0
    """When it was changed last, its name and rights included; 0 if it was not read."""

    @property
    def is_text(self) -> bool:
        """Whether the name is UTF-8, and so can be written into a document."""
        return not any("\ud800" <= char <= "\udfff" for char in self.name)


class Digest(NamedTuple):
    """What identifies the content of a file."""

    sha256: str
    """As documents write it: `sha256:<64 lowercase hex digits>`."""
    size: int


class Folder(Protocol):
    """An open folder that nothing outside of it can be reached through.

    Paths are relative, with `/` between their parts. What others put there to mislead is refused with
    InputError (FILE_UNSAFE, FILE_TOO_LARGE, PATH_OUTSIDE_FOLDER); what the machine would not do is a
    MachineError, MissingError when nothing has the name. Calls block; threads may share a folder.
    """

    @property
    def path(self) -> Path:
        """Where it lies, for messages and for programs that are started in it."""

    def open_folder(self, relative: str, *, create: bool = False) -> AbstractContextManager[Folder]:
        """A folder inside this one; with `create`, what is missing of it is made. Close it after use."""

    def names(self) -> Iterator[str]:
        """Every name in the folder, hidden ones too, in no order."""

    def scan(self) -> Iterator[FolderEntry]:
        """Every entry of the folder, in no order."""

    def entry(self, relative: str) -> FolderEntry | None:
        """What has this name; None if nothing has."""

    def exists(self, relative: str) -> bool:
        """Whether there is anything of this name, be it a dangling symlink."""

    def read(self, relative: str, limit: int) -> bytes:
        """The bytes of a regular file that has at most `limit` of them."""

    def read_part(self, relative: str, start: int, size: int) -> bytes:
        """Up to `size` bytes of a regular file, however large it is, from `start` on."""

    def stream(self, relative: str, limit: int, *, linked: bool = False) -> AbstractContextManager[BinaryIO]:
        """A file that has at most `limit` bytes, to be read piece by piece.

        If `linked`, it may have other names: then it may be a file of another program: only read it.
        """

    def digest(self, relative: str, limit: int) -> Digest:
        """Hash and size of a file."""

    def copy_to(self, relative: str, target: Self, new: str, limit: int, *, sync: bool = False) -> Digest:
        """Copy a file; hash and size of exactly what was written."""

    def write(
        self, relative: str, data: bytes, *, mode: int = 0o600, parents: bool = False, sync: bool = False
    ) -> None:
        """Put a whole file in place at once; `parents` makes missing folders, `sync` makes it durable."""

    def append(self, relative: str, data: bytes, *, at: int) -> None:
        """Write at the end of a file, which is `at`; what lies behind it is cut off. Not atomic."""

    def move(self, relative: str, target: Self, new: str, *, replace: bool = False) -> bool:
        """Move the entry of this name. False, and nothing done, if the target exists."""

    def remove(self, relative: str) -> bool:
        """Remove a file or an empty folder. False if there was none."""

    def make_folder(self, relative: str, *, private: bool = False) -> None:
        """Make a folder and those on the way to it. A private one is closed to other users, also if it was there."""
