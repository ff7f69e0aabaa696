"""The turn that an agent takes now for a command in its inbox: begun, watched, ended. An agent takes one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.engine.core import records
from agenttalk.engine.core.agent_in_plan import AgentInPlan, open_agent_in_plan
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.slots import AgentSlot
from agenttalk.engine.inbox.agent_folder import AgentFolder
from agenttalk.engine.inbox.ready_commands import CommandScan, ReadyCommand
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.engine.inbox.turn import TurnSetting, take_turn
from agenttalk.engine.runs import recovery
from agenttalk.engine.runs.command_leases import lease_command
from agenttalk.ports.agents import Processes
from agenttalk.ports.statements.inbox import DELIVERY_STATE
from agenttalk.rules.core.task_states import State

PAUSE: Final = 5.0
"""Seconds without a new turn after the machine refused to run one."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A turn under way."""

    seat: AgentInPlan
    ready: ReadyCommand
    lease: str
    task: asyncio.Task[State | None]


class CurrentTurn:
    """Takes turns for an agent, one at a time."""

    def __init__(
        self,
        deps: Deps,
        agent_id: str,
        folder: AgentFolder,
        processes: Processes,
        slot: AgentSlot,
        setting: Callable[[], TurnSetting],
    ) -> None:
        self._deps = deps
        self._agent_id = agent_id
        self._folder = folder
        self._processes = processes
        self._slot = slot
        self._setting = setting
        self._run: _Run | None = None
        self._others_first = False
        self._not_before = 0.0

    @property
    def task(self) -> asyncio.Task[State | None] | None:
        """The task of the turn under way, which is over when the turn has ended."""
        return self._run.task if self._run is not None else None

    @property
    def task_id(self) -> str | None:
        """The task of the plan for which the turn under way is taken."""
        return self._run.ready.order.task_id if self._run is not None else None

    def find_delivery(self, seat: AgentInPlan) -> int | None:
        """Find the delivery of the command that runs now in a plan."""
        run = self._run
        return run.ready.order.delivery if run is not None and run.seat.plan_id == seat.plan_id else None

    async def settle(self, tick: TickReport) -> bool:
        """End what is over: the turn under way, and leases of turns that run nowhere. Whether a turn may begin."""
        self._slot.available.clear()
        self._others_first = False
        await self._reap(tick)
        await self._end_if_withdrawn(tick)
        return self._run is None and await self.recover(tick)

    async def begin(
        self, scans: Iterable[tuple[AgentInPlan, CommandScan]], profile: AgentProfile, tick: TickReport
    ) -> None:
        """Begin the first of the commands that are ready: by priority, then plan, then age."""
        if self._others_first or time.monotonic() < self._not_before:
            return
        ready_commands = [(seat, ready) for seat, scan in scans for ready in scan.ready]
        ready_commands.sort(key=lambda pair: pair[1].order.priority)
        if not ready_commands or not self._slot.acquire():
            return
        for seat, ready in ready_commands:
            try:
                missing = ready.resolution.missing
                attempt = await lease_command(seat, ready.order, missing, self._processes, profile)
            except AgentTalkError as error:
                tick.errors.append(error.message)
                return
            if attempt is not None:
                task = asyncio.create_task(take_turn(seat, self._setting(), ready, attempt))
                self._run = _Run(seat, ready, attempt.lease, task)
                tick.waiting -= 1
                return

    def release_unused_slot(self) -> None:
        """Give the slot of the agent back if no turn uses it, and if it was not handed over just now."""
        if self._run is None and not self._slot.available.is_set():
            self._slot.release()

    async def close(self) -> None:
        """End the turn under way, if there is one. The next process that starts runs its command again."""
        if self._run is not None:
            await self._cancel(TickReport())
        self._slot.withdraw()

    async def recover(self, tick: TickReport) -> bool:
        """End leases whose turns run nowhere. False when a turn of this agent runs in this or another process."""
        free = True
        try:
            for store in await self._folder.list_boards():
                result = await recovery.end_orphaned_commands(self._deps, store, self._agent_id, self._processes)
                tick.errors += result.errors
                free = free and not result.live
        except AgentTalkError as error:
            tick.errors.append(error.message)
            return False
        return free

    async def _reap(self, tick: TickReport) -> None:
        """Count a turn that has ended, and report the fault if it did not end by itself."""
        run = self._run
        if run is None or not run.task.done():
            return
        self._run = None
        self._leave(run)
        tick.ran += 1
        try:
            state = run.task.result()
        except asyncio.CancelledError:
            tick.errors.append("a turn was cancelled")
        except AgentTalkError as error:
            tick.errors.append(error.message)
            if error.code is not Code.LEASE_LOST:
                self._not_before = time.monotonic() + PAUSE
        except Exception as error:  # noqa: BLE001 - a fault of ours ends one turn, not the heartbeat
            tick.errors.append(f"{type(error).__name__}: {error}")
            self._not_before = time.monotonic() + PAUSE
            await report_fault(self._deps, self._agent_id, run.seat.plan_id, error)
        else:
            tick.failed += state == "FAILED"

    async def _end_if_withdrawn(self, tick: TickReport) -> None:
        """Cancel the turn under way when a newer command replaced its own."""
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
        """Cancel the turn under way. Its programs are dead afterwards, and its lease is given back."""
        run, self._run = self._run, None
        if run is None:
            return
        run.task.cancel()
        # The driver kills all processes of the turn before the cancellation leaves it, so waiting here is what makes
        # sure that nothing of the turn still writes when its command is given out again.
        with suppress(asyncio.CancelledError, AgentTalkError):
            await run.task
        # From here on the lease is not held any more, so `recover` finds it orphaned and ends it.
        self._leave(run)
        tick.ran += 1
        try:
            await recovery.end_orphaned_commands(self._deps, run.seat.store, self._agent_id, self._processes)
        except AgentTalkError as error:
            tick.errors.append(error.message)

    def _leave(self, run: _Run) -> None:
        self._deps.held_leases.discard(run.lease)
        self._others_first = self._slot.release(come_back=True)


async def report_fault(deps: Deps, agent_id: str, plan_id: str, error: Exception) -> None:
    """Alert people to an error of our own code in a plan. The heartbeat goes on."""
    message = f"{type(error).__name__}: {error}"[:500]
    with suppress(AgentTalkError):
        seat = await open_agent_in_plan(deps, agent_id, plan_id)
        await seat.store.transact(
            lambda tx: records.alert(
                tx,
                at=deps.stamp(),
                plan_id=plan_id,
                code=Code.UNHANDLED_EXCEPTION,
                message=message,
                key=f"heartbeat/{agent_id}/{message}",
                severity="CRITICAL",
                source=records.RecordSource(agent_id),
            )
        )
