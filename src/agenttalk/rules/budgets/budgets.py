"""Budgets: what a task, a plan and a day may use, and when that is used up."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from agenttalk.rules.budgets import aborts
from agenttalk.rules.budgets.aborts import Abort
from agenttalk.rules.core.usage import NOTHING, UsageTotals
from agenttalk.rules.text import turn_words
from agenttalk.rules.text.message import ABOUT, Message, Template, mentions

if TYPE_CHECKING:
    from agenttalk.contracts.plan import PlanLimits
    from agenttalk.contracts.promise import Budget, CompletionPromise

Scope = Literal["task", "plan", "day"]
Kind = Literal["tokens", "cost_usd", "seconds", "tool_calls"]
KINDS: Final[tuple[Kind, ...]] = ("tokens", "cost_usd", "seconds", "tool_calls")
_ONE_AND_MORE: Final[dict[Kind, tuple[Template, Template]]] = {
    "tokens": (turn_words.TOKEN, turn_words.TOKENS),
    "cost_usd": (turn_words.DOLLARS, turn_words.DOLLARS),
    "seconds": (turn_words.SECOND, turn_words.SECONDS),
    "tool_calls": (turn_words.TOOL_CALL, turn_words.TOOL_CALLS),
}
_OF: Final[dict[Scope, Template]] = {
    "task": turn_words.OF_TASK,
    "plan": turn_words.OF_PLAN,
    "day": turn_words.OF_DAY,
}


def _amount(kind: Kind, number: float) -> Message:
    one, more = _ONE_AND_MORE[kind]
    return (one if number == 1 else more)(count=number)


def names_day(reason: str | None) -> bool:
    """Return whether a reason is about the limit of the day."""
    return reason is not None and mentions(reason, turn_words.OF_DAY)


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """How much of something may be used."""

    scope: Scope
    kind: Kind
    most: float

    def __str__(self) -> str:
        return str(self.describe())

    def describe(self) -> Message:
        """Return the limit as a message."""
        return _OF[self.scope](amount=_amount(self.kind, self.most))

    @property
    def exhausted_message(self) -> str:
        """Said of a limit of which nothing is left. The words stay the same however much more is used."""
        return ABOUT(subject="budget-exhausted", what=turn_words.USED_UP(limit=self.describe()))


class Overrun(NamedTuple):
    """A limit that was passed, and by what."""

    limit: BudgetLimit
    words: str

    @property
    def abort(self) -> Abort:
        """Why a turn is stopped that passes it. The limit of a day only pauses the task until another day."""
        return Abort("budget-exhausted", self.words, pauses=self.limit.scope == "day")


def collect_limits(
    promise: CompletionPromise | None, plan: PlanLimits | None, day_cost_usd: float | None
) -> tuple[BudgetLimit, ...]:
    """Collect the limits of a task: its own budget where its promise lets that stop it, its plan's, and the day's."""
    own = promise.budget if promise is not None else None
    found = [
        BudgetLimit("task", kind, most)
        for kind, most in _list_given_limits(own)
        if aborts.stops_run(promise, "budget-exhausted", budget=kind)
    ]
    found += [BudgetLimit("plan", kind, most) for kind, most in _list_given_limits(plan)]
    if day_cost_usd is not None:
        found.append(BudgetLimit("day", "cost_usd", day_cost_usd))
    return tuple(found)


def find_exhausted(found: Collection[BudgetLimit], used: Mapping[Scope, UsageTotals]) -> tuple[BudgetLimit, ...]:
    """Limits of which nothing is left, so that nothing may begin."""
    return tuple(each for each in found if getattr(used.get(each.scope, NOTHING), each.kind) >= each.most)


def find_overrun(found: Collection[BudgetLimit], used: Mapping[Scope, UsageTotals]) -> Overrun | None:
    """Find the limit that was passed first, a day's last; None while all are kept."""
    for each in found:
        count = getattr(used.get(each.scope, NOTHING), each.kind)
        if count > each.most:
            return Overrun(each, turn_words.OVERRUN(amount=_amount(each.kind, count), limit=each.describe()))
    return None


def compute_seconds_left(found: Collection[BudgetLimit], used: Mapping[Scope, UsageTotals]) -> float | None:
    """Compute how long a turn may take; None when nothing limits it."""
    left = [each.most - used.get(each.scope, NOTHING).seconds for each in found if each.kind == "seconds"]
    return max(0.0, min(left)) if left else None


def find_doubts(budget: Budget | None, plan: PlanLimits | None) -> Iterator[str]:
    """Warn about a task's budget that is larger than its whole plan's."""
    most = dict(_list_given_limits(plan))
    for kind, own in _list_given_limits(budget):
        if kind in most and own > most[kind]:
            limits = BudgetLimit("task", kind, own).describe(), BudgetLimit("plan", kind, most[kind]).describe()
            yield turn_words.EXCEEDS_PLAN(own=limits[0], plan=limits[1])


def find_impossible_limits(budget: Budget | PlanLimits | None) -> tuple[Kind, ...]:
    """Limits under which nothing could ever run."""
    return tuple(kind for kind, most in _list_given_limits(budget) if most <= 0)


def _list_given_limits(budget: Budget | PlanLimits | None) -> list[tuple[Kind, float]]:
    if budget is None:
        return []
    found = ((kind, getattr(budget, kind)) for kind in KINDS)
    return [(kind, most) for kind, most in found if most is not None]
