"""Work that was not done → who has to know: its agent, the lead, operations, or a person. Never by mail."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.message import Message
from agenttalk.rules.toolchain.accounts import ForgeRegistry
from agenttalk.rules.toolchain.mentions import read_marker

FailureClass = Literal["business", "system", "infrastructure", "access"]
"""The agent did not do it; it cannot be done like this; the forge is not there; or the engine may not look there."""
_GOES_ON: Final = frozenset({"NOT_FULFILLED", "CONFLICT"})
_OVER: Final = frozenset({"REWORK_EXHAUSTED", "FAILED_FOR_GOOD", "ABORTED"})
MOST_ISSUES: Final = 3
"""Issues about one agent and one kind of task within an hour; after that a person is asked."""
OVERDUE: Final = "OVERDUE"
"""The cause of a task without a report for too long."""


def shorten_fault(text: str) -> str:
    """Return why a task is not done, without the name of its one criterion."""
    if isinstance(text, Message) and text.template is verdict_words.NOT_SHOWN and text.params["name"] == "carried-out":
        whys = text.params["whys"]
        return whys if isinstance(whys, str) else text
    return text


def classify_failure(
    action_type: str, cause: str, *, away: bool = False, unseen: bool = False
) -> tuple[FailureClass, ...]:
    """Classify the failure at the end of a turn. `away`: the forge could not be reached.

    `unseen` says that it could not because it does not show the engine what is there: operations for the
    agents cannot fix that, the administrator of its accounts can.

    A failed task about an outage does not report another outage, so that this cannot recurse, but the lead has to know.
    """
    gone = away and action_type != "infrastructure_failure"
    why: FailureClass = "access" if unseen else "infrastructure"
    if cause in _GOES_ON:
        return (why,) if gone else ("business",)
    if cause in _OVER:
        return (why, "system") if gone else ("system",)
    return ()


class ForgePlace(NamedTuple):
    """Where a text can be posted. Without a number it is a commit, on which no account is called."""

    repository: str
    number: int = 0


def place_of(context: Mapping[str, Any]) -> ForgePlace | None:
    """Return the pull request or issue of a task."""
    repository = context.get("repo")
    if not isinstance(repository, str) or not repository:
        return None
    for name in ("pr_number", "issue_number", "number"):
        number = context.get(name)
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            return ForgePlace(repository, number)
    return ForgePlace(repository)


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """What is known of a task that was not done."""

    agent: str
    source: str
    action_type: str
    cause: str
    hop: int = 0
    lately: int = 0
    """How many issues were opened within an hour about tasks of this kind that this agent did not do."""
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """How many of our own issues and answers of agents lie before what we would open for it."""
        body = self.context.get("issue_body")
        marker = read_marker(body) if isinstance(body, str) else None
        return max(self.hop, marker.hop if marker else 0) + 1


@dataclass(frozen=True, slots=True)
class TriageComment:
    """Say it where the work is, to the agent by its account."""

    place: ForgePlace
    login: str


@dataclass(frozen=True, slots=True)
class TriageIssue:
    """Open an issue for the lead."""

    repository: str
    login: str
    hop: int


@dataclass(frozen=True, slots=True)
class TriageQuestion:
    """Ask a person, and say why it is not the forge."""

    why: str


@dataclass(frozen=True, slots=True)
class NoTriage:
    """No one has to be informed."""


TriageAction = TriageComment | TriageIssue | TriageQuestion | NoTriage


def choose_for_agent(failure: TaskFailure, registry: ForgeRegistry, reached: Iterable[str]) -> TriageComment | NoTriage:
    """Choose how the agent learns that something is not done. `reached`: sources the engine can write to.

    Where nothing can be written, the agent still finds what is missing in its next command.
    """
    place, account = place_of(failure.context), registry.account_of(failure.source, failure.agent)
    if failure.source not in reached or place is None or not place.number or account is None:
        return NoTriage()
    return TriageComment(place, account.login)


def choose_for_lead(
    failure: TaskFailure, registry: ForgeRegistry, reached: Iterable[str]
) -> TriageIssue | TriageQuestion | NoTriage:
    """Choose how the lead learns of a final failure or a missed deadline."""
    place, account = place_of(failure.context), registry.account_of(failure.source, registry.lead)
    if failure.action_type == "infrastructure_failure":
        why = "an outage is not told by the forge that is out of order"
    elif failure.source not in reached:
        why = f"the engine has no token for {failure.source}"
    elif place is None:
        why = "it belongs to no repository"
    elif account is None:
        why = f"no agent is the lead at {failure.source}"
    elif failure.agent == registry.lead:
        why = "the lead could not do it either"
    elif failure.lately >= MOST_ISSUES:
        why = f"{failure.lately} issues about {failure.action_type} of {failure.agent} were opened within an hour"
    elif failure.depth > registry.hops:
        why = f"{failure.depth} such issues and answers follow from each other"
    else:
        return TriageIssue(place.repository, account.login, failure.depth)
    # A task without rounds has put its question already.
    return NoTriage() if failure.cause == "REWORK_EXHAUSTED" else TriageQuestion(why)


def post_marker(key: str) -> str:
    """Make the hidden marker by which we recognise our own posts."""
    return f"<!-- agenttalk:post={hashlib.sha256(key.encode()).hexdigest()[:32]} -->"


def is_posted(key: str, texts: Iterable[tuple[str, str]], login: str) -> bool:
    """Whether one of these texts, each with its author, is what we posted. What others copy is not ours."""
    marker = post_marker(key)
    return any(marker in text and author.lower() == login.lower() for author, text in texts)
