"""Events of GitHub → the event, or why nothing follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agenttalk.adapters.forge import events, fields
from agenttalk.adapters.forge.events import BodyReader
from agenttalk.adapters.forge.fields import read_body, read_number, read_object, read_text, read_time
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.forge import (
    Deployment,
    EventName,
    ForgeEvent,
    Review,
    ReviewVerdict,
    Run,
)

_STATES: Final[dict[str, ReviewVerdict]] = {
    "approved": "APPROVED",
    "changes_requested": "REQUEST_CHANGES",
    "commented": "COMMENT",
}


def _pull_request(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action = read_text(data, "action")
    pull = fields.read_pull_request(read_object(data, "pull_request"), source, wip_titles=False, outer=data)
    names: dict[str, EventName] = {
        "opened": "pull_request_opened",
        "edited": "pull_request_edited",
        "reopened": "pull_request_reopened",
        "closed": "pull_request_merged" if pull.merged else "pull_request_closed",
        "synchronize": "pull_request_synced",
        "ready_for_review": "pull_request_ready",
        "converted_to_draft": "pull_request_drafted",
        "review_requested": "review_requested",
        "review_request_removed": "review_request_removed",
    }
    if action not in names:
        return f"a pull request was {action[:40] or 'touched'}"
    return events.read_event(
        data,
        source,
        kind,
        names[action],
        pull.updated_at,
        pull_request=pull,
        requested_reviewer=fields.read_user(read_object(data, "requested_reviewer"), source),
        body_before=events.text_before_edit(data),
    )


def _review(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action, review_data = read_text(data, "action"), read_object(data, "review")
    state = read_text(review_data, "state").lower()
    if action == "dismissed":
        return _dismissed(data, review_data, source, kind)
    if action != "submitted" or state not in _STATES:
        return f"a review was {action[:40] or 'touched'} ({state[:40]})"
    pull = fields.read_pull_request(read_object(data, "pull_request"), source, wip_titles=False, outer=data)
    review = Review(
        verdict=_STATES[state],
        author=fields.require_user(review_data, "user", source),
        body=read_body(review_data, "body"),
        id=read_number(review_data, "id"),
        commit=read_text(review_data, "commit_id"),
        submitted_at=read_time(review_data, "submitted_at"),
    )
    at = review.submitted_at or pull.updated_at
    return events.read_event(data, source, kind, "review_submitted", at, pull_request=pull, review=review)


def _dismissed(
    data: Mapping[str, Any], review_data: Mapping[str, Any], source: str, kind: ForgeKind
) -> ForgeEvent | str:
    """Read that a review was dismissed. The body does not contain its verdict any more."""
    pull = fields.read_pull_request(read_object(data, "pull_request"), source, wip_titles=False, outer=data)
    review = Review(
        verdict="REQUEST_CHANGES",
        author=fields.require_user(review_data, "user", source),
        id=read_number(review_data, "id"),
        commit=read_text(review_data, "commit_id"),
        submitted_at=read_time(review_data, "submitted_at"),
        dismissed=True,
    )
    return events.read_event(data, source, kind, "review_dismissed", pull.updated_at, pull_request=pull, review=review)


def _comment(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    return events.read_comment(
        data, source, kind, lambda: {"issue": fields.read_issue(read_object(data, "issue"), source)}
    )


def _line_comment(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    """Read a comment on a line. Its review comes as an event of its own; only the mentions in it are new."""

    def about() -> dict[str, Any]:
        pull = read_object(data, "pull_request")
        return {"pull_request": fields.read_pull_request(pull, source, wip_titles=False, outer=data)}

    return events.read_comment(data, source, kind, about)


def _ran(field: str) -> BodyReader:
    """Read a workflow, job, check or suite: they differ only in names."""

    def read(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
        action, run = read_text(data, "action"), read_object(data, field)
        if action != "completed":
            return f"a {field} is {action[:40] or 'unknown'}"
        conclusion = read_text(run, "conclusion")
        pulls = [read_number(pull, "number", least=1) for pull in fields.read_objects(run, "pull_requests") or ()]
        is_part = field in {"workflow_job", "check_run"}
        seen = Run(
            sha=events.require_text(run, "head_sha"),
            outcome=events.read_outcome(conclusion),
            name=read_text(run, "workflow_name")
            if is_part
            else read_text(run, "name") or read_text(read_object(run, "app"), "name"),
            file=read_text(run, "path"),
            job=read_text(run, "name") if is_part else "",
            trigger=read_text(run, "event"),
            branch=read_text(run, "head_branch") or read_text(read_object(run, "check_suite"), "head_branch"),
            pulls=tuple(pull for pull in pulls if pull),
            url=read_text(run, "html_url"),
            id=read_number(run, "run_id") or read_number(run, "id"),
        )
        return events.read_event(
            data, source, kind, "run_finished", read_time(run, "completed_at", "updated_at"), run=seen
        )

    return read


def _deployment_status(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    status, deployment = read_object(data, "deployment_status"), read_object(data, "deployment")
    state = read_text(status, "state")
    if state not in {"success", "failure", "error"}:
        return f"the deployment is {state[:40] or 'unknown'}"
    seen = Deployment(
        sha=events.require_text(deployment, "sha"),
        outcome="success" if state == "success" else "failure",
        environment=read_text(status, "environment") or read_text(deployment, "environment"),
        description=read_text(status, "description"),
        url=read_text(status, "log_url", "target_url"),
    )
    return events.read_event(data, source, kind, "deployment_changed", read_time(status, "updated_at"), deployment=seen)


READERS: Final[Mapping[str, BodyReader]] = {
    "pull_request": _pull_request,
    "pull_request_review": _review,
    "pull_request_review_comment": _line_comment,
    "issue_comment": _comment,
    "issues": events.read_issue,
    "status": events.read_status,
    "repository": events.read_repository,
    "workflow_run": _ran("workflow_run"),
    "workflow_job": _ran("workflow_job"),
    "check_run": _ran("check_run"),
    "check_suite": _ran("check_suite"),
    "deployment_status": _deployment_status,
}
"""Event → its reader."""
