"""Folders that agents can write, and their entries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class FolderEntry(NamedTuple):
    """An entry of a folder. A symlink is described itself, not its target."""

    name: str
    kind: Literal["regular", "folder", "other"]
    size: int
    inode: int
    mtime_ns: int
    nlink: int
    ctime_ns: int = 0
    """The time of the last change, also of its name and rights; 0 if it was not read."""

    @property
    def is_text(self) -> bool:
        """Whether the name is UTF-8, so that documents can contain it."""
        return not any("\ud800" <= char <= "\udfff" for char in self.name)


class Digest(NamedTuple):
    """The hash and size of a file's content."""

    sha256: str
    """The hash in the form of documents: `sha256:<64 lowercase hex digits>`."""
    size: int


class Folder(Protocol):
    """An open folder. No path or symlink in it leads to files that are not in it.

    Paths are relative, with `/` between their parts. What others put there to mislead is refused with
    InputError (FILE_UNSAFE, FILE_TOO_LARGE, PATH_OUTSIDE_FOLDER); what the machine would not do is a
    MachineError, MissingError when nothing has the name. Calls block; threads may share a folder.
    """

    @property
    def path(self) -> Path:
        """Its path, for messages and for programs that are started in it."""

    def open_folder(self, relative: str, *, create: bool = False) -> AbstractContextManager[Folder]:
        """Open a folder in this one; `create` makes missing folders. Close it after use."""

    def names(self) -> Iterator[str]:
        """Iterate over every name in the folder, hidden ones too, in no order."""

    def scan(self, since: int = 0) -> Iterator[FolderEntry]:
        """Iterate over every entry of the folder, in no order.

        With `since`, a file counts only if it was changed at or after that time, in nanoseconds; a folder always does.
        """

    def entry(self, relative: str) -> FolderEntry | None:
        """Describe the entry with this name; None if there is none."""

    def exists(self, relative: str) -> bool:
        """Whether an entry has this name, even a dangling symlink."""

    def read(self, relative: str, limit: int) -> bytes:
        """Read a regular file of at most `limit` bytes."""

    def read_part(self, relative: str, start: int, size: int) -> bytes:
        """Read up to `size` bytes of a regular file of any size, from `start` on."""

    def stream(self, relative: str, limit: int, *, linked: bool = False) -> AbstractContextManager[BinaryIO]:
        """Open a file of at most `limit` bytes, to read it in chunks.

        If `linked`, it may have other names: then it may be a file of another program: only read it.
        """

    def digest(self, relative: str, limit: int) -> Digest:
        """Compute the hash and size of a file."""

    def write(
        self, relative: str, data: bytes, *, mode: int = 0o600, parents: bool = False, sync: bool = False
    ) -> None:
        """Write a whole file atomically; `parents` makes missing folders, `sync` makes it durable."""

    def append(self, relative: str, data: bytes, *, at: int) -> None:
        """Write at the offset `at`, and cut off what follows. Not atomic."""

    def move(self, relative: str, target: Self, new: str, *, replace: bool = False) -> bool:
        """Move an entry. Returns False and does nothing if the target exists."""

    def remove(self, relative: str) -> bool:
        """Remove a file or an empty folder. Returns False if there was none."""

    def make_folder(self, relative: str, *, private: bool = False) -> None:
        """Make a folder and its parents. A private one is closed to other users, also if it existed."""
