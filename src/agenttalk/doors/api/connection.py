"""A connection: limits the time and the size of a request head, and refuses requests that are not for this server.

uvicorn leaves parsing to httptools, which is several times as fast as a parser in Python, and strict about input that
two programs could understand differently. This module adds the limits that httptools does not have.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agenttalk.doors.api.guard import AGENT

HEAD_SECONDS: Final = 15.0
"""Seconds in which the head of a request has to arrive."""
HEAD_BYTES: Final = 64 * 1024
"""How many bytes a head may have, and what comes between two pieces of a body."""
_MUCH: Final = 65536
"""An answer with more bytes than this is sent at once, and not held back to be sent with others."""
PeerJudge: TypeAlias = "Callable[[socket.socket], str]"
"""Returns how the process at the other end is known to be an agent's; empty if it is not an agent's process."""
_VERSIONS: Final = frozenset({"1.0", "1.1"})


class NoRequestError(Exception):
    """Raised for bytes that are not a request for this server. The parser passes it on as an error of its own."""


class BatchingTransport:
    """A transport that sends everything written in one turn of the event loop at once.

    uvicorn writes the head and the body of an answer separately, which would cost two system calls for each request.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Send the data before the next turn of the event loop."""
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
        """Send what was written, and close the connection."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is being closed."""
        return self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HttpConnection(HttpToolsProtocol):
    """A connection. It is closed unless a complete head arrives within HEAD_SECONDS (slow-loris protection).

    uvicorn itself waits without a limit for a first request and for the rest of a head, and accepts heads, and trailers
    behind a body, of any size.
    """

    judge: PeerJudge | None = None
    _agent: str | None = None
    """The judgement about the other end, once it was made."""
    _bound: Any = None
    _waiting: asyncio.TimerHandle | None = None
    _in_head = False
    _came_on = False
    """Whether the last bytes ended a head, or were part of a body."""
    _size = 0
    """How many bytes the complete lines of the head have so far."""
    _since = 0
    """How many bytes came since then."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start a connection, and judge the other end if it is a local socket."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", BatchingTransport(transport, self.loop))
        self._bound = transport.get_extra_info("socket")
        if self.judge is not None and self._bound.family == socket.AF_UNIX:
            self._judged()  # now: the process may be gone later, and could not be judged any more
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and close the connection when a head does not end."""
        self._came_on = False
        super().data_received(data)
        self._since = 0 if self._came_on else self._since + len(data)
        if self._since > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("This head does not end.")
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._rest()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start a request."""
        super().on_message_begin()
        if self.judge is not None:
            self.scope["state"][AGENT] = self._judged
        self._in_head, self._size = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a line of a head. Lines behind a body are counted, and dropped."""
        self._size += len(name) + len(value)
        if self._size > HEAD_BYTES:
            raise NoRequestError("the head is too large")
        if not self._in_head:
            return
        super().on_header(name, value)
        if len(name) == 17 and self.headers[-1][0] == b"transfer-encoding" and value.lower() != b"chunked":
            raise NoRequestError("unknown transfer coding")

    def on_headers_complete(self) -> None:
        """End a head, and refuse a request for another server."""
        self._in_head, self._came_on = False, True
        if not self.url.startswith(b"/") or self.parser.get_http_version() not in _VERSIONS:
            raise NoRequestError("not a request for one of our own addresses")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Add a piece of a body."""
        self._came_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._came_on = True
        super().on_message_complete()

    def _judged(self) -> str:
        """Return how the other end is known to be an agent's; empty if it is not. It is judged once."""
        if self._agent is None:
            self._agent = self.judge(self._bound) if self.judge is not None else ""
        return self._agent

    def _watch(self) -> None:
        """Run the clock while no request is being answered. Further bytes do not set it back."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._rest()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _rest(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
