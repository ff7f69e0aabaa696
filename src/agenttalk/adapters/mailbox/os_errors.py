"""Translates errors of the system about a path: into an attempt to mislead us, or a machine that refused.

Only `fsio` uses this. Paths are shown as `repr` shows them, so that a hostile name stays on its line.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agenttalk.contracts.errors import Code, FullDiskError, InputError, MachineError, MissingError, TakenError
from agenttalk.rules.text import check_words

_REFUSALS: Final = {
    errno.ELOOP: "it is a symlink or lies behind one",
    errno.ENOTDIR: "a part of it is a symlink or not a folder",
    errno.EXDEV: "it leaves the folder",
    errno.ENXIO: "it is a socket or a device",
    errno.EOPNOTSUPP: "it is a socket or a device",
}
_KINDS: Final = {
    errno.ENOENT: MissingError,
    errno.EEXIST: TakenError,
    errno.ENOSPC: FullDiskError,
    errno.EDQUOT: FullDiskError,
}
_HINTS: Final = {
    errno.ENOENT: "check whether it was moved or not created yet",
    errno.ENOSPC: "make room on the disk, then try again",
    errno.EDQUOT: "make room within the quota, then try again",
    errno.EROFS: "mount the file system writable, then try again",
    errno.EMFILE: "allow the process more open files (ulimit -n)",
    errno.EISDIR: "move the folder of this name out of the way",
    errno.ENOTEMPTY: "empty the folder first",
}


@contextmanager
def translate_errors(path: Path, code: Code) -> Iterator[None]:
    """Translate the OSErrors of a block. For a path that others made, some of them are attempts to mislead."""
    try:
        yield
    except OSError as error:
        raise _misled(path, error) or machine_error(path, error, code) from error


def _misled(path: Path, error: OSError) -> InputError | None:
    why = _REFUSALS.get(error.errno or 0)
    return refusal_error(path, why) if why else None


def machine_error(path: Path, error: OSError, code: Code) -> MachineError:
    """Make the error for what the machine refused."""
    number = error.errno or 0
    kind = _KINDS.get(number, MachineError)
    verb = "write" if code is Code.FILE_UNWRITABLE else "read"
    hint = _HINTS.get(number, "check the path, its permissions and the free space")
    return kind(code, check_words.CANNOT(verb=verb, path=str(path), error=error.strerror or error), hint=hint)


def refusal_error(path: Path, why: str) -> InputError:
    """Make the error for an entry that is not accepted from others."""
    return InputError(
        Code.FILE_UNSAFE, check_words.REFUSED(path=str(path), why=why), hint="put a plain file or folder there"
    )


def too_large_error(path: Path, limit: int) -> InputError:
    """Make the error for a file over its limit."""
    why = check_words.TOO_LARGE(limit=limit)
    return InputError(
        Code.FILE_TOO_LARGE, check_words.REFUSED(path=str(path), why=why), hint="make it smaller or split it"
    )


def outside_error(relative: str, folder: Path) -> InputError:
    """Make the error for a path that could lead out of its folder, or that no file can have."""
    return InputError(
        Code.PATH_OUTSIDE_FOLDER,
        f"{relative[:140]!r} is not a path inside {str(folder)!r}",
        hint="give a relative path without '.', '..', '//' or NUL, with at most 255 bytes in each part",
    )
