"""Cron expressions: five fields (minute, hour, day of the month, month, weekday), or a name such as @daily."""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date
from typing import Final

NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_WORDS: Final = {
    "month": {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name},
    "weekday": {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))},
}
_LONGEST_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class Cron:
    """The times of a schedule, in local wall-clock time."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either: bool
    """Whether both day of the month and weekday are restricted: then either one may match, as in every cron."""

    @property
    def hourly(self) -> bool:
        """Whether it is due in every hour of its days: then elapsed time counts, not the wall clock."""
        return len(self.hours) == 24

    def is_on(self, day: date) -> bool:
        """Return whether it is due on a day."""
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (of_month or of_week if self.either else of_month and of_week)


def parse_cron(text: str) -> Cron:
    """Read an expression. Raises ValueError with what is wrong."""
    parts = NAMED.get(text.strip().lower(), text).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"{text[:80]!r} has {len(parts)} fields, not 5: minute, hour, day, month, day of the week")
    minutes, hours, days, months, weekdays = (_field(part, *field) for part, field in zip(parts, _FIELDS, strict=True))
    weekdays = frozenset(each % 7 for each in weekdays)
    either = not parts[2].startswith("*") and not parts[4].startswith("*")
    if not either and min(days) > max(_LONGEST_MONTHS[month - 1] for month in months):
        raise ValueError(f"{text[:80]!r} is never due: no such day exists")
    return Cron(tuple(sorted(minutes)), tuple(sorted(hours)), days, months, weekdays, either)


def _field(text: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isascii() and step.isdecimal() and 0 < int(step) <= high):
            raise ValueError(f"{part[:40]!r} is not a valid step of the field {name}")
        first, dash, last = span.partition("-")
        if span == "*":
            begin, end = low, min(high, 6) if name == "weekday" else high
        else:
            begin = _number(first, name, low, high)
            end = _number(last, name, low, high) if dash else high if slash else begin
        if end < begin:
            raise ValueError(f"{part[:40]!r} of the field {name} goes backwards")
        found.update(range(begin, end + 1, int(step) if slash else 1))
    return frozenset(found)


def _number(text: str, name: str, low: int, high: int) -> int:
    known = _WORDS.get(name, {}).get(text.lower())
    if known is not None:
        return known
    if text.isascii() and text.isdecimal() and len(text) <= 2 and low <= int(text) <= high:
        return int(text)
    raise ValueError(f"{text[:40]!r} is not a valid {name} from {low} to {high}")
