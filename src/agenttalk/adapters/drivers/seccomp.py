"""Filters of system calls: what a program, and everything that it starts, can no longer ask of the kernel.

The keeper loads this module too, from the same folder, so it imports next to nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os

_SECCOMP, _FILTER, _NO_NEW_PRIVILEGES = 22, 2, 38
_UNIX = 1
_IO_URING = 425
_FOREIGN_CALLS = 0x40000000
"""The first call of the second table, on machines that have one."""
_PIDFD_GETFD = 438
_CLONE3 = 435
"""Starts processes too, with flags in memory that a filter cannot read; programs fall back where it is missing."""
_NEW_USER = 0x10000000
"""Creates a user namespace, in which a process may use more of the kernel than it should."""
_MACHINES = {
    "x86_64": (0xC000003E, 41, (101, 310, 311, _PIDFD_GETFD), (56, 272), (248, 249, 250), 302),
    "aarch64": (0xC00000B7, 198, (117, 270, 271, _PIDFD_GETFD), (220, 97), (217, 218, 219), 261),
}
"""Machine → its number in the kernel, the call that opens a socket, the calls that access other processes, those that
can make namespaces, those that use the kernel's keys, and the one that limits a process."""
_FIRST, _THIRD = 16, 32
"""Offsets of a call's arguments, in two halves."""
_LOAD, _EQUAL, _AT_LEAST, _HOLDS, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _LACK = 0x7FFF0000, 0x00050000 | errno.EACCES, 0x00050000 | errno.ENOSYS


def describe_problem() -> str:
    """Explain why calls cannot be filtered here; empty if they can."""
    machine = os.uname().machine
    return "" if machine in _MACHINES else f"system calls cannot be filtered on {machine}"


def build_filter(*, offline: bool = False, guarded: bool = False) -> bytes:
    """Build the filter, as the kernel and bubblewrap read it.

    It always forbids the user's keys, which the kernel keeps apart from all files, and limiting other processes, which
    can end them. `offline` allows only sockets that are files. `guarded` forbids reading or writing the memory of
    another process, taking its descriptors, and making a user namespace.
    """
    machine, opens, reaching, parting, keys, limiting = _MACHINES[os.uname().machine]
    refused = (*keys, *((_IO_URING,) if offline else ()), *(reaching if guarded else ()))
    steps: list[tuple[int, str, str, int]] = [
        (_LOAD, "", "", 4),
        (_EQUAL, "", "refuse", machine),
        (_LOAD, "", "", 0),
        (_AT_LEAST, "refuse", "", _FOREIGN_CALLS),
        *((_EQUAL, "refuse", "", number) for number in refused),
        (_EQUAL, "limits", "", limiting),
    ]
    if guarded:
        steps += [(_EQUAL, "lack", "", _CLONE3), *((_EQUAL, "parts", "", number) for number in parting)]
    if offline:
        steps += [(_EQUAL, "", "allow", opens), (_LOAD, "", "", _FIRST), (_EQUAL, "", "refuse", _UNIX)]
    steps += [(_ANSWER, "", "", _ALLOW)]
    ends = {"allow": len(steps) - 1, "limits": len(steps)}
    # Allowed: its own limits (pid 0), and reading those of others, where the pointer to new limits is zero.
    steps += [(_LOAD, "", "", _FIRST), (_EQUAL, "fine", "", 0)]
    steps += [(_LOAD, "", "", _THIRD), (_EQUAL, "", "refuse", 0), (_LOAD, "", "", _THIRD + 4), (_EQUAL, "fine", "", 0)]
    ends |= {"refuse": len(steps), "lack": len(steps) + 1, "parts": len(steps) + 2}
    steps += [(_ANSWER, "", "", answer) for answer in (_REFUSE, _LACK)]
    steps += [(_LOAD, "", "", _FIRST), (_HOLDS, "", "fine", _NEW_USER), (_ANSWER, "", "", _REFUSE)]
    ends["fine"] = len(steps)
    steps += [(_ANSWER, "", "", _ALLOW)]
    return b"".join(
        code.to_bytes(2, "little")
        + bytes(ends[way] - place - 1 if way else 0 for way in (yes, no))
        + value.to_bytes(4, "little")
        for place, (code, yes, no, value) in enumerate(steps)
    )


def install_filter(steps: bytes) -> None:
    """Install the filter for this process and everything that it starts. Raises OSError."""
    calls = ctypes.CDLL(None, use_errno=True)
    held = ctypes.create_string_buffer(steps, len(steps))
    asked = (len(steps) // 8).to_bytes(8, "little") + ctypes.addressof(held).to_bytes(8, "little")
    for wish in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SECCOMP, _FILTER, asked, 0, 0)):
        if calls.prctl(*wish) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def pass_data(data: bytes, descriptor: int) -> None:
    """Leave data in a descriptor, from which a program that is started next reads them."""
    memory = os.memfd_create("data", 0)
    left = memoryview(data)
    while left:
        left = left[os.write(memory, left) :]
    os.lseek(memory, 0, os.SEEK_SET)
    os.dup2(memory, descriptor)
    if memory != descriptor:
        os.close(memory)
