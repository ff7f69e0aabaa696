"""Code forges: what is read and written there, and what they tell us."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from agenttalk.contracts.core.vocabulary import ForgeKind
    from agenttalk.contracts.errors import Code
    from agenttalk.contracts.forge import (
        Change,
        Comment,
        Commit,
        Comparison,
        ForgeBranch,
        ForgeEvent,
        ForgeIssue,
        ForgeUser,
        PullRequest,
        Push,
        Repository,
        Review,
        ReviewVerdict,
        Status,
    )

MergeResult: TypeAlias = 'Literal["merged", "scheduled"]'
"""Whether a pull request is merged, or will be when its checks are green."""


class Forge(Protocol):
    """A code forge, seen with one account's token. `repository` is always `owner/name`.

    Everything raises ForgeError, whose code says what to do: FORGE_UNREACHABLE, FORGE_LIMITED and FORGE_NOT_READY
    can be tried again; after FORGE_IN_DOUBT somebody has to look whether it was done; FORGE_MISSING, FORGE_CONFLICT
    and FORGE_REFUSED stay until something else changes. Reading is tried again by itself, changing is not when it
    could be done twice.
    """

    async def me(self) -> ForgeUser:
        """Whose token this is."""

    async def repositories(self) -> tuple[str, ...]:
        """Repositories that are this account's or that it works on, however many pages they take."""

    async def find_newest_commit(self, repository: str) -> tuple[str, str]:
        """The default branch, and its newest commit; raises FORGE_MISSING where there is none."""

    async def repository(self, name: str) -> Repository:
        """A repository, which may have another name now."""

    async def may_write(self, repository: str, login: str) -> bool:
        """Whether an account has write access to a repository."""

    async def changes(self, repository: str, number: int) -> tuple[Change, ...]:
        """What was done to an issue or pull request, the oldest first."""

    async def branch(self, repository: str, name: str) -> ForgeBranch:
        """What a branch asks of those who merge into it."""

    async def pull_request(self, repository: str, number: int) -> PullRequest:
        """A pull request as it is now."""

    async def can_see(self, repository: str) -> bool:
        """Whether the repository exists for this account."""

    async def pull_head(self, repository: str, number: int) -> str:
        """The newest commit of a pull request while it was open, whatever became of its branch. Or FORGE_MISSING."""

    async def commit(self, repository: str, sha: str) -> Commit:
        """A commit."""

    async def content_hash(self, repository: str, sha: str) -> str:
        """A text that two commits share exactly when their files are the same."""

    async def pushes(self, repository: str, number: int) -> tuple[Push, ...]:
        """Who moved the head of a pull request, the oldest first."""

    async def read_review_requests(self, repository: str, pull: PullRequest) -> tuple[PullRequest, tuple[Review, ...]]:
        """A pull request with those who are really asked for a review now, and who have had their say; its reviews."""

    async def changed_files(self, repository: str, number: int) -> tuple[str, ...]:
        """Paths that a pull request changes."""

    async def reviews(self, repository: str, number: int) -> tuple[Review, ...]:
        """Reviews that were handed in, the oldest first. Requests and drafts are none."""

    async def review_comments(self, repository: str, number: int, review: int) -> tuple[Comment, ...]:
        """Comments on lines of one review."""

    async def comments(self, repository: str, number: int) -> tuple[Comment, ...]:
        """Comments on an issue or pull request, the oldest first."""

    async def statuses(self, repository: str, sha: str) -> tuple[Status, ...]:
        """The newest status of each context of a commit. What an agent wrote of its own work is no success."""

    async def issue(self, repository: str, number: int) -> ForgeIssue:
        """An issue as it is now."""

    async def compare(self, repository: str, base: str, head: str) -> Comparison:
        """What lies between two commits."""

    async def open_pull_requests(self, repository: str) -> tuple[PullRequest, ...]:
        """All pull requests that are open, however many pages they take."""

    async def pull_requests_since(self, repository: str, at: str) -> tuple[PullRequest, ...]:
        """Pull requests, open or not, that changed since then."""

    async def open_issues(self, repository: str) -> tuple[ForgeIssue, ...]:
        """All issues that are open, without pull requests."""

    async def issues_since(self, repository: str, since: str) -> tuple[ForgeIssue, ...]:
        """All issues that changed since a time, closed ones too, without pull requests."""

    async def submit_review(
        self, repository: str, number: int, verdict: ReviewVerdict, review_body: str, commit: str
    ) -> Review:
        """Hand a review of a commit in, so that everybody sees it."""

    async def comment(self, repository: str, number: int, comment_body: str) -> Comment:
        """Write a comment on an issue or pull request."""

    async def create_issue(
        self, repository: str, title: str, issue_body: str, assignees: Sequence[str] = ()
    ) -> ForgeIssue:
        """Open an issue. `assignees` of the answer are those who really have it; a forge may drop them silently."""

    async def assign(self, repository: str, number: int, assignees: Sequence[str]) -> ForgeIssue:
        """Give an issue to these people."""

    async def create_pull_request(
        self, repository: str, title: str, pull_body: str, *, head: str, base: str
    ) -> PullRequest:
        """Open a pull request from a branch."""

    async def merge(self, repository: str, number: int, head: str) -> MergeResult:
        """Merge exactly this head; also "merged" when it was before. FORGE_CONFLICT when the head is another one."""


Headers: TypeAlias = "Sequence[tuple[str, str]]"
"""Names and values as they came, each as often as it came."""


class EventlessDelivery(Protocol):
    """A delivery that nothing follows from."""

    @property
    def reason(self) -> str:
        """Why not."""

    @property
    def code(self) -> Code | None:
        """What is wrong with it, when it is not simply of no interest."""


class DeliverySignature(Protocol):
    """A signature that is computed while a body is read."""

    refusal: str
    """Why the delivery is not genuine, whatever its body says; empty when only the body can tell."""
    in_form: bool
    """Whether a field of the body is signed, so that all of it has to be here first."""

    def update(self, data: bytes) -> None:
        """More of the body."""

    def verdict(self) -> str:
        """Why the body, which is all here now, is not genuine; empty when it is."""


class EventSource(Protocol):
    """A configured forge: who may tell us something in its name, and what that means. Without input or output."""

    @property
    def name(self) -> str:
        """What it is called in the settings."""

    @property
    def kind(self) -> ForgeKind:
        """What it is."""

    @property
    def api_url(self) -> str:
        """Its API, as steps name it."""

    def refusal(self, headers: Headers, body: bytes) -> str:
        """Why a delivery is not genuine; empty when it is. It never repeats what was sent."""

    def signing(self, headers: Headers) -> DeliverySignature | None:
        """The signature of a delivery, computed while its body is read; None where none is asked for."""

    def label(self, headers: Headers) -> tuple[str, str]:
        """The forge's number of a delivery, and what it calls the event."""

    def read(self, headers: Headers, body: bytes) -> ForgeEvent | EventlessDelivery:
        """What happened. Never raises for what was sent."""
