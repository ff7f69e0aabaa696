"""Accounts, repositories, issues and comments of a fake forge: the actions on them, and the events that follow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from agenttalk.testing.bare_repository import BareRepository
from agenttalk.testing.gitea_objects import (
    Emit,
    GiteaChange,
    GiteaComment,
    GiteaIssue,
    GiteaRepository,
    GiteaUser,
    MovedError,
    RefusedError,
)

_BEGIN: Final = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)
_MISSING: Final = "The target couldn't be found."


class GiteaIssues:
    """The half of the forge without code. Actions raise RefusedError as the real forge answers."""

    def __init__(self, folder: Path, emit: Emit) -> None:
        self.folder = folder
        self.users: dict[str, GiteaUser] = {}
        self.repositories: dict[str, GiteaRepository] = {}
        self._moved: dict[str, GiteaRepository] = {}
        self._emit = emit
        self._ids = itertools.count(1)
        self._ticks = itertools.count()

    def now(self) -> str:
        """Return the next time; each call is one second later."""
        return (_BEGIN + timedelta(seconds=next(self._ticks))).isoformat().replace("+00:00", "Z")

    # People and repositories

    def user(self, login: str, *, password: str = "", is_admin: bool = False) -> GiteaUser:
        """Return an account; makes it if it does not exist."""
        if login.lower() not in self.users:
            self.users[login.lower()] = GiteaUser(next(self._ids), login, password, is_admin=is_admin)
        return self.users[login.lower()]

    def require_user(self, login: str) -> GiteaUser:
        """Return an account that must exist."""
        if login.lower() not in self.users:
            raise RefusedError(422, f"user does not exist [uid: 0, name: {login}]")
        return self.users[login.lower()]

    def user_of_token(self, token: str) -> GiteaUser | None:
        """Find the account that a token belongs to."""
        return next((user for user in self.users.values() if token in user.tokens), None)

    def repository(self, owner: str, name: str) -> GiteaRepository:
        """Return a repository that must exist."""
        found = self.repositories.get(f"{owner}/{name}".lower())
        if found is None and (moved := self._moved.get(f"{owner}/{name}".lower())):
            raise MovedError(moved.full_name)
        if found is None:
            raise RefusedError(404, _MISSING)
        return found

    def make_repository(self, owner: str, name: str) -> GiteaRepository:
        """Make a repository with one commit."""
        key = f"{owner}/{name}".lower()
        if key in self.repositories:
            raise RefusedError(409, "The repository with the same name already exists.")
        bare = BareRepository.create(self.folder / owner.lower() / f"{name.lower()}.git")
        bare.commit("main", {"README.md": f"# {name}\n"}, "Initial commit", owner)
        self.repositories[key] = GiteaRepository(next(self._ids), self.user(owner), name, bare)
        return self.repositories[key]

    def rename_repository(self, repository: GiteaRepository, name: str) -> None:
        """Rename a repository. Its number stays, and the old name redirects to the new one."""
        self._moves({repository.full_name: repository}, lambda: setattr(repository, "name", name))

    def delete_repository(self, repository: GiteaRepository, who: GiteaUser) -> None:
        """Remove it for good. Only hooks of its owner or of the whole forge hear of it."""
        if not (who.is_admin or who is repository.owner):
            raise RefusedError(403)
        del self.repositories[repository.full_name.lower()]
        self._emit(repository, "repository", "repository", who, {"action": "deleted"})

    def rename_user(self, user: GiteaUser, login: str) -> None:
        """Rename an account. Its number and its tokens stay."""
        own = {name: each for name, each in self.repositories.items() if each.owner is user}
        before = user.login
        del self.users[before.lower()]
        self._moves(own, lambda: setattr(user, "login", login))
        self.users[login.lower()] = user
        for each in self.repositories.values():
            for names in (each.writers, each.readers):
                if before in names:
                    names.remove(before)
                    names.add(login)

    def _moves(self, moved: Mapping[str, GiteaRepository], rename: Callable[[], None]) -> None:
        old = {each.full_name: each for each in moved.values()}
        rename()
        for name, each in old.items():
            self._moved[name.lower()] = self.repositories[each.full_name.lower()] = self.repositories.pop(name.lower())
        for pull in [pull for each in self.repositories.values() for pull in each.pulls.values()]:
            if pull.head_repository in old:
                pull.head_repository = old[pull.head_repository].full_name

    # Issues and comments

    def issue_of(self, repository: GiteaRepository, number: int) -> GiteaIssue:
        """Return an issue, or the issue part of a pull request."""
        if number in repository.pulls:
            return repository.pulls[number].issue
        if number not in repository.issues:
            raise RefusedError(404, _MISSING)
        return repository.issues[number]

    def create_issue(
        self, repository: GiteaRepository, who: GiteaUser, title: str, body: str, assignees: Sequence[str]
    ) -> GiteaIssue:
        """Open an issue. Who may not write sets no assignees, and is not told so."""
        if not title:
            raise RefusedError(422, "title is required")
        given = [self.require_user(login) for login in assignees]
        now = self.now()
        issue = GiteaIssue(next(repository.numbers), title, body, who, now, now)
        issue.assignees = given if repository.may_write(who) else []
        repository.issues[issue.number] = issue
        issue.changes += [GiteaChange("assignees", who, now, each) for each in issue.assignees]
        for _ in issue.assignees:
            self._emit(repository, "issues", "issue_assign", who, {"action": "assigned", "issue": issue})
        self._emit(repository, "issues", "issues", who, {"action": "opened", "issue": issue})
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
            self._assign(repository, who, issue, [self.require_user(each) for each in changes["assignees"]])
        state = changes.get("state")
        if state in {"open", "closed"} and state != issue.state:
            issue.state, issue.updated = state, self.now()
            issue.changes.append(GiteaChange("close" if state == "closed" else "reopen", who, issue.updated))
            self._reopened(repository, issue)
            self._tell(repository, who, issue, "closed" if state == "closed" else "reopened")
        return issue

    def _reopened(self, repository: GiteaRepository, issue: GiteaIssue) -> None:
        """Update what depends on whether the issue is open; a hook for pull requests."""

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
            issue.updated = self.now()
            self._tell(repository, who, issue, "edited", changes=before)

    def _assign(self, repository: GiteaRepository, who: GiteaUser, issue: GiteaIssue, wanted: list[GiteaUser]) -> None:
        for user in [each for each in issue.assignees if each not in wanted]:
            issue.assignees.remove(user)
            issue.updated = self.now()
            issue.changes.append(GiteaChange("assignees", who, issue.updated, user, removed=True))
            self._tell_assigned(repository, who, issue, "unassigned")
        for user in [each for each in wanted if each not in issue.assignees]:
            issue.assignees.append(user)
            issue.updated = self.now()
            issue.changes.append(GiteaChange("assignees", who, issue.updated, user))
            self._tell_assigned(repository, who, issue, "assigned")

    def _tell(self, repository: GiteaRepository, who: GiteaUser, issue: GiteaIssue, action: str, **more: Any) -> None:
        pull = repository.pulls.get(issue.number)
        name = "pull_request" if pull else "issues"
        thing = {"pull": pull} if pull else {"issue": issue}
        self._emit(repository, name, name, who, {"action": action, **thing, **more})

    def _tell_assigned(self, repository: GiteaRepository, who: GiteaUser, issue: GiteaIssue, action: str) -> None:
        pull = repository.pulls.get(issue.number)
        if pull:
            self._emit(repository, "pull_request", "pull_request_assign", who, {"action": action, "pull": pull})
        else:
            self._emit(repository, "issues", "issue_assign", who, {"action": action, "issue": issue})

    def create_comment(self, repository: GiteaRepository, who: GiteaUser, number: int, body: str) -> GiteaComment:
        """Write a comment. The real forge, too, breaks down over a number that does not exist."""
        self.comments_of(repository, number)
        if not body:
            raise RefusedError(422, "[Body]: Required")
        comment = GiteaComment(next(self._ids), number, who, body, self.now())
        repository.comments.append(comment)
        self.issue_of(repository, number).updated = comment.created
        self._tell_comment(repository, who, comment, "created")
        return comment

    def edit_comment(self, repository: GiteaRepository, who: GiteaUser, comment_id: int, body: str) -> GiteaComment:
        """Change a comment."""
        comment = next((each for each in repository.comments if each.id == comment_id), None)
        if comment is None:
            raise RefusedError(404)
        before, comment.body = comment.body, body
        self._tell_comment(repository, who, comment, "edited", changes={"body": {"from": before}})
        return comment

    def delete_comment(self, repository: GiteaRepository, who: GiteaUser, comment_id: int) -> None:
        """Remove a comment. Nothing of its issue shows it."""
        comment = next((each for each in repository.comments if each.id == comment_id), None)
        if comment is None:
            raise RefusedError(404)
        if not (who is comment.author or who.is_admin or who is repository.owner):
            raise RefusedError(403)
        repository.comments.remove(comment)
        self._tell_comment(repository, who, comment, "deleted")

    def _tell_comment(
        self, repository: GiteaRepository, who: GiteaUser, comment: GiteaComment, action: str, **more: Any
    ) -> None:
        issue, pull = self.issue_of(repository, comment.number), repository.pulls.get(comment.number)
        exact = "pull_request_comment" if pull else "issue_comment"
        what = {"action": action, "issue": issue, "pull": pull, "comment": comment, "is_pull": pull is not None}
        self._emit(repository, "issue_comment", exact, who, {**what, **more})
