"""Whose process is whose, after deaths, restarts and with odd names."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.drivers.yard import dies, lives
from agenttalk.adapters.drivers import keeper
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.ports.agents import ProcessIdentity

ENDS_ITS_OWN_LEASE = """
import asyncio, os, subprocess
from agenttalk.adapters.drivers.processes import LocalProcesses
child = subprocess.Popen(["sleep", "1000"])
print(asyncio.run(LocalProcesses().end(os.environ["AGENTTALK_LEASE"])), child.wait())
"""

OUTLIVES_ITS_FIRST_THREAD = """
import ctypes, threading, sys
threading.Thread(target=sys.stdin.read).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


@contextmanager
def sleeping(*, argv: tuple[str, ...] = ("sleep", "1000"), **env: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv, env={"PATH": os.environ["PATH"], **env}, stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def owner(pid: int) -> ProcessIdentity:
    process = keeper.read_process(pid)
    assert process is not None
    return ProcessIdentity(LocalProcesses().me().boot_id, pid, process.started)


def end(lease: str) -> int:
    return asyncio.run(LocalProcesses().end(lease))


def test_this_process_lives_and_is_the_same_for_everyone() -> None:
    processes = LocalProcesses()
    assert processes.me() == LocalProcesses().me()
    assert processes.me().pid == os.getpid()
    assert processes.me().boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert processes.alive(processes.me())


def test_a_number_alone_is_not_the_process() -> None:
    """The number may have gone to another process, or the machine may have restarted."""
    processes = LocalProcesses()
    me = processes.me()
    assert not processes.alive(me._replace(started=me.started - 1))
    assert not processes.alive(me._replace(boot_id="another"))
    assert not processes.alive(me._replace(pid=0))
    assert not processes.alive(me._replace(pid=-1))


def test_whoever_has_ended_does_not_live_even_before_it_is_reaped() -> None:
    with sleeping() as process:
        it = owner(process.pid)
        assert LocalProcesses().alive(it)
        process.kill()
        assert dies(process.pid)
        assert owner(process.pid) == it, "it is a zombie now"
        assert not LocalProcesses().alive(it)
        process.wait()
        assert not LocalProcesses().alive(it)


def test_a_process_lives_as_long_as_one_of_its_threads() -> None:
    code = OUTLIVES_ITS_FIRST_THREAD
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        it = owner(process.pid)
        seen = keeper.read_process(process.pid)
        while seen and seen.state != b"Z":
            seen = keeper.read_process(process.pid)
        assert LocalProcesses().alive(it)
        process.stdin.close()
        assert dies(process.pid)
        assert not LocalProcesses().alive(it)


@pytest.mark.parametrize("name", ["a) R 1 1 (b", ") ) )", "two\nlines", "((("])
def test_the_name_of_a_program_does_not_mislead(tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    shutil.copy(shutil.which("sleep") or "", program)
    with sleeping(argv=(str(program), "1000")) as process:
        seen = keeper.read_process(process.pid)
        assert seen is not None
        assert (seen.parent, seen.is_alive) == (os.getpid(), True)
        assert abs(seen.started - LocalProcesses().me().started) < 10**7


def test_a_lease_ends_with_everyone_who_carries_it_and_nobody_else() -> None:
    with (
        sleeping(AGENTTALK_LEASE="lease_1") as one,
        sleeping(AGENTTALK_LEASE="lease_1", OTHER="x") as two,
        sleeping(AGENTTALK_LEASE="lease_10") as longer,
        sleeping(XAGENTTALK_LEASE="lease_1") as other,
        sleeping(OTHER="AGENTTALK_LEASE=lease_1") as quoted,
    ):
        assert end("lease_1") == 2
        assert [process.wait() for process in (one, two)] == [-signal.SIGKILL] * 2
        assert all(process.poll() is None for process in (longer, other, quoted))
        assert end("lease_1") == 0


def test_descendants_without_the_lease_end_with_it() -> None:
    script = "env -i sleep 1000 & echo $!; wait"
    env = {"PATH": os.environ["PATH"], "AGENTTALK_LEASE": "lease_2"}
    with subprocess.Popen(["sh", "-c", script], env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        assert end("lease_2") == 2
        assert not lives(child)
        assert process.wait() == -signal.SIGKILL


def test_children_are_found_where_the_kernel_does_not_list_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with sleeping() as one, sleeping() as two:

        def found() -> list[int]:  # whoever runs the tests may have other children
            return [pid for pid in keeper.list_children(os.getpid()) if pid in {one.pid, two.pid}]

        assert found() == [two.pid, one.pid]
        monkeypatch.setattr(keeper, "CHILDREN", "not-there")
        assert found() == [two.pid, one.pid]
        assert keeper.list_children(one.pid) == []


def test_whoever_ends_its_own_lease_survives() -> None:
    env = {**os.environ, "AGENTTALK_LEASE": "lease_3"}
    done = subprocess.run(
        [sys.executable, "-c", ENDS_ITS_OWN_LEASE], env=env, stdout=subprocess.PIPE, check=True, timeout=600
    )
    assert done.stdout == b"1 -9\n"


def test_a_cancelled_end_is_finished_first() -> None:
    async def cancel(lease: str) -> None:
        task = asyncio.create_task(LocalProcesses().end(lease))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with sleeping(AGENTTALK_LEASE="lease_4") as process:
        asyncio.run(cancel("lease_4"))
        assert not lives(process.pid)


def test_a_process_that_lives_on_is_told() -> None:
    with sleeping(AGENTTALK_LEASE="lease_5") as process:
        with pytest.raises(MachineError, match=f"lease_5 cannot be ended: {process.pid}") as raised:
            asyncio.run(LocalProcesses(limit=-1).end("lease_5"))
        assert raised.value.code == Code.PROCESS_STUCK
        assert process.poll() is None


def test_where_processes_cannot_be_seen_only_the_number_counts(tmp_path: Path) -> None:
    blind = LocalProcesses(proc=tmp_path)
    assert blind.alive(blind.me())
    with sleeping() as process:
        it = blind.me()._replace(pid=process.pid)
        assert blind.alive(it)
        process.kill()
        process.wait()
        assert not blind.alive(it)
    with pytest.raises(MachineError, match="cannot confirm"):
        asyncio.run(blind.end("lease_6"))
