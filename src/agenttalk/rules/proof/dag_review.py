"""Whether a DAG may be worked on: what its reviewers say, and what follows when some say nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.contracts.plan import ReviewPolicy
from agenttalk.contracts.validation import DagReviewResult, Issue
from agenttalk.rules.text.message import ABOUT
from agenttalk.rules.text.question_words import DAG_REVIEW as _WHY

ReviewVerdict = Literal["APPROVE", "REVISE", "REJECT"]
VERDICTS: Final[tuple[ReviewVerdict, ...]] = get_args(ReviewVerdict)
"""From the mildest."""
ENGINE: Final = "engine"
RESULT: Final = "dag_review_result"
DECISION: Final = "decision_record.json"
DAG: Final = "task_dag.json"
DECIDED_DAG: Final = "reviewed_task_dag.json"
"""The same for the coordinator, who also finds what the reviewers were given."""
_LIMIT: Final = 1024 * 1024
_LONGEST: Final = 90


@dataclass(frozen=True, slots=True)
class DagReview:
    """A reviewer's verdict on a DAG."""

    reviewer: str
    score: float
    decision: ReviewVerdict
    issues: tuple[Issue, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON, for people and programs."""
        issues = [each.as_json() for each in self.issues]
        return {"reviewer": self.reviewer, "score": self.score, "decision": self.decision, "issues": issues}


@dataclass(frozen=True, slots=True)
class DagReviewDecision:
    """What was decided, by whom, and why."""

    decision: ReviewVerdict
    by: str
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Who should have taken part and did not."""


def review_plan_id(plan_id: str, revision: int, dag_sha256: str) -> str:
    """Make the id of the plan in which a revision is reviewed; it is unique to the revision."""
    mark = hashlib.sha256(f"{plan_id}/{dag_sha256}".encode()).hexdigest()[:6]
    return f"{plan_id[:_LONGEST].rstrip('.')}-review-{revision}-{mark}"


def make_review_plan(
    plan_id: str, policy: ReviewPolicy, agents: Mapping[str, Any], *, ask: str, weigh: str, timeout: int
) -> dict[str, Any]:
    """Make the plan file of a review: a task for each reviewer, and one for the coordinator, who gets the results."""
    given = {"name": "task_dag", "external": True}
    to = {"deliver_to": [policy.coordinator]} if policy.coordinator else {"deliverable": True}
    tasks: list[dict[str, Any]] = [
        {
            "id": f"review_{number}",
            "agent": reviewer,
            "prompt": ask,
            "inputs": [{**given, "file": DAG}],
            "outputs": [{"name": f"{RESULT}_{number}.json", "content_type": "application/json", **to}],
            "timeout": timeout,
        }
        for number, reviewer in enumerate(policy.reviewers, 1)
    ]
    if policy.coordinator is not None:
        tasks.append(
            {
                "id": "decide",
                "agent": policy.coordinator,
                "needs": [each["id"] for each in tasks],
                "inputs": [{**given, "file": DECIDED_DAG}, {"name": "reviews", "glob": f"{RESULT}_*.json"}],
                "prompt": weigh,
                "outputs": [{"name": DECISION, "content_type": "application/json", "deliverable": True}],
                "on_dependency_failed": "SKIP",
                "timeout": timeout,
            }
        )
    return {"plan_id": plan_id, "agents": dict(agents), "tasks": tasks}


def make_dag_file_name(task_id: str) -> str:
    """Name the file in which a task of a review gets the DAG."""
    return DECIDED_DAG if task_id == "decide" else DAG


def read_review(data: bytes, reviewer: str, dag_sha256: str) -> DagReview | str:
    """Read the review that a reviewer delivered, or return why it is not a review of this DAG. Its author is known."""
    try:
        said: Any = wire.read(data, limit=_LIMIT)
        if not isinstance(said, dict):
            return _WHY["no_object"]()
        known = {"review_id": "review", "reviewer_agent_id": reviewer, "dag": {"file_name": DAG, "sha256": dag_sha256}}
        document = DagReviewResult.from_json({"schema_version": "1.0", **known, **said})
    except AgentTalkError as error:
        return error.message
    if document.dag.sha256 != dag_sha256:
        return _WHY["other_dag"]()
    if document.reviewer_agent_id != reviewer:
        return _WHY["other_author"](agent=document.reviewer_agent_id)
    return DagReview(reviewer, float(document.score), document.decision, tuple(document.issues))


def read_decision(data: bytes) -> tuple[ReviewVerdict, str] | str:
    """Read what a coordinator decided and why, or return why that is not a decision."""
    try:
        said: Any = wire.read(data, limit=_LIMIT)
    except AgentTalkError as error:
        return error.message
    decision = said.get("decision") if isinstance(said, dict) else None
    if decision not in VERDICTS:
        return _WHY["no_decision"](decisions=", ".join(VERDICTS))
    reason = said.get("reason")
    return cast("ReviewVerdict", decision), reason.strip() if isinstance(reason, str) else ""


def decide(
    policy: ReviewPolicy,
    reviews: Mapping[str, DagReview | str],
    coordinator: tuple[ReviewVerdict, str] | str | None,
    *,
    default: str | None = None,
) -> DagReviewDecision:
    """Return the decision in force. `reviews` and `coordinator` are verdicts, or the reason why there is none.

    If a verdict is missing, `default` holds. It is never milder than the given verdicts, and a coordinator is not
    milder than the least score.
    """
    heard = [each for each in reviews.values() if isinstance(each, DagReview)]
    low = [each for each in heard if each.score < policy.min_score]
    missing = {
        name: _why(reviews.get(name)) for name in policy.reviewers if not isinstance(reviews.get(name), DagReview)
    }
    if policy.coordinator is not None and not isinstance(coordinator, tuple):
        missing.setdefault(policy.coordinator, _why(coordinator))
    reasons = [_WHY["low"](reviewer=each.reviewer, score=each.score, least=float(policy.min_score)) for each in low]
    votes = [each for each in heard if each.decision != "APPROVE"]
    reasons += [
        _WHY["vote"](reviewer=each.reviewer, decision=each.decision, issue=_first(each.issues)) for each in votes
    ]
    ruled = _worst([*(each.decision for each in heard), *(["REVISE"] if low else [])])
    if missing:
        reasons += [_WHY["absent"](reviewer=name, why=why) for name, why in missing.items()]
        held = _worst([ruled, default if default in VERDICTS else "REVISE"])
        reasons.append(_WHY["default"](decision=held))
        return DagReviewDecision(held, ENGINE, tuple(reasons), tuple(missing))
    if not isinstance(coordinator, tuple):
        return DagReviewDecision(ruled, ENGINE, tuple(reasons))
    said, reason = coordinator
    reasons += [ABOUT(subject=str(policy.coordinator), what=reason)] if reason else []
    if said == "APPROVE" and low:
        said = "REVISE"
    return DagReviewDecision(said, str(policy.coordinator), tuple(reasons))


def _worst(said: Sequence[str]) -> ReviewVerdict:
    """Return the strictest of some verdicts; without any, the mildest."""
    return VERDICTS[max([VERDICTS.index(cast("ReviewVerdict", each)) for each in said], default=0)]


def _why(said: object) -> str:
    return said if isinstance(said, str) else _WHY["silent"]()


def _first(issues: Sequence[Issue]) -> str:
    return issues[0].description if issues else _WHY["no_issue"]()
