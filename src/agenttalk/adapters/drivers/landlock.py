"""Landlock: a process gives up rights, for itself and everything that it starts, without any privilege.

No library wraps its system calls. The keeper loads this module too, from the same folder, so it imports next to
nothing.

Landlock grants paths with everything below them, and cannot exclude anything inside a granted path. So a path is hidden
when it lies in no granted path; the caller names the paths around it.

Landlock cannot stop changes of rights and times of files, hide the names of files from a program that guesses them, or
block sockets that are files. It does not cover UDP either; without the network, a filter of system calls (`seccomp`)
allows no other sockets than files.
"""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OLDEST = 3
"""The version since which truncating can be forbidden: Linux 6.2."""
OLDEST_OFFLINE = 4
"""The version since which connections can be forbidden: Linux 6.7."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_BENEATH = 1
_FILE = 1 << 1 | 1 << 14
"""Writing a file, and truncating it."""
_READ_FILE = 1 << 0 | 1 << 2
"""Reading a file, and running it."""
_READS = _READ_FILE | 1 << 3
"""The same, and listing a folder."""
_WRITES = _FILE | sum(1 << bit for bit in range(4, 14))
"""Everything that changes something: also removing, creating of every kind, and moving between folders."""
_NET_FROM, _NET = 4, 0b11
"""Binding and connecting by TCP."""
_SCOPES_FROM, _SCOPES = 6, 0b11
"""Abstract sockets and signals reach only processes that are confined in the same way."""
_DROP, _NO_NEW_PRIVILEGES = 24, 38
_ABSTRACT = 0b01
_SET_USER_ID = 0o4000
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""Without terminals: those of all programs of a user lie in one folder, and reading them reveals what people type."""


def read_version() -> int:
    """Return the version of landlock in the kernel; 0 without it."""
    if os.uname().sysname != "Linux":
        return 0
    version = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)
    return max(int(version), 0)


def describe_problem(*, network: bool = True) -> str:
    """Explain why landlock cannot meet the demands here; empty if it can."""
    version = read_version()
    if version < OLDEST:
        have = f"version {version}" if version else "none"
        return f"the kernel's landlock is too old: version {OLDEST} is needed, {have} is there"
    if not network and version < OLDEST_OFFLINE:
        return f"without the network landlock must have version {OLDEST_OFFLINE}, and here is {version}"
    return ""


def restrict(writable: Iterable[bytes], readable: Iterable[bytes], *, network: bool) -> None:
    """Let this process, and everything that it starts, write only `writable` and read only both.

    Skips readable paths that are gone or are symlinks. This cannot be undone. Raises OSError.
    """
    calls = ctypes.CDLL(None, use_errno=True)
    known = read_version()
    if known < (OLDEST if network else OLDEST_OFFLINE):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    handled = (_WRITES | _READS).to_bytes(8, "little")
    handled += (0 if network else _NET).to_bytes(8, "little") if known >= _NET_FROM else b""
    handled += _SCOPES.to_bytes(8, "little") if known >= _SCOPES_FROM else b""
    rules = _checked(calls.syscall(_CREATE, handled, ctypes.c_size_t(len(handled)), 0))
    for path in writable:
        _grant(calls, rules, path, _WRITES | _READS)
    for path in readable:
        try:
            _grant(calls, rules, path, _READS)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # a path that is gone cannot be read anyway
    for name in _DEVICES:
        try:
            _grant(calls, rules, b"/dev/" + name.encode(), _WRITES | _READS)
        except FileNotFoundError:
            continue
    for capability in range(64):  # else root could read every process, and raise its limits
        if calls.prctl(_DROP, capability, 0, 0, 0) < 0:
            break  # the kernel has no further capability
    _checked(calls.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(calls.syscall(_RESTRICT, rules, 0))
    os.close(rules)


def isolate_sockets(program: bytes) -> None:
    """Let this process, and everything that it starts, reach only their own abstract sockets, where the kernel can.

    Takes no other right away, so `program` can still mount. It must not be a program with set-user-id. Raises OSError.
    """
    if read_version() < _SCOPES_FROM or os.stat(program).st_mode & _SET_USER_ID:  # noqa: PTH116 - pathlib is slow to load
        return
    calls = ctypes.CDLL(None, use_errno=True)
    handled = bytes(16) + _ABSTRACT.to_bytes(8, "little")
    rules = _checked(calls.syscall(_CREATE, handled, ctypes.c_size_t(len(handled)), 0))
    _checked(calls.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(calls.syscall(_RESTRICT, rules, 0))
    os.close(rules)


def _grant(calls: ctypes.CDLL, rules: int, path: bytes, rights: int) -> None:
    """Grant a path. Does not follow a symlink, because its target may be hidden."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        kind = os.fstat(place).st_mode & 0o170000
        if kind == 0o120000:
            return
        rights &= _READS | _WRITES if kind == 0o040000 else _READ_FILE | _FILE
        asked = rights.to_bytes(8, "little") + place.to_bytes(4, "little")
        _checked(calls.syscall(_ADD, rules, _BENEATH, asked, 0))
    finally:
        os.close(place)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
