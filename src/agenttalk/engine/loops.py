"""Loops of an engine: none ends because a step of it failed. It says so, and tries again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Final, TypeVar

from agenttalk.engine.wakes import Wake
from agenttalk.errors import AgentTalkError

LOG = logging.getLogger(__name__)
T = TypeVar("T")
PAUSE: Final = 5.0
"""Seconds after which a loop tries again when a step failed."""


async def looped(
    name: str, stop: asyncio.Event, wake: Wake, step: Callable[[], Awaitable[T]], pause: Callable[[T], float]
) -> None:
    """Do a step again and again until `stop` is set: when something woke it, and after its pause at the latest."""
    while not stop.is_set():
        wait = PAUSE
        try:
            wait = pause(await step())
        except AgentTalkError as error:
            LOG.warning("%s: %s", name, error.message, extra={"action": f"engine.{name}"})
        except Exception:
            LOG.exception("%s: a step failed; it is tried again", name, extra={"action": f"engine.{name}"})
        await first(stop.wait(), wake.changed(wait))


async def listening(name: str, listen: Callable[[], Awaitable[None]], failure: str) -> None:
    """Listen until cancelled. `failure` says what is the matter while nobody does."""
    while True:
        try:
            await listen()
        except Exception:
            LOG.exception("%s; it is tried again", failure, extra={"action": f"engine.{name}"})
        await asyncio.sleep(PAUSE)


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Do what may take its time, but does not keep the engine from ending: None when it was cancelled for that."""
    task = asyncio.create_task(work)
    await first(stop.wait(), task)
    return None if task.cancelled() else task.result()


async def rest(stop: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until `stop` is set."""
    await first(stop.wait(), asyncio.sleep(seconds))


async def first(*waits: Awaitable[Any], keep: Collection[asyncio.Task[Any]] = ()) -> None:
    """Wait for the first of them; the others are cancelled, unless they are to be kept."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = [task for task in tasks if task not in keep]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
