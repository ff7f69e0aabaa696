"""Who is who at the forges, and what operators configured for their events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache
from typing import Final

from agenttalk.contracts.forge import ForgeUser

DEFAULT_HOPS: Final = 4
DEFAULT_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class ForgeIdentity:
    """An agent's account at a source."""

    agent: str
    """The agent."""
    source: str
    """The configured source."""
    login: str
    """The account's name."""
    id: int | None = None
    """The account's number, if it is configured. Then the name alone is not enough."""


@dataclass(frozen=True, slots=True)
class CiComment:
    """How a CI service says by a comment that something failed."""

    source: str
    """The configured source."""
    pattern: str
    """A glob for one line of the comment, without regard to case."""
    login: str
    """The service's account. Comments of other accounts do not count."""


@dataclass(frozen=True, slots=True)
class ForgeRegistry:
    """What is configured."""

    identities: tuple[ForgeIdentity, ...] = ()
    """Accounts of agents."""
    default_reviewer: str | None = None
    """The agent that reviews where no reviewer was asked."""
    ops: str | None = None
    """The agent that runs things."""
    lead: str | None = None
    """The agent that decides."""
    repositories: tuple[str, ...] = ()
    """Globs for `owner/name`. Events of others are ignored; without any, all are."""
    deploy_patterns: tuple[str, ...] = ()
    """Globs for contexts, names and files of workflows that deploy."""
    ci_comments: tuple[CiComment, ...] = ()
    """Comments that say that something failed."""
    high_risk: tuple[str, ...] = ()
    """Globs for paths whose changes need most care."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """Source → the name of the engine's own account there."""
    callers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Source → globs for accounts that may call agents even if their write access is unknown."""
    hops: int = DEFAULT_HOPS
    """How often agents may answer agents before a person decides."""
    rounds: int = DEFAULT_ROUNDS
    """How often agents may send a pull request back and forth before a person decides."""

    def agent_of(self, user: ForgeUser) -> str | None:
        """Find the agent of an account. The forge's own accounts have negative numbers and belong to no agent."""
        if user.id is not None and user.id < 0:
            return None
        for each in self.identities:
            if each.source == user.source and _same(each, user):
                return each.agent
        return None

    def find_identity(self, source: str, login: str) -> ForgeIdentity | None:
        """Find the account of an agent by the name in a text."""
        found = (each for each in self.identities if each.source == source and each.login.lower() == login.lower())
        return next(found, None)

    def account_of(self, source: str, agent: str | None) -> ForgeUser | None:
        """Find an agent's account at a source."""
        for each in self.identities:
            if each.source == source and each.agent == agent:
                return ForgeUser(source=source, login=each.login, id=each.id)
        return None

    def may_call(self, user: ForgeUser) -> bool:
        """Whether an operator listed an account. The forge's own accounts have negative numbers and call no agent."""
        listed = self.callers.get(user.source, ())
        return (user.id is None or user.id >= 0) and matches(listed, [user.login])

    def with_names(self, source: str, names: Mapping[int, str]) -> ForgeRegistry:
        """Return a registry with the current names of accounts, by their numbers."""
        changed = tuple(
            replace(each, login=names[each.id])
            if each.id is not None and each.source == source and each.id in names
            else each
            for each in self.identities
        )
        return self if changed == self.identities else replace(self, identities=changed)

    def covers(self, repository: str) -> bool:
        """Whether events of a repository count."""
        return matches(self.repositories, [repository])

    def is_deployment_name(self, *names: str) -> bool:
        """Whether one of these names is that of something that deploys."""
        return matches(self.deploy_patterns, names)

    def find_failure_line(self, source: str, login: str, body: str) -> str | None:
        """Find the line of a CI service's comment that reports a failure."""
        patterns = [
            each.pattern for each in self.ci_comments if each.source == source and each.login.lower() == login.lower()
        ]
        lines = body.splitlines() if patterns else ()
        return next((line.strip() for line in lines if matches(patterns, [line.strip()])), None)


def matches(globs: Sequence[str], names: Sequence[str]) -> bool:
    """Whether one of the names matches one of the globs, without regard to case."""
    return any(_pattern(glob).match(name) for glob in globs for name in names if name)


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob), re.IGNORECASE)


def is_single_repository(glob: str) -> bool:
    """Whether a glob is the name of one repository."""
    return glob.count("/") == 1 and not set(glob) & set("*?[")


def same_user(left: ForgeUser | None, right: ForgeUser | None) -> bool:
    """Whether two are the same account: by number where both have one, else by name."""
    if left is None or right is None or left.source != right.source:
        return False
    if left.id is not None and right.id is not None:
        return left.id == right.id
    return left.login.lower() == right.login.lower()


def _same(identity: ForgeIdentity, user: ForgeUser) -> bool:
    if identity.id is not None and user.id is not None:
        return identity.id == user.id
    return identity.id is None and identity.login.lower() == user.login.lower()
