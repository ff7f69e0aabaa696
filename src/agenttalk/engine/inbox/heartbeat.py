"""The agent side: takes messages out of an inbox, keeps artifacts, runs commands and hands their outputs over.

The store is the truth and the files follow from it, so a crash at any point leaves something that the next start
finishes. One command runs at a time; while it does, messages are still taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.engine.agents.registry import make_performers
from agenttalk.engine.core.agent_in_plan import AgentInPlan, open_agent_in_plan
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.loops import WakeSource
from agenttalk.engine.core.slots import AgentSlot, Slots
from agenttalk.engine.core.unchanged_folders import UnchangedFolders
from agenttalk.engine.inbox import archive, claims, file_sync
from agenttalk.engine.inbox.agent_folder import AgentFolder
from agenttalk.engine.inbox.current_turn import PAUSE, CurrentTurn, report_fault
from agenttalk.engine.inbox.origins import OriginJudge
from agenttalk.engine.inbox.ready_commands import CommandScan, CommandScanner
from agenttalk.engine.inbox.status_file import StatusFile
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.engine.inbox.turn import TurnSetting
from agenttalk.engine.runs.job_runner import JobRunner
from agenttalk.ports.agents import Driver, Processes
from agenttalk.ports.folders import FolderEntry
from agenttalk.ports.statements.inbox import PLANS_OF_AGENT
from agenttalk.ports.statements.plans import RUN

_WHEN_BUSY, _WHEN_IDLE = 0.5, 3.0
"""Parts of the poll interval after which the next tick comes if nothing wakes the heartbeat."""
_IDLE_TICKS: Final = 3
"""After so many ticks without work, an agent is idle."""


class Heartbeat:
    """Drives one agent of a root. Its ticks never overlap, also when one is asked for while its loop runs."""

    def __init__(
        self,
        deps: Deps,
        agent_id: str,
        driver: Driver,
        processes: Processes,
        api: EngineAddress | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        slots: Slots | None = None,
        freed: Callable[[], None] = lambda: None,
        profile: Callable[[], AgentProfile] | None = None,
    ) -> None:
        """`environ`: the variables of which the agent's profile may hand some over to its program.

        `slots` are shared with the dispatcher, if there is one; `freed` has it try again. `profile` reads the profile
        with the settings of the operator over it; else the file in the agent's folder is read.
        """
        self._deps = deps
        self._agent_id = agent_id
        self._api = api
        self._environ = dict(environ or {})
        self._runner = JobRunner(deps, make_performers(deps, driver, lambda: api, self._environ))
        self._folder = AgentFolder(deps, agent_id, self._runner.performers, profile)
        self._slot = AgentSlot(slots or Slots(1), agent_id, freed)
        self._turn = CurrentTurn(
            deps, agent_id, self._folder, processes, self._slot, lambda: TurnSetting(self._runner, self._environ)
        )
        self._scanner = CommandScanner()
        self._origins = OriginJudge(deps, agent_id)
        self._status_file = StatusFile(deps, agent_id)
        self._unchanged = UnchangedFolders()
        self._resumed: set[str] = set()
        """Plans whose half-done claims of an earlier process are finished."""
        self._idle_ticks = 0
        self._busy = False
        self._one_tick = asyncio.Lock()
        self._followers: list[asyncio.Queue[TickReport]] = []
        """Each gets the report of every tick."""

    async def start(self) -> None:
        """Take up what an earlier process left: its leases, once its programs are dead, and half-done claims."""
        self._resumed.clear()
        tick = TickReport()
        if await self._read_profile(tick) is not None:
            await self._turn.recover(tick)

    async def close(self) -> None:
        """End the turn under way, if there is one. The next process that starts runs its command again."""
        await self._turn.close()

    async def run_once(self) -> TickReport:
        """Do everything that can be done now: archive what arrived, run every command that is ready."""
        await self.start()
        total = TickReport()
        while True:
            tick = await self.tick()
            total.add(tick)
            if self._turn.task is not None:
                await asyncio.wait({self._turn.task}, timeout=min(self.interval, PAUSE))
            elif not tick.has_worked:
                return total

    async def run(
        self, stop: asyncio.Event, wake: WakeSource, tell: Callable[[TickReport], None] = lambda _: None
    ) -> None:
        """Tick whenever something wakes it, and at the latest after the poll interval, until `stop` is set.

        `tell` gets the report of each tick.
        """
        await self.start()
        try:
            while not stop.is_set():
                tick = await self.tick()
                tell(tick)
                if tick.claimed + tick.dead < self._deps.limits.new_messages_per_tick:
                    await self._sleep(stop, wake)
        finally:
            await self.close()

    async def work_until_done(self) -> TickReport:
        """Tick until nothing is left to do now, turns included, while the loop runs. Adds up all reports meanwhile."""
        reports: asyncio.Queue[TickReport] = asyncio.Queue()
        self._followers.append(reports)
        total = TickReport()
        try:
            await self.tick()
            while True:
                tick = await reports.get()
                total.add(tick)
                if reports.empty() and not tick.running:
                    if not tick.has_worked:
                        return total
                    await self.tick()
        finally:
            self._followers.remove(reports)

    @property
    def interval(self) -> float:
        """Seconds until the next tick, if nothing wakes the heartbeat."""
        poll = self._deps.limits.poll_seconds
        if self._busy:
            return poll * _WHEN_BUSY
        return poll * _WHEN_IDLE if self._idle_ticks >= _IDLE_TICKS else poll

    async def tick(self) -> TickReport:
        """Work the inbox once: end what is over, claim, archive, ask, and begin at most one turn."""
        async with self._one_tick:
            tick = await self._tick()
        for follower in self._followers:
            follower.put_nowait(tick)
        return tick

    async def _tick(self) -> TickReport:
        tick = TickReport()
        profile = await self._read_profile(tick)
        if profile is None:
            return tick
        may_begin = await self._turn.settle(tick)
        plans: list[str] = []
        scans: list[tuple[AgentInPlan, CommandScan]] = []
        now = self._unchanged.now()
        boxes = await asyncio.to_thread(self._folder.list_inboxes)
        for plan_id in await self._list_plans(boxes, now, tick):
            try:
                seat = await open_agent_in_plan(self._deps, self._agent_id, plan_id)
                news = await self._take_new(seat, tick)
                if plan_id in boxes:
                    self._unchanged.record(plan_id, boxes[plan_id], now, news=news)
                scan = await self._scan_plan(seat, tick)
            except AgentTalkError as error:
                self._resumed.discard(plan_id)
                tick.errors.append(error.message)
            except Exception as error:  # noqa: BLE001 - one plan's fault does not hold up the others
                self._resumed.discard(plan_id)
                tick.errors.append(f"{type(error).__name__}: {error}")
                await report_fault(self._deps, self._agent_id, plan_id, error)
            else:
                scans.append((seat, scan))
                plans += [plan_id] if scan.tasks or self._turn.find_delivery(seat) is not None else []
        if may_begin:
            await self._turn.begin(scans, profile, tick)
        self._turn.release_unused_slot()
        tick.running = int(self._turn.task is not None)
        self._settle_pace(tick)
        await self._write_status(tick, plans, sorted({task for _, scan in scans for task in scan.tasks}))
        return tick

    async def _read_profile(self, tick: TickReport) -> AgentProfile | None:
        """Read the agent's profile; None if it is not driven here. A fault stands in its status file, too."""
        profile = await self._folder.read_profile(tick)
        if profile is None and tick.errors:
            await self._write_status(tick, [], [])
        return profile

    async def _take_new(self, seat: AgentInPlan, tick: TickReport) -> bool:
        """Finish what is due in one plan and claim new messages. Whether there was anything in its inbox."""
        if seat.plan_id not in self._resumed:
            _count_claims(tick, await claims.resume_claims(seat, self._origins))
            self._resumed.add(seat.plan_id)
        await file_sync.sync_files(seat, self._turn.find_delivery(seat))
        claimed = await claims.claim_messages(seat, self._origins)
        _count_claims(tick, claimed)
        return bool(claimed.found or claimed.errors)

    async def _scan_plan(self, seat: AgentInPlan, tick: TickReport) -> CommandScan:
        """Archive claimed artifacts and check claimed commands of one plan."""
        result = await archive.archive_claimed(seat)
        tick.archived += result.archived
        tick.dead += result.dead
        running = self._turn.find_delivery(seat)
        scan = await self._scanner.scan(seat, running, await self._origins.read_plan_files(seat.plan_id))
        tick.waiting += scan.waiting + len(scan.ready)
        tick.asked += scan.asked
        await file_sync.sync_files(seat, running)
        return scan

    async def _list_plans(self, boxes: dict[str, FolderEntry], now: float, tick: TickReport) -> list[str]:
        """List the plans of this agent in which there may be news or work. Plans of the engine are not among them."""
        plans = {name for name, entry in boxes.items() if not self._is_unchanged(name, entry, now)}
        try:
            for store in await self._folder.list_boards():
                plans |= {row.plan_id for row in await store.read(PLANS_OF_AGENT, agent_id=self._agent_id)}
                plans -= {plan_id for plan_id in plans if await store.read(RUN, plan_id=plan_id)}
        except AgentTalkError as error:
            tick.errors.append(error.message)
            return []
        return sorted(plans)

    def _is_unchanged(self, plan_id: str, entry: FolderEntry, now: float) -> bool:
        return plan_id in self._resumed and self._unchanged.is_unchanged(plan_id, entry, now)

    def _settle_pace(self, tick: TickReport) -> None:
        self._busy = bool(tick.has_worked or tick.running or tick.waiting)
        self._idle_ticks = 0 if self._busy else self._idle_ticks + 1

    async def _write_status(self, tick: TickReport, plans: list[str], tasks: list[str]) -> None:
        running = [self._turn.task_id] if self._turn.task_id is not None else []
        status = "RUNNING" if running else "WAITING" if tick.waiting else "IDLE"
        try:
            await self._status_file.write_status(status, plans, sorted({*tasks, *running}), tick.errors, self.interval)
        except AgentTalkError as error:
            tick.errors.append(error.message)

    async def _sleep(self, stop: asyncio.Event, wake: WakeSource) -> None:
        """Wait until something changed, the turn under way ended, the slot is free, `stop` is set, or it is time."""
        waits: set[asyncio.Task[Any]] = {
            asyncio.create_task(stop.wait()),
            asyncio.create_task(wake.wait_for_change(self.interval)),
            asyncio.create_task(self._slot.available.wait()),
        }
        turn = {self._turn.task} if self._turn.task is not None else set()
        try:
            await asyncio.wait(waits | turn, timeout=self.interval, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The turn is not among them: it goes on. Without a cancel the others would never end.
            for waiting in waits:
                waiting.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


def _count_claims(tick: TickReport, claimed: claims.ClaimResult) -> None:
    tick.claimed += claimed.claimed
    tick.dead += claimed.dead
    tick.errors += claimed.errors
