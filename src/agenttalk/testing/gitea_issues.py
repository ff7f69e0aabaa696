"""Issues and comments of a fake forge: the actions on them, and the events that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agenttalk.testing.gitea_accounts import MISSING, GiteaAccounts
from agenttalk.testing.gitea_objects import (
    GiteaChange,
    GiteaComment,
    GiteaIssue,
    GiteaPull,
    GiteaRepository,
    GiteaUser,
    RefusedError,
)


class GiteaIssues:
    """The half of the forge without code. Actions raise RefusedError as the real forge answers."""

    def __init__(self, accounts: GiteaAccounts) -> None:
        self._accounts = accounts

    def issue_of(self, repository: GiteaRepository, number: int) -> GiteaIssue:
        """Return an issue, or the issue part of a pull request."""
        if number in repository.pulls:
            return repository.pulls[number].issue
        if number not in repository.issues:
            raise RefusedError(404, MISSING)
        return repository.issues[number]

    def create_issue(
        self, repository: GiteaRepository, who: GiteaUser, title: str, body: str, assignees: Sequence[str]
    ) -> GiteaIssue:
        """Open an issue. Who may not write sets no assignees, and is not told so."""
        if not title:
            raise RefusedError(422, "title is required")
        given = [self._accounts.require_user(login) for login in assignees]
        now = self._accounts.now()
        issue = GiteaIssue(next(repository.numbers), title, body, who, now, now)
        issue.assignees = given if repository.may_write(who) else []
        repository.issues[issue.number] = issue
        issue.changes += [GiteaChange("assignees", who, now, each) for each in issue.assignees]
        for _ in issue.assignees:
            self._accounts.emit(repository, "issues", "issue_assign", who, {"action": "assigned", "issue": issue})
        self._accounts.emit(repository, "issues", "issues", who, {"action": "opened", "issue": issue})
        return issue

    def edit_issue(
        self, repository: GiteaRepository, who: GiteaUser, number: int, changes: Mapping[str, Any]
    ) -> GiteaIssue:
        """Change the texts of an issue or pull request, its assignees, or whether it is open."""
        issue = self.issue_of(repository, number)
        if not repository.may_write(who) and who is not issue.author:
            raise RefusedError(403, "user should be the poster or have write permission")
        self._edit_texts(repository, who, issue, changes)
        if isinstance(changes.get("assignees"), list) and repository.may_write(who):  # else dropped silently
            self._assign(repository, who, issue, [self._accounts.require_user(each) for each in changes["assignees"]])
        state = changes.get("state")
        if state in {"open", "closed"} and state != issue.state:
            issue.state, issue.updated = state, self._accounts.now()
            issue.changes.append(GiteaChange("close" if state == "closed" else "reopen", who, issue.updated))
            if state == "open" and number in repository.pulls:
                self._take_over_pushes(repository, repository.pulls[number])
            self._tell(repository, who, issue, "closed" if state == "closed" else "reopened")
        return issue

    def _take_over_pushes(self, repository: GiteaRepository, pull: GiteaPull) -> None:
        """Take over what was pushed while the pull request was closed."""
        tip = self._accounts.tip(pull)
        if tip and tip != pull.head_sha:
            pull.head_sha = tip
            repository.bare.move_ref(f"refs/pull/{pull.issue.number}/head", tip)

    def delete_issue(self, repository: GiteaRepository, who: GiteaUser, number: int) -> None:
        """Remove an issue or pull request for good. Afterwards its comments are an error of the server's."""
        issue = self.issue_of(repository, number)
        if not (who.is_admin or who is repository.owner):
            raise RefusedError(403, "user should be an admin or the owner of the repository")
        self._tell(repository, who, issue, "deleted")
        repository.issues.pop(number, None)
        repository.pulls.pop(number, None)
        repository.comments[:] = [each for each in repository.comments if each.number != number]

    def comments_of(self, repository: GiteaRepository, number: int) -> list[GiteaComment]:
        """List comments of an issue or pull request. The real forge fails for a number that does not exist."""
        if number not in repository.issues and number not in repository.pulls:
            raise RefusedError(500, "")
        return [each for each in repository.comments if each.number == number]

    def _edit_texts(
        self, repository: GiteaRepository, who: GiteaUser, issue: GiteaIssue, changes: Mapping[str, Any]
    ) -> None:
        before: dict[str, Any] = {}
        for name in ("title", "body"):
            new = changes.get(name)
            if isinstance(new, str) and new != getattr(issue, name):
                before[name] = {"from": getattr(issue, name)}
                setattr(issue, name, new)
        if before:
            issue.updated = self._accounts.now()
            self._tell(repository, who, issue, "edited", changes=before)

    def _assign(self, repository: GiteaRepository, who: GiteaUser, issue: GiteaIssue, wanted: list[GiteaUser]) -> None:
        for user in [each for each in issue.assignees if each not in wanted]:
            issue.assignees.remove(user)
            issue.updated = self._accounts.now()
            issue.changes.append(GiteaChange("assignees", who, issue.updated, user, removed=True))
            self._tell_assigned(repository, who, issue, "unassigned")
        for user in [each for each in wanted if each not in issue.assignees]:
            issue.assignees.append(user)
            issue.updated = self._accounts.now()
            issue.changes.append(GiteaChange("assignees", who, issue.updated, user))
            self._tell_assigned(repository, who, issue, "assigned")

    def _tell(self, repository: GiteaRepository, who: GiteaUser, issue: GiteaIssue, action: str, **more: Any) -> None:
        pull = repository.pulls.get(issue.number)
        name = "pull_request" if pull else "issues"
        thing = {"pull": pull} if pull else {"issue": issue}
        self._accounts.emit(repository, name, name, who, {"action": action, **thing, **more})

    def _tell_assigned(self, repository: GiteaRepository, who: GiteaUser, issue: GiteaIssue, action: str) -> None:
        pull = repository.pulls.get(issue.number)
        if pull:
            self._accounts.emit(
                repository, "pull_request", "pull_request_assign", who, {"action": action, "pull": pull}
            )
        else:
            self._accounts.emit(repository, "issues", "issue_assign", who, {"action": action, "issue": issue})

    def create_comment(self, repository: GiteaRepository, who: GiteaUser, number: int, body: str) -> GiteaComment:
        """Write a comment. The real forge, too, breaks down over a number that does not exist."""
        self.comments_of(repository, number)
        if not body:
            raise RefusedError(422, "[Body]: Required")
        comment = GiteaComment(next(self._accounts.ids), number, who, body, self._accounts.now())
        repository.comments.append(comment)
        self.issue_of(repository, number).updated = comment.created
        self.tell_comment(repository, who, comment, "created")
        return comment

    def edit_comment(self, repository: GiteaRepository, who: GiteaUser, comment_id: int, body: str) -> GiteaComment:
        """Change a comment."""
        comment = next((each for each in repository.comments if each.id == comment_id), None)
        if comment is None:
            raise RefusedError(404)
        before, comment.body = comment.body, body
        self.tell_comment(repository, who, comment, "edited", changes={"body": {"from": before}})
        return comment

    def delete_comment(self, repository: GiteaRepository, who: GiteaUser, comment_id: int) -> None:
        """Remove a comment. Nothing of its issue shows it."""
        comment = next((each for each in repository.comments if each.id == comment_id), None)
        if comment is None:
            raise RefusedError(404)
        if not (who is comment.author or who.is_admin or who is repository.owner):
            raise RefusedError(403)
        repository.comments.remove(comment)
        self.tell_comment(repository, who, comment, "deleted")

    def tell_comment(
        self, repository: GiteaRepository, who: GiteaUser, comment: GiteaComment, action: str, **more: Any
    ) -> None:
        """Send the event of a comment."""
        issue, pull = self.issue_of(repository, comment.number), repository.pulls.get(comment.number)
        exact = "pull_request_comment" if pull else "issue_comment"
        what = {"action": action, "issue": issue, "pull": pull, "comment": comment, "is_pull": pull is not None}
        self._accounts.emit(repository, "issue_comment", exact, who, {**what, **more})
