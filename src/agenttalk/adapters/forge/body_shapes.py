"""Decides whether a body can belong to the event that its headers name.

A signature covers the body alone. Replaying a body under the name of another event gains nothing: the content of the
body decides which names it can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_PARTS: Final = ("comment", "review", "workflow_job", "workflow_run", "check_run", "check_suite", "deployment_status")
"""What a body can be about beyond an issue or a pull request, at most one of them."""
_ABOUT: Final[Mapping[str, frozenset[str]]] = {
    "issue_comment": frozenset({"comment"}),
    "pull_request_comment": frozenset({"comment"}),
    "pull_request_review": frozenset({"review"}),
    "pull_request_review_approved": frozenset({"review"}),
    "pull_request_review_rejected": frozenset({"review"}),
    "pull_request_review_comment": frozenset({"review", "comment"}),
    "workflow_run": frozenset({"workflow_run"}),
    "workflow_job": frozenset({"workflow_job"}),
    "check_run": frozenset({"check_run", "check_suite"}),
    "check_suite": frozenset({"check_suite"}),
    "deployment_status": frozenset({"deployment_status", "workflow_run", "check_run"}),
}
"""Event → what its body may be about; bodies of other events are about none of these."""
_TYPED: Final = "pull_request_review_"


def find_misfit(event: str, body: Mapping[str, Any]) -> str:
    """Explain why a body cannot belong to an event; empty when it can."""
    allowed = _ABOUT.get(event, frozenset())
    for part in _PARTS:
        if isinstance(body.get(part), dict) and part not in allowed:
            return f"the body is about a {part}, which is not what {event!r} is about"
    review = body.get("review")
    review_type = review.get("type") if isinstance(review, dict) else None
    if (
        isinstance(review_type, str)
        and review_type.startswith(_TYPED)
        and review_type in _ABOUT
        and review_type != event
    ):
        return f"the body says {review_type[:60]!r}, and the headers say {event!r}"
    return ""
