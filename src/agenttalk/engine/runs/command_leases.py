"""Leases tasks of foreign plans, for commands in inboxes, as `leases.py` leases tasks of plans of the engine."""

from __future__ import annotations

from dataclasses import dataclass

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import Command
from agenttalk.contracts.core import wire
from agenttalk.engine.core import outbox_writer, records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.outbox_writer import ReceiptSubject
from agenttalk.engine.runs.attempt import AttemptBuilder, prepare_foreign_attempt
from agenttalk.engine.runs.leases import write_lease
from agenttalk.ports.agents import Processes
from agenttalk.ports.statements.inbox import ADD_TASK, DELIVERY_STATE
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.statements.runs import LEASE_COMMAND
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages.leases import attempt_number


@dataclass(frozen=True, slots=True)
class ClaimedCommand:
    """A claimed command."""

    delivery: int
    message_id: str
    task_id: str
    priority: int
    seq: int
    command: Command
    consumed_at: str

    @property
    def subject(self) -> ReceiptSubject:
        """The command as its receipt names it."""
        return ReceiptSubject(self.message_id, self.task_id, self.command.command_id, self.seq)


async def lease_command(
    seat: AgentInPlan,
    order: ClaimedCommand,
    missing: tuple[str, ...],
    processes: Processes,
    profile: AgentProfile,
) -> AttemptBuilder | None:
    """Lease a task for a command, which begins without the `missing` inputs.

    Returns None when the task is leased already, or its agent must not run the command any more.
    """
    owner = wire.write(processes.me()._asdict()).decode()
    attempt = await seat.store.transact(lambda tx: _lease(tx, seat, order, missing, owner, profile))
    if attempt is not None:
        seat.deps.held_leases.add(attempt.lease)
    return attempt


def _lease(
    tx: Tx, seat: AgentInPlan, order: ClaimedCommand, missing: tuple[str, ...], owner: str, profile: AgentProfile
) -> AttemptBuilder | None:
    about, at = {"plan_id": seat.plan_id, "task_id": order.task_id}, seat.deps.stamp()
    state = tx.run(DELIVERY_STATE, id=order.delivery)
    if not state or state[0].state != "claimed":
        return None
    tx.run(ADD_TASK, **about, agent_id=seat.agent_id, at=at)
    [task] = tx.run(ENGINE_TASK, **about)
    if task.lease is not None:
        return None
    root, number = str(seat.root.path.absolute()), attempt_number(task.delivery, order.delivery, task.attempt)
    built = prepare_foreign_attempt(owner, root, tx.board, profile, order.command, task, number, missing)
    write_lease(
        tx,
        LEASE_COMMAND,
        built,
        at,
        epoch=task.epoch,
        delivery=order.delivery,
        attempt=number,
        missing=wire.write(list(missing)) if missing else None,
        retries=built.history.crashes,
        sent_back=built.history.bad_scores,
    )
    body = {
        "lease": built.lease,
        "epoch": built.epoch,
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
    return built
