"""Takes up work that an engine was verifying when it ended. The agent has done its part and does not run again.

The performance of an attempt is stored in the commit in which its verification begins. The engine that finds the
orphaned lease takes it over, under a new epoch and for the same attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.engine.agents.performances import file_to_json, performance_to_json, read_file, read_performance
from agenttalk.engine.agents.remote import OFFERED
from agenttalk.engine.core import records
from agenttalk.engine.core.access import ELSEWHERE
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.runs import attempt, leases
from agenttalk.engine.runs.leases import LeaseContext
from agenttalk.ports.agents import InputContent, Job, ProcessIdentity
from agenttalk.ports.statements.plans import ENGINE_TASK, SET_PHASE
from agenttalk.ports.statements.proof import LEAVE_LEASE, PERFORMANCE, PUT_PERFORMANCE, RENEW_LEASE
from agenttalk.ports.storage import Tx
from agenttalk.rules.core.task_states import TurnEnding
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.proof.turn_outcome import decide_after_attempt

UNCOUNTED: Final = frozenset({"asking", "awaiting", OFFERED, ELSEWHERE})
"""Phases in which no program runs here, so that the death of an engine says nothing about the task."""
VERIFYING: Final = frozenset({"verifying", "asking", "awaiting"})
"""Phases in which the performance of the attempt is stored. When a person is asked, all else is verified."""
NO_OWNER: Final = wire.write(ProcessIdentity("", 0, 0)._asdict()).decode()
"""The owner of a lease that a stopped engine left for the next one to verify."""


@dataclass(frozen=True, slots=True)
class OrphanedLease:
    """A lease whose turn runs nowhere any more."""

    plan_id: str
    task_id: str
    agent_id: str
    epoch: int
    lease: str
    delivery: int
    phase: str | None
    died: bool
    """Whether its engine died, and was not stopped on purpose."""


def keep_performance(tx: Tx, job: Job, performance: Performance) -> None:
    """Store the performance of an attempt and enter the phase in which it is verified."""
    about = {"plan_id": job.plan_id, "task_id": job.task_id}
    body = wire.write(
        {**performance_to_json(performance), "inputs": [file_to_json(each.input_name, each) for each in job.inputs]}
    )
    tx.run(PUT_PERFORMANCE, **about, command_id=job.command.command_id, attempt=job.attempt, body=body)
    tx.run(SET_PHASE, **about, lease=job.lease, phase="verifying")


def leave_for_next_start(tx: Tx, left: OrphanedLease) -> bool:
    """Leave a lease to the next engine; False if no work of it is to be verified, and no remote agent has it."""
    if left.phase == ELSEWHERE:
        _hand_on(tx, left, NO_OWNER)
        return True
    if left.phase not in VERIFYING or not tx.run(PERFORMANCE, plan_id=left.plan_id, task_id=left.task_id):
        return False
    if not left.died:
        _hand_on(tx, left, NO_OWNER)
    return True


def _hand_on(tx: Tx, left: OrphanedLease, owner: str) -> None:
    about = {"plan_id": left.plan_id, "task_id": left.task_id}
    tx.run(LEAVE_LEASE, **about, epoch=left.epoch, lease=left.lease, owner=owner)


def _take_back(
    moves: PlanTransaction, desk: LeaseContext, left: OrphanedLease, ticket: int
) -> tuple[LeasedAttempt, None] | None:
    """Take care again of an attempt that a remote agent has: the same attempt, under the same epoch."""
    tx = moves.tx
    [task] = tx.run(ENGINE_TASK, plan_id=left.plan_id, task_id=left.task_id)
    # The row was read before this transaction began: another end, or a newer command, may have come since.
    if task.lease != left.lease or task.cause == "SUPERSEDED":
        return None
    granted = leases.take_back_attempt(moves, desk, left.agent_id, left.delivery, ticket, task)
    if granted is None:
        return None
    _hand_on(tx, left, desk.owner)
    return granted, None


def resume_lease(
    moves: PlanTransaction, desk: LeaseContext, left: OrphanedLease, ticket: int
) -> tuple[LeasedAttempt, Performance | None] | None:
    """Take a lease over to verify its work; None if there is no work yet, or if the task ended the engine too often.

    Without a performance it is still being done elsewhere.
    """
    if left.phase == ELSEWHERE:
        return _take_back(moves, desk, left, ticket)
    tx = moves.tx
    about = {"plan_id": left.plan_id, "task_id": left.task_id}
    rows = tx.run(PERFORMANCE, **about) if left.phase in VERIFYING else []
    [task] = tx.run(ENGINE_TASK, **about)
    if not rows or task.lease != left.lease or task.attempt != rows[0].attempt or _too_often(left, task.deaths):
        return None
    if task.cause == "SUPERSEDED":  # its inputs were replaced meanwhile
        return None
    said: Any = wire.read(bytes(rows[0].body), limit=wire.DOCUMENT_LIMIT)
    inputs = tuple(InputContent(*read_file(each)) for each in said["inputs"])
    # A new lease with a higher epoch: the old turn can write nothing from here on. The number of the
    # attempt stays, because the agent did its part once.
    granted = leases.take_over_attempt(moves, desk, left.agent_id, left.delivery, inputs, ticket, task)
    job = granted.job
    if rows[0].command_id != job.command.command_id or not tx.run(
        RENEW_LEASE,
        **about,
        epoch=left.epoch,
        old=left.lease,
        lease=job.lease,
        owner=desk.owner,
        token=attempt.hash_token(job),
        at=moves.now,
        deaths=int(_counts(left)),
    ):
        return None
    body = {"lease": job.lease, "before": left.lease, "epoch": job.epoch, "attempt": job.attempt, "died": left.died}
    tx.record("turn.resumed", records.build_turn_subject(left.plan_id, granted.message_id), body)
    return granted, read_performance(said)


def _counts(left: OrphanedLease) -> bool:
    """Whether the end of an engine counts as a death over the task. Waiting for a person cannot end an engine."""
    return left.died and left.phase not in UNCOUNTED


def _too_often(left: OrphanedLease, deaths: int) -> bool:
    how: TurnEnding = "engine_died" if _counts(left) else "stopped"
    ended = decide_after_attempt(how, retries_used=0, retry_times=0, engine_deaths=deaths + int(_counts(left)))
    return ended == "ENGINE_ENDED_TOO_OFTEN"
