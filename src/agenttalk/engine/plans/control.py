"""The actions of an operator on a running plan: pause, resume and cancel it, and retry or abort a task."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypedDict

from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.budgets import denials, used_budgets
from agenttalk.engine.budgets.denials import GateDenial
from agenttalk.engine.people import questions
from agenttalk.engine.plans import commands, dag_reviews, inputs, releases, reset, transitions
from agenttalk.engine.plans.commands import FOLDER
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.reset import PlanSnapshot
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.budgets import ObjectionRow
from agenttalk.ports.statements.people import OPEN_REQUESTS_IN, OPEN_REQUESTS_OF
from agenttalk.ports.statements.plans import (
    CANCEL_DELIVERIES,
    CANCEL_TASKS,
    COUNT_RUN,
    ENGINE_TASK,
    FRESH_START,
    READY_TASK,
    REQUEUE_PLAN,
    RUN,
    SET_RUN_STATE,
    STOPPED_DEPENDANTS,
    UNQUEUE_AGENT,
    UNQUEUE_PLAN,
    EngineTaskRow,
    RunRow,
)
from agenttalk.ports.statements.proof import DROP_REVIEWS
from agenttalk.ports.storage import Snapshot, Tx
from agenttalk.rules.budgets.aborts import Abort
from agenttalk.rules.core import task_states
from agenttalk.rules.plans.input_selection import PickedInputs
from agenttalk.rules.proof import checkpoints
from agenttalk.rules.text import task_words, verdict_words
from agenttalk.rules.text.catalogue import to_columns


def pause(tx: Tx, plan_id: str, *, by: str, at: str) -> bool:
    """Pause a plan: begin nothing new, and let turns go on to their ends. False when it was paused before."""
    state = _run(tx, plan_id).state
    if state == "ENDED":
        raise UsageError(Code.ILLEGAL_TRANSITION, f"plan {plan_id!r} has ended", hint="there is nothing to pause")
    if not tx.run(SET_RUN_STATE, plan_id=plan_id, state="PAUSED", at=at):
        return False
    tx.run(UNQUEUE_PLAN, plan_id=plan_id)
    tx.record("plan.paused", plan_id, {"by": by})
    return True


def pause_if_running(tx: Tx, plan_id: str, *, by: str, at: str) -> str:
    """Pause a plan if it runs; one that is ending by itself may not run any more. Return the state it was in."""
    state = _run(tx, plan_id).state
    if state == "RUNNING":
        pause(tx, plan_id, by=by, at=at)
    return state


def resume(moves: PlanTransaction, plan_id: str, *, by: str) -> bool:
    """Let a paused plan continue. False when it was not paused."""
    tx = moves.tx
    if _run(tx, plan_id).state != "PAUSED":
        return False
    dag_reviews.require_approved(tx, plan_id)
    begin_tasks(moves, plan_id)
    tx.record("plan.resumed", plan_id, {"by": by})
    return True


def begin_tasks(moves: PlanTransaction, plan_id: str) -> None:
    """Let the tasks of a plan begin."""
    moves.tx.run(SET_RUN_STATE, plan_id=plan_id, state="RUNNING", at=moves.now)
    for (agent_id,) in moves.tx.run(REQUEUE_PLAN, plan_id=plan_id):
        moves.agents[agent_id] = None
    for agent_id, profile in moves.definitions.load(moves.tx, plan_id).profiles.items():
        if profile.driver == FOLDER and agent_id in moves.agents:  # its tasks are in its inbox, and in no queue
            moves.tx.run(UNQUEUE_AGENT, plan_id=plan_id, agent_id=agent_id)
            del moves.agents[agent_id]
    moves.note_due_tasks()


def cancel(moves: PlanTransaction, plan_id: str, *, by: str, why: str = "") -> int:
    """Cancel everything of a plan that is still open. Return the number of tasks. All programs must be dead before."""
    tx = moves.tx
    if _run(tx, plan_id).state == "ENDED":
        return 0
    reason = task_words.CANCELLED_BECAUSE(by=by, why=why) if why else task_words.CANCELLED(by=by)
    tx.run(DROP_REVIEWS, plan_id=plan_id)
    tasks = tx.run(CANCEL_TASKS, plan_id=plan_id, **to_columns(reason), at=moves.now)
    tx.run(CANCEL_DELIVERIES, plan_id=plan_id, reason=reason, at=moves.now)
    if tasks:
        tx.run(COUNT_RUN, plan_id=plan_id, open=-len(tasks), completed=0, failed=len(tasks), skipped=0)
    for (request_id,) in tx.run(OPEN_REQUESTS_IN, plan_id=plan_id):
        questions.close(tx, request_id, reason, at=moves.now)
    tx.run(SET_RUN_STATE, plan_id=plan_id, state="ENDED", at=moves.now)
    tx.record("plan.cancelled", plan_id, {"by": by, "reason": reason, "tasks": len(tasks)})
    return len(tasks)


class TaskStop(TypedDict):
    """A task that was stopped for good."""

    task_id: str
    state: str
    reason: str


def abort(moves: PlanTransaction, plan_id: str, task_id: str, *, detail: str) -> TaskStop:
    """Stop an open task for good. Its program must be dead before; a watchdog may have ended it for this reason."""
    tx = moves.tx
    _run(tx, plan_id)
    rows = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
    if not rows:
        raise make_no_task_error(plan_id, task_id)
    row = rows[0]
    reason = Abort("user-aborted", detail).describe()
    if row.state == "FAILED" and rows[0].reason == reason:
        _close_questions(moves, plan_id, task_id, reason)
        return {"task_id": task_id, "state": row.state, "reason": reason}
    if row.state in task_states.FINAL:
        raise UsageError(
            Code.ILLEGAL_TRANSITION, f"{task_id} has ended: it is {row.state}", hint="there is nothing to stop"
        )
    if row.lease is not None:
        raise UsageError(Code.ILLEGAL_TRANSITION, f"{task_id} is run by another process", hint="ask that one")
    plan = moves.definitions.load(tx, plan_id)
    if row.delivery is not None:
        reset.withdraw_command(moves, plan_id, row.agent_id, row.delivery, reason)
    _close_questions(moves, plan_id, task_id, reason)
    decision = checkpoints.decide(
        "post-act", [("hard-deny", reason)], trace_id=f"{plan_id}/{task_id}@{moves.now}:post-act"
    )
    transitions.end_idle_task(moves, plan, task_id, row.state, "ABORTED", reason=reason, gates=[decision.as_json()])
    moves.note_due_tasks()
    return {"task_id": task_id, "state": "FAILED", "reason": reason}


def _close_questions(moves: PlanTransaction, plan_id: str, task_id: str, why: str) -> None:
    for (request_id,) in moves.tx.run(OPEN_REQUESTS_OF, plan_id=plan_id, task_id=task_id):
        questions.close(moves.tx, request_id, why, at=moves.now)


def find_override_question(
    plan_id: str, task_id: str, rows: Sequence[EngineTaskRow], found: Sequence[ObjectionRow], checkpoint: str
) -> tuple[str, GateDenial]:
    """Return the question about a task that a checkpoint holds up, and the denial. Raises UsageError without one."""
    if not rows:
        raise make_no_task_error(plan_id, task_id)
    denial = denials.find_active_denial(list(found))
    hint = f"'agenttalk explain {plan_id}/{task_id}' says what moves it on"
    if rows[0].cause != "SOFT_DENIED" or rows[0].request_id is None or denial is None:
        message = f"no checkpoint holds {task_id} up that could be overridden: it is {rows[0].state}"
        raise UsageError(Code.ILLEGAL_TRANSITION, message, hint=hint)
    if denial["checkpoint"] != checkpoint:
        message = f"{task_id} is held up at {denial['checkpoint']}, not at {checkpoint[:40]!r}"
        raise UsageError(Code.ILLEGAL_TRANSITION, message, hint=hint)
    return str(rows[0].request_id), denial


def retry(
    moves: PlanTransaction, plan_id: str, task_id: str, *, by: str, onwards: bool = False, go_on: bool = False
) -> list[str]:
    """Retry a failed task, with all its rounds. Tasks that its failure stopped wait for it again.

    With `onwards`, it may also be done or skipped, and everything that depends on it begins again, too. All programs
    of these tasks must be dead before. A plan that was paused only for that is resumed (`go_on`).
    """
    tx = moves.tx
    if go_on:
        resume(moves, plan_id, by=by)
    paused = _run(tx, plan_id).state == "PAUSED"
    plan = moves.definitions.load(tx, plan_id)
    row = _retriable(tx, plan_id, task_id, onwards=onwards)
    stand = PlanSnapshot.read(tx, plan_id)
    if onwards:
        again = reset.collect_dependants(tx, plan, stand, task_id)
    else:
        wards = reset.find_uncalled_tasks(tx, plan, stand, task_id, {task_id})
        again = [task_id, *(each for each in wards if stand.states[each][1] == "BRANCH_NOT_TAKEN")]
    tx.record("task.retried", f"{plan_id}/{task_id}", {"by": by, "onwards": onwards, "begin_anew": again})
    for each in again:
        _close_questions(moves, plan_id, each, verdict_words.RELEASE["done_again"](by=by, task=task_id))
    releases.revoke(tx, plan_id, verdict_words.RELEASE["done_again"](by=by, task=task_id), at=moves.now)
    if not paused:
        tx.run(SET_RUN_STATE, plan_id=plan_id, state="RUNNING", at=moves.now)
    may_run = row.delivery is not None and _may_run(plan.node(tx, task_id), stand, row.cause)
    if again == [task_id] and may_run and row.delivery is not None and not onwards:
        again += _at_once(moves, plan, task_id, row.delivery)
    else:
        again += _begin_anew(moves, plan, again, by=by, free=may_run, onwards=onwards)
    return again


def list_rerun_tasks(moves: PlanTransaction, plan_id: str, task_id: str) -> set[str]:
    """List the tasks that begin again when a task is retried with everything that depends on it."""
    tx = moves.tx
    _run(tx, plan_id)
    _retriable(tx, plan_id, task_id, onwards=True)
    return set(
        reset.collect_dependants(tx, moves.definitions.load(tx, plan_id), PlanSnapshot.read(tx, plan_id), task_id)
    )


def _retriable(tx: Tx, plan_id: str, task_id: str, *, onwards: bool) -> EngineTaskRow:
    rows = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
    if not rows or rows[0].cause == "REMOVED":
        raise make_no_task_error(plan_id, task_id)
    state = rows[0].state
    if state == "FAILED" or (onwards and state in task_states.FINAL):
        return rows[0]
    what = "what ended" if onwards else "what failed"
    hint = f"'agenttalk explain {plan_id}/{task_id}' says what moves it on"
    if state in task_states.FINAL:
        hint = f"'agenttalk retry {plan_id}/{task_id} --from' runs it again, and everything after it"
    raise UsageError(Code.ILLEGAL_TRANSITION, f"{task_id} is {state}, and only {what} can be tried again", hint=hint)


def _may_run(node: Node, stand: PlanSnapshot, cause: str | None) -> bool:
    """Whether a task that was given out before may be given out again: none of its dependencies is open.

    A dependency may have failed, and a person had the task run anyway; but not if it was cancelled then.
    """
    before = {stand.standing_of(each) for each in node.depends_on}
    return "open" not in before and ("failed" not in before or cause not in {"CANCELLED", "DEPENDENCY_SKIP"})


def _at_once(moves: PlanTransaction, plan: PlanDefinition, task_id: str, delivery: int) -> list[str]:
    """Give a failed task out again, with the inputs that it had. Return the tasks that wait for it again."""
    tx, plan_id = moves.tx, plan.plan_id
    tx.run(FRESH_START, plan_id=plan_id, task_id=task_id)
    used_budgets.clear_task_spending(tx, plan_id, task_id)
    tx.run(COUNT_RUN, plan_id=plan_id, open=1, completed=0, failed=-1, skipped=0)
    inputs = commands.inputs_of(tx, delivery)
    picked = PickedInputs(inputs=inputs, sources={}, absent=())
    moves.queue_command(plan, plan.node(tx, task_id), picked, "FAILED", "OPERATOR_RETRY")
    return wake_stopped(moves, plan, task_id)


def _begin_anew(
    moves: PlanTransaction, plan: PlanDefinition, tasks: Sequence[str], *, by: str, free: bool, onwards: bool
) -> list[str]:
    """Have tasks begin again, the first one at once if it is `free`. Return others that wait for it again."""
    tx, plan_id, first = moves.tx, plan.plan_id, tasks[0]
    before = PlanSnapshot.read(tx, plan_id)
    held = reset.find_held_tasks(tx, plan, before, tasks)
    standing_in = reset.find_stand_ins(tx, plan, before, tasks[1:] if free else tasks)
    reset.reset_tasks(moves, plan, tasks, why=task_words.TRIED_AGAIN(by=by))
    woken = [] if onwards else wake_stopped(moves, plan, first)
    stand = PlanSnapshot.read(tx, plan_id)
    if all(stand.standing_of(guard) != "open" for guard in plan.spec(tx, first).activators):
        held -= {first}  # no task is left that could activate it
    at_once = {first} - held if free else ()
    reset.recount_all_waits(tx, plan, stand, held, free=at_once, standing_in=standing_in)
    _consider(moves, plan, first)
    reset.reapply_failures(moves, plan, stand, standing_in)
    if _consider(moves, plan, first) == "SKIPPED":
        raise UsageError(
            Code.ILLEGAL_TRANSITION,
            f"{first} would be skipped again, because something before it has failed",
            hint="try that again, with '--from'",
        )
    moves.note_due_tasks()
    return woken


def _consider(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> str:
    """Make the command of a task if nothing holds it up. Return its state."""
    about = {"plan_id": plan.plan_id, "task_id": task_id}
    row = moves.tx.run(ENGINE_TASK, **about)[0]
    if (row.state, row.unmet) != ("PENDING", 0):
        return str(row.state)
    inputs.order_if_ready(moves, plan, task_id)
    state = str(moves.tx.run(ENGINE_TASK, **about)[0].state)
    if state == "PENDING":  # its command is made, and what follows in this transaction reads it
        moves.tx.run(READY_TASK, **about, cause="INPUTS_PICKED", at=moves.now)
    return state


def wake_stopped(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> list[str]:
    """Have tasks that a failure stopped wait for it again, unless another one stops them. Return these tasks."""
    woken: list[str] = []
    ahead = deque([task_id])
    while ahead:
        source = ahead.popleft()
        for dependant, state in moves.tx.run(STOPPED_DEPENDANTS, plan_id=plan.plan_id, task_id=source):
            if transitions.has_lost_task(moves.tx, plan, plan.node(moves.tx, dependant).depends_on):
                continue
            moves.move_task(plan, dependant, state, "DEPENDENCY_RETRIED")
            if state == "SKIPPED":
                moves.tx.run(COUNT_RUN, plan_id=plan.plan_id, open=1, completed=0, failed=0, skipped=-1)
                ahead.append(dependant)
            woken.append(dependant)
    return woken


def require_engine_plan(tx: Snapshot, plan_id: str, task_id: str | None = None) -> None:
    """Raise UsageError unless the engine runs such a plan, and it has such a task."""
    _run(tx, plan_id)
    if task_id is not None and not tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id):
        raise make_no_task_error(plan_id, task_id)


def make_no_task_error(plan_id: str, task_id: str) -> UsageError:
    """Make the error that a plan has no such task."""
    hint = f"'agenttalk status {plan_id}' lists its tasks"
    return UsageError(Code.TASK_NOT_FOUND, f"plan {plan_id!r} has no task {task_id!r}", hint=hint)


def _run(tx: Snapshot, plan_id: str) -> RunRow:
    rows = tx.run(RUN, plan_id=plan_id)
    if not rows:
        raise UsageError(Code.NAME_UNKNOWN, f"the engine runs no plan {plan_id!r}", hint="'agenttalk status' lists all")
    return rows[0]
