"""Whether a DAG is plainly fine, told in one look at each task. Most are, and the larger they are the more so."""

from __future__ import annotations

from collections.abc import Collection

from agenttalk.contracts.dag import EVERYONE, Node, Output, TaskDag


def is_plain(dag: TaskDag, agents: Collection[str] | None) -> bool:
    """True only if the checks of `dag_checks` would find nothing.

    Every task comes after those that it depends on, they bring it what it needs, and nothing about it calls for
    a closer look.
    """
    if dag.routing_rules:
        return False
    known: dict[str, tuple[Output, ...]] = {}
    team = frozenset(agents) if agents is not None else None
    receivers = team | {EVERYONE} if team is not None else None
    for node in dag.nodes:
        if node.failure_policy or node.gates or node.race or node.task_id in known:
            return False
        if team is not None and node.assigned_agent_id not in team:
            return False
        if not known.keys() >= set(node.depends_on) or not _is_supplied(node, known):
            return False
        if node.outputs and not _are_received(node.outputs, receivers):
            return False
        known[node.task_id] = node.outputs
    return True


def _is_supplied(node: Node, known: dict[str, tuple[Output, ...]]) -> bool:
    """Whether the dependencies of a task deliver everything to its agent that it cannot do without."""
    for need in node.inputs:
        if need.min_count or need.pick_policy == "by_sha256":
            return False
        if not need.required or need.external:
            continue
        selector = need.selector
        if selector.type != "by_output_name":
            return False
        for task_id in node.depends_on:
            if _brings(known[task_id], selector.value, node.assigned_agent_id):
                break
        else:
            return False
    return bool(node.inputs) or not node.required_inputs  # the older spelling is left to the checks


def _brings(outputs: tuple[Output, ...], name: str, agent_id: str) -> bool:
    for output in outputs:
        if output.name == name and (agent_id in output.deliver_to or EVERYONE in output.deliver_to):
            return True
    return False


def _are_received(outputs: tuple[Output, ...], receivers: frozenset[str] | None) -> bool:
    """Return whether outputs have names of their own, and a receiver."""
    if len(outputs) > 1 and len({output.name for output in outputs}) < len(outputs):
        return False
    for output in outputs:
        if not (output.deliver_to or output.deliverable):
            return False
        if receivers is not None and not receivers.issuperset(output.deliver_to):
            return False
    return True
