"""One source's API: requests with the engine's token, and answers as our documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from agenttalk.adapters.forge import fields
from agenttalk.adapters.forge.client import ForgeClient, PageSize
from agenttalk.adapters.forge.fields import UnreadableError, read_object, read_text
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.contracts.forge import Change, Comment, ForgeIssue, ForgeUser, PullRequest, Review, ReviewVerdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeDialect:
    """Where the API of one kind of forge differs from that of the others."""

    page: PageSize
    wip_titles: bool
    """Whether a title tells that a pull request is a draft."""
    lists_requests: bool
    """Whether `requested_reviewers` holds exactly the accounts whose review is still requested."""
    history: str
    """The list of changes of an issue or pull request."""
    commits: str
    """The path of one commit, below its repository."""
    newest_first: Mapping[str, str]
    """Query parameters that sort a list by its last change, newest first."""
    events: Mapping[ReviewVerdict, str]
    """Verdict → the event that submits a review with it."""
    states: Mapping[str, ReviewVerdict]
    """State of a submitted review → verdict. Other states are requests and drafts."""
    read_change: Callable[[Mapping[str, Any], str], Change | None]
    """Reads an item of the history of this source; None when it is of no interest."""
    read_submission_time: Callable[[Mapping[str, Any]], str]
    """Reads when a review was submitted."""


@dataclass(frozen=True, slots=True)
class ForgeApi:
    """The API of one source. The parts of a forge share it."""

    source: str
    client: ForgeClient
    dialect: ForgeDialect

    async def read_object(self, path: str) -> Mapping[str, Any]:
        """Read one object."""
        return (await self.client.request("GET", path)).part

    async def read_list(self, path: str, query: Mapping[str, str | int] | None = None) -> list[Mapping[str, Any]]:
        """Read a list with all its pages."""
        return await self.client.read_pages(path, size=self.dialect.page, query=query)

    def read_user(self, data: Mapping[str, Any], name: str) -> ForgeUser | None:
        """Read the account in a field; None when it has no name."""
        return fields.read_user(read_object(data, name), self.source)

    def read_pull(self, data: Mapping[str, Any]) -> PullRequest:
        """Read a pull request."""
        return read_answer(lambda: fields.read_pull_request(data, self.source, wip_titles=self.dialect.wip_titles))

    def read_issue(self, data: Mapping[str, Any]) -> ForgeIssue:
        """Read an issue."""
        return read_answer(lambda: fields.read_issue(data, self.source))

    def read_comment(self, data: Mapping[str, Any]) -> Comment:
        """Read a comment."""
        return read_answer(lambda: fields.read_comment(data, self.source))

    def read_review(self, data: Mapping[str, Any]) -> Review | None:
        """Read a review; None for a request or a draft."""
        author = self.read_user(data, "user")
        verdict = self.dialect.states.get(read_text(data, "state"))
        if author is None or verdict is None:
            return None
        return Review(
            verdict=verdict,
            author=author,
            body=fields.read_body(data, "body"),
            id=fields.read_number(data, "id"),
            commit=read_text(data, "commit_id"),
            submitted_at=self.dialect.read_submission_time(data),
            dismissed=fields.read_flag(data, "dismissed"),
        )


def read_answer(read: Callable[[], T]) -> T:
    """Return what `read` reads of an answer. Raises FORGE_ANSWER_INVALID when a required field is missing."""
    try:
        return read()
    except UnreadableError as error:
        raise ForgeError(Code.FORGE_ANSWER_INVALID, error.message) from error
