"""Types of views of plans: status, lists, graph, messages and artifacts."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.engine.budgets.denials import GateDenial
from agenttalk.engine.views.models.tasks import Freshness, TaskSummary, TaskUsage, TaskView

PlanResult = Literal["running", "done", "failed", "waiting", "paused"]


class PlanCounts(TypedDict):
    """How many tasks of a plan are in which state."""

    open: int
    completed: int
    failed: int
    skipped: int
    unproven: int
    not_isolated: int
    running: NotRequired[int]


class PlanView(TypedDict):
    """A plan that the engine runs."""

    plan_id: str
    state: str
    result: PlanResult
    """`running` while anything goes on by itself; `waiting` when a person or a program outside has to act."""
    counts: PlanCounts
    began_at: str
    ended_at: str | None
    usage: TaskUsage | None
    usage_by_agent: dict[str, TaskUsage]
    closing: str | None
    """What is done before the plan ends, now that none of its tasks is open."""
    tasks: list[TaskView]
    gates: list[GateDenial]
    questions: list[str]
    """Questions of the plan that are not answered."""
    review: NotRequired[JsonObject]
    release: NotRequired[JsonObject]


class PlanProgress(TypedDict):
    """How far a plan has come, with some of its tasks."""

    plan_id: str
    state: str
    counts: PlanCounts
    tasks: list[TaskView]


class MessageCounts(TypedDict):
    """What became of the messages of a plan."""

    sent: int
    delivered: int
    superseded: int
    duplicate: int
    dead: int
    in_flight: int


class PlanOverview(TypedDict):
    """A plan as the status of the whole root shows it."""

    plan_id: str
    board: str
    origin: str
    halted: str | None
    dag_sha256: str | None
    messages: MessageCounts
    usage: TaskUsage | None
    usage_by_agent: dict[str, TaskUsage]
    gates: list[GateDenial]
    questions: list[str]
    state: str | None
    review: NotRequired[JsonObject]
    release: NotRequired[JsonObject]
    tasks: list[TaskSummary]


class PlanListItem(TypedDict):
    """A plan in a list."""

    plan_id: str
    board: str
    origin: Literal["engine", "foreign"]
    state: str
    halted: str | None
    result: PlanResult | Literal["foreign"]
    counts: PlanCounts
    began_at: str | None
    ended_at: str | None


class PlanPage(TypedDict):
    """Plans."""

    plans: list[PlanListItem]
    next: str | None


class PageTask(TypedDict):
    """A task as the page of its plan shows it; of a foreign plan less is known."""

    task_id: str
    agent_id: str
    state: str
    phase: str | None
    board: str
    freshness: Freshness | None
    isolated: bool | None
    cause: str | None
    reason: str | None
    score: float | None
    attempt: int
    retries: int
    reexecutions: int
    request_id: str | None
    updated_at: str
    since: str | None
    usage: TaskUsage | None
    proven: NotRequired[bool | None]
    trust: NotRequired[str | None]


class GraphNode(TypedDict):
    """A task in a graph."""

    task_id: str
    agent_id: str
    state: str
    phase: str | None
    board: str
    freshness: Freshness | None
    proven: bool | None
    isolated: bool | None
    cause: str | None
    updated_at: str


GraphEdge = TypedDict(
    "GraphEdge",
    {"from": str, "to": str, "kind": Literal["depends", "branch", "fallback"], "when": NotRequired[str]},
)
"""A line between two tasks."""


class PlanGraph(TypedDict):
    """The tasks of a plan, and the lines between them."""

    plan_id: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class DeliveryPage(TypedDict):
    """Lines of the journal of a plan."""

    deliveries: list[JsonObject]
    next: int | None


class CommandProgress(TypedDict):
    """A command, and how far its receiver came with it."""

    message_id: str
    task_id: str
    command_id: str
    command_seq: int
    consumer_agent_id: str
    state: str
    status: str | None
    stored_at: str | None
    injected_at: str | None
    acted_at: str | None
    consumed_at: str | None
    finished_at: str | None
    details: str | None
    prompt_sha256: str | None


class AckPage(TypedDict):
    """Commands of a plan."""

    acks: list[CommandProgress]
    next: int | None


class VersionFile(TypedDict):
    """A file of an artifact."""

    path: str
    sha256: str
    size_bytes: int


class ArtifactSummary(TypedDict):
    """A version of an output."""

    message_id: str
    task_id: str
    output_name: str
    seq: int
    agent_id: str
    state: str
    at: str
    files: list[VersionFile]


class ArtifactPage(TypedDict):
    """Versions of outputs."""

    artifacts: list[ArtifactSummary]
    next: int | None


class RepositorySummary(TypedDict):
    """The repository that a plan works on."""

    repo: str
    base: str | None
    link: list[str]
