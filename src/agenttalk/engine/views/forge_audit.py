"""What an agent reported of a toolchain task, beside what the engine read at the forge when its turn had ended."""

from __future__ import annotations

from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.toolchain import NOTICES
from agenttalk.engine.core.boards import TOOLCHAIN as BOARD
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.views.toolchain import read_toolchain_fields
from agenttalk.ports.statements.core import COMMENTS_OF, FACT, CommentRow
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.storage import Store
from agenttalk.rules.proof.done import Evidence, Verdict
from agenttalk.rules.toolchain import read_back
from agenttalk.rules.toolchain.read_back import VerifyResult

_MOST_SAID: Final = 1_000


_TURNS: Final = 100
"""Turns of one task that are shown, the newest."""


async def audit_task(deps: Deps, task_id: str) -> dict[str, Any]:
    """A task with each of its turns: what was said in it, what was seen, and what that came to."""
    task = await read_toolchain_fields(deps, TaskName(BOARD, BOARD, task_id))
    if not task:
        hint = "'agenttalk toolchain tasks' lists them"
        raise UsageError(Code.TASK_NOT_FOUND, f"there is no toolchain task {task_id[:80]!r}", hint=hint)
    store = await deps.stores.board(BOARD)
    rows = await store.read(COMMENTS_OF, plan_id=BOARD, task_id=task_id, after=0, limit=_MOST_SAID)
    turns = await _turns(store, task_id)
    known = {each["epoch"] for each in turns}
    return {
        **task,
        "turns": [
            {**each, "said": [_describe_comment(row) for row in rows if row.epoch == each["epoch"]]} for each in turns
        ],
        "said": [_describe_comment(row) for row in rows if row.epoch not in known],
        "verify": _result(task, turns),
    }


async def _turns(store: Store, task_id: str) -> list[dict[str, Any]]:
    """How each turn ended, the oldest first: the fact of each names the one before it."""
    [row] = await store.read(ENGINE_TASK, plan_id=BOARD, task_id=task_id)
    fact, found = row.fact, list[dict[str, Any]]()
    while fact is not None and len(found) < _TURNS:
        [(body,)] = await store.read(FACT, seq=fact)
        told: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
        fact = told.get("before")
        found.append(
            {
                "epoch": told["epoch"],
                "command_id": told["command_id"],
                "how": told["how"],
                "cause": told["cause"],
                "reason": told.get("reason"),
                "seen": told.get("checks", []),
                "verify": _verification_of(told)._asdict() if "verdict" in told else None,
            }
        )
    return found[::-1]


def _verification_of(turn: dict[str, Any]) -> VerifyResult:
    said = turn["verdict"]
    seen = [
        Evidence(each["id"], each["passed"], True, each["trust"], each["by"], "", each["detail"])
        for each in turn.get("checks", ())
    ]
    return read_back.to_result(Verdict(said["fulfilled"], trust=said["trust"]), seen)


def _result(own: dict[str, Any], turns: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What verification of the task has come to so far."""
    if own["must_haves"]["action_type"] in NOTICES:
        return VerifyResult(True, "delivered", f"stored for {own['assignee']}", own["trust"])._asdict()
    return next((each["verify"] for each in reversed(turns) if each["verify"]), None)


def _describe_comment(row: CommentRow) -> dict[str, Any]:
    shown = {"id": row.id, "kind": row.kind, "author": row.author, "type": row.type, "body": row.body, "at": row.at}
    return {**shown, "claims": wire.read(bytes(row.claims))} if row.claims else shown
