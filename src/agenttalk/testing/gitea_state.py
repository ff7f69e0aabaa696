"""What a fake forge knows, what can be done there, and which events follow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from agenttalk.testing.bare import Bare

_BEGIN: Final = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)
_WIP: Final = ("wip:", "[wip]")


class RefusedError(Exception):
    """The forge says no."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(slots=True)
class User:
    """An account."""

    id: int
    login: str
    password: str = ""
    tokens: set[str] = field(default_factory=set)
    is_admin: bool = False


@dataclass(slots=True)
class Issue:
    """An issue, or the issue's half of a pull request."""

    number: int
    title: str
    body: str
    author: User
    created: str
    updated: str
    assignees: list[User] = field(default_factory=list)
    state: Literal["open", "closed"] = "open"


@dataclass(slots=True)
class Review:
    """A review; PENDING is one that nobody else sees."""

    id: int
    author: User
    state: str
    body: str
    commit: str
    submitted: str
    comments: list[dict[str, Any]] = field(default_factory=list)
    dismissed: bool = False
    """Whether somebody took it back. Nobody is told of that, and nothing shows when it was done."""


@dataclass(slots=True)
class Pull:
    """The other half of a pull request."""

    issue: Issue
    head_branch: str
    base_branch: str
    head_sha: str
    base_sha: str
    head_repository: str
    requested: list[User] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    merged_by: User | None = None
    merged_at: str | None = None
    merge_sha: str | None = None

    @property
    def merged(self) -> bool:
        """Whether it was merged."""
        return self.merged_at is not None

    @property
    def draft(self) -> bool:
        """Whether its title says so; there is no other way to say it."""
        return self.issue.title.lower().startswith(_WIP)


@dataclass(slots=True)
class Comment:
    """A comment."""

    id: int
    number: int
    author: User
    body: str
    created: str


@dataclass(slots=True)
class Hook:
    """Where events are sent."""

    id: int
    url: str
    secret: str
    events: tuple[str, ...]
    active: bool = True
    content_type: str = "json"


@dataclass(slots=True)
class Repository:
    """A repository with everything in it."""

    id: int
    owner: User
    name: str
    bare: Bare
    writers: set[str] = field(default_factory=set)
    issues: dict[int, Issue] = field(default_factory=dict)
    pulls: dict[int, Pull] = field(default_factory=dict)
    comments: list[Comment] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    still_checking: set[int] = field(default_factory=set)
    """Pull requests for which the forge still works out conflicts."""

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner.login}/{self.name}"

    def may_write(self, user: User) -> bool:
        """Whether somebody may push and assign."""
        return user.is_admin or user is self.owner or user.login in self.writers


Emit = Callable[[Repository, str, str, User, dict[str, Any]], None]
"""(repository, coarse name, exact name, who, what) of an event."""


class State:
    """Everything, and every deed. Deeds raise RefusedError as the real forge answers."""

    def __init__(self, folder: Path, emit: Emit, *, reviewers_first: bool = True) -> None:
        self.folder = folder
        self._reviewers_first = reviewers_first
        self.users: dict[str, User] = {}
        self.repositories: dict[str, Repository] = {}
        self._emit = emit
        self._ids = itertools.count(1)
        self._ticks = itertools.count()

    def now(self) -> str:
        """A time of its own, later with each look."""
        return (_BEGIN + timedelta(seconds=next(self._ticks))).isoformat().replace("+00:00", "Z")

    # People and repositories

    def user(self, login: str, *, password: str = "", is_admin: bool = False) -> User:
        """An account, made when there is none."""
        if login.lower() not in self.users:
            self.users[login.lower()] = User(next(self._ids), login, password, is_admin=is_admin)
        return self.users[login.lower()]

    def found_user(self, login: str) -> User:
        """An account that must be there."""
        if login.lower() not in self.users:
            raise RefusedError(422, f"user does not exist [uid: 0, name: {login}]")
        return self.users[login.lower()]

    def holder(self, token: str) -> User | None:
        """Whose token it is."""
        return next((user for user in self.users.values() if token in user.tokens), None)

    def repository(self, owner: str, name: str) -> Repository:
        """A repository that must be there."""
        found = self.repositories.get(f"{owner}/{name}".lower())
        if found is None:
            raise RefusedError(404, "The target couldn't be found.")
        return found

    def make_repository(self, owner: str, name: str) -> Repository:
        """A new repository with one commit."""
        key = f"{owner}/{name}".lower()
        if key in self.repositories:
            raise RefusedError(409, "The repository with the same name already exists.")
        bare = Bare.made(self.folder / owner.lower() / f"{name.lower()}.git")
        bare.commit("main", {"README.md": f"# {name}\n"}, "Initial commit", owner)
        self.repositories[key] = Repository(next(self._ids), self.user(owner), name, bare)
        return self.repositories[key]

    # Issues and comments

    def _number(self, repository: Repository) -> int:
        return len(repository.issues) + len(repository.pulls) + 1

    def issue_of(self, repository: Repository, number: int) -> Issue:
        """An issue, or a pull request's half of one."""
        if number in repository.pulls:
            return repository.pulls[number].issue
        if number not in repository.issues:
            raise RefusedError(404, "The target couldn't be found.")
        return repository.issues[number]

    def create_issue(self, repository: Repository, who: User, title: str, body: str, assignees: Sequence[str]) -> Issue:
        """Open an issue. Who may not write sets no assignees, and is not told so."""
        if not title:
            raise RefusedError(422, "title is required")
        given = [self.found_user(login) for login in assignees]
        now = self.now()
        issue = Issue(self._number(repository), title, body, who, now, now)
        issue.assignees = given if repository.may_write(who) else []
        repository.issues[issue.number] = issue
        for _ in issue.assignees:
            self._emit(repository, "issues", "issue_assign", who, {"action": "assigned", "issue": issue})
        self._emit(repository, "issues", "issues", who, {"action": "opened", "issue": issue})
        return issue

    def edit_issue(self, repository: Repository, who: User, number: int, changes: Mapping[str, Any]) -> Issue:
        """Change what an issue or pull request says, who has it, or whether it is open."""
        issue = self.issue_of(repository, number)
        if not repository.may_write(who) and who is not issue.author:
            raise RefusedError(403, "user should be the poster or have write permission")
        self._edit_texts(repository, who, issue, changes)
        if isinstance(changes.get("assignees"), list) and repository.may_write(who):  # else dropped silently
            self._assign(repository, who, issue, [self.found_user(each) for each in changes["assignees"]])
        state = changes.get("state")
        if state in {"open", "closed"} and state != issue.state:
            issue.state, issue.updated = state, self.now()
            self._tell(repository, who, issue, "closed" if state == "closed" else "reopened")
        return issue

    def _edit_texts(self, repository: Repository, who: User, issue: Issue, changes: Mapping[str, Any]) -> None:
        before: dict[str, Any] = {}
        for name in ("title", "body"):
            new = changes.get(name)
            if isinstance(new, str) and new != getattr(issue, name):
                before[name] = {"from": getattr(issue, name)}
                setattr(issue, name, new)
        if before:
            issue.updated = self.now()
            self._tell(repository, who, issue, "edited", changes=before)

    def _assign(self, repository: Repository, who: User, issue: Issue, wanted: list[User]) -> None:
        for user in [each for each in issue.assignees if each not in wanted]:
            issue.assignees.remove(user)
            issue.updated = self.now()
            self._tell_assigned(repository, who, issue, "unassigned")
        for user in [each for each in wanted if each not in issue.assignees]:
            issue.assignees.append(user)
            issue.updated = self.now()
            self._tell_assigned(repository, who, issue, "assigned")

    def _tell(self, repository: Repository, who: User, issue: Issue, action: str, **more: Any) -> None:
        pull = repository.pulls.get(issue.number)
        name = "pull_request" if pull else "issues"
        thing = {"pull": pull} if pull else {"issue": issue}
        self._emit(repository, name, name, who, {"action": action, **thing, **more})

    def _tell_assigned(self, repository: Repository, who: User, issue: Issue, action: str) -> None:
        pull = repository.pulls.get(issue.number)
        if pull:
            self._emit(repository, "pull_request", "pull_request_assign", who, {"action": action, "pull": pull})
        else:
            self._emit(repository, "issues", "issue_assign", who, {"action": action, "issue": issue})

    def create_comment(self, repository: Repository, who: User, number: int, body: str) -> Comment:
        """Write a comment. The real forge, too, breaks down over a number that does not exist."""
        if number not in repository.issues and number not in repository.pulls:
            raise RefusedError(500, "")
        if not body:
            raise RefusedError(422, "[Body]: Required")
        comment = Comment(next(self._ids), number, who, body, self.now())
        repository.comments.append(comment)
        self.issue_of(repository, number).updated = comment.created
        self._tell_comment(repository, who, comment, "created")
        return comment

    def edit_comment(self, repository: Repository, who: User, comment_id: int, body: str) -> Comment:
        """Change a comment."""
        comment = next((each for each in repository.comments if each.id == comment_id), None)
        if comment is None:
            raise RefusedError(404)
        before, comment.body = comment.body, body
        self._tell_comment(repository, who, comment, "edited", changes={"body": {"from": before}})
        return comment

    def _tell_comment(self, repository: Repository, who: User, comment: Comment, action: str, **more: Any) -> None:
        issue, pull = self.issue_of(repository, comment.number), repository.pulls.get(comment.number)
        exact = "pull_request_comment" if pull else "issue_comment"
        what = {"action": action, "issue": issue, "pull": pull, "comment": comment, "is_pull": pull is not None}
        self._emit(repository, "issue_comment", exact, who, {**what, **more})

    # Pull requests

    def pull_of(self, repository: Repository, number: int) -> Pull:
        """A pull request that must be there."""
        if number not in repository.pulls:
            raise RefusedError(404, "The target couldn't be found.")
        return repository.pulls[number]

    def create_pull(
        self,
        repository: Repository,
        who: User,
        title: str,
        body: str,
        head: str,
        base: str,
        reviewers: Sequence[str] = (),
    ) -> Pull:
        """Open a pull request from a branch, or from `owner:branch` of a fork."""
        owner, colon, branch = head.rpartition(":")
        source = self.repository(owner, repository.name) if colon else repository
        sha, target = source.bare.head(branch), repository.bare.head(base)
        if not sha or not target:
            raise RefusedError(404, "The target couldn't be found.")
        if source is not repository:
            repository.bare.git("fetch", "--quiet", str(source.bare.path), sha)
        if not repository.bare.between(target, sha):
            raise RefusedError(422, "there are no changes between the head and the base")
        if any(
            p.issue.state == "open" and (p.head_branch, p.base_branch) == (branch, base)
            for p in repository.pulls.values()
        ):
            raise RefusedError(409, "pull request already exists for these targets")
        now = self.now()
        issue = Issue(self._number(repository), title, body, who, now, now)
        pull = Pull(issue, branch, base, sha, target, source.full_name)
        repository.pulls[issue.number] = pull
        asked = list(reviewers)
        while self._reviewers_first and asked:
            self.request_review(repository, who, issue.number, asked.pop(0))
        self._emit(repository, "pull_request", "pull_request", who, {"action": "opened", "pull": pull})
        for login in asked:
            self.request_review(repository, who, issue.number, login)
        return pull

    def request_review(
        self, repository: Repository, who: User, number: int, login: str, *, remove: bool = False
    ) -> Pull:
        """Ask somebody for a review, or no longer."""
        pull, user = self.pull_of(repository, number), self.found_user(login)
        if user is pull.issue.author:
            raise RefusedError(422, "poster of pr can't be reviewer")
        if (user in pull.requested) is not remove:
            return pull
        if remove:
            pull.requested.remove(user)
        else:
            pull.requested.append(user)
        pull.issue.updated = self.now()
        action = "review_request_removed" if remove else "review_requested"
        what = {"action": action, "pull": pull, "requested_reviewer": user}
        self._emit(repository, "pull_request", "pull_request_review_request", who, what)
        return pull

    def review(
        self,
        repository: Repository,
        who: User,
        number: int,
        event: str,
        body: str,
        commit: str,
        comments: Sequence[Any] = (),
    ) -> Review:
        """Hand a review in. A word that is not known makes a draft, and nobody hears of it."""
        pull = self.pull_of(repository, number)
        state = event if event in {"APPROVED", "REQUEST_CHANGES", "COMMENT"} else "PENDING"
        if pull.issue.state == "closed":
            raise RefusedError(422, "pull request is closed")
        if state in {"APPROVED", "REQUEST_CHANGES"} and who is pull.issue.author:
            raise RefusedError(422, f"{'approve' if state == 'APPROVED' else 'reject'} your own pull is not allowed")
        if (state == "REQUEST_CHANGES" and not body) or (state == "COMMENT" and not body and not comments):
            raise RefusedError(422, f"review event {event} requires a body or a comment")
        review = Review(next(self._ids), who, state, body, commit or pull.head_sha, self.now())
        for each in comments:
            line = {"path": each.get("path", ""), "line": each.get("new_position", 0), "body": each.get("body", "")}
            review.comments.append({"id": next(self._ids), **line})
        pull.reviews.append(review)
        if state == "PENDING":
            return review
        pull.issue.updated = review.submitted
        coarse, exact = {
            "APPROVED": ("pull_request_approved", "pull_request_review_approved"),
            "REQUEST_CHANGES": ("pull_request_rejected", "pull_request_review_rejected"),
            "COMMENT": ("pull_request_comment", "pull_request_review_comment"),
        }[state]
        told = {"type": exact, "content": body}
        self._emit(repository, coarse, exact, who, {"action": "reviewed", "pull": pull, "review": told})
        return review

    def merge(self, repository: Repository, who: User, number: int, head: str) -> None:
        """Merge. One status means many things here, as at the real forge."""
        pull = self.pull_of(repository, number)
        if pull.merged:
            raise RefusedError(405, "")
        if pull.issue.state == "closed":
            raise RefusedError(404, "")
        if not repository.may_write(who):
            raise RefusedError(405, "User not allowed to merge PR")
        if number in repository.still_checking:
            raise RefusedError(405, "Please try again later")
        if pull.draft:
            raise RefusedError(405, "Work in progress PRs cannot be merged")
        if head and head != pull.head_sha:
            raise RefusedError(409, "head out of date")
        sha = repository.bare.merge(pull.base_branch, pull.head_sha, f"Merge #{number}: {pull.issue.title}", who.login)
        if sha is None:
            raise RefusedError(409, "merge conflict")
        pull.merged_by, pull.merged_at, pull.merge_sha = who, self.now(), sha
        pull.issue.state, pull.issue.updated = "closed", pull.merged_at
        self._emit(repository, "pull_request", "pull_request", who, {"action": "closed", "pull": pull})

    def pushed(self, repository: Repository, who: User, before: Mapping[str, str]) -> None:
        """Tell what follows from branches that moved: new heads of pull requests."""
        for branch, sha in repository.bare.branches().items():
            if before.get(branch) == sha:
                continue
            self._emit(repository, "push", "push", who, {"ref": f"refs/heads/{branch}", "after": sha})
            for pull in [each for other in self.repositories.values() for each in other.pulls.values()]:
                if (pull.head_repository, pull.head_branch) == (
                    repository.full_name,
                    branch,
                ) and pull.issue.state == "open":
                    self._synced(pull, sha, who)

    def _synced(self, pull: Pull, sha: str, who: User) -> None:
        target = next(each for each in self.repositories.values() if pull in each.pulls.values())
        source = self.repositories[pull.head_repository.lower()]
        if source is not target:
            target.bare.git("fetch", "--quiet", str(source.bare.path), sha)
        before, pull.head_sha = pull.head_sha, sha
        what = {"action": "synchronized", "pull": pull, "before": before, "after": sha}
        self._emit(target, "pull_request", "pull_request_sync", who, what)
        pull.issue.updated = self.now()  # the real one, too, notes the time only after it has told of the push

    # What ran

    def set_status(self, repository: Repository, who: User, sha: str, status: Mapping[str, Any]) -> dict[str, Any]:
        """Set a commit's status."""
        state = status.get("state")
        if state not in {"pending", "success", "error", "failure", "warning"}:
            raise RefusedError(400, "invalid state")
        kept = {
            "id": next(self._ids),
            "sha": sha,
            "state": state,
            "context": str(status.get("context") or "default"),
            "description": str(status.get("description") or ""),
            "target_url": str(status.get("target_url") or ""),
            "updated_at": self.now(),
        }
        repository.statuses.append(kept)
        self._emit(repository, "status", "status", who, dict(kept))
        return kept
