"""A DAG with what its checks look up again and again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.dag import EVERYONE, Node, Output, TaskDag
from agenttalk.rules.text import plan_words


def find_receivers(output: Output, dag: TaskDag) -> tuple[str, ...]:
    """Find the receivers of an output: its own `deliver_to`, else that of the first routing rule that matches."""
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


@dataclass(slots=True)
class DagGraph:
    """The DAG with what every check looks up."""

    dag: TaskDag
    agents: Collection[str] | None
    by_id: dict[str, Node] = field(init=False)
    """The first node of each id; a second one is a problem of its own."""
    index: dict[str, int] = field(init=False)
    activators: dict[str, list[str]] = field(init=False)
    """Tasks that run only when activated → the tasks whose branches do that."""
    _near: dict[tuple[str, str], str | None] = field(init=False)
    _routes: dict[tuple[str, str | None, str | None], tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_id, self.index = {}, {}
        for at, node in enumerate(self.dag.nodes):
            if node.task_id not in self.by_id:
                self.by_id[node.task_id] = node
                self.index[node.task_id] = at
        self.activators = defaultdict(list)
        self._near, self._routes = {}, {}
        for node in self.by_id.values():
            for branch in node.gates.branches if node.gates else ():
                for task_id in branch.activate:
                    self.activators[task_id].append(node.task_id)

    def suggest_name(self, what: str, name: str, known: Collection[str]) -> str:
        """Suggest a name for a misspelt one; computed once per name, and not in huge plans or for very many names."""
        key = (what, name)
        if key not in self._near:
            worth = len(known) <= 1000 and len(self._near) < 50
            self._near[key] = find_nearest(name, [each for each in known if each != name]) if worth else None
        return plan_words.HINTS["near"](name=self._near[key]) if self._near[key] else ""

    def find_receivers(self, output: Output) -> tuple[str, ...]:
        """Find the receivers of an output; outputs without their own receivers are looked up once per kind."""
        if output.deliver_to:
            return output.deliver_to
        key = (output.name, output.content_type, output.versioning.tag)
        if key not in self._routes:
            self._routes[key] = find_receivers(output, self.dag)
        return self._routes[key]

    def list_named_agents(self) -> set[str]:
        """List every agent that is named as a worker or receiver; far quicker than with its place."""
        named: set[str] = {node.assigned_agent_id for node in self.dag.nodes}
        named.update(*(output.deliver_to for node in self.dag.nodes for output in node.outputs))
        named.update(*(rule.deliver_to for rule in self.dag.routing_rules))
        named.update(
            node.failure_policy.reexecute_target_agent_id
            for node in self.dag.nodes
            if node.failure_policy and node.failure_policy.reexecute_target_agent_id
        )
        return named - {EVERYONE}

    def locate_field(self, node: Node, rest: str) -> str:
        """Return the place of a field of a node."""
        return f"nodes[{self.index[node.task_id]}].{rest}"

    def walk_nodes(self) -> Iterator[tuple[str, Node]]:
        """Yield every node with its place, duplicates of an id included."""
        return ((f"nodes[{at}]", node) for at, node in enumerate(self.dag.nodes))
