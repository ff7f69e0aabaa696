"""Files of a tree that others can write to: read without being led astray, written atomically."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from agenttalk.errors import Code, MachineError


def read_file(path: Path, *, limit: int) -> bytes:
    """The bytes of a regular file. A symlink, FIFO or device is refused, and so is one over the limit."""
    try:
        # O_NONBLOCK: opening a FIFO must not wait for somebody to write into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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
    """Put a whole file in place at once: readers see the old one or the new one, never half of it."""
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise MachineError(
            Code.FILE_UNWRITABLE,
            f"cannot write {path}: {error.strerror or error}",
            hint="look at the folder's permissions and at the free space",
        ) from error


def names_in(folder: Path) -> list[str]:
    """The names in a folder; none when it does not exist."""
    try:
        return [entry.name for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(folder, error.strerror or str(error)) from error


def _unreadable(path: Path, why: str) -> MachineError:
    return MachineError(Code.FILE_UNREADABLE, f"cannot read {path}: {why}", hint="look at the path and its permissions")
