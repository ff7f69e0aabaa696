"""Plain methods offered to the event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from agenttalk.errors import Code, MachineError

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def threaded(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Run a method in a thread. Cancelling does not stop it: whoever awaits is cancelled when it is finished.

    So nothing is still at work behind somebody who tries again. OSErrors come out as MachineError.
    """

    @functools.wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        work = asyncio.ensure_future(asyncio.to_thread(method, self, *args, **kwargs))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            while not work.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([work])
            work.exception()  # looked at, so that nobody complains that it was not
            raise
        except OSError as error:
            where = f" {error.filename!r}" if error.filename else ""
            raise MachineError(
                Code.FILE_UNWRITABLE,
                f"the workspace cannot be used:{where} {error.strerror or error}",
                hint="look at the path, its permissions and the free space",
            ) from error

    return call
