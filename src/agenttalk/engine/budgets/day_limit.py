"""The limit of a day's costs. The settings set it, and an operator can change it while the engine runs.

Once it is used up no turn begins. Waiting tasks continue by themselves on the next day, or when the limit changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import write_time
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.budgets import used_budgets
from agenttalk.engine.budgets.used_budgets import DaySpending
from agenttalk.engine.core.boards import SYSTEM, list_boards
from agenttalk.ports.statements.budgets import (
    ADD_SPENDING,
    CLEAR_SPENDING,
    DAY_LIMIT,
    DROP_DAY_LIMIT,
    HELD_BY,
    PUT_DAY_LIMIT,
    SPENDING,
)
from agenttalk.ports.statements.core import FACT
from agenttalk.ports.statements.views import LEDGER_PAGE
from agenttalk.rules.core import usage
from agenttalk.rules.text import turn_words

if TYPE_CHECKING:
    from agenttalk.engine.budgets.turn_monitor import TurnMonitors
    from agenttalk.engine.budgets.used_budgets import Budgets
    from agenttalk.engine.core.deps import Deps
    from agenttalk.ports.storage import Tx

_NAME: Final = "cost_usd"
_PAGE: Final = 1_000
"""Facts that are read in one transaction."""
HELD: Final = f'%"id":"{turn_words.OF_DAY.id}"%'
"""The part of a stored reason that names the message of a task which waits for another day or limit."""
SHOWN: Final = 20
"""How many of the waiting tasks are counted exactly."""
MOST: Final = 1_000_000.0
"""The largest limit, in dollars."""


class DayLimit(NamedTuple):
    """The limit of a day, and who set it."""

    cost_usd: float | None
    """None: there is no limit."""
    by: str | None = None
    """The operator; None where the settings set it."""
    at: str | None = None


async def read_limit(deps: Deps, configured: float | None) -> DayLimit:
    """Return the limit in force: an operator's, else that of the settings."""
    rows = await (await deps.stores.board(SYSTEM)).read(DAY_LIMIT, name=_NAME)
    return DayLimit(*rows[0]) if rows else DayLimit(configured)


async def set_limit(deps: Deps, cost_usd: float | None, *, by: str) -> None:
    """Limit what a day may cost from now on, or lift the limit. Raises UsageError."""
    if cost_usd is not None and not 0 < cost_usd <= MOST:
        hint = "give more than 0, or take the limit away"
        raise UsageError(Code.FIELD_VALUE, f"${cost_usd:g} cannot be the limit of a day", hint=hint)
    at = deps.stamp()

    def work(tx: Tx) -> None:
        tx.run(PUT_DAY_LIMIT, name=_NAME, cost_usd=cost_usd, by=by, at=at)
        tx.record("day.limited", "limits/day", {"cost_usd": cost_usd, "by": by})

    await (await deps.stores.board(SYSTEM)).transact(work)


async def reset(deps: Deps, *, by: str) -> None:
    """Use the limit of the settings again."""

    def work(tx: Tx) -> None:
        if tx.run(DROP_DAY_LIMIT, name=_NAME):
            tx.record("day.limit_reset", "limits/day", {"by": by})

    await (await deps.stores.board(SYSTEM)).transact(work)


class DayView(DaySpending):
    """The spending of today, who set the limit, and when paused work continues."""

    configured_usd: float | None
    set_by: str | None
    set_at: str | None
    paused: bool
    goes_on_at: str | None


class HeldWork(TypedDict):
    """The tasks that wait for another day or limit, and those whose turn the limit stopped."""

    waiting: int
    stopped: list[str]


class DayReport(DayView, HeldWork):
    """The spending of a day, and what it holds up."""


async def describe_day(deps: Deps, configured: float | None) -> DayView:
    """Describe what was spent today of the limit, who set it, and when paused work continues."""
    found = await read_limit(deps, configured)
    today = await used_budgets.describe_today(deps, found.cost_usd)
    reached = found.cost_usd is not None and (today["spent_usd"] or 0.0) >= found.cost_usd
    midnight = (deps.now() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        **today,
        "configured_usd": configured,
        "set_by": found.by,
        "set_at": found.at,
        "paused": reached,
        "goes_on_at": write_time(midnight) if reached else None,
    }


async def describe_waiting(deps: Deps) -> HeldWork:
    """Count the tasks that wait for another day or limit, and those whose turn the limit stopped."""
    number, stopped = 0, []
    for store in await list_boards(deps):
        rows = await store.read(HELD_BY, like=HELD)
        number += len(rows)
        for row in rows[:SHOWN]:
            found = await store.read(FACT, seq=row.fact) if row.fact is not None else []
            told: Any = wire.read(bytes(found[0].body), limit=wire.DOCUMENT_LIMIT) if found else {}
            stopped += [f"{row.plan_id}/{row.task_id}"] if told.get("cause") == "DAY_SPENT" else []
    return {"waiting": number, "stopped": stopped[:SHOWN]}


@dataclass(slots=True)
class DayLimitTracker:
    """The limit as the dispatcher knows it."""

    deps: Deps
    purse: Budgets
    configured: float | None
    watches: TurnMonitors | None = None
    """The monitors of running turns: a limit applies to them from the moment it is set."""
    _known: bool = False
    _changes: int = 0
    """How often the limit changed. It may have changed back, and tasks were held up meanwhile."""
    _let_go: tuple[str, int] | None = None
    """The day and the count of changes when all waiting tasks were released last."""
    _seen: tuple[str, int] | None = None
    """The day and the count of changes when this was checked last."""

    async def configure(self, cost_usd: float | None) -> None:
        """Use another limit of the settings from now on."""
        self.configured = cost_usd
        await self.refresh()

    async def refresh(self) -> bool:
        """Read the limit. Return whether it changed. What was spent before there was a limit is counted."""
        before, first = self.purse.day_cost_usd, not self._known
        now = (await read_limit(self.deps, self.configured)).cost_usd
        self.purse.set_day_limit(now)
        self._known = True
        self._changes += now != before
        if now is not None and (before is None or first):
            day = self.deps.stamp()
            for store in await list_boards(self.deps):
                await store.transact(partial(_recount, day=day, anew=before is None))
        if now != before and self.watches is not None:
            await used_budgets.refresh_day_costs(self.deps, self.purse)
            self.watches.limit_day(self.purse, self.deps.stamp())
        return now != before or first

    async def may_resume(self) -> bool:
        """Read what other boards spent today. Return whether tasks that wait for another day or limit may continue."""
        if not self._known:
            await self.refresh()
        if self.purse.day_cost_usd is not None:
            await used_budgets.refresh_day_costs(self.deps, self.purse)
        self._seen = self._now()
        if self._let_go == self._seen:
            return False
        today = await used_budgets.describe_today(self.deps, self.purse.day_cost_usd)
        if today["left_usd"] == 0.0:  # nothing is left of this day either, so the question is not repeated
            self.mark_resumed()
            return False
        return True

    def mark_resumed(self) -> None:
        """Record that waiting tasks were released. A limit that changed meanwhile counts as another."""
        self._let_go = self._seen

    def _now(self) -> tuple[str, int]:
        return self.deps.stamp()[:10], self._changes


def _recount(tx: Tx, *, day: str, anew: bool) -> None:
    """Count from the ledger what was spent on a day, unless it is counted already."""
    name = used_budgets.make_counter_name("day", "", "", day)
    if tx.run(SPENDING, name=name) and not anew:
        return
    sums, before = usage.NOTHING, 2**62
    while True:
        rows = tx.run(LEDGER_PAGE, before=before, after=0, limit=_PAGE)
        for row in rows:
            if row.at < day[:10]:
                break
            before = row.seq
            if row.kind == "turn.ended":
                sums = sums.plus(_took(wire.read(bytes(row.body), limit=wire.DOCUMENT_LIMIT)))
        else:
            if len(rows) == _PAGE:
                continue
        break
    tx.run(CLEAR_SPENDING, name=name)
    if sums != usage.NOTHING:
        tx.run(ADD_SPENDING, name=name, **sums._asdict())


def _took(told: Any) -> usage.UsageTotals:
    said = told.get("usage") if isinstance(told, Mapping) else None
    took: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    return usage.measure_usage(took, seconds=usage.read_number(took.get("duration_s")))
