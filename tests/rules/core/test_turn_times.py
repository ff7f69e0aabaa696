"""When the parts of a turn began and ended, and how long the engine had agents wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agenttalk.rules.core.turn_times import TurnTimes, TurnWaits, measure_waits, read_turn_times

BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def test_of_a_part_in_pieces_the_first_beginning_and_the_last_end_count() -> None:
    times = TurnTimes()
    for second in (1, 2, 4, 5):
        times.note("checks", at(second))
    assert read_turn_times(times.as_json()) == {"checks": (at(1), at(5))}
    assert read_turn_times(TurnTimes().as_json()) == {}


@pytest.mark.parametrize("said", [None, [], "x", {"agent": "x"}, {"agent": ["x"]}, {"else": ["a", "b"]}])
def test_what_is_not_of_the_form_says_nothing(said: object) -> None:
    assert read_turn_times(said) == {}


def test_checks_before_the_work_are_no_wait() -> None:
    parts = {"baseline": (at(1), at(4)), "agent": (at(4.5), at(9)), "checks": (at(9.25), at(10))}
    waits = measure_waits(parts, at(0), at(10.5))  # type: ignore[arg-type]
    assert waits == TurnWaits(1.5, 0.25, 0.5)
    assert waits.as_json() == {"agent": 1.5, "check": 0.25, "end": 0.5}


def test_a_wait_whose_ends_are_not_both_known_is_not_known() -> None:
    assert measure_waits({}, at(0), at(1)) == TurnWaits(None, None, None)
    assert measure_waits({"checks": (at(2), at(3))}, None, None).as_json() == {}
    assert measure_waits({"agent": (at(2), at(3))}, at(1), at(9)).as_json() == {"agent": 1.0}


def test_a_clock_that_was_set_back_adds_no_wait() -> None:
    assert measure_waits({"agent": (at(-5), at(3)), "checks": (at(1), at(2))}, at(0), at(1)) == TurnWaits(0, 0, 0)
