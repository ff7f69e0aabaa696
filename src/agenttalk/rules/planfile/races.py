"""Makes of each task with `race` one task for each of its agents, and has others wait for all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from agenttalk.contracts.core.base import TaskId, is_id
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.planfile.model import PlanFile, TaskSpec
from agenttalk.rules.text import plan_words

_HINDRANCES: Final[tuple[tuple[Callable[[TaskSpec], object], str, str], ...]] = (
    (
        lambda task: not task.workspace,
        "works on no repository",
        "give it workspace: repo: each agent has its own clone",
    ),
    (
        lambda task: task.promise is None or not task.promise.checks,
        "has no check",
        "give it a promise with a check: only proven work wins",
    ),
    (lambda task: task.outputs, "makes outputs", "have a task after it make them of the merged work"),
    (lambda task: task.gates, "has gates", "have a task after it decide by its score"),
)
"""Whether something keeps a task from a race, what it is, and what to do."""


class RacePlan(NamedTuple):
    """A plan in which each agent of a race has its own task."""

    plan: PlanFile
    others: Mapping[TaskId, tuple[TaskId, ...]] = {}
    """Task of a race → the others of it."""
    origins: tuple[int, ...] = ()
    """For each task that was added, in their order: the place of the task that it was made of."""
    problems: tuple[Problem, ...] = ()

    def translate(self, found: Collection[Problem]) -> list[Problem]:
        """Name the task of the plan file in problems of tasks that were added, each problem once."""
        first = len(self.plan.tasks) - len(self.origins)
        told = [(problem, *_read_place(problem.field)) for problem in found]
        known = {(at, rest, problem.message) for problem, at, rest in told if at < first}
        kept = []
        for problem, at, rest in told:
            if at < first:
                kept.append(problem)
            elif (self.origins[at - first], rest, problem.message) not in known:
                where = f"tasks[{self.origins[at - first]}].race"
                kept.append(Problem(problem.code, where, problem.message, problem.hint))
        return kept


def expand(plan: PlanFile, agents: Collection[str]) -> RacePlan:
    """Make a task of its own for each agent of a race. `agents` are all agents that the plan may name."""
    if not any(task.race for task in plan.tasks):
        return RacePlan(plan)
    problems = [each for at, task in enumerate(plan.tasks) if task.race for each in _check(plan, at, agents)]
    if problems:
        bare = tuple(task.model_copy(update={"race": ()}) for task in plan.tasks)
        return RacePlan(plan.model_copy(update={"tasks": bare}), problems=tuple(problems))
    runners = {
        task.id: (task.id, *(TaskId(f"{task.id}.{agent}") for agent in task.race)) for task in plan.tasks if task.race
    }
    tasks = [_wait_for_all(task, runners) for task in plan.tasks]
    added, origins = [], []
    for at, task in enumerate(tasks):
        for agent, name in zip(task.race, runners.get(task.id, ())[1:], strict=True):
            added.append(task.model_copy(update={"id": name, "agent": agent}))
            origins.append(at)
    others = {
        name: tuple(other for other in together if other != name) for together in runners.values() for name in together
    }
    return RacePlan(plan.model_copy(update={"tasks": (*tasks, *added)}), others, tuple(origins))


def _wait_for_all(task: TaskSpec, runners: Mapping[TaskId, tuple[TaskId, ...]]) -> TaskSpec:
    """Have a task that waits for one of a race wait for all of them: those that lose are skipped."""
    if not any(need in runners for need in task.needs):
        return task
    needs = tuple(name for need in task.needs for name in runners.get(need, (need,)))
    return task.model_copy(update={"needs": needs})


def _check(plan: PlanFile, at: int, agents: Collection[str]) -> list[Problem]:
    """Find what keeps a task from being done by several agents."""
    task, where = plan.tasks[at], f"tasks[{at}].race"
    found = [
        Problem(Code.FIELD_VALUE, where, f"several agents cannot race for task {task.id!r}, which {what}", hint)
        for hinders, what, hint in _HINDRANCES
        if hinders(task)
    ]
    if len({task.agent, *task.race}) <= len(task.race):
        hint: str = plan_words.HINTS["once_each"]()
        found.append(Problem(Code.FIELD_VALUE, where, plan_words.PROBLEMS["racer_twice"](task=task.id), hint))
    for agent in task.race:
        if agent not in agents:
            hint = plan_words.HINTS["describe_racer"]()
            found.append(Problem(Code.DAG_AGENT_UNKNOWN, where, plan_words.PROBLEMS["unknown_agent"](name=agent), hint))
        elif not is_id(f"{task.id}.{agent}") or any(each.id == f"{task.id}.{agent}" for each in plan.tasks):
            message = plan_words.PROBLEMS["race_id"](name=f"{task.id}.{agent}")
            found.append(Problem(Code.NAME_TAKEN, where, message, plan_words.HINTS["other_task_id"]()))
    for other in plan.tasks:
        activated = [name for branch in (other.gates.branches if other.gates else ()) for name in branch.activate]
        if task.id in {other.fallback, *activated}:
            message = plan_words.PROBLEMS["race_called"](task=task.id, name=other.id)
            found.append(Problem(Code.FIELD_VALUE, where, message, plan_words.HINTS["race_always"]()))
    return found


def _read_place(field: str) -> tuple[int, str]:
    """Read the number of a task, and the rest, of the field of a problem; -1 where it names no task."""
    if not field.startswith("tasks["):
        return -1, field
    number, _, rest = field.removeprefix("tasks[").partition("]")
    return int(number), rest
