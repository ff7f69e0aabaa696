"""Compiles a plan file to the documents that the engine works with: the DAG, the manifest and the agents' profiles.

The compiler adds what a person may leave out because it follows from the rest, and reports it: the receivers of an
output that another task takes as input, and the dependencies that follow from inputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import Notice, ValidationCriteria
from agenttalk.contracts.core.base import AgentId, Part, TaskId, make_part
from agenttalk.contracts.core.large_documents import pause_collector
from agenttalk.contracts.dag import (
    EVERYONE,
    ByMessageType,
    ByValue,
    FailurePolicy,
    Gates,
    Input,
    Node,
    Output,
    PickPolicy,
    TaskDag,
    Versioning,
)
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.plan import Deliverable, ManifestAgent, PlanLimits, PlanManifest, Policies, Workspace
from agenttalk.contracts.planfile.model import AgentSpec, InputSpec, OutputSpec, PlanFile, TaskSpec
from agenttalk.rules.core.globs import match_names
from agenttalk.rules.planfile import policy_checks, races
from agenttalk.rules.planfile.plan_checks import USUAL, PlanExamination, gives_score
from agenttalk.rules.plans import dag_checks
from agenttalk.rules.text import plan_words
from agenttalk.rules.text.message import join_names

LATEST: Final[PickPolicy] = "latest_by_delivered_at"
"""The version that an input takes if the plan does not choose."""
TRANSLATED: Final = 1_000
"""The most derived facts that are messages. People are shown fewer, and programs read English."""
WAITED_FOR: Final = 64
"""The most dependencies that are added for one input."""
GLOB_BUDGET: Final = 1_000_000
"""The most names that are compared with globs of inputs to find receivers."""


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """The documents of a plan file, with its problems and warnings."""

    dag: TaskDag
    manifest: PlanManifest
    profiles: Mapping[str, AgentProfile]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Contents of its checks' own files, by their hashes."""

    @property
    def ok(self) -> bool:
        """Whether the plan may be submitted."""
        return not self.problems


def compile_plan(plan: PlanFile, *, agents: Mapping[str, AgentProfile] = MappingProxyType({})) -> CompiledPlan:
    """Compile a plan. `agents` are profiles from elsewhere; they override the plan file's own."""
    with pause_collector():
        return _Compiler(plan, agents).compiled()


def compute_waves(dag: TaskDag) -> list[list[str]]:
    """Compute which tasks may run beside each other, wave after wave. Tasks of a cycle are left out."""
    known: set[str] = {node.task_id for node in dag.nodes}
    before: dict[str, set[str]] = {node.task_id: known.intersection(node.depends_on) for node in dag.nodes}
    for node in dag.nodes:
        for branch in node.gates.branches if node.gates else ():
            for task_id in known.intersection(branch.activate):
                before[task_id].add(node.task_id)
    followers: dict[str, list[str]] = defaultdict(list)
    for follower, earlier in before.items():
        for task_id in earlier:
            followers[task_id].append(follower)
    waiting = {task_id: len(earlier) for task_id, earlier in before.items()}
    wave = [task_id for task_id, count in waiting.items() if not count]
    waves = []
    while wave:
        waves.append(wave)
        following = []
        for done in wave:
            for follower in followers[done]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    following.append(follower)
        wave = following
    return waves


def _defaults(kind: type[Part]) -> dict[str, Any]:
    return {name: field.get_default() for name, field in kind.model_fields.items()}


_NODE_DEFAULTS: Final = _defaults(Node)
_INPUT_DEFAULTS: Final = _defaults(Input)
_OUTPUT_DEFAULTS: Final = _defaults(Output)
_VALUE_DEFAULTS: Final = _defaults(ByValue)
_DELIVERABLE_DEFAULTS: Final = _defaults(Deliverable)
_SELECTED: Final = {"type", "value"}
_LATEST: Final = {"pick_policy": "latest_by_delivered_at"}
_NEEDED: Final = {"name", "selector", "pick_policy"}
_SAID: Final = {"name", "deliver_to", "deliverable"}
_MADE: Final = {*_SAID, "idempotency_key"}
_DELIVERED: Final = {"name", "from_task_id"}
_ALWAYS: Final = {"task_id", "assigned_agent_id", "prompt", "depends_on"}
_ASKED: Final = {
    (False, False): _ALWAYS,
    (True, False): _ALWAYS | {"inputs"},
    (False, True): _ALWAYS | {"outputs"},
    (True, True): _ALWAYS | {"inputs", "outputs"},
}
"""The fields that were set in a part. Equal parts share a set, because a part is never changed."""


class _Compiler:
    """The compilation of one plan."""

    def __init__(self, plan: PlanFile, agents: Mapping[str, AgentProfile]) -> None:
        self._raced = races.expand(plan, {*plan.agents, *agents})
        self.plan = plan = self._raced.plan
        self._settled = agents
        self._budget = GLOB_BUDGET
        self._at: dict[str, int] = {}
        self._makers: dict[str, dict[int, int]] = {}
        """Name → the tasks that make it, with the number of the output."""
        self._receivers: dict[tuple[int, int], dict[AgentId, None]] = {}
        """Task and output → the receivers that were added to those of the plan."""
        self._everywhere: set[tuple[str, str]] = set()
        """Output name and agent, where every maker of the name delivers to the agent."""
        self._needs: dict[int, dict[str, None]] = {}
        """Task → the dependencies that were added."""
        self._choices: dict[tuple[int, int], PickPolicy] = {}
        """Task and input → the policy that was added."""
        self._unsaid: list[tuple[int, int, str, str, tuple[int, ...]]] = []
        """Inputs whose makers are not among the task's dependencies: task, input, field, name and makers."""
        for at, task in enumerate(plan.tasks):
            self._at.setdefault(task.id, at)
            for number, output in enumerate(task.outputs):
                self._makers.setdefault(output.name, {}).setdefault(at, number)
        self._found = PlanExamination(plan, agents, self._makers, self._at)

    def compiled(self) -> CompiledPlan:
        found = self._found
        for at, task in enumerate(self.plan.tasks):
            if task.inputs:
                self._derive(at, task)
        if self._unsaid:
            self._wait_for_all()
        nodes = tuple([self._node(at, task) for at, task in enumerate(self.plan.tasks)])
        dag = TaskDag.model_construct(schema_version="1.1", plan_id=self.plan.plan_id, nodes=nodes, routing_rules=())
        profiles = self._profiles(dag)
        report = dag_checks.check(dag, agents=profiles)
        found.problems += [renamed for problem in report.problems if (renamed := found.translate_problem(problem))]
        found.examine()
        problems = (*self._raced.problems, *self._raced.translate(found.problems))
        warnings = tuple(self._raced.translate(found.warnings))
        return CompiledPlan(dag, self._manifest(profiles), profiles, problems, warnings)

    # Receivers, dependencies and policies that follow from the rest.

    def _derive(self, at: int, task: TaskSpec) -> None:
        needs = task.needs if len(task.needs) < 8 else frozenset(task.needs)
        for number, need in enumerate(task.inputs):
            if need.external:
                continue
            source = need.source
            if source is not None:
                makers = self._makers.get(source)
                if makers and (len(makers) > 1 or at not in makers):
                    self._derive_from(at, number, makers, needs)
            elif need.glob is not None or need.file is not None:
                self._derive_named(at, task, number, need)

    def _derive_from(self, at: int, number: int, makers: dict[int, int], needs: Collection[str]) -> None:
        """Add the receiver of an input that other tasks make, and the dependency on its maker.

        Of several makers, those among the task's dependencies and its fallback deliver; if there is none, all do.
        """
        tasks = self.plan.tasks
        task = tasks[at]
        where = f"tasks[{at}].inputs[{number}].from"
        if len(makers) == 1:
            ((maker, output),) = makers.items()
            self._derive_receiver(where, task.agent, maker, output)
            if task.inputs[number].required and tasks[maker].id not in needs:
                self._derive_need(where, at, tasks[maker].id)
            return
        name = tasks[next(iter(makers))].outputs[next(iter(makers.values()))].name
        needed = [self._at[task_id] for task_id in needs if self._at.get(task_id) in makers]
        spare = self._at.get(task.fallback) if task.fallback else None
        if needed:
            for maker in (*needed, *([spare] if spare in makers and spare is not None else ())):
                self._derive_receiver(where, task.agent, maker, makers[maker])
            self._derive_choice(where, at, number, needed)
            return
        if (name, task.agent) not in self._everywhere:
            self._everywhere.add((name, task.agent))
            for maker, output in makers.items():
                self._derive_receiver(where, task.agent, maker, output)
        first = tuple(islice((maker for maker in makers if maker not in {at, spare}), WAITED_FOR + 1))
        if task.inputs[number].required and first:
            self._unsaid.append((at, number, where, name, first))

    def _wait_for_all(self) -> None:
        """Add dependencies on all makers of an input, except those that come after the task.

        Only dependencies of a task fill its inputs, so without this a task that names none of them would never start.
        """
        tasks = self.plan.tasks
        followers: dict[str, list[int]] = defaultdict(list)
        for at, task in enumerate(tasks):
            for task_id in (*task.needs, *self._needs.get(at, ())):
                followers[task_id].append(at)
        for at, number, where, name, makers in self._unsaid:
            later = self._after(at, followers)
            before = [maker for maker in makers if maker not in later]
            if len(before) > 1:
                makes = join_names({tasks[maker].id for maker in before})
                message = (
                    f"several tasks make {name!r} ({makes}), and nothing says which one {tasks[at].id!r} waits for"
                )
                if len(before) > WAITED_FOR:
                    self._found.refuse(Code.DAG_INPUT_UNREACHABLE, where, message, "name the tasks in needs")
                    continue
                self._found.warn(where, message, "name the task in needs, or it waits for all of them")
            for maker in before:
                self._derive_need(where, at, tasks[maker].id)
            self._derive_choice(where, at, number, before)

    def _derive_choice(self, where: str, at: int, number: int, makers: Sequence[int]) -> None:
        """Choose which version an input takes if several tasks make it and the plan does not choose."""
        need = self.plan.tasks[at].inputs[number]
        if len(makers) < 2 or need.pick is not None or need.glob is not None:
            return
        self._choices[at, number] = LATEST
        names = join_names({self.plan.tasks[maker].id for maker in makers})
        message = plan_words.PROBLEMS["takes_latest"](name=need.name, tasks=names, pick=LATEST)
        self._found.warnings.append(Problem(Code.PLAN_DERIVED, where, message, plan_words.HINTS["pick"]()))

    def _after(self, at: int, followers: Mapping[str, Sequence[int]]) -> set[int]:
        """Find the tasks that come after one."""
        later: set[int] = set()
        ahead = [at]
        while ahead:
            for follower in followers.get(self.plan.tasks[ahead.pop()].id, ()):
                if follower not in later:
                    later.add(follower)
                    ahead.append(follower)
        return later

    def _derive_need(self, where: str, at: int, task_id: str) -> None:
        added = self._needs.setdefault(at, {})
        if task_id not in added:
            added[task_id] = None
            message = plan_words.PROBLEMS["waits"](task=self.plan.tasks[at].id, name=task_id)
            self._found.warnings.append(Problem(Code.PLAN_DERIVED, where, message))

    def _derive_named(self, at: int, task: TaskSpec, number: int, need: InputSpec) -> None:
        """Add the receiver of outputs of a task's dependencies that match a file name or glob among its inputs."""
        key, pattern = ("glob", need.glob) if need.glob is not None else ("file", need.file or "")
        where = f"tasks[{at}].inputs[{number}].{key}"
        filled = not need.required
        for task_id in task.needs:
            maker = self._at.get(task_id, at)
            names = [output.name for output in self.plan.tasks[maker].outputs] if maker != at else []
            self._budget -= 1 + len(names)
            if self._budget < 0:
                return
            filled = filled or any("." not in name for name in names)  # a folder may hold it
            for name in match_names(pattern, names) if key == "glob" else {pattern}.intersection(names):
                self._derive_receiver(where, task.agent, maker, self._makers[name][maker])
                filled = True
        if not filled:
            self._derive_waiting(where, at, number, pattern, glob=key == "glob")

    def _derive_waiting(self, where: str, at: int, number: int, pattern: str, *, glob: bool) -> None:
        """Note the tasks that deliver a matching output, if no dependency of the task fills its input."""
        self._budget -= len(self._makers) if glob else 1
        if self._budget < 0:
            return
        tasks, makers = self.plan.tasks, dict[int, None]()
        for name in match_names(pattern, self._makers) if glob else {pattern}.intersection(self._makers):
            for maker, output in self._makers[name].items():
                to = tasks[maker].outputs[output].deliver_to
                if maker != at and to and (tasks[at].agent in to or EVERYONE in to):
                    makers[maker] = None
        if makers:
            self._unsaid.append((at, number, where, pattern, tuple(islice(makers, WAITED_FOR + 1))))

    def _derive_receiver(self, where: str, agent: AgentId, maker: int, number: int) -> None:
        task = self.plan.tasks[maker]
        output = task.outputs[number]
        to = output.deliver_to
        if to and (agent in to or EVERYONE in to):
            return
        added = self._receivers.get((maker, number))
        if added is None:
            self._receivers[maker, number] = {agent: None}
        elif agent in added:
            return
        else:
            added[agent] = None
        receives, params = plan_words.PROBLEMS["receives"], {"agent": agent, "name": output.name, "task": task.id}
        few = len(self._found.warnings) < TRANSLATED
        self._found.warnings.append(
            Problem(Code.PLAN_DERIVED, where, receives(**params) if few else receives.render("en", **params))
        )

    # The documents.

    def _node(self, at: int, task: TaskSpec) -> Node:
        inputs, outputs, needs = task.inputs, task.outputs, task.needs
        if at in self._needs:
            needs = (*needs, *map(TaskId, self._needs[at]))
        values = {
            **_NODE_DEFAULTS,
            "task_id": task.id,
            "assigned_agent_id": task.agent,
            "prompt": task.prompt,
            "depends_on": needs,
        }
        if inputs:
            values["inputs"] = tuple([self._input(at, number, need) for number, need in enumerate(inputs)])
        if outputs:
            values["outputs"] = tuple([self._output(at, number, each) for number, each in enumerate(outputs)])
        given = _ASKED[bool(inputs), bool(outputs)]
        if not USUAL.issuperset(task.__pydantic_fields_set__):
            rare = _rarely_said(task) | ({"race": self._raced.others[task.id]} if task.race else {})
            return make_part(Node, values | rare, given | rare.keys())
        return make_part(Node, values, given)

    def _input(self, at: int, number: int, need: InputSpec) -> Input:
        criteria = self.plan.tasks[at].criteria
        pick = need.pick or self._choices.get((at, number))
        if need.source is not None and criteria is None and pick is None and len(need.__pydantic_fields_set__) == 2:
            chosen = {**_VALUE_DEFAULTS, "type": "by_output_name", "value": need.source}
            selector = make_part(ByValue, chosen, _SELECTED)
            return make_part(Input, {**_INPUT_DEFAULTS, **_LATEST, "name": need.name, "selector": selector}, _NEEDED)
        values: dict[str, Any] = {
            "name": need.name,
            "selector": self._selector(at, number, need),
            "required": need.required,
            "external": need.external,
            "pick_policy": pick or ("all" if need.glob is not None else "latest_by_delivered_at"),
            "min_count": need.min_count,
        }
        if criteria and need.name in criteria:
            values["validation_criteria"] = ValidationCriteria.read(criteria[need.name].as_json())
        return make_part(Input, _INPUT_DEFAULTS | values, set(values))

    def _selector(self, at: int, number: int, need: InputSpec) -> ByValue | ByMessageType:
        kind, value = self._chosen(at, number, need)
        if kind == "by_message_type":
            hashes = need.allowed_hashes
            return ByMessageType.model_construct(
                type="by_message_type", type_value=value, subtype_value=need.subtype, allowed_hashes=hashes
            )
        values: dict[str, Any] = {"type": kind, "value": value}
        if need.allowed_hashes is not None:
            values["allowed_hashes"] = need.allowed_hashes
        return make_part(ByValue, _VALUE_DEFAULTS | values, set(values))

    def _chosen(self, at: int, number: int, need: InputSpec) -> tuple[str, str]:
        """Return the selector of an input, which exactly one key gives. An external input may have its name only."""
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
            what = "several keys say what fills it" if given else "no key says what fills it"
            self._found.refuse(Code.FIELD_VALUE, where, what, "write one of from, glob, file and type")
        if need.subtype is not None and need.type is None:
            self._found.refuse(Code.FIELD_VALUE, f"{where}.subtype", "a subtype without a type", "write type, too")
        return given[0] if given else ("by_file_name", need.name)

    def _output(self, at: int, number: int, output: OutputSpec) -> Output:
        added = self._receivers.get((at, number))
        values = {
            **_OUTPUT_DEFAULTS,
            "name": output.name,
            "deliver_to": output.deliver_to if added is None else (*output.deliver_to, *added),
            "deliverable": output.deliverable,
            "idempotency_key": f"{self.plan.plan_id}:{self.plan.tasks[at].id}:{output.name}",
        }
        if not _SAID.issuperset(output.__pydantic_fields_set__):
            rare: dict[str, Any] = {
                "when": output.when,
                "optional": output.optional,
                "content_type": output.content_type,
            }
            if output.versioning is not None:
                rare["versioning"] = Versioning.read(output.versioning.as_json())
            return make_part(Output, values | rare, _MADE | rare.keys())
        return make_part(Output, values, _MADE)

    def _profiles(self, dag: TaskDag) -> dict[str, AgentProfile]:
        named = {node.assigned_agent_id for node in dag.nodes}
        named.update(agent_id for node in dag.nodes for output in node.outputs for agent_id in output.deliver_to)
        named.update(map(AgentId, policy_checks.list_judges(self.plan)))
        found = {agent_id: _profile(agent_id, spec) for agent_id, spec in self.plan.agents.items()}
        named.update(each.fallback for each in (*found.values(), *self._settled.values()) if each.fallback)
        wanted = [agent_id for agent_id in self._settled if agent_id in found or agent_id in named]
        return found | {agent_id: self._settled[agent_id] for agent_id in wanted}

    def _manifest(self, profiles: Mapping[str, AgentProfile]) -> PlanManifest:
        plan = self.plan
        policies = plan.policies.as_json()
        commanders = policies.pop("commanders", None)
        deliverables = tuple(
            make_part(Deliverable, {**_DELIVERABLE_DEFAULTS, "name": output.name, "from_task_id": task.id}, _DELIVERED)
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
            policies=self._policies(policies),
            project=plan.project,
            workspace=Workspace.read(plan.workspace.as_json()) if plan.workspace else None,
            limits=PlanLimits.read(plan.limits.as_json()) if plan.limits else None,
        )

    def _policies(self, said: dict[str, Any]) -> Policies:
        policies = Policies.read(said)
        release, review = policy_checks.make_release_policy(self.plan), policy_checks.make_review_policy(self.plan)
        if release is None and review is None:
            return policies
        update = {
            "release": release,
            "review": review,
            "release_gates_required": policy_checks.list_required_gates(self.plan),
        }
        return policies.model_copy(update={name: value for name, value in update.items() if value is not None})


def _rarely_said(task: TaskSpec) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": task.name,
        "promise": task.promise,
        "timeout": task.timeout,
        "score_required": True if gives_score(task) else task.score_required,
        "score_criteria": task.score_criteria,
        "retry_times": task.retry_times,
        "priority": task.priority,
        "workspace": task.workspace,
    }
    for name, template in (("on_complete", task.on_complete), ("on_failure", task.on_failure)):
        if template is not None:
            values[name] = Notice.model_construct(message_template=template)
    if task.gates:
        values["gates"] = Gates.read(task.gates.as_json())
    if task.on_dependency_failed or task.fallback or task.reexecute_target or task.max_reexecute_times is not None:
        values["failure_policy"] = FailurePolicy.model_construct(
            on_dependency_failed=task.on_dependency_failed or ("FALLBACK" if task.fallback else "BLOCK"),
            max_reexecute_times=task.max_reexecute_times,
            reexecute_target_agent_id=task.reexecute_target,
            fallback_task_id=task.fallback,
        )
    if task.criteria:
        criteria = [task.criteria.get(need.name) for need in task.inputs]
        if criteria and criteria[0] is not None and all(other == criteria[0] for other in criteria):
            values["validation_criteria"] = ValidationCriteria.read(criteria[0].as_json())
    return values


def _profile(agent_id: str, spec: AgentSpec) -> AgentProfile:
    return AgentProfile.read({"agent_id": agent_id, **spec.as_json()})
