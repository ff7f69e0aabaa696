"""What the APIs of all forges have in common; each forge says where it differs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import quote

from agenttalk.adapters.forge import fields
from agenttalk.adapters.forge.client import ForgeClient, to_path
from agenttalk.adapters.forge.fields import UnreadableError, read_object, read_text, read_time
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.contracts.forge import (
    Change,
    Comment,
    Commit,
    Comparison,
    ForgeIssue,
    ForgeUser,
    PullRequest,
    Repository,
    Review,
    ReviewVerdict,
)
from agenttalk.rules.toolchain.accounts import same_user

T = TypeVar("T")
IsAgent = Callable[[ForgeUser], bool]
_REQUEST: Final = "REQUEST_REVIEW"
"""The state of a request for a review where requests are listed among reviews."""
_MOST_TREES: Final = 50


class RestForge:
    """The requests that all forges answer in the same way."""

    page: ClassVar[tuple[str, int]]
    """Name and value of the parameter for the size of a page."""
    wip_titles: ClassVar[bool]
    """Whether a title tells that a pull request is a draft."""
    lists_asked: ClassVar[bool]
    """Whether `requested_reviewers` are those who are asked, and nobody else."""
    history: ClassVar[str]
    """The list that tells what was done to an issue or pull request."""
    commits: ClassVar[str]
    """Where one commit is found."""
    newest_first: ClassVar[Mapping[str, str]]
    """Parameters that list what changed last first."""
    events: ClassVar[Mapping[ReviewVerdict, str]]
    """Verdict → the word with which a review is handed in."""
    states: ClassVar[Mapping[str, ReviewVerdict]]
    """The word that a review then has → verdict. Others are requests and drafts."""

    def __init__(self, source: str, caller: ForgeClient, *, is_agent: IsAgent = lambda _: False) -> None:
        """`is_agent` says whether an account is an agent's: whoever works is no service that judges work."""
        self.source = source
        self.caller = caller
        self._is_agent = is_agent

    async def me(self) -> ForgeUser:
        """Whose token this is."""
        found = fields.read_user((await self.caller.ask("GET", "/user")).part, self.source)
        if found is None:
            raise ForgeError(Code.FORGE_ANSWER_INVALID, "the account has no name")
        return found

    async def repositories(self) -> tuple[str, ...]:
        """Repositories that are this account's or that it works on."""
        found = await self.caller.read_pages("/user/repos", size=self.page)
        return tuple(name for name in (read_text(each, "full_name") for each in found) if name)

    async def find_newest_commit(self, repository: str) -> tuple[str, str]:
        """The default branch, and its newest commit. Gitea calls it `id`, GitHub `sha`."""
        branch = read_text((await self.caller.ask("GET", to_path(repository))).part, "default_branch")
        path = f"{to_path(repository)}/branches/{quote(branch, safe='')}"
        shown = (await self.caller.ask("GET", path)).part if branch else {}
        sha = read_text(read_object(shown, "commit"), "id", "sha")
        if not sha:
            raise ForgeError(Code.FORGE_MISSING, f"{repository} has no commit on a default branch")
        return branch, sha

    async def pull_request(self, repository: str, number: int) -> PullRequest:
        """A pull request as it is now."""
        return self.read_pull((await self.caller.ask("GET", f"{to_path(repository)}/pulls/{number}")).part)

    async def can_see(self, repository: str) -> bool:
        """Whether the repository exists for this account: forges hide what they do not show."""
        answer = await self.caller.ask("GET", to_path(repository), bearing=frozenset({404}))
        return answer.status < 300

    async def commit(self, repository: str, sha: str) -> Commit:
        """A commit."""
        path = f"{to_path(repository)}{self.commits}/{quote(sha, safe='')}"
        data = (await self.caller.ask("GET", path)).part
        return _understood(lambda: fields.read_commit(data))

    async def content_hash(self, repository: str, sha: str) -> str:
        """A text that is the same for two commits whose files are the same: objects below the top have their hashes."""
        path, found = f"{to_path(repository)}/git/trees/{quote(sha, safe='')}", list[str]()
        for page in range(1, _MOST_TREES + 1):
            data = (await self.caller.ask("GET", path, query={"page": page, "per_page": 1000})).part
            entries = _understood(partial(fields.require_objects, data, "tree"))
            found += [
                f"{read_text(each, 'mode')} {read_text(each, 'sha')} {read_text(each, 'path')}" for each in entries
            ]
            if not fields.read_flag(data, "truncated"):
                return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()
        raise ForgeError(Code.FORGE_ANSWER_INVALID, f"the top of {repository} at {sha[:10]} has too many files")

    def is_by_service(self, creator: ForgeUser | None) -> bool:
        """Whether a status is a service's word. That of nobody known is nobody's."""
        return creator is not None and not self._is_agent(creator)

    async def read_review_requests(self, repository: str, pull: PullRequest) -> tuple[PullRequest, tuple[Review, ...]]:
        """A pull request with those who are asked now, which its own list need not tell; and its reviews."""
        found = await self.caller.read_pages(f"{to_path(repository)}/pulls/{pull.number}/reviews", size=self.page)
        every = tuple(each for each in map(self.read_review, found) if each is not None)
        reviews = [each for each in every if not same_user(each.author, pull.author)]
        verdicts = {each.author: each for each in reviews if each.verdict != "COMMENT"}
        given = [each for each in verdicts.values() if not each.dismissed]
        remarks = {each.author for each in reviews if each.commit == pull.head_sha} - verdicts.keys()
        requests = [read_object(each, "user") for each in found if read_text(each, "state") == _REQUEST]
        named = (fields.read_user(each, self.source) for each in requests)
        asked = pull.requested_reviewers if self.lists_asked else tuple(each for each in named if each is not None)
        seen = pull.model_copy(
            update={
                "requested_reviewers": asked,
                "reviewed_by": tuple(each.author for each in given if each.commit == pull.head_sha),
                "reviewed_before": tuple(each.author for each in given if each.commit != pull.head_sha),
                "remarked_by": tuple(sorted(remarks, key=lambda each: each.login)),
            }
        )
        return seen, every

    async def changed_files(self, repository: str, number: int) -> tuple[str, ...]:
        """Paths that a pull request changes."""
        found = await self.caller.read_pages(f"{to_path(repository)}/pulls/{number}/files", size=self.page)
        return tuple(read_text(each, "filename") for each in found)

    async def reviews(self, repository: str, number: int) -> tuple[Review, ...]:
        """Reviews that were handed in, the oldest first."""
        found = await self.caller.read_pages(f"{to_path(repository)}/pulls/{number}/reviews", size=self.page)
        return tuple(review for review in map(self.read_review, found) if review is not None)

    async def review_comments(self, repository: str, number: int, review: int) -> tuple[Comment, ...]:
        """Comments on lines of one review."""
        path = f"{to_path(repository)}/pulls/{number}/reviews/{review}/comments"
        return tuple(map(self.read_comment, await self.caller.read_pages(path, size=self.page)))

    async def issue(self, repository: str, number: int) -> ForgeIssue:
        """An issue as it is now."""
        return self.read_issue((await self.caller.ask("GET", f"{to_path(repository)}/issues/{number}")).part)

    async def compare(self, repository: str, base: str, head: str) -> Comparison:
        """What lies between two commits."""
        path = f"{to_path(repository)}/compare/{quote(base, safe='')}...{quote(head, safe='')}"
        data = (await self.caller.ask("GET", path)).part
        commits = fields.read_objects(data, "commits") or []
        files = [name for each in (data, *commits) for name in fields.read_objects(each, "files") or ()]
        authors = [
            fields.read_user(read_object(each, who), self.source) for each in commits for who in ("author", "committer")
        ]
        return Comparison(
            commits=tuple(read_text(each, "sha") for each in commits),
            files=tuple(dict.fromkeys(read_text(each, "filename") for each in files)),
            authors=tuple(dict.fromkeys(each for each in authors if each is not None)),
        )

    async def open_pull_requests(self, repository: str) -> tuple[PullRequest, ...]:
        """All pull requests that are open."""
        found = await self.caller.read_pages(f"{to_path(repository)}/pulls", size=self.page, query={"state": "open"})
        return tuple(map(self.read_pull, found))

    async def pull_requests_since(self, repository: str, at: str) -> tuple[PullRequest, ...]:
        """Pull requests, open or not, that changed since then, the newest first. Older ones are not read."""
        found: list[PullRequest] = []
        path = f"{to_path(repository)}/pulls"
        async for page in self.caller.iterate_pages(path, size=self.page, query={"state": "all", **self.newest_first}):
            read = list(map(self.read_pull, page))
            found += [each for each in read if each.updated_at >= at]
            if read and read[-1].updated_at < at:
                break
        return tuple(found)

    async def open_issues(self, repository: str) -> tuple[ForgeIssue, ...]:
        """All issues that are open. Some forges list pull requests among them."""
        query: dict[str, str | int] = {"state": "open", "type": "issues"}
        found = await self.caller.read_pages(f"{to_path(repository)}/issues", size=self.page, query=query)
        return tuple(issue for issue in map(self.read_issue, found) if not issue.is_pull)

    async def issues_since(self, repository: str, since: str) -> tuple[ForgeIssue, ...]:
        """All issues that changed since a time, closed ones too."""
        query: dict[str, str | int] = {"state": "all", "type": "issues", "since": since}
        found = await self.caller.read_pages(f"{to_path(repository)}/issues", size=self.page, query=query)
        return tuple(issue for issue in map(self.read_issue, found) if not issue.is_pull)

    async def submit_review(
        self, repository: str, number: int, verdict: ReviewVerdict, review_body: str, commit: str
    ) -> Review:
        """Hand a review in. A word that the forge does not know would only make a draft that nobody sees."""
        path = f"{to_path(repository)}/pulls/{number}/reviews"
        sent = {"event": self.events[verdict], "body": review_body, "commit_id": commit}
        review = self.read_review((await self.caller.ask("POST", path, body=sent)).part)
        if review is None or review.verdict != verdict:
            raise ForgeError(Code.FORGE_ANSWER_INVALID, f"the review of {repository}#{number} was kept as a draft")
        return review

    async def comment(self, repository: str, number: int, comment_body: str) -> Comment:
        """Write a comment on an issue or pull request."""
        path = f"{to_path(repository)}/issues/{number}/comments"
        return self.read_comment((await self.caller.ask("POST", path, body={"body": comment_body})).part)

    async def create_issue(
        self, repository: str, title: str, issue_body: str, assignees: Sequence[str] = ()
    ) -> ForgeIssue:
        """Open an issue. Whom the forge drops without a word is missing in the answer."""
        sent = {"title": title, "body": issue_body, "assignees": list(assignees)}
        return self.read_issue((await self.caller.ask("POST", f"{to_path(repository)}/issues", body=sent)).part)

    async def assign(self, repository: str, number: int, assignees: Sequence[str]) -> ForgeIssue:
        """Give an issue to people, who replace those who had it."""
        path = f"{to_path(repository)}/issues/{number}"
        return self.read_issue((await self.caller.ask("PATCH", path, body={"assignees": list(assignees)})).part)

    async def create_pull_request(
        self, repository: str, title: str, pull_body: str, *, head: str, base: str
    ) -> PullRequest:
        """Open a pull request from a branch."""
        sent = {"title": title, "body": pull_body, "head": head, "base": base}
        return self.read_pull((await self.caller.ask("POST", f"{to_path(repository)}/pulls", body=sent)).part)

    async def repository(self, name: str) -> Repository:
        """A repository, which may have another name now."""
        answer = await self.caller.ask("GET", to_path(name))
        return _understood(lambda: fields.read_repository(answer.part))

    async def changes(self, repository: str, number: int) -> tuple[Change, ...]:
        """What was done to an issue or pull request, the oldest first."""
        path = f"{to_path(repository)}/issues/{number}/{self.history}"
        found = [self.read_change(each) for each in await self.caller.read_pages(path, size=self.page)]
        return tuple(each for each in found if each is not None)

    def read_change(self, data: Mapping[str, Any]) -> Change | None:
        """A change in an answer; None when it is of no interest."""
        raise NotImplementedError

    def read_pull(self, data: Mapping[str, Any]) -> PullRequest:
        """A pull request in an answer."""
        return _understood(lambda: fields.read_pull_request(data, self.source, wip_titles=self.wip_titles))

    def read_issue(self, data: Mapping[str, Any]) -> ForgeIssue:
        """An issue in an answer."""
        return _understood(lambda: fields.read_issue(data, self.source))

    def read_comment(self, data: Mapping[str, Any]) -> Comment:
        """A comment in an answer."""
        return _understood(lambda: fields.read_comment(data, self.source))

    def read_review(self, data: Mapping[str, Any]) -> Review | None:
        """A review in an answer; None when it is only a request or a draft."""
        author = fields.read_user(read_object(data, "user"), self.source)
        verdict = self.states.get(read_text(data, "state"))
        if author is None or verdict is None:
            return None
        return Review(
            verdict=verdict,
            author=author,
            body=fields.read_body(data, "body"),
            id=fields.read_number(data, "id"),
            commit=read_text(data, "commit_id"),
            submitted_at=self.read_submission_time(data),
            dismissed=fields.read_flag(data, "dismissed"),
        )

    def read_submission_time(self, data: Mapping[str, Any]) -> str:
        """When a review was handed in."""
        return read_time(data, "submitted_at")


def _understood(read: Callable[[], T]) -> T:
    try:
        return read()
    except UnreadableError as error:
        raise ForgeError(Code.FORGE_ANSWER_INVALID, error.message) from error
