"""A new task costs the same whatever lies behind: a board with very many finished tasks against an empty one.

Costs are counted, which a busy machine cannot disturb: statements and the steps of SQLite's machine, folders that
are opened and listed. Time is measured too, as CPU time and in pairs, so that a busy moment hits both.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.unchanged_folders import SETTLED, UnchangedFolders
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.messages.router import Router
from agenttalk.ports.agents import ProgramTurn, TurnEnd
from agenttalk.ports.statements.messages import COUNTED_TASKS
from agenttalk.wiring import open_root
from effort import DEEP
from kits.historykit import board_past
from kits.treekit import Tree, node

PLANS: Final = 200 if DEEP else 40
"""That have ended. One look through all of their tasks takes more steps than all that is compared."""
TASKS: Final = 1_000
"""Of each plan."""
ROUNDS: Final = 5
BATCH: Final = 20
ALLOWED: Final = 1.5


class Meter:
    """What SQLite did: how many statements, and steps of its machine."""

    def __init__(self) -> None:
        self.statements = self.steps = 0

    def take(self, event: dict[str, Any]) -> None:
        self.statements += 1
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def reset(self) -> None:
        self.statements = self.steps = 0


@contextmanager
def metered(*roots: Path) -> Iterator[list[Meter]]:
    """A meter for each root: whatever is opened under it meanwhile reports to it."""
    meters = [Meter() for _ in roots]

    def watch(connection: apsw.Connection) -> None:
        for root, meter in zip(roots, meters, strict=True):
            if Path(connection.filename).is_relative_to(root):
                connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, meter.take)

    apsw.connection_hooks.append(watch)
    try:
        yield meters
    finally:
        apsw.connection_hooks.remove(watch)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root with very many finished tasks, and all that they left in the store."""
    root = tmp_path_factory.mktemp("past")

    async def make() -> None:
        async with open_root(root) as deps:
            await deps.stores.board("default")

    asyncio.run(make())
    connection = apsw.Connection(str(root / "data/projects/default/blackboard.db"))
    connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")
    with connection:
        for statement in board_past("sqlite", PLANS, TASKS):
            connection.execute(statement)
    connection.close()
    yield root
    shutil.rmtree(root)  # up to a gigabyte


class Done:
    """A driver whose turns end well at once."""

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        assert turn
        return TurnEnd("finished", 0, b"", b"", 0.0)


class Desk:
    """A root in which a lead orders work, one message for each task of a plan, and an agent does it."""

    def __init__(self, root: Path, deps: Deps, agent_id: str) -> None:
        self._deps = deps
        self._router = Router(deps)
        self._beat = Heartbeat(deps, agent_id, Done(), LocalProcesses())
        self._tree = Tree(root, plan_id=f"plan_of_{agent_id}")
        self._tree.agent("lead")
        self._tree.agent(agent_id, driver="script", argv=["nothing"])
        self._tree.dag([node(f"t{number}", agent_id) for number in range((ROUNDS + 1) * BATCH)])
        self._sent = 0

    async def route(self) -> float:
        """Send and route some messages; the CPU seconds that the routing took."""
        for number in range(self._sent, self._sent + BATCH):
            self._tree.command("lead", f"t{number}")
        self._sent += BATCH
        start = time.process_time()
        report = await self._router.pass_()
        taken = time.process_time() - start
        assert report.delivered == BATCH
        return taken

    async def finish(self) -> float:
        """Send, route, run and acknowledge some tasks; the CPU seconds that all of it took."""
        taken = await self.route()
        start = time.process_time()
        tick = await self._beat.run_once()
        report = await self._router.pass_()
        taken += time.process_time() - start
        assert (tick.claimed, tick.ran, tick.failed, tick.errors) == (BATCH, BATCH, 0, [])
        assert report.collected >= BATCH
        board = await self._deps.stores.board("default")
        states: dict[str, int] = dict(await board.read(COUNTED_TASKS, plan_id=self._tree.plan_id))
        assert states["COMPLETED"] == self._sent
        return taken


@pytest.mark.rest
@pytest.mark.parametrize(("agent_id", "what"), [("guest", Desk.route), ("dev", Desk.finish)], ids=["message", "task"])
def test_a_new_one_costs_no_more_after_very_many_finished_tasks(
    past: Path, tmp_path: Path, agent_id: str, what: Callable[[Desk], Awaitable[float]]
) -> None:
    async def compare(meters: list[Meter]) -> float:
        async with open_root(past) as deps, open_root(tmp_path) as others:
            desks = [Desk(past, deps, agent_id), Desk(tmp_path, others, agent_id)]
            for desk in desks:
                await what(desk)  # the first pass looks at everything once
            for meter in meters:
                meter.reset()
            return statistics.median([await what(desks[0]) / await what(desks[1]) for _ in range(ROUNDS)])

    with metered(past, tmp_path) as (old, new):
        ratio = asyncio.run(compare([old, new]))
    assert new.statements >= ROUNDS * BATCH
    assert old.statements <= ALLOWED * new.statements
    assert old.steps <= ALLOWED * new.steps
    assert ratio <= ALLOWED


class Calls:
    """How many folders are opened and listed, and how many files are looked at by name."""

    NAMES: Final = ("open", "close", "scandir", "stat")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counted = dict.fromkeys(self.NAMES, 0)
        for name in self.NAMES:
            monkeypatch.setattr(os, name, self._counting(name, getattr(os, name)))

    def _counting(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            self.counted[name] += 1
            return call(*arguments, **options)

        return counting

    def taken(self) -> dict[str, int]:
        """Since the last time."""
        taken, self.counted = self.counted, dict.fromkeys(self.NAMES, 0)
        return taken


def finished(root: Path, plans: int, messages: int) -> Path:
    """A tree in which plans ended: their files, and what was sent and processed."""
    tree = Tree(root)
    for agent_id in ("lead", "dev"):
        tree.agent(agent_id, driver="script", argv=["nothing"])
    for plan in range(plans):
        plan_id = f"old_{plan}"
        tree.dag([node("t0", "dev")], plan_id=plan_id)
        for box, kept in (("outbox", ".sent"), ("inbox", ".processed")):
            for agent_id in ("lead", "dev"):
                folder = tree.box(agent_id, box, plan_id) / kept
                folder.mkdir(parents=True)
                for number in range(messages):
                    (folder / f"cmd_{number}.msg.json").touch()
    return root


async def watched(
    root: Path, look: Callable[[Router, Heartbeat], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch, times: int = 1
) -> dict[str, int]:
    """What a look at a tree takes once it is clear that nothing happens there: the least of some."""
    clock = [0.0]
    monkeypatch.setattr(UnchangedFolders, "now", staticmethod(lambda: clock[0]))
    with metered(root) as [meter]:
        async with open_root(root) as deps:
            router, beat = Router(deps), Heartbeat(deps, "dev", Done(), LocalProcesses())
            await beat.start()
            for _ in range(3):
                clock[0] += SETTLED
                await look(router, beat)
            with monkeypatch.context() as patch:
                calls, seen = Calls(patch), []
                for _ in range(times):  # the store copies the head of its ledger when a second is over, in one of them
                    meter.reset()
                    await look(router, beat)
                    seen.append({**calls.taken(), "statements": meter.statements})
                return min(seen, key=lambda each: each["statements"])


@pytest.mark.parametrize(
    "look", [lambda router, _: router.pass_(), lambda _, beat: beat.tick()], ids=["router", "heartbeat"]
)
def test_an_idle_look_opens_and_asks_the_same_whatever_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Router, Heartbeat], Awaitable[Any]]
) -> None:
    few = asyncio.run(watched(finished(tmp_path / "few", 20, 1), look, monkeypatch, 3))
    many = asyncio.run(watched(finished(tmp_path / "many", 60, 20), look, monkeypatch, 3))
    assert few["statements"] > 0
    assert few["scandir"] > 0
    assert many == few


def test_a_message_in_a_quiet_outbox_is_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(finished(tmp_path, 20, 1), plan_id="old_7")
    tree.dag([node("t0", "dev")])
    found: list[int] = []

    async def look(router: Router, _: Heartbeat) -> None:
        found.append((await router.pass_()).delivered)
        if len(found) == 3:
            tree.command("lead", "t0")

    asyncio.run(watched(tmp_path, look, monkeypatch))
    assert found == [0, 0, 0, 1]


def test_a_plan_that_is_edited_in_place_is_noticed_before_its_next_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(finished(tmp_path, 20, 1), plan_id="old_7")
    tree.dag([node("t0", "dev")])
    found: list[tuple[int, int]] = []

    async def look(router: Router, _: Heartbeat) -> None:
        report = await router.pass_()
        found.append((report.delivered, report.waiting))
        if len(found) == 3:
            (tree.plan_folder() / "task_dag.json").write_bytes(b"{}")
            tree.command("lead", "t0")

    asyncio.run(watched(tmp_path, look, monkeypatch))
    assert found == [(0, 0), (0, 0), (0, 0), (0, 1)]
