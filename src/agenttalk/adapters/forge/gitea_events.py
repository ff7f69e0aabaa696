"""Events of Gitea and Forgejo: the body of each exact event type → the event, or why nothing follows from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agenttalk.adapters.forge import events, fields
from agenttalk.adapters.forge.events import Reader
from agenttalk.adapters.forge.fields import body, flag, moment, number, part, text
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.forge import EventName, ForgeEvent, Review, ReviewVerdict, Run

_PULL_REF: Final = re.compile(r"@refs/pull/([0-9]{1,15})/")


def _pull_request(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action = text(data, "action")
    pull = fields.pull_request(part(data, "pull_request"), source, wip_titles=True, outer=data)
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
    name, title = names[action], events.before(data, "title")
    if name == "pull_request_edited" and title is not None and fields.is_wip(title) != pull.draft:
        name = "pull_request_drafted" if pull.draft else "pull_request_ready"
    asked = part(data, "requested_reviewer")
    return events.event(
        data,
        source,
        kind,
        name,
        pull.updated_at,
        pull_request=pull,
        requested_reviewer=fields.user(asked, source),
        body_before=events.before(data),
    )


def _review(verdict: ReviewVerdict) -> Reader:
    def read(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
        pull = fields.pull_request(part(data, "pull_request"), source, wip_titles=True, outer=data)
        sender = fields.needed_user(data, "sender", source)
        said = text(part(data, "review"), "type")
        if said and said.rpartition("_")[2] not in {"approved", "rejected", "comment"}:
            return f"a review of the unknown type {said[:40]!r}"
        review = Review(
            verdict=verdict,
            author=sender,
            body=body(part(data, "review"), "content"),
            commit=text(data, "commit_id"),
            submitted_at=pull.updated_at,
        )
        return events.event(data, source, kind, "review_submitted", pull.updated_at, pull_request=pull, review=review)

    return read


def _comment(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action = text(data, "action")
    if action not in events.COMMENT:
        return f"a comment was {action[:40] or 'touched'}"
    issue = fields.issue(part(data, "issue"), source)
    pull_data = part(data, "pull_request")
    pull = fields.pull_request(pull_data, source, wip_titles=True) if pull_data else None
    on_pull = pull is not None or flag(data, "is_pull") or issue.is_pull
    comment = fields.comment(part(data, "comment"), source)
    return events.event(
        data,
        source,
        kind,
        events.COMMENT[action],
        comment.created_at,
        issue=issue if issue.is_pull == on_pull else issue.model_copy(update={"is_pull": on_pull}),
        pull_request=pull,
        comment=comment,
        body_before=events.before(data),
    )


def _issue(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    return events.issue(data, source, kind)


def _workflow_run(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action, run, flow = text(data, "action"), part(data, "workflow_run"), part(data, "workflow")
    if action != "completed":
        return f"a workflow is {action[:40] or 'unknown'}"
    path = text(run, "path")
    numbers = [number(each, "number", least=1) for each in fields.parts(run, "pull_requests") or ()]
    named = _PULL_REF.search(path)
    if named and not numbers:
        numbers = [int(named[1])]
    seen = Run(
        sha=events.needed(run, "head_sha"),
        outcome=events.outcome(text(run, "conclusion")),
        name=text(flow, "name") or text(run, "name"),
        file=text(flow, "path") or path.partition("@")[0],
        trigger=text(run, "event"),
        branch=text(run, "head_branch"),
        pulls=tuple(each for each in numbers if each),
        url=text(run, "html_url"),
        id=number(run, "id"),
    )
    return events.event(data, source, kind, "run_finished", moment(run, "completed_at", "started_at"), run=seen)


def _workflow_job(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    action, job = text(data, "action"), part(data, "workflow_job")
    if action != "completed":
        return f"a job is {action[:40] or 'unknown'}"
    seen = Run(
        sha=events.needed(job, "head_sha"),
        outcome=events.outcome(text(job, "conclusion")),
        name=text(job, "workflow_name"),
        job=text(job, "name"),
        branch=text(job, "head_branch"),
        url=text(job, "html_url"),
        id=number(job, "run_id"),
    )
    return events.event(data, source, kind, "run_finished", moment(job, "completed_at", "started_at"), run=seen)


def _action_run(data: Mapping[str, Any], *, source: str, kind: ForgeKind) -> ForgeEvent | str:
    """Forgejo's runs: no repository or sender of their own, and the pull request as JSON in a text."""
    run = part(data, "run")
    inner = _inner(run)
    pull = None
    if part(inner, "pull_request"):
        pull = fields.pull_request(part(inner, "pull_request"), source, wip_titles=True)
    seen = Run(
        sha=events.needed(run, "commit_sha"),
        outcome="failure" if text(data, "action") == "failure" else "success",
        name=text(run, "title"),
        file=text(run, "workflow_id"),
        trigger=text(run, "event", "trigger_event"),
        branch=text(run, "prettyref"),
        pulls=() if pull is None else (pull.number,),
        url=text(run, "html_url"),
        id=number(run, "id"),
    )
    return ForgeEvent(
        source=source,
        kind=kind,
        name="run_finished",
        repository=fields.repository(part(run, "repository")),
        pull_request=pull,
        run=seen,
        at=moment(run, "stopped", "updated", "started"),
    )


def _inner(run: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = run.get("event_payload")
    if not isinstance(payload, str) or not payload:
        return {}
    data = wire.read(payload.encode("utf-8", "replace"), limit=8 * 1024 * 1024)
    return data if isinstance(data, dict) else {}


READERS: Final[Mapping[str, Reader]] = {
    "pull_request": _pull_request,
    "pull_request_sync": _pull_request,
    "pull_request_review_request": _pull_request,
    "pull_request_review_approved": _review("APPROVED"),
    "pull_request_review_rejected": _review("REQUEST_CHANGES"),
    "pull_request_review_comment": _review("COMMENT"),
    "pull_request_comment": _comment,
    "issue_comment": _comment,
    "issues": _issue,
    "issue_assign": _issue,
    "status": events.status,
    "repository": events.repository,
    "workflow_run": _workflow_run,
    "workflow_job": _workflow_job,
    "action_run_failure": _action_run,
    "action_run_success": _action_run,
    "action_run_recover": _action_run,
}
"""Exact event type → how to read it."""
