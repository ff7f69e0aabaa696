"""Types of views of tasks: status, explanation, details, files, transcript and promise."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.engine.budgets.denials import GateDenial
from agenttalk.rules.core.task_states import State

Freshness = Literal["fresh", "stale"]


class TaskUsage(TypedDict):
    """What attempts took together."""

    duration_s: float
    tokens: int
    cost_usd: float
    tool_calls: int


class TaskView(TypedDict):
    """A task of a plan, in one line."""

    task_id: str
    agent_id: str
    state: State
    phase: str | None
    board: str
    freshness: Freshness | None
    proven: bool | None
    isolated: bool | None
    cause: str | None
    reason: str | None
    score: float | None
    attempt: int
    retries: int
    reexecutions: int
    missing: list[Any]
    request_id: str | None
    updated_at: str
    since: str | None
    usage: TaskUsage | None


class TaskSummary(TypedDict):
    """A task as the status of the whole root shows it."""

    task_id: str
    agent_id: str
    state: str
    board: str
    freshness: Freshness | None
    trust: Literal["claimed", "observed"] | None
    updated_at: str
    attempt: int
    missing: list[Any]
    request_id: str | None
    reason: str | None
    isolated: bool | None
    usage: TaskUsage | None


class TaskPage(TypedDict):
    """Tasks of a plan."""

    tasks: list[TaskView]
    next: str | None


class CriterionSummary(TypedDict):
    """A line of a promise."""

    id: str
    description: str


class PromiseSummary(TypedDict):
    """What a task promises."""

    id: str
    objective: str
    derived: bool
    criteria: list[CriterionSummary]
    left_open: NotRequired[list[str]]


class InputChoice(TypedDict):
    """An input that several tasks make, and which of them is used."""

    input: str
    of: list[str]
    pick: str


class RecalledCommand(TypedDict):
    """A command that was withdrawn before it was carried out."""

    command_id: str
    why: str | None
    at: str


class RegressionSummary(TypedDict):
    """What a task broke of what was proven before."""

    reason: str
    broken: list[Any]


class TakenBranch(TypedDict):
    """Where the score of a task led."""

    when: str
    activate: list[str]


class CommandReceipt(TypedDict):
    """The last command of a task in a foreign plan."""

    message_id: str
    command_id: str
    asked: str
    state: str
    receipt: str | None
    taken_at: str | None


class ForeignOutput(TypedDict):
    """An output that a task of a foreign plan sent."""

    name: str
    message_id: str
    command_id: str
    at: str


class _ExplainedTask(TypedDict):
    """What every explanation has."""

    plan_id: str
    task_id: str
    agent_id: str
    origin: Literal["engine", "foreign"]
    state: str
    reason: str | None
    asked: str | None
    promised: PromiseSummary | None
    waits_for: list[str]
    missing: list[Any]
    request_id: str | None
    attempts: list[JsonObject]
    """How each attempt ended, as its fact in the ledger says."""
    rounds: int
    verdict: JsonObject | None
    moves_on: str
    # Only of a plan that the engine runs.
    phase: NotRequired[str | None]
    freshness: NotRequired[Freshness | None]
    broke: NotRequired[RegressionSummary | None]
    cause: NotRequired[str | None]
    score: NotRequired[float | None]
    choices: NotRequired[list[InputChoice]]
    superseded: NotRequired[list[RecalledCommand]]
    retries: NotRequired[int]
    history: NotRequired[list[JsonObject]]
    gates: NotRequired[list[GateDenial]]
    branch: NotRequired[TakenBranch | None]
    disputes: NotRequired[list[JsonObject]]
    review: NotRequired[JsonObject]
    release: NotRequired[JsonObject]
    # Only of a foreign plan.
    running: NotRequired[bool]
    attempt: NotRequired[int]


class TaskExplanation(_ExplainedTask):
    """Why a task is in its state."""

    usage: NotRequired[TaskUsage | None]
    command: NotRequired[CommandReceipt | None]
    outputs: NotRequired[list[ForeignOutput]]


class ChecklistLine(TypedDict):
    """How a line of a promise stands."""

    id: str
    description: str
    standing: Literal["proven", "claimed", "stale", "failed", "open"]
    wants: list[str]
    trust: str | None
    by: str | None
    at: str | None
    detail: str


class SentCommand(TypedDict):
    """A command of a task, and how far its agent came with it."""

    message_id: str
    command_id: str
    command_seq: int
    agent_id: str | None
    state: str | None
    ack: str | None
    taken_at: str | None
    ended_at: str | None
    prompt_sha256: str | None
    command: JsonObject


class InputFile(TypedDict):
    """A file that a command names. Its hash is left out where it is not known."""

    input_name: str
    path: str
    sha256: NotRequired[str]
    size_bytes: NotRequired[int]
    from_task_id: NotRequired[str]


class MadeFile(TypedDict):
    """A file of a version of an output."""

    output_name: str
    seq: int
    state: str
    path: str
    sha256: str
    size_bytes: int


class TaskDetail(_ExplainedTask):
    """A task with its commands, inputs, outputs and checklist."""

    board_name: str
    usage: TaskUsage | None
    proven: bool | None
    isolated: bool | None
    checklist: list[ChecklistLine]
    command: JsonObject | None
    orders: list[SentCommand]
    inputs: list[InputFile]
    outputs: list[MadeFile]


class TranscriptPage(TypedDict):
    """Events that a coding agent reported while it ran."""

    command_id: str | None
    attempt: int | None
    events: list[Any]
    next: int


class CheckName(TypedDict):
    """A check of a promise."""

    id: str
    kind: str


class PromisePreview(TypedDict):
    """What a task promises, and what of it is missing now."""

    task: str
    promise_id: str
    objective: str
    criteria: list[CriterionSummary]
    allowed_scope: list[str]
    disallowed_scope: list[str]
    checks: list[CheckName]
    outputs_there: list[str]
    missing: list[str]
    not_shown_yet: list[str]
    note: str
