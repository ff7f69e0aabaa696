"""A wake-up between threads and event loops that cannot be missed: waiters say which state they have seen."""

from __future__ import annotations

import asyncio
import threading

from agenttalk.adapters.store.worker import call_in


class WakeSignal:
    """Counts how often it fired."""

    def __init__(self) -> None:
        self._count = 1  # so that a caller that has seen nothing (0) looks at once
        self._waiters: list[asyncio.Future[None]] = []
        self._lock = threading.Lock()

    def fire(self) -> None:
        """Wake all who wait; from any thread."""
        with self._lock:
            self._count += 1
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            call_in(waiter.get_loop(), _release, waiter)

    async def wait(self, seen: int) -> int:
        """Return the count as soon as it is not `seen`."""
        with self._lock:
            if self._count != seen:
                return self._count
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
        try:
            await waiter
        finally:
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return self._count


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
