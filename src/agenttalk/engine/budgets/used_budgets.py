"""Used budgets. They are counted only for tasks, plans and days that have a limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypedDict

from agenttalk.engine.core.boards import list_boards
from agenttalk.ports.statements.budgets import ADD_SPENDING, CLEAR_SPENDING, SPENDING, USED_BY_PLAN
from agenttalk.rules.budgets.budgets import BudgetLimit
from agenttalk.rules.core.usage import NOTHING, UsageTotals

if TYPE_CHECKING:
    from agenttalk.engine.core.deps import Deps
    from agenttalk.ports.storage import Tx
    from agenttalk.rules.budgets.budgets import Scope


def make_counter_name(scope: Scope, plan_id: str, task_id: str, at: str) -> str:
    """Return the name of the counter of a scope."""
    names: dict[Scope, str] = {"task": f"task:{plan_id}/{task_id}", "plan": f"plan:{plan_id}", "day": f"day:{at[:10]}"}
    return names[scope]


def read_used(tx: Tx, name: str) -> UsageTotals:
    """Read a counter."""
    rows = tx.run(SPENDING, name=name)
    return UsageTotals(*rows[0]) if rows else NOTHING


def clear_task_spending(tx: Tx, plan_id: str, task_id: str) -> None:
    """Give a task that is retried its whole budget again."""
    tx.run(CLEAR_SPENDING, name=make_counter_name("task", plan_id, task_id, ""))


def recount_plan(tx: Tx, plan_id: str) -> None:
    """Count what a plan has used before it had a limit."""
    name = make_counter_name("plan", plan_id, "", "")
    tx.run(CLEAR_SPENDING, name=name)
    [row] = tx.run(USED_BY_PLAN, plan_id=plan_id)
    tx.run(ADD_SPENDING, name=name, **UsageTotals(*row)._asdict())


class Sharer(Protocol):
    """The monitor of a turn that shares a budget with others."""

    has_finished: bool

    @property
    def used(self) -> UsageTotals:
        """Return what the turn has used so far."""

    def check_limits(self) -> None:
        """Stop the turn if the budget is used up."""


@dataclass(slots=True)
class SharedUsage:
    """The usage of a plan or a day: the counter, and the reports of running turns."""

    base: UsageTotals = NOTHING
    elsewhere: UsageTotals = NOTHING
    """The counters of other boards."""
    live: dict[str, UsageTotals] = field(default_factory=dict)
    """Lease → what its turn has reported."""
    watchers: dict[str, Sharer] = field(default_factory=dict)
    """Lease → its monitor."""

    @property
    def total(self) -> UsageTotals:
        """Return the sum of it."""
        found = self.base.plus(self.elsewhere)
        for each in list(self.live.values()):  # the store's thread may remove one meanwhile
            found = found.plus(each)
        return found

    def remove_turn(self, lease: str) -> None:
        """Remove a turn that has ended."""
        self.live.pop(lease, None)
        self.watchers.pop(lease, None)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of an attempt, and what is used of them."""

    limits: tuple[BudgetLimit, ...]
    own: UsageTotals
    """The usage of the task's own budget before the turn."""
    names: Mapping[Scope, str]
    """The counters of its scopes."""
    tallies: Mapping[Scope, SharedUsage]
    """The budgets that it shares with others."""

    def total_used(self, now: UsageTotals) -> dict[Scope, UsageTotals]:
        """Return what is used in each scope, while the attempt has used so much."""
        found: dict[Scope, UsageTotals] = {scope: tally.total for scope, tally in self.tallies.items()}
        return {**found, "task": self.own.plus(now)}

    def final_used(self, lease: str, now: UsageTotals) -> dict[Scope, UsageTotals]:
        """Return the same for an attempt that has ended: the final usage replaces earlier reports."""
        found: dict[Scope, UsageTotals] = {}
        for scope, tally in self.tallies.items():
            tally.remove_turn(lease)
            found[scope] = tally.total.plus(now)
        return {**found, "task": self.own.plus(now)}

    def without(self, reasons: Iterable[str]) -> Allowance:
        """Return the same without the limits that an operator has lifted."""
        lifted = set(reasons)
        kept = tuple(each for each in self.limits if each.exhausted_message not in lifted)
        return Allowance(kept, self.own, self.names, self.tallies)

    def write(self, tx: Tx, lease: str, now: UsageTotals) -> None:
        """Add what an attempt has used to its counters."""
        for scope, name in self.names.items():
            [row] = tx.run(ADD_SPENDING, name=name, **now._asdict())
            tally = self.tallies.get(scope)
            if tally is not None:
                tally.remove_turn(lease)
                tally.base = UsageTotals(*row)


@dataclass(slots=True)
class Budgets:
    """The budgets of a root that several tasks share."""

    day_cost_usd: float | None = None
    """The limit of a day's spending; it can change while plans run."""
    tallies: dict[tuple[str, str], SharedUsage] = field(default_factory=dict)
    """Board and name → what was used."""

    def set_day_limit(self, cost_usd: float | None) -> None:
        """Change what may be spent on a day; None lifts the limit."""
        self.day_cost_usd = cost_usd

    def make_allowance(self, tx: Tx, limits: tuple[BudgetLimit, ...], plan_id: str, task_id: str, at: str) -> Allowance:
        """Read what limits an attempt at a task."""
        scopes = dict.fromkeys(each.scope for each in limits)
        names = {scope: make_counter_name(scope, plan_id, task_id, at) for scope in scopes}
        tallies: dict[Scope, SharedUsage] = {}
        for scope, name in names.items():
            if scope != "task":
                tally = self.tallies.setdefault((tx.board, name), SharedUsage())
                tally.base = read_used(tx, name)
                tallies[scope] = tally
        own = read_used(tx, names["task"]) if "task" in names else NOTHING
        return Allowance(limits, own, names, tallies)

    def apply_day_limit(self, known: Allowance | None, board: str, at: str) -> Allowance | None:
        """Return what limits a running attempt under the present limit of the day."""
        old = known or Allowance((), NOTHING, {}, {})
        limits = tuple(each for each in old.limits if each.scope != "day")
        names: dict[Scope, str] = {scope: name for scope, name in old.names.items() if scope != "day"}
        tallies: dict[Scope, SharedUsage] = {scope: tally for scope, tally in old.tallies.items() if scope != "day"}
        if self.day_cost_usd is not None:
            limits = (*limits, BudgetLimit("day", "cost_usd", self.day_cost_usd))
            names["day"] = make_counter_name("day", "", "", at)
            tallies["day"] = self.tallies.setdefault((board, names["day"]), SharedUsage())
        return Allowance(limits, old.own, names, tallies) if limits else None

    def record_day_costs(self, day: str, costs: Mapping[str, float]) -> None:
        """Return what each board has spent today: it counts on all others, too."""
        name = make_counter_name("day", "", "", day)
        for known in [key for key in self.tallies if key[1].startswith("day:") and key[1] != name]:
            if not self.tallies[known].watchers:
                del self.tallies[known]
        for board in costs:
            tally = self.tallies.setdefault((board, name), SharedUsage())
            tally.elsewhere = UsageTotals(cost_usd=sum(cost for other, cost in costs.items() if other != board))
            tally.base = tally.base._replace(cost_usd=costs[board])


async def refresh_day_costs(deps: Deps, purse: Budgets) -> None:
    """Read what all boards have spent today."""
    at = deps.stamp()
    name = make_counter_name("day", "", "", at)
    rows = {store.name: await store.read(SPENDING, name=name) for store in await list_boards(deps)}
    purse.record_day_costs(at, {board: found[0].cost_usd if found else 0.0 for board, found in rows.items()})


class DaySpending(TypedDict):
    """The part of the limit that was spent today."""

    day: str
    limit_usd: float | None
    spent_usd: float | None
    left_usd: float | None


async def describe_today(deps: Deps, most: float | None) -> DaySpending:
    """Describe what was spent today of the limit. Without a limit nothing is counted."""
    at = deps.stamp()
    found = [await store.read(SPENDING, name=make_counter_name("day", "", "", at)) for store in await list_boards(deps)]
    spent = round(sum(rows[0].cost_usd for rows in found if rows), 6)
    left = max(0.0, round(most - spent, 6)) if most is not None else None
    return {"day": at[:10], "limit_usd": most, "spent_usd": spent if most is not None else None, "left_usd": left}
