"""Which tasks of a DAG can ever run, because everything that they need can arrive."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final

from agenttalk.contracts.dag import EVERYONE, ByMessageType, Input, Node
from agenttalk.rules.core.globs import NameIndex, match_names
from agenttalk.rules.plans.dag_graph import DagGraph

GLOB_BUDGET: Final = 5_000_000
"""How many names globs may be held against before we give up (some seconds)."""


def _needs(node: Node) -> list[Input]:
    return [need for need in node.needs if need.required and not need.external]


def find_reachable(graph: DagGraph, supply: InputSupply) -> set[str]:
    """Find the tasks that can ever run: all dependencies can, and a maker of each required input can.

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
        brought = supply.find_delivered_outputs(before, node) if needs else set()
        open_needs = [need for need in needs if not supply.is_filled_by(brought, need)]
        for need in open_needs:
            groups.join(node.task_id, supply.find_makers(node, need))
        waiting[node.task_id] = len(before) + len(open_needs)
        if node.task_id in graph.activators:
            groups.join(node.task_id, graph.activators[node.task_id])
            waiting[node.task_id] += 1
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
        """Join the group of these makers. The same list object is the same group."""
        group = id(makers)
        if group not in self._waiting:
            self._waiting[group] = []
            for maker in makers:
                self._of_maker[maker].append(group)
        self._waiting[group].append(task_id)

    def open(self, maker: str) -> list[str]:
        """List the tasks that this maker unblocks."""
        return [task_id for group in self._of_maker.get(maker, ()) for task_id in self._waiting.pop(group, ())]


class InputSupply:
    """Which tasks can fill an input: those with a matching output that reaches the input's agent."""

    def __init__(self, graph: DagGraph) -> None:
        self._graph = graph
        self.named: dict[str, list[str]] = defaultdict(list)
        self.exhausted = False
        self._for_agent: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        self._index: dict[str, NameIndex] = {}
        self._found: dict[tuple[str, str, str], list[str]] = {}
        self._parts: dict[tuple[str, str, str], list[str]] = {}
        self._budget = GLOB_BUDGET
        for node in graph.by_id.values():
            for output in node.outputs:
                self.named[output.name].append(node.task_id)
                for agent_id in graph.find_receivers(output):
                    self._for_agent[agent_id][output.name].append(node.task_id)

    def find_delivered_outputs(self, before: Iterable[str], node: Node) -> set[str]:
        """Names of outputs that a task's dependencies deliver to it."""
        agent_id, nodes = node.assigned_agent_id, self._graph.by_id
        return {
            output.name
            for task_id in before
            for output in nodes[task_id].outputs
            if agent_id in (to := self._graph.find_receivers(output)) or EVERYONE in to
        }

    def is_filled_by(self, names: set[str], need: Input) -> bool:
        """Whether one of these outputs fills the input: the usual case, told without listing all makers."""
        selector = need.selector
        if isinstance(selector, ByMessageType):
            return bool(names)
        if selector.type == "by_output_name":
            return selector.value in names
        if selector.type == "by_glob":
            self._budget -= len(names)
            if match_names(selector.value, names):
                return True
        # A file may lie in an output that is a folder: one that is named on the way to it, or has no ending.
        return any("." not in name for name in names) or not names.isdisjoint(_steps(selector.value))

    def has_delivered_folder(self, node: Node, need: Input) -> bool:
        """Whether a dependency brings a folder, which may hold any number of files."""
        names = self.find_delivered_outputs([task for task in node.depends_on if task in self._graph.by_id], node)
        return need.selector.type != "by_output_name" and any("." not in name for name in names)

    def find_makers(self, node: Node, need: Input) -> list[str]:
        """Tasks that can fill the input. The same need of the same agent gets the very same list."""
        selector = need.selector
        value = "*" if isinstance(selector, ByMessageType) else selector.value
        key = (node.assigned_agent_id, selector.type, value)
        if key not in self._found:
            own, common = self._makers(*key), self._makers(EVERYONE, selector.type, value)
            self._found[key] = own + common if own else common
        return self._found[key]

    def _makers(self, agent_id: str, how: str, value: str) -> list[str]:
        key = (agent_id, how, value)
        if key not in self._parts:
            self._parts[key] = self._looked_up(agent_id, how, value)
        return self._parts[key]

    def _looked_up(self, agent_id: str, how: str, value: str) -> list[str]:
        outputs = self._for_agent.get(agent_id)
        if outputs is None:
            return []
        if how == "by_output_name":
            return outputs.get(value, [])
        named = [task_id for name in sorted({value, *_steps(value)}) for task_id in outputs.get(name, ())]
        if how == "by_file_name":
            return named
        if agent_id not in self._index:
            self._index[agent_id] = NameIndex(outputs)
        candidates = self._index[agent_id].candidates(value)
        self._budget -= len(candidates)
        if self._budget < 0:
            self.exhausted = True
            return []
        return [task_id for name in match_names(value, candidates) for task_id in outputs[name]] or named


def _steps(path: str) -> set[str]:
    """List the folders on the way to a file, and its last part: `a/b/c` → `a`, `a/b`, `c`."""
    parts = path.split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))} | {parts[-1]}
