"""Whether a DAG can work at all. Every problem is named at once; the cost is linear in its size."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.core.large_documents import pause_collector
from agenttalk.contracts.dag import EVERYONE, ByMessageType, FailurePolicy, Input, Node, TaskDag
from agenttalk.contracts.errors import Code, Problem
from agenttalk.rules.plans import dag_fast_check
from agenttalk.rules.plans.dag_graph import DagGraph
from agenttalk.rules.plans.dag_supply import InputSupply, find_reachable
from agenttalk.rules.proof.release import is_for_engine
from agenttalk.rules.text import plan_words

_SHOWN: Final = 12
"""How many tasks of a long circle are printed."""
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


def check(dag: TaskDag, *, agents: Collection[str] | None = None, foreign: bool = False) -> DagReport:
    """Find every problem of a DAG. `agents` are those of the plan, None when unknown.

    In a foreign DAG inputs may come and outputs may go by ways that we do not see, so what is wrong
    with them is only a warning.
    """
    with pause_collector():
        if dag_fast_check.is_plain(dag, agents):
            return DagReport()
        graph = DagGraph(dag, agents)
        supply = InputSupply(graph)
        reached = find_reachable(graph, supply)
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


def _duplicates(graph: DagGraph) -> Iterator[Problem]:
    counts = Counter(node.task_id for node in graph.dag.nodes)
    if len(counts) < len(graph.dag.nodes):
        for at, node in enumerate(graph.dag.nodes):
            if counts[node.task_id] > 1 and graph.index[node.task_id] != at:
                yield _problem(
                    Code.DAG_TASK_DUPLICATE,
                    f"nodes[{at}].task_id",
                    plan_words.PROBLEMS["task_twice"](task=node.task_id),
                    plan_words.HINTS["own_task_id"](),
                )
    for place, node in graph.walk_nodes():
        if len(node.outputs) < 2:
            continue
        names = [output.name for output in node.outputs]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield _problem(
                Code.DAG_OUTPUT_DUPLICATE,
                f"{place}.outputs",
                plan_words.PROBLEMS["output_twice"](task=node.task_id, name=name),
                plan_words.HINTS["own_output_name"](),
            )


def _unknown_tasks(graph: DagGraph) -> Iterator[Problem]:
    for place, node in graph.walk_nodes():
        for rest, task_id in _task_references(node):
            if task_id not in graph.by_id:
                yield _problem(
                    Code.DAG_TASK_UNKNOWN,
                    f"{place}.{rest}",
                    plan_words.PROBLEMS["no_such_task"](task=node.task_id, name=task_id),
                    graph.suggest_name("task", task_id, graph.by_id) or plan_words.HINTS["add_task"](),
                )


def _task_references(node: Node) -> Iterator[tuple[str, str]]:
    for at, task_id in enumerate(node.depends_on):
        yield f"depends_on[{at}]", task_id
    for at, task_id in enumerate(node.race):
        yield f"race[{at}]", task_id
    if node.failure_policy and node.failure_policy.fallback_task_id:
        yield "failure_policy.fallback_task_id", node.failure_policy.fallback_task_id
    if node.gates:
        for at, branch in enumerate(node.gates.branches):
            for inner, task_id in enumerate(branch.activate):
                yield f"gates.branches[{at}].activate[{inner}]", task_id
        for name in node.gates.thresholds:
            if name.endswith(_MIN_SCORE):
                yield f"gates.thresholds.{name}", name.removesuffix(_MIN_SCORE)


def _unknown_agents(graph: DagGraph) -> Iterator[Problem]:
    if graph.agents is None or graph.list_named_agents() <= set(graph.agents):
        return
    for where, agent_id in _agent_references(graph):
        if agent_id != EVERYONE and agent_id not in graph.agents:
            yield _problem(
                Code.DAG_AGENT_UNKNOWN,
                where,
                plan_words.PROBLEMS["no_such_agent"](name=agent_id),
                graph.suggest_name("agent", agent_id, graph.agents) or plan_words.HINTS["add_agent"](),
            )


def _agent_references(graph: DagGraph) -> Iterator[tuple[str, str]]:
    for place, node in graph.walk_nodes():
        yield f"{place}.assigned_agent_id", node.assigned_agent_id
        for at, output in enumerate(node.outputs):
            for inner, agent_id in enumerate(output.deliver_to):
                yield f"{place}.outputs[{at}].deliver_to[{inner}]", agent_id
        if node.failure_policy and node.failure_policy.reexecute_target_agent_id:
            yield f"{place}.failure_policy.reexecute_target_agent_id", node.failure_policy.reexecute_target_agent_id
    for at, rule in enumerate(graph.dag.routing_rules):
        for inner, agent_id in enumerate(rule.deliver_to):
            yield f"routing_rules[{at}].deliver_to[{inner}]", agent_id


def _bad_fallbacks(graph: DagGraph) -> Iterator[Problem]:
    """Check fallbacks: one replaces a failed dependency, makes the same outputs, and waits for neither side."""
    for place, node in graph.walk_nodes():
        policy = node.failure_policy
        if policy is None:
            continue
        wrong = _fallback_fault(graph, node, policy)
        if wrong:
            yield _problem(Code.DAG_FALLBACK_INVALID, f"{place}.failure_policy.fallback_task_id", *wrong)


def _fallback_fault(graph: DagGraph, node: Node, policy: FailurePolicy) -> tuple[str, str] | None:
    fallback_id = policy.fallback_task_id
    if fallback_id is None:
        needed = policy.on_dependency_failed == "FALLBACK"
        return (plan_words.PROBLEMS["fallback_missing"](), plan_words.HINTS["name_task"]()) if needed else None
    if fallback_id == node.task_id or fallback_id in node.depends_on:
        return plan_words.PROBLEMS["fallback_itself"](name=fallback_id), plan_words.HINTS["free_task"]()
    fallback = graph.by_id.get(fallback_id)
    if fallback is None:
        return None  # told as an unknown task
    late = [task for task in (node.task_id, *node.depends_on) if task in fallback.depends_on]
    if late:
        waits = plan_words.PROBLEMS["fallback_waits"](name=fallback_id, tasks=_listed(set(late)))
        return waits, plan_words.HINTS["cut_dependency"]()
    made = {output.name for output in fallback.outputs}
    replaced = [graph.by_id[task] for task in node.depends_on if task in graph.by_id]
    if not replaced or any({output.name for output in each.outputs} == made for each in replaced):
        return None
    needed_names = {output.name for each in replaced for output in each.outputs}
    return (
        plan_words.PROBLEMS["fallback_outputs"](name=fallback_id, made=_listed(made), needed=_listed(needed_names)),
        plan_words.HINTS["same_outputs"](),
    )


def _cycles(graph: DagGraph, reached: set[str]) -> Iterator[Problem]:
    """Report one cycle of each strongly connected set of tasks, printed as a path."""
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


def _circle_problem(graph: DagGraph, circle: list[str]) -> Problem:
    first = min(range(len(circle)), key=lambda at: graph.index[circle[at]])
    turned = circle[first:] + circle[:first]
    shown = turned if len(turned) <= _SHOWN else [*turned[: _SHOWN - 1], f"… {len(turned) - _SHOWN + 1} more …"]
    return _problem(
        Code.DAG_CYCLE,
        graph.locate_field(graph.by_id[turned[0]], "depends_on"),
        plan_words.PROBLEMS["circle"](path=" → ".join([*shown, turned[0]])),
        plan_words.HINTS["cut_one"](),
    )


def _unreachable_inputs(graph: DagGraph, supply: InputSupply, reached: set[str]) -> Iterator[Problem]:
    """Inputs that can never arrive: nothing makes them, or only what itself waits for this task."""
    if supply.exhausted:
        yield _problem(
            Code.DAG_TOO_COMPLEX,
            "nodes",
            plan_words.PROBLEMS["too_complex"](),
            plan_words.HINTS["simpler_globs"](),
        )
        return
    for node in graph.by_id.values():
        for at, need in enumerate(node.inputs):
            if need.pick_policy == "by_sha256" or need.min_count:
                yield from _unpickable(graph, node, at, need, supply)
        if node.task_id in reached:
            continue
        # Behind a task that cannot run everything is late; only the foremost is to blame.
        foremost = all(task in reached or task not in graph.by_id for task in node.depends_on)
        activators = graph.activators.get(node.task_id, [])
        if foremost and activators and not any(task in reached for task in activators):
            yield _problem(
                Code.DAG_BRANCH_INVALID,
                graph.locate_field(node, "task_id"),
                plan_words.PROBLEMS["activated_late"](task=node.task_id, names=_listed(set(activators))),
                plan_words.HINTS["later_task"](),
            )
        for at, need in enumerate(node.needs):
            if not need.required or need.external:
                continue
            makers = [task_id for task_id in supply.find_makers(node, need) if task_id != node.task_id]
            if not makers or (foremost and not any(maker in reached for maker in makers)):
                yield _unreachable(graph, node, at, makers, supply)


def _unpickable(graph: DagGraph, node: Node, at: int, need: Input, supply: InputSupply) -> Iterator[Problem]:
    """Report an input whose pick policy can never be satisfied."""
    where = graph.locate_field(node, f"inputs[{at}]")
    if need.policy == "by_sha256" and not need.selector.allowed_hashes:
        message = plan_words.PROBLEMS["no_hash"](name=need.name, task=node.task_id)
        yield _problem(Code.DAG_INPUT_UNREACHABLE, where, message, plan_words.HINTS["allow_hashes"]())
    if need.min_count and need.required and not need.external and need.min_count > 1:
        coming = sum(maker != node.task_id for maker in supply.find_makers(node, need))  # once for each output
        if 0 < coming < need.min_count and not supply.has_delivered_folder(node, need):
            message = plan_words.PROBLEMS["too_few"](
                name=need.name, task=node.task_id, wanted=need.min_count, coming=coming
            )
            yield _problem(Code.DAG_INPUT_UNREACHABLE, where, message, plan_words.HINTS["fewer"]())


def _unreachable(graph: DagGraph, node: Node, at: int, makers: list[str], supply: InputSupply) -> Problem:
    selector = node.needs[at].selector
    wanted = selector.type_value if isinstance(selector, ByMessageType) else selector.value
    about = {"task": node.task_id, "wanted": wanted}
    others = {task_id for task_id in supply.named.get(wanted, ()) if task_id != node.task_id}
    if makers:
        message = plan_words.PROBLEMS["only_later"](**about, names=_listed(set(makers)))
        hint: str = plan_words.HINTS["cut_circle"]()
    elif others:
        agent = node.assigned_agent_id
        message = plan_words.PROBLEMS["not_delivered"](**about, names=_listed(others), agent=agent)
        hint = plan_words.HINTS["deliver"](agent=agent)
    else:
        own = wanted in supply.named
        message = plan_words.PROBLEMS["only_itself"](**about) if own else plan_words.PROBLEMS["nothing_makes"](**about)
        hint = graph.suggest_name("output", wanted, supply.named) or plan_words.HINTS["declare_output"]()
    rest = f"inputs[{at}]" if node.inputs else f"required_inputs[{at}]"
    return _problem(Code.DAG_INPUT_UNREACHABLE, graph.locate_field(node, rest), message, hint)


def _unreceived_outputs(graph: DagGraph) -> Iterator[Problem]:
    for place, node in graph.walk_nodes():
        for at, output in enumerate(node.outputs):
            if not output.deliverable and not graph.find_receivers(output) and not is_for_engine(output.name):
                yield _problem(
                    Code.DAG_OUTPUT_UNRECEIVED,
                    f"{place}.outputs[{at}]",
                    plan_words.PROBLEMS["unreceived"](name=output.name, task=node.task_id),
                    plan_words.HINTS["name_receiver"](),
                )


def _listed(names: set[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return (", ".join(repr(name) for name in shown[:3]) + more) if shown else "nothing"


def _problem(code: Code, where: str, message: str, hint: str) -> Problem:
    return Problem(code=code, field=where, message=message, hint=hint)
