"""GitHub through its API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

from agenttalk.adapters.forge import fields
from agenttalk.adapters.forge.api import ForgeApi, ForgeDialect
from agenttalk.adapters.forge.client import ForgeClient, PageSize, RetryPolicy, Sleep, make_error, to_path
from agenttalk.adapters.forge.fields import read_object, read_text
from agenttalk.adapters.forge.rest import IsAgent, RestAccount, RestIssues, RestPulls, RestRepositories
from agenttalk.contracts.forge import Change, ChangeKind, CheckOutcome, ForgeBranch, ForgeUser, Push, Status
from agenttalk.ports.forge import MergeResult

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


class GitHub:
    """One source of the kind github. Implements `Forge`."""

    def __init__(self, source: str, client: ForgeClient, *, is_agent: IsAgent = lambda _: False) -> None:
        api = ForgeApi(source, client, DIALECT)
        self.client = client
        self.account = RestAccount(api)
        self.repositories = GitHubRepositories(api, is_agent)
        self.pulls = GitHubPullRequests(api)
        self.issues = RestIssues(api)

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
        """Open a client of the forge whose API is at `api_url`, for example `https://api.github.com`."""
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "agenttalk",
        }
        async with ForgeClient.connect(api_url.rstrip("/"), headers, patience=patience, sleep=sleep) as client:
            yield cls(source, client, is_agent=is_agent)


class GitHubRepositories(RestRepositories):
    """Repositories with their branches and commits."""

    async def may_write(self, repository: str, login: str) -> bool:
        """Return whether an account has write access."""
        path = f"{to_path(repository)}/collaborators/{quote(login, safe='')}/permission"
        answer = await self.api.client.request("GET", path, accept=frozenset({404}))
        return answer.status == 200 and read_text(answer.part, "permission") in {"admin", "write"}

    async def read_branch(self, repository: str, name: str) -> ForgeBranch:
        """Read what a branch requires of merges: by its rules, and by its protection as far as readers see it."""
        path, quoted = to_path(repository), quote(name, safe="")
        data = await self.api.read_object(f"{path}/branches/{quoted}")
        rules = await self.api.read_list(f"{path}/rules/branches/{quoted}")
        approvals = [
            fields.read_number(read_object(rule, "parameters"), "required_approving_review_count") or 0
            for rule in rules
        ]
        protection = read_object(read_object(data, "protection"), "required_status_checks")
        checked = any(read_text(rule, "type") == "required_status_checks" for rule in rules)
        checked = checked or read_text(protection, "enforcement_level") not in {"", "off"}
        return ForgeBranch(name=name, approvals=max(approvals, default=0), checked=checked)

    async def list_statuses(self, repository: str, sha: str) -> tuple[Status, ...]:
        """List the newest status of each context, and the newest run of each check.

        Only the list says who wrote a status; the combined status does not. Only apps write runs of checks.
        """
        path = f"{to_path(repository)}/commits/{quote(sha, safe='')}"
        items = await self.api.read_list(f"{path}/statuses")
        checks = (await self.api.client.request("GET", f"{path}/check-runs", query={"per_page": 100})).part
        statuses = [
            Status(
                sha=sha,
                outcome=_OUTCOMES.get(read_text(item, "state"), "other"),
                context=read_text(item, "context"),
                description=read_text(item, "description"),
                url=read_text(item, "target_url"),
                at=fields.read_time(item, "updated_at", "created_at"),
                creator=self.api.read_user(item, "creator"),
            )
            for item in reversed(items)  # GitHub lists the newest first
        ]
        statuses += [
            Status(
                sha=sha,
                outcome=_OUTCOMES.get(read_text(run, "conclusion"), "other"),
                context=read_text(run, "name"),
                url=read_text(run, "html_url"),
                at=fields.read_time(run, "completed_at", "started_at"),
                creator=self._read_app(read_object(run, "app")),
            )
            for run in fields.read_objects(checks, "check_runs") or ()
        ]
        return self.pick_newest(statuses)

    def _read_app(self, data: Mapping[str, Any]) -> ForgeUser | None:
        """Read the account of an app."""
        name = read_text(data, "slug", longest=200)
        return ForgeUser(source=self.api.source, login=f"{name}[bot]") if name else None


class GitHubPullRequests(RestPulls):
    """Pull requests and their reviews."""

    async def read_head(self, repository: str, number: int) -> str:
        """Read the newest commit while it was open: on GitHub a closed pull request does not follow its branch."""
        return (await self.read(repository, number)).head_sha

    async def list_pushes(self, repository: str, number: int) -> tuple[Push, ...]:
        """List who moved the head: the activity of the branch, which may lie in a fork."""
        head = read_object(await self.api.read_object(f"{to_path(repository)}/pulls/{number}"), "head")
        name = read_text(read_object(head, "repo"), "full_name")
        if not name:
            return ()
        query: dict[str, str | int] = {"ref": read_text(head, "ref"), "direction": "asc"}
        items = await self.api.read_list(f"{to_path(name)}/activity", query)
        pushes = [(self.api.read_user(item, "actor"), read_text(item, "after")) for item in items]
        return tuple(Push(by=user, commits=(sha,)) for user, sha in pushes if user is not None and sha)

    async def merge(self, repository: str, number: int, head: str) -> MergeResult:
        """Merge exactly this head; also "merged" when it was merged before."""
        path = f"{to_path(repository)}/pulls/{number}/merge"
        answer = await self.api.client.request("PUT", path, body={"sha": head}, accept=frozenset({405, 409}))
        if answer.status < 300:
            return "merged"
        pull = await self.read(repository, number)
        if pull.merged and pull.head_sha == head:
            return "merged"
        raise make_error("PUT", path, answer)


def _read_change(data: Mapping[str, Any], source: str) -> Change | None:
    return fields.read_change(data, _CHANGES.get(read_text(data, "event")), "actor", source)


def _read_submission_time(data: Mapping[str, Any]) -> str:
    return fields.read_time(data, "submitted_at")


DIALECT: Final = ForgeDialect(
    page=PageSize("per_page", 100),
    wip_titles=False,
    lists_requests=True,
    history="events",
    commits="/commits",
    newest_first={"sort": "updated", "direction": "desc"},
    events={"APPROVED": "APPROVE", "REQUEST_CHANGES": "REQUEST_CHANGES", "COMMENT": "COMMENT"},
    states={"APPROVED": "APPROVED", "CHANGES_REQUESTED": "REQUEST_CHANGES", "COMMENTED": "COMMENT"},
    read_change=_read_change,
    read_submission_time=_read_submission_time,
)
