"""Routes without a token: whether an engine lives, and whether it can do its work. They show nothing else."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.doors.api.problems import to_json_response
from agenttalk.engine.core.boards import SYSTEM
from agenttalk.engine.operation.service import Service
from agenttalk.ports.statements.core import NEWEST_FACT

PATIENCE: Final = 2.0
"""Seconds within which the store has to answer."""
FRESH: Final = 1.0
"""Seconds for which an answer of the store is reused: these routes need no token and may be called often."""


async def report_alive(_: Request) -> Response:
    """Answer: an engine that answers is alive."""
    return to_json_response({"ok": True})


class ReadinessProbe:
    """Whether work is being done: the start is over, the end has not begun, and the store can be read."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._looked = -FRESH
        self._good = False

    async def __call__(self, _: Request) -> Response:
        """Handle a request."""
        good = self._service.ready and await self._is_store_reachable()
        return to_json_response({"ok": good}, 200 if good else 503)

    async def _is_store_reachable(self) -> bool:
        clock = asyncio.get_running_loop().time
        if clock() - self._looked >= FRESH:
            self._good, self._looked = await self._read_store(), clock()
        return self._good

    async def _read_store(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE):
                await (await self._service.deps.stores.board(SYSTEM)).read(NEWEST_FACT)
        except (AgentTalkError, TimeoutError):
            return False
        return True
