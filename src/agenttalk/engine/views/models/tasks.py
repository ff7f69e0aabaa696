"""Types of views of tasks: status, explanation, details, files, transcript and promise."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.engine.budgets.denials import GateDenial
from agenttalk.engine.core.task_status import TaskView
from agenttalk.engine.people.dispute_rows import OpenDisputeView
from agenttalk.engine.plans.dag_reviews import DagReviewView
from agenttalk.engine.plans.releases import ReleaseView
from agenttalk.engine.views.models.attempts import AttemptView, RoundView, VerdictView


class TaskPage(TypedDict):
    """Tasks of a plan."""

    tasks: list[TaskView]
    next: str | None


class CriterionSummary(TypedDict):
    """A line of a promise."""

    id: str
    description: str


class PromiseSummary(TypedDict):
    """The promise of a task."""

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

    command_id: str | None
    why: str | None
    at: str | None


class RegressionSummary(TypedDict):
    """The proven work that a task broke."""

    reason: str
    broken: list[Any]


class TakenBranch(TypedDict):
    """The branch to which the score of a task led."""

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
    command_id: str | None
    at: str


class _ExplainedTask(TaskView):
    """The part of an explanation that task details have, too."""

    plan_id: str
    asked: str | None
    promised: PromiseSummary | None
    waits_for: list[str]
    attempts: list[AttemptView]
    """How each attempt ended, as its fact in the ledger says."""
    verdict: VerdictView | None
    moves_on: str
    running: bool
    """Whether an attempt is under way."""
    # Empty of a foreign plan.
    broke: RegressionSummary | None
    choices: list[InputChoice]
    superseded: list[RecalledCommand]
    history: list[RoundView]
    """The rounds of rework, each with its result."""
    gates: list[GateDenial]
    branch: TakenBranch | None
    disputes: list[OpenDisputeView]
    review: DagReviewView | None
    """The review of the plan's DAG."""
    release: ReleaseView | None
    """The last release of the plan."""


class TaskExplanation(_ExplainedTask):
    """Why a task is in its state."""

    # Empty of a plan that the engine runs.
    command: CommandReceipt | None
    outputs: list[ForeignOutput]


class ChecklistLine(TypedDict):
    """The state of a line of a promise."""

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
    """The board on which its plan lives."""
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
    """The promise of a task, and the parts of it that are missing now."""

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
