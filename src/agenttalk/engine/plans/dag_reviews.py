"""Reviews of DAGs in the store. A plan whose DAG has to be approved begins nothing before that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.statements.proof import LATEST_REVIEW, ReviewRow

if TYPE_CHECKING:
    from agenttalk.ports.storage import Snapshot, Store, Tx


class DagReviewView(TypedDict):
    """The review of a DAG."""

    state: str
    revision: int
    dag_sha256: str
    review_plan: str
    request_id: str | None
    decision: str | None
    decided_by: str | None
    reasons: list[str]
    missing: list[str]
    reviews: list[JsonObject]


@dataclass(frozen=True, slots=True)
class DagReviewRecord:
    """The review of a plan's last revision that needed one."""

    revision: int
    dag_sha256: str
    state: str
    """`open` while it goes on, `waits` when the DAG was not approved, `approved`, or `dropped` for another one."""
    review_plan: str
    """The plan in which the reviewers work."""
    request_id: str | None
    held: bool
    """Whether the plan stays paused afterwards, because a person paused it."""
    details: JsonObject | None
    began_at: str

    @property
    def is_undecided(self) -> bool:
        """Whether nothing may begin yet."""
        return self.state in {"open", "waits"}

    def as_json(self) -> DagReviewView:
        """Return what people and programs see of it."""
        told = self.details or {}
        return {
            "state": self.state,
            "revision": self.revision,
            "dag_sha256": self.dag_sha256,
            "review_plan": self.review_plan,
            "request_id": self.request_id,
            "decision": told.get("decision"),
            "decided_by": told.get("decided_by"),
            "reasons": told.get("reasons", []),
            "missing": told.get("missing", []),
            "reviews": told.get("reviews", []),
        }


def _from_row(row: ReviewRow) -> DagReviewRecord:
    said: Any = wire.read(bytes(row.told)) if row.told is not None else None
    return DagReviewRecord(
        row.revision, row.dag_sha256, row.state, row.review_plan, row.request_id, bool(row.held), said, row.began_at
    )


def read_latest(tx: Snapshot, plan_id: str) -> DagReviewRecord | None:
    """Return the last review of a plan."""
    rows = tx.run(LATEST_REVIEW, plan_id=plan_id)
    return _from_row(rows[0]) if rows else None


async def read_latest_committed(store: Store, plan_id: str) -> DagReviewRecord | None:
    """Return the last review of a plan, as it is committed."""
    rows = await store.read(LATEST_REVIEW, plan_id=plan_id)
    return _from_row(rows[0]) if rows else None


async def is_progressing(store: Store, review: DagReviewRecord) -> bool:
    """Whether a review ends by itself: reviewers are at work, or a person has answered."""
    rows = await store.read(REQUEST, request_id=review.request_id) if review.state == "waits" else []
    return review.state == "open" or (bool(rows) and rows[0].state == "answered")


def require_approved(tx: Tx, plan_id: str) -> None:
    """Raise UsageError while a plan's DAG is not approved."""
    known = read_latest(tx, plan_id)
    if known is not None and known.is_undecided:
        how = (
            f"'agenttalk answer {known.request_id}'" if known.request_id else f"'agenttalk status {known.review_plan}'"
        )
        raise UsageError(
            Code.DAG_NOT_APPROVED,
            f"the DAG of plan {plan_id!r} is not approved, so nothing of it begins",
            hint=f"see {how}, or change the plan with 'agenttalk plan apply'",
        )
