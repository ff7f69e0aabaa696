"""When a forge is left alone that does not answer, when it is asked again, and when the same is tried again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

FIRST_PAUSE: Final = 2.0
"""Seconds before something is tried for the second time."""
LONGEST_PAUSE: Final = 600.0
_MOST_DOUBLED: Final = 30


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """What is known of a source."""

    failures: int = 0
    """Failures in a row."""
    opened_at: datetime | None = None
    """Since when it is left alone."""
    not_before: datetime | None = None
    """When it may be asked again."""


CLOSED: Final = CircuitBreaker()


def may_ask(breaker: CircuitBreaker, now: datetime) -> Literal["yes", "probe", "no"]:
    """Whether a source may be asked now; one that was left alone is asked for something harmless first."""
    if breaker.not_before is not None and now < breaker.not_before:
        return "no"
    return "probe" if breaker.opened_at is not None else "yes"


def record_failure(breaker: CircuitBreaker, now: datetime, *, most: int, probe_after: float) -> CircuitBreaker:
    """One more failure. After `most` in a row the source is left alone, the longer the longer it is away."""
    failures = breaker.failures + 1
    if failures < most and breaker.opened_at is None:
        return CircuitBreaker(failures, None, now + timedelta(seconds=double_pause(FIRST_PAUSE, failures - 1)))
    longer = double_pause(probe_after, max(0, failures - most))
    return CircuitBreaker(failures, breaker.opened_at or now, now + timedelta(seconds=longer))


def trip(breaker: CircuitBreaker, now: datetime, *, most: int, probe_after: float) -> CircuitBreaker:
    """Somebody who tried long enough could not reach it: it is left alone at once."""
    if breaker.opened_at is not None:
        return breaker
    return record_failure(
        replace(breaker, failures=max(breaker.failures, most - 1)), now, most=most, probe_after=probe_after
    )


def record_rate_limit(breaker: CircuitBreaker, now: datetime, retry_after: float) -> CircuitBreaker:
    """The source wants a pause. That is no failure."""
    return replace(breaker, not_before=now + timedelta(seconds=max(retry_after, FIRST_PAUSE)))


def compute_pause(tries: int, retry_after: float = 0.0) -> float:
    """Seconds until something is tried again that was tried so often."""
    return max(retry_after, double_pause(FIRST_PAUSE, tries - 1))


def double_pause(first: float, times: int) -> float:
    """A pause that doubles, up to the longest."""
    return float(min(LONGEST_PAUSE, first * 2 ** min(max(times, 0), _MOST_DOUBLED)))
