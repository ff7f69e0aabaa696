"""An agent that takes part in a foreign plan and in one of the engine's. Belongs into tests/engine/core/test_slots.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.python_calls import PythonPerformer
from agenttalk.adapters.drivers.python_calls import Turn as Called
from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.ports.agents import ProgramTurn, TurnEnd
from kits.agentkit import Desk
from kits.plankit import Engine, plan, task
from kits.treekit import Tree

PATIENCE = 300.0


class Never:
    async def wait_for_change(self, timeout: float) -> set[str]:  # noqa: ARG002, ASYNC109
        await asyncio.Event().wait()
        return set()


class Work:
    """What the agent does, whoever asks for it; never two things at once, and in turn."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.busy = False
        self.both_want_it = asyncio.Event()

    async def _do(self, what: str) -> None:
        assert not self.busy
        self.busy = True
        await self.both_want_it.wait()
        self.busy = False
        self.done.append(what)

    async def run(self, _: ProgramTurn) -> TurnEnd:
        await self._do("foreign")
        return TurnEnd("finished", 0, b"done", b"", 0.1)

    async def __call__(self, _: Called) -> str:
        await self._do("own")
        return "ok"


def test_an_agent_of_two_kinds_of_plans_does_one_thing_at_a_time(tmp_path: Path) -> None:
    desk = Desk(Tree(tmp_path), limits=EngineLimits(poll_seconds=1000))
    desk.program("")
    for number in range(4):
        desk.command(f"task_{number}", produces=[])
    work, slots = Work(), Slots(8)

    async def scenario(_: Heartbeat, deps: Deps) -> None:
        processes = LocalProcesses()
        performers = {"python": PythonPerformer({"dev": work}, deps.stores.blobs)}
        dispatcher = Dispatcher(deps, performers, processes, slots=slots)
        beat = Heartbeat(deps, "dev", work, processes, slots=slots, freed=dispatcher.nudge)
        stop, engine = asyncio.Event(), Engine(deps, dispatcher)
        await engine.submit(plan(*(task(f"own_{number}", "dev") for number in range(4)), plan_id="own"))
        loops = [
            asyncio.create_task(dispatcher.run(stop)),
            asyncio.create_task(beat.run(stop, Never(), lambda _: work.both_want_it.set())),
        ]
        try:
            async with asyncio.timeout(PATIENCE):
                while len(work.done) < 8:  # noqa: ASYNC110 - whoever is last is not known
                    await asyncio.sleep(0.01)
        finally:
            stop.set()
            await asyncio.gather(*loops)

    desk.play(scenario)
    assert sorted(work.done) == ["foreign"] * 4 + ["own"] * 4
    assert work.done[1:7] in (["own", "foreign"] * 3, ["foreign", "own"] * 3)
