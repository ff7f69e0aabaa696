"""One watch for many who wait: each is woken by its own folders, and by whoever knows that it should look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from agenttalk.contracts import places

_LONG: Final = 3600.0


class Wake(Protocol):
    """Something that tells when folders changed."""

    async def changed(self, timeout: float) -> set[str]:  # noqa: ASYNC109 - to wait that long is its purpose
        """Wait until something changed, at most so long; which folders."""


class Waiter:
    """One who waits. Implements `Wake`."""

    def __init__(self, wants: Callable[[list[str]], bool] = lambda _: False) -> None:
        """`wants` says which folders wake it; by default none does, and it has to be nudged."""
        self._wants = wants
        self._found: set[str] = set()
        self._due = asyncio.Event()

    async def changed(self, timeout: float) -> set[str]:  # noqa: ASYNC109 - to wait that long is its purpose
        """Wait until something changed that it wants to know of, or it was nudged."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._due.wait()
        found = set(self._found)
        self._found.clear()
        self._due.clear()
        return found

    def nudge(self) -> None:
        """Have it look, though no folder changed."""
        self._due.set()

    def tell(self, folders: set[str]) -> None:
        """Wake it if one of the folders is its own."""
        mine = {folder for folder in folders if self._wants(folder.split("/"))}
        if mine:
            self._found |= mine
            self._due.set()


class Wakes:
    """Shares a watch."""

    def __init__(self, watch: Wake) -> None:
        self._watch = watch
        self._waiters: list[Waiter] = []

    def of_router(self) -> Waiter:
        """Woken by outboxes and plans."""
        return self._add(lambda path: path[0] == places.RUNTIME or path[2:3] in ([], ["outbox"]))

    def of_agent(self, agent_id: str) -> Waiter:
        """Woken by an agent's inbox."""
        return self._add(lambda path: path[:2] == [places.AGENTS, agent_id] and path[2:3] in ([], ["inbox"]))

    def of_agents(self) -> Waiter:
        """Woken when an agent's folder appears."""
        return self._add(lambda path: path[0] == places.AGENTS and len(path) <= 2)

    def drop(self, waiter: Waiter) -> None:
        """It waits no longer."""
        self._waiters.remove(waiter)

    async def run(self) -> None:
        """Pass on what the watch tells, until cancelled."""
        while True:
            folders = await self._watch.changed(_LONG)
            for waiter in self._waiters:
                waiter.tell(folders)

    def _add(self, wants: Callable[[list[str]], bool]) -> Waiter:
        waiter = Waiter(wants)
        self._waiters.append(waiter)
        return waiter
