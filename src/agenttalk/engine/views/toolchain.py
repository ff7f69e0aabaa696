"""What people and agents see of the board `_toolchain`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.toolchain import ACTION_TYPES
from agenttalk.engine.core.boards import TOOLCHAIN as BOARD
from agenttalk.engine.core.boards import open_if_readable
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.views.models.toolchain import BoardSummary, ToolchainWarning, WarningPage
from agenttalk.ports.statements.toolchain import (
    BREAKERS,
    OUTGOING_PAGE,
    TOOLCHAIN_NEWEST,
    TOOLCHAIN_PAGE,
    TOOLCHAIN_PAGE_OF_AGENT,
    TOOLCHAIN_PAGE_OPEN,
    TOOLCHAIN_TASK,
    TOOLCHAIN_WARNINGS,
    ToolchainPageRow,
)
from agenttalk.ports.storage import Store
from agenttalk.rules.core import task_states

PAGE: Final = 100
LONGEST_PAGE: Final = 500
STATUSES: Final = ("open", "closed", "pending", "working", "review", "blocked", "done", "failed", "withdrawn")
_LOOKED_AT: Final = 5_000
"""Rows that one request looks at for those that it wants; then the next page goes on."""

_BEYOND: Final = 2**62
"""More than any number of a row."""


@dataclass(frozen=True, slots=True)
class ToolchainQuery:
    """Which tasks somebody wants to see."""

    assignee: str = ""
    status: str = ""
    """`open`, `closed`, or a status such as `pending`, `working`, `done`, `failed`, `withdrawn`."""
    action_type: str = ""
    after: int = 0
    limit: int = PAGE
    newest: bool = False
    """The newest first; `after` is the one before which the page begins, 0 for the very newest."""


def require_one_of(what: str, said: str, known: Collection[str]) -> None:
    """Raise UsageError for a value that nothing can have: a slip would be answered by an empty list."""
    if said and said not in known:
        near = find_nearest(said, known)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
        raise UsageError(Code.FIELD_VALUE, f"there is no {what} {said[:40]!r}", hint=hint)


async def list_toolchain_tasks(deps: Deps, asked: ToolchainQuery) -> dict[str, Any]:
    """Tasks in the order in which they were made, and from where the next page goes on.

    Raises UsageError for a status or an action type that there is not.
    """
    require_one_of("status", asked.status, STATUSES)
    require_one_of("action_type", asked.action_type, ACTION_TYPES)
    if not deps.stores.has_board(BOARD):
        return {"tasks": [], "next": None}
    store = await deps.stores.board(BOARD)
    limit = max(1, min(asked.limit, LONGEST_PAGE))
    found: list[dict[str, Any]] = []
    after, seen = asked.after, 0
    while seen < _LOOKED_AT:
        rows = await _rows(store, asked, after, limit)
        for row in rows:
            after, seen = row.id, seen + 1
            task = _task(row)
            if _wanted(task, asked):
                found.append(task)
                if len(found) == limit:
                    return {"tasks": found, "next": after}
        if len(rows) < limit:
            return {"tasks": found, "next": None}
    return {"tasks": found, "next": after}


async def _rows(store: Store, asked: ToolchainQuery, after: int, limit: int) -> list[ToolchainPageRow]:
    """The next rows through the index that leaves the fewest to look at."""
    if asked.newest:
        return await store.read(TOOLCHAIN_NEWEST, before=after or _BEYOND, limit=limit)
    if asked.assignee:
        return await store.read(TOOLCHAIN_PAGE_OF_AGENT, agent_id=asked.assignee, after=after, limit=limit)
    if asked.status in {"open", "pending", "working", "review", "blocked"}:
        return await store.read(TOOLCHAIN_PAGE_OPEN, after=after, limit=limit)
    return await store.read(TOOLCHAIN_PAGE, after=after, limit=limit)


def _wanted(task: dict[str, Any], asked: ToolchainQuery) -> bool:
    is_open = task["closed_at"] is None
    fits = {"": True, "open": is_open, "closed": not is_open}.get(asked.status, task["status"] == asked.status)
    return bool(fits) and asked.action_type in {"", task["must_haves"]["action_type"]}


def _task(row: ToolchainPageRow) -> dict[str, Any]:
    return {
        "id": row.task_id,
        "title": row.title,
        "description": row.description,
        "assignee": row.assignee,
        "assigned_by": row.assigned_by,
        "task_type": "toolchain",
        "status": status_of(row.state, row.phase),
        "phase": row.phase,
        "state": row.state,
        "must_haves": wire.read(bytes(row.must_haves), limit=wire.DOCUMENT_LIMIT),
        "source": row.source,
        "object": row.object,
        "made_at": row.made_at,
        "closed_at": row.closed_at,
        "closed_why": row.closed_why,
        "trust": row.closed_why if row.state == "COMPLETED" else None,
        "proven": is_proven(row.state, row.closed_why),
        "reason": row.reason,
    }


def status_of(state: Any, phase: Any) -> str:
    """What people call a state; a task that was taken back is withdrawn."""
    return "withdrawn" if state == "SKIPPED" else task_states.board_status(state, phase)


async def read_toolchain_fields(deps: Deps, task: TaskName) -> dict[str, Any]:
    """What a task of the board has besides what all tasks have."""
    if task.board != BOARD or not deps.stores.has_board(BOARD):
        return {}
    store = await deps.stores.board(BOARD)
    rows = await store.read(TOOLCHAIN_TASK, task_id=task.task_id)
    if not rows:
        return {}
    row = rows[0]
    return {
        "id": row.task_id,
        "title": row.title,
        "description": row.description,
        "assignee": row.assignee,
        "assigned_by": row.assigned_by,
        "task_type": "toolchain",
        "status": status_of(row.state, row.phase),
        "must_haves": wire.read(bytes(row.must_haves), limit=wire.DOCUMENT_LIMIT),
        "closed_why": row.closed_why,
        "trust": row.closed_why if row.state == "COMPLETED" else None,
        "proven": is_proven(row.state, row.closed_why),
    }


def is_proven(state: Any, why: Any) -> bool | None:
    """Whether a done task rests on more than what its agent said; None while it is not done."""
    return why != "claimed" if state == "COMPLETED" else None


async def list_warnings(deps: Deps, after: int = 0) -> WarningPage:
    """List events that no agent could be given."""
    if not deps.stores.has_board(BOARD):
        return {"warnings": [], "next": None}
    store = await deps.stores.board(BOARD)
    rows = await store.read(TOOLCHAIN_WARNINGS, after=after, limit=PAGE)
    warnings: list[ToolchainWarning] = [
        {
            "id": number,
            "code": code,
            "message": message,
            "hint": hint,
            "times": times,
            "first_at": first_at,
            "last_at": last_at,
        }
        for number, code, message, hint, times, first_at, last_at in rows
    ]
    return {"warnings": warnings, "next": rows[-1].id if len(rows) == PAGE else None}


async def list_outgoing(deps: Deps, after: int = 0) -> dict[str, Any]:
    """What the engine has to say at forges and what came of it, and sources that do not answer."""
    if not deps.stores.has_board(BOARD):
        return {"outgoing": [], "away": [], "next": None}
    store = await deps.stores.board(BOARD)
    rows = await store.read(OUTGOING_PAGE, after=after, limit=PAGE)
    away = [
        {"source": source, "since": opened_at, "failures": failures, "asked_again_at": not_before}
        for source, failures, opened_at, not_before, _ in await store.read(BREAKERS)
        if opened_at is not None
    ]
    found = [dict(zip(_OUTGOING, each, strict=True)) for each in rows]
    return {"outgoing": found, "away": away, "next": rows[-1].id if len(rows) == PAGE else None}


_OUTGOING: Final = (
    "id", "kind", "source", "object", "repository", "number", "title", "assignee", "task_id", "state", "tries",
    "not_before", "made_at", "ended_at", "posted", "why", "request_id",
)  # fmt: skip


async def summarize_board(deps: Deps) -> BoardSummary | None:
    """Return the board in brief; None where there is none, or it cannot be read."""
    store = await open_if_readable(deps, BOARD) if deps.stores.has_board(BOARD) else None
    if store is None:
        return None
    rows = await store.read(TOOLCHAIN_PAGE_OPEN, after=0, limit=LONGEST_PAGE)
    return {"open_tasks": len(rows), "warnings": (await list_warnings(deps))["warnings"]}
