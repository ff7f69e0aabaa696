"""Whatever a program starts ends with its turn."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

import pytest

from adapters.drivers.yard import DAEMON, PYTHON, Yard, dies, lives
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.contracts.errors import MachineError
from agenttalk.ports.agents import ProcessIdentity

FIFTY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
read, write = os.pipe()
for number in range(50):
    if os.fork() == 0:
        if number % 2:
            os.setsid()
        os.write(write, b"%d\\n" % os.getpid())
        time.sleep(1000)
pids = b""
while pids.count(b"\\n") < 50:
    pids += os.read(read, 4096)
open("pids", "wb").write(pids)
open("going", "wb").close()
"""
"""Starts fifty processes that ignore SIGTERM, half of them in sessions of their own."""

HOPS = """
import os
read, write = os.pipe()
if os.fork():
    os.read(read, 1)
    os._exit(0)
while os.fork() == 0:
    os.setsid()
    os.write(write, b"x")
"""
"""Leaves behind a process that never stays: it forks, moves to a new session and ends, over and over."""

MOVES = """
import os, time
for _ in range(10):
    if os.fork() == 0:
        break
else:
    open("moving", "w").close()
    time.sleep(1000)
for _ in range(1000):
    time.sleep(0.004)
    if os.fork():
        os._exit(0)
"""
"""Ten processes that become others all the while; but not for ever, should nobody end them."""

HEADLESS = """
import ctypes, os, threading, time
def work():
    open("pids", "w").write(str(os.getpid()))
    os.write(write, b"x")
    time.sleep(1000)
read, write = os.pipe()
if os.fork():
    os.read(read, 1)
    {after}
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""
"""A process whose first thread has ended: it looks like a zombie, and works on."""


def test_a_grandchild_that_holds_the_pipes_does_not_hold_up_the_turn(yard: Yard) -> None:
    ended = yard.sh("sleep 1000 & echo $! > pids; echo done")
    assert (ended.how, ended.exit_code, ended.stdout) == ("finished", 0, b"done\n")
    assert not any(map(lives, yard.pids("pids")))


def test_a_daemon_without_environment_session_and_parent_is_ended(yard: Yard) -> None:
    ended = yard.sh(DAEMON + "exit 5")
    assert (ended.how, ended.exit_code) == ("finished", 5)
    assert not lives(*yard.pids("daemon.pid"))


def test_a_daemon_is_ended_at_the_time_limit(yard: Yard) -> None:
    yard.late(("sh", "-c", DAEMON + "echo > going; exec sleep 1000"))
    assert not lives(*yard.pids("daemon.pid"))


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_many_children_end_with_the_program(yard: Yard, end: str) -> None:
    yard.python(FIFTY + end)
    pids = yard.pids("pids")
    assert len(pids) == 50
    assert not any(map(lives, pids))


def test_many_children_that_ignore_the_request_are_killed(yard: Yard) -> None:
    yard.late((*PYTHON, FIFTY + "time.sleep(1000)"))
    assert not any(map(lives, yard.pids("pids")))


def test_a_process_that_never_stays_is_ended(yard: Yard) -> None:
    assert yard.python(HOPS).how == "finished"


def test_a_process_that_looks_like_a_zombie_ends_with_the_program(yard: Yard) -> None:
    assert yard.python(HEADLESS.format(after="os._exit(0)")).how == "finished"
    assert not lives(*yard.pids("pids"))


def test_a_process_that_looks_like_a_zombie_ends_at_the_time_limit(yard: Yard) -> None:
    yard.late((*PYTHON, HEADLESS.format(after="open('going', 'w').close(); time.sleep(1000)")))
    assert not lives(*yard.pids("pids"))


def test_a_stopped_program_is_ended_at_the_time_limit(yard: Yard) -> None:
    ended = yard.late(("sh", "-c", "trap 'echo woken; exit' TERM; echo > going; kill -STOP $$"), grace=20)
    assert ended.stdout == b"woken\n"


def test_at_the_time_limit_a_program_is_asked_first(yard: Yard) -> None:
    """All of the tree has the grace, also what outlives the program; when it is dead, nobody waits any longer."""
    script = (
        "sh -c 'trap \"echo child; exit\" TERM; echo > going; while :; do sleep 0.02; done' & "
        "while [ ! -e going ]; do sleep 0.01; done; exec sleep 1000"
    )
    began = time.monotonic()
    ended = yard.late(("sh", "-c", script), grace=40)
    assert (ended.exit_code, ended.stdout) == (None, b"child\n")
    assert "give it more time" in ended.error
    assert time.monotonic() - began < 38


def test_a_program_that_ignores_the_request_is_killed(yard: Yard) -> None:
    ended = yard.late(("sh", "-c", "trap '' TERM; echo on > going; cat going; while :; do sleep 1000; done"), grace=0.2)
    assert (ended.exit_code, ended.stdout) == (None, b"on\n")
    assert ended.seconds >= 0.5


def test_no_time_is_a_time_limit_too(yard: Yard) -> None:
    assert yard.sh("sleep 1000", timeout=-1).how == "timeout"


def test_cancelling_kills_the_tree_before_it_is_felt(yard: Yard) -> None:
    async def cancelled_twice() -> None:
        driver = ScriptDriver(LocalProcesses())
        script = DAEMON + "trap '' TERM; echo > going; while :; do sleep 1000; done"
        task = asyncio.create_task(driver.run(yard.turn("sh", "-c", script)))
        await asyncio.to_thread(yard.wait_for, "going")
        [daemon] = yard.pids("daemon.pid")
        assert lives(daemon)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not lives(daemon)

    asyncio.run(cancelled_twice())


def test_a_turn_can_be_cancelled_at_once(yard: Yard) -> None:
    async def cancelled_early() -> None:
        task = asyncio.create_task(ScriptDriver(LocalProcesses()).run(yard.turn("sleep", "1000", prompt="x" * 10**6)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled_early())


def test_an_engine_that_is_shut_down_leaves_nothing(yard: Yard) -> None:
    """The loop ends and cancels whatever runs on it."""

    async def engine() -> None:
        driver = ScriptDriver(LocalProcesses())
        turn = asyncio.create_task(driver.run(yard.turn("sh", "-c", DAEMON + "echo > going; exec sleep 1000")))
        await asyncio.to_thread(yard.wait_for, "going")
        assert not turn.done()

    asyncio.run(engine())
    assert not lives(*yard.pids("daemon.pid"))


def test_when_the_engine_is_killed_its_trees_die(yard: Yard) -> None:
    script = DAEMON + "echo $$ $PPID > pids; mv pids all.pids; trap '' TERM; while :; do sleep 1000; done"
    with yard.engine(script):
        yard.wait_for("all.pids")
        pids = [*yard.pids("all.pids"), *yard.pids("daemon.pid")]
        assert all(map(lives, pids))
    assert all(map(dies, pids))


def test_a_lease_can_be_ended_after_its_engine_died(yard: Yard) -> None:
    """The keeper is stopped, so that it cannot end the tree by itself."""
    script = DAEMON + "echo $$ $PPID > pids; kill -STOP $PPID; mv pids all.pids; exec sleep 1000"
    with yard.engine(script):
        yard.wait_for("all.pids")
    pids = [*yard.pids("all.pids"), *yard.pids("daemon.pid")]
    assert all(map(lives, pids))
    assert asyncio.run(LocalProcesses().end(yard.lease)) == 3
    assert not any(map(lives, pids))


def test_a_process_that_moves_while_its_lease_is_ended_does_not_get_away(yard: Yard) -> None:
    """It has no environment; only the keeper above it, which is stopped, tells that it belongs to the lease."""
    (yard.path / "moves.py").write_text(MOVES)
    script = f"env -i {sys.executable} -I -S moves.py & while [ ! -e moving ]; do sleep 0.01; done; "
    with yard.engine(script + "kill -STOP $PPID; echo > going; exec sleep 1000"):
        yard.wait_for("going")
    assert asyncio.run(LocalProcesses().end(yard.lease)) >= 12
    assert yard.left_behind() == []


def test_a_program_that_kills_its_keeper_is_ended(yard: Yard) -> None:
    ended = yard.sh("sleep 1000 & echo $$ $! > pids; kill -KILL $PPID; exec sleep 1000")
    assert (ended.how, ended.exit_code) == ("crashed", None)
    assert "keeper" in ended.error
    assert not any(map(lives, yard.pids("pids")))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM, signal.SIGTSTP])
def test_a_keeper_hears_no_signal_that_it_can_ignore(yard: Yard, number: signal.Signals) -> None:
    ended = yard.sh(f"kill -{number.value} $PPID; exit 7")
    assert (ended.how, ended.exit_code) == ("finished", 7)


def test_a_keeper_that_was_stopped_goes_on_at_the_time_limit(yard: Yard) -> None:
    began = time.monotonic()
    assert yard.sh("kill -STOP $PPID; exit 0", timeout=0.3).how == "timeout"
    assert time.monotonic() - began < 9


class Unending:
    """Processes that cannot be ended, as when the kernel does not let go of them."""

    def me(self) -> ProcessIdentity:
        return LocalProcesses().me()

    def alive(self, owner: ProcessIdentity) -> bool:
        return LocalProcesses().alive(owner)

    async def end(self, lease: str) -> int:
        return await LocalProcesses(limit=-1).end(lease)


def test_a_tree_that_cannot_be_ended_is_no_end_of_a_turn(yard: Yard) -> None:
    driver = ScriptDriver(Unending(), limit=0.1)
    script = "echo $$ > pids; kill -KILL $PPID; exec sleep 1000"
    with pytest.raises(MachineError, match="cannot be ended"):
        asyncio.run(driver.run(yard.turn("sh", "-c", script)))
    assert asyncio.run(LocalProcesses().end(yard.lease)) == 1
    assert not lives(*yard.pids("pids"))
