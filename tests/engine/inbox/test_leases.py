"""Leases: at most one attempt of a task lives, and an old one can write nothing."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import Code, MachineError
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.ports.agents import ProcessIdentity, ProgramTurn, TurnEnd
from agenttalk.ports.statements.inbox import ATTEMPT_TOKEN
from agenttalk.ports.statements.runs import WORKING_COMMANDS
from agenttalk.rules.core.tokens import TokenSubject, read_token, token_hash
from kits.agentkit import WRITES, Desk, end_lease, replace_driver
from kits.treekit import Tree


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(Tree(tmp_path))
    desk.program(WRITES)
    return desk


class Known:
    """Processes as a test says: who lives, and whether those of a lease can be ended."""

    def __init__(self, *alive: ProcessIdentity, stuck: bool = False) -> None:
        self._alive = alive
        self._stuck = stuck
        self.ended: list[str] = []

    def me(self) -> ProcessIdentity:
        return ProcessIdentity("this-boot", 42, 7)

    def alive(self, owner: ProcessIdentity) -> bool:
        return owner in self._alive

    async def end(self, lease: str) -> int:
        if self._stuck:
            raise MachineError(Code.PROCESS_STUCK, "they hang")
        self.ended.append(lease)
        return 1


class Ends:
    """A driver whose programs end at once."""

    def __init__(self) -> None:
        self.turns: list[ProgramTurn] = []

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        self.turns.append(turn)
        return TurnEnd("finished", 0, b"", b"", 0.1)


class Dies:
    """A driver in whose turn we die: nothing after it happens, as far as the store can see."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def run(self, turn: ProgramTurn) -> TurnEnd:  # noqa: ARG002 - as the port has it
        self.began.set()
        await asyncio.Event().wait()
        raise AssertionError


def left_behind(desk: Desk, processes: Any) -> dict[str, Any]:
    """Begin a command and vanish; the lease stays."""

    driver = Dies()

    async def scenario(beat: Heartbeat, _: Deps) -> None:
        await beat.tick()
        run, beat._turn._run = beat._turn._run, None
        assert run is not None
        await driver.began.wait()
        run.task.cancel()
        await asyncio.gather(run.task, return_exceptions=True)

    desk.play(scenario, driver=driver, processes=processes)
    return desk.task()


def test_a_lease_of_the_dead_is_ended_and_the_command_runs_again(desk: Desk) -> None:
    message_id = desk.command(retry_times=0)
    before = left_behind(desk, Known())
    assert (before["epoch"], before["attempt"], before["state"]) == (1, 1, "RUNNING")
    known, driver = Known(), Ends()
    desk.once(driver=driver, processes=known)
    assert known.ended == [before["lease"]]
    after = desk.task()
    assert (after["epoch"], after["attempt"], after["lease"], after["state"]) == (2, 2, None, "COMPLETED")
    assert [turn.timeout for turn in driver.turns] == [60]
    assert len(desk.facts(message_id, "lease.granted")) == 2
    assert desk.facts(message_id, "lease.ended")[0]["killed"] == 1
    assert desk.ack(message_id)["status"] == "SUCCEEDED"


def test_a_lease_of_the_living_is_left_alone_and_nothing_else_is_begun(desk: Desk) -> None:
    desk.command()
    before = left_behind(desk, Known())
    living = Known(ProcessIdentity("this-boot", 42, 7))

    class Other(Known):
        def me(self) -> ProcessIdentity:
            return ProcessIdentity("this-boot", 43, 9)

    other = Other(ProcessIdentity("this-boot", 42, 7))
    desk.command("paint")
    tick = desk.once(driver=Ends(), processes=other)
    assert (tick.claimed, tick.ran) == (1, 0)
    assert desk.task()["lease"] == before["lease"]
    assert living.ended == other.ended == []


def test_while_old_processes_cannot_be_ended_the_task_is_not_given_out(desk: Desk) -> None:
    desk.command()
    before = left_behind(desk, Known())
    tick = desk.once(driver=Ends(), processes=Known(stuck=True))
    assert (tick.ran, set(tick.errors)) == (0, {"they hang"})
    assert desk.task()["lease"] == before["lease"]
    assert desk.alerts() == ["PROCESS_STUCK"]
    desk.once(driver=Ends(), processes=Known())
    assert desk.task()["state"] == "COMPLETED"


def test_what_an_attempt_writes_with_an_old_epoch_is_dropped(desk: Desk) -> None:
    message_id = desk.command()

    async def scenario(beat: Heartbeat, deps: Deps) -> None:
        board = await deps.stores.board("default")

        class Usurped:
            async def run(self, turn: ProgramTurn) -> TurnEnd:
                (Path(turn.env["AGENTTALK_OUTPUTS"]) / "made.txt").write_text("old", encoding="utf-8")
                row = (await board.read(WORKING_COMMANDS, agent_id="dev"))[0]
                await end_lease(board, row.task_id, row.epoch, row.lease, deps.stamp())
                return TurnEnd("finished", 0, b"", b"", 0.1)

        replace_driver(beat, deps, Usurped())
        await beat.tick()
        assert beat._turn.task is not None
        await asyncio.wait({beat._turn.task})
        replace_driver(beat, deps, Ends())
        tick = await beat.tick()
        assert "has lost its lease" in tick.errors[0]

    desk.play(scenario, processes=Known())
    assert desk.facts(message_id, "turn.ended") == []
    assert desk.envelopes() == []


def test_the_token_of_an_attempt_names_it_and_only_its_hash_is_kept(desk: Desk) -> None:
    desk.command()

    async def scenario(beat: Heartbeat, deps: Deps) -> None:
        board = await deps.stores.board("default")

        class Looks:
            async def run(self, turn: ProgramTurn) -> TurnEnd:
                token = turn.env["AGENTTALK_TOKEN"]
                assert read_token(token) == TokenSubject("default", "plan_shop", "build", 1)
                rows = await board.read(ATTEMPT_TOKEN, plan_id="plan_shop", task_id="build")
                assert rows == [(1, token_hash(token))]
                return TurnEnd("finished", 0, b"", b"", 0.1)

        replace_driver(beat, deps, Looks())
        await beat.run_once()
        assert (await board.read(ATTEMPT_TOKEN, plan_id="plan_shop", task_id="build"))[0][1] is None

    desk.play(scenario)
    assert desk.task()["state"] == "COMPLETED"


CHILD = """
import asyncio, sys
from pathlib import Path
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.rules.core.isolation import IsolationSetting, IsolationSettings
from agenttalk.wiring import open_root

async def main():
    async with open_root(Path(sys.argv[1]), words=IsolationSettings(IsolationSetting("plain"))) as deps:
        known = LocalProcesses()
        await Heartbeat(deps, "dev", ScriptDriver(known), known).run_once()

asyncio.run(main())
"""


def _is_dead(pid: str) -> bool:
    """Whether a process has ended; nobody may have asked yet how it did."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return said.rpartition(")")[2].split()[0] in {"Z", "X"}


def test_when_we_are_killed_the_program_dies_before_its_command_runs_again(desk: Desk, tmp_path: Path) -> None:
    started = tmp_path / "started"
    desk.program(
        textwrap.dedent(f"""
        import os, pathlib, time
        path = pathlib.Path({str(started)!r})
        first = not path.exists()
        with path.open("a") as file:
            file.write(f"{{os.getpid()}}\\n")
        if first:
            time.sleep(600)
        """)
    )
    message_id = desk.command(retry_times=0)
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)])
    try:
        while not (started.exists() and started.read_text(encoding="utf-8").endswith("\n")):
            assert child.poll() is None, "it ended before its program had begun"
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    desk.once()
    first, second = started.read_text(encoding="utf-8").split()
    assert first != second
    assert _is_dead(first)
    assert desk.ack(message_id)["status"] == "SUCCEEDED"
    assert (desk.task()["attempt"], desk.task()["epoch"]) == (2, 2)
