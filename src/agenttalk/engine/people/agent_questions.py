"""Questions of an attempt to a person, and the answers to them."""

from __future__ import annotations

from typing import Any, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core import records, task_comments
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.people import questions
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.storage import Tx


class QuestionReceipt(TypedDict):
    """A question that was put to a person."""

    question_id: str
    state: str


class AnsweredQuestion(QuestionReceipt):
    """A question, with its answer once there is one."""

    decision: str | None
    answers: list[Any]
    notes: str | None


async def ask(deps: Deps, task: TaskName, caller: Caller, question: str) -> QuestionReceipt:
    """Put a question to a person. The same question of the same attempt is put once.

    Raises UsageError when the attempt is over.
    """
    question = deps.secret_guard.secrets.redact(question)
    store, at = await task_comments.board_of_task(deps, task), deps.stamp()
    epoch = caller.attempt.epoch if caller.attempt else 0
    wanted = records.derive_id("req", f"{task.subject}/{epoch}/{wire.sha256(question.encode())}")
    request = questions.new_request(
        wanted,
        "CLARIFY",
        question.splitlines()[0][:200],
        {"decision": {"question": question}},
        author={"agent_id": caller.name, "task_id": task.task_id},
        now=at,
        severity="MEDIUM",
        blocking=False,
    )

    def work(tx: Tx) -> str:
        task_comments.require_current_attempt(tx, task, caller)
        return questions.ask_own(tx, request, plan_id=task.plan_id, at=at)

    return {"question_id": await store.transact(work), "state": "open"}


async def read_answer(deps: Deps, task: TaskName, question_id: str) -> AnsweredQuestion:
    """Return what was answered to a question about a task. Raises UsageError when the question is not there."""
    store = await task_comments.board_of_task(deps, task)
    rows = await store.read(REQUEST, request_id=question_id)
    if not rows or (rows[0].plan_id, rows[0].task_id) != (task.plan_id, task.task_id):
        raise UsageError(Code.NAME_UNKNOWN, f"{task.subject} has asked no question {question_id[:80]!r}")
    state, response = rows[0].state, rows[0].response
    told: Any = wire.read(bytes(response)) if response else {}
    return {
        "question_id": question_id,
        "state": state,
        "decision": told.get("decision"),
        "answers": told.get("decision_answers", []),
        "notes": told.get("notes"),
    }
