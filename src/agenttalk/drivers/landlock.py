"""Landlock: a process gives up what it may do, for itself and for whatever it starts, without any privilege.

It is asked for by system calls that no library wraps. This module is also loaded by the keeper, beside which it lies,
so it imports next to nothing.

What landlock cannot do: hide anything from being read, keep rights and times of files from being changed, or keep a
program from sockets that are files. UDP is not its business either; without the network, a filter of system calls lets
a program open no sockets but those.
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
_WRITES = _FILE | sum(1 << bit for bit in range(4, 14))
"""All that changes anything: also removing, making of every kind, and moving between folders."""
_NET_FROM, _NET = 4, 0b11
"""Binding and connecting by TCP."""
_SCOPES_FROM, _SCOPES = 6, 0b11
"""Abstract sockets and signals reach only what is confined in the same way."""
_DROP, _NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 24, 38, 22, 2
_SOCKET = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""Machine → its number for the kernel, and that of the call that opens a socket."""
_IO_URING = 425
_FOREIGN_CALLS = 0x40000000
_UNIX = 1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")


def version() -> int:
    """Which landlock the kernel has; 0 when it has none."""
    if os.uname().sysname != "Linux":
        return 0
    found = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)
    return max(int(found), 0)


def ailment(*, network: bool = True) -> str:
    """Why landlock does not do here what is asked of it; empty if it does."""
    found = version()
    if found < OLDEST:
        have = f"version {found}" if found else "none"
        return f"the kernel has no landlock that can be used (version {OLDEST} is needed, and there is {have})"
    if not network and found < OLDEST_OFFLINE:
        return f"without the network landlock must have version {OLDEST_OFFLINE}, and here is {found}"
    if not network and os.uname().machine not in _SOCKET:
        return f"landlock cannot take the network away on {os.uname().machine}"
    return ""


def restrict(writable: Iterable[bytes], *, network: bool) -> None:
    """Let this process, and all that it will start, write only these places. There is no way back. Raises OSError."""
    calls = ctypes.CDLL(None, use_errno=True)
    known = version()
    if known < (OLDEST if network else OLDEST_OFFLINE):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    handled = _WRITES.to_bytes(8, "little")
    handled += (0 if network else _NET).to_bytes(8, "little") if known >= _NET_FROM else b""
    handled += _SCOPES.to_bytes(8, "little") if known >= _SCOPES_FROM else b""
    rules = _checked(calls.syscall(_CREATE, handled, ctypes.c_size_t(len(handled)), 0))
    for path in writable:
        _grant(calls, rules, path)
    for name in _DEVICES:
        try:
            _grant(calls, rules, b"/dev/" + name.encode())
        except FileNotFoundError:
            continue
    for capability in range(64):  # else root could look into every process, and lift its limits
        if calls.prctl(_DROP, capability, 0, 0, 0) < 0:
            break  # there are no more, or there never were any
    _checked(calls.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(calls.syscall(_RESTRICT, rules, 0))
    os.close(rules)
    if not network:
        _filter(calls)


def _grant(calls: ctypes.CDLL, rules: int, path: bytes) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = _WRITES if os.path.isdir(path) else _FILE  # noqa: PTH112 - pathlib is slow to load
        asked = rights.to_bytes(8, "little") + place.to_bytes(4, "little")
        _checked(calls.syscall(_ADD, rules, _BENEATH, asked, 0))
    finally:
        os.close(place)


def _filter(calls: ctypes.CDLL) -> None:
    """Refuse every socket that is no file, and ways around that."""
    machine, opens = _SOCKET[os.uname().machine]
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    refuse, allow = 0x00050000 | errno.EACCES, 0x7FFF0000
    program = [
        (load, 0, 0, 4),
        (equal, 0, 7, machine),
        (load, 0, 0, 0),
        (at_least, 5, 0, _FOREIGN_CALLS),
        (equal, 4, 0, _IO_URING),
        (equal, 0, 2, opens),
        (load, 0, 0, 16),
        (equal, 0, 1, _UNIX),
        (answer, 0, 0, allow),
        (answer, 0, 0, refuse),
    ]
    steps = b"".join(
        code.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little") for code, yes, no, value in program
    )
    held = ctypes.create_string_buffer(steps, len(steps))
    asked = len(program).to_bytes(8, "little") + ctypes.addressof(held).to_bytes(8, "little")
    _checked(calls.prctl(_SECCOMP, _FILTER, asked, 0, 0))


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
