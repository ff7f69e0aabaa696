"""Code forges: requests to their APIs, and their webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

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


class DefaultBranch(NamedTuple):
    """The default branch of a repository."""

    name: str
    newest_commit: str


class ForgeAccount(Protocol):
    """The account of the token."""

    async def read_user(self) -> ForgeUser:
        """Read the account that the token belongs to."""

    async def list_repositories(self) -> tuple[str, ...]:
        """List the repositories that the account owns or works on, from all pages."""

    async def can_see(self, repository: str) -> bool:
        """Return whether the repository exists for the account."""


class ForgeRepositories(Protocol):
    """Repositories with their branches and commits."""

    async def read(self, name: str) -> Repository:
        """Read a repository, which may have been renamed."""

    async def may_write(self, repository: str, login: str) -> bool:
        """Return whether an account has write access to a repository."""

    async def read_branch(self, repository: str, name: str) -> ForgeBranch:
        """Read what a branch requires of merges."""

    async def find_newest_commit(self, repository: str) -> DefaultBranch:
        """Find the newest commit of the default branch. Raises FORGE_MISSING when there is none."""

    async def read_commit(self, repository: str, sha: str) -> Commit:
        """Read a commit."""

    async def hash_content(self, repository: str, sha: str) -> str:
        """Return a text that two commits share exactly when their files are the same."""

    async def compare(self, repository: str, base: str, head: str) -> Comparison:
        """Read what lies between two commits."""

    async def list_statuses(self, repository: str, sha: str) -> tuple[Status, ...]:
        """List the newest status of each context of a commit. An agent's status never counts as a success."""


class ForgePulls(Protocol):
    """Pull requests and their reviews."""

    async def read(self, repository: str, number: int) -> PullRequest:
        """Read a pull request as it is now."""

    async def read_head(self, repository: str, number: int) -> str:
        """Read the newest commit that the pull request had while it was open, even if its branch moved or is gone.

        Raises FORGE_MISSING when there is none.
        """

    async def read_review_requests(self, repository: str, pull: PullRequest) -> tuple[PullRequest, tuple[Review, ...]]:
        """Read whose review is still requested and who has reviewed.

        Returns the pull request with these accounts, and its reviews.
        """

    async def list_open(self, repository: str) -> tuple[PullRequest, ...]:
        """List all open pull requests, from all pages."""

    async def list_since(self, repository: str, at: str) -> tuple[PullRequest, ...]:
        """List pull requests, open or not, that changed since a time."""

    async def list_pushes(self, repository: str, number: int) -> tuple[Push, ...]:
        """List who moved the head of a pull request, oldest first."""

    async def list_files(self, repository: str, number: int) -> tuple[str, ...]:
        """List the paths that a pull request changes."""

    async def list_reviews(self, repository: str, number: int) -> tuple[Review, ...]:
        """List submitted reviews, oldest first, without requests and drafts."""

    async def list_review_comments(self, repository: str, number: int, review: int) -> tuple[Comment, ...]:
        """List the comments on lines of one review."""

    async def submit_review(
        self, repository: str, number: int, verdict: ReviewVerdict, review_body: str, commit: str
    ) -> Review:
        """Submit a review of a commit."""

    async def create(self, repository: str, title: str, pull_body: str, *, head: str, base: str) -> PullRequest:
        """Open a pull request from a branch."""

    async def merge(self, repository: str, number: int, head: str) -> MergeResult:
        """Merge exactly this head; also "merged" when it was merged before.

        Raises FORGE_CONFLICT when the pull request has another head.
        """


class ForgeIssues(Protocol):
    """Issues, and the comments and history that pull requests have, too."""

    async def read(self, repository: str, number: int) -> ForgeIssue:
        """Read an issue as it is now."""

    async def list_open(self, repository: str) -> tuple[ForgeIssue, ...]:
        """List all open issues, without pull requests."""

    async def list_since(self, repository: str, since: str) -> tuple[ForgeIssue, ...]:
        """List all issues that changed since a time, including closed ones, without pull requests."""

    async def list_comments(self, repository: str, number: int) -> tuple[Comment, ...]:
        """List comments on an issue or pull request, oldest first."""

    async def list_changes(self, repository: str, number: int) -> tuple[Change, ...]:
        """List what was done to an issue or pull request, oldest first."""

    async def create(self, repository: str, title: str, issue_body: str, assignees: Sequence[str] = ()) -> ForgeIssue:
        """Open an issue. The answer has the real assignees: a forge may drop some silently."""

    async def assign(self, repository: str, number: int, assignees: Sequence[str]) -> ForgeIssue:
        """Replace the assignees of an issue."""

    async def comment(self, repository: str, number: int, comment_body: str) -> Comment:
        """Write a comment on an issue or pull request."""


class Forge(Protocol):
    """A code forge, used with one account's token. `repository` is always `owner/name`.

    Every method raises ForgeError, whose code says what to do. FORGE_UNREACHABLE, FORGE_LIMITED and FORGE_NOT_READY:
    try again later. FORGE_IN_DOUBT: read first whether the change was made. FORGE_MISSING, FORGE_CONFLICT and
    FORGE_REFUSED: trying again does not help until something changes at the forge. Reads are retried by themselves;
    changes are not retried when they could be made twice.
    """

    @property
    def account(self) -> ForgeAccount:
        """The account of the token."""

    @property
    def repositories(self) -> ForgeRepositories:
        """Repositories, branches and commits."""

    @property
    def pulls(self) -> ForgePulls:
        """Pull requests and reviews."""

    @property
    def issues(self) -> ForgeIssues:
        """Issues, comments and history."""


Headers: TypeAlias = "Sequence[tuple[str, str]]"
"""Names and values as they arrived, with repetitions."""


class EventlessDelivery(Protocol):
    """A delivery without an event."""

    @property
    def reason(self) -> str:
        """Why it has no event."""

    @property
    def code(self) -> Code | None:
        """The code of its fault; None if the delivery is valid but irrelevant."""


class DeliverySignature(Protocol):
    """A signature that is computed while a body is read."""

    refusal: str
    """Why the delivery is not genuine, independent of its body; empty if that depends on the body."""
    in_form: bool
    """Whether a field of the body is signed, so that the whole body has to be read first."""

    def update(self, data: bytes) -> None:
        """Add a chunk of the body."""

    def verdict(self) -> str:
        """Return why the complete body is not genuine; empty if it is genuine."""


class EventSource(Protocol):
    """A configured forge: checks its deliveries and reads their events, without I/O."""

    @property
    def name(self) -> str:
        """Its name in the settings."""

    @property
    def kind(self) -> ForgeKind:
        """The kind of forge."""

    @property
    def api_url(self) -> str:
        """The address of its API, as prompts name it."""

    def refusal(self, headers: Headers, body: bytes) -> str:
        """Return why a delivery is not genuine; empty if it is. The reason never contains data of the delivery."""

    def signing(self, headers: Headers) -> DeliverySignature | None:
        """Begin to check a signature while the body is read; None if the source requires no signature."""

    def label(self, headers: Headers) -> tuple[str, str]:
        """Return the forge's id of a delivery and its name of the event."""

    def read(self, headers: Headers, body: bytes) -> ForgeEvent | EventlessDelivery:
        """Read the event of a delivery. Never raises for its content."""
