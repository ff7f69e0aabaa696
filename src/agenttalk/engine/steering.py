"""What an operator does with a plan that runs: pause it, let it go on, call it off, try a task again."""

from __future__ import annotations

from collections import deque
from typing import Any

from agenttalk.engine import commanding
from agenttalk.engine.moves import Moves
from agenttalk.engine.sheets import Sheet
from agenttalk.errors import Code, UsageError
from agenttalk.ports import Tx
from agenttalk.rules.readiness import Picked


def pause(tx: Tx, plan_id: str, *, by: str, at: str) -> bool:
    """Begin nothing new; what runs goes on to its end. False when it was paused before."""
    state = _run(tx, plan_id)[0]
    if state == "ENDED":
        raise UsageError(Code.ILLEGAL_TRANSITION, f"plan {plan_id!r} has ended", hint="there is nothing to pause")
    if not tx.run("set_run_state", plan_id=plan_id, state="PAUSED", at=at):
        return False
    tx.run("unqueue_plan", plan_id=plan_id)
    tx.record("plan.paused", plan_id, {"by": by})
    return True


def resume(moves: Moves, plan_id: str, *, by: str) -> bool:
    """Let a paused plan go on. False when it was not paused."""
    tx = moves.tx
    if _run(tx, plan_id)[0] != "PAUSED":
        return False
    tx.run("set_run_state", plan_id=plan_id, state="RUNNING", at=moves.at)
    for (agent_id,) in tx.run("requeue_plan", plan_id=plan_id):
        moves.agents[agent_id] = None
    tx.record("plan.resumed", plan_id, {"by": by})
    moves.left = True
    return True


def cancel(moves: Moves, plan_id: str, *, by: str, why: str = "") -> int:
    """Call everything off that is still open; how many tasks. Whatever ran must be dead before."""
    tx = moves.tx
    if _run(tx, plan_id)[0] == "ENDED":
        return 0
    reason = f"cancelled by {by}" + (f": {why}" if why else "")
    tasks = tx.run("cancel_tasks", plan_id=plan_id, reason=reason, at=moves.at)
    tx.run("cancel_deliveries", plan_id=plan_id, reason=reason, at=moves.at)
    if tasks:
        tx.run("count_run", plan_id=plan_id, open=-len(tasks), completed=0, failed=len(tasks), skipped=0)
    tx.run("set_run_state", plan_id=plan_id, state="ENDED", at=moves.at)
    tx.record("plan.cancelled", plan_id, {"by": by, "reason": reason, "tasks": len(tasks)})
    return len(tasks)


def retry(moves: Moves, plan_id: str, task_id: str, *, by: str) -> list[str]:
    """Try a failed task again, with all its rounds; those that its failure stopped wait for it again."""
    tx = moves.tx
    _run(tx, plan_id)
    sheet = moves.sheets.of(tx, plan_id)
    rows = tx.run("engine_task", plan_id=plan_id, task_id=task_id)
    if not rows:
        raise UsageError(Code.TASK_NOT_FOUND, f"plan {plan_id!r} has no task {task_id!r}")
    state = rows[0][1]
    if state != "FAILED":
        raise UsageError(
            Code.ILLEGAL_TRANSITION,
            f"{task_id} is {state}, and only what failed can be tried again",
            hint=f"'agenttalk explain {plan_id}/{task_id}' says what moves it on",
        )
    tx.run("fresh_start", plan_id=plan_id, task_id=task_id)
    node = sheet.node(tx, task_id)
    tx.run("count_run", plan_id=plan_id, open=1, completed=0, failed=-1, skipped=0)
    tx.run("set_run_state", plan_id=plan_id, state="RUNNING", at=moves.at)
    tx.record("task.retried", f"{plan_id}/{task_id}", {"by": by})
    moves.queue(
        sheet,
        node,
        Picked(inputs=commanding.inputs_of(tx, rows[0][4]) if rows[0][4] is not None else (), sources={}, absent=()),
        "FAILED",
        "OPERATOR_RETRY",
    )
    return [task_id, *wake_stopped(moves, sheet, task_id)]


def wake_stopped(moves: Moves, sheet: Sheet, task_id: str) -> list[str]:
    """Have those that the failure of a task stopped wait for it again, unless another one stops them; who they are."""
    woken: list[str] = []
    ahead = deque([task_id])
    while ahead:
        source = ahead.popleft()
        for dependant, state in moves.tx.run("stopped_dependants", plan_id=sheet.plan_id, task_id=source):
            if moves.any_lost(sheet, sheet.node(moves.tx, dependant).depends_on):
                continue
            moves.put(sheet, dependant, state, "DEPENDENCY_RETRIED")
            if state == "SKIPPED":
                moves.tx.run("count_run", plan_id=sheet.plan_id, open=1, completed=0, failed=0, skipped=-1)
                ahead.append(dependant)
            woken.append(dependant)
    return woken


def _run(tx: Tx, plan_id: str) -> Any:
    rows = tx.run("run", plan_id=plan_id)
    if not rows:
        raise UsageError(Code.NAME_UNKNOWN, f"the engine runs no plan {plan_id!r}", hint="'agenttalk status' lists all")
    return rows[0]
