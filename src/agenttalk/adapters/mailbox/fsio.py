"""Files in folders that others can write: read without following traps, written atomically.

A `SafeFolder` is an open directory, and nothing outside it can be reached through it:

- A path is checked before it is used: relative, without `.`, `..`, empty parts or NUL.
- The folders on its way are opened below the descriptor by openat2, which follows no symlink and does
  not leave. Its last part is opened with O_NOFOLLOW.
- Only a regular file with a single name is read, through one descriptor, never beyond a limit. A FIFO,
  socket or device is refused without waiting for it, a hard link because it may be another user's file.
- What is written gets a unique temporary name beside its place and is renamed into it when complete.

Names that are not UTF-8 come as `os.fsdecode` gives them; every function takes them back like that.

macOS, older kernels and sandboxes without openat2: paths are walked part by part, which is as safe and
a little slower. Without renameat2, `move` checks the target before it renames; a target that appears
between the two is replaced. Without /proc, a hard link that exists for microseconds only can escape notice.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Self

from agenttalk.adapters.mailbox import os_errors, syscalls
from agenttalk.adapters.mailbox.os_errors import translate_errors
from agenttalk.adapters.mailbox.syscalls import FOLDER, FileCalls, Rename
from agenttalk.contracts.errors import Code, MachineError, MissingError, TakenError
from agenttalk.ports.folders import Digest, FolderEntry

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CARRY_LIMIT: Final = 256 * 1024 * 1024
"""The largest file that `move` copies when the target lies on another file system."""

_PIECE: Final = 256 * 1024
PRIVATE: Final = 0o600
"""Rights of a file that we make: other users of the machine must not read it, with any umask."""
SHARED: Final = 0o666
"""Rights of a file in a project of the user: as readable as those that the user makes otherwise."""
_PRIVATE_FOLDER: Final = 0o700
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SafeFolder:
    """An open folder. Paths are relative to it, with `/` between their parts. Threads may share it."""

    __slots__ = ("descriptor", "path", "ways")

    def __init__(self, descriptor: int, path: Path, ways: FileCalls) -> None:
        self.descriptor = descriptor
        self.path = path
        self.ways = ways

    @classmethod
    def open(cls, path: Path, *, ways: FileCalls | None = None) -> Self:
        """Open a folder by a trusted path, symlinks included."""
        with translate_errors(path, Code.FILE_UNREADABLE):
            return cls(os.open(path, FOLDER & ~os.O_NOFOLLOW), path, ways or syscalls.find_native_calls())

    def open_folder(self, relative: str, *, create: bool = False) -> SafeFolder:
        """Open a folder inside this one; with `create`, make what is missing."""
        path = _checked(self, relative)
        with translate_errors(path, Code.FILE_UNWRITABLE if create else Code.FILE_UNREADABLE):
            return SafeFolder(_descend(self, relative, create=_PRIVATE_FOLDER if create else 0), path, self.ways)

    def close(self) -> None:
        """Close the descriptor. Every later use of the folder is an error."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def names(self) -> Iterator[str]:
        """Iterate over every name in the folder, hidden ones too, unordered; the folder is read lazily."""
        with _listed(self) as entries:
            for entry in entries:
                yield entry.name

    def scan(self, since: int = 0) -> Iterator[FolderEntry]:
        """Iterate over every entry of the folder, as `names` does. Skips what vanishes meanwhile.

        With `since`, a file counts only if it was changed at or after that time; a folder always does.
        """
        with _listed(self) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if status.st_ctime_ns >= since or stat.S_ISDIR(status.st_mode):
                    yield _entry(entry.name, status)

    def entry(self, relative: str) -> FolderEntry | None:
        """Describe the entry with this name; None if there is none."""
        try:
            with _at(self, relative, Code.FILE_UNREADABLE) as (folder, name):
                return _entry(name, os.stat(name, dir_fd=folder, follow_symlinks=False))
        except MissingError:
            return None

    def exists(self, relative: str) -> bool:
        """Return whether there is an entry with this name, even a dangling symlink."""
        return self.entry(relative) is not None

    def read(self, relative: str, limit: int) -> bytes:
        """Read a file that has at most `limit` bytes."""
        with _opened(self, relative, limit) as (_, pieces):
            return b"".join(pieces)

    def read_part(self, relative: str, start: int, size: int) -> bytes:
        """Read up to `size` bytes of a file of any size, from `start` on."""
        with _opened(self, relative, None, start=start) as (_, pieces):
            data = b""
            for piece in pieces:
                data += piece
                if len(data) >= size:
                    break
            return data[:size]

    @contextmanager
    def stream(self, relative: str, limit: int, *, linked: bool = False) -> Iterator[BinaryIO]:
        """Open a file that has at most `limit` bytes, to read it in chunks; if `linked`, it may have other names."""
        with _opened(self, relative, limit, linked=linked) as (_, pieces):
            yield io.BufferedReader(_Pieces(pieces), _PIECE)

    def digest(self, relative: str, limit: int) -> Digest:
        """Compute hash and size of a file that has at most `limit` bytes."""
        with _opened(self, relative, limit) as (_, pieces):
            return _pour(pieces)

    def write(
        self, relative: str, data: bytes, *, mode: int = PRIVATE, parents: bool = False, sync: bool = False
    ) -> None:
        """Write a whole file atomically: readers see the old one or the new one, never a part.

        `parents` makes missing folders, open to those who may read the file. With `sync`, returns when file and name
        are on the disk.
        """
        with (
            _at(self, relative, Code.FILE_UNWRITABLE, create=_around(mode) if parents else 0) as (folder, name),
            _placed(folder, name, mode=mode, sync=sync) as file,
        ):
            file.write(data)

    def append(self, relative: str, data: bytes, *, at: int) -> None:
        """Write at the offset `at` of a regular file, and cut off what follows. Creates the file if it is missing.

        Not atomic: readers may see a part, so use it for files that are read line by line.
        """
        with (
            _at(self, relative, Code.FILE_UNWRITABLE, create=_PRIVATE_FOLDER if "/" in relative else 0) as (
                folder,
                name,
            ),
            _closing(os.open(name, _APPEND, PRIVATE, dir_fd=folder)) as descriptor,
        ):
            _refuse_special(os.fstat(descriptor), self.path / relative)
            os.ftruncate(descriptor, at)
            left = memoryview(data)
            while left:
                written = os.pwrite(descriptor, left, at)
                left, at = left[written:], at + written

    def move(self, relative: str, target: SafeFolder, new: str, *, replace: bool = False) -> bool:
        """Move an entry without reading it. False, and nothing done, if the target exists.

        To another file system only regular files up to CARRY_LIMIT are moved, by copying and then removing: after a
        crash between the two, both exist.
        """
        rename = syscalls.rename if replace else target.ways.rename_new
        try:
            if not _renamed(self, relative, target, new, rename):
                _carry(self, relative, target, new, rename)
        except TakenError:
            return False
        return True

    def remove(self, relative: str) -> bool:
        """Remove a file or an empty folder. False if there was none."""
        try:
            with _at(self, relative, Code.FILE_UNWRITABLE) as (folder, name):
                is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
                (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
        except MissingError:
            return False
        return True

    def make_folder(self, relative: str, *, private: bool = False) -> None:
        """Make a folder, and those on the way to it that are missing. A private one is ours alone."""
        with self.open_folder(relative, create=True) as made:
            if private:
                with translate_errors(made.path, Code.FILE_UNWRITABLE):
                    os.fchmod(made.descriptor, stat.S_IRWXU)


def _checked(folder: SafeFolder, relative: str) -> Path:
    """Return the path for messages. Raises unless it is a path below the folder, so the system sees no other."""
    try:
        raw = os.fsencode(relative)
    except UnicodeEncodeError:
        raw = b""  # half a surrogate pair, which no file system returned
    parts = raw.split(b"/")
    if b"\0" in raw or len(raw) > 4095 or any(part in {b"", b".", b".."} or len(part) > 255 for part in parts):
        raise os_errors.outside_error(relative, folder.path)
    return folder.path / relative


@contextmanager
def _at(folder: SafeFolder, relative: str, code: Code, *, create: int = 0) -> Iterator[tuple[int, str]]:
    """Open the folder in which a path ends; return it with the path's last part. Errors have the `code`."""
    path = _checked(folder, relative)
    above, _, name = relative.rpartition("/")
    with translate_errors(path, code):
        if not above:
            yield folder.descriptor, name
            return
        with _closing(_descend(folder, above, create=create)) as descriptor:
            yield descriptor, name


def _around(mode: int) -> int:
    """Return the rights of folders that are made for a file: readers of the file may enter, writers may write."""
    return _PRIVATE_FOLDER | mode & SHARED | (mode & 0o444) >> 2


def _descend(folder: SafeFolder, relative: str, *, create: int) -> int:
    if create:
        return syscalls.open_beneath(folder.descriptor, relative, create=create)
    return folder.ways.descend(folder.descriptor, relative)


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _listed(folder: SafeFolder) -> Iterator[Iterator[os.DirEntry[str]]]:
    with (
        translate_errors(folder.path, Code.FILE_UNREADABLE),
        # A descriptor of its own: two listings at once must not share a position.
        _closing(os.open(".", FOLDER, dir_fd=folder.descriptor)) as descriptor,
        os.scandir(descriptor) as entries,
    ):
        yield entries


def _entry(name: str, status: os.stat_result) -> FolderEntry:
    is_file, is_folder = stat.S_ISREG(status.st_mode), stat.S_ISDIR(status.st_mode)
    kind: Literal["regular", "folder", "other"] = "regular" if is_file else "folder" if is_folder else "other"
    return FolderEntry(
        name, kind, status.st_size, status.st_ino, status.st_mtime_ns, status.st_nlink, status.st_ctime_ns
    )


@contextmanager
def _opened(
    folder: SafeFolder, relative: str, limit: int | None, *, linked: bool = False, start: int = 0
) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Return mode and content of a file, from one descriptor. Tries again if it is replaced while it is opened."""
    path = _checked(folder, relative)
    with _at(folder, relative, Code.FILE_UNREADABLE) as (above, name):
        for _ in range(syscalls.TRIES):
            with _closing(os.open(name, _READ, dir_fd=above)) as descriptor:
                status = os.fstat(descriptor)
                _refuse_special(status, path, linked=linked)
                if not syscalls.is_named(descriptor, above, name):
                    continue
                if limit is not None and status.st_size > limit:
                    raise os_errors.too_large_error(path, limit)
                if start:
                    os.lseek(descriptor, start, os.SEEK_SET)
                yield status.st_mode & 0o777, _pieces(descriptor, limit, path)
                return
        raise OSError(errno.EAGAIN, "it keeps being replaced")


def _refuse_special(status: os.stat_result, path: Path, *, linked: bool = False) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise os_errors.refusal_error(path, "it is not a regular file")
    if status.st_nlink > 1 and not linked:
        raise os_errors.refusal_error(path, "it is a hard link, so it may be another user's file")


def _pieces(descriptor: int, limit: int | None, path: Path) -> Iterator[bytes]:
    left = sys.maxsize - 1 if limit is None else limit
    while True:
        with translate_errors(path, Code.FILE_UNREADABLE):
            piece = os.read(descriptor, min(_PIECE, left + 1))
        left -= len(piece)
        if limit is not None and left < 0:  # it grew since it was opened
            raise os_errors.too_large_error(path, limit)
        if not piece:
            return
        yield piece


class _Pieces(io.RawIOBase):
    """Chunks of a file as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return true: it can only be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read as much as is there."""
        target = memoryview(buffer).cast("B")
        self._rest = self._rest or memoryview(next(self._pieces, b""))
        size = min(len(target), len(self._rest))
        target[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _pour(pieces: Iterable[bytes], file: BinaryIO | None = None) -> Digest:
    """Hash the chunks, and write them if there is a file for them."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        if file:
            file.write(piece)
    return Digest(f"sha256:{digest.hexdigest()}", size)


@contextmanager
def _placed(
    folder: int, name: str, *, mode: int = PRIVATE, sync: bool = False, rename: Rename = syscalls.rename
) -> Iterator[BinaryIO]:
    """Open a file for writing that gets its name when the block ends, and is removed when the block fails."""
    temporary = f".agenttalk-{secrets.token_hex(16)}.tmp"
    descriptor = os.open(temporary, _CREATE, mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(descriptor)
        rename(folder, temporary, folder, name)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if sync:
        os.fsync(folder)  # otherwise a power cut may undo the rename, although the content is durable


def _renamed(folder: SafeFolder, relative: str, target: SafeFolder, new: str, rename: Rename) -> bool:
    """Return whether a rename did it; False means that the target lies on another file system."""
    with (
        _at(folder, relative, Code.FILE_UNREADABLE) as (here, name),
        _at(target, new, Code.FILE_UNWRITABLE) as (there, last),
    ):
        try:
            rename(here, name, there, last)
        except FileNotFoundError as error:
            raise os_errors.machine_error(folder.path / relative, error, Code.FILE_UNREADABLE) from error
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False
    return True


def _carry(folder: SafeFolder, relative: str, target: SafeFolder, new: str, rename: Rename) -> None:
    with (
        _opened(folder, relative, CARRY_LIMIT) as (mode, pieces),
        _at(target, new, Code.FILE_UNWRITABLE) as (there, last),
        _placed(there, last, mode=mode, rename=rename) as file,
    ):
        _pour(pieces, file)
    folder.remove(relative)


def read_file(path: Path, *, limit: int) -> bytes:
    """Read a regular file. Refuses a symlink, FIFO or device, and a file over the limit."""
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unreadable(path, "not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _unreadable(path, f"larger than {limit:,} bytes")
    return data


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file atomically, like `SafeFolder.write`, and make the folders on the way to it.

    It is as readable as the files that its user makes otherwise.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise os_errors.machine_error(path, error, Code.FILE_UNWRITABLE) from error
    with SafeFolder.open(path.parent) as folder:
        folder.write(path.name, data, mode=SHARED)


def _unreadable(path: Path, why: str) -> MachineError:
    return MachineError(Code.FILE_UNREADABLE, f"cannot read {path}: {why}", hint="check the path and its permissions")
