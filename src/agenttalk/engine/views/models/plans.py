"""Types of views of plans: status, lists, graph, messages and artifacts."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.engine.budgets.denials import GateDenial
from agenttalk.engine.core.task_status import AccountWaitView, TaskUsage, TaskView
from agenttalk.engine.plans.dag_reviews import DagReviewView
from agenttalk.engine.plans.releases import ReleaseView
from agenttalk.rules.plans.timeline import TimelineSpan

PlanResult = Literal["running", "done", "failed", "waiting", "paused", "foreign"]


class PlanCounts(TypedDict):
    """The numbers of a plan's tasks by state."""

    open: int
    completed: int
    failed: int
    skipped: int
    unproven: int
    not_isolated: int
    running: NotRequired[int]


class PlanSummary(TypedDict):
    """A plan in a list. Every view of a plan has these fields."""

    plan_id: str
    board: str
    """The board on which the plan lives."""
    origin: str
    """`engine`, `foreign`, or `virtual` for a board that never ends."""
    state: str
    """The state of its run; `FOREIGN` where the engine does not run it."""
    halted: str | None
    result: PlanResult
    """`running` while anything continues by itself; `waiting` when a person or a program outside has to act."""
    counts: PlanCounts
    began_at: str | None
    ended_at: str | None


class AccountWaitSummary(AccountWaitView):
    """A wait for an account, and how many tasks of a plan wait for it."""

    tasks: int
    text: str
    """The same as a sentence."""


class PlanView(PlanSummary):
    """The status of a plan, with its tasks."""

    usage: TaskUsage | None
    usage_by_agent: dict[str, TaskUsage]
    closing: str | None
    """The last step before the plan ends, now that none of its tasks is open."""
    tasks: list[TaskView]
    gates: list[GateDenial]
    waits: list[AccountWaitSummary]
    """Accounts whose provider takes no work now, as far as tasks of the plan wait for them."""
    questions: list[str]
    """Ids of the open questions of the plan."""
    review: DagReviewView | None
    """The review of its DAG, if it has one."""
    release: ReleaseView | None
    """The last decision about its release, if there is one."""


class PlanProgress(TypedDict):
    """The progress of a plan, with some of its tasks."""

    plan_id: str
    state: str
    counts: PlanCounts
    tasks: list[TaskView]


class MessageCounts(TypedDict):
    """The numbers of a plan's messages by state."""

    sent: int
    delivered: int
    superseded: int
    duplicate: int
    dead: int
    in_flight: int


class PlanOverview(PlanView):
    """A plan as the status of the whole root shows it."""

    dag_sha256: str | None
    messages: MessageCounts


class PlanPage(TypedDict):
    """Plans."""

    plans: list[PlanSummary]
    next: str | None


GraphEdge = TypedDict(
    "GraphEdge",
    {"from": str, "to": str, "kind": Literal["depends", "branch", "fallback"], "when": NotRequired[str]},
)
"""A line between two tasks."""


class PlanGraph(TypedDict):
    """The tasks of a plan, and the lines between them."""

    plan_id: str
    nodes: list[TaskView]
    edges: list[GraphEdge]


class PlanDetail(PlanView):
    """A plan with the edges of its graph and the times of its commands."""

    edges: list[tuple[str, str]]
    spans: list[TimelineSpan]


class DeliveryPage(TypedDict):
    """Lines of the journal of a plan."""

    deliveries: list[JsonObject]
    next: int | None


class CommandProgress(TypedDict):
    """A command, and how far its receiver came with it."""

    message_id: str
    task_id: str
    command_id: str | None
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
    tip: str
    """The commit that is the tip of the plan's branch; empty before the plan began there."""
