"""Shows the status of a task, of the engine's plans and of foreign ones. Every view of a task starts from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from agenttalk.contracts.core import wire
from agenttalk.rules.core.task_states import board_status
from agenttalk.rules.core.task_trust import judge_trust
from agenttalk.rules.text.catalogue import read_column

if TYPE_CHECKING:
    from agenttalk.engine.views.models.tasks import TaskUsage, TaskView
    from agenttalk.ports.statements.views import TaskStatusRow


def describe_status(row: TaskStatusRow, stale: Collection[str] = ()) -> TaskView:
    """Return the status of a task. `stale` names tasks that were found stale, which is not stored yet."""
    trust = judge_trust(row, is_outdated=row.task_id in stale)
    return {
        "task_id": row.task_id,
        "agent_id": row.agent_id,
        "origin": "foreign" if row.unmet is None else "engine",
        "state": row.state,
        "phase": row.phase,
        "board": board_status(row.state, row.phase),
        "proven": trust.proven,
        "freshness": trust.freshness,
        "isolated": trust.isolated,
        "cause": row.cause,
        "reason": read_column(row.reason, row.reason_message),
        "score": row.score,
        "attempt": row.attempt,
        "retries": row.retries,
        "rounds": row.reexecutions,
        "missing": _read_missing(row.missing),
        "request_id": row.request_id,
        "updated_at": row.updated_at,
        "since": row.leased_at or row.waiting_since,
        "usage": _read_usage(row),
    }


def _read_missing(data: bytes | None) -> list[Any]:
    """Return the inputs that a task waits for, as its row stores them."""
    missing = wire.read(bytes(data)) if data else []
    return missing if isinstance(missing, list) else [missing]


def _read_usage(row: TaskStatusRow) -> TaskUsage | None:
    """Return what all attempts at a task used together; None when nothing was counted."""
    if not (row.seconds or row.tokens or row.cost_usd or row.tool_calls):
        return None
    return {
        "duration_s": round(row.seconds, 3),
        "tokens": row.tokens,
        "cost_usd": row.cost_usd,
        "tool_calls": row.tool_calls,
    }


def sum_usage(usages: Iterable[TaskUsage | None]) -> TaskUsage | None:
    """Return what several tasks used together; None when nothing is known of any."""
    known = [usage for usage in usages if usage]
    if not known:
        return None
    return {
        "duration_s": round(sum(usage["duration_s"] for usage in known), 6),
        "tokens": sum(usage["tokens"] for usage in known),
        "cost_usd": round(sum(usage["cost_usd"] for usage in known), 6),
        "tool_calls": sum(usage["tool_calls"] for usage in known),
    }


def sum_usage_by_agent(tasks: Iterable[TaskView]) -> dict[str, TaskUsage]:
    """Return what the tasks of each agent used together, where it is known."""
    usages: dict[str, list[TaskUsage]] = {}
    for task in tasks:
        if task["usage"]:
            usages.setdefault(task["agent_id"], []).append(task["usage"])
    return {agent_id: total for agent_id, known in sorted(usages.items()) if (total := sum_usage(known))}
