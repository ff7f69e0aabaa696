"""Shows the board `_toolchain`: its tasks, its warnings, and the texts that the engine writes at forges."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.toolchain import ACTION_TYPES
from agenttalk.engine.core.boards import TOOLCHAIN as BOARD
from agenttalk.engine.core.boards import open_if_readable
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.views.models.toolchain import (
    BoardSummary,
    BoardTask,
    OutgoingPage,
    SourceOutage,
    ToolchainTask,
    ToolchainTaskPage,
    ToolchainWarning,
    WarningPage,
)
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
from agenttalk.rules.core.task_states import Phase, State
from agenttalk.rules.core.task_trust import judge_trust

PAGE: Final = 100
LONGEST_PAGE: Final = 500
STATUSES: Final = ("open", "closed", "pending", "working", "review", "blocked", "done", "failed", "withdrawn")
_LOOKED_AT: Final = 5_000
"""How many rows one request examines; the next page goes on from there."""

_BEYOND: Final = 2**62
"""More than the number of any row."""


@dataclass(frozen=True, slots=True)
class ToolchainQuery:
    """A search for tasks. Empty fields match every task."""

    assignee: str = ""
    status: str = ""
    """`open`, `closed`, or a status such as `pending`, `working`, `done`, `failed`, `withdrawn`."""
    action_type: str = ""
    after: int = 0
    limit: int = PAGE
    newest: bool = False
    """Whether the newest come first; then the page begins before the number `after`, or at the newest if that is 0."""


def require_one_of(what: str, value: str, known: Collection[str]) -> None:
    """Raise UsageError for an unknown value: a typing error must not be answered by an empty list."""
    if value and value not in known:
        near = find_nearest(value, known)
        hint = f"did you mean {near!r}?" if near else f"use one of: {', '.join(known)}"
        raise UsageError(Code.FIELD_VALUE, f"unknown {what} {value[:40]!r}", hint=hint)


async def list_toolchain_tasks(deps: Deps, asked: ToolchainQuery) -> ToolchainTaskPage:
    """List tasks in the order in which they were made, and where the next page begins.

    Raises UsageError for an unknown status or action type.
    """
    require_one_of("status", asked.status, STATUSES)
    require_one_of("action_type", asked.action_type, ACTION_TYPES)
    if not deps.stores.has_board(BOARD):
        return {"tasks": [], "next": None}
    store = await deps.stores.board(BOARD)
    limit = max(1, min(asked.limit, LONGEST_PAGE))
    found: list[ToolchainTask] = []
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
    """Read the next rows by the most selective index."""
    if asked.newest:
        return await store.read(TOOLCHAIN_NEWEST, before=after or _BEYOND, limit=limit)
    if asked.assignee:
        return await store.read(TOOLCHAIN_PAGE_OF_AGENT, agent_id=asked.assignee, after=after, limit=limit)
    if asked.status in {"open", "pending", "working", "review", "blocked"}:
        return await store.read(TOOLCHAIN_PAGE_OPEN, after=after, limit=limit)
    return await store.read(TOOLCHAIN_PAGE, after=after, limit=limit)


def _wanted(task: ToolchainTask, asked: ToolchainQuery) -> bool:
    is_open = task["closed_at"] is None
    fits = {"": True, "open": is_open, "closed": not is_open}.get(asked.status, task["status"] == asked.status)
    return fits and asked.action_type in {"", task["must_haves"]["action_type"]}


def _task(row: ToolchainPageRow) -> ToolchainTask:
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
        "must_haves": _read_must_haves(row.must_haves),
        "source": row.source,
        "object": row.object,
        "made_at": row.made_at,
        "closed_at": row.closed_at,
        "closed_why": row.closed_why,
        "trust": row.closed_why if row.state == "COMPLETED" else None,
        "proven": judge_trust(row).proven,
        "reason": row.reason,
    }


def _read_must_haves(data: bytes) -> JsonObject:
    must_haves: Any = wire.read(bytes(data), limit=wire.DOCUMENT_LIMIT)
    return dict(must_haves)


def status_of(state: State, phase: Phase | None) -> str:
    """Return the state in a word, as people see it; a task that was taken back is withdrawn."""
    return "withdrawn" if state == "SKIPPED" else task_states.board_status(state, phase)


async def read_toolchain_fields(deps: Deps, task: TaskName) -> BoardTask | None:
    """Return the fields that only tasks of this board have; None for a task of another board."""
    if task.board != BOARD or not deps.stores.has_board(BOARD):
        return None
    store = await deps.stores.board(BOARD)
    rows = await store.read(TOOLCHAIN_TASK, task_id=task.task_id)
    if not rows:
        return None
    row = rows[0]
    return {
        "id": row.task_id,
        "title": row.title,
        "description": row.description,
        "assignee": row.assignee,
        "assigned_by": row.assigned_by,
        "task_type": "toolchain",
        "status": status_of(row.state, row.phase),
        "must_haves": _read_must_haves(row.must_haves),
        "closed_why": row.closed_why,
        "trust": row.closed_why if row.state == "COMPLETED" else None,
        "proven": judge_trust(row).proven,
    }


async def list_warnings(deps: Deps, after: int = 0) -> WarningPage:
    """List events that no agent could be given."""
    if not deps.stores.has_board(BOARD):
        return {"warnings": [], "next": None}
    store = await deps.stores.board(BOARD)
    rows = await store.read(TOOLCHAIN_WARNINGS, after=after, limit=PAGE)
    warnings: list[ToolchainWarning] = [
        {
            "id": row.id,
            "code": row.code,
            "message": row.message,
            "hint": row.hint,
            "times": row.times,
            "first_at": row.first_at,
            "last_at": row.last_at,
        }
        for row in rows
    ]
    return {"warnings": warnings, "next": rows[-1].id if len(rows) == PAGE else None}


async def list_outgoing(deps: Deps, after: int = 0) -> OutgoingPage:
    """List the texts that the engine writes at forges with their results, and the sources that do not answer."""
    if not deps.stores.has_board(BOARD):
        return {"outgoing": [], "away": [], "next": None}
    store = await deps.stores.board(BOARD)
    rows = await store.read(OUTGOING_PAGE, after=after, limit=PAGE)
    away: list[SourceOutage] = [
        {"source": row.source, "since": row.opened_at, "failures": row.failures, "asked_again_at": row.not_before}
        for row in await store.read(BREAKERS)
        if row.opened_at is not None
    ]
    outgoing: list[Any] = [row._asdict() for row in rows]
    return {"outgoing": outgoing, "away": away, "next": rows[-1].id if len(rows) == PAGE else None}


async def summarize_board(deps: Deps) -> BoardSummary | None:
    """Return the board in brief; None where there is none, or it cannot be read."""
    store = await open_if_readable(deps, BOARD) if deps.stores.has_board(BOARD) else None
    if store is None:
        return None
    rows = await store.read(TOOLCHAIN_PAGE_OPEN, after=0, limit=LONGEST_PAGE)
    return {"open_tasks": len(rows), "warnings": (await list_warnings(deps))["warnings"]}
