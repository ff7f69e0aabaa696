"""Measures how much memory processes use together, on Linux.

Counts what cannot be reclaimed: private memory, shared memory, and both where they were swapped out. Pages of files can
be read again. Shared pages count once: after a fork that is everything that was not written since.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Final

from agenttalk.adapters.drivers.keeper import Process, read_proc_file

_WHOLE: Final = (b"RssAnon", b"RssShmem", b"VmSwap")
"""What a process uses, shared or not: quick to read, and readable for every user."""
_SHARES: Final = (b"Pss_Anon", b"Pss_Shmem", b"SwapPss")
"""Its proportional share. The kernel walks every page for that."""
_ALL: Final = b"Pss"
_KCMP: Final[Mapping[str, int]] = {"x86_64": 312, "aarch64": 272, "riscv64": 272}
_KCMP_VM: Final = 1


def measure_memory(processes: Sequence[Process], enough: int) -> int:
    """Count the bytes that processes use together; a result of at most `enough` may be too small."""
    whole = {process.pid: whole_of(read_proc_file(process.pid, "status")) for process in processes}
    if sum(whole.values()) <= enough:
        return sum(whole.values())
    apart = (
        member for member in processes if member.parent not in whole or not _same_memory(member.pid, member.parent)
    )
    return sum(_share(member.pid) for member in apart)


def _share(pid: int) -> int:
    """Count what one process uses. It may have ended meanwhile, so its total is read again after the share."""
    rollup = read_proc_file(pid, "smaps_rollup")
    return share_of(rollup, whole_of(read_proc_file(pid, "status")))


def whole_of(status: bytes) -> int:
    """Read the bytes that a process uses from its `status`; 0 when it has ended."""
    return sum(_kib(status, _WHOLE).values()) * 1024


def share_of(rollup: bytes, whole: int) -> int:
    """Read its share of them from its `smaps_rollup`; the total where that cannot be read.

    Old kernels do not tell pages of files apart there, so the share is capped at the total.
    """
    sizes = _kib(rollup, (*_SHARES, _ALL))
    every = sizes.pop(_ALL, None)
    if len(sizes) == len(_SHARES):
        return sum(sizes.values()) * 1024
    return whole if every is None else min(whole, (every + sizes.get(_SHARES[-1], 0)) * 1024)


def _kib(text: bytes, names: Sequence[bytes]) -> dict[bytes, int]:
    lines = (line.split() for line in text.splitlines())
    return {words[0][:-1]: int(words[1]) for words in lines if len(words) == 3 and words[0][:-1] in names}


def _same_memory(one: int, other: int) -> bool:
    """Return whether two processes share all memory, as between vfork and exec; False where that is unknown."""
    number = _KCMP.get(os.uname().machine)
    return number is not None and ctypes.CDLL(None).syscall(number, one, other, _KCMP_VM, 0, 0) == 0
