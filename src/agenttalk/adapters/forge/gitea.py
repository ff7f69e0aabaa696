"""Gitea and Forgejo through their API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, Final
from urllib.parse import quote

from agenttalk.adapters.forge import fields
from agenttalk.adapters.forge.client import ForgeClient, RetryPolicy, Sleep, make_error, to_path
from agenttalk.adapters.forge.fields import read_text
from agenttalk.adapters.forge.rest import IsAgent, RestForge
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.contracts.forge import (
    Change,
    ChangeKind,
    CheckOutcome,
    Comment,
    ForgeBranch,
    ForgeIssue,
    Push,
    ReviewVerdict,
    Status,
)
from agenttalk.ports import MergeResult

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
"""What the forge says while it still works out whether there are conflicts."""


class Gitea(RestForge):
    """One source of the kind gitea or forgejo. Fulfils `ports.Forge`."""

    page = ("limit", 50)
    wip_titles = True
    commits = "/git/commits"
    lists_asked = False  # it lists everybody who approved, rejected or only commented as well
    history = "timeline"
    newest_first: ClassVar[Mapping[str, str]] = {"sort": "recentupdate"}
    events: ClassVar[Mapping[ReviewVerdict, str]] = {
        "APPROVED": "APPROVED",
        "REQUEST_CHANGES": "REQUEST_CHANGES",
        "COMMENT": "COMMENT",
    }
    states: ClassVar[Mapping[str, ReviewVerdict]] = {
        "APPROVED": "APPROVED",
        "REQUEST_CHANGES": "REQUEST_CHANGES",
        "COMMENT": "COMMENT",
    }

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
        """The forge at `https://git.example.test`, as the one whose token it is."""
        headers = {"Authorization": f"token {token}", "Accept": "application/json", "User-Agent": "agenttalk"}
        async with ForgeClient.connect(
            f"{base_url.rstrip('/')}/api/v1", headers, patience=patience, sleep=sleep
        ) as caller:
            yield cls(source, caller, is_agent=is_agent)

    async def comments(self, repository: str, number: int) -> tuple[Comment, ...]:
        """Comments on an issue or pull request, the oldest first. This list has no pages.

        For what was deleted it answers as if it were out of order: whether that is so, the thing itself tells.
        """
        try:
            answer = await self.caller.ask("GET", f"{to_path(repository)}/issues/{number}/comments")
        except ForgeError as error:
            if error.status == 500:
                await self.issue(repository, number)  # raises FORGE_MISSING when that is the reason
            raise
        return tuple(map(self.read_comment, answer.parts))

    async def statuses(self, repository: str, sha: str) -> tuple[Status, ...]:
        """The newest status of each context of a commit. Lists call the state `status`, webhooks `state`."""
        path = f"{to_path(repository)}/commits/{quote(sha, safe='')}/statuses"
        found = await self.caller.read_pages(path, size=self.page)
        every = [
            self._status(each, sha) for each in sorted(found, key=lambda data: fields.read_number(data, "id") or 0)
        ]
        return fields.pick_newest((each, self.is_by_service(each.creator)) for each in every)

    def _status(self, data: Mapping[str, Any], sha: str) -> Status:
        return Status(
            sha=sha,
            outcome=_OUTCOMES.get(read_text(data, "status", "state"), "other"),
            context=read_text(data, "context"),
            description=read_text(data, "description"),
            url=fields.complete_url(read_text(data, "target_url"), self.caller.address),
            at=fields.read_time(data, "updated_at", "created_at"),
            creator=fields.read_user(fields.read_object(data, "creator"), self.source),
        )

    async def pull_head(self, repository: str, number: int) -> str:
        """The newest commit while it was open: the ref stays when the branch moves on, or is merged or removed."""
        wanted = f"refs/pull/{number}/head"
        data = (await self.caller.ask("GET", f"{to_path(repository)}/git/{wanted}")).data
        listed = data if isinstance(data, list) else [data]
        refs = [each for each in listed if isinstance(each, dict) and read_text(each, "ref") == wanted]
        sha = read_text(fields.read_object(refs[0], "object"), "sha") if refs else ""
        if not sha:
            raise ForgeError(Code.FORGE_MISSING, f"{repository} has no {wanted}")
        return sha

    async def pushes(self, repository: str, number: int) -> tuple[Push, ...]:
        """Who moved the head: the timeline tells it, with the commits as JSON in a text."""
        path = f"{to_path(repository)}/issues/{number}/timeline"
        found = [
            each
            for each in await self.caller.read_pages(path, size=self.page)
            if read_text(each, "type") == "pull_push"
        ]
        told = [(fields.read_user(fields.read_object(each, "user"), self.source), _commits(each)) for each in found]
        return tuple(Push(by=by, commits=commits) for by, commits in told if by is not None)

    def read_submission_time(self, data: Mapping[str, Any]) -> str:
        """When a review was handed in: `submitted_at` is the time of its draft. Who takes it back changes it, too."""
        begun = fields.read_time(data, "submitted_at")
        return begun if fields.read_flag(data, "dismissed") else max(begun, fields.read_time(data, "updated_at"))

    async def branch(self, repository: str, name: str) -> ForgeBranch:
        """What a branch asks of those who merge into it. Readers see it, unlike the protection itself."""
        data = (await self.caller.ask("GET", f"{to_path(repository)}/branches/{quote(name, safe='')}")).part
        approvals = fields.read_number(data, "required_approvals") or 0
        return ForgeBranch(name=name, approvals=approvals, checked=fields.read_flag(data, "enable_status_check"))

    async def may_write(self, repository: str, login: str) -> bool:
        """Whether an account has write access: issues can be assigned to those alone, and readers see who they are."""
        answer = await self.caller.ask("GET", f"{to_path(repository)}/assignees")
        return any(read_text(each, "login", "username").lower() == login.lower() for each in answer.parts)

    def read_change(self, data: Mapping[str, Any]) -> Change | None:
        """A change in an answer; None when it is of no interest."""
        what = _CHANGES.get(read_text(data, "type"))
        if what == "assigned" and fields.read_flag(data, "removed_assignee"):
            what = "unassigned"
        if what is None:
            return None
        by, who = (fields.read_user(fields.read_object(data, name), self.source) for name in ("user", "assignee"))
        return Change(what=what, by=by, who=who, at=fields.read_time(data, "created_at"))

    async def comment(self, repository: str, number: int, comment_body: str) -> Comment:
        """Write a comment. For a number that does not exist some versions answer as if they were out of order."""
        try:
            return await super().comment(repository, number, comment_body)
        except ForgeError as error:
            if error.status == 500:
                await self.issue(repository, number)  # raises FORGE_MISSING when that is the reason
            raise

    async def create_issue(
        self, repository: str, title: str, issue_body: str, assignees: Sequence[str] = ()
    ) -> ForgeIssue:
        """Open an issue. Assignees whom the forge dropped without a word are asked for once more."""
        issue = await super().create_issue(repository, title, issue_body, assignees)
        if {each.lower() for each in assignees} <= {each.login.lower() for each in issue.assignees}:
            return issue
        with suppress(ForgeError):
            return await self.assign(repository, issue.number, assignees)
        return issue

    async def merge(self, repository: str, number: int, head: str) -> MergeResult:
        """Merge exactly this head. One answer of the forge means five things: which one, the pull request tells."""
        path = f"{to_path(repository)}/pulls/{number}/merge"
        # Capitalised names are read by all versions; the others only by new ones.
        sent = {"Do": "merge", "head_commit_id": head}
        answer = await self.caller.ask("POST", path, body=sent, bearing=frozenset({405, 409}))
        if answer.status < 300:
            return "scheduled" if answer.status == 201 else "merged"
        if _LATER in answer.message.lower():
            raise ForgeError(Code.FORGE_NOT_READY, f"{repository}#{number}: {answer.message}", status=answer.status)
        now = await self.pull_request(repository, number)
        if now.merged and await self.pull_head(repository, number) == head:
            return "merged"
        raise make_error("POST", path, answer)


def _commits(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The commits of a push in a timeline."""
    try:
        told = json.loads(fields.read_body(data, "body"))
    except ValueError:
        return ()
    ids = told.get("commit_ids") if isinstance(told, dict) else None
    return tuple(each for each in ids if isinstance(each, str)) if isinstance(ids, list) else ()
