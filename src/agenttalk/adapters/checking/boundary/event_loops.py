"""Event loops in which what is awaited comes to its end at once, also where another loop is running.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

from typing import Any


class NestedLoop:
    """An event loop that runs inside another one, in the same thread."""

    def __init__(self) -> None:
        self._loop: Any = None

    def finish(self, awaited: Any) -> Any:
        """Run something awaitable to its end. Returns its result, or raises its exception."""
        import asyncio
        from asyncio import events

        async def run() -> Any:
            return await awaited

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        loop = asyncio.new_event_loop() if self._loop.is_running() else self._loop
        outer = events._get_running_loop()  # noqa: SLF001 - the only way to run one loop inside another
        events._set_running_loop(None)  # noqa: SLF001
        try:
            return loop.run_until_complete(run())
        finally:
            events._set_running_loop(outer)  # noqa: SLF001
            if loop is not self._loop:
                loop.close()

    def close(self) -> None:
        """Close the loop, with what still waits in it."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None
