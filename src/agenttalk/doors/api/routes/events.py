"""Streams facts of the ledger as server-sent events, from the position of the client on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import lru_cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.doors.api import callers
from agenttalk.engine.core.access import Caller
from agenttalk.engine.operation.service import Service
from agenttalk.engine.views.feed import RECENT_LIMIT, FeedReset, News
from agenttalk.rules.operation import feed

PATIENCE: Final = 30.0
"""Seconds within which a client has to take what it is sent; then it is hung up on."""
AGAIN: Final = 5.0
"""Seconds after which the client's permission is checked again, before anything else is sent."""
_LONGEST: Final = 64 * 1024
_BEAT: Final = b": still here\n\n"


async def events(service: Service, request: Request, caller: Caller) -> Response:
    """Follow the ledger. `Last-Event-ID`, or `after`, says from where; `plan` whose news; `wait=0` waits for none.

    It ends when the client loses its permission: its token was revoked, or its session is over.
    """
    query = request.query_params
    plan_id = query.get("plan", "")
    if plan_id and not is_id(plan_id):
        raise UsageError(Code.OPTION_INVALID, f"{plan_id[:80]!r} is not the name of a plan")
    said = request.headers.get("last-event-id") or query.get("after", "")
    position = feed.decode_cursor(said[:_LONGEST]) if said else None
    found = service.feed.follow(position, plan_id, wait=query.get("wait") != "0")
    first = await anext(found)  # so that a refusal is an answer of its own

    async def allowed() -> bool:
        try:
            return await callers.identify_by_session_or_token(service, request) == caller
        except AgentTalkError:
            return False

    return _EventStream(_stream_events(first, found, allowed))


async def _always() -> bool:
    return True


async def _stream_events(
    first: list[News | FeedReset],
    found: AsyncGenerator[list[News | FeedReset]],
    allowed: Callable[[], Awaitable[bool]] = _always,
) -> AsyncGenerator[bytes]:
    clock = asyncio.get_running_loop().time
    async with aclosing(found):  # a client that is disconnected follows no longer
        yield b"retry: 2000\n\n" + _encode_events(first)
        looked = clock()
        async for each in found:
            if clock() - looked >= AGAIN:
                if not await allowed():
                    return
                looked = clock()
            yield _encode_events(each)


def _encode_events(found: list[News | FeedReset]) -> bytes:
    return b"".join(_encode_event(each) for each in found) or _BEAT


@lru_cache(maxsize=RECENT_LIMIT)
def _encode_event(each: News | FeedReset) -> bytes:
    """Encode an event as it is sent, once for all followers."""
    if isinstance(each, FeedReset):
        return f"id: {each.id}\nevent: anew\ndata: {{}}\n\n".encode()
    told = {**each._asdict(), "tasks": list(each.tasks)}
    del told["id"]
    return f"id: {each.id}\nevent: fact\ndata: {wire.write(told).decode()}\n\n".encode()


class _EventStream(Response):
    """An answer without an end. A client that is gone, or takes nothing for too long, is let go."""

    def __init__(self, pieces: AsyncGenerator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as called
        """Send until one side ends it."""
        headers = [*self.raw_headers, (b"content-type", b"text/event-stream; charset=utf-8")]
        kept = [each for each in headers if each[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": kept})
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (sending, leaving):
                each.cancel()
            for each in (sending, leaving):
                with suppress(asyncio.CancelledError, TimeoutError, OSError, AgentTalkError):
                    await each

    async def _send(self, send: Send) -> None:
        try:
            async for piece in self._pieces:
                async with asyncio.timeout(PATIENCE):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._pieces.aclose()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
