"""What turns, plans and days may cost, and what checkpoints held against tasks."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from agenttalk.ports.statements.keys import AgentIdRow, NameRow
from agenttalk.ports.statements.statement import NoRow, Statement


class DayLimitRow(NamedTuple):
    """What may be spent on a day."""

    cost_usd: float | None
    by: str
    at: str


class SpendingRow(NamedTuple):
    """What was used."""

    tokens: int
    cost_usd: float
    seconds: float
    tool_calls: int


class ObjectionRow(NamedTuple):
    """An objection of a checkpoint."""

    task_id: str
    checkpoint: str
    severity: str
    reasons: bytes
    trace_id: str
    at: str
    overridden_by: str | None
    why: str | None


class HeldTaskRow(NamedTuple):
    """A task that waits because a budget is used up."""

    plan_id: str
    task_id: str
    delivery: int
    request_id: str | None
    fact: int | None


class AccountWaitRow(NamedTuple):
    """An account whose provider takes no work for a time."""

    account: str
    agent: str
    kind: Literal["usage", "overload"]
    text: str
    until: str
    number: int


DAY_LIMIT: Final = Statement("day_limit", DayLimitRow)
PUT_DAY_LIMIT: Final = Statement("put_day_limit", NoRow)
DROP_DAY_LIMIT: Final = Statement("drop_day_limit", NameRow)
SPENDING: Final = Statement("spending", SpendingRow)
ADD_SPENDING: Final = Statement("add_spending", SpendingRow)
CLEAR_SPENDING: Final = Statement("clear_spending", NoRow)
USED_BY_PLAN: Final = Statement("used_by_plan", SpendingRow)
PUT_OBJECTION: Final = Statement("put_objection", NoRow)
OBJECTIONS_TO: Final = Statement("objections_to", ObjectionRow)
OBJECTIONS_IN: Final = Statement("objections_in", ObjectionRow)
OVERRIDE: Final = Statement("override", NoRow)
REQUEUE_TASK: Final = Statement("requeue_task", AgentIdRow)
HELD_BY: Final = Statement("held_by", HeldTaskRow)
ACCOUNT_WAITS: Final = Statement("account_waits", AccountWaitRow)
PUT_ACCOUNT_WAIT: Final = Statement("put_account_wait", NoRow)
HOLD_FOR_ACCOUNT: Final = Statement("hold_for_account", NoRow)
RELEASE_ACCOUNTS: Final = Statement("release_accounts", NoRow)
