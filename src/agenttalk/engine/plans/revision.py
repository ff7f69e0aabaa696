"""Puts a new revision of a running plan in force: unchanged tasks go on, the others begin again or are called off.

All of it is one transaction. The programs of changed tasks must be dead before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import PRIORITIES, ResolvedInput
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.dag import Node, TaskDag
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine.budgets import used_budgets
from agenttalk.engine.core import records
from agenttalk.engine.core.plan_settings import encode_settings, store_settings
from agenttalk.engine.core.submitted_plans import TaskLinks
from agenttalk.engine.plans import (
    commands,
    control,
    recalls,
    releases,
    submission,
    submission_gate,
    transitions,
    versions,
)
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.messages import PLAN, PLAN_DOCUMENTS, PUT_DOCUMENTS, PUT_PLAN
from agenttalk.ports.statements.plans import (
    DROP_EDGES,
    DROP_TASK,
    ENGINE_TASK,
    FRESH_START,
    HELD_TASKS,
    LAST_SEQ,
    NODES_OF,
    PUT_ENGINE_TASK,
    RECOUNT_RUN,
    RECOUNT_TASK,
    REMOVED_TASKS,
    RUN,
    SET_RUN_CLOSING,
    SET_RUN_SETTINGS,
    SET_RUN_STATE,
    STANDINGS,
)
from agenttalk.ports.statements.proof import DROP_EVIDENCE, DROP_JOINED
from agenttalk.ports.storage import Snapshot, Tx, Value
from agenttalk.rules.commands import promises
from agenttalk.rules.core import task_states
from agenttalk.rules.core.task_states import Cause, State
from agenttalk.rules.plans import failure
from agenttalk.rules.plans.input_selection import PickedInputs
from agenttalk.rules.proof import staleness
from agenttalk.rules.text import task_words

States: TypeAlias = "dict[str, tuple[State, Cause | None]]"
"""Task → its state, and the cause of that state."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes that a new DAG makes."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, list[str]]:
        """Return the changes, for programs and the ledger."""
        return asdict(self)


def compare_dag(tx: Snapshot, dag: TaskDag) -> Difference:
    """Compare a DAG with the one in force. Raises UsageError when the engine runs no such plan."""
    rows = tx.run(RUN, plan_id=dag.plan_id)
    if not rows or rows[0].state == "SUBMITTED":
        hint = "'agenttalk run' submits a plan"
        raise UsageError(Code.NAME_UNKNOWN, f"the engine runs no plan {dag.plan_id!r}", hint=hint)
    dag = name_promises(tx, dag)
    known = {task_id: bytes(node) for task_id, node in tx.run(NODES_OF, plan_id=dag.plan_id)}
    new = {node.task_id: wire.write(node.as_json()) for node in dag.nodes}
    gone = {row.task_id for row in tx.run(REMOVED_TASKS, plan_id=dag.plan_id)}
    return Difference(
        [task_id for task_id in new if task_id not in known or task_id in gone],
        [task_id for task_id in new if task_id in known and task_id not in gone and known[task_id] != new[task_id]],
        [task_id for task_id in known if task_id not in new and task_id not in gone],
    )


def name_promises(tx: Snapshot, dag: TaskDag) -> TaskDag:
    """Return a DAG for a running plan, in which promises keep the ids that they have there."""
    began_at: str = tx.run(RUN, plan_id=dag.plan_id)[0].began_at
    return promises.assign_promise_ids(dag, int(parse_instant(began_at).timestamp() * 1000))


def apply(
    moves: PlanTransaction,
    dag: TaskDag,
    manifest: PlanManifest,
    profiles: Mapping[str, AgentProfile],
    *,
    by: str,
    paused: bool = False,
) -> Difference:
    """Put a new DAG in force. A plan that was `paused` stays paused."""
    tx, plan_id = moves.tx, dag.plan_id
    found = compare_dag(tx, dag)
    dag = name_promises(tx, dag)
    _forget_proof(tx, plan_id, (*found.removed, *found.changed))
    revision = _put_documents(moves, dag, manifest, profiles)
    gate = submission_gate.decide_pre_plan(dag, manifest, revision=revision)
    gate.record(tx, moves.now)
    moves.definitions.forget(plan_id)
    plan = moves.definitions.load(tx, plan_id)
    if plan.limits is not None:
        used_budgets.recount_plan(tx, plan_id)
    links = TaskLinks.from_dag(dag)
    tx.run(DROP_EDGES, plan_id=plan_id)
    submission.put_nodes(tx, plan_id, dag.nodes, links)
    nodes: dict[str, Node] = {node.task_id: node for node in dag.nodes}
    for task_id in found.removed:
        _move(moves, plan_id, task_id, "REMOVED", task_words.NOT_IN_PLAN())
        versions.withdraw_outputs(moves, plan, task_id)
    for task_id in found.changed:
        _move(moves, plan_id, task_id, "CHANGED", None)
        versions.unpublish_outputs(moves, plan, task_id)
        tx.run(FRESH_START, plan_id=plan_id, task_id=task_id)
        used_budgets.clear_task_spending(tx, plan_id, task_id)
        control.wake_stopped(moves, plan, task_id)
    for task_id in found.added:
        tx.run(DROP_TASK, plan_id=plan_id, task_id=task_id)
        tx.run(PUT_ENGINE_TASK, **submission.make_task_row(plan_id, nodes[task_id], links, moves.now))
    states = _count_anew(tx, plan_id, nodes, links)
    for task_id, (state, _) in states.items():
        if state == "READY" and task_id in nodes:  # its command names the old DAG, so it gets another one
            _order_anew(moves, plan_id, nodes[task_id])
    waits = _decided_anew(moves, plan, found, held=paused)
    if _recount(tx, plan_id, moves.now, paused=paused or waits, closing=staleness.needs_final_check(dag, manifest)):
        releases.mark_due(tx, plan_id, plan.policies, at=moves.now)
    for task_id, (state, cause) in states.items():
        if task_id in nodes:
            _follow(moves, plan, task_id, state, cause)
    tx.record("plan.revised", plan_id, {"by": by, "revision": revision, **found.as_json(), **gate.to_json()})
    moves.note_due_tasks()
    return found


def _follow(moves: PlanTransaction, plan: PlanDefinition, task_id: str, state: State, cause: Cause | None) -> None:
    """Apply the new plan to a task that did not change: others may wait for it now, or it may begin."""
    tx, plan_id = moves.tx, plan.plan_id
    if state in task_states.FINAL and failure.judge_dependency(state, cause) == "failed":
        transitions.fail_dependants_of(moves, plan, task_id)
    elif cause == "SOFT_DENIED":  # the new plan may allow more
        delivery = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0].delivery
        if delivery is not None:
            transitions.requeue_held_task(moves, plan_id, task_id, delivery)


def _forget_proof(tx: Tx, plan_id: str, tasks: Sequence[str]) -> None:
    """Drop the proofs of tasks that changed: what was proven was another task."""
    for task_id in tasks:
        tx.run(DROP_EVIDENCE, plan_id=plan_id, task_id=task_id)
        tx.run(DROP_JOINED, plan_id=plan_id, task_id=task_id)


def _decided_anew(moves: PlanTransaction, plan: PlanDefinition, found: Difference, *, held: bool) -> bool:
    """Revoke a release of an older revision. Return whether the new one has to be approved first."""
    tx, plan_id, revision = moves.tx, plan.plan_id, plan.revision
    if found.added or found.changed or found.removed:
        releases.revoke(tx, plan_id, _revised(plan), at=moves.now)
    return submission_gate.open_review(tx, plan_id, revision, plan.dag_sha256, plan.policies, at=moves.now, held=held)


def _put_documents(
    moves: PlanTransaction, dag: TaskDag, manifest: PlanManifest, profiles: Mapping[str, AgentProfile]
) -> int:
    tx, plan_id = moves.tx, dag.plan_id
    dag_bytes, manifest_bytes = dag.to_bytes(), manifest.to_bytes()
    sha256 = wire.sha256(dag_bytes)
    [plan_row] = tx.run(PLAN, plan_id=plan_id)
    revision = (plan_row.revision or 1) + 1
    [row] = tx.run(PLAN_DOCUMENTS, plan_id=plan_id)
    pointer = wire.write(
        {
            "schema_version": "1.0",
            "plan_id": plan_id,
            "dag_kind": "business",
            "task_dag_sha256": sha256,
            "task_dag_revision": revision,
            "updated_at": moves.now,
        }
    )
    tx.run(PUT_PLAN, plan_id=plan_id, origin="engine", dag_sha256=sha256, revision=revision, halted=None)
    tx.run(PUT_DOCUMENTS, plan_id=plan_id, dag=dag_bytes, pointer=pointer, manifest=manifest_bytes)
    settings = store_settings(tx, encode_settings(manifest.policies, dict(profiles)))
    tx.run(SET_RUN_SETTINGS, plan_id=plan_id, settings=settings)
    folder = f"plans/{plan_id}"
    name = plan_row.dag_sha256.removeprefix("sha256:")[:16]
    records.publish_file(tx, f"{folder}/dag_history/{revision - 1:06d}_{name}.json", bytes(row.dag))
    records.publish_file(tx, f"{folder}/{root_layout.DAG}", dag_bytes)
    records.publish_file(tx, f"{folder}/{root_layout.MANIFEST}", manifest_bytes)
    records.publish_file(tx, f"{folder}/{root_layout.POINTER}", pointer)
    for agent_id, profile in sorted(profiles.items()):
        records.publish_file(
            tx, f"{root_layout.agent_folder(agent_id)}/{root_layout.PROFILE}", profile.to_bytes() + b"\n"
        )
    return revision


def _move(moves: PlanTransaction, plan_id: str, task_id: str, cause: Cause, reason: str | None) -> None:
    """Take back the command and the questions of a task that changed or is gone, and move it."""
    plan = moves.definitions.load(moves.tx, plan_id)
    row = moves.tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0]
    state, lease, delivery = row.state, row.lease, row.delivery
    if lease is not None:
        raise UsageError(Code.ILLEGAL_TRANSITION, f"{task_id} still runs", hint="try again")
    recalls.recall_command(moves, plan, delivery, _revised(plan))
    transitions.close_questions(moves, plan, task_id)
    moves.move_task(plan, task_id, state, cause, reason=reason)


def _revised(plan: PlanDefinition) -> str:
    return task_words.REVISED(number=plan.revision)


def _order_anew(moves: PlanTransaction, plan_id: str, node: Node) -> None:
    tx = moves.tx
    plan = moves.definitions.load(tx, plan_id)
    row = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=node.task_id)[0]
    inputs: tuple[ResolvedInput, ...] = ()
    if row.delivery is not None:
        inputs = commands.inputs_of(tx, row.delivery)
        newer = tx.run(LAST_SEQ, plan_id=plan_id, task_id=node.task_id)[0].seq + 1
        recalls.recall_command(moves, plan, row.delivery, _revised(plan), newer=newer)
    moves.queue_command(plan, node, PickedInputs(inputs=inputs, sources={}, absent=()), "READY", "SUPERSEDED")


def _count_anew(tx: Tx, plan_id: str, nodes: Mapping[str, Node], links: TaskLinks) -> States:
    """Count what every task waits for. Return the states of all tasks."""
    states: States = {row.task_id: (row.state, row.cause) for row in tx.run(STANDINGS, plan_id=plan_id)}
    held = {row.task_id for row in tx.run(HELD_TASKS, plan_id=plan_id)} & links.activators.keys()
    rows: list[dict[str, Value]] = []
    for task_id, node in nodes.items():
        waits = sum(failure.judge_dependency(*states[each]) != "fine" for each in set(node.depends_on))
        rows.append(
            {
                "plan_id": plan_id,
                "task_id": task_id,
                "agent_id": node.assigned_agent_id,
                "priority": PRIORITIES[node.priority or "MEDIUM"],
                "unmet": waits + (task_id in held),
                "held": int(task_id in held),
            }
        )
    tx.run_many(RECOUNT_TASK, rows)
    return states


def _recount(tx: Tx, plan_id: str, at: str, *, paused: bool, closing: bool) -> bool:
    """Count the plan's tasks again. Return whether it has ended."""
    tx.run(RECOUNT_RUN, plan_id=plan_id)
    tx.run(SET_RUN_CLOSING, plan_id=plan_id, closing=int(closing))
    [row] = tx.run(RUN, plan_id=plan_id)
    goes_on = "PAUSED" if paused else "RUNNING"
    tx.run(SET_RUN_STATE, plan_id=plan_id, state=goes_on if row.open or closing else "ENDED", at=at)
    return not row.open and not closing
