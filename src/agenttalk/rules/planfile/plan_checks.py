"""Finds problems and doubtful points of a plan file that its DAG does not show.

It also translates the problems of the DAG to the keys of the plan file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core.base import AgentId
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.model_use import MODEL_DRIVERS, LlmUse, LocalUse
from agenttalk.contracts.planfile.model import AgentSpec, InputSpec, PlanFile, TaskSpec
from agenttalk.rules.agents import acp_table, cli_table, model_services
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.messages.routes import RESERVED
from agenttalk.rules.planfile import policy_checks, promise_checks
from agenttalk.rules.text import plan_words
from agenttalk.rules.text.message import mentions

_UNKNOWN: Final = {
    "agent": (plan_words.PROBLEMS["unknown_agent"], plan_words.HINTS["add_agent"]),
    "output": (plan_words.PROBLEMS["unknown_output"], plan_words.HINTS["add_output"]),
    "input": (plan_words.PROBLEMS["unknown_input"], plan_words.HINTS["add_input"]),
}
"""Kind of thing → the sentence about an unknown name, and the hint."""

POOLED_DRIVERS: Final = ("script", "cli", "acp", "llm", "local")
"""Drivers of agents that workers can run: they start programs."""
DRIVERS: Final = ("script", "folder", "cli", "acp", "llm", "local", "python", "human", "remote")
_MIN_SCORE: Final = "_min_score"
_NODE = re.compile(r"nodes\[([0-9]+)\]\.?(.*)\Z", re.DOTALL)
_SEES_ALL: Final = frozenset({"folder", "python"})
"""Drivers whose agents get their commands as they are."""
_NUMBERED = re.compile(r"([a-z_]+)\[([0-9]+)\](.*)\Z", re.DOTALL)
_SAME: Final = {
    "task_id": "id",
    "assigned_agent_id": "agent",
    "depends_on": "needs",
    "failure_policy.fallback_task_id": "fallback",
}
"""Fields of a node → keys of a task."""
USUAL: Final = frozenset({"id", "agent", "needs", "inputs", "prompt", "outputs"})
"""Keys that most tasks have. A task with only these needs fewer checks."""


@dataclass(slots=True)
class PlanExamination:
    """The examination of one plan."""

    plan: PlanFile
    settled: Mapping[str, AgentProfile]
    """Profiles from elsewhere, which override the plan file's own."""
    names: Collection[str]
    """Names of outputs."""
    index: Mapping[str, int]
    """Task → its place."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    _known: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self._known = {*self.plan.agents, *self.settled}

    def examine(self) -> None:
        """Check everything that the DAG does not show."""
        self._check_plan()
        for at, task in enumerate(self.plan.tasks):
            if len(task.inputs) > 1 or not USUAL.issuperset(task.__pydantic_fields_set__):
                self._check_task(at, task)
            elif any(output.when for output in task.outputs):
                self._check_scores(at, task)

    def refuse(self, code: Code, where: str, message: str, hint: str) -> None:
        """Add a problem, with which the plan cannot be submitted."""
        self.problems.append(Problem(code, where, message, hint))

    def _unknown(self, what: str, name: str, known: Collection[str]) -> tuple[str, str]:
        """Make message and hint for an unknown name. Plans with many problems skip the slow search for a near name."""
        few = len(known) <= 1000 and len(self.problems) < 50
        near = find_nearest(name, [other for other in known if other != name]) if few else None
        message, hint = _UNKNOWN[what]
        return message(name=name), plan_words.HINTS["near"](name=near) if near else hint()

    def warn(self, where: str, message: str, hint: str) -> None:
        """Add a warning about something that may be a mistake."""
        self.warnings.append(Problem(Code.PLAN_DOUBTFUL, where, message, hint))

    def translate_problem(self, problem: Problem) -> Problem | None:
        """Translate a problem of the DAG to the keys of the plan file. None if it is about something that we added."""
        match = _NODE.match(problem.field)
        if match is None:
            return Problem(problem.code, "tasks", problem.message, problem.hint)
        at, rest = int(match[1]), match[2]
        renamed = _SAME.get(rest) or self._numbered_key(at, rest)
        if renamed is None:
            return None
        message, hint = problem.message, problem.hint
        if mentions(message, plan_words.PROBLEMS["fallback_missing"]):
            message = plan_words.PROBLEMS["fallback_missing_here"]()
        if problem.code is Code.DAG_AGENT_UNKNOWN and mentions(hint, plan_words.HINTS["add_agent"]):
            hint = plan_words.HINTS["describe_agent"]()
        return Problem(problem.code, f"tasks[{at}].{renamed}", message, hint)

    def _numbered_key(self, at: int, rest: str) -> str | None:
        match = _NUMBERED.match(rest)
        if match is None:
            return rest
        key, number, inner = match[1], int(match[2]), match[3]
        task = self.plan.tasks[at]
        if key == "depends_on":
            return f"needs[{number}]"  # a dependency that we added always exists
        if key == "inputs":
            need = task.inputs[number]
            given = [name for name, value in _sources(need) if value is not None]
            return f"inputs[{number}].{given[0]}" if given else rest
        receiver = _NUMBERED.match(inner.removeprefix("."))
        if key == "outputs" and receiver and int(receiver[2]) >= len(task.outputs[number].deliver_to):
            return None  # a receiver that we added is a task's agent, and is reported there
        return rest

    def _check_plan(self) -> None:
        plan = self.plan
        if plan.plan_id.startswith("_"):
            self.refuse(
                Code.ID_INVALID,
                "plan_id",
                plan_words.PROBLEMS["reserved_id"](),
                plan_words.HINTS["begin_with_letter"](),
            )
        for agent_id, spec in plan.agents.items():
            where = f"agents.{agent_id}"
            if agent_id in RESERVED:
                self.refuse(
                    Code.NAME_TAKEN,
                    where,
                    plan_words.PROBLEMS["reserved_name"](name=agent_id),
                    plan_words.HINTS["other_name"](),
                )
            self._check_driver(where, self.settled.get(agent_id) or spec)
            self._check_fallback(agent_id, self.settled.get(agent_id) or spec)
        for number, agent_id in enumerate(plan.policies.commanders or ()):
            if agent_id not in self._known:
                where = f"policies.commanders[{number}]"
                self.refuse(Code.DAG_AGENT_UNKNOWN, where, *self._unknown("agent", agent_id, self._known))
        self.problems += policy_checks.check(plan, self._known, self._unknown)
        if plan.workspace and all(task.workspace is None for task in plan.tasks):
            self.warn("workspace", plan_words.PROBLEMS["repository_unused"](), plan_words.HINTS["write_repo"]())

    def _check_fallback(self, agent_id: str, agent: AgentProfile | AgentSpec) -> None:
        where, fallback = f"agents.{agent_id}.fallback", agent.fallback
        if fallback == agent_id:
            self.refuse(
                Code.FIELD_VALUE,
                where,
                plan_words.PROBLEMS["own_fallback"](name=agent_id),
                plan_words.HINTS["other_agent"](),
            )
        elif fallback is not None and fallback not in self._known:
            self.refuse(Code.DAG_AGENT_UNKNOWN, where, *self._unknown("agent", fallback, self._known))

    def _check_driver(self, where: str, agent: AgentProfile | AgentSpec) -> None:
        driver = agent.driver
        if driver == "script" and not agent.argv:
            self.refuse(
                Code.FIELD_MISSING, f"{where}.argv", plan_words.PROBLEMS["no_program"](), plan_words.HINTS["add_argv"]()
            )
        if agent.mcp and driver not in {"cli", "acp"}:
            self.warn(f"{where}.mcp", plan_words.PROBLEMS["no_tools"](), plan_words.HINTS["remove_it"]())
        if driver in {"cli", "acp"}:
            self._check_coding(where, agent, driver)
        if driver in MODEL_DRIVERS:
            self._check_model(where, driver, agent.llm if driver == "llm" else agent.local)
        if driver is not None and driver not in DRIVERS:
            near = find_nearest(driver, DRIVERS)
            hint = (
                plan_words.HINTS["near"](name=near) if near else plan_words.HINTS["options"](names=", ".join(DRIVERS))
            )
            self.warn(f"{where}.driver", plan_words.PROBLEMS["other_driver"](driver=driver), hint)
        if agent.pool is not None and driver not in POOLED_DRIVERS:
            message = plan_words.PROBLEMS["no_worker"](driver=str(driver))
            self.refuse(
                Code.FIELD_VALUE, f"{where}.pool", message, plan_words.HINTS["use_one"](names=", ".join(POOLED_DRIVERS))
            )
        if agent.needs and agent.pool is None:
            self.warn(f"{where}.needs", plan_words.PROBLEMS["labels_unused"](), plan_words.HINTS["add_pool"]())

    def _check_coding(self, where: str, agent: AgentProfile | AgentSpec, driver: str) -> None:
        use = agent.cli if driver == "cli" else agent.acp
        try:
            cli_table.resolve_agent(agent.cli, mcp=bool(agent.mcp)) if driver == "cli" else acp_table.resolve_agent(
                agent.acp
            )
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            self.refuse(Code.FIELD_VALUE if use else Code.FIELD_MISSING, f"{where}.{driver}", message, hint)

    def _check_model(self, where: str, driver: str, use: LlmUse | LocalUse | None) -> None:
        try:
            model_services.check_model_use(use, driver)
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            self.refuse(Code.FIELD_VALUE if use else Code.FIELD_MISSING, f"{where}.{driver}", message, hint)

    def _driver(self, agent_id: AgentId) -> str | None:
        known = self.settled.get(agent_id) or self.plan.agents.get(agent_id)
        return known.driver if known is not None else None

    def _check_task(self, at: int, task: TaskSpec) -> None:
        if len(task.inputs) > 1 or task.criteria:
            self._check_inputs(at, task)
        if task.workspace and not self.plan.workspace:
            hint = plan_words.HINTS["add_workspace"]()
            self.refuse(Code.FIELD_MISSING, f"tasks[{at}].workspace", plan_words.PROBLEMS["no_repository"](), hint)
        if task.workspace and self._driver(task.agent) in MODEL_DRIVERS:
            message = plan_words.PROBLEMS["blind_model"](agent=task.agent)
            self.refuse(Code.FIELD_VALUE, f"tasks[{at}].workspace", message, plan_words.HINTS["make_outputs"]())
        if task.fallback and task.on_dependency_failed not in {None, "FALLBACK"}:
            message = plan_words.PROBLEMS["fallback_unused"](name=task.fallback)
            self.warn(f"tasks[{at}].fallback", message, plan_words.HINTS["remove_one"]())
        self._check_scores(at, task)
        self._check_hidden(at, task)
        if task.promise:
            found = promise_checks.check(task, names=self.names, agents=self._known, unknown=self._unknown)
            for severe, problem in found:
                (self.problems if severe else self.warnings).append(_moved(problem, f"tasks[{at}].promise"))

    def _check_hidden(self, at: int, task: TaskSpec) -> None:
        """Refuse hidden checks that the agent would see."""
        if not hidden_checks.list_hidden(task.promise):
            return
        where = f"tasks[{at}].promise.checks"
        reviewers = {*self.plan.review.reviewers, self.plan.review.coordinator} if self.plan.review else set()
        doers = [task.agent, *task.race, *([task.reexecute_target] if task.reexecute_target else [])]
        known = [self.settled.get(each) or self.plan.agents.get(each) for each in doers]
        doers += [each.fallback for each in known if each is not None and each.fallback is not None]
        for doer in dict.fromkeys(doers):
            if self._driver(doer) in _SEES_ALL:
                message = plan_words.PROBLEMS["sees_checks"](agent=doer)
                self.refuse(Code.FIELD_VALUE, where, message, plan_words.HINTS["hide_none"]())
            if doer in reviewers:
                message = plan_words.PROBLEMS["reviews_checks"](agent=doer)
                self.refuse(Code.FIELD_VALUE, where, message, plan_words.HINTS["other_reviewers"]())

    def _check_inputs(self, at: int, task: TaskSpec) -> None:
        names: set[str] = set()
        for number, need in enumerate(task.inputs):
            if need.name in names:
                message = plan_words.PROBLEMS["input_twice"](task=task.id, name=need.name)
                where = f"tasks[{at}].inputs[{number}].name"
                self.refuse(Code.NAME_TAKEN, where, message, plan_words.HINTS["own_input_name"]())
            names.add(need.name)
        for name in task.criteria or ():
            if name not in names:
                where = f"tasks[{at}].validate.{name}"
                self.refuse(Code.NAME_UNKNOWN, where, *self._unknown("input", name, names))

    def _check_scores(self, at: int, task: TaskSpec) -> None:
        if task.score_criteria is not None and not task.score_required:
            where = f"tasks[{at}].score_criteria"
            if task.score_required is None:
                message = plan_words.PROBLEMS["gives_score"](task=task.id)
                self.warnings.append(Problem(Code.PLAN_DERIVED, where, message))
            else:
                self.warn(where, plan_words.PROBLEMS["score_unused"](), plan_words.HINTS["remove_one"]())
        for where, other in _scores_used(task):
            judged = self.plan.tasks[self.index[other]] if other in self.index else None
            if judged is not None and not gives_score(judged):
                message = plan_words.PROBLEMS["no_score"](task=judged.id)
                self.refuse(
                    Code.SCORE_NOT_REQUIRED, f"tasks[{at}].{where}", message, plan_words.HINTS["require_score"]()
                )
        for name in task.gates.thresholds if task.gates else ():
            if not name.endswith(_MIN_SCORE):
                where = f"tasks[{at}].gates.thresholds.{name}"
                self.warn(
                    where, plan_words.PROBLEMS["no_task"](), plan_words.HINTS["write_threshold"](ending=_MIN_SCORE)
                )


def _sources(need: InputSpec) -> tuple[tuple[str, str | None], ...]:
    return ("from", need.source), ("glob", need.glob), ("file", need.file), ("type", need.type)


def gives_score(task: TaskSpec) -> bool:
    """Whether a task gives a score. One with `score_criteria` does unless it declines."""
    return task.score_required or (task.score_required is None and task.score_criteria is not None)


def _scores_used(task: TaskSpec) -> Iterator[tuple[str, str]]:
    """Yield the fields of a task that use a score, with the task that gives it."""
    for at, output in enumerate(task.outputs):
        if output.when is not None:
            yield f"outputs[{at}].when", task.id
    if task.gates:
        for at, _ in enumerate(task.gates.branches):
            yield f"gates.branches[{at}].when", task.id
        for name in task.gates.thresholds:
            if name.endswith(_MIN_SCORE):
                yield f"gates.thresholds.{name}", name.removesuffix(_MIN_SCORE)


def _moved(problem: Problem, below: str) -> Problem:
    return Problem(problem.code, f"{below}.{problem.field}", problem.message, problem.hint)
