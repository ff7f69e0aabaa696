"""Events of Gitea and Forgejo: the body of each exact event type → the event, or why nothing follows from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agenttalk.adapters.forge import events, fields
from agenttalk.adapters.forge.events import BodyReader
from agenttalk.adapters.forge.fields import read_body, read_flag, read_number, read_object, read_text, read_time
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.forge import EventName, ForgeEvent, Review, ReviewVerdict, Run

_PULL_REF: Final = re.compile(r"@refs/pull/([0-9]{1,15})/")


def _pull_request(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action = read_text(data, "action")
    pull = fields.read_pull_request(read_object(data, "pull_request"), source, wip_titles=True, outer=data)
    names: dict[str, EventName] = {
        "opened": "pull_request_opened",
        "edited": "pull_request_edited",
        "reopened": "pull_request_reopened",
        "closed": "pull_request_merged" if pull.merged else "pull_request_closed",
        "synchronized": "pull_request_synced",
        "review_requested": "review_requested",
        "review_request_removed": "review_request_removed",
        "deleted": "pull_request_deleted",
    }
    if action not in names:
        return f"a pull request was {action[:40] or 'touched'}"
    if action == "deleted":
        pull = pull.model_copy(update={"is_open": False})
    name, title = names[action], events.text_before_edit(data, "title")
    if name == "pull_request_edited" and title is not None and fields.is_wip(title) != pull.draft:
        name = "pull_request_drafted" if pull.draft else "pull_request_ready"
    asked = read_object(data, "requested_reviewer")
    return events.read_event(
        data,
        source,
        kind,
        name,
        pull.updated_at,
        pull_request=pull,
        requested_reviewer=fields.read_user(asked, source),
        body_before=events.text_before_edit(data),
    )


def _review(verdict: ReviewVerdict) -> BodyReader:
    def read(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
        pull = fields.read_pull_request(read_object(data, "pull_request"), source, wip_titles=True, outer=data)
        sender = fields.require_user(data, "sender", source)
        review_type = read_text(read_object(data, "review"), "type")
        if review_type and review_type.rpartition("_")[2] not in {"approved", "rejected", "comment"}:
            return f"a review of the unknown type {review_type[:40]!r}"
        review = Review(
            verdict=verdict,
            author=sender,
            body=read_body(read_object(data, "review"), "content"),
            commit=read_text(data, "commit_id"),
            submitted_at=pull.updated_at,
        )
        return events.read_event(
            data, source, kind, "review_submitted", pull.updated_at, pull_request=pull, review=review
        )

    return read


def _comment(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action = read_text(data, "action")
    if action not in events.COMMENT:
        return f"a comment was {action[:40] or 'touched'}"
    issue = fields.read_issue(read_object(data, "issue"), source)
    pull_data = read_object(data, "pull_request")
    pull = fields.read_pull_request(pull_data, source, wip_titles=True) if pull_data else None
    on_pull = pull is not None or read_flag(data, "is_pull") or issue.is_pull
    comment = fields.read_comment(read_object(data, "comment"), source)
    return events.read_event(
        data,
        source,
        kind,
        events.COMMENT[action],
        comment.created_at,
        issue=issue if issue.is_pull == on_pull else issue.model_copy(update={"is_pull": on_pull}),
        pull_request=pull,
        comment=comment,
        body_before=events.text_before_edit(data),
    )


def _workflow_run(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action, run, flow = read_text(data, "action"), read_object(data, "workflow_run"), read_object(data, "workflow")
    if action != "completed":
        return f"a workflow is {action[:40] or 'unknown'}"
    path = read_text(run, "path")
    numbers = [read_number(pull, "number", least=1) for pull in fields.read_objects(run, "pull_requests") or ()]
    named = _PULL_REF.search(path)
    if named and not numbers:
        numbers = [int(named[1])]
    seen = Run(
        sha=events.require_text(run, "head_sha"),
        outcome=events.read_outcome(read_text(run, "conclusion")),
        name=read_text(flow, "name") or read_text(run, "name"),
        file=read_text(flow, "path") or path.partition("@")[0],
        trigger=read_text(run, "event"),
        branch=read_text(run, "head_branch"),
        pulls=tuple(pull for pull in numbers if pull),
        url=read_text(run, "html_url"),
        id=read_number(run, "id"),
    )
    return events.read_event(data, source, kind, "run_finished", read_time(run, "completed_at", "started_at"), run=seen)


def _workflow_job(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action, job = read_text(data, "action"), read_object(data, "workflow_job")
    if action != "completed":
        return f"a job is {action[:40] or 'unknown'}"
    seen = Run(
        sha=events.require_text(job, "head_sha"),
        outcome=events.read_outcome(read_text(job, "conclusion")),
        name=read_text(job, "workflow_name"),
        job=read_text(job, "name"),
        branch=read_text(job, "head_branch"),
        url=read_text(job, "html_url"),
        id=read_number(job, "run_id"),
    )
    return events.read_event(data, source, kind, "run_finished", read_time(job, "completed_at", "started_at"), run=seen)


def _action_run(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    """Read a run of Forgejo: it has no repository or sender of its own, and the pull request as JSON in a text."""
    run = read_object(data, "run")
    inner = _inner(run)
    pull = None
    if read_object(inner, "pull_request"):
        pull = fields.read_pull_request(read_object(inner, "pull_request"), source, wip_titles=True)
    seen = Run(
        sha=events.require_text(run, "commit_sha"),
        outcome="failure" if read_text(data, "action") == "failure" else "success",
        name=read_text(run, "title"),
        file=read_text(run, "workflow_id"),
        trigger=read_text(run, "event", "trigger_event"),
        branch=read_text(run, "prettyref"),
        pulls=() if pull is None else (pull.number,),
        url=read_text(run, "html_url"),
        id=read_number(run, "id"),
    )
    return ForgeEvent(
        source=source,
        kind=kind,
        name="run_finished",
        repository=fields.read_repository(read_object(run, "repository")),
        pull_request=pull,
        run=seen,
        at=read_time(run, "stopped", "updated", "started"),
    )


def _inner(run: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = run.get("event_payload")
    if not isinstance(payload, str) or not payload:
        return {}
    data = wire.read(payload.encode("utf-8", "replace"), limit=8 * 1024 * 1024)
    return data if isinstance(data, dict) else {}


READERS: Final[Mapping[str, BodyReader]] = {
    "pull_request": _pull_request,
    "pull_request_sync": _pull_request,
    "pull_request_review_request": _pull_request,
    "pull_request_review_approved": _review("APPROVED"),
    "pull_request_review_rejected": _review("REQUEST_CHANGES"),
    "pull_request_review_comment": _review("COMMENT"),
    "pull_request_comment": _comment,
    "issue_comment": _comment,
    "issues": events.read_issue,
    "issue_assign": events.read_issue,
    "status": events.read_status,
    "repository": events.read_repository,
    "workflow_run": _workflow_run,
    "workflow_job": _workflow_job,
    "action_run_failure": _action_run,
    "action_run_success": _action_run,
    "action_run_recover": _action_run,
}
"""Exact event type → its reader."""
