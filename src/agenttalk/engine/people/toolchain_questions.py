"""Questions of the board `_toolchain` that only people can decide."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from agenttalk.contracts.core import root_layout
from agenttalk.engine.core import records
from agenttalk.engine.people import questions
from agenttalk.engine.people.questions import NeededAnswer, QuestionAuthor
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.storage import Tx
from agenttalk.rules.text.message import cut

SEEN: Final = ("seen",)
_LONGEST: Final = 500


def ask(
    tx: Tx,
    key: str,
    title: str,
    question: str,
    options: Sequence[str] = SEEN,
    *,
    at: str,
    agent: str = root_layout.GATEWAY,
    task_id: str | None = None,
    criteria: Any = None,
) -> str:
    """Put a question, once for each key. Return its id."""
    needed: NeededAnswer = {"decision": {"question": question, "options": questions.make_choices(options)}}
    if criteria is not None:
        needed["criteria"] = criteria
    author: QuestionAuthor = {"agent_id": agent}
    if task_id:
        author["task_id"] = task_id
    request = questions.new_request(
        _id(key),
        "DECISION",
        cut(title, _LONGEST),
        needed,
        author=author,
        now=at,
        plan_id=tx.board,
        blocking=False,
    )
    return questions.ask_own(tx, request, plan_id=tx.board, at=at)


def ask_once(tx: Tx, subject: str, title: str, question: str, options: Sequence[str] = SEEN, *, at: str) -> str | None:
    """Put a question about a subject, unless one about it is open. Return its id if it is new."""
    for number in count(1):
        rows = tx.run(REQUEST, request_id=_id(f"{subject}/{number}"))
        if not rows or rows[0].state == "open":
            break
    return None if rows else ask(tx, f"{subject}/{number}", title, question, options, at=at)


def _id(key: str) -> str:
    return records.derive_id("req", f"toolchain/{key}")
