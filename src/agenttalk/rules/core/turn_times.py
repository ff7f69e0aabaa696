"""When the parts of a turn began and ended, and how long the engine had agents wait in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from agenttalk.contracts.core.base import format_instant, parse_instant

TurnPart: TypeAlias = Literal["turn", "baseline", "agent", "checks"]
"""The beginning of the turn, the checks before the work, the work of the agent, the checks of the work."""
TurnParts: TypeAlias = Mapping[TurnPart, tuple[datetime, datetime]]
"""When parts of a turn began and ended."""


@dataclass(slots=True)
class TurnTimes:
    """When the parts of a turn began and ended, as far as they were observed."""

    parts: dict[TurnPart, tuple[datetime, datetime]] = field(default_factory=dict)

    def note(self, part: TurnPart, at: datetime) -> None:
        """Note that a part begins or ends. Of a part in several pieces, the first beginning and the last end count."""
        began, _ = self.parts.get(part, (at, at))
        self.parts[part] = (began, at)

    def as_json(self) -> dict[str, list[str]]:
        """Return the beginning and the end of each part."""
        return {part: [format_instant(began), format_instant(ended)] for part, (began, ended) in self.parts.items()}


class TurnWaits(NamedTuple):
    """How many seconds went by in a turn without an agent or a check at work. None where that is not known."""

    agent: float | None
    """From the lease to the start of the agent, without the checks that ran in between."""
    check: float | None
    """From the last byte of the agent to the start of its check."""
    end: float | None
    """From the end of the check to the commit of the turn's end, in which the next agent gets its lease."""

    def as_json(self) -> dict[str, float]:
        """Return the waits that are known, rounded to milliseconds."""
        return {name: round(value, 3) for name, value in self._asdict().items() if value is not None}


def read_turn_times(said: object) -> TurnParts:
    """Read what `TurnTimes.as_json` returned; nothing of what is not of that form."""
    if not isinstance(said, Mapping):
        return {}
    names: tuple[TurnPart, ...] = ("turn", "baseline", "agent", "checks")
    found: dict[TurnPart, tuple[datetime, datetime]] = {}
    for name in names:
        if isinstance(pair := said.get(name), list) and len(pair) == 2:
            found[name] = (parse_instant(pair[0]), parse_instant(pair[1]))
    return found


def measure_waits(times: TurnParts, leased: datetime | None, ended: datetime | None) -> TurnWaits:
    """Measure the waits of a turn that was leased and ended at known times. A clock that was set back adds no wait."""
    agent, checks, baseline = times.get("agent"), times.get("checks"), times.get("baseline")
    before = (baseline[1] - baseline[0]).total_seconds() if baseline is not None else 0.0
    return TurnWaits(
        _seconds(leased, agent[0] if agent else None, before),
        _seconds(agent[1] if agent else None, checks[0] if checks else None),
        _seconds(checks[1] if checks else None, ended),
    )


def _seconds(began: datetime | None, ended: datetime | None, less: float = 0.0) -> float | None:
    if began is None or ended is None:
        return None
    return max(0.0, (ended - began).total_seconds() - less)
