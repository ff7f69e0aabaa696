"""A circuit breaker for forges: stops requests to one that does not answer, probes it, and spaces retries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

FIRST_PAUSE: Final = 2.0
"""Seconds before the first retry."""
LONGEST_PAUSE: Final = 600.0
_MOST_DOUBLED: Final = 30


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """The state of the breaker of one source."""

    failures: int = 0
    """Failures in a row."""
    opened_at: datetime | None = None
    """Since when the breaker is open: the source gets no requests but probes."""
    not_before: datetime | None = None
    """The earliest time of the next request."""


CLOSED: Final = CircuitBreaker()


def may_ask(breaker: CircuitBreaker, now: datetime) -> Literal["yes", "probe", "no"]:
    """Whether a source may be asked now. If the breaker is open, the first request is a harmless probe."""
    if breaker.not_before is not None and now < breaker.not_before:
        return "no"
    return "probe" if breaker.opened_at is not None else "yes"


def record_failure(breaker: CircuitBreaker, now: datetime, *, most: int, probe_after: float) -> CircuitBreaker:
    """Count a failure. `most` failures in a row open the breaker; each further one doubles the pause."""
    failures = breaker.failures + 1
    if failures < most and breaker.opened_at is None:
        return CircuitBreaker(failures, None, now + timedelta(seconds=double_pause(FIRST_PAUSE, failures - 1)))
    longer = double_pause(probe_after, max(0, failures - most))
    return CircuitBreaker(failures, breaker.opened_at or now, now + timedelta(seconds=longer))


def trip(breaker: CircuitBreaker, now: datetime, *, most: int, probe_after: float) -> CircuitBreaker:
    """Open the breaker at once, after a caller tried several times in vain."""
    if breaker.opened_at is not None:
        return breaker
    return record_failure(
        replace(breaker, failures=max(breaker.failures, most - 1)), now, most=most, probe_after=probe_after
    )


def record_rate_limit(breaker: CircuitBreaker, now: datetime, retry_after: float) -> CircuitBreaker:
    """Wait as long as the source asked. This does not count as a failure."""
    return replace(breaker, not_before=now + timedelta(seconds=max(retry_after, FIRST_PAUSE)))


def compute_pause(tries: int, retry_after: float = 0.0) -> float:
    """Compute the seconds until the next try."""
    return max(retry_after, double_pause(FIRST_PAUSE, tries - 1))


def double_pause(first: float, times: int) -> float:
    """Double a pause so many times, up to `LONGEST_PAUSE`."""
    return float(min(LONGEST_PAUSE, first * 2 ** min(max(times, 0), _MOST_DOUBLED)))
