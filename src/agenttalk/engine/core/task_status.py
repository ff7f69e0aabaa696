"""The status of a task of the engine's plans and of foreign ones.

Every view of a task starts from it, `plan_status.json` and the task's address in the API, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.vocabulary import BoardStatus, Freshness
from agenttalk.rules.agents.activity import TaskActivity
from agenttalk.rules.budgets import provider_limits
from agenttalk.rules.core.task_states import Cause, Phase, State, board_status
from agenttalk.rules.core.task_trust import judge_trust
from agenttalk.rules.text.catalogue import read_column

if TYPE_CHECKING:
    from agenttalk.ports.statements.core import TaskStatusRow


class TaskUsage(TypedDict):
    """The usage of all attempts together."""

    duration_s: float
    tokens: int
    cost_usd: float
    tool_calls: int


class AccountWaitView(TypedDict):
    """A wait for the account of an agent."""

    agent: str
    """The coding agent, or the service of a model."""
    until: str
    """When work continues by itself."""
    reason: str
    """The words of the agent's program."""


class TaskView(TypedDict):
    """The status of a task. Every view of a task has these fields."""

    task_id: str
    agent_id: str
    origin: Literal["engine", "foreign"]
    """`foreign` where the engine does not run the plan, and knows only what agents say."""
    state: State
    phase: Phase | None
    board: BoardStatus
    """The state in a word, as people see it."""
    proven: bool | None
    """Whether a completed task is so by more than its agent's word; null while it is not completed."""
    freshness: Freshness | None
    """Whether the evidence of a completed task still holds; null where the engine has seen no evidence."""
    isolated: bool | None
    """Whether all that the task rests on ran in a sandbox; null where it rests on nothing yet."""
    cause: Cause | None
    reason: str | None
    score: float | None
    attempt: int
    """The number of the last attempt."""
    retries: int
    rounds: int
    """Rounds of rework so far."""
    missing: list[Any]
    """Inputs that the task waits for."""
    waits_for_account: AccountWaitView | None
    """The wait for the account of its agent, whose provider takes no work now; null if it does not wait for that."""
    request_id: str | None
    updated_at: str
    since: str | None
    """When its agent took it, or since when it waits."""
    usage: TaskUsage | None
    activity: TaskActivity | None
    """The work on it at this moment; null when there is none, and where no engine answers."""


def describe_status(row: TaskStatusRow, stale: Collection[str] = ()) -> TaskView:
    """Return the status of a task. `stale` names tasks that were found stale, which is not stored yet."""
    trust = judge_trust(row, is_outdated=row.task_id in stale)
    foreign = row.unmet is None
    reason = read_column(row.reason, row.reason_message)
    return {
        "task_id": row.task_id,
        "agent_id": row.agent_id,
        "origin": "foreign" if foreign else "engine",
        "state": row.state,
        "phase": row.phase,
        "board": board_status(row.state, row.phase),
        "proven": trust.proven,
        "freshness": trust.freshness,
        "isolated": trust.isolated,
        "cause": row.cause,
        "reason": reason,
        "score": row.score,
        "attempt": row.attempt,
        # The store counts no retries of a foreign plan: there, each further attempt at a command is one.
        "retries": max(0, row.attempt - 1) if foreign else row.retries,
        "rounds": row.reexecutions,
        "missing": _read_missing(row.missing),
        "waits_for_account": _read_account_wait(row, reason),
        "request_id": row.request_id,
        "updated_at": row.updated_at,
        "since": row.leased_at or row.waiting_since,
        "usage": _read_usage(row),
        "activity": None,
    }


def _read_account_wait(row: TaskStatusRow, reason: str | None) -> AccountWaitView | None:
    wait = provider_limits.read_wait(reason) if row.cause == "ACCOUNT_LIMIT" else None
    return {"agent": wait["agent"], "until": wait["until"], "reason": wait["why"]} if wait is not None else None


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
