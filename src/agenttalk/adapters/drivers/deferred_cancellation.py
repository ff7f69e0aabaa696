"""Waits for work that must finish even when the waiting task is cancelled."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

T = TypeVar("T")


async def wait_until_finished(future: asyncio.Future[T]) -> T:
    """Return the result of a future. A cancellation meanwhile is raised only when the result is there."""
    cancelled = await wait_uncancelled(future)
    result = future.result()
    if cancelled is not None:
        raise cancelled
    return result


async def wait_uncancelled(future: asyncio.Future[T], seconds: float | None = None) -> asyncio.CancelledError | None:
    """Wait until a future is done or the time is over, however often this is cancelled.

    Returns the cancellation, which the caller must raise when its work is finished.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            break
        try:
            await asyncio.wait({future}, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
