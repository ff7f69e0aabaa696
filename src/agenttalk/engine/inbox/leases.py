"""Leases: who runs a task. At most one at a time, each with a higher epoch than the one before."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, ConflictError, MachineError
from agenttalk.engine.core import outbox_writer, records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.inbox.ready_commands import ClaimedCommand
from agenttalk.ports.agents import Processes, ProcessIdentity
from agenttalk.ports.statements.inbox import (
    ADD_TASK,
    DELIVERY_STATE,
    END_LEASE,
    ENDED_TURNS,
    GRANT_LEASE,
    LEASES_OF,
    MESSAGE_OF_DELIVERY,
    AgentLeaseRow,
)
from agenttalk.ports.statements.messages import TASK
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.core.tokens import attempt_token, token_hash
from agenttalk.rules.messages.leases import TurnHistory, attempt_number
from agenttalk.rules.proof.turn_outcome import SCORE_CODES
from agenttalk.rules.text.catalogue import read_text


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one attempt of a task."""

    id: str
    task_id: str
    delivery: int
    epoch: int
    attempt: int
    token: str = field(repr=False)
    history: TurnHistory
    sent_back: str = ""
    """Why the last answer was sent back, if it was."""


def build_turn_subject(plan_id: str, message_id: str) -> str:
    """Under which subject the ledger keeps the turns of a command."""
    return f"turns/{plan_id}/{message_id}"


async def grant_lease(
    seat: AgentInPlan, order: ClaimedCommand, processes: Processes, missing: tuple[str, ...]
) -> Lease | None:
    """Lease a task for a command; None when it is leased, or the command is not ours to run any more."""
    lease = seat.deps.ids.new("lease")
    owner = wire.write(processes.me()._asdict()).decode()
    secret = secrets.token_urlsafe(24)
    granted = await seat.store.transact(lambda tx: _grant(tx, seat, order, (lease, owner, secret), missing))
    if granted:
        seat.deps.held_leases.add(lease)
    return granted


def _grant(
    tx: Tx, seat: AgentInPlan, order: ClaimedCommand, names: tuple[str, str, str], missing: tuple[str, ...]
) -> Lease | None:
    lease, owner, secret = names
    at = seat.deps.stamp()
    about = {"plan_id": seat.plan_id, "task_id": order.task_id}
    state = tx.run(DELIVERY_STATE, id=order.delivery)
    if not state or state[0].state != "claimed":
        return None
    tx.run(ADD_TASK, **about, agent_id=seat.agent_id, at=at)
    [(_, _, _, epoch, held, _, delivery, attempt, *_)] = tx.run(TASK, **about)
    if held is not None:
        return None
    number = attempt_number(delivery, order.delivery, attempt)
    token = attempt_token(tx.board, seat.plan_id, order.task_id, epoch + 1, secret)
    tx.run(
        GRANT_LEASE,
        **about,
        epoch=epoch,
        lease=lease,
        owner=owner,
        token=token_hash(token),
        delivery=order.delivery,
        attempt=number,
        missing=wire.write(list(missing)) if missing else None,
        at=at,
    )
    body = {"lease": lease, "epoch": epoch + 1, "attempt": number, "owner": owner, "missing": list(missing), **about}
    tx.record("lease.granted", build_turn_subject(seat.plan_id, order.message_id), body)
    outbox_writer.report_state(
        tx,
        seat,
        order.task_id,
        "RUNNING",
        at=at,
        message_id=order.message_id,
        command_id=order.command.command_id,
    )
    bodies = _read_ended_turns(tx, seat, order)
    history = TurnHistory.from_codes([body.get("code") for body in bodies])
    sent_back = read_text(bodies[-1], "error") if bodies and bodies[-1].get("code") in SCORE_CODES else ""
    return Lease(lease, order.task_id, order.delivery, epoch + 1, number, token, history, sent_back)


def _read_ended_turns(tx: Tx, seat: AgentInPlan, order: ClaimedCommand) -> list[Any]:
    """What is known of the turns of a command that ended."""
    rows = tx.run(ENDED_TURNS, subject=build_turn_subject(seat.plan_id, order.message_id))
    return [wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT) for (body,) in rows]


def end_lease(tx: Tx, plan_id: str, lease: Lease, state: str, at: str) -> None:
    """Give a lease back. Raises LEASE_LOST when the task was given to somebody else meanwhile."""
    if not tx.run(
        END_LEASE, plan_id=plan_id, task_id=lease.task_id, epoch=lease.epoch, lease=lease.id, state=state, at=at
    ):
        raise lease_lost_error(lease)


def lease_lost_error(lease: Lease) -> ConflictError:
    """The error for a write that comes too late."""
    return ConflictError(
        Code.LEASE_LOST,
        f"attempt {lease.attempt} of task {lease.task_id!r} has lost its lease (epoch {lease.epoch})",
        hint="nothing of it is kept; the task was given out again",
    )


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """What became of the leases of an agent."""

    ended: int = 0
    live: int = 0
    """Leases that somebody alive holds."""
    errors: tuple[str, ...] = ()


async def recover(deps: Deps, store: Store, agent_id: str, processes: Processes) -> RecoveryResult:
    """End the leases of an agent that nobody takes care of, once all their processes are confirmed dead."""
    ended, live, errors = 0, 0, []
    for row in await store.read(LEASES_OF, agent_id=agent_id):
        owner = _owner(row.owner)
        if row.lease in deps.held_leases or (owner is not None and owner != processes.me() and processes.alive(owner)):
            live += 1
            continue
        try:
            killed = await processes.end(row.lease)
        except MachineError as error:
            live += 1
            errors.append(error.message)
            await store.transact(lambda tx, row=row, error=error: _report_stuck(tx, deps, agent_id, row, error.message))  # type: ignore[misc]
            continue
        await store.transact(lambda tx, row=row, killed=killed: _release(tx, deps, row, killed))  # type: ignore[misc]
        ended += 1
    return RecoveryResult(ended, live, tuple(errors))


def _owner(text: str) -> ProcessIdentity | None:
    said: Any = wire.read(text.encode())
    try:
        return ProcessIdentity(**said)
    except TypeError:
        return None


def _release(tx: Tx, deps: Deps, row: AgentLeaseRow, killed: int) -> None:
    at = deps.stamp()
    if tx.run(
        END_LEASE, plan_id=row.plan_id, task_id=row.task_id, epoch=row.epoch, lease=row.lease, state="READY", at=at
    ):
        [(message_id,)] = tx.run(MESSAGE_OF_DELIVERY, id=row.delivery)
        body = {"lease": row.lease, "epoch": row.epoch, "killed": killed, "task_id": row.task_id}
        tx.record("lease.ended", build_turn_subject(row.plan_id, message_id), body)


def _report_stuck(tx: Tx, deps: Deps, agent_id: str, row: AgentLeaseRow, why: str) -> None:
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
