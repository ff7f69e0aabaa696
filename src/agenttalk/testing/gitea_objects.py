"""The objects of a fake forge: accounts, repositories, issues, pull requests, reviews."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from agenttalk.testing.bare_repository import BareRepository

_WIP: Final = ("wip:", "[wip]")


class RefusedError(Exception):
    """Raised when the forge refuses a request."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class MovedError(RefusedError):
    """Raised for an old name; the forge redirects to the new one."""

    def __init__(self, name: str) -> None:
        super().__init__(307)
        self.name = name


@dataclass(slots=True)
class GiteaUser:
    """An account."""

    id: int
    login: str
    password: str = ""
    tokens: set[str] = field(default_factory=set)
    is_admin: bool = False


@dataclass(slots=True)
class GiteaChange:
    """A change of an issue in its timeline."""

    kind: str
    """`close`, `reopen`, `assignees`, `pull_scheduled_merge`, …"""
    who: GiteaUser
    at: str
    assignee: GiteaUser | None = None
    removed: bool = False
    """Whether the assignee was taken off."""


@dataclass(slots=True)
class GiteaIssue:
    """An issue, or the issue's half of a pull request."""

    number: int
    title: str
    body: str
    author: GiteaUser
    created: str
    updated: str
    assignees: list[GiteaUser] = field(default_factory=list)
    state: Literal["open", "closed"] = "open"
    changes: list[GiteaChange] = field(default_factory=list)
    """Its changes, other than those of its texts."""


@dataclass(slots=True)
class GiteaLineComment:
    """A comment on a line. An answer to one belongs to the same review, also from another account."""

    id: int
    author: GiteaUser
    path: str
    line: int
    body: str
    created: str


@dataclass(slots=True)
class GiteaReview:
    """A review; only its author sees one that is PENDING."""

    id: int
    author: GiteaUser
    state: str
    body: str
    commit: str
    submitted: str
    """When it was begun: a draft that is submitted later keeps this time."""
    updated: str = ""
    """When it was submitted or last changed."""
    comments: list[GiteaLineComment] = field(default_factory=list)
    """Comments on lines: by the reviewer, and answers in the same thread."""
    dismissed: bool = False
    """Whether it was dismissed. There is no webhook for that, and no time."""


@dataclass(frozen=True, slots=True)
class GiteaPush:
    """A push that moved the head of a pull request."""

    id: int
    who: GiteaUser
    commits: tuple[str, ...]
    """New commits; when it was forced, the head before and the head after."""
    forced: bool
    at: str


@dataclass(frozen=True, slots=True)
class ScheduledMerge:
    """A merge that waits for checks."""

    who: GiteaUser
    style: str
    head: str


@dataclass(slots=True)
class GiteaPull:
    """The other half of a pull request."""

    issue: GiteaIssue
    head_branch: str
    base_branch: str
    head_sha: str
    """What `refs/pull/N/head` names: the newest commit while it was open. A single pull
    request is answered with the tip of its branch."""
    base_sha: str
    """The newest common ancestor of head and base."""
    head_repository: str
    requested: list[GiteaUser] = field(default_factory=list)
    """The reviewers that are requested now. Answers of the forge list others, too."""
    reviews: list[GiteaReview] = field(default_factory=list)
    merged_by: GiteaUser | None = None
    merged_at: str | None = None
    merge_sha: str | None = None
    pushes: list[GiteaPush] = field(default_factory=list)
    """The pushes that moved its head, the oldest first."""
    scheduled: ScheduledMerge | None = None
    """The account that wants it merged as soon as its checks pass."""

    @property
    def merged(self) -> bool:
        """Whether it was merged."""
        return self.merged_at is not None

    @property
    def draft(self) -> bool:
        """Whether its title says so; there is no other way to say it."""
        return self.issue.title.lower().startswith(_WIP)


@dataclass(slots=True)
class GiteaComment:
    """A comment."""

    id: int
    number: int
    author: GiteaUser
    body: str
    created: str


@dataclass(slots=True)
class GiteaHook:
    """A receiver of events."""

    id: int
    url: str
    secret: str
    events: tuple[str, ...]
    active: bool = True
    content_type: str = "json"


@dataclass(slots=True)
class GiteaRepository:
    """A repository with everything in it."""

    id: int
    owner: GiteaUser
    name: str
    bare: BareRepository
    writers: set[str] = field(default_factory=set)
    readers: set[str] = field(default_factory=set)
    """The other accounts that see it when it is private."""
    private: bool = False
    """Whether only some see it. To others it does not exist."""
    approvals: int = 0
    """How many approvals a merge needs."""
    needs_checks: bool = False
    """Whether a merge needs good statuses."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """Numbers of issues and pull requests. No number is used twice, even after a deletion."""
    issues: dict[int, GiteaIssue] = field(default_factory=dict)
    pulls: dict[int, GiteaPull] = field(default_factory=dict)
    comments: list[GiteaComment] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[GiteaHook] = field(default_factory=list)
    still_checking: set[int] = field(default_factory=set)
    """Pull requests whose conflicts the forge still computes."""

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner.login}/{self.name}"

    def may_read(self, user: GiteaUser) -> bool:
        """Return whether an account can see it."""
        return not self.private or self.may_write(user) or user.login in self.readers

    def may_write(self, user: GiteaUser) -> bool:
        """Return whether an account may push and assign."""
        return user.is_admin or user is self.owner or user.login in self.writers


Emit = Callable[[GiteaRepository, str, str, GiteaUser, dict[str, Any]], None]
"""(repository, coarse name, exact name, who, what) of an event."""
