"""What a process does with a root, step by step, so that another one can go on where it died."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.python_calls import Agent
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.messages.router import Router
from crash.engine_life import Engine
from kits.treekit import Tree

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ROUNDS = 12
"""After so many rounds everything must have come to rest."""


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        return self.time


@dataclass
class Life:
    """One process: an open root, a router, a heartbeat for each agent that is driven, and what runs plans."""

    tree: Tree
    deps: Deps
    say: Callable[[str], None]
    """Acknowledge something to the world outside of the process."""
    functions: Callable[[Life], Mapping[str, Agent]] = field(default=lambda _: {})
    """What agents do that are functions."""
    beats: dict[str, Heartbeat] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.router = Router(self.deps)
        self._processes = LocalProcesses()
        self._engine: Engine | None = None

    async def engine(self) -> Engine:
        """What runs plans; it starts when it is asked for first."""
        if self._engine is None:
            self._engine = Engine(self.deps, self.functions(self))
            await self._engine.start()
        return self._engine

    async def close(self) -> None:
        """End what is under way."""
        if self._engine is not None:
            await self._engine.close()
        for beat in self.beats.values():
            await beat.close()

    async def route(self) -> bool:
        """One pass; whether there was anything to do."""
        report = await self.router.pass_()
        if report.problems:
            raise RuntimeError(f"the router has problems: {report.problems}")
        return not report.idle

    async def beat(self, agent_id: str) -> bool:
        """Let an agent do all that it can do now; whether there was anything."""
        if agent_id not in self.beats:
            driver = ScriptDriver(self._processes, grace=0.2)
            self.beats[agent_id] = Heartbeat(self.deps, agent_id, driver, self._processes)
        tick = await self.beats[agent_id].run_once()
        if tick.errors:
            raise RuntimeError(f"{agent_id} has errors: {tick.errors}")
        return tick.has_worked


@dataclass(frozen=True)
class Step:
    """Something that is done once: by the process, or by hand beside it."""

    do: Callable[[Life], Awaitable[object]] | Callable[[Tree], object]
    by_hand: bool = False
    seconds: float = 0.0
    """How late it is by then."""

    @property
    def time(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)


def by_hand(do: Callable[[Tree], object], *, seconds: float = 0.0) -> Step:
    """People and programs of others do this; it cannot be half done."""
    return Step(do, by_hand=True, seconds=seconds)


def route(*, seconds: float = 0.0) -> Step:
    """A pass of the router."""
    return Step(lambda life: life.route(), seconds=seconds)


def beat(agent_id: str, *, seconds: float = 0.0) -> Step:
    """An agent does all that it can do."""
    return Step(lambda life: life.beat(agent_id), seconds=seconds)


@dataclass(frozen=True)
class Scenario:
    """A tree and what happens to it. In the end router and agents go on until nothing is left to do."""

    name: str
    prepare: Callable[[Tree], object]
    steps: tuple[Step, ...]
    agents: tuple[str, ...] = ()
    made: bool = True
    """Whether its databases are there from the beginning."""
    before: tuple[Step, ...] = ()
    """What happened earlier, by a process that ended well."""
    again: int = 0
    """How many more attempts a death may cost, besides one for the command that was running."""
    fewer: int = 0
    """How many attempts a death may save, because what was running is not wanted any more."""
    functions: Callable[[Life], Mapping[str, Agent]] = field(default=lambda _: {})
    """What agents do that are functions."""
    witness: Callable[[Path, list[str]], list[str]] = field(default=lambda _root, _said: [])
    """What is wrong when a process died, given what it had acknowledged."""

    def all_steps(self) -> tuple[Step, ...]:
        """Its steps, and the rest until nothing changes."""
        last = max((step.seconds for step in (*self.before, *self.steps)), default=0.0)
        return (*self.steps, Step(self._rest, seconds=last))

    def earlier(self) -> Scenario:
        """What happened before, as a scenario of its own; agents do no more than its steps say."""
        return replace(self, name=f"{self.name}-before", steps=self.before, before=(), agents=())

    async def _rest(self, life: Life) -> None:
        for _ in range(ROUNDS):
            busy = await life.route()
            for agent_id in self.agents:
                busy = await life.beat(agent_id) or busy
            if not busy:
                return
        raise RuntimeError(f"it does not come to rest in {ROUNDS} rounds")
