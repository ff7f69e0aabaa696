"""Types of answers that no view returns: what a request changed, and small answers of the API itself."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Problem
from agenttalk.engine.agents.remote import ClaimedAttempt
from agenttalk.engine.core.access import Token
from agenttalk.engine.messages.dead_letters import DeadLetter
from agenttalk.engine.operation.fsck import IntegrityFault
from agenttalk.engine.operation.schedules import ScheduleView
from agenttalk.engine.operation.service import ChainVerification
from agenttalk.engine.people.questions import QuestionView
from agenttalk.engine.views.models.root import AgentSummary


class HealthAnswer(TypedDict):
    """Whether the engine is alive, or ready."""

    ok: bool


class TokenOwner(TypedDict):
    """The owner of a token; of an attempt also its task."""

    role: str
    name: str
    ready: bool
    board: NotRequired[str]
    plan_id: NotRequired[str]
    task_id: NotRequired[str]
    epoch: NotRequired[int]


class DocumentAnswer(TypedDict):
    """The OpenAPI document."""

    openapi: str
    info: JsonObject
    paths: JsonObject
    components: JsonObject


class ClaimAnswer(TypedDict):
    """The attempt that a remote agent got, or null."""

    taken: ClaimedAttempt | None


class LinkAnswer(TypedDict):
    """Where the pages open once."""

    path: str


class TokenList(TypedDict):
    """Tokens, without their secrets."""

    tokens: list[Token]


class ScheduleList(TypedDict):
    """Schedules."""

    schedules: list[ScheduleView]


class PromiseAnswer(TypedDict):
    """A valid promise."""

    ok: bool
    promise: JsonObject


class GeneratedAnswer(TypedDict):
    """A command, or the errors that prevent it."""

    ok: bool
    command: JsonObject | None


class ValidatedAnswer(TypedDict):
    """The errors of a command."""

    ok: bool
    errors: list[JsonObject]


class StoredAnswer(TypedDict):
    """A delivery that is stored."""

    id: str
    again: bool


class SubmittedPlan(TypedDict):
    """A plan that the engine runs from now on, or has run already."""

    plan_id: str
    new: bool
    remarks: list[Problem]


class MergedPlan(TypedDict):
    """The commit by which a person merged the work of a plan."""

    plan_id: str
    commit: str


class AgentList(TypedDict):
    """Agents."""

    agents: list[AgentSummary]


class LedgerVerification(TypedDict):
    """The result of checking every chain of the ledger."""

    ok: bool
    chains: list[ChainVerification]


class QuestionList(TypedDict):
    """Open questions."""

    requests: list[QuestionView]
    next: str | None


class DeadLetterList(TypedDict):
    """Dead letters."""

    deadletters: list[DeadLetter]
    next: str | None


class FaultList(TypedDict):
    """Faults of a root."""

    faults: list[IntegrityFault]


class PublishedAnswer(TypedDict):
    """How many files were written."""

    written: int
