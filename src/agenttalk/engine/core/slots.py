"""Slots: each agent works on one task at a time, and the machine on so many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final, TypeAlias

MOMENT: Final = 0.2
"""Seconds for which others come first that asked for a place in vain."""
TicketCallback: TypeAlias = "Callable[[int], None]"
"""Gets a ticket. Called by the thread that gave the place back, and must not wait."""


class Slots:
    """The places for turns. Threads that write to different boards use them at the same time.

    A caller that only asks tries again later; a caller that waits gets the place when it is given back.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._busy: dict[str, int] = {}
        self._apart: set[str] = set()
        """Agents that work elsewhere, and need nothing of this machine."""
        self._waiting: dict[str, TicketCallback] = {}
        self._refused: dict[str, None] = {}
        """Agents that asked in vain and come back by themselves, the longest waiting first."""

    def acquire(self, agent_id: str, given: TicketCallback | None = None, *, apart: bool = False) -> int | None:
        """Take a ticket for the agent's place. None while it works, or while as many work as may.

        With `given`, the caller waits for it from then on, unless it got a ticket at once. An agent that works `apart`,
        elsewhere, takes no place of this machine.
        """
        with self._lock:
            free = agent_id not in self._busy and (apart or not self._full)
            if free and apart:
                self._apart.add(agent_id)
            if given is None and free:
                self._refused.pop(agent_id, None)
            elif given is None:
                self._refused.setdefault(agent_id)
            elif free:
                self._waiting.pop(agent_id, None)
            else:
                self._waiting[agent_id] = given
            return self._seat(agent_id) if free else None

    def resize(self, most: int) -> None:
        """Change how many may work at once. Running turns continue; waiting callers get the places that became free."""
        handed = []
        with self._lock:
            self._most = most
            while self._waiting and not self._full and (found := self._hand_over("")) is not None:
                handed.append(found)
        for given, ticket in handed:
            given(ticket)

    def mark_remote(self, agent_id: str, ticket: int) -> None:
        """Release this machine's place of an agent that turns out to work elsewhere. Its own place stays taken."""
        with self._lock:
            if self._busy.get(agent_id) == ticket:
                self._apart.add(agent_id)

    @property
    def limit(self) -> int:
        """Return how many may work at once."""
        return self._most

    @property
    def _full(self) -> bool:
        return len(self._busy) - len(self._apart) >= self._most

    def enqueue(self, agent_id: str, given: TicketCallback) -> None:
        """Wait for the agent's place, or one that it may have, until it is given back."""
        with self._lock:
            self._waiting[agent_id] = given

    def stop_waiting(self, agent_id: str) -> None:
        """Stop waiting for the agent's place."""
        with self._lock:
            self._waiting.pop(agent_id, None)

    def release(self, agent_id: str, ticket: int, *, tells: bool = False) -> bool:
        """Give a place back. Nothing happens when that ticket no longer holds it.

        Returns whether a caller that only asked could have the place now. A caller that `tells` it makes it ask again.
        """
        with self._lock:
            if self._busy.get(agent_id) != ticket:
                return False
            full = self._full
            del self._busy[agent_id]
            self._apart.discard(agent_id)
            asked = bool(self._refused) if full else agent_id in self._refused
            if asked and tells:
                self._refused.clear()
            handed = self._hand_over(agent_id) if self._waiting and not self._full else None
        if handed is not None:
            given, new = handed
            given(new)
        return asked

    def pop_refused(self) -> str | None:
        """Take a caller that was refused and could have a place now. It is reported once, so it must ask again."""
        with self._lock:
            if self._full:
                return None
            found = next((each for each in self._refused if each not in self._busy), None)
            if found is not None:
                del self._refused[found]
            return found

    def _hand_over(self, agent_id: str) -> tuple[TicketCallback, int] | None:
        """Give the returned place to a caller that waits for it, or else to one that waits for any."""
        free = [each for each in (agent_id, *self._waiting) if each in self._waiting and each not in self._busy]
        if not free:
            return None
        return self._waiting.pop(free[0]), self._seat(free[0])

    def _seat(self, agent_id: str) -> int:
        ticket = self._busy[agent_id] = next(self._numbers)
        return ticket

    @property
    def busy(self) -> frozenset[str]:
        """List the agents at work."""
        with self._lock:
            return frozenset(self._busy)


class AgentSlot:
    """An agent's place as its heartbeat has it: taken, waited for, handed over, given back. For one loop."""

    def __init__(self, slots: Slots, agent_id: str, freed: Callable[[], None]) -> None:
        """`freed` is called when others who asked for a place in vain should ask again."""
        self._slots = slots
        self._agent_id = agent_id
        self._freed = freed
        self._ticket: int | None = None
        self._left = False
        self.available = asyncio.Event()
        """Set when the place was handed over, or no caller seems to want it; the reader clears it."""

    def acquire(self) -> bool:
        """Take the place. False while the agent works for others: then it is handed over when they end."""
        if self._ticket is None:
            self._left = False
            self._ticket = self._slots.acquire(self._agent_id, self._given())
        return self._ticket is not None

    def release(self, *, come_back: bool = False) -> bool:
        """Give the place back, if it is held. True when others asked for it in vain: they come first now.

        With `come_back`, it is handed over again when they end.
        """
        ticket, self._ticket = self._ticket, None
        if ticket is None or not self._slots.release(self._agent_id, ticket, tells=True):
            return False
        if come_back:
            self._slots.enqueue(self._agent_id, self._given())
            asyncio.get_running_loop().call_later(MOMENT, self.available.set)
        self._freed()
        return True

    def withdraw(self) -> None:
        """Give up the place, and stop waiting for it."""
        self._left = True
        self._slots.stop_waiting(self._agent_id)
        self.release()

    def _given(self) -> TicketCallback:
        loop = asyncio.get_running_loop()

        def given(ticket: int) -> None:
            with suppress(RuntimeError):  # the loop has ended, and all its callers with it
                loop.call_soon_threadsafe(self._get, ticket)

        return given

    def _get(self, ticket: int) -> None:
        if self._left:
            self._slots.release(self._agent_id, ticket)
            return
        self._ticket = ticket
        self.available.set()
