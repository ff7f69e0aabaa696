"""Evidence, whether it still holds, disputes of checks, reviews and releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.ports.statements.keys import EpochRow, FoundRow, RequestIdRow, TaskIdRow
from agenttalk.ports.statements.statement import NoRow, Statement
from agenttalk.rules.proof.disputes import Dispute

if TYPE_CHECKING:
    from agenttalk.rules.core.task_states import Cause, State


class DisputeOfRequestRow(NamedTuple):
    """The dispute that a question is about."""

    plan_id: str
    task_id: str
    check_id: str
    agent_id: str
    state: str


class EvidenceRow(NamedTuple):
    """Evidence of a known task."""

    check_id: str
    command_id: str
    commit_id: str | None
    tree: str
    result: bytes
    key: str | None
    fresh: int
    at: str


class PlanEvidenceRow(NamedTuple):
    """Evidence of a task of a plan."""

    task_id: str
    check_id: str
    command_id: str
    commit_id: str | None
    tree: str
    result: bytes
    key: str | None
    fresh: int
    at: str


class CheckResultRow(NamedTuple):
    """The result of a check, by what it rests on."""

    result: bytes
    made_by: str
    at: str


class BaselineRow(NamedTuple):
    """How checks stood before the work."""

    onto: str
    results: bytes


class PerformanceRow(NamedTuple):
    """The end of an attempt that is being verified."""

    command_id: str
    attempt: int
    body: bytes


class ClaimsRow(NamedTuple):
    """What an agent claimed."""

    claims: bytes


class ConsumedAtRow(NamedTuple):
    """When a command was taken, if it was."""

    consumed_at: str | None


class CheckIdRow(NamedTuple):
    """A check."""

    check_id: str


class FreshRow(NamedTuple):
    """Whether the evidence of a task still holds."""

    fresh: int


class JoinedCheckRow(NamedTuple):
    """A check of another task that a task has to keep."""

    task_id: str
    owner: str
    body: bytes


class TipRow(NamedTuple):
    """The commit that is the tip of a plan's branch."""

    commit_id: str


class TipPackRow(NamedTuple):
    """A move of the tip of a plan's branch, with the pack that repeats it in another repository."""

    commit_id: str
    onto: str
    pack: str
    attempt_key: str
    made: str


class WatchedBranchRow(NamedTuple):
    """A branch of an ended plan that is not merged yet."""

    plan_id: str
    head: str


class BranchHeadRow(NamedTuple):
    """The commit that a branch was at."""

    head: str


class UndecidedRow(NamedTuple):
    """A plan with a release or a review to decide."""

    kind: str
    plan_id: str


class ReleaseRow(NamedTuple):
    """A release."""

    number: int
    release_id: str
    state: str
    footing: str
    manifest: bytes | None
    told: bytes | None
    at: str


class ReleaseIdRow(NamedTuple):
    """A release."""

    release_id: str


class NamedArtifactRow(NamedTuple):
    """A version of an output, with its envelope."""

    task_id: str
    output_name: str
    producer: str
    message_id: str
    envelope: bytes


class JudgementRow(NamedTuple):
    """The judgement of a validator."""

    validator: str
    accepted: int
    model: str


class ReviewRow(NamedTuple):
    """A review of a DAG."""

    revision: int
    dag_sha256: str
    state: str
    review_plan: str
    request_id: str | None
    held: int
    told: bytes | None
    began_at: str


class HeldReviewRow(NamedTuple):
    """Whether a review holds its plan up."""

    held: int


class ReviewRequestRow(NamedTuple):
    """The question about a review, if one was asked."""

    request_id: str | None


class ReleaseTaskRow(NamedTuple):
    """A task as a release looks at it."""

    state: State
    cause: Cause | None
    fresh: int
    agent_id: str
    unisolated: int


class FinishedTaskRow(NamedTuple):
    """When a task was done."""

    task_id: str
    finished_at: str


ADD_DISPUTE: Final = Statement("add_dispute", RequestIdRow)
DISPUTES_OF: Final = Statement("disputes_of", Dispute)
DISPUTE_OF_REQUEST: Final = Statement("dispute_of_request", DisputeOfRequestRow)
ANSWER_DISPUTE: Final = Statement("answer_dispute", RequestIdRow)
PUT_EVIDENCE: Final = Statement("put_evidence", NoRow)
DROP_EVIDENCE: Final = Statement("drop_evidence", NoRow)
EVIDENCE_OF_TASK: Final = Statement("evidence_of_task", EvidenceRow)
EVIDENCE_OF_PLAN: Final = Statement("evidence_of_plan", PlanEvidenceRow)
CHECK_RESULT: Final = Statement("check_result", CheckResultRow)
KEEP_CHECK_RESULT: Final = Statement("keep_check_result", NoRow)
BASELINE: Final = Statement("baseline", BaselineRow)
KEEP_BASELINE: Final = Statement("keep_baseline", NoRow)
PUT_PERFORMANCE: Final = Statement("put_performance", NoRow)
PERFORMANCE: Final = Statement("performance", PerformanceRow)
DROP_PERFORMANCE: Final = Statement("drop_performance", NoRow)
CLAIMS_OF: Final = Statement("claims_of", ClaimsRow)
LEAVE_LEASE: Final = Statement("leave_lease", NoRow)
RENEW_LEASE: Final = Statement("renew_lease", EpochRow)
CONSUMED_AT: Final = Statement("consumed_at", ConsumedAtRow)
DROP_CHECK_RESULT: Final = Statement("drop_check_result", NoRow)
DISTRUST_EVIDENCE: Final = Statement("distrust_evidence", CheckIdRow)
RENEW_EVIDENCE: Final = Statement("renew_evidence", CheckIdRow)
SET_EVIDENCE_FRESH: Final = Statement("set_evidence_fresh", CheckIdRow)
IS_STILL_EVIDENCE: Final = Statement("is_still_evidence", FoundRow)
REFRESH_TASK: Final = Statement("refresh_task", FreshRow)
STALE_TASKS: Final = Statement("stale_tasks", TaskIdRow)
JOINED_CHECKS: Final = Statement("joined_checks", JoinedCheckRow)
JOIN_CHECK: Final = Statement("join_check", NoRow)
DROP_JOINED: Final = Statement("drop_joined", NoRow)
TIP: Final = Statement("tip", TipRow)
BEGIN_TIP: Final = Statement("begin_tip", NoRow)
MOVE_TIP: Final = Statement("move_tip", TipRow)
KEEP_TIP_PACK: Final = Statement("keep_tip_pack", NoRow)
TIP_PACKS: Final = Statement("tip_packs", TipPackRow)
WATCH_BRANCH: Final = Statement("watch_branch", NoRow)
WATCHED_BRANCHES: Final = Statement("watched_branches", WatchedBranchRow)
WATCHED_BRANCH: Final = Statement("watched_branch", BranchHeadRow)
LEAVE_BRANCH: Final = Statement("leave_branch", NoRow)
UNDECIDED: Final = Statement("undecided", UndecidedRow)
LATEST_RELEASE: Final = Statement("latest_release", ReleaseRow)
APPROVED_RELEASE: Final = Statement("approved_release", ReleaseRow)
ADD_RELEASE: Final = Statement("add_release", NoRow)
DECIDE_RELEASE: Final = Statement("decide_release", ReleaseIdRow)
DROP_DUE_RELEASE: Final = Statement("drop_due_release", NoRow)
REVOKE_RELEASE: Final = Statement("revoke_release", ReleaseIdRow)
ARTIFACTS_NAMED: Final = Statement("artifacts_named", NamedArtifactRow)
GATE_RESULTS: Final = Statement("gate_results", NamedArtifactRow)
PUT_JUDGEMENT: Final = Statement("put_judgement", NoRow)
JUDGEMENTS_OF: Final = Statement("judgements_of", JudgementRow)
ADD_REVIEW: Final = Statement("add_review", NoRow)
LATEST_REVIEW: Final = Statement("latest_review", ReviewRow)
DECIDE_REVIEW: Final = Statement("decide_review", HeldReviewRow)
DROP_REVIEWS: Final = Statement("drop_reviews", ReviewRequestRow)
RELEASE_TASK: Final = Statement("release_task", ReleaseTaskRow)
FINISHED_TASKS: Final = Statement("finished_tasks", FinishedTaskRow)
COMMAND_TAKEN_AT: Final = Statement("command_taken_at", ConsumedAtRow)
