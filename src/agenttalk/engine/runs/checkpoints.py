"""The checkpoints of tasks that the engine runs: facts are gathered, rules decide, and what they decide is carried out.

A task whose promise follows from its node, and that nothing limits, has nothing that could be denied: its turns are
recorded as they are, without a word about gates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code
from agenttalk.contracts.promise import Checkpoint, CompletionPromise
from agenttalk.engine.budgets import day_limit, denials
from agenttalk.engine.budgets.used_budgets import Allowance, Budgets
from agenttalk.engine.core import records
from agenttalk.engine.people import questions
from agenttalk.engine.plans import transitions
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.budgets import HELD_BY
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.statements.plans import ENGINE_TASK, LAST_SEQ, WITHDRAW_DIRECT
from agenttalk.rules.budgets import aborts, budgets
from agenttalk.rules.budgets.aborts import Abort
from agenttalk.rules.core import usage
from agenttalk.rules.proof import checkpoints, turn_outcome
from agenttalk.rules.proof.checkpoints import CheckpointDecision, Objection
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.proof.turn_outcome import TurnFacts
from agenttalk.rules.text.message import join


@dataclass(frozen=True, slots=True)
class PreTurnDecision:
    """The decisions of the checkpoints before a turn, and its limits."""

    decisions: tuple[CheckpointDecision, ...] = ()
    allowance: Allowance | None = None

    @property
    def denied(self) -> CheckpointDecision | None:
        """The decision that denies the turn."""
        return next((each for each in self.decisions if not each.allowed), None)

    def with_lease(self, lease: str) -> PreTurnDecision:
        """Return it with decisions that name the lease, by which they are found again."""
        if not self.decisions:
            return self
        named = [
            CheckpointDecision(each.checkpoint, each.severity, each.reasons, f"{lease}:{each.checkpoint}")
            for each in self.decisions
        ]
        return PreTurnDecision(tuple(named), self.allowance)


PLAIN: Final = PreTurnDecision()


def is_plain(sheet: PlanDefinition, node: Node, purse: Budgets) -> bool:
    """Whether a checkpoint before a turn has nothing to decide."""
    return node.promise is None and sheet.limits is None and purse.day_cost_usd is None


def decide_before_turn(
    moves: PlanTransaction,
    purse: Budgets,
    sheet: PlanDefinition,
    node: Node,
    command: Command,
    message_id: str,
    lost: Collection[str],
    *,
    taken_over: bool = False,
) -> PreTurnDecision:
    """Decide `pre-plan` and `pre-act` of a task whose turn is about to begin. `lost` are missing inputs.

    Who takes a turn over, to verify what it left, takes its lease over too.
    """
    if is_plain(sheet, node, purse) and not lost:
        return PLAIN
    tx, about = moves.tx, (sheet.plan_id, node.task_id)
    promise = sheet.promise(node) if node.promise is not None else None
    allowance = allowance_of(moves, purse, sheet, node)
    used_up = (
        budgets.find_exhausted(allowance.limits, allowance.total_used(usage.NOTHING)) if allowance is not None else ()
    )
    [(last,)] = tx.run(LAST_SEQ, plan_id=sheet.plan_id, task_id=node.task_id)
    row = tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=node.task_id)[0]
    found: dict[Checkpoint, list[Objection]] = {
        "pre-act": list(
            checkpoints.check_start(
                current=command.command_seq == last,
                lost_inputs=lost,
                used_up=used_up,
                lease_free=taken_over or row.lease is None,
            )
        )
    }
    if promise is not None:
        found = {"pre-plan": list(checkpoints.check_promise(promise, sheet.limits)), **found}
    decisions = []
    for checkpoint, findings in found.items():
        decision = checkpoints.decide(checkpoint, findings, trace_id=f"{message_id}:{checkpoint}")
        if decision.severity == "soft-deny":
            overridden = denials.list_overridden_reasons(tx, *about, checkpoint)
            decision = checkpoints.decide(checkpoint, findings, trace_id=decision.trace_id, overridden=overridden)
            if allowance is not None:
                allowance = allowance.without(overridden)
        decisions.append(decision)
    return PreTurnDecision(tuple(decisions), allowance)


def allowance_of(moves: PlanTransaction, purse: Budgets, sheet: PlanDefinition, node: Node) -> Allowance | None:
    """Find the limits of an attempt at a task; None if it has none."""
    promise = sheet.promise(node) if node.promise is not None else None
    limits = budgets.collect_limits(promise, sheet.limits, purse.day_cost_usd)
    return purse.make_allowance(moves.tx, limits, sheet.plan_id, node.task_id, moves.now) if limits else None


def hold_back(
    moves: PlanTransaction, sheet: PlanDefinition, node: Node, delivery: int, denied: CheckpointDecision
) -> None:
    """Carry out a denial before a turn: the task fails, or waits for an operator."""
    denials.record_denial(moves.tx, sheet.plan_id, node.task_id, denied, moves.now)
    moves.note_due_tasks()
    why = join(denied.reasons)
    if denied.severity == "soft-deny":
        transitions.hold_for_override(moves, sheet, node, denied)
        return
    moves.tx.run(WITHDRAW_DIRECT, id=delivery, at=moves.now, details=why)
    transitions.end_idle_task(moves, sheet, node.task_id, "READY", "ABORTED", reason=why, gates=[denied.as_json()])
    records.alert(
        moves.tx,
        at=moves.now,
        plan_id=sheet.plan_id,
        code=Code.COMMAND_FAILED,
        message=f"task {node.task_id!r} must not begin: {why}",
        key=denied.trace_id,
        source=records.RecordSource(node.assigned_agent_id, node.task_id),
    )


def find_abort(
    promise: CompletionPromise | None, allowance: Allowance | None, lease: str, performance: Performance
) -> Abort | None:
    """Find why a turn counts as stopped: it was stopped, or it reported more use than it is allowed.

    One that ended by itself and passed the limit of the day is judged by what it left: only others have to wait.
    """
    abort = performance.abort
    if abort is not None and (abort.type == "budget-exhausted" or aborts.stops_run(promise, abort.type)):
        return abort
    if allowance is None or performance.how == "stopped":
        return None
    now = usage.measure_usage(performance.usage, seconds=performance.seconds)
    passed = budgets.find_overrun(allowance.limits, allowance.final_used(lease, now))
    return passed.abort if passed is not None and not passed.abort.pauses else None


def decide_folder_turn(
    sheet: PlanDefinition, node: Node, delivery: int, performance: Performance
) -> tuple[CheckpointDecision, ...]:
    """Decide the checkpoints of a task of a folder agent. None was decided before it, and only time limits it."""
    promise = sheet.promise(node)
    lease = f"{sheet.plan_id}/{node.task_id}#{delivery}"
    before = [
        checkpoints.decide("pre-plan", checkpoints.check_promise(promise, sheet.limits), trace_id=f"{lease}:pre-plan"),
        checkpoints.decide("pre-act", (), trace_id=f"{lease}:pre-act"),
    ]
    facts = TurnFacts(node, performance, node.assigned_agent_id, "", lease=lease)
    return (*before, *turn_outcome.decide_after_turn(facts))


def decisions_to_json(decisions: Sequence[CheckpointDecision]) -> list[dict[str, object]]:
    """Return decisions as JSON."""
    return [each.as_json() for each in decisions]


def release_day_limited(moves: PlanTransaction) -> int:
    """Release the tasks of a board that the limit of a day held. The checkpoint decides about each again."""
    rows = moves.tx.run(HELD_BY, like=day_limit.HELD)
    for row in rows:
        if row.request_id is not None and moves.tx.run(REQUEST, request_id=row.request_id)[0].state == "open":
            questions.close(moves.tx, row.request_id, "the day or its limit is another", at=moves.now)
        transitions.requeue_held_task(moves, row.plan_id, row.task_id, row.delivery)
    return len(rows)
