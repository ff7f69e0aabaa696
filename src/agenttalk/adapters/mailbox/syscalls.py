"""Opens folders and renames below a descriptor: with Linux's own calls, or with those of every system.

Only `fsio` uses this. It checks paths; here they are relative and have no `..`. Errors are OSErrors.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES: Final = 100
"""How often an entry that changes meanwhile is read again before it is an error."""

_OPENAT2: Final = 437
_BENEATH, _NO_SYMLINKS, _NO_MAGICLINKS = 0x08, 0x04, 0x02
_HOW: Final = struct.pack("=QQQ", FOLDER, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
_NOREPLACE: Final = 1

Rename = Callable[[int, str, int, str], None]
"""Renames a name in one open folder to a name in another."""


class FileCalls(NamedTuple):
    """The two operations for which not every system has a call."""

    descend: Callable[[int, str], int]
    """Opens a folder below an open one, following no symlink."""
    rename_new: Rename
    """Renames, but not onto a name that is taken (FileExistsError)."""


def open_beneath(folder: int, relative: str, *, create: int = 0) -> int:
    """Open one part after the other. By its flags, no open follows what is swapped in meanwhile.

    `create` makes what is missing, with these rights.
    """
    here = os.open(".", FOLDER, dir_fd=folder)
    for part in relative.split("/"):
        above = here
        try:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, create, dir_fd=above)
            here = os.open(part, FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return here


def _openat2(folder: int, relative: str) -> int:
    """Let the kernel walk. EAGAIN means that something was renamed meanwhile."""
    call, path = _libc().syscall, os.fsencode(relative)
    for _ in range(TRIES):
        descriptor = call(ctypes.c_long(_OPENAT2), folder, path, _HOW, ctypes.c_size_t(len(_HOW)))
        if descriptor >= 0:
            return int(descriptor)
        if ctypes.get_errno() not in {errno.EAGAIN, errno.EINTR}:
            break
    raise _last_error()


def rename(here: int, name: str, there: int, new: str) -> None:
    """Rename, replacing what is there."""
    os.rename(name, new, src_dir_fd=here, dst_dir_fd=there)


def _rename_checked(here: int, name: str, there: int, new: str) -> None:
    os.stat(name, dir_fd=here, follow_symlinks=False)  # report a missing source first, as the kernel does
    try:
        os.stat(new, dir_fd=there, follow_symlinks=False)
    except FileNotFoundError:
        rename(here, name, there, new)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _renameat2(here: int, name: str, there: int, new: str) -> None:
    if _libc().renameat2(here, os.fsencode(name), there, os.fsencode(new), _NOREPLACE) == 0:
        return
    error = _last_error()
    if error.errno not in {errno.EINVAL, errno.ENOSYS, errno.EPERM}:  # not in this file system, kernel or sandbox
        raise error
    _rename_checked(here, name, there, new)


def is_named(descriptor: int, folder: int, name: str) -> bool:
    """Return whether a file is still there under the name by which it was opened, and was there all the time.

    A link to a foreign file could be removed between open and fstat, which then counts one link. A stat of the name
    does not help: it may find the file just before the removal, and count just after. Linux knows by which name a file
    was opened, and whether that name is gone. Renaming the name to itself changes nothing but waits until a removal
    under way is finished.
    """
    try:
        os.rename(name, name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # read-only, or forbidden by a sandbox
    if _knows_paths():
        return _path_of(descriptor) == _path_of(folder) / name
    return os.path.samestat(os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False))


def _path_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


@cache
def _knows_paths() -> bool:
    return sys.platform == "linux" and os.access("/proc/self/fd", os.X_OK)


PORTABLE: Final = FileCalls(open_beneath, _rename_checked)
"""Return the operations of every system. Tests use them to show that they are as safe."""


@cache
def find_native_calls() -> FileCalls:
    """Return the best operations of this system, determined once."""
    if sys.platform != "linux":
        return PORTABLE
    rename_new = _renameat2 if hasattr(_libc(), "renameat2") else _rename_checked
    return FileCalls(_openat2 if _has_openat2() else open_beneath, rename_new)


def _has_openat2() -> bool:
    top = os.open("/", FOLDER)
    try:
        os.close(_openat2(top, "."))
    except OSError:  # an old kernel does not know the call, a sandbox may forbid it
        return False
    finally:
        os.close(top)
    return True


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
