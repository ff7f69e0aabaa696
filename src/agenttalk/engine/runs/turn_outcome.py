"""Gathers what is known of a turn that ended, for the rule that decides what follows (`rules.proof.turn_outcome`)."""

from __future__ import annotations

from functools import partial
from typing import Any

from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node
from agenttalk.engine.plans import rework_rounds
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof import rework
from agenttalk.engine.runs import checkpoints as run_checkpoints
from agenttalk.ports.statements.core import FACT
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.statements.runs import SCORE_OF
from agenttalk.rules.budgets.provider_limits import MOST_STOPS
from agenttalk.rules.core.task_states import Cause
from agenttalk.rules.proof import honesty, turn_outcome
from agenttalk.rules.proof.performance import Performance, WorkProof
from agenttalk.rules.proof.turn_outcome import DAYS, TaskHistory, TurnFacts, TurnOutcome
from agenttalk.rules.toolchain import read_back


def decide_outcome(
    moves: PlanTransaction,
    sheet: PlanDefinition,
    node: Node,
    granted: LeasedAttempt,
    performance: Performance,
    proof: WorkProof,
) -> TurnOutcome:
    """Have the rule decide what a turn leads to."""
    job = granted.job
    follows = node.promise is None and node.task_id not in sheet.joined_checks
    facts = TurnFacts(
        node,
        performance,
        job.agent_id,
        moves.now,
        proof,
        promise=None if follows else sheet.promise(node, performance.score),
        promise_id=sheet.promise_id(node.task_id),
        lease=job.lease,
        gates=granted.gates,
        gated=job.command.promise is not None,
        needs_proof=job.needs_proof,
        abort=run_checkpoints.find_abort(job.command.promise, granted.watch.allowance, job.lease, performance),
        scores=_read_scores(moves, sheet, node) if node.gates else {},
        of_kind=granted.kind_task is not None,
        beyond_repair=bool(proof.evidence) and read_back.is_beyond_repair(proof.evidence),
        in_repository=job.profile.driver in {"cli", "acp"},
        agents=sheet.profiles.keys(),
    )
    return turn_outcome.decide_turn(facts, partial(_read_history, moves, sheet, granted, facts))


def would_be_done(granted: LeasedAttempt, performance: Performance, proof: WorkProof, at: str) -> bool:
    """Whether the evidence would fulfil the task's promise, if its gates are met. Asked before a merge."""
    job = granted.job
    facts = TurnFacts(
        granted.node,
        performance,
        job.agent_id,
        at,
        proof,
        promise=job.command.promise,
        lease=job.lease,
        gates=granted.gates,
        needs_proof=job.needs_proof,
        of_kind=granted.kind_task is not None,
    )
    return turn_outcome.would_be_done(facts)


def model_of(granted: LeasedAttempt, performance: Performance) -> str:
    """Return the model of a turn, as the agent reported it; else the one in its profile."""
    return honesty.model_of({"usage": performance.usage}) or granted.job.profile.model


def _read_history(
    moves: PlanTransaction, sheet: PlanDefinition, granted: LeasedAttempt, facts: TurnFacts
) -> TaskHistory:
    """Read what happened to a task before this turn."""
    tx, plan_id, task_id = moves.tx, sheet.plan_id, facts.node.task_id
    row = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0]
    deaths, used = row.deaths, row.reexecutions
    return TaskHistory(
        retries=granted.retries,
        retry_times=granted.job.command.retry_times,
        sent_back=granted.sent_back,
        engine_deaths=deaths,
        day_stops=_count_stops(moves, granted, "DAY_SPENT", DAYS)
        if facts.abort is not None and facts.abort.pauses
        else 0,
        limit_stops=_count_stops(moves, granted, "ACCOUNT_LIMIT", MOST_STOPS)
        if facts.performance.how == "limited"
        else 0,
        rounds=rework_rounds.read_round_history(tx, sheet, facts.node, used=used),
        disputes=rework.read_disputes(tx, plan_id, task_id),
        breached_scope=bool(facts.proof.breach)
        and any(body.get("breach") for body in rework_rounds.list_counted_rounds(tx, plan_id, task_id, used)),
    )


def _count_stops(moves: PlanTransaction, granted: LeasedAttempt, cause: Cause, most: int) -> int:
    """Count how often in a row a limit stopped a task, before this turn; not further than `most`."""
    count, fact = 0, granted.fact
    while fact is not None and count < most:
        [(body,)] = moves.tx.run(FACT, seq=fact)
        turn: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
        if turn.get("cause") != cause:
            break
        count, fact = count + 1, turn.get("before")
    return count


def _read_scores(moves: PlanTransaction, sheet: PlanDefinition, node: Node) -> dict[str, float | None]:
    """Read the scores of other tasks that the gates of a task name."""
    scores: dict[str, float | None] = {}
    for name in node.gates.thresholds if node.gates else ():
        task_id = name.removesuffix("_min_score")
        rows = moves.tx.run(SCORE_OF, plan_id=sheet.plan_id, task_id=task_id) if task_id != node.task_id else []
        if rows:
            scores[task_id] = rows[0].score
    return scores
