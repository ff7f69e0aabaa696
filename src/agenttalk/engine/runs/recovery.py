"""Settles orphaned leases, of tasks and of commands: they are leased again, or the work that they left is verified."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.engine.agents import transcript
from agenttalk.engine.core import access, records
from agenttalk.engine.core.boards import VIRTUAL, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.runs import checkpoints, conclusion, resume
from agenttalk.engine.runs.resume import VERIFYING, OrphanedLease
from agenttalk.engine.runs.state import BoardState, DispatcherState
from agenttalk.engine.runs.steps import StepWriter
from agenttalk.ports.agents import Processes, ProcessIdentity
from agenttalk.ports.statements.plans import COMMAND_OF_DELIVERY, ENGINE_TASK
from agenttalk.ports.statements.runs import WORKING_COMMANDS, WORKING_TASKS, WorkingTaskRow
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.core.usage import NOTHING, UsageTotals
from agenttalk.rules.proof.performance import Performance


class Recovery:
    """Settles the leases of processes that died, and of turns that were ended."""

    def __init__(self, state: DispatcherState, steps: StepWriter) -> None:
        self._state = state
        self._steps = steps

    async def recover(self, *, unwanted: Collection[tuple[str, str]] = (), stopping: bool = False) -> int:
        """End orphaned leases, once their processes are confirmed dead. Returns how many there were.

        Work that was being verified is verified again. One that is `stopping` leaves it to the next start. Work of
        `unwanted` tasks, named by plan and task, is dropped.
        """
        count = 0
        for store in await list_boards(self._state.deps):
            board = self._state.board(store)
            for row in await store.read(WORKING_TASKS):
                if stopping and row.owner == resume.NO_OWNER:  # left for the next start already
                    continue
                if await end_processes(self._state.processes, row, held=self._state.ours) is None:
                    continue
                # The end counts against the task if its engine died or the turn met an unhandled
                # error, not if the engine was stopped.
                died = row.owner not in {self._state.desk.owner, resume.NO_OWNER} or row.lease in self._state.lost
                wanted = (row.plan_id, row.task_id) not in unwanted
                await self._settle(board, _leave(row, died=died), wanted=wanted, stopping=stopping)
                # After the commit: if the store failed, the marks stay for the next recovery, which decides by them
                # again.
                self._state.lost.discard(row.lease)
                self._state.revoked.discard(row.lease)
                self._state.kept.discard(row.lease)
                count += 1
        return count

    async def _settle(self, board: BoardState, left: OrphanedLease, *, wanted: bool, stopping: bool) -> None:
        """Settle one orphaned lease. An engine that cannot verify leaves the lease to one that can."""
        apart = left.phase == access.ELSEWHERE
        leaves = stopping or not (
            "remote" in self._state.jobs.performers if apart else self._can_verify(board.store.name)
        )
        needs = (apart or left.phase == "verifying") and wanted and not leaves
        # Work that is verified again holds its agent's slot, or the agent would get another task beside it.
        ticket = self._state.slots.acquire(left.agent_id, apart=apart) if needs else None
        found: list[tuple[LeasedAttempt, Performance | None]] = []

        # A turn that this process ended left its usage in `unpaid`; of a dead engine only the transcript knows.
        allowance, used = self._state.unpaid.pop(left.lease, (None, NOTHING))
        if left.died and used == NOTHING:
            used = await self._read_transcribed_use(board, left)

        def work(tx: Tx) -> None:
            moves = PlanTransaction(tx, self._state.deps, board.sheets, self._state.deps.stamp())
            limited = allowance
            if limited is None and used != NOTHING:
                sheet = board.sheets.load(tx, left.plan_id)
                limited = checkpoints.allowance_of(moves, self._state.desk.purse, sheet, sheet.node(tx, left.task_id))
            if wanted and leaves and resume.leave_for_next_start(tx, left):
                return
            taken = resume.resume_lease(moves, self._state.desk, left, ticket or 0) if wanted and not leaves else None
            if taken is None:
                kept = left.lease in self._state.kept
                conclusion.end_orphaned_lease(moves, left, used, limited, work_is_kept=kept)
            else:
                found.append(taken)
                # Before the commit: a pass that reads the new lease right after it must not take it for orphaned.
                self._state.ours.add(taken[0].job.lease)
            moves.finish()
            folders.append(moves.in_folders)

        folders: list[bool] = []
        try:
            await board.store.transact(work)
        except BaseException:  # rolled back: the new leases do not exist
            self._state.drop([granted for granted, _ in found])
            found.clear()
            raise
        finally:
            if not found and ticket is not None:
                self._state.slots.release(left.agent_id, ticket)
        if any(folders):
            self._state.nudge_router()
        # Only now: a turn must not begin for a lease that could still be rolled back.
        for granted, performance in found:
            self._steps.begin(board, granted, performance)

    async def _read_transcribed_use(self, board: BoardState, left: OrphanedLease) -> UsageTotals:
        """Read the usage that the agent of a dead engine had reported, as far as its transcript has it."""
        [task] = await board.store.read(ENGINE_TASK, plan_id=left.plan_id, task_id=left.task_id)
        rows = await board.store.read(COMMAND_OF_DELIVERY, id=left.delivery)
        if left.phase in VERIFYING or task.lease != left.lease or not rows:
            return NOTHING
        envelope: Any = wire.read(bytes(rows[0].envelope), limit=wire.DOCUMENT_LIMIT)
        command_id = envelope["payload"]["command"]["command_id"]
        path = transcript.find_path(left.agent_id, left.plan_id, left.task_id, command_id, task.attempt)
        return await asyncio.to_thread(transcript.read_used, self._state.deps.root, path)

    def _can_verify(self, board: str) -> bool:
        """Whether this engine can verify work on a board: by the kind of its tasks, or by running checks."""
        return board in self._state.deps.kinds if board in VIRTUAL else self._state.prover is not None


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The leases of an agent for commands of foreign plans, after recovery."""

    live: int = 0
    """Leases whose turns still run, in this process or another one."""
    errors: tuple[str, ...] = ()


async def end_orphaned_commands(deps: Deps, store: Store, agent_id: str, processes: Processes) -> RecoveryResult:
    """End the orphaned leases of an agent for commands of foreign plans. Nothing of these turns is verified again."""
    live, errors = 0, []
    for row in await store.read(WORKING_COMMANDS, agent_id=agent_id):
        try:
            killed = await end_processes(processes, row, held=deps.held_leases)
        except MachineError as error:
            killed = None
            errors.append(error.message)
            # The lease stays. Its task must not begin beside a process that cannot be ended, and only a person can
            # help.
            await store.transact(partial(_report_stuck, deps=deps, row=row, why=error.message))
        if killed is None:
            live += 1
        else:
            left, at = _leave(row, died=False), deps.stamp()
            await store.transact(partial(conclusion.write_orphan_end, left=left, at=at, killed=killed))
    return RecoveryResult(live, tuple(errors))


def _report_stuck(tx: Tx, deps: Deps, row: WorkingTaskRow, why: str) -> None:
    """Alert people to processes that cannot be ended, so that the task of their lease does not start again."""
    records.alert(
        tx,
        at=deps.stamp(),
        plan_id=row.plan_id,
        code=Code.PROCESS_STUCK,
        message=why,
        key=row.lease,
        severity="CRITICAL",
        source=records.RecordSource(agent_id=row.agent_id, task_id=row.task_id),
    )


def _leave(row: WorkingTaskRow, *, died: bool) -> OrphanedLease:
    return OrphanedLease(row.plan_id, row.task_id, row.agent_id, row.epoch, row.lease, row.delivery, row.phase, died)


async def end_processes(processes: Processes, row: WorkingTaskRow, *, held: Collection[str]) -> int | None:
    """End the processes of a lease, if it is orphaned. Returns how many there were, None if its turn still runs.

    Raises MachineError if one of them cannot be ended. Then the lease stays for the next recovery.
    """
    if not is_orphaned(processes, row.lease, row.owner, held=held):
        return None
    # First the processes, then the row: while one of them lives it could write into the workspace, and the next
    # attempt would run beside it.
    return await processes.end(row.lease)


def is_orphaned(processes: Processes, lease: str, owner: str, *, held: Collection[str]) -> bool:
    """Whether the turn of a lease runs nowhere any more. `held` are the leases of turns that run in this process.

    A lease of this process that it does not hold is orphaned, too: its turn has ended without an end in the store.
    """
    if lease in held:
        return False
    content: Any = wire.read(owner.encode())
    try:
        identity = ProcessIdentity(**content)
    except TypeError:  # written by something else than an engine: no process takes care of it
        return True
    return identity == processes.me() or not processes.alive(identity)
