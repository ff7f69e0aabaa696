"""Landlock: a process gives up what it may do, for itself and for whatever it starts, without any privilege.

It is asked for by system calls that no library wraps. This module is also loaded by the keeper, beside which it lies,
so it imports next to nothing.

It grants places and everything below them, and cannot take away again what lies inside of a place that it granted. So
what is hidden is what lies in no granted place; whoever asks names the places around it.

What landlock cannot do: keep rights and times of files from being changed, keep the names of hidden files from whoever
knows them, or keep a program from sockets that are files. UDP is not its business either; without the network, a filter
of system calls (`seccomp`) lets a program open no sockets but those.
"""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OLDEST = 3
"""The version from which nothing outside can be cut to length: Linux 6.2."""
OLDEST_OFFLINE = 4
"""The version from which connections can be forbidden: Linux 6.7."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_BENEATH = 1
_FILE = 1 << 1 | 1 << 14
"""Writing a file, and cutting it to length."""
_READ_FILE = 1 << 0 | 1 << 2
"""Reading a file, and running it."""
_READS = _READ_FILE | 1 << 3
"""The same, and listing a folder."""
_WRITES = _FILE | sum(1 << bit for bit in range(4, 14))
"""All that changes anything: also removing, making of every kind, and moving between folders."""
_NET_FROM, _NET = 4, 0b11
"""Binding and connecting by TCP."""
_SCOPES_FROM, _SCOPES = 6, 0b11
"""Abstract sockets and signals reach only what is confined in the same way."""
_DROP, _NO_NEW_PRIVILEGES = 24, 38
_ABSTRACT = 0b01
_SET_USER_ID = 0o4000
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""No terminals: those of all programs of a user lie in one folder, and whoever reads them reads what people type."""


def read_version() -> int:
    """Which landlock the kernel has; 0 when it has none."""
    if os.uname().sysname != "Linux":
        return 0
    found = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)
    return max(int(found), 0)


def describe_problem(*, network: bool = True) -> str:
    """Why landlock does not do here what is asked of it; empty if it does."""
    found = read_version()
    if found < OLDEST:
        have = f"version {found}" if found else "none"
        return f"the kernel has no landlock that can be used (version {OLDEST} is needed, and there is {have})"
    if not network and found < OLDEST_OFFLINE:
        return f"without the network landlock must have version {OLDEST_OFFLINE}, and here is {found}"
    return ""


def restrict(writable: Iterable[bytes], readable: Iterable[bytes], *, network: bool) -> None:
    """Let this process, and all that it will start, write and read only these places, and read those.

    What is readable and not there any more, or a symlink, is passed over. There is no way back. Raises OSError.
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
            continue  # nobody can read it then
    for name in _DEVICES:
        try:
            _grant(calls, rules, b"/dev/" + name.encode(), _WRITES | _READS)
        except FileNotFoundError:
            continue
    for capability in range(64):  # else root could look into every process, and lift its limits
        if calls.prctl(_DROP, capability, 0, 0, 0) < 0:
            break  # there are no more, or there never were any
    _checked(calls.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(calls.syscall(_RESTRICT, rules, 0))
    os.close(rules)


def isolate_sockets(program: bytes) -> None:
    """Let this process, and all that it will start, reach no abstract sockets but their own, where the kernel can.

    Nothing else is taken away, so `program` can still mount what it likes; it must not need the rights of its owner.
    Raises OSError.
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
    """Grant a place. A symlink leads nowhere: what it leads to may be hidden."""
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
