"""Leases for commands of foreign plans: granted here, and ended as the leases of every turn are (`engine.runs`)."""

from __future__ import annotations

from dataclasses import dataclass

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.engine.core import outbox_writer, records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.inbox.ready_commands import ReadyCommand
from agenttalk.engine.runs.attempt import AttemptBuilder
from agenttalk.engine.runs.conclusion import build_orphan_end
from agenttalk.engine.runs.recovery import is_orphaned
from agenttalk.ports.agents import Processes
from agenttalk.ports.statements.inbox import ADD_TASK, DELIVERY_STATE, MESSAGE_OF_DELIVERY
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.statements.runs import END_TURN, LEASE_COMMAND, WORKING_COMMANDS, CommandLeaseRow
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.messages.leases import NO_TURNS, TurnHistory, attempt_number
from agenttalk.rules.text.catalogue import read_column


async def lease_command(
    seat: AgentInPlan, ready: ReadyCommand, processes: Processes, profile: AgentProfile
) -> AttemptBuilder | None:
    """Lease a task for a command; None when it is leased already, or its agent must not run the command any more."""
    owner = wire.write(processes.me()._asdict()).decode()
    attempt = await seat.store.transact(lambda tx: _lease(tx, seat, ready, owner, profile))
    if attempt is not None:
        seat.deps.held_leases.add(attempt.lease)
    return attempt


def _lease(tx: Tx, seat: AgentInPlan, ready: ReadyCommand, owner: str, profile: AgentProfile) -> AttemptBuilder | None:
    order, missing, at = ready.order, ready.resolution.missing, seat.deps.stamp()
    about = {"plan_id": seat.plan_id, "task_id": order.task_id}
    state = tx.run(DELIVERY_STATE, id=order.delivery)
    if not state or state[0].state != "claimed":
        return None
    tx.run(ADD_TASK, **about, agent_id=seat.agent_id, at=at)
    [task] = tx.run(ENGINE_TASK, **about)
    if task.lease is not None:
        return None
    number = attempt_number(task.delivery, order.delivery, task.attempt)
    history = TurnHistory(task.retries, task.sent_back) if number > 1 else NO_TURNS
    attempt = AttemptBuilder(
        owner,
        str(seat.root.path.absolute()),
        tx.board,
        profile,
        order.command,
        task.epoch + 1,
        (),
        Node.from_values(task_id=order.task_id, assigned_agent_id=seat.agent_id),
        frozenset(),
        None,
        foreign=True,
        missing=missing,
        sent_back=read_column(task.reason, task.reason_message) or "" if history.bad_scores else "",
        history=history,
        fact=task.fact if number > 1 else None,
        number=number,
    )
    tx.run(
        LEASE_COMMAND,
        **{**attempt.lease_row(at), "epoch": task.epoch},
        delivery=order.delivery,
        attempt=number,
        missing=wire.write(list(missing)) if missing else None,
        retries=history.crashes,
        sent_back=history.bad_scores,
    )
    body = {
        "lease": attempt.lease,
        "epoch": attempt.epoch,
        "attempt": number,
        "owner": owner,
        "missing": list(missing),
        **about,
    }
    tx.record("lease.granted", records.build_turn_subject(seat.plan_id, order.message_id), body)
    outbox_writer.report_state(
        tx,
        seat,
        order.task_id,
        "RUNNING",
        at=at,
        message_id=order.message_id,
        command_id=order.command.command_id,
    )
    return attempt


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The leases of an agent after recovery."""

    ended: int = 0
    live: int = 0
    """Leases whose turns still run, in this process or another one."""
    errors: tuple[str, ...] = ()


async def recover(deps: Deps, store: Store, agent_id: str, processes: Processes) -> RecoveryResult:
    """End the leases of an agent whose turns run nowhere any more, once all their processes are confirmed dead."""
    ended, live, errors = 0, 0, []
    for row in await store.read(WORKING_COMMANDS, agent_id=agent_id):
        if not is_orphaned(processes, row.lease, row.owner, held=deps.held_leases):
            live += 1
            continue
        try:
            killed = await processes.end(row.lease)
        except MachineError as error:
            # A process of the turn may still write: the lease stays, or a second turn would run beside it.
            live += 1
            errors.append(error.message)
            await store.transact(lambda tx, row=row, error=error: _report_stuck(tx, deps, agent_id, row, error.message))  # type: ignore[misc]
            continue
        await store.transact(lambda tx, row=row, killed=killed: _release(tx, deps, row, killed))  # type: ignore[misc]
        ended += 1
    return RecoveryResult(ended, live, tuple(errors))


def _release(tx: Tx, deps: Deps, row: CommandLeaseRow, killed: int) -> None:
    [task] = tx.run(ENGINE_TASK, plan_id=row.plan_id, task_id=row.task_id)
    end = build_orphan_end(task, row.plan_id, row.task_id, row.epoch, row.lease, at=deps.stamp())
    if tx.run(END_TURN, **end):
        [(message_id,)] = tx.run(MESSAGE_OF_DELIVERY, id=row.delivery)
        body = {"lease": row.lease, "epoch": row.epoch, "killed": killed, "task_id": row.task_id}
        tx.record("lease.ended", records.build_turn_subject(row.plan_id, message_id), body)


def _report_stuck(tx: Tx, deps: Deps, agent_id: str, row: CommandLeaseRow, why: str) -> None:
    records.alert(
        tx,
        at=deps.stamp(),
        plan_id=row.plan_id,
        code=Code.PROCESS_STUCK,
        message=why,
        key=row.lease,
        severity="CRITICAL",
        source=records.RecordSource(agent_id=agent_id, task_id=row.task_id),
    )
