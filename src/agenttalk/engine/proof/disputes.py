"""Disputes of checks: an agent says that a check is wrong, and a person is asked. The task goes on as before."""

from __future__ import annotations

from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, Problem, UsageError
from agenttalk.contracts.human import CheckDispute
from agenttalk.engine.core import records, task_comments
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.people import dispute_rows as kept
from agenttalk.engine.people import questions
from agenttalk.engine.plans.definition import DefinitionCache
from agenttalk.ports.statements.core import FACT
from agenttalk.ports.statements.messages import TASK
from agenttalk.ports.statements.plans import ENGINE_TASK, LAST_SEQ, RUN
from agenttalk.ports.statements.proof import ADD_DISPUTE
from agenttalk.ports.storage import Tx
from agenttalk.rules.core import task_states
from agenttalk.rules.messages.routes import Rejection
from agenttalk.rules.proof import disputes
from agenttalk.rules.proof.disputes import Dispute, DisputeView
from agenttalk.rules.text import question_words
from agenttalk.rules.text.message import cut

_SHOWN: Final = ("passed", "detail", "detail_message", "output", "trust", "at")
"""Fields of a check's last result that a person sees."""
_IMPACTS: Final = {disputes.UPHELD: question_words.UPHELD_MEANS, disputes.DISMISSED: question_words.DISMISSED_MEANS}


class DisputeReceipt(DisputeView):
    """A dispute, and the question that was put to a person."""

    question_id: str
    task: str


async def dispute(deps: Deps, task: TaskName, caller: Caller, check_id: str, reason: str) -> DisputeReceipt:
    """Ask a person whether a check of the caller's own task is wrong. Only one dispute of a check can be open.

    Raises UsageError when the check cannot be disputed now, or the attempt is over.
    """
    reason = deps.secret_guard.secrets.redact(reason)
    store, at = await task_comments.board_of_task(deps, task), deps.stamp()

    def work(tx: Tx) -> Dispute | Problem:
        task_comments.require_current_attempt(tx, task, caller)
        return _raise(tx, task.plan_id, task.task_id, caller.name, check_id, reason, at)

    found = await store.transact(work)
    if isinstance(found, Problem):
        raise UsageError(found.code, found.message, hint=found.hint)
    return {**found.as_json(), "question_id": found.request_id, "task": task.subject}


def accept_dispute_file(tx: Tx, deps: Deps, said: CheckDispute, *, plan_id: str, at: str) -> Rejection | None:
    """Return a dispute that an agent left in its folder's outbox, or the reason why it does not count."""
    rows = tx.run(TASK, plan_id=plan_id, task_id=said.task_id)
    if not rows:
        return Rejection(Code.TASK_NOT_IN_DAG, f"the plan has no task {said.task_id!r}")
    if rows[0].agent_id != said.agent_id:
        return Rejection(Code.PRODUCER_MISMATCH, f"{said.task_id} is not a task of {said.agent_id}")
    if rows[0].state in task_states.FINAL:
        return Rejection(Code.DISPUTE_REFUSED, f"{said.task_id} has ended: it is {rows[0].state}")
    reason = deps.secret_guard.secrets.redact(said.reason)
    found = _raise(tx, plan_id, said.task_id, said.agent_id, said.check, reason, at)
    return Rejection(found.code, found.message, (found,)) if isinstance(found, Problem) else None


def _raise(tx: Tx, plan_id: str, task_id: str, agent_id: str, check_id: str, reason: str, at: str) -> Dispute | Problem:
    if not tx.run(RUN, plan_id=plan_id):
        return Problem(Code.TASK_NOT_FOUND, "task", f"the engine runs no plan {plan_id!r}, so it checks nothing of it")
    plan = DefinitionCache().load(tx, plan_id)
    checks = {each.id: each.as_json() for each in plan.promise(plan.node(tx, task_id)).checks}
    known = kept.list_disputes(tx, plan_id, task_id)
    [(seq,)] = tx.run(LAST_SEQ, plan_id=plan_id, task_id=task_id)
    found = disputes.judge(known, checks, check_id=check_id, seq=seq, reason=reason)
    if found is not None:
        return found
    check, last = checks[check_id], _last(tx, plan_id, task_id, check_id)
    subject = f"{plan_id}/{task_id}"
    request = questions.new_request(
        records.derive_id("req", f"dispute/{subject}/{check_id}/{seq}"),
        "DECISION",
        cut(question_words.CHECK_IS_WRONG(agent=agent_id, check=check_id, task=task_id), 200),
        {
            "decision": {
                "question": disputes.render_question(subject, agent_id, reason, check, last),
                "options": [
                    {"key": key, "label": question_words.label_option(key), "impact": impact()}
                    for key, impact in _IMPACTS.items()
                ],
            },
            "criteria": {"dispute": {"check": check, "last": last, "reason": reason}},
        },
        author={"agent_id": agent_id, "task_id": task_id},
        now=at,
        severity="MEDIUM",
        blocking=False,
    )
    request_id = questions.ask_own(tx, request, plan_id=plan_id, at=at)
    tx.run(
        ADD_DISPUTE,
        request_id=request_id,
        plan_id=plan_id,
        task_id=task_id,
        check_id=check_id,
        seq=seq,
        agent_id=agent_id,
        reason=reason,
        at=at,
    )
    told = {"check": check_id, "agent_id": agent_id, "reason": reason, "request_id": request_id, "seq": seq}
    tx.record(kept.RAISED, subject, told)
    return Dispute(request_id, check_id, seq, agent_id, reason, "open", at)


def _last(tx: Tx, plan_id: str, task_id: str, check_id: str) -> JsonObject | None:
    """Return the last result of a check, as the engine recorded it."""
    fact = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0].fact
    while fact is not None:
        told: Any = wire.read(bytes(tx.run(FACT, seq=fact)[0].body), limit=wire.DOCUMENT_LIMIT)
        for each in told.get("checks") or ():
            if each.get("id") == check_id:
                return {key: each[key] for key in _SHOWN if key in each}
        fact = told.get("before")
    return None
