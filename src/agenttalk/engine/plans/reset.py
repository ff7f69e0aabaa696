"""Has tasks begin again: their commands are withdrawn, and what they made is out of date.

All tasks count again what they wait for. The programs of these tasks must be dead before. The caller commits all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from agenttalk.contracts.command import PRIORITIES
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.dag import FailurePolicy
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.budgets import used_budgets
from agenttalk.engine.core import records
from agenttalk.engine.plans import recalls, transitions, versions
from agenttalk.engine.plans.commands import FOLDER
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.messages import DELIVERY_OF, MESSAGE_BY_ID, SET_MESSAGE_STATE, WITHDRAW
from agenttalk.ports.statements.plans import (
    COMMAND_OF_DELIVERY,
    DEPENDANTS,
    DROP_EDGES,
    ENGINE_TASK,
    FRESH_START,
    HELD_TASKS,
    PUT_EDGES,
    RECOUNT_RUN,
    RECOUNT_TASK,
    STANDINGS,
    VERSIONS_FROM,
    WITHDRAW_DIRECT,
)
from agenttalk.ports.storage import Tx, Value
from agenttalk.rules.core.task_states import Cause, State
from agenttalk.rules.plans import failure
from agenttalk.rules.proof import score_gates

States: TypeAlias = "dict[str, tuple[State, Cause | None]]"
"""Task → its state, and the cause of that state."""


@dataclass(frozen=True, slots=True)
class PlanSnapshot:
    """The tasks of a plan as they stand, without those that a new revision removed."""

    states: States
    agents: dict[str, str]
    scores: dict[str, float | None]
    held: frozenset[str]
    """Conditional tasks that no task has activated yet."""

    @classmethod
    def read(cls, tx: Tx, plan_id: str) -> PlanSnapshot:
        """Read the tasks of a plan."""
        rows = [row for row in tx.run(STANDINGS, plan_id=plan_id) if (row.state, row.cause) != ("SKIPPED", "REMOVED")]
        held = frozenset(row.task_id for row in tx.run(HELD_TASKS, plan_id=plan_id))
        states: States = {row.task_id: (row.state, row.cause) for row in rows}
        return cls(states, {row.task_id: row.agent_id for row in rows}, {row.task_id: row.score for row in rows}, held)

    def standing_of(self, task_id: str) -> failure.DependencyStanding:
        """Return what a task means to those that wait for it."""
        return failure.judge_dependency(*self.states[task_id])


def collect_dependants(tx: Tx, plan: PlanDefinition, stand: PlanSnapshot, task_id: str) -> list[str]:
    """List a task and everything that depends on its end: its dependants, and the tasks that it may activate.

    A branch that was not taken is left as it is, unless the task that decides on it begins again.
    """
    found = {task_id: None}
    ahead = deque([task_id])
    while ahead:
        source = ahead.popleft()
        after = [row.dependant for row in tx.run(DEPENDANTS, plan_id=plan.plan_id, task_id=source)]
        after = [each for each in after if stand.states[each][1] != "BRANCH_NOT_TAKEN"]
        for each in (*after, *find_uncalled_tasks(tx, plan, stand, source, found)):
            if each not in found:
                found[each] = None
                ahead.append(each)
    return list(found)


def find_uncalled_tasks(
    tx: Tx, plan: PlanDefinition, stand: PlanSnapshot, task_id: str, again: Collection[str]
) -> list[str]:
    """List the conditional tasks of a task that no other task activated, but for those that begin `again`."""
    return [
        each for each in plan.spec(tx, task_id).conditional_tasks if not _is_called_for(tx, plan, stand, each, again)
    ]


def _is_called_for(tx: Tx, plan: PlanDefinition, stand: PlanSnapshot, ward: str, again: Collection[str]) -> bool:
    for guard in plan.spec(tx, ward).activators:
        if guard in again or guard not in stand.states:
            continue
        node = plan.node(tx, guard)
        branches = {each for branch in (node.gates.branches if node.gates else ()) for each in branch.activate}
        if stand.standing_of(guard) == "failed" and ward not in branches:
            return True
        scores = {guard: stand.scores[guard]}
        if (
            stand.states[guard][0] == "COMPLETED"
            and ward in score_gates.judge_gates(node, scores=scores, evidence=()).activate
        ):
            return True
    return False


def find_held_tasks(tx: Tx, plan: PlanDefinition, stand: PlanSnapshot, again: Collection[str]) -> frozenset[str]:
    """Find the conditional tasks that wait to be activated when some tasks begin again."""
    changed = {each for each in again if _is_held(tx, plan, stand, each, again)}
    return (stand.held - frozenset(again)) | changed


def _is_held(tx: Tx, plan: PlanDefinition, stand: PlanSnapshot, task_id: str, again: Collection[str]) -> bool:
    guards = plan.spec(tx, task_id).activators
    if not any(guard in again for guard in guards) and task_id not in stand.held:
        return False
    return bool(guards) and not _is_called_for(tx, plan, stand, task_id, again)


def reset_tasks(moves: PlanTransaction, plan: PlanDefinition, tasks: Iterable[str], *, why: str) -> None:
    """Take tasks back to the start. Raises UsageError when one of them runs."""
    for task_id in tasks:
        row = moves.tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0]
        if row.lease is not None:
            raise UsageError(Code.ILLEGAL_TRANSITION, f"{task_id} still runs", hint="try again")
        if row.state == "PENDING":
            continue
        recalls.recall_command(moves, plan, row.delivery, why)
        moves.move_task(plan, task_id, row.state, "RUN_AGAIN", reason=why)
        moves.tx.run(FRESH_START, plan_id=plan.plan_id, task_id=task_id)
        used_budgets.clear_task_spending(moves.tx, plan.plan_id, task_id)
        _outdate(moves, plan, task_id, why)


def withdraw_command(moves: PlanTransaction, plan_id: str, agent_id: str, delivery: int, why: str) -> None:
    """Take back a command that was not worked on to its end."""
    tx = moves.tx
    [(message_id, _)] = tx.run(COMMAND_OF_DELIVERY, id=delivery)
    rows = tx.run(DELIVERY_OF, plan_id=plan_id, message_id=message_id, receiver=agent_id)
    if not rows or rows[0].state != "stored":
        tx.run(WITHDRAW_DIRECT, id=delivery, at=moves.now, details=why)
        return
    tx.run(WITHDRAW, id=delivery, ack=None, at=moves.now, details=why)  # no folder has it yet, and none gets it
    tx.run(SET_MESSAGE_STATE, id=rows[0].message, state="superseded")
    records.count_messages(tx, plan_id, superseded=1)
    tx.record("message.recalled", message_id, {"was": "stored", "why": why})


def _outdate(moves: PlanTransaction, plan: PlanDefinition, task_id: str, why: str) -> None:
    """Withdraw what a task made before. Files from people stay, and artifacts that lie in an inbox."""
    tx, plan_id = moves.tx, plan.plan_id
    by_hand = [each for each in plan.profiles if plan.profile(each).driver == FOLDER]
    for version in tx.run(VERSIONS_FROM, plan_id=plan_id, task_id=task_id):
        about = {"plan_id": plan_id, "message_id": version.message_id}
        [message] = tx.run(MESSAGE_BY_ID, **about)
        there = [row.state for receiver in by_hand for row in tx.run(DELIVERY_OF, **about, receiver=receiver)]
        if message.producer == root_layout.GATEWAY or any(state != "processed" for state in there):
            continue
        tx.run(SET_MESSAGE_STATE, id=message.id, state="superseded")
        records.count_messages(tx, plan_id, superseded=1, delivered=-1)
        tx.record("message.recalled", version.message_id, {"seq": version.seq, "was": "delivered", "why": why})
        versions.archive_version(
            tx,
            plan_id,
            task_id,
            version.output_name,
            version.command_id or version.message_id,
            version.envelope,
        )


def find_stand_ins(tx: Tx, plan: PlanDefinition, stand: PlanSnapshot, again: Collection[str]) -> list[tuple[str, str]]:
    """List the fallbacks that stand in for failed tasks, with their dependants, unless these begin again or wait."""
    found = []
    for task_id in stand.states:
        if not plan.spec(tx, task_id).activators:
            continue
        for dependant, state, _ in tx.run(DEPENDANTS, plan_id=plan.plan_id, task_id=task_id):
            settled = dependant not in again and state != "PENDING"
            if settled and task_id not in plan.node(tx, dependant).depends_on:
                found.append((task_id, dependant))
    return found


def reapply_failures(
    moves: PlanTransaction, plan: PlanDefinition, stand: PlanSnapshot, standing_in: Sequence[tuple[str, str]]
) -> None:
    """Have tasks that wait for a failed one follow their policies; a fallback that stands in serves all of them."""
    for task_id in stand.states:
        if stand.standing_of(task_id) != "failed":
            continue
        spares = [
            spare
            for spare, dependant in standing_in
            if task_id in plan.node(moves.tx, dependant).depends_on and task_id in plan.spec(moves.tx, spare).activators
        ]
        seen = _spared(moves.tx, plan, task_id, spares[0]) if spares else plan
        transitions.fail_dependants_of(moves, seen, task_id)


def _spared(tx: Tx, plan: PlanDefinition, failed: str, spare: str) -> PlanDefinition:
    """Return the plan as if all dependants of a failed task named the fallback that stands in for it."""
    specs = dict(plan.specs)
    for dependant, *_ in tx.run(DEPENDANTS, plan_id=plan.plan_id, task_id=failed):
        spec = plan.spec(tx, dependant)
        own = spec.node.failure_policy
        if dependant != spare and (own is None or own.on_dependency_failed != "FALLBACK"):
            policy = (own or FailurePolicy()).model_copy(
                update={"on_dependency_failed": "FALLBACK", "fallback_task_id": spare}
            )
            specs[dependant] = replace(spec, node=spec.node.model_copy(update={"failure_policy": policy}))
    return replace(plan, specs=specs)


def recount_all_waits(
    tx: Tx,
    plan: PlanDefinition,
    stand: PlanSnapshot,
    held: Collection[str],
    *,
    free: Collection[str] = (),
    standing_in: Sequence[tuple[str, str]] = (),
) -> None:
    """Write again which tasks wait for which, and for how many; `free` tasks wait for none.

    Further fallbacks of failed tasks are found by `reapply_failures`.
    """
    plan_id = plan.plan_id
    nodes = [plan.node(tx, task_id) for task_id in stand.states]
    edges: dict[str, list[str]] = {}
    for before, after in (*standing_in, *((each, node.task_id) for node in nodes for each in node.depends_on)):
        edges.setdefault(before, []).append(after)
    rows: list[dict[str, Value]] = []
    for node in nodes:
        waits = sum(stand.standing_of(each) != "fine" for each in set(node.depends_on))
        rows.append(
            {
                "plan_id": plan_id,
                "task_id": node.task_id,
                "agent_id": stand.agents[node.task_id],
                "priority": PRIORITIES[node.priority or "MEDIUM"],
                "unmet": 0 if node.task_id in free else waits + (node.task_id in held),
                "held": int(node.task_id in held),
            }
        )
    tx.run(DROP_EDGES, plan_id=plan_id)
    tx.run(PUT_EDGES, plan_id=plan_id, rows=wire.write(edges).decode())
    tx.run_many(RECOUNT_TASK, rows)
    tx.run(RECOUNT_RUN, plan_id=plan_id)
