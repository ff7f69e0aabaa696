"""Whether a revision of a plan has to be reviewed before its tasks begin."""

from __future__ import annotations

from typing import Any

from agenttalk.contracts.plan import Policies
from agenttalk.engine import human, reviews
from agenttalk.ports import Tx
from agenttalk.rules import dag_review as rules


def open_review(
    tx: Tx, plan_id: str, revision: int, dag_sha256: str, policies: Policies, *, at: str, held: bool = False
) -> bool:
    """Have a revision reviewed, if its policies say so; whether its tasks have to wait for that.

    A DAG that was approved stays so. A review of an older revision counts no more.
    """
    known = reviews.latest(tx, plan_id) if revision > 1 else None
    if known is not None and known.undecided:
        for (request_id,) in tx.run("drop_reviews", plan_id=plan_id):
            if request_id is not None:
                human.close(tx, request_id, "the plan was changed since", at=at)
    if policies.review is None or (known and known.state == "approved" and known.dag_sha256 == dag_sha256):
        return False
    review_plan = rules.review_plan_id(plan_id, revision, dag_sha256)
    about: dict[str, Any] = {"revision": revision, "dag_sha256": dag_sha256, "review_plan": review_plan}
    tx.run("add_review", plan_id=plan_id, **about, held=int(held), at=at)
    tx.record("review.opened", plan_id, {**about, "reviewers": list(policies.review.reviewers)})
    return True
