"""Decides at the first checkpoint whether a plan may be submitted, and whether its DAG is reviewed first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import Code, ContractError, Problem
from agenttalk.contracts.plan import PlanManifest, Policies
from agenttalk.engine.budgets import denials
from agenttalk.engine.people import questions
from agenttalk.engine.plans import dag_reviews
from agenttalk.ports.statements.proof import ADD_REVIEW, DROP_REVIEWS
from agenttalk.ports.storage import Tx, Value
from agenttalk.rules.proof import checkpoints
from agenttalk.rules.proof import dag_review as rules
from agenttalk.rules.proof.checkpoints import CheckpointDecision


@dataclass(frozen=True, slots=True)
class PrePlanDecision:
    """The decision of the checkpoint about a plan, and about those of its tasks that it objects to."""

    plan_id: str
    decision: CheckpointDecision | None = None
    """None of a plan without promises and limits: then there was nothing to decide."""
    tasks: tuple[tuple[str, CheckpointDecision], ...] = ()
    promises: tuple[tuple[str, str], ...] = ()
    """The promise of each task."""

    def to_json(self) -> dict[str, object]:
        """Return the part of the fact of the plan's submission that says what was decided."""
        if self.decision is None:
            return {}
        held = [{"task_id": task_id, **decision.as_json()} for task_id, decision in self.tasks]
        named = {"promises": dict(self.promises)} if self.promises else {}
        return {"gates": [self.decision.as_json(), *held], **named}

    def record(self, tx: Tx, at: str) -> None:
        """Record denials for people to see."""
        for task_id, decision in self.tasks:
            denials.record_denial(tx, self.plan_id, task_id, decision, at)


def decide_pre_plan(
    dag: TaskDag, manifest: PlanManifest, *, revision: int, faults: Collection[str] = ()
) -> PrePlanDecision:
    """Decide about a plan. Raises ContractError with all reasons why it must not be run."""
    limits = manifest.limits
    promised = [(number, node) for number, node in enumerate(dag.nodes) if node.promise is not None]
    if not promised and limits is None and not faults:
        return PrePlanDecision(dag.plan_id)
    held: list[tuple[str, CheckpointDecision]] = []
    problems: list[Problem] = []
    for number, node in promised:
        assert node.promise is not None  # noqa: S101 - `promised` has no others
        trace_id = f"{dag.plan_id}/{node.task_id}@{revision}:pre-plan"
        decision = checkpoints.decide("pre-plan", checkpoints.check_promise(node.promise, limits), trace_id=trace_id)
        if decision.severity:
            held.append((node.task_id, decision))
        if decision.severity == "hard-deny":
            where = f"nodes[{number}].promise"
            problems += [Problem(Code.PROMISE_INVALID, where, reason, "correct it") for reason in decision.reasons]
    trace_id = f"{dag.plan_id}@{revision}:pre-plan"
    whole = checkpoints.decide("pre-plan", checkpoints.check_plan(faults=faults, plan=limits), trace_id=trace_id)
    if not whole.allowed:
        problems += [Problem(Code.PROMISE_INVALID, "", reason, "correct it") for reason in whole.reasons]
    if problems:
        message = f"the plan must not be run: {problems[0].message}"
        raise ContractError(problems[0].code, message, problems, hint=problems[0].hint)
    named = tuple([(node.task_id, node.promise.id) for _, node in promised if node.promise is not None])
    return PrePlanDecision(dag.plan_id, whole, tuple(held), named)


def open_review(
    tx: Tx, plan_id: str, revision: int, dag_sha256: str, policies: Policies, *, at: str, held: bool = False
) -> bool:
    """Open the review of a revision, if its policies want one. Return whether its tasks have to wait for that.

    An approved DAG stays approved. The review of an older revision does not count any more.
    """
    known = dag_reviews.read_latest(tx, plan_id) if revision > 1 else None
    if known is not None and known.is_undecided:
        for (request_id,) in tx.run(DROP_REVIEWS, plan_id=plan_id):
            if request_id is not None:
                questions.close(tx, request_id, "the plan was changed since", at=at)
    if policies.review is None or (known and known.state == "approved" and known.dag_sha256 == dag_sha256):
        return False
    review_plan = rules.review_plan_id(plan_id, revision, dag_sha256)
    about: dict[str, Value] = {"revision": revision, "dag_sha256": dag_sha256, "review_plan": review_plan}
    tx.run(ADD_REVIEW, plan_id=plan_id, **about, held=int(held), at=at)
    tx.record("review.opened", plan_id, {**about, "reviewers": list(policies.review.reviewers)})
    return True
