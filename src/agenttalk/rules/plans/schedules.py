"""When schedules are due. Times are those of a clock on a wall, which is put forward and back; none is due twice.

A time that the clock leaps over is due when it would have been, one that comes twice is due the first time. Where
something is due in every hour, what counts is the time that passes: there is no run for an hour that is not, and one
for each of two hours of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from agenttalk.contracts.core.cron import Cron

LATE: Final = timedelta(seconds=90)
"""Up to so long after its time a run is on time."""
_FAR: Final = 366 * 9
"""Days in which each expression is due at least once: the 29th of February may be eight years away."""


class ScheduleSlot(NamedTuple):
    """A time at which a schedule is due."""

    at: datetime
    """In UTC."""
    label: str
    """Names it: `2026-11-16T09-00`, by the clock on the wall."""


class ScheduleDecision(NamedTuple):
    """What to do about a schedule now."""

    slot: ScheduleSlot | None
    """What is due, if anything is."""
    run: bool
    """Whether it is to be run; else its time has passed."""
    missed: bool
    """Whether slots before it were missed."""
    upcoming: ScheduleSlot | None
    """When it is due next."""


def decide(cron: Cron, zone: tzinfo, since: datetime, now: datetime, *, catch_up: bool) -> ScheduleDecision:
    """Decide what is due after `since`, up to now. Of several slots the newest counts, and the others are missed."""
    upcoming = find_next_slot(cron, zone, now)
    slot = find_latest_slot(cron, zone, now)
    if slot is None or slot.at <= since:
        return ScheduleDecision(None, run=False, missed=False, upcoming=upcoming)
    first = find_next_slot(cron, zone, since)
    on_time = now - slot.at <= LATE
    return ScheduleDecision(
        slot, run=on_time or catch_up, missed=first is not None and first.at < slot.at, upcoming=upcoming
    )


def find_next_slot(cron: Cron, zone: tzinfo, moment: datetime) -> ScheduleSlot | None:
    """Find the first slot later than a moment."""
    today = moment.astimezone(zone).date() - timedelta(days=1)
    for number in range(_FAR):
        found = [slot for slot in _on(cron, zone, today + timedelta(days=number)) if slot.at > moment]
        if found:
            return min(found)
    return None


def find_latest_slot(cron: Cron, zone: tzinfo, moment: datetime) -> ScheduleSlot | None:
    """Find the last slot not later than a moment."""
    today = moment.astimezone(zone).date() + timedelta(days=1)
    for number in range(_FAR):
        found = [slot for slot in _on(cron, zone, today - timedelta(days=number)) if slot.at <= moment]
        if found:
            return max(found, key=lambda slot: slot.at)
    return None


def _on(cron: Cron, zone: tzinfo, day: date) -> Iterator[ScheduleSlot]:
    """List the slots of a day. Slots that a clock change moves to one time are listed once."""
    if not cron.is_on(day):
        return
    seen = set()
    for hour in cron.hours:
        for minute in cron.minutes:
            wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
            for at in _instants(wall, hourly=cron.hourly):
                if at not in seen:
                    seen.add(at)
                    again = "-again" if at != wall.astimezone(UTC) else ""
                    yield ScheduleSlot(at, f"{wall:%Y-%m-%dT%H-%M}{again}")


def _instants(wall: datetime, *, hourly: bool) -> Iterator[datetime]:
    first, second = wall.astimezone(UTC), wall.replace(fold=1).astimezone(UTC)
    if not hourly:
        yield first
        return
    if first.astimezone(wall.tzinfo).replace(fold=0) == wall:  # else the clock leaps over it
        yield first
        if second > first:
            yield second


def make_plan_id(name: str, slot: ScheduleSlot) -> str:
    """Make the id of the plan that a slot runs."""
    return f"{name}-{slot.label}"
