"""Runs the loops of an engine, and wakes them.

A loop does not end because a step of it failed: it logs the error and tries again. One watch serves all waiters; each
is woken by its own folders or by a nudge.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.errors import AgentTalkError

LOG = logging.getLogger(__name__)
T = TypeVar("T")
PAUSE: Final = 5.0
"""Seconds after which a loop tries again when a step failed."""


async def run_loop(
    name: str, stop: asyncio.Event, wake: WakeSource, step: Callable[[], Awaitable[T]], pause: Callable[[T], float]
) -> None:
    """Repeat a step until `stop` is set: when it is woken, and after its pause at the latest."""
    while not stop.is_set():
        wait = PAUSE
        try:
            wait = pause(await step())
        except AgentTalkError as error:
            LOG.warning("%s: %s", name, error.message, extra={"action": f"engine.{name}"})
        except Exception:
            LOG.exception("%s: a step failed; it is tried again", name, extra={"action": f"engine.{name}"})
        await wait_for_first(stop.wait(), wake.wait_for_change(wait))


async def run_listener(name: str, listen: Callable[[], Awaitable[None]], failure: str) -> None:
    """Listen until cancelled. `failure` names the fault while the watch does not work."""
    while True:
        try:
            await listen()
        except Exception:
            LOG.exception("%s; it is tried again", failure, extra={"action": f"engine.{name}"})
        await asyncio.sleep(PAUSE)


async def run_unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Run what may take long but must not keep the engine from ending. None when it was cancelled for that."""
    task = asyncio.create_task(work)
    await wait_for_first(stop.wait(), task)
    return None if task.cancelled() else task.result()


async def sleep_unless_stopped(stop: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until `stop` is set."""
    await wait_for_first(stop.wait(), asyncio.sleep(seconds))


async def wait_for_first(*waits: Awaitable[Any], keep: Collection[asyncio.Task[Any]] = ()) -> None:
    """Wait for the first of the tasks. The others are cancelled, unless they are kept."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = [task for task in tasks if task not in keep]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)


_LONG: Final = 3600.0


class WakeSource(Protocol):
    """Something that reports changed folders."""

    async def wait_for_change(self, timeout: float) -> set[str]:  # noqa: ASYNC109 - to wait that long is its purpose
        """Wait until something changed, for a limited time. Return the folders."""


class Waiter:
    """A loop that waits for a wake. Implements `WakeSource`."""

    def __init__(self, wants: Callable[[list[str]], bool] = lambda _: False) -> None:
        """`wants` says which folders wake it. By default none does, and it needs a nudge."""
        self._wants = wants
        self._found: set[str] = set()
        self._due = asyncio.Event()

    async def wait_for_change(self, timeout: float) -> set[str]:  # noqa: ASYNC109 - to wait that long is its purpose
        """Wait until one of its folders changed, or it was nudged."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._due.wait()
        found = set(self._found)
        self._found.clear()
        self._due.clear()
        return found

    def nudge(self) -> None:
        """Wake it although no folder changed."""
        self._due.set()

    def notify(self, folders: set[str]) -> None:
        """Wake it if one of the folders is its own."""
        mine = {folder for folder in folders if self._wants(folder.split("/"))}
        if mine:
            self._found |= mine
            self._due.set()


class WakeBroadcaster:
    """Shares one watch among loops."""

    def __init__(self, watch: WakeSource) -> None:
        self._watch = watch
        self._waiters: list[Waiter] = []

    def add_router_waiter(self) -> Waiter:
        """Return a waiter for outboxes and plans."""
        return self._add(lambda path: path[0] == root_layout.RUNTIME or path[2:3] in ([], ["outbox"]))

    def add_agent_waiter(self, agent_id: str) -> Waiter:
        """Return a waiter for an agent's inbox."""
        return self._add(lambda path: path[:2] == [root_layout.AGENTS, agent_id] and path[2:3] in ([], ["inbox"]))

    def add_agents_folder_waiter(self) -> Waiter:
        """Return a waiter for new agents' folders."""
        return self._add(lambda path: path[0] == root_layout.AGENTS and len(path) <= 2)

    def remove(self, waiter: Waiter) -> None:
        """Remove a waiter."""
        self._waiters.remove(waiter)

    async def run(self) -> None:
        """Pass on what the watch reports, until cancelled."""
        while True:
            folders = await self._watch.wait_for_change(_LONG)
            for waiter in self._waiters:
                waiter.notify(folders)

    def _add(self, wants: Callable[[list[str]], bool]) -> Waiter:
        waiter = Waiter(wants)
        self._waiters.append(waiter)
        return waiter
