"""The status of plans and tasks, for tests: a plan with attributes, and an explanation of a task as plain JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_status import TaskUsage, TaskView
from agenttalk.engine.views import explain
from agenttalk.engine.views.models.plans import PlanCounts, PlanResult, PlanView
from agenttalk.engine.views.plan_status import read_plan_status


@dataclass(frozen=True, slots=True)
class PlanStanding:
    """The status of a plan."""

    plan_id: str
    state: str
    result: PlanResult
    counts: PlanCounts
    tasks: tuple[TaskView, ...]
    usage: TaskUsage | None
    gates: tuple[Any, ...]
    questions: tuple[str, ...]
    closing: str | None
    review: Any
    release: Any
    view: PlanView


async def read_standing(deps: Deps, plan_id: str) -> PlanStanding:
    """Read the status of a plan."""
    view = await read_plan_status(deps, plan_id)
    return PlanStanding(
        plan_id,
        view["state"],
        view["result"],
        view["counts"],
        tuple(view["tasks"]),
        view["usage"],
        tuple(view["gates"]),
        tuple(view["questions"]),
        view["closing"],
        view.get("review"),
        view.get("release"),
        view,
    )


async def explain_json(deps: Deps, plan_id: str, task_id: str) -> dict[str, Any]:
    """Explain the state of a task."""
    return dict(await explain.explain_task(deps, plan_id, task_id))
