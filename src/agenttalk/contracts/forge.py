"""The events and objects of code forges, in one form for all forges.

A webhook is only a hint: it has the state of its objects at one moment. `Sighting` keeps the newest state.
"""

from typing import Annotated, Literal

from pydantic import Field

from agenttalk.contracts.core.base import Count, Many, Part, Positive
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.core.wire import MAX_INTEGER

EventName = Literal[
    "pull_request_opened",
    "pull_request_ready",
    "pull_request_drafted",
    "pull_request_edited",
    "pull_request_synced",
    "pull_request_reopened",
    "pull_request_closed",
    "pull_request_merged",
    "review_requested",
    "review_request_removed",
    "review_submitted",
    "comment_created",
    "comment_edited",
    "comment_deleted",
    "issue_opened",
    "issue_edited",
    "issue_assigned",
    "issue_unassigned",
    "issue_reopened",
    "issue_closed",
    "issue_deleted",
    "pull_request_deleted",
    "review_dismissed",
    "status_changed",
    "run_finished",
    "deployment_changed",
    "repository_deleted",
]
ReviewVerdict = Literal["APPROVED", "REQUEST_CHANGES", "COMMENT"]
CheckOutcome = Literal["success", "failure", "other"]
UserId = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]


class ForgeUser(Part):
    """An account of a forge."""

    source: str
    """The configured source that it belongs to."""
    login: str
    """Its name; the forge compares names without regard to case, and people may change them."""
    id: UserId | None = None
    """Its number, which never changes. The forge's own accounts have negative ones."""


class Repository(Part):
    """A repository."""

    full_name: str
    """`owner/name`."""
    url: str = ""
    """Its page."""
    default_branch: str = ""
    """The branch that pull requests usually go to."""
    id: Count | None = None
    """Its number, which a rename does not change."""
    known_as: str = ""
    """The name under which its tasks are stored: its first known name. Empty unless it was renamed."""

    @property
    def key(self) -> str:
        """Its name in keys."""
        return (self.known_as or self.full_name).lower()


class PullRequest(Part):
    """A pull request, as it was at one moment."""

    number: Positive
    """Its number in the repository."""
    title: str = ""
    """Its title."""
    body: str = ""
    """Its description."""
    author: ForgeUser
    """Who opened it."""
    is_open: bool = True
    """Whether it is neither closed nor merged."""
    draft: bool = False
    """Whether it is a draft."""
    merged: bool = False
    """Whether it was merged."""
    merged_by: ForgeUser | None = None
    """Who merged it."""
    merged_at: str = ""
    """When it was merged."""
    merge_sha: str = ""
    """The commit of the base after the merge."""
    head_sha: str = ""
    """The newest commit. For closed ones, some forges show the current tip of the branch; see `Forge.pull_head`."""
    head_ref: str = ""
    """The branch it comes from."""
    base_ref: str = ""
    """The branch it goes to."""
    base_sha: str = ""
    """The commit that it is compared with."""
    fork: bool = False
    """Whether it comes from another repository, or from a deleted one: its content is not trusted."""
    requested_reviewers: Many[ForgeUser] | None = None
    """Requested reviewers; None when the forge does not say. Some forges also list everyone who ever reviewed."""
    reviewed_by: Many[ForgeUser] = ()
    """Accounts whose newest verdict is about this head, where reviews were read."""
    reviewed_before: Many[ForgeUser] = ()
    """Accounts whose newest verdict is about an older head, where reviews were read."""
    remarked_by: Many[ForgeUser] = ()
    """Accounts that have only commented on this head, where reviews were read."""
    labels: Many[str] = ()
    """Names of its labels."""
    url: str = ""
    """Its page."""
    lines: Count | None = None
    """How many lines it adds and removes, where the forge says it."""
    files: Count | None = None
    """How many files it changes, where the forge says it."""
    mergeable: bool | None = None
    """Whether the forge could merge it now."""
    created_at: str = ""
    """When it was opened."""
    updated_at: str = ""
    """When it last changed, as the forge writes it."""


class ForgeIssue(Part):
    """An issue, or the part of a pull request that the forge treats as one."""

    number: Positive
    """Its number in the repository."""
    title: str = ""
    """Its title."""
    body: str = ""
    """Its description."""
    author: ForgeUser
    """Who opened it."""
    assignees: Many[ForgeUser] = ()
    """Its assignees."""
    labels: Many[str] = ()
    """Names of its labels."""
    is_open: bool = True
    """Whether it is open."""
    is_pull: bool = False
    """Whether it is a pull request."""
    url: str = ""
    """Its page."""
    updated_at: str = ""
    """When it last changed."""


class Comment(Part):
    """A comment on an issue or a pull request."""

    id: Count
    """Its number."""
    body: str = ""
    """Its text."""
    author: ForgeUser
    """Who wrote it."""
    url: str = ""
    """Its page."""
    path: str = ""
    """The file that it is about, if any."""
    line: Count = 0
    """The line of that file; 0 without a file."""
    created_at: str = ""
    """When it was written."""


class Review(Part):
    """A review of a pull request."""

    verdict: ReviewVerdict
    """Its verdict."""
    author: ForgeUser
    """Who reviewed."""
    body: str = ""
    """Its text; empty when it only has comments on lines."""
    id: Count | None = None
    """Its number, where the forge says it."""
    commit: str = ""
    """The commit that was reviewed, where the forge says it."""
    submitted_at: str = ""
    """When it was submitted."""
    dismissed: bool = False
    """Whether it was dismissed later."""


class Status(Part):
    """The status of a commit, set by a service."""

    sha: str
    """The commit."""
    outcome: CheckOutcome
    """Its result."""
    context: str = ""
    """The context, such as the name of a CI job."""
    description: str = ""
    """A description of the result."""
    url: str = ""
    """A page with details."""
    at: str = ""
    """When it was set, by the forge's clock; empty when the forge does not say."""
    creator: ForgeUser | None = None
    """Who wrote it, where the forge says it."""


class Run(Part):
    """A workflow, job or check that has ended."""

    sha: str
    """The commit that it ran for."""
    outcome: CheckOutcome
    """Its result."""
    name: str = ""
    """The workflow's name."""
    file: str = ""
    """The workflow's file."""
    job: str = ""
    """The job, if it is about one."""
    trigger: str = ""
    """The event that started it, such as push or pull_request."""
    branch: str = ""
    """The branch that it ran for."""
    pulls: Many[Positive] = ()
    """Numbers of the pull requests that it ran for, where the forge says them."""
    url: str = ""
    """Its page."""
    id: Count | None = None
    """Its number."""


class Deployment(Part):
    """A deployment that has ended, or failed."""

    sha: str
    """The commit."""
    outcome: CheckOutcome
    """Its result."""
    environment: str = ""
    """The environment."""
    description: str = ""
    """A description of the result."""
    url: str = ""
    """A page with details."""


ChangeKind = Literal["closed", "reopened", "merged", "assigned", "unassigned", "scheduled", "unscheduled", "dismissed"]


class Change(Part):
    """An entry in the timeline of an issue or a pull request."""

    what: ChangeKind
    """What was done. `scheduled`: it will be merged as soon as possible."""
    by: ForgeUser | None = None
    """Who did it."""
    who: ForgeUser | None = None
    """Who was assigned or unassigned."""
    at: str = ""
    """When, by the forge's clock."""


class ForgeBranch(Part):
    """The protection rules of a branch, as far as the forge shows them."""

    name: str
    """Its name."""
    approvals: Count = 0
    """How many approvals it requires."""
    checked: bool = False
    """Whether it requires successful statuses."""


class Commit(Part):
    """A commit."""

    sha: str
    """Its number."""
    parents: Many[str] = ()
    """The commits before it."""
    message: str = ""
    """Its text."""
    address: str = ""
    """The author's git address. It proves nothing, since git accepts any address."""
    authored_at: str = ""
    """When its author wrote it, which a rebase does not change."""


class Push(Part):
    """A push that moved the head of a pull request."""

    by: ForgeUser
    """The account that pushed, which may differ from the authors of the commits."""
    commits: Many[str] = ()
    """Commits that it added, as far as the forge says them."""


class Comparison(Part):
    """The difference between two commits."""

    commits: Many[str] = ()
    """Commits of the head that the base does not have."""
    files: Many[str] = ()
    """Paths that differ, where the forge says them."""
    authors: Many[ForgeUser] = ()
    """Accounts whose commits they are, as far as the forge knows them."""


class ForgeEvent(Part):
    """An event of a forge."""

    source: str
    """The configured source it came from."""
    kind: ForgeKind
    """The kind of forge."""
    name: EventName
    """What happened."""
    repository: Repository
    """Where."""
    sender: ForgeUser | None = None
    """Who did it, where the forge says it."""
    pull_request: PullRequest | None = None
    """The pull request it is about."""
    issue: ForgeIssue | None = None
    """The issue it is about; for comments also the pull request, seen as an issue."""
    comment: Comment | None = None
    """The comment that was written, edited or deleted."""
    review: Review | None = None
    """The review that was handed in."""
    status: Status | None = None
    """The status that changed."""
    run: Run | None = None
    """The run that has ended."""
    deployment: Deployment | None = None
    """The deployment that has ended."""
    requested_reviewer: ForgeUser | None = None
    """Whose review was requested, or is no longer requested."""
    assignee: ForgeUser | None = None
    """Who was assigned, where the forge says it."""
    body_before: str | None = None
    """The text before it was edited."""
    delivery: str = ""
    """The forge's id of this delivery. A replay has another one."""
    at: str = ""
    """When it happened, as the forge writes it."""
    first_hand: bool = False
    """Whether the engine itself read it at the forge, which overrides earlier webhooks."""
    freed: dict[str, str] = Field(default_factory=dict)
    """Account → when the engine last read that the account owes nothing here; see `Sighting`."""
    writer: bool | None = None
    """Whether the sender has write access to the repository; None when that is unknown."""


class Sighting(Part):
    """The newest known state of a pull request or an issue."""

    source: str
    """The configured source."""
    repository: str
    """`owner/name`."""
    pull_request: PullRequest | None = None
    """The pull request."""
    issue: ForgeIssue | None = None
    """The issue."""
    at: str = ""
    """The time of this state."""
    rank: Count = 0
    """The order of states with the same time."""
    narrowed: bool = False
    """Whether an account was removed from its reviewers or assignees at that time."""
    owed: bool = False
    """Whether an account was requested while it was closed or a draft: the task starts when it is open."""
    verdicts: dict[str, str] = Field(default_factory=dict)
    """Reviewer → time and kind of the newest verdict, as texts that sort by time."""
    self_assigned: Many[str] = ()
    """Accounts that assigned the issue to themselves: they need no task."""
    first_hand: bool = False
    """Whether the engine itself read it at the forge."""
    met: Many[str] = ()
    """Keys of tasks for which the forge shows that nothing is left to do."""
    freed: dict[str, str] = Field(default_factory=dict)
    """Account → when it last owed nothing here: not assigned, not requested, or its review submitted. The empty name
    stands for all accounts: the issue was closed. A later request is a new obligation."""
    closed_by: ForgeUser | None = None
    """Who closed or merged it, if known; empty while it is open."""
    left: Many[ForgeUser] = ()
    """Accounts that unassigned themselves and were not assigned again. They keep work that they have begun."""
    covered: dict[str, str] = Field(default_factory=dict)
    """Key of a task → the last time at which the task was owed."""
    unsaid: Many[Count] = ()
    """Numbers of deleted comments. They create no task, even if a webhook about one arrives later."""
