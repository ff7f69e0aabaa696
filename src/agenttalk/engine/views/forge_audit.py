"""Compares what an agent reported of a toolchain task with what the engine read at the forge after the turn."""

from __future__ import annotations

from typing import Any, Final, cast

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.toolchain import NOTICES
from agenttalk.engine.core.boards import TOOLCHAIN as BOARD
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.views.models.toolchain import (
    AuditedTurn,
    BoardTask,
    CommentView,
    ToolchainAudit,
    VerificationView,
)
from agenttalk.engine.views.toolchain import read_toolchain_fields
from agenttalk.ports.statements.core import COMMENTS_OF, FACT, CommentRow
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.storage import Store
from agenttalk.rules.proof.done import Evidence, Verdict
from agenttalk.rules.text import forge_words
from agenttalk.rules.text.catalogue import restore_messages
from agenttalk.rules.toolchain import read_back
from agenttalk.rules.toolchain.read_back import VerifyResult

_COMMENTS: Final = 1_000
"""How many comments of a task are shown."""
_TURNS: Final = 100
"""How many turns of a task are shown, the newest."""


async def audit_task(deps: Deps, task_id: str) -> ToolchainAudit:
    """Return a task with each of its turns: its comments, the checks at the forge, and the result."""
    task = await read_toolchain_fields(deps, TaskName(BOARD, BOARD, task_id))
    if task is None:
        hint = "'agenttalk toolchain tasks' lists tasks"
        raise UsageError(Code.TASK_NOT_FOUND, f"there is no toolchain task {task_id[:80]!r}", hint=hint)
    store = await deps.stores.board(BOARD)
    rows = await store.read(COMMENTS_OF, plan_id=BOARD, task_id=task_id, after=0, limit=_COMMENTS)
    turns = await _turns(store, task_id)
    known = {turn["epoch"] for turn in turns}
    for turn in turns:
        turn["said"] = [_describe_comment(row) for row in rows if row.epoch == turn["epoch"]]
    return {
        **task,
        "turns": turns,
        "said": [_describe_comment(row) for row in rows if row.epoch not in known],
        "verify": _find_result(task, turns),
    }


async def _turns(store: Store, task_id: str) -> list[AuditedTurn]:
    """Return how each turn ended, oldest first: the fact of each turn names the one before it."""
    [row] = await store.read(ENGINE_TASK, plan_id=BOARD, task_id=task_id)
    fact = row.fact
    turns: list[AuditedTurn] = []
    while fact is not None and len(turns) < _TURNS:
        [fact_row] = await store.read(FACT, seq=fact)
        body: Any = restore_messages(wire.read(bytes(fact_row.body), limit=wire.DOCUMENT_LIMIT))
        fact = body.get("before")
        turns.append(
            {
                "epoch": body["epoch"],
                "command_id": body["command_id"],
                "how": body["how"],
                "cause": body["cause"],
                "reason": body.get("reason"),
                "seen": body.get("checks", []),
                "verify": _verify(body) if "verdict" in body else None,
                "said": [],
            }
        )
    return turns[::-1]


def _verify(turn: JsonObject) -> VerificationView:
    verdict = turn["verdict"]
    evidence = [
        Evidence(
            check["id"],
            check["passed"],
            True,
            check["trust"],
            check["by"],
            "",
            check["detail"],
            code=check.get("code", ""),
        )
        for check in turn.get("checks", ())
    ]
    return _describe_result(read_back.to_result(Verdict(verdict["fulfilled"], trust=verdict["trust"]), evidence))


def _find_result(task: BoardTask, turns: list[AuditedTurn]) -> VerificationView | None:
    """Return the result of verifying the task so far."""
    if task["must_haves"]["action_type"] in NOTICES:
        return {
            "passed": True,
            "code": "delivered",
            "detail": forge_words.STORED(agent=task["assignee"]),
            "trust": task["trust"],
            "infrastructure": False,
        }
    return next((turn["verify"] for turn in reversed(turns) if turn["verify"]), None)


def _describe_result(result: VerifyResult) -> VerificationView:
    view: Any = result._asdict()
    return cast("VerificationView", view)


def _describe_comment(row: CommentRow) -> CommentView:
    comment: CommentView = {
        "id": row.id,
        "kind": row.kind,
        "author": row.author,
        "type": row.type,
        "body": row.body,
        "at": row.at,
    }
    if row.claims:
        claims: Any = wire.read(bytes(row.claims))
        comment["claims"] = claims
    return comment
