"""The review of a DAG: the reviewers work in a plan of their own, and a rule decides on their verdicts.

After a crash everything is found again: a review is a row, its plan has a name that follows from the DAG, and the
decision and the start of the plan's tasks are one transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.contracts.plan import PhaseTimeout, Policies, ReviewPolicy
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.contracts.validation import DecisionRecord
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import questions
from agenttalk.engine.people.questions import QuestionChoice
from agenttalk.engine.plans import control, dag_reviews, submission, validator_verdicts
from agenttalk.engine.plans.dag_reviews import DagReviewRecord
from agenttalk.engine.plans.definition import PlanDefinition, read_definition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.messages import PLAN_DOCUMENTS
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.statements.plans import RUN, RUN_STATE
from agenttalk.ports.statements.proof import ARTIFACTS_NAMED, DECIDE_REVIEW, RELEASE_TASK
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.planfile.compiler import compile_plan
from agenttalk.rules.prompts.dag_review import render_coordination_prompt, render_review_prompt
from agenttalk.rules.proof import dag_review as rules
from agenttalk.rules.proof.dag_review import DagReviewDecision
from agenttalk.rules.text import question_words, task_words
from agenttalk.rules.text.message import cut, cut_head

PATIENCE: Final = 3600
"""Seconds that reviewers have, unless the plan sets a limit."""
FOLDER: Final = "folder"
T = TypeVar("T")


class ReviewTransactionRunner(Protocol):
    """Does something in a transaction, and then what follows from the commit."""

    async def __call__(self, do: Callable[[PlanTransaction], T]) -> T:
        """Call a function in a transaction."""


@dataclass(frozen=True, slots=True)
class DagReviewCoordinator:
    """Carries out the reviews of a board."""

    deps: Deps
    store: Store
    step: ReviewTransactionRunner
    cancel: Callable[[str], Awaitable[object]]
    """Cancels a plan."""

    async def advance_review(self, plan_id: str, review: DagReviewRecord) -> bool:
        """Begin the review of a plan, or decide on it if that is possible. Return whether anything changed."""
        if review.state == "waits":
            return await self._apply_answer(plan_id, review)
        plan = read_definition(plan_id, (await self.store.read(RUN, plan_id=plan_id))[0])
        if plan.policies.review is None:
            return False
        runs = await self.store.read(RUN, plan_id=review.review_plan)
        if not runs:
            return await self._begin(plan, plan.policies.review, review)
        late = _is_late(review, plan.policies, self.deps.stamp())
        if runs[0].state != "ENDED" and not late:
            return False
        await self._decide(plan, plan.policies.review, review)
        if runs[0].state != "ENDED":
            await self.cancel(review.review_plan)
        return True

    async def _begin(self, plan: PlanDefinition, policy: ReviewPolicy, review: DagReviewRecord) -> bool:
        """Submit the plan of a review. Repeating it changes nothing."""
        limit = _limit(plan.policies)
        timeout = limit.timeout_seconds if limit else PATIENCE
        named = [*policy.reviewers, *([policy.coordinator] if policy.coordinator else [])]
        profiles = {str(name): plan.profile(name) for name in named}
        locale = profiles[named[0]].locale
        document = rules.make_review_plan(
            review.review_plan,
            policy,
            {},
            ask=render_review_prompt(policy.criteria, policy.min_score, locale=locale),
            weigh=render_coordination_prompt(locale=locale),
            timeout=timeout,
        )
        compiled = compile_plan(reader.plan_of(YamlSource(document)), agents=profiles)
        dag = bytes((await self.store.read(PLAN_DOCUMENTS, plan_id=plan.plan_id))[0].dag)
        sha256 = await (await self.deps.stores.blobs(self.store.name)).put(dag)
        at = self.deps.stamp()

        def hand_in(tx: Tx) -> None:
            for node in compiled.dag.nodes:
                agent_id, task_id = node.assigned_agent_id, node.task_id
                name, plan_id = rules.make_dag_file_name(task_id), review.review_plan
                key = f"{plan_id}/{task_id}"
                questions.send_artifact(tx, key, plan_id, task_id, name, (name, sha256), agent_id, at, arrived=True)
                if profiles[agent_id].driver == FOLDER:
                    records.publish_file(tx, f"agents/{agent_id}/inbox/{plan_id}/{name}", None, content=sha256)

        board = self.store.name
        return await submission.submit(
            self.deps, compiled.dag, compiled.manifest, compiled.profiles, board=board, also=hand_in
        )

    async def _decide(self, plan: PlanDefinition, policy: ReviewPolicy, review: DagReviewRecord) -> None:
        said: dict[str, rules.DagReview | str] = {}
        files = []
        for number, reviewer in enumerate(policy.reviewers, 1):
            name = f"{rules.RESULT}_{number}.json"
            data, sha256 = await self._read_deliverable(review.review_plan, f"review_{number}", reviewer, name)
            said[reviewer] = data if isinstance(data, str) else rules.read_review(data, reviewer, review.dag_sha256)
            files += [(name, sha256)] if sha256 else []
        decided: Any = None
        if policy.coordinator is not None:
            data, _ = await self._read_deliverable(review.review_plan, "decide", policy.coordinator, rules.DECISION)
            decided = data if isinstance(data, str) else rules.read_decision(data)
        limit = _limit(plan.policies)
        ruling = rules.decide(policy, said, decided, default=limit.default_decision if limit else None)
        told = [each.as_json() for each in said.values() if isinstance(each, rules.DagReview)]
        await self.step(lambda moves: record_ruling(moves, plan.plan_id, review, ruling, told, files))

    async def _read_deliverable(self, plan_id: str, task_id: str, agent_id: str, name: str) -> tuple[bytes | str, str]:
        """Return what a task of the review delivered, and its hash; or the reason why it does not count."""
        rows = await self.store.read(RELEASE_TASK, plan_id=plan_id, task_id=task_id)
        if not rows or rows[0].state != "COMPLETED" or rows[0].agent_id != agent_id:
            why = question_words.DAG_REVIEW
            return why["task_state"](state=rows[0].state) if rows else why["task_gone"](), ""
        for row in await self.store.read(ARTIFACTS_NAMED, plan_id=plan_id, output_name=name):
            files = validator_verdicts.files_of(bytes(row.envelope))
            if row.task_id == task_id and row.producer == agent_id and len(files) == 1:
                [sha256] = files.values()
                try:
                    return await (await self.deps.stores.blobs(self.store.name)).get(sha256), sha256
                except AgentTalkError as error:
                    return error.message, ""
        return question_words.DAG_REVIEW["not_delivered"](name=name), ""

    async def _apply_answer(self, plan_id: str, review: DagReviewRecord) -> bool:
        """Check whether a person has decided about a DAG that was not approved."""
        rows = await self.store.read(REQUEST, request_id=review.request_id)
        if not rows or rows[0].state != "answered" or rows[0].response is None:
            return False
        response = HumanInterventionResponse.from_bytes(rows[0].response)
        by = rows[0].answered_by or ""
        chosen = [str(each) for each in response.decision_answers]
        if response.decision == "APPROVE" or "approve" in chosen:
            ruling = DagReviewDecision("APPROVE", "operator", (question_words.DAG_REVIEW["approved"](by=by),))
            reviewed = (review.details or {}).get("reviews", [])
            await self.step(lambda moves: record_ruling(moves, plan_id, review, ruling, reviewed, []))
        else:
            await self.step(lambda moves: control.cancel(moves, plan_id, by=by, why=task_words.DAG_REFUSED()))
        return True


def _limit(policies: Policies) -> PhaseTimeout | None:
    return policies.timeouts.dag_review if policies.timeouts else None


def _is_late(review: DagReviewRecord, policies: Policies, at: str) -> bool:
    limit = _limit(policies)
    return (
        limit is not None
        and (parse_instant(at) - parse_instant(review.began_at)).total_seconds() > limit.timeout_seconds
    )


def record_ruling(
    moves: PlanTransaction,
    plan_id: str,
    review: DagReviewRecord,
    ruling: DagReviewDecision,
    said: Sequence[Mapping[str, object]],
    files: list[tuple[str, str]],
) -> bool:
    """Write a decision. Only APPROVE lets the plan begin. False when it is decided, or about another revision."""
    tx = moves.tx
    now = dag_reviews.read_latest(tx, plan_id)
    if now is None or not now.is_undecided or now.revision != review.revision or now.state != review.state:
        return False
    approved = ruling.decision == "APPROVE"
    told = {
        "decision": ruling.decision,
        "decided_by": ruling.by,
        "reasons": list(ruling.reasons),
        "missing": list(ruling.missing),
        "reviews": said,
    }
    request_id = now.request_id
    if not approved:
        request_id = _ask(moves, plan_id, review, ruling)
    state = "approved" if approved else "waits"
    about: dict[str, str | int] = {"plan_id": plan_id, "revision": review.revision}
    tx.run(DECIDE_REVIEW, **about, state=state, request_id=request_id, told=wire.write(told))
    _show(moves, plan_id, review, ruling, files)
    tx.record("review.decided", plan_id, {**told, "revision": review.revision, "dag_sha256": review.dag_sha256})
    _tell_people(moves, plan_id, review, ruling)
    if approved and not now.held and tx.run(RUN_STATE, plan_id=plan_id) == [("PAUSED",)]:
        control.begin_tasks(moves, plan_id)
    return True


def _show(
    moves: PlanTransaction,
    plan_id: str,
    review: DagReviewRecord,
    ruling: DagReviewDecision,
    files: list[tuple[str, str]],
) -> None:
    suffix = "-by-operator" if ruling.by == "operator" else ""
    decision_id = f"{review.review_plan}{suffix}"
    folder = f"plans/{plan_id}/decided"
    record = {
        "schema_version": "1.0",
        "plan_id": plan_id,
        "decision_id": decision_id,
        "decision_type": "DAG_REVIEW",
        "decision": ruling.decision,
        "decided_by_agent_id": ruling.by,
        "decided_at": records.format_time(moves.now),
        "subject": {"kind": "task_dag", "ref_sha256": review.dag_sha256},
        "missing_participants": list(ruling.missing),
        "evidence_files": [f"{review.review_plan}/{name}" for name, _ in files],
        "reasons": list(ruling.reasons),
    }
    DecisionRecord.from_json(record)
    records.publish_file(moves.tx, f"{folder}/{decision_id}.json", record)
    for name, sha256 in files:
        records.publish_file(moves.tx, f"{folder}/{review.review_plan}/{name}", None, content=sha256)


def _tell_people(moves: PlanTransaction, plan_id: str, review: DagReviewRecord, ruling: DagReviewDecision) -> None:
    said = "; ".join(ruling.reasons)
    if ruling.missing:
        records.alert(
            moves.tx,
            at=moves.now,
            plan_id=plan_id,
            code=Code.REVIEWERS_MISSING,
            message=f"the DAG of {plan_id!r} was decided on ({ruling.decision}) without {', '.join(ruling.missing)}",
            key=review.review_plan,
            severity="WARNING",
            details={"missing_participants": list(ruling.missing), "decision": ruling.decision},
        )
    if ruling.decision != "APPROVE":
        records.alert(
            moves.tx,
            at=moves.now,
            plan_id=plan_id,
            code=Code.DAG_NOT_APPROVED,
            message=f"the DAG of {plan_id!r} is not approved ({ruling.decision}): {said}"[:2000],
            key=review.review_plan,
        )


def _ask(moves: PlanTransaction, plan_id: str, review: DagReviewRecord, ruling: DagReviewDecision) -> str:
    """Ask a person what to do with a plan whose DAG was not approved."""
    request_id = records.derive_id("req", f"{plan_id}/{review.review_plan}")
    question = question_words.DAG_RULING(
        decision=ruling.decision, by=ruling.by, reasons=ruling.reasons or ("-",), hash=review.dag_sha256
    )
    labels = {"approve": question_words.OPTIONS["approve"](), "give up": question_words.OPTIONS["call off"]()}
    choices: list[QuestionChoice] = [{"key": key, "label": label} for key, label in labels.items()]
    request = questions.new_request(
        request_id,
        "APPROVAL",
        cut(question_words.DAG_NOT_APPROVED(plan=plan_id), 200),
        {"decision": {"question": cut_head(question, 4000), "options": choices}},
        author={"agent_id": rules.ENGINE},
        now=moves.now,
        plan_id=plan_id,
    )
    return questions.ask_own(moves.tx, request, plan_id=plan_id, at=moves.now)
