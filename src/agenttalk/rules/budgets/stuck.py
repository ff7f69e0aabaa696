"""Whether a run gets nowhere: it does the same again and again, or has told nothing for too long."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.budgets import aborts
from agenttalk.rules.text import turn_words

REPEATS: Final = 20
"""How often the same steps may repeat."""
_ROUNDS: Final = (1, 2, 3)
"""Steps of which a circle may consist: the same, two things by turns, or three."""
_TARGET = re.compile(r"([1-9][0-9]{0,8})(s|m|x)?\Z")


@dataclass(frozen=True, slots=True)
class StuckRule:
    """When a run counts as stuck. Without `repeats` or `seconds` that is not checked."""

    repeats: int | None = REPEATS
    seconds: float | None = None
    """Without any news. By default silence means nothing: many programs never tell anything."""


DEFAULT_RULE: Final = StuckRule()
OFF: Final = StuckRule(repeats=None)


def rule_of(promise: CompletionPromise | None) -> StuckRule:
    """Return when a promise counts its run as stuck.

    Its target may be `300s` or `5m` without news, `20` or `20x` the same; other words are for people.
    """
    if promise is None:
        return DEFAULT_RULE
    if not aborts.stops_run(promise, "stuck"):
        return OFF
    repeats, seconds = REPEATS, None
    for condition in aborts.find_conditions(promise, "stuck"):
        said = _TARGET.match(condition.target or "")
        if said is None:
            continue
        if said[2] in {"s", "m"}:
            seconds = float(said[1]) * (60 if said[2] == "m" else 1)
        else:
            repeats = int(said[1])
    return StuckRule(repeats, seconds)


@dataclass(frozen=True, slots=True)
class ActivityTrail:
    """The last steps of a run, and since when they repeat."""

    last: tuple[str, ...] = ()
    """The newest first."""
    same: tuple[int, ...] = (0, 0, 0)
    """For circles of one, two and three steps: how many steps in a row fitted."""
    at: float = 0.0
    """When there was news."""


def extend_trail(trail: ActivityTrail, what: str, at: float) -> ActivityTrail:
    """Add a step to the trail. `at` is the time of a monotonic clock."""
    same = tuple(
        trail.same[size - 1] + 1 if len(trail.last) >= size and trail.last[size - 1] == what else 0 for size in _ROUNDS
    )
    return ActivityTrail((what, *trail.last[: len(_ROUNDS) - 1]), same, at)


def explain_stuck(trail: ActivityTrail, rule: StuckRule, at: float) -> str | None:
    """Explain why a run counts as stuck; None while it does not."""
    if rule.repeats is not None:
        for size in _ROUNDS:
            if trail.same[size - 1] >= size * max(1, rule.repeats - 1):
                circle = ", ".join(repr(each) for each in reversed(trail.last[:size]))
                return turn_words.REPEATED(count=rule.repeats, steps=circle)
    if rule.seconds is not None and at - trail.at >= rule.seconds:
        return turn_words.SILENT(seconds=rule.seconds)
    return None
