"""When what was done in a plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.plans.timeline import DAY, MOST_MARKS, TimelineSpan, TimelineWait, build_timeline, find_waits

BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def span(task_id: str, begin: float, end: float | None) -> TimelineSpan:
    return TimelineSpan(task_id, at(begin), None if end is None else at(end), "succeeded")


spans = st.lists(
    st.builds(
        span,
        st.sampled_from(["a", "b", "c"]),
        st.floats(0, 1e7),
        st.none() | st.floats(0, 1e7),
    ),
    max_size=20,
)


@given(spans, st.floats(0, 1e7))
def test_every_span_is_a_bar_on_the_scale(found: list[TimelineSpan], now: float) -> None:
    told = build_timeline(found, at(now))
    bars = [bar for _, row in told.rows for bar in row]
    assert (
        sorted(bar.span for bar in bars) == sorted(found)
        if all(each.end for each in found)
        else len(bars) == len(found)
    )
    assert all(bar.begin >= 0 and bar.length >= 0 for bar in bars)
    assert all(bar.begin + bar.length <= 1000.1 for bar in bars if bar.length)
    assert len(told.marks) <= MOST_MARKS + 1


def test_the_times_between_an_agent_and_its_checks_are_waits() -> None:
    parts = {"turn": (at(0), at(0)), "baseline": (at(1), at(2)), "agent": (at(2), at(5)), "checks": (at(6), at(8))}
    waits = find_waits(parts, at(10))  # type: ignore[arg-type]
    assert waits == (
        TimelineWait("agent", at(0), at(1)),
        TimelineWait("check", at(5), at(6)),
        TimelineWait("end", at(8), at(10)),
    )
    [(_, [bar])] = build_timeline([TimelineSpan("a", at(0), at(10), "succeeded", waits)], at(10)).rows
    assert [(mark.what, mark.begin, mark.length, mark.seconds) for mark in bar.waits] == [
        ("agent", 0, 100, 1),
        ("check", 500, 100, 1),
        ("end", 800, 200, 2),
    ]


def test_a_wait_whose_ends_are_not_known_is_not_drawn() -> None:
    assert find_waits({}, at(1)) == ()
    assert find_waits({"checks": (at(1), at(2))}, None) == ()
    assert find_waits({"agent": (at(1), at(2)), "checks": (at(3), at(4))}, None) == (
        TimelineWait("check", at(2), at(3)),
    )
    agent = {"turn": (at(0), at(0)), "agent": (at(1), at(2))}
    assert find_waits(agent, at(9)) == (TimelineWait("agent", at(0), at(1)),)  # type: ignore[arg-type]


def test_nothing_was_done_yet() -> None:
    assert build_timeline([], at(0)).rows == ()
    assert build_timeline([], at(0)).marks == ()


def test_what_still_goes_on_reaches_until_now_and_the_first_stands_at_the_top() -> None:
    told = build_timeline([span("late", 5, None), span("early", 0, 4), span("early", 6, 8)], at(10))
    assert [name for name, _ in told.rows] == ["early", "late"]
    [late] = told.rows[1][1]
    assert (late.begin, late.length) == (500, 500)
    assert told.marks == ((0, 0), (200, 2), (400, 4), (600, 6), (800, 8), (1000, 10))


def test_weeks_are_marked_by_days() -> None:
    told = build_timeline([span("long", 0, 30 * DAY)], at(0))
    assert [seconds / DAY for _, seconds in told.marks] == [0, 4, 8, 12, 16, 20, 24, 28]


def test_a_span_that_ends_before_it_begins_has_no_length() -> None:
    told = build_timeline([span("odd", 5, 3), span("fine", 0, 10)], at(10))
    assert told.rows[1][1][0].length == 0
