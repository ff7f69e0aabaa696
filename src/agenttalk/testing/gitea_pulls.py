"""Pull requests, reviews and pushes of a fake forge: the actions on them, and the events that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from agenttalk.testing.gitea_accounts import MISSING, GiteaAccounts
from agenttalk.testing.gitea_issues import GiteaIssues
from agenttalk.testing.gitea_objects import (
    GiteaChange,
    GiteaComment,
    GiteaIssue,
    GiteaLineComment,
    GiteaPull,
    GiteaPush,
    GiteaRepository,
    GiteaReview,
    GiteaUser,
    RefusedError,
    ScheduledMerge,
)

_TOLD: Final = {
    "APPROVED": ("pull_request_approved", "pull_request_review_approved"),
    "REQUEST_CHANGES": ("pull_request_rejected", "pull_request_review_rejected"),
    "COMMENT": ("pull_request_comment", "pull_request_review_comment"),
}
"""State of a review → coarse and exact name of its event."""


class GiteaPulls:
    """The half of the forge with code."""

    def __init__(self, accounts: GiteaAccounts, issues: GiteaIssues, *, reviewers_first: bool = True) -> None:
        self._accounts = accounts
        self._issues = issues
        self._reviewers_first = reviewers_first

    # Pull requests

    def pull_of(self, repository: GiteaRepository, number: int) -> GiteaPull:
        """Return a pull request that must exist."""
        if number not in repository.pulls:
            raise RefusedError(404, MISSING)
        return repository.pulls[number]

    def create_pull(
        self,
        repository: GiteaRepository,
        who: GiteaUser,
        title: str,
        body: str,
        head: str,
        base: str,
        reviewers: Sequence[str] = (),
    ) -> GiteaPull:
        """Open a pull request from a branch, or from `owner:branch` of a fork."""
        owner, colon, branch = head.rpartition(":")
        source = self._accounts.repository(owner, repository.name) if colon else repository
        sha, target = source.bare.head(branch), repository.bare.head(base)
        if not sha or not target:
            raise RefusedError(404, MISSING)
        if source is not repository:
            repository.bare.git("fetch", "--quiet", str(source.bare.path), sha)
        if not repository.bare.commits_between(target, sha):
            raise RefusedError(422, "there are no changes between the head and the base")
        if any(
            p.issue.state == "open" and (p.head_branch, p.base_branch) == (branch, base)
            for p in repository.pulls.values()
        ):
            raise RefusedError(409, "pull request already exists for these targets")
        now = self._accounts.now()
        issue = GiteaIssue(next(repository.numbers), title, body, who, now, now)
        common = repository.bare.merge_base(target, sha)
        pull = GiteaPull(issue, branch, base, sha, common, source.full_name)
        repository.pulls[issue.number] = pull
        repository.bare.move_ref(f"refs/pull/{issue.number}/head", sha)
        commits = tuple(repository.bare.commits_between(target, sha))
        pull.pushes.append(GiteaPush(next(self._accounts.ids), who, commits, forced=False, at=now))
        asked = list(reviewers)
        while self._reviewers_first and asked:
            self.request_review(repository, who, issue.number, asked.pop(0))
        self._accounts.emit(repository, "pull_request", "pull_request", who, {"action": "opened", "pull": pull})
        for login in asked:
            self.request_review(repository, who, issue.number, login)
        return pull

    def request_review(
        self, repository: GiteaRepository, who: GiteaUser, number: int, login: str, *, remove: bool = False
    ) -> GiteaPull:
        """Request a review, or withdraw the request."""
        pull, user = self.pull_of(repository, number), self._accounts.require_user(login)
        if user is pull.issue.author:
            raise RefusedError(422, "poster of pr can't be reviewer")
        if (user in pull.requested) is not remove:
            return pull
        if remove:
            pull.requested.remove(user)
        else:
            pull.requested.append(user)
        pull.issue.updated = self._accounts.now()
        action = "review_request_removed" if remove else "review_requested"
        what = {"action": action, "pull": pull, "requested_reviewer": user}
        self._accounts.emit(repository, "pull_request", "pull_request_review_request", who, what)
        return pull

    def review(
        self,
        repository: GiteaRepository,
        who: GiteaUser,
        number: int,
        event: str,
        body: str,
        commit: str,
        comments: Sequence[Any] = (),
    ) -> GiteaReview:
        """Write a review and submit it. An unknown event makes a draft, without a webhook."""
        pull = self.pull_of(repository, number)
        self._refuse_review(pull, who, event, body, comments)
        now = self._accounts.now()
        review = GiteaReview(next(self._accounts.ids), who, "PENDING", body, commit or pull.head_sha, now, now)
        for each in comments:
            place = (str(each.get("path", "")), int(each.get("new_position", 0)), str(each.get("body", "")))
            review.comments.append(GiteaLineComment(next(self._accounts.ids), who, *place, created=now))
        pull.reviews.append(review)
        if event in _TOLD:
            self._handed_in(repository, pull, review, event)
        return review

    def submit_review(
        self, repository: GiteaRepository, who: GiteaUser, number: int, review_id: int, event: str, body: str
    ) -> GiteaReview:
        """Submit a draft review. It keeps the time when it was begun, and applies to the current head."""
        pull = self.pull_of(repository, number)
        review = self.review_of(pull, review_id)
        if review.state != "PENDING" or review.author is not who:
            raise RefusedError(422, "only the reviewer can submit a pending review")
        self._refuse_review(pull, who, event, body or review.body, review.comments)
        if event not in _TOLD:
            raise RefusedError(422, "unknown event")
        review.body, review.commit, review.updated = body or review.body, pull.head_sha, self._accounts.now()
        self._handed_in(repository, pull, review, event)
        return review

    def _refuse_review(self, pull: GiteaPull, who: GiteaUser, event: str, body: str, comments: Sequence[Any]) -> None:
        if pull.issue.state == "closed":
            raise RefusedError(422, "pull request is closed")
        if event in {"APPROVED", "REQUEST_CHANGES"} and who is pull.issue.author:
            raise RefusedError(422, f"{'approve' if event == 'APPROVED' else 'reject'} your own pull is not allowed")
        if (event == "REQUEST_CHANGES" and not body) or (event == "COMMENT" and not body and not comments):
            raise RefusedError(422, f"review event {event} requires a body or a comment")

    def _handed_in(self, repository: GiteaRepository, pull: GiteaPull, review: GiteaReview, event: str) -> None:
        """Make a review public, and remove its author from the requested reviewers."""
        review.state = event
        pull.issue.updated = review.updated
        if review.author in pull.requested:
            pull.requested.remove(review.author)
        coarse, exact = _TOLD[event]
        told = {"type": exact, "content": review.body}
        what = {"action": "reviewed", "pull": pull, "requested_reviewer": review.author, "review": told}
        self._accounts.emit(repository, coarse, exact, review.author, what)

    def review_of(self, pull: GiteaPull, review_id: int) -> GiteaReview:
        """Return a review that must exist."""
        found = next((each for each in pull.reviews if each.id == review_id), None)
        if found is None:
            raise RefusedError(404, MISSING)
        return found

    def dismiss(
        self, repository: GiteaRepository, who: GiteaUser, number: int, review_id: int, *, dismissed: bool = True
    ) -> GiteaReview:
        """Dismiss a review, or restore it, without a webhook."""
        if not repository.may_write(who):
            raise RefusedError(403, "Must be repo admin")
        review = self.review_of(self.pull_of(repository, number), review_id)
        if review.state not in {"APPROVED", "REQUEST_CHANGES"}:
            raise RefusedError(
                422, "not need to dismiss this review because it's type is not Approve or change request"
            )
        review.dismissed, review.updated = dismissed, self._accounts.now()
        if dismissed:
            self.pull_of(repository, number).issue.changes.append(GiteaChange("dismiss_review", who, review.updated))
        return review

    def retarget(self, repository: GiteaRepository, who: GiteaUser, number: int, base: str) -> GiteaPull:
        """Change the base branch of a pull request."""
        pull = self.pull_of(repository, number)
        if not repository.may_write(who) and who is not pull.issue.author:
            raise RefusedError(403, "")
        if pull.issue.state == "closed" or not repository.bare.head(base):
            raise RefusedError(422, "cannot change the target branch")
        before, pull.base_branch = pull.base_branch, base
        pull.base_sha = repository.bare.merge_base(repository.bare.head(base), pull.head_sha)
        pull.issue.updated = self._accounts.now()
        pull.issue.changes.append(GiteaChange("change_target_branch", who, pull.issue.updated))
        what = {"action": "edited", "pull": pull, "changes": {"ref": {"from": before}}}
        self._accounts.emit(repository, "pull_request", "pull_request", who, what)
        return pull

    def reply(
        self, repository: GiteaRepository, who: GiteaUser, number: int, comment_id: int, body: str
    ) -> GiteaLineComment:
        """Answer in the thread of a line. The answer belongs to the review whose thread it is."""
        pull = self.pull_of(repository, number)
        for review in pull.reviews:
            for each in review.comments:
                if each.id == comment_id:
                    made = GiteaLineComment(
                        next(self._accounts.ids), who, each.path, each.line, body, self._accounts.now()
                    )
                    review.comments.append(made)
                    pull.issue.updated = made.created
                    self._issues.tell_comment(
                        repository, who, GiteaComment(made.id, number, who, body, made.created), "created"
                    )
                    return made
        raise RefusedError(404, MISSING)

    def merge(self, repository: GiteaRepository, who: GiteaUser, number: int, head: str, style: str = "merge") -> None:
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
        self._refuse_merge(repository, pull)
        message = f"Merge #{number}: {pull.issue.title}"
        sha = repository.bare.merge(pull.base_branch, pull.head_sha, message, who.login, style)
        if sha is None:
            raise RefusedError(409, "merge conflict")
        pull.merged_by, pull.merged_at, pull.merge_sha, pull.scheduled = who, self._accounts.now(), sha, None
        pull.issue.state, pull.issue.updated = "closed", pull.merged_at
        self._accounts.emit(repository, "pull_request", "pull_request", who, {"action": "closed", "pull": pull})

    def _refuse_merge(self, repository: GiteaRepository, pull: GiteaPull) -> None:
        """Raise RefusedError if branch protection forbids the merge."""
        newest = {each.author.login: each for each in pull.reviews if each.state in {"APPROVED", "REQUEST_CHANGES"}}
        good = [each for each in newest.values() if each.state == "APPROVED" and not each.dismissed]
        if len(good) < repository.approvals:
            raise RefusedError(405, "Does not have enough approvals")
        if repository.needs_checks and self.status_of_checks(repository, pull.head_sha) != "success":
            raise RefusedError(405, "Not all required status checks successful")

    def status_of_checks(self, repository: GiteaRepository, sha: str) -> str:
        """Combine the newest statuses of a commit into one; empty when there are none."""
        newest = {each["context"]: each["state"] for each in repository.statuses if each["sha"] == sha}
        states = set(newest.values())
        return next((each for each in ("failure", "error", "pending", "success") if each in states), "")

    def note_push(self, repository: GiteaRepository, who: GiteaUser, before: Mapping[str, str]) -> None:
        """Send the events of branches that moved: new heads of pull requests."""
        for branch, sha in repository.bare.branches().items():
            if before.get(branch) == sha:
                continue
            self._accounts.emit(repository, "push", "push", who, {"ref": f"refs/heads/{branch}", "after": sha})
            for pull in [each for other in self._accounts.repositories.values() for each in other.pulls.values()]:
                if (pull.head_repository, pull.head_branch) == (
                    repository.full_name,
                    branch,
                ) and pull.issue.state == "open":
                    self._synced(pull, sha, who)

    def _synced(self, pull: GiteaPull, sha: str, who: GiteaUser) -> None:
        target = next(each for each in self._accounts.repositories.values() if pull in each.pulls.values())
        source = self._accounts.repositories[pull.head_repository.lower()]
        if source is not target:
            target.bare.git("fetch", "--quiet", str(source.bare.path), sha)
        before, pull.head_sha, now = pull.head_sha, sha, self._accounts.now()
        target.bare.move_ref(f"refs/pull/{pull.issue.number}/head", sha)
        forced = target.bare.merge_base(before, sha) != before
        commits = (before, sha) if forced else tuple(target.bare.commits_between(before, sha))
        pull.pushes.append(GiteaPush(next(self._accounts.ids), who, commits, forced, now))
        what = {"action": "synchronized", "pull": pull, "before": before, "after": sha}
        self._accounts.emit(target, "pull_request", "pull_request_sync", who, what)
        pull.issue.updated = (
            self._accounts.now()
        )  # the real one, too, records the time only after it has sent the event

    # Results of services

    def set_status(
        self, repository: GiteaRepository, who: GiteaUser, sha: str, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Set a commit's status."""
        state = status.get("state")
        if state not in {"pending", "success", "error", "failure", "warning"}:
            raise RefusedError(400, "invalid state")
        kept = {
            "id": next(self._accounts.ids),
            "sha": sha,
            "state": state,
            "context": str(status.get("context") or "default"),
            "description": str(status.get("description") or ""),
            "target_url": str(status.get("target_url") or ""),
            "updated_at": self._accounts.now(),
        }
        repository.statuses.append({**kept, "creator": who})
        self._accounts.emit(repository, "status", "status", who, dict(kept))
        self._merge_scheduled(repository, sha)
        return repository.statuses[-1]

    def schedule(self, repository: GiteaRepository, who: GiteaUser, number: int, head: str, style: str) -> bool:
        """Schedule a merge for when the checks pass; False when it can be done at once."""
        pull = self.pull_of(repository, number)
        if (
            pull.merged
            or pull.issue.state == "closed"
            or self.status_of_checks(repository, pull.head_sha) in {"", "success"}
        ):
            return False
        if pull.scheduled is not None:
            raise RefusedError(409, "pull request is already scheduled to auto merge when checks succeed")
        if not repository.may_write(who):
            raise RefusedError(405, "User not allowed to merge PR")
        pull.scheduled = ScheduledMerge(who, style, head)
        pull.issue.changes.append(GiteaChange("pull_scheduled_merge", who, self._accounts.now()))
        return True

    def _merge_scheduled(self, repository: GiteaRepository, sha: str) -> None:
        for pull in [each for each in repository.pulls.values() if each.scheduled and each.head_sha == sha]:
            if pull.scheduled is not None and self.status_of_checks(repository, sha) == "success":
                with suppress(RefusedError):
                    self.merge(repository, pull.scheduled.who, pull.issue.number, "", pull.scheduled.style)
