"""Gitea and Forgejo through their API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import quote

from agenttalk.adapters.forge import fields
from agenttalk.adapters.forge.api import ForgeApi, ForgeDialect
from agenttalk.adapters.forge.client import ForgeClient, PageSize, RetryPolicy, Sleep, make_error, to_path
from agenttalk.adapters.forge.fields import read_object, read_text
from agenttalk.adapters.forge.rest import IsAgent, RestAccount, RestIssues, RestPulls, RestRepositories
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.contracts.forge import (
    Change,
    ChangeKind,
    CheckOutcome,
    Comment,
    ForgeBranch,
    ForgeIssue,
    Push,
    Status,
)
from agenttalk.ports.forge import MergeResult

_OUTCOMES: Final[dict[str, CheckOutcome]] = {"success": "success", "failure": "failure", "error": "failure"}
_CHANGES: Final[dict[str, ChangeKind]] = {
    "close": "closed",
    "reopen": "reopened",
    "assignees": "assigned",
    "merge_pull": "merged",
    "pull_scheduled_merge": "scheduled",
    "pull_cancel_scheduled_merge": "unscheduled",
    "dismiss_review": "dismissed",
}
_LATER: Final = "try again later"
"""The forge's answer while it still computes whether there are conflicts."""


class Gitea:
    """One source of the kind gitea or forgejo. Implements `Forge`."""

    def __init__(self, source: str, client: ForgeClient, *, is_agent: IsAgent = lambda _: False) -> None:
        api = ForgeApi(source, client, DIALECT)
        self.client = client
        self.account = RestAccount(api)
        self.repositories = GiteaRepositories(api, is_agent)
        self.pulls = GiteaPullRequests(api)
        self.issues = GiteaIssueTracker(api)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        source: str,
        base_url: str,
        token: str,
        *,
        patience: RetryPolicy | None = None,
        sleep: Sleep = asyncio.sleep,
        is_agent: IsAgent = lambda _: False,
    ) -> AsyncIterator[Gitea]:
        """Open a client of the forge at `base_url`, for example `https://git.example.test`."""
        headers = {"Authorization": f"token {token}", "Accept": "application/json", "User-Agent": "agenttalk"}
        address = f"{base_url.rstrip('/')}/api/v1"
        async with ForgeClient.connect(address, headers, patience=patience, sleep=sleep) as client:
            yield cls(source, client, is_agent=is_agent)


class GiteaRepositories(RestRepositories):
    """Repositories with their branches and commits."""

    async def may_write(self, repository: str, login: str) -> bool:
        """Return whether an account has write access: exactly those can be assigned, and readers may list them."""
        answer = await self.api.client.request("GET", f"{to_path(repository)}/assignees")
        return any(read_text(user, "login", "username").lower() == login.lower() for user in answer.parts)

    async def read_branch(self, repository: str, name: str) -> ForgeBranch:
        """Read what a branch requires of merges. The branch shows it to readers, its protection does not."""
        data = await self.api.read_object(f"{to_path(repository)}/branches/{quote(name, safe='')}")
        approvals = fields.read_number(data, "required_approvals") or 0
        return ForgeBranch(name=name, approvals=approvals, checked=fields.read_flag(data, "enable_status_check"))

    async def list_statuses(self, repository: str, sha: str) -> tuple[Status, ...]:
        """List the newest status of each context of a commit. Lists call the state `status`, webhooks `state`."""
        items = await self.api.read_list(f"{to_path(repository)}/commits/{quote(sha, safe='')}/statuses")
        items.sort(key=lambda item: fields.read_number(item, "id") or 0)
        return self.pick_newest(
            [
                Status(
                    sha=sha,
                    outcome=_OUTCOMES.get(read_text(item, "status", "state"), "other"),
                    context=read_text(item, "context"),
                    description=read_text(item, "description"),
                    url=fields.complete_url(read_text(item, "target_url"), self.api.client.address),
                    at=fields.read_time(item, "updated_at", "created_at"),
                    creator=self.api.read_user(item, "creator"),
                )
                for item in items
            ]
        )


class GiteaPullRequests(RestPulls):
    """Pull requests and their reviews."""

    async def read_head(self, repository: str, number: int) -> str:
        """Read the newest commit while it was open: the ref stays when the branch moves, is merged or is deleted."""
        name = f"refs/pull/{number}/head"
        data = (await self.api.client.request("GET", f"{to_path(repository)}/git/{name}")).data
        refs = [item for item in (data if isinstance(data, list) else [data]) if isinstance(item, dict)]
        shas = [read_text(read_object(ref, "object"), "sha") for ref in refs if read_text(ref, "ref") == name]
        if not shas or not shas[0]:
            raise ForgeError(Code.FORGE_MISSING, f"{repository} has no {name}")
        return shas[0]

    async def list_pushes(self, repository: str, number: int) -> tuple[Push, ...]:
        """List who moved the head: entries of the timeline, with the commits as JSON in a text."""
        items = await self.api.read_list(f"{to_path(repository)}/issues/{number}/timeline")
        pushes = [(self.api.read_user(item, "user"), item) for item in items if read_text(item, "type") == "pull_push"]
        return tuple(Push(by=user, commits=_read_commits(item)) for user, item in pushes if user is not None)

    async def merge(self, repository: str, number: int, head: str) -> MergeResult:
        """Merge exactly this head.

        Gitea answers 405 or 409 when it has merged before, still computes conflicts, finds some, has another head or
        may not merge. The message and the pull request tell which.
        """
        path = f"{to_path(repository)}/pulls/{number}/merge"
        # All versions read the capitalised name; only new ones read `do`.
        body = {"Do": "merge", "head_commit_id": head}
        answer = await self.api.client.request("POST", path, body=body, accept=frozenset({405, 409}))
        if answer.status < 300:
            return "scheduled" if answer.status == 201 else "merged"
        if _LATER in answer.message.lower():
            raise ForgeError(Code.FORGE_NOT_READY, f"{repository}#{number}: {answer.message}", status=answer.status)
        pull = await self.read(repository, number)
        if pull.merged and await self.read_head(repository, number) == head:
            return "merged"
        raise make_error("POST", path, answer)


class GiteaIssueTracker(RestIssues):
    """Issues, comments and history."""

    async def list_comments(self, repository: str, number: int) -> tuple[Comment, ...]:
        """List comments on an issue or pull request, oldest first. This list has no pages."""
        try:
            answer = await self.api.client.request("GET", f"{to_path(repository)}/issues/{number}/comments")
        except ForgeError as error:
            await self._raise_if_missing(error, repository, number)
            raise
        return tuple(map(self.api.read_comment, answer.parts))

    async def comment(self, repository: str, number: int, comment_body: str) -> Comment:
        """Write a comment on an issue or pull request."""
        try:
            return await super().comment(repository, number, comment_body)
        except ForgeError as error:
            await self._raise_if_missing(error, repository, number)
            raise

    async def create(self, repository: str, title: str, issue_body: str, assignees: Sequence[str] = ()) -> ForgeIssue:
        """Open an issue. Assignees that the forge dropped silently are requested once more."""
        issue = await super().create(repository, title, issue_body, assignees)
        if {login.lower() for login in assignees} <= {user.login.lower() for user in issue.assignees}:
            return issue
        with suppress(ForgeError):
            return await self.assign(repository, issue.number, assignees)
        return issue

    async def _raise_if_missing(self, error: ForgeError, repository: str, number: int) -> None:
        """Raise FORGE_MISSING when that is the reason for a 500, which some versions answer for a missing issue."""
        if error.status == 500:
            await self.read(repository, number)


def _read_commits(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Read the commits of a push in a timeline."""
    try:
        push = json.loads(fields.read_body(data, "body"))
    except ValueError:
        return ()
    ids = push.get("commit_ids") if isinstance(push, dict) else None
    return tuple(sha for sha in ids if isinstance(sha, str)) if isinstance(ids, list) else ()


def _read_change(data: Mapping[str, Any], source: str) -> Change | None:
    kind = _CHANGES.get(read_text(data, "type"))
    if kind == "assigned" and fields.read_flag(data, "removed_assignee"):
        kind = "unassigned"
    return fields.read_change(data, kind, "user", source)


def _read_submission_time(data: Mapping[str, Any]) -> str:
    """Read when a review was submitted: `submitted_at` is the time of its draft.

    `updated_at` is the time of submission, unless the review was dismissed, which changes it again.
    """
    drafted = fields.read_time(data, "submitted_at")
    return drafted if fields.read_flag(data, "dismissed") else max(drafted, fields.read_time(data, "updated_at"))


DIALECT: Final = ForgeDialect(
    page=PageSize("limit", 50),
    wip_titles=True,
    lists_requests=False,  # it also lists accounts that approved, rejected or only commented
    history="timeline",
    commits="/git/commits",
    newest_first={"sort": "recentupdate"},
    events={"APPROVED": "APPROVED", "REQUEST_CHANGES": "REQUEST_CHANGES", "COMMENT": "COMMENT"},
    states={"APPROVED": "APPROVED", "REQUEST_CHANGES": "REQUEST_CHANGES", "COMMENT": "COMMENT"},
    read_change=_read_change,
    read_submission_time=_read_submission_time,
)
