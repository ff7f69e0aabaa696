"""Limits of providers: how the end of a turn is recognised as one, when it passes, and how long to wait.

A provider takes no more work of an account (`usage`: a subscription, a key or its credit is used up), or none at the
moment (`overload`: too many requests, a server error). Only what an agent's own program reports as its failure is read
here, never what the agent wrote or what its tools printed.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, NamedTuple, TypeAlias

from agenttalk.rules.text import turn_words
from agenttalk.rules.text.message import Message

LimitKind = Literal["usage", "overload"]
ZoneLookup: TypeAlias = Callable[[str], tzinfo | None]
"""Finds a time zone by its name; the empty name is that of the machine."""
LONGEST: Final = timedelta(days=8)
"""A reset that is later is not believed: the longest limits of subscriptions last a week."""
MOST_STOPS: Final = 10
"""How often a limit may stop one command. From then on it ends like any attempt that failed."""
SERIES: Final = timedelta(hours=1)
"""A limit so soon after the end of a wait continues its series, so that the next wait is longer."""
_FIRST: Final[Mapping[LimitKind, timedelta]] = {"usage": timedelta(minutes=5), "overload": timedelta(seconds=15)}
_MOST: Final[Mapping[LimitKind, timedelta]] = {"usage": timedelta(hours=1), "overload": timedelta(minutes=5)}
_JUST_NOW: Final = timedelta(minutes=10)
"""A time of day that was so short ago is not one of tomorrow."""
_SHOWN: Final = 200
_SPOKEN: Final = "Internal error: "
"""What the Agent Client Protocol puts before the error of an agent."""
_BROKEN: Final = 500
"""The first status by which a server says that the fault is its own."""
_BUSY: Final = 429
_MILLISECONDS: Final = 1e11
"""A larger number of an epoch counts milliseconds."""
_WAITS: Final = frozenset({turn_words.ACCOUNT_USED_UP.id, turn_words.PROVIDER_BUSY.id})
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EPOCH: Final = re.compile(r"\|(\d{9,13})\b")
_CLOCK: Final = re.compile(
    r"\b(?:resets?|again)\s+(?:at\s+|on\s+)?"
    r"(?:(?P<month>[a-z]{3})[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(?P<year>\d{4}))?,?\s+(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]m)?\b(?:\s*\((?P<zone>[\w+\-/]+)\))?",
    re.IGNORECASE,
)
_SPAN: Final = re.compile(
    r"\b(?:again|retry|resets?)\s+(?:in|after)\s+"
    r"((?:\d+(?:\.\d+)?\s*(?:milliseconds?|ms|seconds?|s|minutes?|min|m|hours?|h|days?|d)[\s,]*)+)",
    re.IGNORECASE,
)
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|mil|s|m|h|d)", re.IGNORECASE)
_UNITS: Final = {"ms": 0.001, "mil": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class LimitPattern(NamedTuple):
    """A message by which a coding agent reports a limit."""

    kind: LimitKind
    pattern: str
    source: str
    """Where the message is from: the agent's code, or a recorded run of it."""


class SignalledLimit(NamedTuple):
    """A limit that an agent's program reports in a field of its own, and not only in words."""

    kind: LimitKind
    resets_at: float | None = None
    """When it passes, in seconds since 1970."""


class ProviderLimit(NamedTuple):
    """A limit that ended a turn."""

    kind: LimitKind
    text: str
    """What the agent's program said, on one line."""
    resets_at: datetime | None = None
    """When it passes; None if that is unknown."""


class AccountLimit(NamedTuple):
    """A limit, and the account that ran into it."""

    account: str
    agent: str
    """The coding agent, or the service of a model."""
    limit: ProviderLimit


class AccountWait(NamedTuple):
    """A wait of all agents of one account."""

    account: str
    agent: str
    """The coding agent, or the service of a model."""
    kind: LimitKind
    text: str
    until: datetime
    number: int = 1
    """Which wait in a row it is."""


def find_limit(
    patterns: Iterable[LimitPattern], error: str, signal: SignalledLimit | None, *, now: datetime, zones: ZoneLookup
) -> ProviderLimit | None:
    """Find the limit in what an agent's program reports as its failure; None if it is another failure."""
    text = " ".join(error.split()).removeprefix(_SPOKEN)
    kind = next((each.kind for each in patterns if re.search(each.pattern, text, re.IGNORECASE)), None)
    if signal is not None and (kind is None or signal.kind == "usage"):
        kind = signal.kind
    if kind is None:
        return None
    told = read_epoch(signal.resets_at) if signal is not None and signal.resets_at is not None else None
    return ProviderLimit(kind, text[:_SHOWN], told or find_reset(text, now=now, zones=zones))


def read_status(status: object, kind: object = None) -> SignalledLimit | None:
    """Read the HTTP status of an error, and the kind of error that the service names."""
    if kind in {"overloaded_error", "rate_limit_error"}:
        return SignalledLimit("overload")
    if isinstance(status, int) and (status == _BUSY or _BROKEN <= status < _BROKEN + 100):
        return SignalledLimit("overload")
    return None


def read_epoch(seconds: float) -> datetime | None:
    """Read a time in seconds or milliseconds since 1970; None for one that no calendar has."""
    if not math.isfinite(seconds) or seconds <= 0:
        return None
    try:
        return datetime.fromtimestamp(seconds / 1000 if seconds > _MILLISECONDS else seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def find_reset(text: str, *, now: datetime, zones: ZoneLookup) -> datetime | None:
    """Find in a message when a limit passes: an epoch, a time of day with or without a date, or a span of time."""
    if found := _EPOCH.search(text):
        return read_epoch(float(found[1]))
    if found := _SPAN.search(text):
        seconds = sum(float(number) * _UNITS[unit.lower()] for number, unit in _AMOUNT.findall(found[1]))
        return now + timedelta(seconds=seconds) if seconds <= LONGEST.total_seconds() * 2 else None
    found = _CLOCK.search(text)
    return _read_clock(found.groupdict(), now, zones) if found and (found["half"] or found["minute"]) else None


def _read_clock(said: Mapping[str, str | None], now: datetime, zones: ZoneLookup) -> datetime | None:
    """Read a time of day. Seconds are cut off there, so the limit passes up to a minute later."""
    zone = zones(said["zone"] or "")
    hour = int(said["hour"] or 0)
    if said["half"]:
        hour = hour % 12 + (12 if said["half"].lower() == "pm" else 0) if hour <= 12 else 99
    if zone is None:
        return None
    local = now.astimezone(zone)
    month = (said["month"] or "").lower()
    if month and month not in _MONTHS:
        return None
    try:
        then = local.replace(hour=hour, minute=int(said["minute"] or 0), second=0, microsecond=0)
        if month:
            then = then.replace(
                year=int(said["year"] or local.year), month=_MONTHS.index(month) + 1, day=int(said["day"] or 0)
            )
            if not said["year"] and then < local - timedelta(days=180):
                then = then.replace(year=local.year + 1)
        elif then < local - _JUST_NOW:
            then += timedelta(days=1)
        return then.astimezone(UTC) + timedelta(minutes=1)
    except (OverflowError, ValueError):
        return None


def decide_wait(found: AccountLimit, before: AccountWait | None, *, now: datetime) -> AccountWait:
    """Decide until when all agents of an account wait. `before` is the last wait of the account.

    A reset that is long over, or too far away to be true, says nothing: then a pause that doubles is made, up to a
    longest one, and the next attempt shows how things stand. If it has just passed, the pause is short.
    """
    limit = found.limit
    if before is not None and before.until > now:  # others of the account ran into the same limit
        number = before.number
    else:
        number = before.number + 1 if before is not None and now - before.until < SERIES else 1
    if limit.resets_at is not None and now < limit.resets_at <= now + LONGEST:
        until = limit.resets_at
    else:
        is_over = limit.resets_at is not None and now - _JUST_NOW < limit.resets_at <= now
        kind: LimitKind = "overload" if is_over else limit.kind
        until = now + min(_MOST[kind], _FIRST[kind] * 2 ** min(number - 1, 20))
    if before is not None and before.until > until:
        return before
    return AccountWait(found.account, found.agent, limit.kind, limit.text, until, number)


def decide_fallback(agent_id: str, fallbacks: Mapping[str, str | None], waits: Callable[[str], bool]) -> str | None:
    """Choose the agent that does the task of one whose account waits; None if none can begin now.

    `fallbacks` names the fallback of each agent of the plan, and `waits` says whether the account of one waits.
    """
    seen = {agent_id}
    found = fallbacks.get(agent_id)
    while found is not None and found not in seen and found in fallbacks:
        if not waits(found):
            return found
        seen.add(found)
        found = fallbacks[found]
    return None


def read_wait(reason: str | None) -> Mapping[str, str] | None:
    """Read from the reason of a task that it waits for an account: agent, until, and why; None if it does not."""
    if not isinstance(reason, Message) or reason.id not in _WAITS:
        return None
    return {name: str(reason.params[name]) for name in ("agent", "until", "why")}


def identify_account(agent: str, secrets: Iterable[tuple[str, str]], login: str) -> str:
    """Identify the account that an agent uses: by its keys and addresses, or by the file of its login.

    Nothing can be read from it: it is a hash.
    """
    parts = [f"{name}={value}" for name, value in sorted(secrets)] or [f"login={login}"]
    return hashlib.sha256("\0".join(["agenttalk account", agent, *parts]).encode("utf-8", "replace")).hexdigest()[:24]
