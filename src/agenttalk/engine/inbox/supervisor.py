"""Starts one heartbeat for each agent that the engine drives, and starts it again when it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.loops import WakeBroadcaster, wait_for_first
from agenttalk.engine.core.profiles import ProfileOverlay, list_agents, profile_of
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.ports.agents import Driver, Processes

LOG = logging.getLogger(__name__)


class HeartbeatSupervisor:
    """Runs the heartbeats of a root: its agents work on plans that the engine does not run itself."""

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
        """`slots` are shared with the dispatcher, and `freed` has it try again."""
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
        self._at_work: dict[str, tuple[Heartbeat, asyncio.Task[None]]] = {}
        self._marks: dict[str, object] = {}

    def begin(self, stop: asyncio.Event, wakes: WakeBroadcaster, api: EngineAddress) -> None:
        """Allow heartbeats from now on, until `stop` is set."""
        self._stop, self._wakes, self._api = stop, wakes, api

    async def end(self) -> None:
        """Wait until every heartbeat has ended, which is after `stop` was set."""
        await asyncio.gather(*(task for _, task in self._at_work.values()), return_exceptions=True)

    def configure(self, configured: ProfileOverlay) -> None:
        """Apply other settings from now on."""
        self._configured = configured
        self._marks.clear()

    async def start_missing(self) -> None:
        """Start the heartbeats of driven agents that have none, also of those whose heartbeat has ended."""
        for agent_id in [each for each, (_, task) in self._at_work.items() if task.done()]:
            del self._at_work[agent_id]
            self._marks.pop(agent_id, None)
        for agent_id in await asyncio.to_thread(list_agents, self._deps.root):
            if agent_id in self._at_work or self._stop.is_set() or not await self._is_driven(agent_id):
                continue
            worker = self._worker(agent_id)
            self._at_work[agent_id] = (worker, asyncio.create_task(self._work(worker, agent_id)))

    async def pass_(self, agent_id: str) -> TickReport | None:
        """Have an agent do everything that it can do now; None when its heartbeat ended before that.

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
        looking = asyncio.create_task(worker.work_until_done())
        await wait_for_first(looking, loop, self._stop.wait(), keep={loop})
        return None if looking.cancelled() else looking.result()

    async def _work(self, worker: Heartbeat, agent_id: str) -> None:
        if self._wakes is None:
            return
        wake = self._wakes.add_agent_waiter(agent_id)
        try:
            await worker.run(self._stop, wake)
        except Exception:
            LOG.exception("the heartbeat of %s ended; it is started again", agent_id, extra={"action": "engine.agents"})
        finally:
            self._wakes.remove(wake)

    def _worker(self, agent_id: str) -> Heartbeat:
        return Heartbeat(
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
        """Whether an agent's profile, with the settings over it, starts a program. It is read when it changed."""
        path = f"{root_layout.agent_folder(agent_id)}/{root_layout.PROFILE}"
        try:
            mark = await asyncio.to_thread(self._deps.root.entry, path)
            if agent_id in self._marks and self._marks[agent_id] == mark:
                return False
            self._marks[agent_id] = mark
            return (await asyncio.to_thread(profile_of, self._deps, agent_id, self._configured)).driver == "script"
        except AgentTalkError:
            return False
