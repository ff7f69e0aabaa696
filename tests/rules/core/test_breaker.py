"""When a forge is left alone, and when it is asked again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.core import circuit_breaker
from agenttalk.rules.core.circuit_breaker import CLOSED, LONGEST_PAUSE, CircuitBreaker

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def fail(known: CircuitBreaker, now: datetime) -> CircuitBreaker:
    return circuit_breaker.record_failure(known, now, most=3, probe_after=10.0)


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    known = CLOSED
    for pause in (2, 4):
        known = fail(known, NOON)
        assert known.opened_at is None
        assert circuit_breaker.may_ask(known, NOON + timedelta(seconds=pause - 1)) == "no"
        assert circuit_breaker.may_ask(known, NOON + timedelta(seconds=pause)) == "yes"
    known = fail(known, NOON)
    assert known.opened_at == NOON
    assert circuit_breaker.may_ask(known, NOON + timedelta(seconds=9)) == "no"
    assert circuit_breaker.may_ask(known, NOON + timedelta(seconds=10)) == "probe"


def test_a_probe_that_fails_makes_the_pause_longer_and_the_outage_no_other() -> None:
    known, now = CLOSED, NOON
    pauses = []
    for _ in range(12):
        known = fail(known, now)
        if known.opened_at is not None and known.not_before is not None:
            pauses.append((known.not_before - now).total_seconds())
            now = known.not_before
    assert pauses == [min(LONGEST_PAUSE, 10.0 * 2**n) for n in range(10)]
    assert known.opened_at == NOON


def test_whoever_tried_long_enough_opens_it_at_once_and_once() -> None:
    known = circuit_breaker.trip(CLOSED, NOON, most=3, probe_after=10.0)
    assert (known.opened_at, known.failures) == (NOON, 3)
    assert circuit_breaker.trip(known, NOON + timedelta(seconds=5), most=3, probe_after=10.0) is known


def test_a_pause_that_is_asked_for_is_no_failure() -> None:
    known = circuit_breaker.record_rate_limit(CLOSED, NOON, 60.0)
    assert circuit_breaker.may_ask(known, NOON + timedelta(seconds=59)) == "no"
    assert circuit_breaker.may_ask(known, NOON + timedelta(seconds=60)) == "yes"
    assert circuit_breaker.record_rate_limit(CLOSED, NOON, 0.0).not_before == NOON + timedelta(
        seconds=circuit_breaker.FIRST_PAUSE
    )


@given(st.integers(1, 10_000), st.floats(0, 100_000))
def test_pauses_grow_to_a_bound_and_keep_to_what_the_forge_wants(tries: int, after: float) -> None:
    assert circuit_breaker.compute_pause(tries + 1) >= circuit_breaker.compute_pause(tries)
    assert circuit_breaker.FIRST_PAUSE <= circuit_breaker.compute_pause(tries) <= LONGEST_PAUSE
    assert circuit_breaker.compute_pause(tries, after) >= after
