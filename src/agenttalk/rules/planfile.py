"""From a plan file to the documents that the engine works with: the DAG, the manifest and the agents' profiles.

What a person leaves out because it follows from the rest is added and told: who receives an output
that is somebody's input, and which task an input makes one wait for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, TypeVar

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.base import AgentId, Part
from agenttalk.contracts.command import ValidationCriteria
from agenttalk.contracts.dag import (
    EVERYONE,
    ByMessageType,
    ByValue,
    FailurePolicy,
    Gates,
    Input,
    Node,
    Output,
    TaskDag,
    Versioning,
)
from agenttalk.contracts.memory import collector_paused
from agenttalk.contracts.plan import Deliverable, ManifestAgent, PlanLimits, PlanManifest, Policies, Workspace
from agenttalk.contracts.planfile import AgentSpec, InputSpec, OutputSpec, PlanFile, TaskSpec
from agenttalk.contracts.problem import nearest
from agenttalk.errors import Code, Problem
from agenttalk.rules import dags, promise_checks
from agenttalk.rules.globs import matching
from agenttalk.rules.routing import RESERVED

DRIVERS: Final = ("script", "folder", "cli", "acp", "llm", "local", "python", "human", "remote")
GLOB_BUDGET: Final = 1_000_000
"""How many names globs of inputs are held against to find out who receives what."""
_MIN_SCORE: Final = "_min_score"
_NODE = re.compile(r"nodes\[([0-9]+)\]\.?(.*)\Z", re.DOTALL)
_NUMBERED = re.compile(r"([a-z_]+)\[([0-9]+)\](.*)\Z", re.DOTALL)
_SAME: Final = {
    "task_id": "id",
    "assigned_agent_id": "agent",
    "depends_on": "needs",
    "failure_policy.fallback_task_id": "fallback",
}
"""Fields of a node → keys of a task."""
_USUAL: Final = frozenset({"id", "agent", "needs", "inputs", "prompt", "outputs"})
"""What most tasks say; the others are worth a closer look."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a plan file comes to, and everything that is to be said of it."""

    dag: TaskDag
    manifest: PlanManifest
    profiles: Mapping[str, AgentProfile]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the plan may be submitted."""
        return not self.problems


def compile_plan(plan: PlanFile, *, agents: Mapping[str, AgentProfile] = MappingProxyType({})) -> Compiled:
    """Compile a plan. `agents` are profiles that are settled elsewhere; they win over the plan file's own."""
    with collector_paused():
        return _Compiler(plan, agents).compiled()


def waves(dag: TaskDag) -> list[list[str]]:
    """Tasks that may run beside each other, wave after wave; tasks on a circle are left out."""
    known: set[str] = {node.task_id for node in dag.nodes}
    before: dict[str, set[str]] = {node.task_id: known.intersection(node.depends_on) for node in dag.nodes}
    for node in dag.nodes:
        for branch in node.gates.branches if node.gates else ():
            for task_id in known.intersection(branch.activate):
                before[task_id].add(node.task_id)
    followers: dict[str, list[str]] = defaultdict(list)
    for follower, earlier in before.items():
        for each in earlier:
            followers[each].append(follower)
    waiting = {task_id: len(earlier) for task_id, earlier in before.items()}
    wave = [task_id for task_id, count in waiting.items() if not count]
    found = []
    while wave:
        found.append(wave)
        following = []
        for done in wave:
            for follower in followers[done]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    following.append(follower)
        wave = following
    return found


P = TypeVar("P", bound=Part)


def _defaults(kind: type[Part]) -> dict[str, Any]:
    return {name: field.get_default() for name, field in kind.model_fields.items()}


_NODE_DEFAULTS: Final = _defaults(Node)
_INPUT_DEFAULTS: Final = _defaults(Input)
_OUTPUT_DEFAULTS: Final = _defaults(Output)
_VALUE_DEFAULTS: Final = _defaults(ByValue)
_DELIVERABLE_DEFAULTS: Final = _defaults(Deliverable)


def _made(kind: type[P], defaults: dict[str, Any], values: dict[str, Any]) -> P:
    """A part from values that were checked when the plan file was read.

    The same as `model_construct`, in a fifth of its time: for 100,000 tasks that is more than a second.
    """
    part = kind.__new__(kind)
    put = object.__setattr__
    put(part, "__dict__", {**defaults, **values})
    put(part, "__pydantic_fields_set__", set(values))
    put(part, "__pydantic_extra__", {})
    put(part, "__pydantic_private__", None)
    return part


class _Compiler:
    """One plan on its way."""

    def __init__(self, plan: PlanFile, agents: Mapping[str, AgentProfile]) -> None:
        self.plan = plan
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._settled = agents
        self._budget = GLOB_BUDGET
        self._at: dict[str, int] = {}
        self._known = {*plan.agents, *agents}
        self._makers: dict[str, dict[int, int]] = {}
        """Name → the tasks that make it, with the number of the output."""
        self._receivers: dict[tuple[int, int], dict[AgentId, None]] = {}
        """Task and output → who receives it besides those that are written."""
        self._everywhere: set[tuple[str, str]] = set()
        """Names that every maker was told to deliver to an agent."""
        self._needs: dict[int, dict[str, None]] = {}
        """Task → what was added to its needs."""
        for at, task in enumerate(plan.tasks):
            self._at.setdefault(task.id, at)
            for number, output in enumerate(task.outputs):
                self._makers.setdefault(output.name, {}).setdefault(at, number)

    def compiled(self) -> Compiled:
        for at, task in enumerate(self.plan.tasks):
            if task.inputs:
                self._derive(at, task)
        nodes = tuple([self._node(at, task) for at, task in enumerate(self.plan.tasks)])
        dag = TaskDag.model_construct(schema_version="1.1", plan_id=self.plan.plan_id, nodes=nodes, routing_rules=())
        profiles = self._profiles(dag)
        report = dags.check(dag, agents=profiles)
        self.problems += [renamed for problem in report.problems if (renamed := self._renamed(problem))]
        self._check_plan()
        for at, task in enumerate(self.plan.tasks):
            if len(task.inputs) > 1 or not _USUAL.issuperset(task.model_fields_set):
                self._check_task(at, task)
            elif task.outputs and any(output.when for output in task.outputs):
                self._check_scores(at, task)
        return Compiled(dag, self._manifest(profiles), profiles, tuple(self.problems), tuple(self.warnings))

    # What follows from the rest.

    def _derive(self, at: int, task: TaskSpec) -> None:
        needs = task.needs if len(task.needs) < 8 else frozenset(task.needs)
        for number, need in enumerate(task.inputs):
            if need.external:
                continue
            if need.source is not None:
                makers = self._makers.get(need.source)
                if makers and (len(makers) > 1 or at not in makers):
                    self._derive_from(at, number, makers, needs)
            elif need.glob is not None or need.file is not None:
                self._derive_named(at, task, number, need)

    def _derive_from(self, at: int, number: int, makers: dict[int, int], needs: Collection[str]) -> None:
        """Who delivers an input that is somebody's output, and what its task waits for.

        Of several makers those that the task needs count, and its fallback; without one, all of them do.
        """
        task, tasks = self.plan.tasks[at], self.plan.tasks
        where = f"tasks[{at}].inputs[{number}].from"
        if len(makers) == 1:
            (maker,) = makers
            self._derive_receiver(where, task.agent, maker, makers[maker])
            if task.inputs[number].required and tasks[maker].id not in needs:
                self._derive_need(where, at, tasks[maker].id)
            return
        name = tasks[next(iter(makers))].outputs[next(iter(makers.values()))].name
        needed = [self._at[each] for each in needs if self._at.get(each) in makers]
        spare = self._at.get(task.fallback) if task.fallback else None
        if needed:
            for maker in (*needed, *([spare] if spare in makers and spare is not None else ())):
                self._derive_receiver(where, task.agent, maker, makers[maker])
            return
        if (name, task.agent) not in self._everywhere:
            self._everywhere.add((name, task.agent))
            for maker, output in makers.items():
                self._derive_receiver(where, task.agent, maker, output)
        first = list(islice((maker for maker in makers if maker not in {at, spare}), 4))
        if not task.inputs[number].required or not first:
            return
        if len(first) == 1:
            self._derive_need(where, at, tasks[first[0]].id)
        else:
            makes = promise_checks.listed({tasks[maker].id for maker in first})
            message = f"several tasks make {name!r} ({makes}), and nothing says which one {task.id!r} waits for"
            self._doubt(where, message, "name the task in needs")

    def _derive_need(self, where: str, at: int, task_id: str) -> None:
        added = self._needs.setdefault(at, {})
        if task_id not in added:
            added[task_id] = None
            message = f"task {self.plan.tasks[at].id!r} waits for {task_id!r}, which makes this input"
            self.warnings.append(Problem(Code.PLAN_DERIVED, where, message))

    def _derive_named(self, at: int, task: TaskSpec, number: int, need: InputSpec) -> None:
        """Outputs of what a task needs that a file name or glob of its own means."""
        key, pattern = ("glob", need.glob) if need.glob is not None else ("file", need.file or "")
        where = f"tasks[{at}].inputs[{number}].{key}"
        for task_id in task.needs:
            maker = self._at.get(task_id, at)
            names = [output.name for output in self.plan.tasks[maker].outputs] if maker != at else []
            self._budget -= 1 + len(names)
            if self._budget < 0:
                return
            for name in matching(pattern, names) if key == "glob" else {pattern}.intersection(names):
                self._derive_receiver(where, task.agent, maker, self._makers[name][maker])

    def _derive_receiver(self, where: str, agent: AgentId, maker: int, number: int) -> None:
        made = self.plan.tasks[maker]
        output = made.outputs[number]
        if agent in output.deliver_to or EVERYONE in output.deliver_to:
            return
        added = self._receivers.setdefault((maker, number), {})
        if agent not in added:
            added[agent] = None
            message = f"{agent!r} receives {output.name!r} from task {made.id!r}"
            self.warnings.append(Problem(Code.PLAN_DERIVED, where, message))

    # The documents.

    def _node(self, at: int, task: TaskSpec) -> Node:
        values: dict[str, Any] = {
            "task_id": task.id,
            "assigned_agent_id": task.agent,
            "prompt": task.prompt,
            "depends_on": task.needs,
        }
        if at in self._needs:
            values["depends_on"] = (*task.needs, *self._needs[at])
        if task.inputs:
            values["inputs"] = tuple([self._input(at, number, need) for number, need in enumerate(task.inputs)])
        if task.outputs:
            values["outputs"] = tuple([self._output(at, number, each) for number, each in enumerate(task.outputs)])
        if not _USUAL.issuperset(task.model_fields_set):
            values |= _rarely_said(task)
        return _made(Node, _NODE_DEFAULTS, values)

    def _input(self, at: int, number: int, need: InputSpec) -> Input:
        values: dict[str, Any] = {"name": need.name, "selector": self._selector(at, number, need)}
        if need.source is None or len(need.model_fields_set) > 2:
            values |= {
                "required": need.required,
                "external": need.external,
                "pick_policy": need.pick,
                "min_count": need.min_count,
            }
        criteria = self.plan.tasks[at].criteria
        if criteria and need.name in criteria:
            values["validation_criteria"] = ValidationCriteria.read(criteria[need.name].as_json())
        return _made(Input, _INPUT_DEFAULTS, values)

    def _selector(self, at: int, number: int, need: InputSpec) -> ByValue | ByMessageType:
        kind, value = "by_output_name", need.source
        if value is None or len(need.model_fields_set) > 2:
            kind, value = self._chosen(at, number, need)
        if kind == "by_message_type":
            hashes = need.allowed_hashes
            return ByMessageType.model_construct(
                type="by_message_type", type_value=value, subtype_value=need.subtype, allowed_hashes=hashes
            )
        return _made(ByValue, _VALUE_DEFAULTS, {"type": kind, "value": value, "allowed_hashes": need.allowed_hashes})

    def _chosen(self, at: int, number: int, need: InputSpec) -> tuple[str, str]:
        """What fills an input. Exactly one key says so; what a person brings is known by its name alone."""
        given = [
            (kind, value)
            for kind, value in (
                ("by_output_name", need.source),
                ("by_glob", need.glob),
                ("by_file_name", need.file),
                ("by_message_type", need.type),
            )
            if value is not None
        ]
        where = f"tasks[{at}].inputs[{number}]"
        if len(given) != 1 and not (need.external and not given):
            what = "more than one says what fills it" if given else "nothing says what fills it"
            self._refuse(Code.FIELD_VALUE, where, what, "write one of from, glob, file and type")
        if need.subtype is not None and need.type is None:
            self._refuse(Code.FIELD_VALUE, f"{where}.subtype", "a subtype without a type", "write type, too")
        return given[0] if given else ("by_file_name", need.name)

    def _output(self, at: int, number: int, output: OutputSpec) -> Output:
        added = self._receivers.get((at, number))
        to = output.deliver_to if added is None else (*output.deliver_to, *added)
        values: dict[str, Any] = {"name": output.name, "deliver_to": to, "deliverable": output.deliverable}
        if output.versioning is not None:
            values["versioning"] = Versioning.read(output.versioning.as_json())
        if output.when is not None or output.optional or output.content_type is not None:
            values |= {"when": output.when, "optional": output.optional, "content_type": output.content_type}
        return _made(Output, _OUTPUT_DEFAULTS, values)

    def _profiles(self, dag: TaskDag) -> dict[str, AgentProfile]:
        named = {node.assigned_agent_id for node in dag.nodes}
        named.update(*(output.deliver_to for node in dag.nodes for output in node.outputs))
        found = {agent_id: _profile(agent_id, spec) for agent_id, spec in self.plan.agents.items()}
        wanted = [agent_id for agent_id in self._settled if agent_id in found or agent_id in named]
        return found | {agent_id: self._settled[agent_id] for agent_id in wanted}

    def _manifest(self, profiles: Mapping[str, AgentProfile]) -> PlanManifest:
        plan = self.plan
        policies = plan.policies.as_json()
        commanders = policies.pop("commanders", None)
        deliverables = tuple(
            _made(Deliverable, _DELIVERABLE_DEFAULTS, {"name": output.name, "from_task_id": task.id})
            for task in plan.tasks
            for output in task.outputs
            if output.deliverable
        )
        return PlanManifest.model_construct(
            plan_id=plan.plan_id,
            plan_name=plan.name,
            commanders=None if commanders is None else tuple(commanders),
            agents=tuple(ManifestAgent.model_construct(agent_id=AgentId(each)) for each in profiles),
            deliverables=deliverables,
            policies=Policies.read(policies),
            project=plan.project,
            workspace=Workspace.read(plan.workspace.as_json()) if plan.workspace else None,
            limits=PlanLimits.read(plan.limits.as_json()) if plan.limits else None,
        )

    # What is wrong.

    def _refuse(self, code: Code, where: str, message: str, hint: str) -> None:
        self.problems.append(Problem(code, where, message, hint))

    def _unknown(self, what: str, name: str, known: Collection[str]) -> tuple[str, str]:
        """Message and hint for a name that nothing has. Looking for the nearest is for plans with few problems."""
        few = len(known) <= 1000 and len(self.problems) < 50
        near = nearest(name, [each for each in known if each != name]) if few else None
        return f"there is no {what} {name!r}", f"did you mean {near!r}?" if near else f"add the {what} or name another"

    def _doubt(self, where: str, message: str, hint: str) -> None:
        self.warnings.append(Problem(Code.PLAN_DOUBTFUL, where, message, hint))

    def _renamed(self, problem: Problem) -> Problem | None:
        """A problem of the DAG in the words of the plan file; None when it is about what we added."""
        match = _NODE.match(problem.field)
        if match is None:
            return Problem(problem.code, "tasks", problem.message, problem.hint)
        at, rest = int(match[1]), match[2]
        renamed = _SAME.get(rest) or self._numbered_key(at, rest)
        if renamed is None:
            return None
        message = problem.message.replace("fallback_task_id", "task under fallback")
        hint = problem.hint
        if problem.code is Code.DAG_AGENT_UNKNOWN and not hint.startswith("did you mean"):
            hint = "describe it under agents, or name the root whose agenttalk.toml does (--root)"
        return Problem(problem.code, f"tasks[{at}].{renamed}", message, hint)

    def _numbered_key(self, at: int, rest: str) -> str | None:
        match = _NUMBERED.match(rest)
        if match is None:
            return rest
        key, number, inner = match[1], int(match[2]), match[3]
        task = self.plan.tasks[at]
        if key == "depends_on":
            return f"needs[{number}]"  # what is added exists
        if key == "inputs":
            need = task.inputs[number]
            said = [name for name, value in _sources(need) if value is not None]
            return f"inputs[{number}].{said[0]}" if said else rest
        receiver = _NUMBERED.match(inner.removeprefix("."))
        if key == "outputs" and receiver and int(receiver[2]) >= len(task.outputs[number].deliver_to):
            return None  # a receiver that we added is somebody's agent, and told there
        return rest

    def _check_plan(self) -> None:
        plan = self.plan
        if plan.plan_id.startswith("_"):
            self._refuse(Code.ID_INVALID, "plan_id", "ids that begin with _ are those of boards", "begin with a letter")
        for agent_id, spec in plan.agents.items():
            where = f"agents.{agent_id}"
            if agent_id in RESERVED:
                self._refuse(Code.NAME_TAKEN, where, f"{agent_id!r} is a name of our own", "take another")
            settled = self._settled.get(agent_id)
            driver, argv = (settled.driver, settled.argv) if settled else (spec.driver, spec.argv)
            if driver == "script" and not argv:
                self._refuse(Code.FIELD_MISSING, f"{where}.argv", "a script needs its program", "add argv")
            if driver is not None and driver not in DRIVERS:
                near = nearest(driver, DRIVERS)
                hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(DRIVERS)}"
                self._doubt(f"{where}.driver", f"{driver!r} is no driver of ours", hint)
        for number, agent_id in enumerate(plan.policies.commanders or ()):
            if agent_id not in self._known:
                where = f"policies.commanders[{number}]"
                self._refuse(Code.DAG_AGENT_UNKNOWN, where, *self._unknown("agent", agent_id, self._known))
        if plan.workspace and all(task.workspace is None for task in plan.tasks):
            self._doubt("workspace", "no task works in the repository", "write workspace: repo at those that do")

    def _check_task(self, at: int, task: TaskSpec) -> None:
        if len(task.inputs) > 1 or task.criteria:
            self._check_inputs(at, task)
        if task.workspace and not self.plan.workspace:
            hint = "add workspace: {repo: FOLDER} to the plan"
            self._refuse(Code.FIELD_MISSING, f"tasks[{at}].workspace", "the plan names no repository", hint)
        if task.fallback and task.on_dependency_failed not in {None, "FALLBACK"}:
            message = f"{task.fallback!r} never takes a place, because on_dependency_failed is not FALLBACK"
            self._doubt(f"tasks[{at}].fallback", message, "remove one of the two")
        self._check_scores(at, task)
        if task.promise:
            found = promise_checks.check(task, names=self._makers, agents=self._known, unknown=self._unknown)
            for severe, problem in found:
                (self.problems if severe else self.warnings).append(_moved(problem, f"tasks[{at}].promise"))

    def _check_inputs(self, at: int, task: TaskSpec) -> None:
        names: set[str] = set()
        for number, need in enumerate(task.inputs):
            if need.name in names:
                message = f"task {task.id!r} has another input {need.name!r}"
                where = f"tasks[{at}].inputs[{number}].name"
                self._refuse(Code.NAME_TAKEN, where, message, "give each input a name of its own")
            names.add(need.name)
        for name in task.criteria or ():
            if name not in names:
                where = f"tasks[{at}].validate.{name}"
                self._refuse(Code.NAME_UNKNOWN, where, *self._unknown("input", name, names))

    def _check_scores(self, at: int, task: TaskSpec) -> None:
        if task.score_criteria is not None and not task.score_required:
            where = f"tasks[{at}].score_criteria"
            if task.score_required is None:
                message = f"task {task.id!r} gives a score, because it says what the score measures"
                self.warnings.append(Problem(Code.PLAN_DERIVED, where, message))
            else:
                self._doubt(where, "no score is required, so this does nothing", "remove one of the two")
        for where, other in _scores_used(task):
            judged = self.plan.tasks[self._at[other]] if other in self._at else None
            if judged is not None and not _scores(judged):
                message = f"this is about the score of task {judged.id!r}, which gives none"
                self._refuse(Code.SCORE_NOT_REQUIRED, f"tasks[{at}].{where}", message, "add score_required: true there")
        for name in task.gates.thresholds if task.gates else ():
            if not name.endswith(_MIN_SCORE):
                where = f"tasks[{at}].gates.thresholds.{name}"
                self._doubt(where, "this threshold names no task", f"write <task_id>{_MIN_SCORE}")


def _sources(need: InputSpec) -> tuple[tuple[str, str | None], ...]:
    return ("from", need.source), ("glob", need.glob), ("file", need.file), ("type", need.type)


def _scores(task: TaskSpec) -> bool:
    return task.score_required or (task.score_required is None and task.score_criteria is not None)


def _scores_used(task: TaskSpec) -> Iterator[tuple[str, str]]:
    """Where a task speaks of scores, and of whose."""
    for at, output in enumerate(task.outputs):
        if output.when is not None:
            yield f"outputs[{at}].when", task.id
    if task.gates:
        for at, _ in enumerate(task.gates.branches):
            yield f"gates.branches[{at}].when", task.id
        for name in task.gates.thresholds:
            if name.endswith(_MIN_SCORE):
                yield f"gates.thresholds.{name}", name.removesuffix(_MIN_SCORE)


def _rarely_said(task: TaskSpec) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": task.name,
        "promise": task.promise,
        "timeout": task.timeout,
        "score_required": True if _scores(task) else task.score_required,
        "score_criteria": task.score_criteria,
        "retry_times": task.retry_times,
        "priority": task.priority,
        "workspace": task.workspace,
    }
    if task.gates:
        values["gates"] = Gates.read(task.gates.as_json())
    if task.on_dependency_failed or task.fallback or task.max_reexecute_times is not None:
        values["failure_policy"] = FailurePolicy.model_construct(
            on_dependency_failed=task.on_dependency_failed or ("FALLBACK" if task.fallback else "BLOCK"),
            max_reexecute_times=task.max_reexecute_times,
            fallback_task_id=task.fallback,
        )
    if task.criteria:
        said = [task.criteria.get(need.name) for need in task.inputs]
        if said and said[0] is not None and all(each == said[0] for each in said):
            values["validation_criteria"] = ValidationCriteria.read(said[0].as_json())
    return values


def _profile(agent_id: str, spec: AgentSpec) -> AgentProfile:
    return AgentProfile.read({"agent_id": agent_id, **spec.as_json()})


def _moved(problem: Problem, below: str) -> Problem:
    return Problem(problem.code, f"{below}.{problem.field}", problem.message, problem.hint)
