"""When what was done in a plan, as bars on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from agenttalk.rules.core.turn_times import TurnParts

_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)
DAY: Final = 86400.0
MOST_MARKS: Final = 8


class TimelineSpan(NamedTuple):
    """Something that a task did; without an end it still goes on."""

    task_id: str
    begin: datetime
    end: datetime | None
    kind: str
    waits: tuple[TimelineWait, ...] = ()
    """When neither its agent nor a check of it was at work, though both were due."""


class TimelineWait(NamedTuple):
    """A time in which something was waited for."""

    what: str
    """`agent`, `check`, or `end`: the commit of the end of the turn."""
    begin: datetime
    end: datetime


class Bar(NamedTuple):
    """A span on the scale, in parts of a thousand of its width."""

    begin: float
    length: float
    span: TimelineSpan
    waits: tuple[WaitMark, ...] = ()


class WaitMark(NamedTuple):
    """A wait on the scale, in parts of a thousand of its width."""

    what: str
    begin: float
    length: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Spans by task, those that began first at the top."""

    rows: tuple[tuple[str, tuple[Bar, ...]], ...]
    marks: tuple[tuple[float, float], ...]
    """Places on the scale, and the seconds that had gone by there."""


def build_timeline(spans: Iterable[TimelineSpan], now: datetime) -> Timeline:
    """Bars for spans. A clock that was set back does not turn a bar around."""
    known = sorted(spans, key=lambda each: (each.begin, each.task_id))
    if not known:
        return Timeline((), ())
    first = known[0].begin
    total = max((each.end or now) - first for each in known).total_seconds()
    total = max(total, 0.001)
    rows: dict[str, list[Bar]] = {}
    for each in known:
        length = max((each.end or now) - each.begin, timedelta(0)).total_seconds()
        begin = (each.begin - first).total_seconds()
        waits = tuple(_mark_wait(wait, first, total) for wait in each.waits)
        rows.setdefault(each.task_id, []).append(Bar(_part(begin, total), _part(length, total), each, waits))
    return Timeline(tuple((name, tuple(bars)) for name, bars in rows.items()), tuple(_marks(total)))


def find_waits(times: TurnParts, ended: datetime | None) -> tuple[TimelineWait, ...]:
    """Find the waits of a turn: for its agent, whose clone is made and whose checks run before, and for its check."""
    turn, baseline = times.get("turn"), times.get("baseline")
    agent, checks = times.get("agent"), times.get("checks")
    waits = []
    if turn is not None and agent is not None:
        edges = [turn[0], *(baseline or ()), agent[0]]
        waits += [TimelineWait("agent", *edges[place : place + 2]) for place in range(0, len(edges), 2)]
    if agent is not None and checks is not None:
        waits.append(TimelineWait("check", agent[1], checks[0]))
    if checks is not None and ended is not None:
        waits.append(TimelineWait("end", checks[1], ended))
    return tuple(wait for wait in waits if wait.end > wait.begin)


def _mark_wait(wait: TimelineWait, first: datetime, total: float) -> WaitMark:
    seconds = (wait.end - wait.begin).total_seconds()
    begin = (wait.begin - first).total_seconds()
    return WaitMark(wait.what, _part(begin, total), _part(seconds, total), round(seconds, 3))


def _part(seconds: float, total: float) -> float:
    return round(1000 * seconds / total, 2)


def _marks(total: float) -> Sequence[tuple[float, float]]:
    step = next((each for each in _SECONDS if total / each <= MOST_MARKS), None)
    if step is None:
        step = DAY * max(1, round(total / DAY / MOST_MARKS + 0.5))
    return [(_part(number * step, total), round(number * step, 3)) for number in range(int(total / step) + 1)]
