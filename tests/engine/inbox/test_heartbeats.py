"""The heartbeats of an engine: who is driven, and that nobody is given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.loops import Waiter, WakeBroadcaster
from agenttalk.engine.core.profiles import ProfileOverlay
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.inbox.supervisor import HeartbeatSupervisor
from agenttalk.wiring import open_root
from kits.agentkit import WRITES, Desk
from kits.treekit import Tree


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A developer whose program makes what it is asked for."""
    desk = Desk(Tree(tmp_path))
    desk.program(WRITES)
    return desk


@asynccontextmanager
async def driven(root: Path, configured: ProfileOverlay) -> AsyncIterator[HeartbeatSupervisor]:
    """Heartbeats that are ended when the block is."""
    processes, stop = LocalProcesses(), asyncio.Event()
    async with open_root(root) as deps:
        found = HeartbeatSupervisor(
            deps,
            ScriptDriver(processes),
            processes,
            configured,
            environ=None,
            slots=Slots(2),
            freed=lambda: None,
        )
        found.begin(stop, WakeBroadcaster(Waiter()), EngineAddress("http://127.0.0.1:1", ""))
        try:
            yield found
        finally:
            stop.set()
            await found.end()


def test_an_agent_whose_heartbeat_ended_is_driven_again(desk: Desk) -> None:
    asked: list[str] = []

    def fails_once(agent_id: str, said: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(agent_id)
        if len(asked) == 2:  # first it is asked whether the agent is driven, then by its heartbeat
            raise RuntimeError("these settings are broken")
        return dict(said)

    async def play() -> None:
        async with driven(desk.tree.root, fails_once) as heartbeats:
            await heartbeats.start_missing()
            await heartbeats.end()
            assert len(asked) == 2
            message_id = desk.command()
            tick = await heartbeats.pass_("dev")
            assert tick is not None
            assert (tick.ran, tick.failed, tick.errors) == (1, 0, [])
            assert desk.ack(message_id)["status"] == "SUCCEEDED"

    asyncio.run(play())


def test_whoever_the_settings_make_another_kind_of_agent_has_no_heartbeat(desk: Desk) -> None:
    def by_hand(_: str, said: Mapping[str, Any]) -> dict[str, Any]:
        return {**said, "driver": "folder"}

    async def play() -> None:
        async with driven(desk.tree.root, by_hand) as heartbeats:
            desk.command()
            tick = await heartbeats.pass_("dev")
            assert tick is not None
            assert (tick.ran, tick.waiting) == (0, 1)
            heartbeats.configure(lambda _, said: dict(said))
            tick = await heartbeats.pass_("dev")
            assert tick is not None
            assert tick.ran == 1

    asyncio.run(play())
