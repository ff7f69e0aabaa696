"""The part of an engine that runs plans, so that every run does the same in the same order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.python_calls import Agent, PythonPerformer
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.agents.program import ProgramAgents
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people.human_driver import HumanAgents
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.ports.agents import Job, Performer
from agenttalk.rules.proof.performance import Performance
from kits.plankit import proved
from kits.standingkit import PlanStanding, read_standing

PATIENCE = 30.0
"""Seconds within which a plan has to come where it is to come."""


@dataclass(frozen=True)
class Gated:
    """A performer that begins and ends turns only while a gate is open."""

    inner: Performer
    gate: asyncio.Event

    async def perform(self, job: Job) -> Performance:
        """Carry it out, when it may be."""
        await self.gate.wait()
        performance = await self.inner.perform(job)
        await self.gate.wait()
        return performance


class Engine:
    """A dispatcher that has one turn carried out at a time, and never while it looks at everything."""

    def __init__(self, deps: Deps, agents: Mapping[str, Agent]) -> None:
        """`agents` are the functions of those that are functions."""
        self._deps = deps
        self._gate = asyncio.Event()
        processes = LocalProcesses()
        driver = ScriptDriver(processes, grace=0.2)
        performers: dict[str, Performer] = {
            "python": PythonPerformer(agents, deps.stores.blobs),
            "script": ProgramAgents(deps, driver),
            "human": HumanAgents(deps),
        }
        gated = {name: Gated(each, self._gate) for name, each in performers.items()}
        prover = proved(deps.root.path, deps, driver)
        self.dispatcher = Dispatcher(deps, gated, processes, max_running=1, prover=prover)

    async def start(self) -> None:
        """Find what a process that died left behind. What it was verifying is verified before anything else begins."""
        with self.dispatcher.subscribe_changes() as news:
            await self.dispatcher._recovery.recover()
            verified = set(self.dispatcher._state.working)
            while verified & self.dispatcher._state.working:
                await news.wait()
                news.clear()

    async def look(self) -> None:
        """Begin what can begin; whatever has begun goes on afterwards."""
        self._gate.clear()
        await self.dispatcher.dispatch_ready()
        self._gate.set()

    async def until(self, plan_id: str, condition: Callable[[PlanStanding], bool]) -> None:
        """Go on until a plan has come so far. Looks again whenever no turn is under way and something waits."""
        with self.dispatcher.subscribe_changes() as news:
            async with asyncio.timeout(PATIENCE):
                while not await self._came(plan_id, condition, news):
                    pass
        self._gate.clear()

    async def _came(self, plan_id: str, condition: Callable[[PlanStanding], bool], news: asyncio.Event) -> bool:
        """Look once and see whether it comes so far; False when it has to be looked at again."""
        await self.look()
        while True:
            found = await self._quiet(plan_id, news)
            if condition(found) or found.result == "running":
                return condition(found)
            if all(each["state"] != "RUNNING" for each in found.tasks):
                raise RuntimeError(f"it stands still: {[(each['task_id'], each['state']) for each in found.tasks]}")
            await news.wait()  # for a person

    async def _quiet(self, plan_id: str, news: asyncio.Event) -> PlanStanding:
        """Where a plan stands once no turn is under way but that of a person."""
        while True:
            news.clear()
            found = await read_standing(self._deps, plan_id)
            if (
                plan_id not in self.dispatcher._deciding.plans_in_release
                and not found.counts["running"]
                and plan_id not in self.dispatcher._state.closings
            ):
                return found
            await news.wait()

    async def ended(self, plan_id: str) -> None:
        """Go on until everything in a plan has ended."""
        await self.until(plan_id, lambda found: found.state == "ENDED")

    async def close(self) -> None:
        """End what is under way."""
        await self.dispatcher.close()
