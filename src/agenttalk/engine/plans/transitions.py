"""The consequences of a change of a task: dependants become ready, are skipped, blocked or begun again, and plans end.

All of it happens in one transaction. Rules decide, and these functions write what was decided. A fan-out that is too
wide for one transaction is left to the next pass, which finds it by an index.

A task ends (`mark_ended` and its like), its work is refused or replaced (`update_consumers`), or a person answers
(`advance_due_tasks`). Refused work goes no further and is archived. A task that has begun with it begins again with
the new version; one that is done with it runs again, unless the new version is the same for it. A program that has to
end keeps its lease until it is dead (see `return_to_waiting`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from agenttalk.contracts.dag import Node
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.engine.budgets import denials
from agenttalk.engine.people import questions as people_questions
from agenttalk.engine.plans import inputs, questions, recalls, versions
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import AT_ONCE, DueTask, PlanTransaction
from agenttalk.engine.plans.versions import WHY_REPLACED
from agenttalk.ports.statements.budgets import REQUEUE_TASK
from agenttalk.ports.statements.people import OPEN_REQUESTS_OF
from agenttalk.ports.statements.plans import (
    ACTIVATE,
    ANSWERED_TASKS,
    COUNT_RUN,
    DEPENDANTS,
    DUE_TASKS,
    ENGINE_TASK,
    MEET,
    MEET_ONE,
    NOTE_REQUEST,
    PUT_EDGE,
    REVOKE_TURN,
    SET_UNMET,
    UNMEET,
    WAITING_TASKS,
    WITHDRAW_DIRECT,
    AnsweredTaskRow,
    DependantRow,
)
from agenttalk.ports.storage import Tx
from agenttalk.rules.core import task_states
from agenttalk.rules.core.task_states import Cause, State
from agenttalk.rules.plans import failure, input_selection
from agenttalk.rules.plans.failure import DependencyStanding
from agenttalk.rules.plans.input_selection import AmbiguousInput, MissingInputs, PickedInputs
from agenttalk.rules.proof.checkpoints import CheckpointDecision
from agenttalk.rules.text import question_words, task_words
from agenttalk.rules.text.catalogue import read_column, to_columns
from agenttalk.rules.text.message import join

Ends: TypeAlias = "deque[tuple[str, DependencyStanding, tuple[str, ...]]]"
"""Tasks that ended, what that means to their dependants, and which conditional tasks they activate."""
_COUNTED: Final[dict[State, str]] = {"COMPLETED": "completed", "SKIPPED": "skipped"}


# The end of a task.


def mark_ended(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, cause: Cause, *, activated: Sequence[str] = ()
) -> None:
    """Let everything continue that waited for a task whose turn ended for good, or let it follow its own policy."""
    state = task_states.move("RUNNING", cause)
    moves.count(plan.plan_id, _COUNTED.get(state, "failed"))
    _settle(moves, plan, task_id, state, cause, activated)


def mark_all_ended(
    moves: PlanTransaction, ended: Sequence[tuple[PlanDefinition, str, Cause]], *, lightly: bool = False
) -> None:
    """Let everything continue that waited for tasks whose turns ended.

    The same as `mark_ended` for each of them, except that what they make ready is handled together. With `lightly`,
    rows of dependants that wait for nothing else are not read; if one is not as expected, all is undone at its write.
    """
    moves.start_gathering(lightly=lightly)
    for plan, task_id, cause in ended:
        mark_ended(moves, plan, task_id, cause)
    due = moves.stop_gathering()
    room = moves.room
    if len(due) > room:
        moves.note_due_tasks()
    for plan, task_id, _ in due[room:]:
        inputs.write_unmet(moves, plan, task_id)
    # All inputs are picked before the first command is made, because a read runs the waiting writes of its tables.
    nodes = [(plan, plan.node(moves.tx, task_id), first) for plan, task_id, first in due[:room]]
    selections = [inputs.pick_inputs(moves, plan, node) for plan, node, _ in nodes]
    for (plan, node, first), selection in zip(nodes, selections, strict=True):
        if not moves.is_ordered(plan, node.task_id):
            inputs.use_selection(moves, plan, node, selection, first=first)


def mark_failed(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Count a task that was completed as failed, and have its dependants follow their policies."""
    moves.count(plan.plan_id, "failed")
    _settle(moves, plan, task_id, "FAILED", "REWORK_EXHAUSTED")


def mark_completed(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Let everything continue that waits for a task which had failed and now counts as done."""
    _settle_all(moves, plan, deque([(task_id, "fine", ())]))


def end_idle_task(
    moves: PlanTransaction,
    plan: PlanDefinition,
    task_id: str,
    state: State,
    cause: Cause,
    *,
    reason: str,
    gates: Sequence[Mapping[str, object]] = (),
) -> None:
    """End a task that no turn runs. If it fails, its dependants follow their policies."""
    ended = moves.move_task(plan, task_id, state, cause, reason=reason, gates=gates)
    moves.count(plan.plan_id, _COUNTED.get(ended, "failed"))
    _settle(moves, plan, task_id, ended, cause)


def fail_dependants_of(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Have the dependants of a task that failed before follow their policies; they may be new."""
    ends: Ends = deque()
    fallbacks = _fail_dependants(moves, plan, task_id, ends)
    for conditional in plan.spec(moves.tx, task_id).conditional_tasks:
        if conditional in fallbacks:
            _decide_conditional(moves, plan, conditional, fallbacks, ends)
    _settle_all(moves, plan, ends)


def _apply_failure_policy(moves: PlanTransaction, plan: PlanDefinition, task_id: str, failed: str) -> None:
    """Have one task that waits for a failed one follow its policy."""
    ends: Ends = deque()
    for fallback in _fail_dependants(moves, plan, failed, ends, only=task_id):
        _decide_conditional(moves, plan, fallback, (fallback,), ends)
    _settle_all(moves, plan, ends)


def _settle(
    moves: PlanTransaction,
    plan: PlanDefinition,
    task_id: str,
    state: State,
    cause: Cause,
    activated: Sequence[str] = (),
) -> None:
    """Carry out everything that follows from the end of a task, and from the ends that follow from that."""
    _settle_all(moves, plan, deque([(task_id, failure.judge_dependency(state, cause), tuple(activated))]))


def _settle_all(moves: PlanTransaction, plan: PlanDefinition, ends: Ends) -> None:
    """Carry out what follows from ends. Dependants come before conditional tasks.

    A conditional task that is lost with its dependency is not merely a branch that was not taken.
    """
    conditional: deque[tuple[str, tuple[str, ...]]] = deque()
    while ends or conditional:
        if not ends:
            _decide_conditional(moves, plan, *conditional.popleft(), ends)
            continue
        ended, standing, activated = ends.popleft()
        if standing == "failed":
            activated = _fail_dependants(moves, plan, ended, ends)
        else:
            _release_dependants(moves, plan, ended)
        conditional.extend((task_id, activated) for task_id in plan.spec(moves.tx, ended).conditional_tasks)


def _release_dependants(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Count a task that ended well off what its dependants wait for. Those that wait for nothing else are due."""
    spec = plan.spec(moves.tx, task_id)
    if spec.last or (spec.followers and moves.gather_followers(plan, spec.followers)):
        return
    for dependant, unmet, state, delivery in moves.tx.run(MEET, plan_id=plan.plan_id, task_id=task_id):
        if unmet == 0 and state == "PENDING":
            _order_or_gather(moves, plan, dependant, first=delivery is None)


def _order_or_gather(moves: PlanTransaction, plan: PlanDefinition, task_id: str, *, first: bool = False) -> None:
    """Make the command of a due task, unless due tasks are gathered, or enough were made ready."""
    if moves.gathered is not None:
        moves.gathered.append(DueTask(plan, task_id, first))
    elif moves.room:
        inputs.order_if_ready(moves, plan, task_id, first=first)
    else:
        moves.note_due_tasks()


def _fail_dependants(
    moves: PlanTransaction, plan: PlanDefinition, failed: str, ends: Ends, only: str | None = None
) -> tuple[str, ...]:
    """Have the dependants of a failed task follow their policies. Return the fallbacks that stand in for it."""
    rows = moves.tx.run(DEPENDANTS, plan_id=plan.plan_id, task_id=failed)
    states: dict[str, State] = {
        row.dependant: row.state for row in rows if row.state in {"PENDING", "BLOCKED_WAITING_INPUT"}
    }
    began = [row for row in rows if row.state in {"READY", "RUNNING", "COMPLETED"}]
    states |= dict.fromkeys(_reopen_dependants(moves, plan, failed, began) if began else (), "PENDING")
    if only is not None:
        states = {task_id: state for task_id, state in states.items() if task_id == only}
    nodes = [_as_dependant(moves.tx, plan, task_id, failed) for task_id in states]
    fallbacks: dict[str, None] = {}
    why = task_words.TASK_FAILED(task=failed)
    for task_id, consequence in failure.decide_consequences(nodes, failed).items():
        match consequence:
            case failure.SkipConsequence():
                _skip(moves, plan, task_id, "DEPENDENCY_SKIP", why, ends, state=states[task_id])
            case failure.BlockConsequence():
                _ask_whether(moves, plan, plan.node(moves.tx, task_id), why, states[task_id])
            case failure.ReplanConsequence():
                _ask_for_plan(moves, plan, plan.node(moves.tx, task_id), failed, states[task_id])
            case failure.FallbackConsequence(task_id=fallback):
                fallbacks[fallback] = None
                _stand_in(moves, plan, fallback, task_id, ends)
    return tuple(fallbacks)


def _as_dependant(tx: Tx, plan: PlanDefinition, task_id: str, failed: str) -> Node:
    """Return a task as one that depends on a failed one, which may only stand in for its dependency."""
    node = plan.node(tx, task_id)
    return node if failed in node.depends_on else node.model_copy(update={"depends_on": (failed,)})


def _stand_in(moves: PlanTransaction, plan: PlanDefinition, fallback: str, dependant: str, ends: Ends) -> None:
    """Have a task wait for a fallback. It may have ended before, or stand in for another dependency already."""
    plan_id = plan.plan_id
    waits = dependant in [row.dependant for row in moves.tx.run(DEPENDANTS, plan_id=plan_id, task_id=fallback)]
    moves.tx.run(PUT_EDGE, plan_id=plan_id, task_id=fallback, dependant=dependant)
    standing = _standing(moves.tx, plan, fallback)
    if standing == "failed":
        _fail_dependants(moves, plan, fallback, ends)
    elif waits or standing == "fine":
        [(unmet, state)] = moves.tx.run(MEET_ONE, plan_id=plan_id, task_id=dependant)
        if unmet == 0 and state == "PENDING":
            _order_or_gather(moves, plan, dependant)


def _decide_conditional(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, activated: Sequence[str], ends: Ends
) -> None:
    """Let a conditional task run if it was activated. Skip it once no task is left that could activate it."""
    if task_id in activated:
        rows = moves.tx.run(ACTIVATE, plan_id=plan.plan_id, task_id=task_id)
        if rows and rows[0] == (0, "PENDING"):
            _order_or_gather(moves, plan, task_id)
        return
    row = moves.tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0]
    waits = row.state == "PENDING" and row.held
    if waits and not _is_any_open(moves.tx, plan, plan.spec(moves.tx, task_id).activators):
        _skip(moves, plan, task_id, "BRANCH_NOT_TAKEN", task_words.NOT_CALLED_FOR(), ends)


def _skip(
    moves: PlanTransaction,
    plan: PlanDefinition,
    task_id: str,
    cause: Cause,
    why: str,
    ends: Ends,
    *,
    state: State = "PENDING",
) -> None:
    new = moves.move_task(plan, task_id, state, cause, reason=why)
    moves.count(plan.plan_id, "skipped")
    ends.append((task_id, failure.judge_dependency(new, cause), ()))


def _is_any_open(tx: Tx, plan: PlanDefinition, tasks: Sequence[str]) -> bool:
    rows = [tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0] for task_id in tasks]
    return any(row.state not in task_states.FINAL for row in rows)


def has_lost_task(tx: Tx, plan: PlanDefinition, tasks: Sequence[str]) -> bool:
    """Whether one of the tasks failed, or was skipped because another did."""
    rows = [tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0] for task_id in tasks]
    return any(failure.judge_dependency(row.state, row.cause) == "failed" for row in rows)


def _standing(tx: Tx, plan: PlanDefinition, task_id: str) -> DependencyStanding:
    row = tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0]
    return failure.judge_dependency(row.state, row.cause)


# Work that was refused, or replaced by a newer version.


def update_consumers(moves: PlanTransaction, plan: PlanDefinition, producer: str) -> None:
    """Have the consumers of a task follow it. Call it once, right after the task was moved.

    If it is completed, there is a new version. Else it was reopened or has failed: what it made goes no further.
    """
    row = moves.tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=producer)[0]
    if row.state == "COMPLETED":
        _replace_version(moves, plan, producer)
    else:
        _refuse_outputs(moves, plan, producer)


def _refuse_outputs(moves: PlanTransaction, plan: PlanDefinition, producer: str, *, running: bool = True) -> None:
    """Withdraw what a task made. Dependants wait for it again; those that have begun with it begin again."""
    began = [row for row in _unordered_dependants(moves, plan, producer) if row.state in {"READY", "RUNNING"}]
    users = [row.dependant for row in began if versions.find_used_files(moves.tx, plan, row.dependant, producer)]
    versions.withdraw_outputs(moves, plan, producer)
    moves.tx.run(UNMEET, plan_id=plan.plan_id, task_id=producer)
    failed = producer if _standing(moves.tx, plan, producer) == "failed" else None
    for task_id in users:
        _begin_again(moves, plan, task_id, running=running, failed=failed)


def _replace_version(moves: PlanTransaction, plan: PlanDefinition, producer: str) -> None:
    """Withdraw the versions before the newest one, and have tasks that used another one begin again."""
    tx = moves.tx
    rows = versions.list_versions_in_force(tx, plan.plan_id, producer)
    last = max((row.seq for row in rows), default=0)
    versions.withdraw_versions(moves, plan, producer, [row for row in rows if row.seq < last])
    for task_id, state, _ in _unordered_dependants(moves, plan, producer):
        if state in {"READY", "RUNNING", "COMPLETED"} and versions.is_outdated(tx, plan, task_id, producer):
            if state == "COMPLETED":
                _mark_stale(moves, plan, task_id, task_words.OTHER_VERSION(task=producer))
            else:
                _begin_again(moves, plan, task_id)


def _mark_stale(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, why: str, failed: str | None = None
) -> None:
    """Have a completed task run again, because of its inputs; `failed` is the task that lost them by failing."""
    moves.move_task(plan, task_id, "COMPLETED", "STALE", reason=why)
    moves.tx.run(COUNT_RUN, plan_id=plan.plan_id, open=1, completed=-1, failed=0, skipped=0)
    # Its consumers that run go on until its new version is known to differ, unless there will not be one.
    _refuse_outputs(moves, plan, task_id, running=failed is not None)
    _wait_again(moves, plan, task_id, failed)


def _reopen_dependants(
    moves: PlanTransaction, plan: PlanDefinition, failed: str, rows: Iterable[DependantRow]
) -> list[str]:
    """Have those dependants (`rows`) of a failed task wait again that use what it made before. Return those that wait.

    Programs among them are ended first, and follow later.
    """
    waiting = []
    for task_id, state, _ in rows:
        used = versions.find_used_files(moves.tx, plan, task_id, failed).values()
        if moves.is_ordered(plan, task_id) or not any(version_state == "superseded" for _, version_state in used):
            continue
        if state == "COMPLETED":
            _mark_stale(moves, plan, task_id, task_words.RESTS_ON_REFUSED(task=failed), failed)
        else:
            _begin_again(moves, plan, task_id, failed=failed)
        if moves.tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0].state == "PENDING":
            waiting.append(task_id)
    return waiting


def _unordered_dependants(moves: PlanTransaction, plan: PlanDefinition, producer: str) -> list[DependantRow]:
    """List the dependants of a task, apart from those that this transaction made a command for."""
    rows = moves.tx.run(DEPENDANTS, plan_id=plan.plan_id, task_id=producer)
    return [row for row in rows if not moves.is_ordered(plan, row.dependant)]


def _begin_again(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, *, running: bool = True, failed: str | None = None
) -> None:
    """Have a task wait again that has begun or is about to. One that is `running` by now may be left alone."""
    row = moves.tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0]
    if row.state == "RUNNING" and not running:
        return
    if row.lease is not None:
        revoke_turn(moves, plan, task_id, WHY_REPLACED)
        return
    if row.state == "RUNNING":  # without a lease: its agent works in a folder
        moves.move_task(plan, task_id, "RUNNING", "SUPERSEDED", reason=WHY_REPLACED)
    recalls.recall_command(moves, plan, row.delivery, WHY_REPLACED)
    _wait_again(moves, plan, task_id, failed)


def revoke_turn(moves: PlanTransaction, plan: PlanDefinition, task_id: str, why: str) -> None:
    """Have the turn of a task ended. The task goes on once nothing of the turn runs any more."""
    for (lease,) in moves.tx.run(REVOKE_TURN, plan_id=plan.plan_id, task_id=task_id):
        moves.revoked.append(lease)
        moves.tx.record("turn.revoked", f"{plan.plan_id}/{task_id}", {"lease": lease, "reason": why})


def return_to_waiting(moves: PlanTransaction, plan: PlanDefinition, task_id: str, delivery: int) -> None:
    """Have a READY task wait for its new inputs, now that nothing of its revoked turn runs any more."""
    recalls.recall_command(moves, plan, delivery, WHY_REPLACED)
    close_questions(moves, plan, task_id)
    _wait_again(moves, plan, task_id)


def wait_for_inputs(moves: PlanTransaction, plan: PlanDefinition, task_id: str, delivery: int | None = None) -> None:
    """Withdraw the command of a READY task whose inputs are not there any more, and have it wait for them."""
    recalls.recall_command(moves, plan, delivery, WHY_REPLACED)
    _wait_again(moves, plan, task_id)


def _wait_again(moves: PlanTransaction, plan: PlanDefinition, task_id: str, failed: str | None = None) -> None:
    """Have a READY task wait for its open dependencies. Without any it is due at once.

    A caller that passes a `failed` task has its dependants follow their policies afterwards.
    """
    tx = moves.tx
    node = plan.node(tx, task_id)
    standings = _source_standings(tx, plan, node)
    unmet = sum(standing == "open" for standing in standings.values())
    lost = [source for source, standing in standings.items() if standing == "failed"]
    is_lost = bool(lost) and not unmet and not isinstance(inputs.pick_inputs(moves, plan, node), PickedInputs)
    moves.move_task(plan, task_id, "READY", "INPUTS_LOST", reason=WHY_REPLACED)
    # One more than it waits for, so that no pass takes it for due before a policy has decided about it.
    tx.run(SET_UNMET, plan_id=plan.plan_id, task_id=task_id, unmet=unmet + int(is_lost or failed is not None))
    if failed is None and is_lost:
        _apply_failure_policy(moves, plan, task_id, lost[0])
    moves.note_due_tasks()


def recount_waits(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Count again how many others a task waits for that has not begun."""
    tx, plan_id = moves.tx, plan.plan_id
    row = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0]
    if row.state == "PENDING" and not moves.is_ordered(plan, task_id):
        standings = _source_standings(tx, plan, plan.node(tx, task_id))
        unmet = sum(standing != "fine" for standing in standings.values()) + int(bool(row.held))
        tx.run(SET_UNMET, plan_id=plan_id, task_id=task_id, unmet=unmet)
        moves.note_due_tasks()


def _source_standings(tx: Tx, plan: PlanDefinition, node: Node) -> dict[str, DependencyStanding]:
    """Map the tasks whose outputs a task may use to what they mean to it."""
    sources = inputs.find_sources(tx, plan, node)
    return {task_id: _standing(tx, plan, task_id) for task_id in sources if task_id != node.task_id}


def close_questions(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Close the open questions about a task that begins again, or was removed."""
    for (request_id,) in moves.tx.run(OPEN_REQUESTS_OF, plan_id=plan.plan_id, task_id=task_id):
        people_questions.close(moves.tx, request_id, "the task does not wait for it any more", at=moves.now)


# Tasks that can continue.


def advance_due_tasks(moves: PlanTransaction, plan: PlanDefinition, limit: int = AT_ONCE) -> int:
    """Continue tasks whose answer came, check those that wait for inputs, and make due ones ready.

    Return the number of due tasks.
    """
    for answered in moves.tx.run(ANSWERED_TASKS, plan_id=plan.plan_id):
        _use_answer(moves, plan, answered)
    for task_id, since, request_id, cause in moves.tx.run(WAITING_TASKS, plan_id=plan.plan_id):
        if cause != "INPUT_REJECTED" or not _is_any_open(moves.tx, plan, plan.node(moves.tx, task_id).depends_on):
            inputs.recheck(moves, plan, task_id, since, request_id)
    due = moves.tx.run(DUE_TASKS, plan_id=plan.plan_id, limit=limit)
    for task_id, delivery in due:
        inputs.order_if_ready(moves, plan, task_id, first=delivery is None)
    return len(due)


def recheck_waiting(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Check the tasks that wait for another version of what a task makes."""
    tx, plan_id = moves.tx, plan.plan_id
    for dependant, state, _ in tx.run(DEPENDANTS, plan_id=plan_id, task_id=task_id):
        if state != "BLOCKED_WAITING_INPUT":
            continue
        row = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=dependant)[0]
        if row.cause != "INPUT_REJECTED" or not _is_any_open(tx, plan, plan.node(tx, dependant).depends_on):
            inputs.recheck(moves, plan, dependant, row.waiting_since or moves.now, row.request_id)


def _use_answer(moves: PlanTransaction, plan: PlanDefinition, row: AnsweredTaskRow) -> None:
    """Continue, skip or fail a task as a person answered."""
    tx, task_id, by = moves.tx, row.task_id, row.answered_by
    node = plan.node(tx, task_id)
    response = HumanInterventionResponse.from_bytes(row.response)
    chosen = [str(answer) for answer in response.decision_answers]
    gives_up = response.decision in {"REJECT", "ABORT"} or "give up" in chosen
    if row.cause == "GATE_UNMET":  # under any answer, what the task made was not good enough
        versions.withdraw_outputs(moves, plan, task_id)
    if row.cause == "SOFT_DENIED" and row.delivery is not None:
        if not gives_up:
            _override(moves, plan, node, row.delivery, response, by)
            return
        tx.run(WITHDRAW_DIRECT, id=row.delivery, at=moves.now, details=f"{response.decision} by {by}")
    if gives_up:
        end_idle_task(
            moves, plan, task_id, row.state, "GIVEN_UP", reason=task_words.DECIDED_BY(decision=response.decision, by=by)
        )
    elif "skip" in chosen:
        ends: Ends = deque()
        _skip(moves, plan, task_id, "DEPENDENCY_SKIP", task_words.SKIPPED_BY(by=by), ends, state=row.state)
        _settle_all(moves, plan, ends)
    elif row.cause == "DEPENDENCY_REPLAN":  # its inputs are not there: it cannot run before there is another plan
        request_id = questions.ask_while_replanning(tx, plan, node, at=moves.now)
        reason = task_words.WANTS_PLAN(by=by)
        tx.run(NOTE_REQUEST, plan_id=plan.plan_id, task_id=task_id, request_id=request_id, **to_columns(reason))
    else:
        _continue(moves, plan, node, row.state, row.cause, chosen)


def _continue(
    moves: PlanTransaction, plan: PlanDefinition, node: Node, state: State, cause: Cause | None, chosen: Sequence[str]
) -> None:
    """Make the next command of a task that a person let continue.

    A person may have a task run although a dependency failed: then the outputs of that dependency are left out. Every
    other required input has to be there; people are asked for what is missing.
    """
    candidates = inputs.find_candidates(moves.tx, plan, node, from_people=True)
    node = input_selection.adapt_to_given_files(node, candidates)
    if cause == "INPUTS_AMBIGUOUS":
        candidates = input_selection.apply_choices(candidates, chosen)
    pick = input_selection.pick_available if cause == "DEPENDENCY_BLOCK" else input_selection.pick_inputs
    picked = pick(node, candidates, final=frozenset(node.depends_on))
    moved: Cause = "DECIDED" if state == "BLOCKED_WAITING_REVIEW" else "ANSWERED"
    match picked:
        case PickedInputs():
            moves.queue_command(plan, node, picked, state, moved)
        case AmbiguousInput():
            inputs.ask_which(moves, plan, node, picked, state)
        case MissingInputs() if _is_any_open(moves.tx, plan, node.depends_on):  # another version is being made
            moves.move_task(plan, node.task_id, state, moved)
            wait_for_inputs(moves, plan, node.task_id)
        case MissingInputs(names=names):
            request_id = questions.ask_for_files(moves.tx, plan, node, names, at=moves.now)
            _note_request(moves, plan, node, request_id, task_words.WAITS_FOR(names=", ".join(names)))


# Checkpoints, and questions to people.


def hold_for_override(moves: PlanTransaction, plan: PlanDefinition, node: Node, denied: CheckpointDecision) -> None:
    """Hold a task that a checkpoint denied until an operator overrides it."""
    why = join(denied.reasons)
    request_id = _ask_to_override(
        moves, plan, node, question_words.HOLDS_UP(checkpoint=denied.checkpoint, task=node.task_id, why=why)
    )
    gates = [denied.as_json()]
    moves.move_task(plan, node.task_id, "READY", "SOFT_DENIED", reason=why, request_id=request_id, gates=gates)


def _ask_to_override(moves: PlanTransaction, plan: PlanDefinition, node: Node, title: str) -> str:
    options = ("override", "give up")
    return questions.ask_about_task(moves.tx, plan, node, "APPROVAL", title, "", options, at=moves.now)


def _override(
    moves: PlanTransaction,
    plan: PlanDefinition,
    node: Node,
    delivery: int,
    response: HumanInterventionResponse,
    by: str,
) -> None:
    """Let a task begin that a checkpoint held up, for exactly the reasons that the operator saw."""
    chosen = [str(answer) for answer in response.decision_answers]
    if response.decision != "APPROVE" and "override" not in chosen:
        row = moves.tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=node.task_id)[0]
        reason = read_column(row.reason, row.reason_message)
        request_id = _ask_to_override(moves, plan, node, question_words.STILL_HELD(task=node.task_id, why=reason or ""))
        _note_request(moves, plan, node, request_id, reason)
        return
    denials.override(moves.tx, plan.plan_id, node.task_id, by=by, why=response.notes or "")
    requeue_held_task(moves, plan.plan_id, node.task_id, delivery)


def requeue_held_task(moves: PlanTransaction, plan_id: str, task_id: str, delivery: int) -> None:
    """Put a task that a checkpoint holds up back into its agent's queue; the checkpoint decides about it again."""
    queued = delivery if moves.is_running(plan_id) else None
    for (agent_id,) in moves.tx.run(REQUEUE_TASK, plan_id=plan_id, task_id=task_id, queued=queued, at=moves.now):
        moves.agents[agent_id] = None


def ask_person(moves: PlanTransaction, plan: PlanDefinition, node: Node, title: str) -> str:
    """Ask a person what to do with a task that waits for that. Return the question."""
    request_id = questions.ask_whether_to_retry(moves.tx, plan, node, title, at=moves.now)
    _note_request(moves, plan, node, request_id, title)
    return request_id


def _note_request(
    moves: PlanTransaction, plan: PlanDefinition, node: Node, request_id: str, reason: str | None
) -> None:
    moves.tx.run(NOTE_REQUEST, plan_id=plan.plan_id, task_id=node.task_id, request_id=request_id, **to_columns(reason))


def _ask_whether(moves: PlanTransaction, plan: PlanDefinition, node: Node, why: str, state: State) -> None:
    request_id = questions.ask_whether_to_run(moves.tx, plan, node, why, at=moves.now)
    reason = task_words.TO_DECIDE(why=why)
    moves.move_task(plan, node.task_id, state, "DEPENDENCY_BLOCK", reason=reason, request_id=request_id)


def _ask_for_plan(moves: PlanTransaction, plan: PlanDefinition, node: Node, failed: str, state: State) -> None:
    request_id = questions.ask_for_new_plan(moves.tx, plan, node, failed, at=moves.now)
    why = task_words.PLAN_NEEDED(task=failed)
    moves.move_task(plan, node.task_id, state, "DEPENDENCY_REPLAN", reason=why, request_id=request_id)
