"""How instants stand in the database: UTC with microseconds, so that texts compare as times do."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(time: datetime) -> str:
    """An aware time as text."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
