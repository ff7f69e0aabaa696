"""Starts one heartbeat for each agent that the engine drives, and starts it again when it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.loops import WakeBroadcaster, wait_for_first
from agenttalk.engine.core.profiles import ProfileOverlay, list_agents, profile_of
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.inbox.heartbeat import Heartbeat, TickReport
from agenttalk.ports.agents import Driver, Processes

LOG = logging.getLogger(__name__)


class HeartbeatSupervisor:
    """Has the agents of a root work on plans that the engine does not run itself."""

    def __init__(
        self,
        deps: Deps,
        driver: Driver,
        processes: Processes,
        configured: ProfileOverlay,
        *,
        environ: Mapping[str, str] | None,
        slots: Slots,
        freed: Callable[[], None],
    ) -> None:
        """`slots` are shared with others who have agents work, and `freed` has them ask again."""
        self._deps = deps
        self._driver = driver
        self._processes = processes
        self._configured = configured
        self._environ = environ
        self._slots = slots
        self._freed = freed
        self._stop = asyncio.Event()
        self._wakes: WakeBroadcaster | None = None
        self._api: EngineAddress | None = None
        self._at_work: dict[str, tuple[OnDemandHeartbeat, asyncio.Task[None]]] = {}
        self._marks: dict[str, object] = {}

    def begin(self, stop: asyncio.Event, wakes: WakeBroadcaster, api: EngineAddress) -> None:
        """From now on agents can be driven, until `stop` is set."""
        self._stop, self._wakes, self._api = stop, wakes, api

    async def end(self) -> None:
        """Wait until every heartbeat has ended, which is after `stop` was set."""
        await asyncio.gather(*(task for _, task in self._at_work.values()), return_exceptions=True)

    def configure(self, configured: ProfileOverlay) -> None:
        """Have other settings hold from now on."""
        self._configured = configured
        self._marks.clear()

    async def start_missing(self) -> None:
        """Begin to drive agents whose profile says that we do, and those again whose loop has ended."""
        for agent_id in [each for each, (_, task) in self._at_work.items() if task.done()]:
            del self._at_work[agent_id]
            self._marks.pop(agent_id, None)
        for agent_id in await asyncio.to_thread(list_agents, self._deps.root):
            if agent_id in self._at_work or self._stop.is_set() or not await self._is_driven(agent_id):
                continue
            worker = self._worker(agent_id)
            self._at_work[agent_id] = (worker, asyncio.create_task(self._work(worker, agent_id)))

    async def pass_(self, agent_id: str) -> TickReport | None:
        """Have an agent do all that it can do now; None when its heartbeat ended before that.

        Raises UsageError when there is no such agent.
        """
        agents = await asyncio.to_thread(list_agents, self._deps.root)
        if agent_id not in agents:
            near = find_nearest(agent_id, agents)
            hint = f"did you mean {near!r}?" if near else "a folder under agents/ makes one"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no agent {agent_id!r}", hint=hint)
        await self.start_missing()
        if agent_id not in self._at_work:
            return await self._worker(agent_id).tick()
        worker, loop = self._at_work[agent_id]
        looking = asyncio.create_task(worker.pass_())
        await wait_for_first(looking, loop, self._stop.wait(), keep={loop})
        return None if looking.cancelled() else looking.result()

    async def _work(self, worker: OnDemandHeartbeat, agent_id: str) -> None:
        if self._wakes is None:
            return
        wake = self._wakes.add_agent_waiter(agent_id)
        try:
            await worker.run(self._stop, wake)
        except Exception:
            LOG.exception("the heartbeat of %s ended; it is started again", agent_id, extra={"action": "engine.agents"})
        finally:
            self._wakes.remove(wake)

    def _worker(self, agent_id: str) -> OnDemandHeartbeat:
        return OnDemandHeartbeat(
            self._deps,
            agent_id,
            self._driver,
            self._processes,
            self._api,
            environ=self._environ,
            slots=self._slots,
            freed=self._freed,
            profile=lambda: profile_of(self._deps, agent_id, self._configured),
        )

    async def _is_driven(self, agent_id: str) -> bool:
        """Whether an agent's profile, with the settings over it, has us start a program. Read when it changed."""
        path = f"{root_layout.agent_folder(agent_id)}/{root_layout.PROFILE}"
        try:
            mark = await asyncio.to_thread(self._deps.root.entry, path)
            if agent_id in self._marks and self._marks[agent_id] == mark:
                return False
            self._marks[agent_id] = mark
            return (await asyncio.to_thread(profile_of, self._deps, agent_id, self._configured)).driver == "script"
        except AgentTalkError:
            return False


class OnDemandHeartbeat(Heartbeat):
    """A heartbeat whose looks can also be asked for while its loop runs: they never overlap.

    `profile` reads what holds for the agent, settings included.
    """

    def __init__(self, *arguments: Any, profile: Callable[[], AgentProfile], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._read_profile = profile
        self._alone = asyncio.Lock()
        self._followers: list[asyncio.Queue[TickReport]] = []

    async def tick(self) -> TickReport:
        """Look once, alone, and tell everybody who follows what was done."""
        async with self._alone:
            tick = await super().tick()
        for each in self._followers:
            each.put_nowait(tick)
        return tick

    async def pass_(self) -> TickReport:
        """Look until nothing is left to do now, turns included; what all looks did meanwhile."""
        looks: asyncio.Queue[TickReport] = asyncio.Queue()
        self._followers.append(looks)
        total = TickReport()
        try:
            await self.tick()
            while True:
                tick = await looks.get()
                total.add(tick)
                if looks.empty() and not tick.running:
                    if not tick.has_worked:
                        return total
                    await self.tick()
        finally:
            self._followers.remove(looks)

    async def _profile(self, tick: TickReport) -> AgentProfile | None:
        try:
            profile = await asyncio.to_thread(self._read_profile)
        except AgentTalkError:
            return await super()._profile(tick)  # which says what is wrong with it
        return await self._require_driven(profile, tick)
