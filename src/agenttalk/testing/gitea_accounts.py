"""Accounts and repositories of a fake forge: the actions on them, and the events that follow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from agenttalk.testing.bare_repository import BareRepository
from agenttalk.testing.gitea_objects import Emit, GiteaPull, GiteaRepository, GiteaUser, MovedError, RefusedError

_BEGIN: Final = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)
MISSING: Final = "The target couldn't be found."


class GiteaAccounts:
    """Accounts and repositories. Actions raise RefusedError as the real forge answers."""

    def __init__(self, folder: Path, emit: Emit) -> None:
        self.folder = folder
        self.users: dict[str, GiteaUser] = {}
        self.repositories: dict[str, GiteaRepository] = {}
        self._moved: dict[str, GiteaRepository] = {}
        self.emit = emit
        self.ids = itertools.count(1)
        self._ticks = itertools.count()

    def now(self) -> str:
        """Return the next time; each call is one second later."""
        return (_BEGIN + timedelta(seconds=next(self._ticks))).isoformat().replace("+00:00", "Z")

    def user(self, login: str, *, password: str = "", is_admin: bool = False) -> GiteaUser:
        """Return an account; makes it if it does not exist."""
        if login.lower() not in self.users:
            self.users[login.lower()] = GiteaUser(next(self.ids), login, password, is_admin=is_admin)
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
            raise RefusedError(404, MISSING)
        return found

    def make_repository(self, owner: str, name: str) -> GiteaRepository:
        """Make a repository with one commit."""
        key = f"{owner}/{name}".lower()
        if key in self.repositories:
            raise RefusedError(409, "The repository with the same name already exists.")
        bare = BareRepository.create(self.folder / owner.lower() / f"{name.lower()}.git")
        bare.commit("main", {"README.md": f"# {name}\n"}, "Initial commit", owner)
        self.repositories[key] = GiteaRepository(next(self.ids), self.user(owner), name, bare)
        return self.repositories[key]

    def rename_repository(self, repository: GiteaRepository, name: str) -> None:
        """Rename a repository. Its number stays, and the old name redirects to the new one."""
        self._moves({repository.full_name: repository}, lambda: setattr(repository, "name", name))

    def delete_repository(self, repository: GiteaRepository, who: GiteaUser) -> None:
        """Remove it for good. Only hooks of its owner or of the whole forge hear of it."""
        if not (who.is_admin or who is repository.owner):
            raise RefusedError(403)
        del self.repositories[repository.full_name.lower()]
        self.emit(repository, "repository", "repository", who, {"action": "deleted"})

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

    def tip(self, pull: GiteaPull) -> str:
        """Return the commit that the branch of a pull request is at; empty when the branch is gone."""
        source = self.repositories.get(pull.head_repository.lower())
        return source.bare.head(pull.head_branch) if source is not None else ""
