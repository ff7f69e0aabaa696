"""Events of GitHub → the event, or why nothing follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agenttalk.adapters.forge import events, fields
from agenttalk.adapters.forge.events import Reader
from agenttalk.adapters.forge.fields import body, moment, number, part, text
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
    action = text(data, "action")
    pull = fields.pull_request(part(data, "pull_request"), source, wip_titles=False, outer=data)
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
    return events.event(
        data,
        source,
        kind,
        names[action],
        pull.updated_at,
        pull_request=pull,
        requested_reviewer=fields.user(part(data, "requested_reviewer"), source),
        body_before=events.before(data),
    )


def _review(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action, said = text(data, "action"), part(data, "review")
    state = text(said, "state").lower()
    if action == "dismissed":
        return _dismissed(data, said, source, kind)
    if action != "submitted" or state not in _STATES:
        return f"a review was {action[:40] or 'touched'} ({state[:40]})"
    pull = fields.pull_request(part(data, "pull_request"), source, wip_titles=False, outer=data)
    review = Review(
        verdict=_STATES[state],
        author=fields.needed_user(said, "user", source),
        body=body(said, "body"),
        id=number(said, "id"),
        commit=text(said, "commit_id"),
        submitted_at=moment(said, "submitted_at"),
    )
    at = review.submitted_at or pull.updated_at
    return events.event(data, source, kind, "review_submitted", at, pull_request=pull, review=review)


def _dismissed(data: Mapping[str, Any], said: Mapping[str, Any], source: str, kind: ForgeKind) -> ForgeEvent | str:
    """A review was taken back. What it came to is not said any more."""
    pull = fields.pull_request(part(data, "pull_request"), source, wip_titles=False, outer=data)
    review = Review(
        verdict="REQUEST_CHANGES",
        author=fields.needed_user(said, "user", source),
        id=number(said, "id"),
        commit=text(said, "commit_id"),
        submitted_at=moment(said, "submitted_at"),
        dismissed=True,
    )
    return events.event(data, source, kind, "review_dismissed", pull.updated_at, pull_request=pull, review=review)


def _comment(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    return events.commented(data, source, kind, lambda: {"issue": fields.issue(part(data, "issue"), source)})


def _line_comment(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    """A comment on a line. Its review comes as an event of its own; only the names in it are news."""

    def about() -> dict[str, Any]:
        pull = part(data, "pull_request")
        return {"pull_request": fields.pull_request(pull, source, wip_titles=False, outer=data)}

    return events.commented(data, source, kind, about)


def _issue(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    return events.issue(data, source, kind)


def _ran(field: str) -> Reader:
    """A workflow, job, check or suite: they differ in names alone."""

    def read(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
        action, run = text(data, "action"), part(data, field)
        if action != "completed":
            return f"a {field} is {action[:40] or 'unknown'}"
        conclusion = text(run, "conclusion")
        pulls = [number(each, "number", least=1) for each in fields.parts(run, "pull_requests") or ()]
        is_part = field in {"workflow_job", "check_run"}
        seen = Run(
            sha=events.needed(run, "head_sha"),
            outcome=events.outcome(conclusion),
            name=text(run, "workflow_name") if is_part else text(run, "name") or text(part(run, "app"), "name"),
            file=text(run, "path"),
            job=text(run, "name") if is_part else "",
            trigger=text(run, "event"),
            branch=text(run, "head_branch") or text(part(run, "check_suite"), "head_branch"),
            pulls=tuple(each for each in pulls if each),
            url=text(run, "html_url"),
            id=number(run, "run_id") or number(run, "id"),
        )
        return events.event(data, source, kind, "run_finished", moment(run, "completed_at", "updated_at"), run=seen)

    return read


def _deployment_status(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    status, deployment = part(data, "deployment_status"), part(data, "deployment")
    state = text(status, "state")
    if state not in {"success", "failure", "error"}:
        return f"the deployment is {state[:40] or 'unknown'}"
    seen = Deployment(
        sha=events.needed(deployment, "sha"),
        outcome="success" if state == "success" else "failure",
        environment=text(status, "environment") or text(deployment, "environment"),
        description=text(status, "description"),
        url=text(status, "log_url", "target_url"),
    )
    return events.event(data, source, kind, "deployment_changed", moment(status, "updated_at"), deployment=seen)


READERS: Final[Mapping[str, Reader]] = {
    "pull_request": _pull_request,
    "pull_request_review": _review,
    "pull_request_review_comment": _line_comment,
    "issue_comment": _comment,
    "issues": _issue,
    "status": events.status,
    "repository": events.repository,
    "workflow_run": _ran("workflow_run"),
    "workflow_job": _ran("workflow_job"),
    "check_run": _ran("check_run"),
    "check_suite": _ran("check_suite"),
    "deployment_status": _deployment_status,
}
"""Event → how to read it."""
