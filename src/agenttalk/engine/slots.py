"""Who may begin: each agent works on one task at a time, and the machine on so many."""

from __future__ import annotations

import threading
from itertools import count


class Slots:
    """The places for turns. Threads that write to different boards ask at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._busy: dict[str, int] = {}

    def take(self, agent_id: str) -> int | None:
        """A ticket for the agent's place; None while it works, or as many work as may."""
        with self._lock:
            if agent_id in self._busy or len(self._busy) >= self._most:
                return None
            ticket = self._busy[agent_id] = next(self._numbers)
            return ticket

    def free(self, agent_id: str, ticket: int) -> None:
        """Give a place back; nothing happens when that ticket does not hold it any more."""
        with self._lock:
            if self._busy.get(agent_id) == ticket:
                del self._busy[agent_id]

    @property
    def busy(self) -> frozenset[str]:
        """Who is at work."""
        with self._lock:
            return frozenset(self._busy)
