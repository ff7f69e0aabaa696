"""What a code forge tells us, in one form for all forges.

A webhook is only a hint: every object in it is what the forge saw at one moment. `Sighting` keeps the newest of them.
"""

from typing import Annotated, Literal

from pydantic import Field

from agenttalk.contracts.core.base import MAX_INTEGER, Count, Many, Part, Positive
from agenttalk.contracts.core.vocabulary import ForgeKind

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
    """The configured source that knows it."""
    login: str
    """Its name; the forge compares names without regard to case, and people may change them."""
    id: UserId | None = None
    """Its number, which stays. The forge's own accounts have negative ones."""


class Repository(Part):
    """A repository."""

    full_name: str
    """`owner/name`."""
    url: str = ""
    """Its page."""
    default_branch: str = ""
    """The branch that pull requests usually go to."""
    id: Count | None = None
    """Its number, which stays when it is renamed."""
    known_as: str = ""
    """The name under which its tasks are kept: the first that was seen of it. Empty for one that was never renamed."""

    @property
    def key(self) -> str:
        """What it is called in keys."""
        return (self.known_as or self.full_name).lower()


class PullRequest(Part):
    """A pull request, as it was seen at one moment."""

    number: Positive
    """Its number in the repository."""
    title: str = ""
    """In a line."""
    body: str = ""
    """What its author wrote."""
    author: ForgeUser
    """Who opened it."""
    is_open: bool = True
    """Whether it is neither closed nor merged."""
    draft: bool = False
    """Whether its author is not ready yet."""
    merged: bool = False
    """Whether it was merged."""
    merged_by: ForgeUser | None = None
    """Who merged it."""
    merged_at: str = ""
    """When it was merged."""
    merge_sha: str = ""
    """The commit at which the base was after the merge."""
    head_sha: str = ""
    """The newest commit. Of one that is closed some forges show where its branch is now; `Forge.pull_head` knows."""
    head_ref: str = ""
    """The branch it comes from."""
    base_ref: str = ""
    """The branch it goes to."""
    base_sha: str = ""
    """The commit it is compared with."""
    fork: bool = False
    """Whether it comes from another repository, or from one that is gone: what it says is untrusted."""
    requested_reviewers: Many[ForgeUser] | None = None
    """Who is asked for a review; None when the forge does not say. Some forges list all who ever reviewed as well."""
    reviewed_by: Many[ForgeUser] = ()
    """Whose newest verdict is about this head, where reviews were read."""
    reviewed_before: Many[ForgeUser] = ()
    """Whose newest verdict is about an older head, where reviews were read."""
    remarked_by: Many[ForgeUser] = ()
    """Who has only remarked on this head, where reviews were read."""
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
    """When it changed last, as the forge writes it."""


class ForgeIssue(Part):
    """An issue, or the part of a pull request that the forge treats as one."""

    number: Positive
    """Its number in the repository."""
    title: str = ""
    """In a line."""
    body: str = ""
    """What its author wrote."""
    author: ForgeUser
    """Who opened it."""
    assignees: Many[ForgeUser] = ()
    """Who is to do it."""
    labels: Many[str] = ()
    """Names of its labels."""
    is_open: bool = True
    """Whether there is something to do."""
    is_pull: bool = False
    """Whether it is a pull request."""
    url: str = ""
    """Its page."""
    updated_at: str = ""
    """When it changed last."""


class Comment(Part):
    """A comment on an issue or a pull request."""

    id: Count
    """Its number."""
    body: str = ""
    """What it says."""
    author: ForgeUser
    """Who wrote it."""
    url: str = ""
    """Its page."""
    path: str = ""
    """The file it is about, if it is about one."""
    line: Count = 0
    """The line of that file; 0 when it is about none."""
    created_at: str = ""
    """When it was written."""


class Review(Part):
    """A review of a pull request."""

    verdict: ReviewVerdict
    """What it comes to."""
    author: ForgeUser
    """Who reviewed."""
    body: str = ""
    """What it says; empty when there are only comments on lines."""
    id: Count | None = None
    """Its number, where the forge says it."""
    commit: str = ""
    """The commit that was reviewed, where the forge says it."""
    submitted_at: str = ""
    """When it was handed in."""
    dismissed: bool = False
    """Whether somebody took it back since."""


class Status(Part):
    """A commit's status, set by some service."""

    sha: str
    """The commit."""
    outcome: CheckOutcome
    """Whether it is good."""
    context: str = ""
    """What was tried."""
    description: str = ""
    """What came of it, in words."""
    url: str = ""
    """Where to read more."""
    at: str = ""
    """When it was set, by the forge's clock; empty when the forge does not say."""
    creator: ForgeUser | None = None
    """Who wrote it, where the forge says it."""


class Run(Part):
    """A workflow, job or check that has ended."""

    sha: str
    """The commit it ran for."""
    outcome: CheckOutcome
    """Whether it is good."""
    name: str = ""
    """The workflow's name."""
    file: str = ""
    """The workflow's file."""
    job: str = ""
    """The job, if it is about one."""
    trigger: str = ""
    """The event that started it, such as push or pull_request."""
    branch: str = ""
    """The branch it ran for."""
    pulls: Many[Positive] = ()
    """Numbers of the pull requests it ran for, where the forge says them."""
    url: str = ""
    """Its page."""
    id: Count | None = None
    """Its number."""


class Deployment(Part):
    """Something was brought to where it runs, or should have been."""

    sha: str
    """The commit."""
    outcome: CheckOutcome
    """Whether it is good."""
    environment: str = ""
    """Where to."""
    description: str = ""
    """What came of it, in words."""
    url: str = ""
    """Where to read more."""


ChangeKind = Literal["closed", "reopened", "merged", "assigned", "unassigned", "scheduled", "unscheduled", "dismissed"]


class Change(Part):
    """Something that was done to an issue or a pull request."""

    what: ChangeKind
    """What was done. `scheduled`: it is to be merged as soon as it can be."""
    by: ForgeUser | None = None
    """Who did it."""
    who: ForgeUser | None = None
    """Who was assigned, or is not any more."""
    at: str = ""
    """When, by the forge's clock."""


class ForgeBranch(Part):
    """What a branch asks of those who merge into it, as far as the forge shows it."""

    name: str
    """What it is called."""
    approvals: Count = 0
    """How many approvals it takes."""
    checked: bool = False
    """Whether statuses have to be good."""


class Commit(Part):
    """A commit."""

    sha: str
    """Its number."""
    parents: Many[str] = ()
    """The commits before it."""
    message: str = ""
    """What it says."""
    address: str = ""
    """The author's git address, which anybody can write."""
    authored_at: str = ""
    """When its author wrote it, which stays when it is rebased."""


class Push(Part):
    """Somebody moved the head of a pull request."""

    by: ForgeUser
    """Who did it: the account, whatever the commits say."""
    commits: Many[str] = ()
    """Commits that it brought, as far as the forge says them."""


class Comparison(Part):
    """What lies between two commits."""

    commits: Many[str] = ()
    """Commits that the head has and the base has not."""
    files: Many[str] = ()
    """Paths that differ, where the forge says them."""
    authors: Many[ForgeUser] = ()
    """Accounts whose commits they are, as far as the forge knows them."""


class ForgeEvent(Part):
    """One thing that happened at a forge."""

    source: str
    """The configured source it came from."""
    kind: ForgeKind
    """What the source is."""
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
    """Who was asked, or is no longer asked, for a review."""
    assignee: ForgeUser | None = None
    """Who was assigned, where the forge says it."""
    body_before: str | None = None
    """The text before it was edited."""
    delivery: str = ""
    """The forge's number of this delivery. A replay has another one."""
    at: str = ""
    """When it happened, as the forge writes it."""
    first_hand: bool = False
    """Whether the engine read it at the forge itself, so that it holds whatever was told before."""
    freed: dict[str, str] = Field(default_factory=dict)
    """Account → when it was last seen to owe nothing here, where the engine read that; see `Sighting`."""
    writer: bool | None = None
    """Whether the sender has write access to the repository; None when nobody could tell."""


class Sighting(Part):
    """The newest that is known of a pull request or an issue."""

    source: str
    """The configured source."""
    repository: str
    """`owner/name`."""
    pull_request: PullRequest | None = None
    """The pull request."""
    issue: ForgeIssue | None = None
    """The issue."""
    at: str = ""
    """As of when."""
    rank: Count = 0
    """What came later among things of the same moment."""
    narrowed: bool = False
    """Whether somebody was taken from its list of reviewers or assignees at that moment."""
    owed: bool = False
    """Whether somebody was called for it while it was closed or a draft: to be done when it is open."""
    verdicts: dict[str, str] = Field(default_factory=dict)
    """Reviewer → moment and kind of the newest verdict, as texts that compare as they come after each other."""
    self_assigned: Many[str] = ()
    """Names of those who took the issue by themselves: nobody has to tell them."""
    first_hand: bool = False
    """Whether the engine read it at the forge itself."""
    met: Many[str] = ()
    """Keys of tasks of which the forge shows that nothing is left to do."""
    freed: dict[str, str] = Field(default_factory=dict)
    """Account → when it was last seen to owe nothing here: not assigned, not asked, or its review handed in. The empty
    name stands for all: the issue was closed. What is called for after that is another obligation."""
    closed_by: ForgeUser | None = None
    """Who closed or merged it, where that was told; nobody while it is open."""
    left: Many[ForgeUser] = ()
    """Who took themselves off the issue, and were not assigned again: what they have begun is still theirs."""
    covered: dict[str, str] = Field(default_factory=dict)
    """Key of a task → the newest moment at which it stood for what is owed."""
    unsaid: Many[Count] = ()
    """Numbers of comments that were deleted: they call nobody, whenever they are told of."""
