"""How much memory processes use together, as Linux tells it.

Counted is what cannot be taken away again: memory of their own, shared memory, and both where it was swapped out. Pages
of files can be read once more. What several share counts once: after a fork that is everything that nobody has written
to since.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Final

from agenttalk.adapters.drivers.keeper import Process, read_proc_file

_WHOLE: Final = (b"RssAnon", b"RssShmem", b"VmSwap")
"""What a process uses, whether it shares it or not: quick to read, and everybody may."""
_SHARES: Final = (b"Pss_Anon", b"Pss_Shmem", b"SwapPss")
"""What of it is its share. The kernel looks at every page for that."""
_ALL: Final = b"Pss"
_KCMP: Final[Mapping[str, int]] = {"x86_64": 312, "aarch64": 272, "riscv64": 272}
_KCMP_VM: Final = 1


def measure_memory(processes: Sequence[Process], enough: int) -> int:
    """Bytes that processes use together; when that is at most `enough`, it may be less than is said."""
    whole = {process.pid: whole_of(read_proc_file(process.pid, "status")) for process in processes}
    if sum(whole.values()) <= enough:
        return sum(whole.values())
    apart = (each for each in processes if each.parent not in whole or not _same_memory(each.pid, each.parent))
    return sum(_share(each.pid) for each in apart)


def _share(pid: int) -> int:
    """What one of them uses. It may have ended meanwhile, so its whole is looked at again, after the share."""
    rollup = read_proc_file(pid, "smaps_rollup")
    return share_of(rollup, whole_of(read_proc_file(pid, "status")))


def whole_of(status: bytes) -> int:
    """Bytes that a process uses, by its `status`. One that has ended uses nothing."""
    return sum(_kib(status, _WHOLE).values()) * 1024


def share_of(rollup: bytes, whole: int) -> int:
    """Bytes of it that are its share, by its `smaps_rollup`; the whole where we may not read that.

    Old kernels do not tell pages of files apart there, but for that nobody's share is more than the whole.
    """
    found = _kib(rollup, (*_SHARES, _ALL))
    every = found.pop(_ALL, None)
    if len(found) == len(_SHARES):
        return sum(found.values()) * 1024
    return whole if every is None else min(whole, (every + found.get(_SHARES[-1], 0)) * 1024)


def _kib(text: bytes, names: Sequence[bytes]) -> dict[bytes, int]:
    lines = (line.split() for line in text.splitlines())
    return {words[0][:-1]: int(words[1]) for words in lines if len(words) == 3 and words[0][:-1] in names}


def _same_memory(one: int, other: int) -> bool:
    """Whether two processes have the same memory, as between vfork and exec; no where that cannot be known."""
    number = _KCMP.get(os.uname().machine)
    return number is not None and ctypes.CDLL(None).syscall(number, one, other, _KCMP_VM, 0, 0) == 0
