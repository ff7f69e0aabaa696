"""The agent side: takes messages out of an inbox, keeps artifacts, runs commands and hands over what came out.

The store is the truth and the files follow from it, so a crash at any point leaves something that the next
start finishes. One command runs at a time; while it does, messages are taken all the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import AgentId, is_id
from agenttalk.contracts.errors import AgentTalkError, Code, MissingError
from agenttalk.engine.agents.registry import make_performers
from agenttalk.engine.core import records
from agenttalk.engine.core.agent_in_plan import AgentInPlan, open_agent_in_plan
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.boards import VIRTUAL, list_boards, open_if_readable
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.loops import WakeSource
from agenttalk.engine.core.slots import AgentSlot, Slots
from agenttalk.engine.core.unchanged_folders import UnchangedFolders
from agenttalk.engine.inbox import archive, claims, file_sync, leases
from agenttalk.engine.inbox.origins import OriginJudge
from agenttalk.engine.inbox.ready_commands import CommandScan, CommandScanner, ReadyCommand
from agenttalk.engine.inbox.status_file import StatusFile
from agenttalk.engine.inbox.turn import TurnSetting, take_turn
from agenttalk.engine.runs.job_runner import JobRunner
from agenttalk.ports.agents import Driver, Processes
from agenttalk.ports.folders import FolderEntry
from agenttalk.ports.statements.inbox import DELIVERY_STATE, PLANS_OF_AGENT
from agenttalk.ports.statements.plans import RUN
from agenttalk.ports.storage import Store
from agenttalk.rules.core.task_states import State

_WHEN_BUSY, _WHEN_IDLE = 0.5, 3.0
"""Parts of the poll interval after which it looks again, whether or not anything woke it."""
_QUIET_TICKS: Final = 3
"""After so many looks at nothing, an agent is idle."""
_PAUSE: Final = 5.0
"""Seconds without a new run after the machine would not do one."""


@dataclass(slots=True)
class TickReport:
    """What a look did."""

    claimed: int = 0
    """Messages taken."""
    archived: int = 0
    """Artifacts kept."""
    waiting: int = 0
    """Commands that wait, for inputs or for their turn; of a folder agent, messages in its inbox."""
    asked: int = 0
    """Questions put to people."""
    ran: int = 0
    """Turns that ended, whatever came of them."""
    failed: int = 0
    """Commands that failed for good."""
    dead: int = 0
    """Messages refused."""
    running: int = 0
    """Commands that run now."""
    errors: list[str] = field(default_factory=list)
    """What could not be done and is tried again."""

    @property
    def has_worked(self) -> bool:
        """Whether anything was done, so that it is worth looking again at once."""
        return bool(self.claimed or self.archived or self.asked or self.ran or self.dead)

    def as_json(self) -> dict[str, Any]:
        """For people and programs."""
        return asdict(self)

    def add(self, other: TickReport) -> None:
        """Count what another look did; what it found waiting or running replaces what this one found."""
        for name in ("claimed", "archived", "asked", "ran", "failed", "dead"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.waiting, self.running = other.waiting, other.running
        self.errors += [error for error in other.errors if error not in self.errors]


@dataclass(frozen=True, slots=True)
class _Run:
    """A turn under way."""

    seat: AgentInPlan
    ready: ReadyCommand
    lease: str
    task: asyncio.Task[State | None]


class Heartbeat:
    """Drives one agent of a root."""

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
    ) -> None:
        """`environ`: the variables of which the agent's profile may hand some over to its program.

        `slots` are shared with others who have agents work, if there are any; `freed` has them ask again.
        """
        self._deps = deps
        self._agent_id = agent_id
        self._processes = processes
        self._api = api
        self._environ = dict(environ or {})
        self._runner = JobRunner(deps, make_performers(deps, driver, lambda: api, self._environ))
        self._orders = CommandScanner()
        self._inbound = OriginJudge(deps, agent_id)
        self._resumed: set[str] = set()
        self._quiet_boxes = UnchangedFolders()
        self._run: _Run | None = None
        self._place = AgentSlot(slots or Slots(1), agent_id, freed)
        self._others_first = False
        self._no_run_before = 0.0
        self._quiet = 0
        self._busy = False
        self._vitals = StatusFile(deps, agent_id)

    async def start(self) -> None:
        """Take up what an earlier process left: its leases, once its programs are dead, and half-done claims."""
        self._resumed.clear()
        tick = TickReport()
        if await self._profile(tick) is not None:
            await self._recover(tick)

    async def close(self) -> None:
        """End the turn under way, if any. Its command is run again by whoever starts next."""
        if self._run is not None:
            await self._cancel(TickReport())
        self._place.withdraw()

    async def run_once(self) -> TickReport:
        """Do everything that can be done now: archive what arrived, run every command that is ready."""
        await self.start()
        total = TickReport()
        while True:
            tick = await self.tick()
            total.add(tick)
            if self._run is not None:
                await asyncio.wait({self._run.task}, timeout=min(self.interval, _PAUSE))
            elif not tick.has_worked:
                return total

    async def run(
        self, stop: asyncio.Event, wake: WakeSource, tell: Callable[[TickReport], None] = lambda _: None
    ) -> None:
        """Look whenever something woke it, and at the latest after the poll interval, until it is stopped.

        After each look it says what it did.
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

    @property
    def interval(self) -> float:
        """Seconds until the next look, if nothing wakes it."""
        poll = self._deps.limits.poll_seconds
        if self._busy:
            return poll * _WHEN_BUSY
        return poll * _WHEN_IDLE if self._quiet >= _QUIET_TICKS else poll

    async def tick(self) -> TickReport:
        """Look once: finish, take, keep, ask, and begin at most one turn."""
        tick = TickReport()
        profile = await self._profile(tick)
        if profile is None:
            return tick
        self._place.available.clear()
        self._others_first = False
        await self._reap(tick)
        await self._end_if_withdrawn(tick)
        idle = self._run is None and await self._recover(tick)
        plans: list[str] = []
        looks: list[tuple[AgentInPlan, CommandScan]] = []
        now = self._quiet_boxes.now()
        boxes = await asyncio.to_thread(self._inboxes)
        for plan_id in await self._plans(boxes, now, tick):
            try:
                seat = await open_agent_in_plan(self._deps, self._agent_id, plan_id)
                news = await self._take_new(seat, tick)
                if plan_id in boxes:
                    self._quiet_boxes.record(plan_id, boxes[plan_id], now, news=news)
                looked = await self._scan_plan(seat, tick)
            except AgentTalkError as error:
                self._resumed.discard(plan_id)
                tick.errors.append(error.message)
            except Exception as error:  # noqa: BLE001 - one plan's fault does not hold up the others
                self._resumed.discard(plan_id)
                tick.errors.append(f"{type(error).__name__}: {error}")
                await self._report_fault(plan_id, error)
            else:
                looks.append((seat, looked))
                plans += [plan_id] if looked.tasks or self._runs_in(seat) else []
        if idle and not self._others_first and time.monotonic() >= self._no_run_before:
            await self._begin(looks, profile, tick)
        if self._run is None and not self._place.available.is_set():
            self._place.release()
        tick.running = int(self._run is not None)
        self._settle_pace(tick)
        await self._tell(tick, plans, sorted({task for _, looked in looks for task in looked.tasks}))
        return tick

    def _runs_in(self, seat: AgentInPlan) -> bool:
        return self._run is not None and self._run.seat.plan_id == seat.plan_id

    def _running_in(self, seat: AgentInPlan) -> int | None:
        return self._run.ready.order.delivery if self._run is not None and self._runs_in(seat) else None

    async def _take_new(self, seat: AgentInPlan, tick: TickReport) -> bool:
        """One plan: settle what is due, take what is new. Whether there was anything in its inbox."""
        if seat.plan_id not in self._resumed:
            self._count(tick, await claims.resume_claims(seat, self._inbound))
            self._resumed.add(seat.plan_id)
        await file_sync.sync_files(seat, self._running_in(seat))
        claimed = await claims.claim_messages(seat, self._inbound)
        self._count(tick, claimed)
        return bool(claimed.found or claimed.errors)

    async def _scan_plan(self, seat: AgentInPlan, tick: TickReport) -> CommandScan:
        """What is taken: keep artifacts, look at commands."""
        kept = await archive.archive_claimed(seat)
        tick.archived += kept.archived
        tick.dead += kept.dead
        looked = await self._orders.scan(
            seat, self._running_in(seat), await self._inbound.read_plan_files(seat.plan_id)
        )
        tick.waiting += looked.waiting + len(looked.ready)
        tick.asked += looked.asked
        await file_sync.sync_files(seat, self._running_in(seat))
        return looked

    @staticmethod
    def _count(tick: TickReport, claimed: claims.ClaimResult) -> None:
        tick.claimed += claimed.claimed
        tick.dead += claimed.dead
        tick.errors += claimed.errors

    async def _begin(
        self, looks: list[tuple[AgentInPlan, CommandScan]], profile: AgentProfile, tick: TickReport
    ) -> None:
        """Begin the best of the commands that are ready: by priority, then plan, then age."""
        best = [(seat, ready) for seat, looked in looks for ready in looked.ready]
        best.sort(key=lambda each: each[1].order.priority)
        for seat, ready in best if best and self._place.acquire() else ():
            try:
                lease = await leases.lease_command(seat, ready, self._processes, profile)
            except AgentTalkError as error:
                tick.errors.append(error.message)
                return
            if lease is not None:
                setting = TurnSetting(self._runner, self._environ)
                task = asyncio.create_task(take_turn(seat, setting, ready, lease))
                self._run = _Run(seat, ready, lease.attempt.lease, task)
                tick.waiting -= 1
                return

    async def _reap(self, tick: TickReport) -> None:
        """Note a turn that has ended."""
        run = self._run
        if run is None or not run.task.done():
            return
        self._run = None
        self._leave_turn(run)
        tick.ran += 1
        try:
            state = run.task.result()
        except asyncio.CancelledError:
            tick.errors.append("a turn was cancelled")
        except AgentTalkError as error:
            tick.errors.append(error.message)
            if error.code is not Code.LEASE_LOST:
                self._no_run_before = time.monotonic() + _PAUSE
        except Exception as error:  # noqa: BLE001 - a fault of ours ends one turn, not the agent
            tick.errors.append(f"{type(error).__name__}: {error}")
            self._no_run_before = time.monotonic() + _PAUSE
            await self._report_fault(run.seat.plan_id, error)
        else:
            tick.failed += state == "FAILED"

    async def _end_if_withdrawn(self, tick: TickReport) -> None:
        """Cancel the turn under way when a newer command took its place."""
        run = self._run
        if run is None:
            return
        try:
            rows = await run.seat.store.read(DELIVERY_STATE, id=run.ready.order.delivery)
        except AgentTalkError as error:
            tick.errors.append(error.message)
            return
        if rows[0].state != "claimed" and not run.task.done():
            await self._cancel(tick)

    async def _cancel(self, tick: TickReport) -> None:
        """End the turn under way; its programs are dead afterwards, and its lease is given back."""
        run, self._run = self._run, None
        if run is None:
            return
        run.task.cancel()
        with suppress(asyncio.CancelledError, AgentTalkError):
            await run.task
        self._leave_turn(run)
        tick.ran += 1
        try:
            await leases.recover(self._deps, run.seat.store, self._agent_id, self._processes)
        except AgentTalkError as error:
            tick.errors.append(error.message)

    def _leave_turn(self, run: _Run) -> None:
        self._deps.held_leases.discard(run.lease)
        self._others_first = self._place.release(come_back=True)

    async def _recover(self, tick: TickReport) -> bool:
        """End leases that nobody takes care of. False when somebody alive runs a command of this agent."""
        free = True
        try:
            for store in await self._boards():
                found = await leases.recover(self._deps, store, self._agent_id, self._processes)
                tick.errors += found.errors
                free = free and not found.live
        except AgentTalkError as error:
            tick.errors.append(error.message)
            return False
        return free

    async def _boards(self) -> list[Store]:
        """The boards on which this agent can have work. Virtual ones only when it has a folder for them."""
        names = await asyncio.to_thread(self._inboxes)
        virtual = [await open_if_readable(self._deps, name) for name in sorted(VIRTUAL & names.keys())]
        return [*await list_boards(self._deps), *(each for each in virtual if each is not None)]

    async def _plans(self, boxes: dict[str, FolderEntry], now: float, tick: TickReport) -> list[str]:
        """The plans of this agent: those in whose inbox something may have come, and those with work left."""
        found = {name for name, entry in boxes.items() if not self._is_quiet(name, entry, now)}
        try:
            for store in await self._boards():
                found |= {row.plan_id for row in await store.read(PLANS_OF_AGENT, agent_id=self._agent_id)}
                found -= {plan_id for plan_id in found if await store.read(RUN, plan_id=plan_id)}
        except AgentTalkError as error:
            tick.errors.append(error.message)
            return []
        return sorted(found)

    def _is_quiet(self, plan_id: str, entry: FolderEntry, now: float) -> bool:
        return plan_id in self._resumed and self._quiet_boxes.is_unchanged(plan_id, entry, now)

    def _inboxes(self) -> dict[str, FolderEntry]:
        """The folders in the agent's inbox, by plan."""
        try:
            with self._deps.root.open_folder(f"{root_layout.agent_folder(self._agent_id)}/inbox") as folder:
                found = {entry.name: entry for entry in folder.scan() if entry.kind == "folder" and entry.is_text}
        except AgentTalkError:
            return {}
        return {name: found[name] for name in found if is_id(name) and (not name.startswith("_") or name in VIRTUAL)}

    async def _profile(self, tick: TickReport) -> AgentProfile | None:
        """The agent's profile, if it is one that we drive. A folder agent's boxes are left alone."""
        try:
            data = await asyncio.to_thread(
                self._deps.root.read,
                f"{root_layout.agent_folder(self._agent_id)}/{root_layout.PROFILE}",
                wire.ENVELOPE_LIMIT,
            )
            profile = AgentProfile.from_bytes(data)
        except MissingError:
            profile = AgentProfile(agent_id=AgentId(self._agent_id))
        except AgentTalkError as error:
            tick.errors.append(f"{root_layout.PROFILE}: {error.message}")
            await self._tell(tick, [], [])
            return None
        return await self._require_driven(profile, tick)

    async def _require_driven(self, profile: AgentProfile, tick: TickReport) -> AgentProfile | None:
        if profile.agent_id != self._agent_id:
            tick.errors.append(f"{root_layout.PROFILE}: it is that of {profile.agent_id!r}; correct agent_id")
            await self._tell(tick, [], [])
            return None
        if profile.driver == "script" or (profile.driver == "cli" and "cli" in self._runner.performers):
            return self._deps.operator.words.apply_to(profile)
        if profile.driver == "folder":
            tick.waiting = await asyncio.to_thread(self._count_lying)
        else:
            tick.errors.append(f"the driver {profile.driver[:40]!r} is not supported here")
            await self._tell(tick, [], [])
        return None

    def _count_lying(self) -> int:
        """How many messages lie in the inbox of an agent that is worked by hand."""
        lying = 0
        for plan_id in self._inboxes():
            with (
                suppress(AgentTalkError),
                self._deps.root.open_folder(root_layout.box_folder(self._agent_id, "inbox", plan_id)) as box,
            ):
                lying += sum(name.endswith(root_layout.MESSAGE) and not name.startswith(".") for name in box.names())
        return lying

    async def _report_fault(self, plan_id: str, error: Exception) -> None:
        message = f"{type(error).__name__}: {error}"[:500]
        with suppress(AgentTalkError):
            seat = await open_agent_in_plan(self._deps, self._agent_id, plan_id)
            await seat.store.transact(
                lambda tx: records.alert(
                    tx,
                    at=self._deps.stamp(),
                    plan_id=plan_id,
                    code=Code.UNHANDLED_EXCEPTION,
                    message=message,
                    key=f"heartbeat/{self._agent_id}/{message}",
                    severity="CRITICAL",
                    source=records.RecordSource(self._agent_id),
                )
            )

    def _settle_pace(self, tick: TickReport) -> None:
        self._busy = bool(tick.has_worked or tick.running or tick.waiting)
        self._quiet = 0 if self._busy else self._quiet + 1

    async def _tell(self, tick: TickReport, plans: list[str], tasks: list[str]) -> None:
        running = [self._run.ready.order.task_id] if self._run is not None else []
        status = "RUNNING" if running else "WAITING" if tick.waiting else "IDLE"
        try:
            await self._vitals.write_status(status, plans, sorted({*tasks, *running}), tick.errors, self.interval)
        except AgentTalkError as error:
            tick.errors.append(error.message)

    async def _sleep(self, stop: asyncio.Event, wake: WakeSource) -> None:
        """Wait until something changed, the turn under way ended, it is stopped, or it is time."""
        waits: set[asyncio.Task[Any]] = {
            asyncio.create_task(stop.wait()),
            asyncio.create_task(wake.wait_for_change(self.interval)),
        }
        waits.add(asyncio.create_task(self._place.available.wait()))
        run = {self._run.task} if self._run is not None else set()
        try:
            await asyncio.wait(waits | run, timeout=self.interval, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
