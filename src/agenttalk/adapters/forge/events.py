"""Reads what the events of all forges have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from agenttalk.adapters.forge import fields
from agenttalk.adapters.forge.fields import UnreadableError, read_body, read_object, read_text, read_time
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.forge import CheckOutcome, EventName, ForgeEvent, Status

BodyReader = Callable[..., ForgeEvent | str]
"""The body of an event → the event, or why nothing follows from it."""
ISSUE: Final[dict[str, EventName]] = {
    "opened": "issue_opened",
    "edited": "issue_edited",
    "closed": "issue_closed",
    "reopened": "issue_reopened",
    "assigned": "issue_assigned",
    "unassigned": "issue_unassigned",
    "deleted": "issue_deleted",
    "transferred": "issue_deleted",
}
COMMENT: Final[dict[str, EventName]] = {
    "created": "comment_created",
    "edited": "comment_edited",
    "deleted": "comment_deleted",
}
_FAILED: Final = frozenset({"failure", "error", "timed_out", "startup_failure"})
_STATES: Final[dict[str, CheckOutcome]] = {"success": "success", "failure": "failure", "error": "failure"}


def read_event(
    data: Mapping[str, Any], source: str, kind: ForgeKind, name: EventName, at: str = "", **parts: Any
) -> ForgeEvent:
    """Make an event with what every body contains."""
    return ForgeEvent(
        source=source,
        kind=kind,
        name=name,
        repository=fields.read_repository(read_object(data, "repository")),
        sender=fields.read_user(read_object(data, "sender"), source),
        at=at,
        **parts,
    )


def read_issue(data: Mapping[str, Any], source: str, kind: ForgeKind) -> ForgeEvent | str:
    """Read an event about an issue. A deleted one is not open, even if its body claims that."""
    action = read_text(data, "action")
    if action not in ISSUE:
        return f"an issue was {action[:40] or 'touched'}"
    seen = fields.read_issue(read_object(data, "issue"), source)
    if seen.is_pull:
        return "a pull request was assigned"
    if ISSUE[action] == "issue_deleted":
        seen = seen.model_copy(update={"is_open": False})
    return read_event(
        data,
        source,
        kind,
        ISSUE[action],
        seen.updated_at,
        issue=seen,
        assignee=fields.read_user(read_object(data, "assignee"), source),
        body_before=text_before_edit(data),
    )


def text_before_edit(data: Mapping[str, Any], field: str = "body") -> str | None:
    """Read a text from before an edit; None when the edit changed something else."""
    change = read_object(read_object(data, "changes"), field)
    return read_body(change, "from") if isinstance(change.get("from"), str) else None


def read_comment(
    data: Mapping[str, Any], source: str, kind: ForgeKind, about: Callable[[], Mapping[str, Any]]
) -> ForgeEvent | str:
    """Read that a comment was written, edited or deleted. `about` reads what it belongs to."""
    action = read_text(data, "action")
    if action not in COMMENT:
        return f"a comment was {action[:40] or 'touched'}"
    comment = fields.read_comment(read_object(data, "comment"), source)
    return read_event(
        data,
        source,
        kind,
        COMMENT[action],
        comment.created_at,
        comment=comment,
        body_before=text_before_edit(data),
        **about(),
    )


def read_repository(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    """Read an event about a repository as a whole. Only its deletion matters: it ends all work there."""
    action = read_text(data, "action")
    if action != "deleted":
        return f"a repository was {action[:40] or 'touched'}"
    return read_event(
        data, source, kind, "repository_deleted", read_time(read_object(data, "repository"), "updated_at")
    )


def require_text(data: Mapping[str, Any], name: str) -> str:
    """Read a text that must be there."""
    value = read_text(data, name)
    if not value:
        raise UnreadableError(f"{name!r} is missing")
    return value


def read_outcome(conclusion: str) -> CheckOutcome:
    """Read how a run ended."""
    return "success" if conclusion == "success" else "failure" if conclusion in _FAILED else "other"


def read_status(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    """Read the status of a commit."""
    state, sha = read_text(data, "state"), require_text(data, "sha")
    if state not in _STATES:
        return f"the status is {state[:40] or 'unknown'}"
    seen = Status(
        sha=sha,
        outcome=_STATES[state],
        context=read_text(data, "context"),
        description=read_text(data, "description"),
        url=read_text(data, "target_url"),
    )
    return read_event(data, source, kind, "status_changed", read_time(data, "updated_at", "created_at"), status=seen)
