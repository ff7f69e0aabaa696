"""Offers blocking methods to the event loop."""

from __future__ import annotations

import asyncio
import errno
import functools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from agenttalk.contracts.errors import Code, FullDiskError, MachineError

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def threaded(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Turn a method into one that runs in a thread; see `in_thread`."""

    @functools.wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(method, self, *args, **kwargs)

    return call


async def in_thread(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a function in a thread. Cancelling does not stop it: the cancellation takes effect when it is finished.

    So no earlier call is still at work when the caller tries again. Raises MachineError in place of OSError.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        work.exception()  # read it, so that asyncio does not report an exception that was never retrieved
        raise
    except OSError as error:
        where = f" {error.filename!r}" if error.filename else ""
        kind = FullDiskError if error.errno in {errno.ENOSPC, errno.EDQUOT} else MachineError
        raise kind(
            Code.FILE_UNWRITABLE,
            f"the workspace cannot be used:{where} {error.strerror or error}",
            hint="check the path, its permissions and the free space",
        ) from error
