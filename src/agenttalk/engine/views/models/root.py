"""Types of views of a whole root: its status, its overview and its agents."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from agenttalk.contracts.errors import Problem
from agenttalk.engine.budgets.day_limit import DayView
from agenttalk.engine.people.questions import HumanQuestion
from agenttalk.engine.proof.honesty import ModelHonesty
from agenttalk.engine.views.models.plans import PlanOverview, PlanSummary
from agenttalk.engine.views.models.toolchain import BoardSummary
from agenttalk.rules.proof.honesty import TallyView


class StatusOverview(TypedDict):
    """Every plan of a root."""

    plans: list[PlanOverview]


class RootStatus(StatusOverview):
    """The status of a root, with the number of things that wait for people."""

    open_requests: int
    open_deadletters: int
    honesty: TallyView
    day: DayView
    toolchain: NotRequired[BoardSummary]
    broken_boards: NotRequired[dict[str, str]]


class TroubledTask(TypedDict):
    """A task that cannot go on by itself."""

    plan_id: str
    task_id: str
    agent_id: str
    state: str
    cause: str | None
    reason: str | None
    request_id: str | None
    updated_at: str


class RunningTask(TypedDict):
    """A task that is being worked on."""

    board: str
    plan_id: str
    task_id: str
    agent_id: str
    state: str
    phase: str | None
    attempt: int
    since: str | None


class RootOverview(TypedDict):
    """The first page: what needs a person, what runs and what fails."""

    requests: list[HumanQuestion]
    waiting_for_people: int
    held: list[TroubledTask]
    running: list[RunningTask]
    failing: list[TroubledTask]
    waiting: list[TroubledTask]
    plans: list[PlanSummary]
    more_plans: bool
    honesty: TallyView
    cost_today: float
    deadletters: int
    toolchain: NotRequired[BoardSummary]
    broken: dict[str, Problem]
    """Boards of their own that cannot be read, and why."""


class QueuedTask(TypedDict):
    """A task in the queue of an agent."""

    board: str
    plan_id: str
    task_id: str
    priority: int


class AgentSummary(TypedDict):
    """An agent: its current tasks, its queue and how many of its claims held."""

    agent_id: str
    health: str | None
    last_heartbeat: str | None
    current: list[RunningTask]
    queued: int
    honesty: dict[str, object]
    usage: dict[str, object]
    by_model: list[ModelHonesty]


class AgentDetail(AgentSummary):
    """An agent with the tasks in its queue."""

    queue: list[QueuedTask]
