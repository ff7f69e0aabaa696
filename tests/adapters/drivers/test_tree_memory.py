"""Memory that all processes of a turn use together: what they share counts once, and who takes too much is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adapters.drivers.yard import PYTHON, Yard
from agenttalk.adapters.drivers import keeper, memory
from agenttalk.adapters.drivers.budgets import TurnMeter
from agenttalk.ports.agents import ResourceBudget

MIB = 1 << 20
CHILDREN = """
import mmap, os, sys
def child(work):
    if not os.fork():
        kept = work()
        os.write(1, b".")
        sys.stdin.read()
        os._exit(0)
def eight(work):
    for _ in range(8): child(work)
    os.write(1, b".")
    sys.stdin.read()
"""
STAYING = CHILDREN.replace("sys.stdin.read()", "os.read(os.pipe()[0], 1)")
"""The same where nobody speaks to them."""
OWN = "eight(lambda: b'x' * (40 << 20))"
INHERITED = "kept = b'x' * (150 << 20)\neight(lambda: None)"
WRITTEN = "kept = bytearray(b'x' * (40 << 20))\ndef write(): kept[::4096] = bytes(10240)\neight(write)"
SHARED = """
kept = mmap.mmap(-1, 150 << 20)
kept.write(b"x" * len(kept))
eight(lambda: kept[::4096])
"""
VFORKED = """
import ctypes
kept = b"x" * (150 << 20)
stack = ctypes.create_string_buffer(1 << 20)
top = ctypes.c_void_p((ctypes.addressof(stack) + len(stack)) & ~15)
libc = ctypes.CDLL(None)
SAME_MEMORY, UNTIL_IT_EXECUTES = 0x100, 0x4000
libc.clone(ctypes.cast(libc.pause, ctypes.c_void_p), top, SAME_MEMORY | UNTIL_IT_EXECUTES | 17, None)
"""


def budget(mib: int | None) -> ResourceBudget:
    return ResourceBudget(1 << 40, 1_000_000, 1_000, 1 << 40, memory=mib and mib * MIB)


@contextmanager
def tree(program: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process, and below it a program with what that has started, which stays until the end."""
    argv = ["sh", "-c", '"$@"; :', "sh", *PYTHON, CHILDREN + program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as top:
        try:
            yield top
        finally:
            while keeper.signal_descendants(top.pid, signal.SIGKILL):
                time.sleep(0.005)


def meets(program: str, mib: int, dots: int = 9) -> str:
    """What is said of a program with a limit, when all of its processes have what they want."""
    with tree(program) as top:
        assert top.stdout is not None
        for _ in range(dots):
            assert top.stdout.read(1) == b"."
        return TurnMeter(budget(mib), top.pid, None).find_memory_excess()


@pytest.mark.parametrize(
    ("program", "mib", "much"),
    [
        pytest.param(OWN, 200, True, id="own"),
        pytest.param(OWN, 400, False, id="own, below"),
        pytest.param(INHERITED, 200, False, id="inherited, below"),
        pytest.param(INHERITED, 100, True, id="inherited"),
        pytest.param(WRITTEN, 200, True, id="inherited and written"),
        pytest.param(SHARED, 200, False, id="shared, below"),
        pytest.param(SHARED, 100, True, id="shared"),
    ],
)
def test_what_processes_have_together_counts_and_what_they_share_counts_once(
    program: str, mib: int, *, much: bool
) -> None:
    assert meets(program, mib) == (f"its processes took more than {mib} MiB of memory together" if much else "")


def test_who_is_about_to_execute_something_else_has_no_memory_of_its_own() -> None:
    with tree(VFORKED) as top:
        deadline = time.monotonic() + 300
        while len(keeper.signal_descendants(top.pid)) < 2:
            assert time.monotonic() < deadline, "it does not begin"
            time.sleep(0.005)
        child, parent = sorted(keeper.signal_descendants(top.pid), key=lambda each: each.parent != top.pid)[::-1]
        if not memory._same_memory(child.pid, parent.pid):
            pytest.skip("processes cannot be compared here")
        assert TurnMeter(budget(200), top.pid, None).find_memory_excess() == ""
        assert TurnMeter(budget(100), top.pid, None).find_memory_excess() != ""


def test_without_a_limit_nobody_looks_at_memory() -> None:
    assert TurnMeter(budget(None), os.getppid(), None).find_memory_excess() == ""


STATUS = b"""Name:\teats memory
VmRSS:\t  900000 kB
RssAnon:\t  200000 kB
RssFile:\t  690000 kB
RssShmem:\t   10000 kB
VmSwap:\t    4000 kB
"""
ROLLUP = b"""55829f73a000-7ffe7e7f4000 ---p 00000000 00:00 0                          [rollup]
Rss:              900000 kB
Pss:              120000 kB
Pss_Anon:          50000 kB
Pss_File:          69000 kB
Pss_Shmem:          1000 kB
SwapPss:            2000 kB
"""


def test_pages_of_files_count_for_nobody_and_what_may_not_be_read_counts_in_full() -> None:
    whole = memory.whole_of(STATUS)
    assert whole == 214_000 * 1024
    assert memory.share_of(ROLLUP, whole) == 53_000 * 1024
    assert memory.share_of(b"", whole) == whole
    old = ROLLUP.replace(b"Pss_", b"Other_")
    assert memory.share_of(old, whole) == 122_000 * 1024
    assert memory.share_of(old, 90) == 90
    assert memory.whole_of(b"") == memory.whole_of(b"Name:\tzombie\nState:\tZ (zombie)\n") == 0


def test_who_takes_too_much_is_ended_with_all_that_it_started(yard: Yard) -> None:
    ended = yard.python(STAYING + OWN, budget=budget(200), timeout=60)
    assert (ended.how, ended.exit_code) == ("crashed", None)
    assert ended.error == (
        "it was ended because its processes took more than 200 MiB of memory together; "
        "have it use less, or raise the limit in the agent's profile"
    )
    assert yard.left_behind() == []


def test_who_takes_less_is_left_alone(yard: Yard) -> None:
    ended = yard.python(CHILDREN + "child(lambda: b'x' * (40 << 20))\nos.wait()", budget=budget(200), timeout=60)
    assert (ended.how, ended.exit_code, ended.stdout) == ("finished", 0, b".")
