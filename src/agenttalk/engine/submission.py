"""Taking in a plan that the engine is to run: all of it, or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from agenttalk.contracts import places, wire
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import PRIORITIES
from agenttalk.contracts.dag import Node, TaskDag
from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine import records
from agenttalk.engine.deps import Deps
from agenttalk.engine.plans import DEFAULT, place
from agenttalk.engine.sheets import settings_of
from agenttalk.errors import Code, UsageError
from agenttalk.ports import Store, Tx

_AT_ONCE: Final = 5_000
"""Tasks that one transaction takes in."""


async def submit(
    deps: Deps, dag: TaskDag, manifest: PlanManifest, profiles: Mapping[str, AgentProfile], *, board: str = DEFAULT
) -> bool:
    """Have a plan run. False when this very plan was submitted before: then nothing changes.

    Raises UsageError when there is another plan of that id.
    """
    store = await place(deps, dag.plan_id, board)
    dag_bytes, manifest_bytes = dag.to_bytes(), manifest.to_bytes()
    sha256 = wire.sha256(dag_bytes)
    settings = settings_of(manifest.policies, dict(profiles))
    at = deps.stamp()
    known = await store.read("plan", plan_id=dag.plan_id)
    runs = await store.read("run", plan_id=dag.plan_id) if known else []
    if runs and runs[0][0] != "SUBMITTED":
        return _same(dag.plan_id, runs[0], sha256, settings)
    if known and known[0][1] != "engine":
        raise _taken(dag.plan_id, "it was found as files, and those decide", "submit it under another plan_id")
    await store.transact(partial(_announce, dag=dag, settings=settings, at=at, sha256=sha256))
    await _put_all(store, dag, at)

    def release(tx: Tx) -> None:
        pointer = wire.write(
            {
                "schema_version": "1.0",
                "plan_id": dag.plan_id,
                "dag_kind": "business",
                "task_dag_sha256": sha256,
                "task_dag_revision": 1,
                "updated_at": at,
            }
        )
        tx.run("put_documents", plan_id=dag.plan_id, dag=dag_bytes, pointer=pointer, manifest=manifest_bytes)
        folder = f"plans/{dag.plan_id}"
        records.show(tx, f"{folder}/{places.DAG}", dag_bytes)
        records.show(tx, f"{folder}/{places.MANIFEST}", manifest_bytes)
        records.show(tx, f"{folder}/{places.POINTER}", pointer)
        for agent_id, profile in sorted(profiles.items()):
            records.show(tx, f"{places.agent(agent_id)}/{places.PROFILE}", profile.to_bytes() + b"\n")
        tx.run("set_run_state", plan_id=dag.plan_id, state="RUNNING", at=at)
        body = {"origin": "engine", "dag_sha256": sha256, "revision": 1, "tasks": len(dag.nodes)}
        tx.record("plan.submitted", dag.plan_id, body)

    await store.transact(release)
    return True


def _announce(tx: Tx, dag: TaskDag, settings: bytes, at: str, sha256: str) -> None:
    tx.run("put_plan", plan_id=dag.plan_id, origin="engine", dag_sha256=sha256, revision=1, halted=None)
    tx.run("add_run", plan_id=dag.plan_id, state="SUBMITTED", settings=settings, open=len(dag.nodes), at=at)


async def _put_all(store: Store, dag: TaskDag, at: str) -> None:
    links = Links.of(dag)
    for start in range(0, len(dag.nodes), _AT_ONCE):
        nodes = dag.nodes[start : start + _AT_ONCE]
        await store.transact(partial(_put, plan_id=dag.plan_id, nodes=nodes, links=links, at=at))


@dataclass(frozen=True, slots=True)
class Links:
    """Which tasks run only if another says so: by a branch, or by failing."""

    wards: dict[str, list[str]]
    guards: dict[str, list[str]]

    @classmethod
    def of(cls, dag: TaskDag) -> Links:
        """Both directions."""
        wards: defaultdict[str, list[str]] = defaultdict(list)
        for node in dag.nodes:
            for branch in node.gates.branches if node.gates else ():
                wards[node.task_id] += branch.activate
            if node.failure_policy and node.failure_policy.fallback_task_id:
                for dependency in node.depends_on:
                    wards[dependency].append(node.failure_policy.fallback_task_id)
        guards: defaultdict[str, list[str]] = defaultdict(list)
        for guard, tasks in wards.items():
            wards[guard] = list(dict.fromkeys(tasks))
            for task_id in wards[guard]:
                guards[task_id].append(guard)
        return cls(dict(wards), dict(guards))


def _put(tx: Tx, plan_id: str, nodes: Sequence[Node], links: Links, at: str) -> None:
    tx.run_many("put_engine_task", [task_row(plan_id, node, links, at) for node in nodes])
    put_nodes(tx, plan_id, nodes, links)


def put_nodes(tx: Tx, plan_id: str, nodes: Sequence[Node], links: Links) -> None:
    """Write down what is asked for in tasks, and who waits for whom."""
    tx.run_many("put_node", [_node(plan_id, node, links) for node in nodes])
    tx.run_many("put_edge", list(_edges(plan_id, nodes)))


def _node(plan_id: str, node: Node, links: Links) -> dict[str, Any]:
    wards, guards = links.wards.get(node.task_id), links.guards.get(node.task_id)
    return {
        "plan_id": plan_id,
        "task_id": node.task_id,
        "node": wire.write(node.as_json()),
        "wards": wire.write(wards) if wards else None,
        "guards": wire.write(guards) if guards else None,
    }


def task_row(plan_id: str, node: Node, links: Links, at: str) -> dict[str, Any]:
    """The row of a task that nobody has looked at yet."""
    held = int(node.task_id in links.guards)
    return {
        "plan_id": plan_id,
        "task_id": node.task_id,
        "agent_id": node.assigned_agent_id,
        "unmet": len(set(node.depends_on)) + held,
        "held": held,
        "priority": PRIORITIES[node.priority or "MEDIUM"],
        "at": at,
    }


def _edges(plan_id: str, nodes: Sequence[Node]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        for dependency in node.depends_on:
            yield {"plan_id": plan_id, "task_id": dependency, "dependant": node.task_id}


def _same(plan_id: str, run: Sequence[Any], sha256: str, settings: bytes) -> bool:
    if run[8] != sha256 or bytes(run[1]) != settings:
        raise _taken(plan_id, "it was submitted with other content", "use 'agenttalk plan apply' to change it")
    return False


def _taken(plan_id: str, why: str, hint: str) -> UsageError:
    return UsageError(Code.PLAN_MISMATCH, f"there is a plan {plan_id!r} already: {why}", hint=hint)
