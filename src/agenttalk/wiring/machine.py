"""The clock of this machine, and random ids."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the door through which the time comes in


class RandomIds:
    """Ids that cannot be guessed."""

    def new(self, prefix: str) -> str:
        """Make an id: `prefix_` and 24 hex digits."""
        return f"{prefix}_{secrets.token_hex(12)}"
