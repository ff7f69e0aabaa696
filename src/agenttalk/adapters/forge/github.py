"""GitHub through its API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final
from urllib.parse import quote

from agenttalk.adapters.forge import fields
from agenttalk.adapters.forge.client import ForgeClient, RetryPolicy, Sleep, make_error, to_path
from agenttalk.adapters.forge.fields import read_text
from agenttalk.adapters.forge.rest import IsAgent, RestForge
from agenttalk.contracts.forge import (
    Change,
    ChangeKind,
    CheckOutcome,
    Comment,
    ForgeBranch,
    ForgeUser,
    Push,
    ReviewVerdict,
    Status,
)
from agenttalk.ports import MergeResult

_OUTCOMES: Final[dict[str, CheckOutcome]] = {
    "success": "success",
    "failure": "failure",
    "error": "failure",
    "timed_out": "failure",
    "startup_failure": "failure",
}


_CHANGES: Final[dict[str, ChangeKind]] = {
    "closed": "closed",
    "reopened": "reopened",
    "assigned": "assigned",
    "unassigned": "unassigned",
    "merged": "merged",
    "auto_merge_enabled": "scheduled",
    "auto_merge_disabled": "unscheduled",
    "review_dismissed": "dismissed",
}


class GitHub(RestForge):
    """One source of the kind github. Fulfils `ports.Forge`."""

    page = ("per_page", 100)
    wip_titles = False
    commits = "/commits"
    lists_asked = True
    history = "events"
    newest_first: ClassVar[Mapping[str, str]] = {"sort": "updated", "direction": "desc"}
    events: ClassVar[Mapping[ReviewVerdict, str]] = {
        "APPROVED": "APPROVE",
        "REQUEST_CHANGES": "REQUEST_CHANGES",
        "COMMENT": "COMMENT",
    }
    states: ClassVar[Mapping[str, ReviewVerdict]] = {
        "APPROVED": "APPROVED",
        "CHANGES_REQUESTED": "REQUEST_CHANGES",
        "COMMENTED": "COMMENT",
    }

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        source: str,
        api_url: str,
        token: str,
        *,
        patience: RetryPolicy | None = None,
        sleep: Sleep = asyncio.sleep,
        is_agent: IsAgent = lambda _: False,
    ) -> AsyncIterator[GitHub]:
        """The forge whose API is at `https://api.github.com`, as the one whose token it is."""
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "agenttalk",
        }
        async with ForgeClient.connect(api_url.rstrip("/"), headers, patience=patience, sleep=sleep) as caller:
            yield cls(source, caller, is_agent=is_agent)

    async def comments(self, repository: str, number: int) -> tuple[Comment, ...]:
        """Comments on an issue or pull request, the oldest first."""
        path = f"{to_path(repository)}/issues/{number}/comments"
        return tuple(map(self.read_comment, await self.caller.read_pages(path, size=self.page)))

    async def statuses(self, repository: str, sha: str) -> tuple[Status, ...]:
        """The newest status of each context, and the newest run of each check.

        Only the list says who wrote a status; the combined status does not. Runs of checks are apps' alone.
        """
        here = f"{to_path(repository)}/commits/{quote(sha, safe='')}"
        listed = await self.caller.read_pages(f"{here}/statuses", size=self.page)
        checks = (await self.caller.ask("GET", f"{here}/check-runs", query={"per_page": 100})).part
        found = [
            Status(
                sha=sha,
                outcome=_OUTCOMES.get(read_text(each, "state"), "other"),
                context=read_text(each, "context"),
                description=read_text(each, "description"),
                url=read_text(each, "target_url"),
                at=fields.read_time(each, "updated_at", "created_at"),
                creator=fields.read_user(fields.read_object(each, "creator"), self.source),
            )
            for each in reversed(listed)  # which has the newest first
        ]
        found += [
            Status(
                sha=sha,
                outcome=_OUTCOMES.get(read_text(each, "conclusion"), "other"),
                context=read_text(each, "name"),
                url=read_text(each, "html_url"),
                at=fields.read_time(each, "completed_at", "started_at"),
                creator=self._app(fields.read_object(each, "app")),
            )
            for each in fields.read_objects(checks, "check_runs") or ()
        ]
        return fields.pick_newest((each, self.is_by_service(each.creator)) for each in found)

    def _app(self, data: Mapping[str, Any]) -> ForgeUser | None:
        """The account of an app."""
        name = read_text(data, "slug", longest=200)
        return ForgeUser(source=self.source, login=f"{name}[bot]") if name else None

    async def pull_head(self, repository: str, number: int) -> str:
        """The newest commit while it was open: a closed pull request does not follow its branch here."""
        return (await self.pull_request(repository, number)).head_sha

    async def pushes(self, repository: str, number: int) -> tuple[Push, ...]:
        """Who moved the head: the activity of the branch, in whichever repository it is."""
        head = fields.read_object((await self.caller.ask("GET", f"{to_path(repository)}/pulls/{number}")).part, "head")
        where = read_text(fields.read_object(head, "repo"), "full_name")
        if not where:
            return ()
        query: dict[str, str | int] = {"ref": read_text(head, "ref"), "direction": "asc"}
        found = await self.caller.read_pages(f"{to_path(where)}/activity", size=self.page, query=query)
        told = [
            (fields.read_user(fields.read_object(each, "actor"), self.source), read_text(each, "after"))
            for each in found
        ]
        return tuple(Push(by=by, commits=(after,)) for by, after in told if by is not None and after)

    async def branch(self, repository: str, name: str) -> ForgeBranch:
        """What a branch asks of those who merge into it: by its rules, and by its protection as far as it is shown."""
        here, quoted = to_path(repository), quote(name, safe="")
        data = (await self.caller.ask("GET", f"{here}/branches/{quoted}")).part
        rules = await self.caller.read_pages(f"{here}/rules/branches/{quoted}", size=self.page)
        asked = [
            fields.read_number(fields.read_object(each, "parameters"), "required_approving_review_count")
            for each in rules
        ]
        status = read_text(
            fields.read_object(fields.read_object(data, "protection"), "required_status_checks"), "enforcement_level"
        )
        checked = any(read_text(each, "type") == "required_status_checks" for each in rules) or status not in {
            "",
            "off",
        }
        return ForgeBranch(name=name, approvals=max((each or 0 for each in asked), default=0), checked=checked)

    async def may_write(self, repository: str, login: str) -> bool:
        """Whether an account has write access."""
        path = f"{to_path(repository)}/collaborators/{quote(login, safe='')}/permission"
        answer = await self.caller.ask("GET", path, bearing=frozenset({404}))
        return answer.status == 200 and read_text(answer.part, "permission") in {"admin", "write"}

    def read_change(self, data: Mapping[str, Any]) -> Change | None:
        """A change in an answer; None when it is of no interest."""
        what = _CHANGES.get(read_text(data, "event"))
        if what is None:
            return None
        by, who = (fields.read_user(fields.read_object(data, name), self.source) for name in ("actor", "assignee"))
        return Change(what=what, by=by, who=who, at=fields.read_time(data, "created_at"))

    async def merge(self, repository: str, number: int, head: str) -> MergeResult:
        """Merge exactly this head; also "merged" when it was before."""
        path = f"{to_path(repository)}/pulls/{number}/merge"
        answer = await self.caller.ask("PUT", path, body={"sha": head}, bearing=frozenset({405, 409}))
        if answer.status < 300:
            return "merged"
        now = await self.pull_request(repository, number)
        if now.merged and now.head_sha == head:
            return "merged"
        raise make_error("PUT", path, answer)
