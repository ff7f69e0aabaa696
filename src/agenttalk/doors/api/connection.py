"""One connection: what is a request, and how long and how large its head may be.

uvicorn leaves the reading to httptools, which is several times as fast as a parser in Python, and strict about what two
programs could understand differently. What it leaves open is closed here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agenttalk.doors.api.guard import AGENT

HEAD_SECONDS: Final = 15.0
"""Seconds in which the head of a request has to be here."""
HEAD_BYTES: Final = 64 * 1024
"""Bytes of a head, and of what may come between two pieces of a body."""
_MUCH: Final = 65536
"""Bytes of an answer that are not held back to be sent with others."""
PeerJudge: TypeAlias = "Callable[[socket.socket], str]"
"""Says of who opened a connection how it is known to be an agent's process; empty when it is none."""
_VERSIONS: Final = frozenset({"1.0", "1.1"})


class NoRequestError(Exception):
    """What came is no request that we take. The parser passes it on as an error of its own."""


class BatchingTransport:
    """A transport that sends what is written in one turn of the event loop at once.

    uvicorn writes the head and the body of an answer apart; that would be two calls of the system for each request.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Send it before the next turn."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > _MUCH:
            self.flush()

    def flush(self) -> None:
        """Send what was written."""
        parts, self._parts, self._size = self._parts, [], 0
        if parts:
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        """Send what was written, and hang up."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether it is being hung up."""
        return self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HttpConnection(HttpToolsProtocol):
    """One connection. Whoever does not send a whole head in time is hung up on, however slowly he goes on sending.

    uvicorn itself waits for ever for a first request, and for the rest of a head that has begun; and it takes heads,
    and trailers behind a body, of any size.
    """

    judge: PeerJudge | None = None
    _agent: str | None = None
    """What was judged of the other end, once that was done."""
    _bound: Any = None
    _waiting: asyncio.TimerHandle | None = None
    _in_head = False
    _came_on = False
    """Whether what came ended a head, or brought some of a body."""
    _size = 0
    """Bytes of the head so far, as far as its lines are whole."""
    _since = 0
    """Bytes that came since it came on."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", BatchingTransport(transport, self.loop))
        self._bound = transport.get_extra_info("socket")
        if self.judge is not None and self._bound.family == socket.AF_UNIX:
            self._judged()  # now: later it may be gone, and nobody knows what it was
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Some bytes are there."""
        self._came_on = False
        super().data_received(data)
        self._since = 0 if self._came_on else self._since + len(data)
        if self._since > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("This head does not end.")
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._rest()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self.judge is not None:
            self.scope["state"][AGENT] = self._judged
        self._in_head, self._size = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of a head. Those that come behind a body are nobody's business."""
        self._size += len(name) + len(value)
        if self._size > HEAD_BYTES:
            raise NoRequestError("the head is too large")
        if not self._in_head:
            return
        super().on_header(name, value)
        if len(name) == 17 and self.headers[-1][0] == b"transfer-encoding" and value.lower() != b"chunked":
            raise NoRequestError("a coding that nobody here knows")

    def on_headers_complete(self) -> None:
        """A head has come to its end."""
        self._in_head, self._came_on = False, True
        if not self.url.startswith(b"/") or self.parser.get_http_version() not in _VERSIONS:
            raise NoRequestError("not a request for one of our own addresses")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of a body."""
        self._came_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has come to its end."""
        self._came_on = True
        super().on_message_complete()

    def _judged(self) -> str:
        """How the other end is known to be an agent's; empty when it is nobody's. It is looked up once."""
        if self._agent is None:
            self._agent = self.judge(self._bound) if self.judge is not None else ""
        return self._agent

    def _watch(self) -> None:
        """The clock runs while no request is being answered, and further bytes do not set it back."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._rest()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _rest(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
