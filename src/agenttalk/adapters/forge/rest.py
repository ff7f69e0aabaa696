"""The four parts of a forge, as far as the APIs of all forges agree. Each kind of forge overrides what differs."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from urllib.parse import quote

from agenttalk.adapters.forge import fields
from agenttalk.adapters.forge.api import ForgeApi, read_answer
from agenttalk.adapters.forge.client import to_path
from agenttalk.adapters.forge.fields import read_object, read_text
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.contracts.forge import (
    Change,
    Comment,
    Commit,
    Comparison,
    ForgeBranch,
    ForgeIssue,
    ForgeUser,
    PullRequest,
    Push,
    Repository,
    Review,
    ReviewVerdict,
    Status,
)
from agenttalk.ports.forge import DefaultBranch, MergeResult
from agenttalk.rules.toolchain.accounts import same_user

IsAgent = Callable[[ForgeUser], bool]
_REQUEST: Final = "REQUEST_REVIEW"
"""The state of a request for a review where requests are listed among reviews."""
_MOST_TREES: Final = 50
_OPEN: Final[dict[str, str | int]] = {"state": "open"}


class RestAccount:
    """The account of the token. Implements `ForgeAccount`."""

    def __init__(self, api: ForgeApi) -> None:
        self._api = api

    async def read_user(self) -> ForgeUser:
        """Read the account that the token belongs to."""
        user = fields.read_user(await self._api.read_object("/user"), self._api.source)
        if user is None:
            raise ForgeError(Code.FORGE_ANSWER_INVALID, "the account has no name")
        return user

    async def list_repositories(self) -> tuple[str, ...]:
        """List the repositories that the account owns or works on."""
        names = (read_text(item, "full_name") for item in await self._api.read_list("/user/repos"))
        return tuple(name for name in names if name)

    async def can_see(self, repository: str) -> bool:
        """Return whether the repository exists for the account: forges answer 404 for what they hide."""
        answer = await self._api.client.request("GET", to_path(repository), accept=frozenset({404}))
        return answer.status < 300


class RestRepositories(ABC):
    """Repositories with their branches and commits. Implements `ForgeRepositories`."""

    def __init__(self, api: ForgeApi, is_agent: IsAgent) -> None:
        """`is_agent` says whether an account belongs to an agent: agents do not judge their own work."""
        self.api = api
        self._is_agent = is_agent

    async def read(self, name: str) -> Repository:
        """Read a repository, which may have been renamed."""
        data = await self.api.read_object(to_path(name))
        return read_answer(lambda: fields.read_repository(data))

    async def find_newest_commit(self, repository: str) -> DefaultBranch:
        """Find the newest commit of the default branch. Gitea calls it `id`, GitHub `sha`."""
        branch = read_text(await self.api.read_object(to_path(repository)), "default_branch")
        path = f"{to_path(repository)}/branches/{quote(branch, safe='')}"
        data = await self.api.read_object(path) if branch else {}
        sha = read_text(read_object(data, "commit"), "id", "sha")
        if not sha:
            raise ForgeError(Code.FORGE_MISSING, f"{repository} has no commit on a default branch")
        return DefaultBranch(branch, sha)

    async def read_commit(self, repository: str, sha: str) -> Commit:
        """Read a commit."""
        data = await self.api.read_object(f"{to_path(repository)}{self.api.dialect.commits}/{quote(sha, safe='')}")
        return read_answer(lambda: fields.read_commit(data))

    async def hash_content(self, repository: str, sha: str) -> str:
        """Hash the entries of the top folder. That covers all files: the entry of a folder has the folder's hash."""
        path, lines = f"{to_path(repository)}/git/trees/{quote(sha, safe='')}", list[str]()
        for page in range(1, _MOST_TREES + 1):
            data = (await self.api.client.request("GET", path, query={"page": page, "per_page": 1000})).part
            entries = read_answer(partial(fields.require_objects, data, "tree"))
            lines += [" ".join(read_text(entry, name) for name in ("mode", "sha", "path")) for entry in entries]
            if not fields.read_flag(data, "truncated"):
                return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
        raise ForgeError(Code.FORGE_ANSWER_INVALID, f"the top of {repository} at {sha[:10]} has too many files")

    async def compare(self, repository: str, base: str, head: str) -> Comparison:
        """Read what lies between two commits."""
        path = f"{to_path(repository)}/compare/{quote(base, safe='')}...{quote(head, safe='')}"
        data = await self.api.read_object(path)
        commits = fields.read_objects(data, "commits") or []
        files = [file for part in (data, *commits) for file in fields.read_objects(part, "files") or ()]
        authors = [self.api.read_user(commit, role) for commit in commits for role in ("author", "committer")]
        return Comparison(
            commits=tuple(read_text(commit, "sha") for commit in commits),
            files=tuple(dict.fromkeys(read_text(file, "filename") for file in files)),
            authors=tuple(dict.fromkeys(author for author in authors if author is not None)),
        )

    def pick_newest(self, statuses: Sequence[Status]) -> tuple[Status, ...]:
        """Pick the newest status of each context. A status without a known author counts as an agent's."""
        return fields.pick_newest(
            (status, status.creator is not None and not self._is_agent(status.creator)) for status in statuses
        )

    @abstractmethod
    async def may_write(self, repository: str, login: str) -> bool:
        """Return whether an account has write access to a repository."""

    @abstractmethod
    async def read_branch(self, repository: str, name: str) -> ForgeBranch:
        """Read what a branch requires of merges."""

    @abstractmethod
    async def list_statuses(self, repository: str, sha: str) -> tuple[Status, ...]:
        """List the newest status of each context of a commit."""


class RestPulls(ABC):
    """Pull requests and their reviews. Implements `ForgePulls`."""

    def __init__(self, api: ForgeApi) -> None:
        self.api = api

    async def read(self, repository: str, number: int) -> PullRequest:
        """Read a pull request as it is now."""
        return self.api.read_pull(await self.api.read_object(f"{to_path(repository)}/pulls/{number}"))

    async def read_review_requests(self, repository: str, pull: PullRequest) -> tuple[PullRequest, tuple[Review, ...]]:
        """Read whose review is requested now, which the pull request's own list need not tell; and the reviews."""
        items = await self.api.read_list(f"{to_path(repository)}/pulls/{pull.number}/reviews")
        submitted = tuple(review for review in map(self.api.read_review, items) if review is not None)
        reviews = [review for review in submitted if not same_user(review.author, pull.author)]
        verdicts = {review.author: review for review in reviews if review.verdict != "COMMENT"}
        standing = [review for review in verdicts.values() if not review.dismissed]
        remarks = {review.author for review in reviews if review.commit == pull.head_sha} - verdicts.keys()
        users = (self.api.read_user(item, "user") for item in items if read_text(item, "state") == _REQUEST)
        requested = tuple(user for user in users if user is not None)
        updated = pull.model_copy(
            update={
                "requested_reviewers": pull.requested_reviewers if self.api.dialect.lists_requests else requested,
                "reviewed_by": tuple(review.author for review in standing if review.commit == pull.head_sha),
                "reviewed_before": tuple(review.author for review in standing if review.commit != pull.head_sha),
                "remarked_by": tuple(sorted(remarks, key=lambda user: user.login)),
            }
        )
        return updated, submitted

    async def list_files(self, repository: str, number: int) -> tuple[str, ...]:
        """List the paths that a pull request changes."""
        items = await self.api.read_list(f"{to_path(repository)}/pulls/{number}/files")
        return tuple(read_text(item, "filename") for item in items)

    async def list_reviews(self, repository: str, number: int) -> tuple[Review, ...]:
        """List submitted reviews, oldest first."""
        items = await self.api.read_list(f"{to_path(repository)}/pulls/{number}/reviews")
        return tuple(review for review in map(self.api.read_review, items) if review is not None)

    async def list_review_comments(self, repository: str, number: int, review: int) -> tuple[Comment, ...]:
        """List the comments on lines of one review."""
        items = await self.api.read_list(f"{to_path(repository)}/pulls/{number}/reviews/{review}/comments")
        return tuple(map(self.api.read_comment, items))

    async def list_open(self, repository: str) -> tuple[PullRequest, ...]:
        """List all open pull requests."""
        return tuple(map(self.api.read_pull, await self.api.read_list(f"{to_path(repository)}/pulls", _OPEN)))

    async def list_since(self, repository: str, at: str) -> tuple[PullRequest, ...]:
        """List pull requests, open or not, that changed since a time, newest first. Stops at the first older page."""
        pulls: list[PullRequest] = []
        dialect = self.api.dialect
        query = {"state": "all", **dialect.newest_first}
        async for items in self.api.client.iterate_pages(
            f"{to_path(repository)}/pulls", size=dialect.page, query=query
        ):
            page = list(map(self.api.read_pull, items))
            pulls += [pull for pull in page if pull.updated_at >= at]
            if page and page[-1].updated_at < at:
                break
        return tuple(pulls)

    async def submit_review(
        self, repository: str, number: int, verdict: ReviewVerdict, review_body: str, commit: str
    ) -> Review:
        """Submit a review. An event that the forge does not know would only make a draft that stays invisible."""
        path = f"{to_path(repository)}/pulls/{number}/reviews"
        body = {"event": self.api.dialect.events[verdict], "body": review_body, "commit_id": commit}
        review = self.api.read_review((await self.api.client.request("POST", path, body=body)).part)
        if review is None or review.verdict != verdict:
            raise ForgeError(Code.FORGE_ANSWER_INVALID, f"the review of {repository}#{number} was kept as a draft")
        return review

    async def create(self, repository: str, title: str, pull_body: str, *, head: str, base: str) -> PullRequest:
        """Open a pull request from a branch."""
        body = {"title": title, "body": pull_body, "head": head, "base": base}
        answer = await self.api.client.request("POST", f"{to_path(repository)}/pulls", body=body)
        return self.api.read_pull(answer.part)

    @abstractmethod
    async def read_head(self, repository: str, number: int) -> str:
        """Read the newest commit that the pull request had while it was open."""

    @abstractmethod
    async def list_pushes(self, repository: str, number: int) -> tuple[Push, ...]:
        """List who moved the head of a pull request, oldest first."""

    @abstractmethod
    async def merge(self, repository: str, number: int, head: str) -> MergeResult:
        """Merge exactly this head; also "merged" when it was merged before."""


class RestIssues:
    """Issues, and the comments and history that pull requests have, too. Implements `ForgeIssues`."""

    def __init__(self, api: ForgeApi) -> None:
        self.api = api

    async def read(self, repository: str, number: int) -> ForgeIssue:
        """Read an issue as it is now."""
        return self.api.read_issue(await self.api.read_object(f"{to_path(repository)}/issues/{number}"))

    async def list_open(self, repository: str) -> tuple[ForgeIssue, ...]:
        """List all open issues. GitHub lists pull requests among them."""
        items = await self.api.read_list(f"{to_path(repository)}/issues", {**_OPEN, "type": "issues"})
        return tuple(issue for issue in map(self.api.read_issue, items) if not issue.is_pull)

    async def list_since(self, repository: str, since: str) -> tuple[ForgeIssue, ...]:
        """List all issues that changed since a time, including closed ones."""
        query: dict[str, str | int] = {"state": "all", "type": "issues", "since": since}
        items = await self.api.read_list(f"{to_path(repository)}/issues", query)
        return tuple(issue for issue in map(self.api.read_issue, items) if not issue.is_pull)

    async def list_comments(self, repository: str, number: int) -> tuple[Comment, ...]:
        """List comments on an issue or pull request, oldest first."""
        items = await self.api.read_list(f"{to_path(repository)}/issues/{number}/comments")
        return tuple(map(self.api.read_comment, items))

    async def list_changes(self, repository: str, number: int) -> tuple[Change, ...]:
        """List what was done to an issue or pull request, oldest first."""
        dialect = self.api.dialect
        items = await self.api.read_list(f"{to_path(repository)}/issues/{number}/{dialect.history}")
        changes = (dialect.read_change(item, self.api.source) for item in items)
        return tuple(change for change in changes if change is not None)

    async def create(self, repository: str, title: str, issue_body: str, assignees: Sequence[str] = ()) -> ForgeIssue:
        """Open an issue. Assignees that the forge drops silently are missing in the answer."""
        body = {"title": title, "body": issue_body, "assignees": list(assignees)}
        answer = await self.api.client.request("POST", f"{to_path(repository)}/issues", body=body)
        return self.api.read_issue(answer.part)

    async def assign(self, repository: str, number: int, assignees: Sequence[str]) -> ForgeIssue:
        """Replace the assignees of an issue."""
        path = f"{to_path(repository)}/issues/{number}"
        answer = await self.api.client.request("PATCH", path, body={"assignees": list(assignees)})
        return self.api.read_issue(answer.part)

    async def comment(self, repository: str, number: int, comment_body: str) -> Comment:
        """Write a comment on an issue or pull request."""
        path = f"{to_path(repository)}/issues/{number}/comments"
        return self.api.read_comment((await self.api.client.request("POST", path, body={"body": comment_body})).part)
