"""Whether a DAG can work at all. Every problem is named at once; the cost is linear in its size."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from agenttalk.contracts.dag import EVERYONE, ByMessageType, Input, Node, Output, TaskDag
from agenttalk.contracts.memory import collector_paused
from agenttalk.contracts.problem import nearest
from agenttalk.errors import Code, Problem
from agenttalk.rules.globs import NameIndex, matching

_SHOWN: Final = 12
"""How many tasks of a long circle are printed."""
_GLOB_BUDGET: Final = 5_000_000
"""How many names globs may be held against before we give up (some seconds)."""
_MIN_SCORE: Final = "_min_score"


@dataclass(frozen=True, slots=True)
class DagReport:
    """What is wrong with a DAG, and what is doubtful."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the DAG may be put in force."""
        return not self.problems


@dataclass(slots=True)
class _Graph:
    """The DAG with what every check looks up."""

    dag: TaskDag
    agents: Collection[str] | None
    by_id: dict[str, Node] = field(init=False)
    index: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.by_id = {node.task_id: node for node in self.dag.nodes}
        self.index = {node.task_id: at for at, node in enumerate(self.dag.nodes)}

    def agents_named(self) -> set[str]:
        """Every agent that is named as a worker or receiver; far quicker than with its place."""
        named: set[str] = {node.assigned_agent_id for node in self.dag.nodes}
        named.update(*(output.deliver_to for node in self.dag.nodes for output in node.outputs))
        named.update(*(rule.deliver_to for rule in self.dag.routing_rules))
        named.update(
            node.failure_policy.reexecute_target_agent_id
            for node in self.dag.nodes
            if node.failure_policy and node.failure_policy.reexecute_target_agent_id
        )
        return named - {EVERYONE}

    def where(self, node: Node, rest: str) -> str:
        return f"nodes[{self.index[node.task_id]}].{rest}"


def check(dag: TaskDag, *, agents: Collection[str] | None = None, foreign: bool = False) -> DagReport:
    """Every problem of a DAG. `agents` are those of the plan, None when unknown.

    In a foreign DAG inputs may come and outputs may go by ways that we do not see, so what is wrong
    with them is only a warning.
    """
    with collector_paused():
        graph = _Graph(dag, agents)
        supply = _Supply(graph)
        reached = _reachable(graph, supply)
        problems = [
            *_duplicates(graph),
            *_unknown_tasks(graph),
            *_unknown_agents(graph),
            *_bad_fallbacks(graph),
            *_cycles(graph, reached),
        ]
        flow = [*_unreachable_inputs(graph, supply, reached), *_unreceived_outputs(graph)]
    if foreign:
        return DagReport(tuple(problems), tuple(flow))
    return DagReport(tuple(problems + flow))


def receivers(output: Output, dag: TaskDag) -> tuple[str, ...]:
    """Who receives an output: its own `deliver_to`, else that of the first routing rule that matches."""
    if output.deliver_to:
        return output.deliver_to
    for rule in dag.routing_rules:
        match = rule.match
        if (
            (match.output_name is None or match.output_name == output.name)
            and (match.content_type is None or match.content_type == output.content_type)
            and (match.tag is None or match.tag == output.versioning.tag)
        ):
            return rule.deliver_to
    return ()


def _duplicates(graph: _Graph) -> Iterator[Problem]:
    counts = Counter(node.task_id for node in graph.dag.nodes)
    if len(counts) < len(graph.dag.nodes):
        for at, node in enumerate(graph.dag.nodes):
            if counts[node.task_id] > 1 and graph.index[node.task_id] != at:
                yield _problem(
                    Code.DAG_TASK_DUPLICATE,
                    f"nodes[{at}].task_id",
                    f"there is another task {node.task_id!r}",
                    "give each task an id of its own",
                )
    for node in graph.dag.nodes:
        names = [output.name for output in node.outputs]
        for name in sorted({name for name in names if len(names) > 1 and names.count(name) > 1}):
            yield _problem(
                Code.DAG_OUTPUT_DUPLICATE,
                graph.where(node, "outputs"),
                f"task {node.task_id!r} declares the output {name!r} twice",
                "give each output a name of its own",
            )


def _unknown_tasks(graph: _Graph) -> Iterator[Problem]:
    for node in graph.dag.nodes:
        for rest, task_id in _task_references(node):
            if task_id not in graph.by_id:
                near = nearest(task_id, graph.by_id) if len(graph.by_id) <= 1000 else None
                yield _problem(
                    Code.DAG_TASK_UNKNOWN,
                    graph.where(node, rest),
                    f"task {node.task_id!r} refers to the task {task_id!r}, which does not exist",
                    f"did you mean {near!r}?" if near else "add the task or remove the reference",
                )


def _task_references(node: Node) -> Iterator[tuple[str, str]]:
    for at, task_id in enumerate(node.depends_on):
        yield f"depends_on[{at}]", task_id
    if node.failure_policy and node.failure_policy.fallback_task_id:
        yield "failure_policy.fallback_task_id", node.failure_policy.fallback_task_id
    if node.gates:
        for at, branch in enumerate(node.gates.branches):
            for inner, task_id in enumerate(branch.activate):
                yield f"gates.branches[{at}].activate[{inner}]", task_id
        for name in node.gates.thresholds:
            if name.endswith(_MIN_SCORE):
                yield f"gates.thresholds.{name}", name.removesuffix(_MIN_SCORE)


def _unknown_agents(graph: _Graph) -> Iterator[Problem]:
    if graph.agents is None or graph.agents_named() <= set(graph.agents):
        return
    for where, agent_id in _agent_references(graph):
        if agent_id != EVERYONE and agent_id not in graph.agents:
            near = nearest(agent_id, graph.agents) if len(graph.agents) <= 1000 else None
            yield _problem(
                Code.DAG_AGENT_UNKNOWN,
                where,
                f"the plan has no agent {agent_id!r}",
                f"did you mean {near!r}?" if near else "add the agent or name another",
            )


def _agent_references(graph: _Graph) -> Iterator[tuple[str, str]]:
    for node in graph.dag.nodes:
        yield graph.where(node, "assigned_agent_id"), node.assigned_agent_id
        for at, output in enumerate(node.outputs):
            for inner, agent_id in enumerate(output.deliver_to):
                yield graph.where(node, f"outputs[{at}].deliver_to[{inner}]"), agent_id
        if node.failure_policy and node.failure_policy.reexecute_target_agent_id:
            yield (
                graph.where(node, "failure_policy.reexecute_target_agent_id"),
                node.failure_policy.reexecute_target_agent_id,
            )
    for at, rule in enumerate(graph.dag.routing_rules):
        for inner, agent_id in enumerate(rule.deliver_to):
            yield f"routing_rules[{at}].deliver_to[{inner}]", agent_id


def _bad_fallbacks(graph: _Graph) -> Iterator[Problem]:
    """A fallback takes the place of each dependency that may fail, so it must make what those make."""
    for node in graph.dag.nodes:
        policy = node.failure_policy
        if policy is None or policy.on_dependency_failed != "FALLBACK":
            continue
        where = graph.where(node, "failure_policy.fallback_task_id")
        fallback_id = policy.fallback_task_id
        if fallback_id is None:
            yield _problem(Code.DAG_FALLBACK_INVALID, where, "FALLBACK needs a fallback_task_id", "name the task")
            continue
        fallback = graph.by_id.get(fallback_id)
        if fallback_id == node.task_id or fallback_id in node.depends_on:
            yield _problem(
                Code.DAG_FALLBACK_INVALID,
                where,
                f"{fallback_id!r} cannot stand in for itself or for what it feeds",
                "name a task that nothing here depends on",
            )
        elif fallback is not None:
            made = {output.name for output in fallback.outputs}
            for failed in (graph.by_id[task] for task in node.depends_on if task in graph.by_id):
                needed = {output.name for output in failed.outputs}
                if needed != made:
                    yield _problem(
                        Code.DAG_FALLBACK_INVALID,
                        where,
                        f"{fallback_id!r} makes {_listed(made)}, but {failed.task_id!r}, "
                        f"whose place it would take, makes {_listed(needed)}",
                        "declare the same outputs",
                    )


def _cycles(graph: _Graph, reached: set[str]) -> Iterator[Problem]:
    """One circle for each knot of tasks that hang together, printed as a path."""
    # A task that can run is on no circle.
    left = {task_id for task_id in graph.by_id if task_id not in reached}
    waiting = {task_id: sum(task in left for task in graph.by_id[task_id].depends_on) for task_id in left}
    followers: dict[str, list[str]] = defaultdict(list)
    for task_id in left:
        for before in graph.by_id[task_id].depends_on:
            followers[before].append(task_id)
    ready = deque(task_id for task_id, count in waiting.items() if not count)
    while ready:
        freed = ready.popleft()
        left.discard(freed)
        for follower in followers[freed]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    # What is left is on a circle or behind one. Each of them has a dependency that is left too, so
    # walking backwards must come to a task that was walked over before.
    walked: dict[str, int] = {}
    for number, start in enumerate(sorted(left, key=graph.index.__getitem__)):
        path = []
        at = start
        while at not in walked:
            walked[at] = number
            path.append(at)
            at = next(task for task in graph.by_id[at].depends_on if task in left)
        if walked[at] == number and path:
            circle = path[path.index(at) :][::-1]
            yield _circle_problem(graph, circle)


def _circle_problem(graph: _Graph, circle: list[str]) -> Problem:
    first = min(range(len(circle)), key=lambda at: graph.index[circle[at]])
    turned = circle[first:] + circle[:first]
    shown = turned if len(turned) <= _SHOWN else [*turned[: _SHOWN - 1], f"… {len(turned) - _SHOWN + 1} more …"]
    return _problem(
        Code.DAG_CYCLE,
        graph.where(graph.by_id[turned[0]], "depends_on"),
        "tasks wait for each other in a circle: " + " → ".join([*shown, turned[0]]),
        "remove one of these dependencies",
    )


def _unreachable_inputs(graph: _Graph, supply: _Supply, reached: set[str]) -> Iterator[Problem]:
    """Inputs that can never arrive: nothing makes them, or only what itself waits for this task."""
    for node in graph.by_id.values():
        if node.task_id in reached:
            continue
        # Behind a task that cannot run everything is late; only the foremost is to blame.
        foremost = all(task in reached or task not in graph.by_id for task in node.depends_on)
        for need in _needs(node):
            makers = [task_id for task_id in supply.makers(node, need) if task_id != node.task_id]
            if not makers or (foremost and not any(maker in reached for maker in makers)):
                yield _unreachable(graph, node, need, makers, supply)
    if supply.exhausted:
        yield _problem(
            Code.DAG_TOO_COMPLEX,
            "nodes",
            "there are too many different globs over too many outputs to tell whether all inputs can arrive",
            "begin or end the globs with fixed text, or select outputs by name",
        )


def _needs(node: Node) -> list[Input]:
    return [need for need in node.inputs if need.required and not need.external]


def _reachable(graph: _Graph, supply: _Supply) -> set[str]:
    """The tasks that can ever run: all they depend on can, and for each required input some maker can.

    Kahn's algorithm, where an input waits for any one of its makers. Tasks with the same need share one
    group of makers, so the work does not grow with the product of tasks and makers.
    """
    followers: dict[str, list[str]] = defaultdict(list)
    groups = _Groups()
    waiting: dict[str, int] = {}
    for node in graph.by_id.values():
        before = [task_id for task_id in node.depends_on if task_id in graph.by_id]
        for earlier in before:
            followers[earlier].append(node.task_id)
        needs = _needs(node)
        brought = supply.brought_by(before, node) if needs else set()
        open_needs = [need for need in needs if not supply.among(brought, need)]
        for need in open_needs:
            groups.join(node.task_id, supply.makers(node, need))
        waiting[node.task_id] = len(before) + len(open_needs)
    ready = deque(task_id for task_id, count in waiting.items() if not count)
    reached = set(ready)
    while ready:
        done = ready.popleft()
        for follower in (*followers.get(done, ()), *groups.open(done)):
            waiting[follower] -= 1
            if not waiting[follower]:
                reached.add(follower)
                ready.append(follower)
    return reached


class _Groups:
    """Tasks that wait for any one of a list of makers. The first maker that can run sets them free."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[str]] = {}
        self._of_maker: dict[str, list[int]] = defaultdict(list)

    def join(self, task_id: str, makers: list[str]) -> None:
        """The same list of makers (the very object) is the same group."""
        group = id(makers)
        if group not in self._waiting:
            self._waiting[group] = []
            for maker in makers:
                self._of_maker[maker].append(group)
        self._waiting[group].append(task_id)

    def open(self, maker: str) -> list[str]:
        """The tasks that this maker sets free."""
        return [task_id for group in self._of_maker.get(maker, ()) for task_id in self._waiting.pop(group, ())]


class _Supply:
    """Which tasks can fill an input: those with a matching output that reaches the input's agent."""

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph
        self.named: dict[str, list[str]] = defaultdict(list)
        self.exhausted = False
        self._for_agent: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        self._index: dict[str, NameIndex] = {}
        self._found: dict[tuple[str, str, str], list[str]] = {}
        self._budget = _GLOB_BUDGET
        for node in graph.by_id.values():
            for output in node.outputs:
                self.named[output.name].append(node.task_id)
                for agent_id in receivers(output, graph.dag):
                    self._for_agent[agent_id][output.name].append(node.task_id)

    def brought_by(self, before: Iterable[str], node: Node) -> set[str]:
        """Names of outputs that a task's dependencies deliver to it."""
        agent_id, nodes = node.assigned_agent_id, self._graph.by_id
        return {
            output.name
            for task_id in before
            for output in nodes[task_id].outputs
            if agent_id in (to := receivers(output, self._graph.dag)) or EVERYONE in to
        }

    def among(self, names: set[str], need: Input) -> bool:
        """Whether one of these outputs fills the input: the usual case, told without listing all makers."""
        selector = need.selector
        if isinstance(selector, ByMessageType):
            return bool(names)
        if selector.type == "by_glob":
            self._budget -= len(names)
            return bool(matching(selector.value, names))
        return selector.value in names

    def makers(self, node: Node, need: Input) -> list[str]:
        """Tasks that can fill the input. The same need of the same agent gets the very same list."""
        selector = need.selector
        value = "*" if isinstance(selector, ByMessageType) else selector.value
        key = (node.assigned_agent_id, selector.type, value)
        if key not in self._found:
            self._found[key] = self._makers(node.assigned_agent_id, selector.type, value) + self._makers(
                EVERYONE, selector.type, value
            )
        return self._found[key]

    def _makers(self, agent_id: str, how: str, value: str) -> list[str]:
        outputs = self._for_agent.get(agent_id)
        if outputs is None:
            return []
        if how == "by_output_name":
            return outputs.get(value, [])
        if how == "by_file_name":
            # A file is an output of its own or lies in one that is a folder.
            names = {value, value.partition("/")[0], value.rpartition("/")[2]}
            return [task_id for name in sorted(names) for task_id in outputs.get(name, ())]
        if agent_id not in self._index:
            self._index[agent_id] = NameIndex(outputs)
        candidates = self._index[agent_id].candidates(value)
        self._budget -= len(candidates)
        if self._budget < 0:
            self.exhausted = True
            return []
        return [task_id for name in matching(value, candidates) for task_id in outputs[name]]


def _unreachable(graph: _Graph, node: Node, need: Input, makers: list[str], supply: _Supply) -> Problem:
    selector = need.selector
    wanted = selector.type_value if isinstance(selector, ByMessageType) else selector.value
    at = node.inputs.index(need)
    message = f"task {node.task_id!r} needs {wanted!r}, which "
    others = [task_id for task_id in supply.named.get(wanted, ()) if task_id != node.task_id]
    if makers:
        message += f"only {_listed(set(makers))} can make, and that waits for this task"
        hint = "remove the circle"
    elif others:
        message += f"{_listed(set(others))} makes but does not deliver to {node.assigned_agent_id!r}"
        hint = f"add {node.assigned_agent_id!r} to that output's deliver_to"
    else:
        near = nearest(wanted, supply.named) if len(supply.named) <= 1000 else None
        message += "nothing makes"
        hint = f"did you mean {near!r}?" if near else "declare the output, or mark the input as external"
    return _problem(Code.DAG_INPUT_UNREACHABLE, graph.where(node, f"inputs[{at}]"), message, hint)


def _unreceived_outputs(graph: _Graph) -> Iterator[Problem]:
    for node in graph.dag.nodes:
        for at, output in enumerate(node.outputs):
            if not output.deliverable and not receivers(output, graph.dag):
                yield _problem(
                    Code.DAG_OUTPUT_UNRECEIVED,
                    graph.where(node, f"outputs[{at}]"),
                    f"nobody receives the output {output.name!r} of task {node.task_id!r}",
                    "name who gets it in deliver_to, or mark it as a deliverable",
                )


def _listed(names: set[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return (", ".join(repr(name) for name in shown[:3]) + more) if shown else "nothing"


def _problem(code: Code, where: str, message: str, hint: str) -> Problem:
    return Problem(code=code, field=where, message=message, hint=hint)
