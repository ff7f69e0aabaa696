"""Requests an HTTP address safely.

The host is resolved once, its address is judged, and the connection goes to that very address; each redirect is judged
again.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from agenttalk.rules.checks.check_results import HttpAnswer
from agenttalk.rules.core import http_addresses
from agenttalk.rules.core.http_addresses import AllowedAddress
from agenttalk.rules.proof.evidence import CheckFinding
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import ABOUT

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port → addresses."""

_REDIRECTS: Final = 5
_PIECE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """How to make a request."""

    allowed: Sequence[AllowedAddress] = ()
    seconds: float = 30.0
    most: int = 1024 * 1024
    """Bytes of the answer that are read."""
    follow: bool = True
    """Whether redirects are followed."""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers besides the usual ones."""
    body: bytes | None = None


class _Hop(NamedTuple):
    """One address of a request."""

    url: SplitResult
    host: str
    port: int
    address: str


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolve a host with the system's resolver."""
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(host_address) for *_, (host_address, *_) in entries]


async def send_request(url: str, asking: HttpRequest, *, resolve: Resolve = resolve_host) -> HttpAnswer | CheckFinding:
    """Return an address's answer, or why it was not requested or did not answer. Ends within the time limit."""
    deadline = time.monotonic() + asking.seconds
    try:
        return await asyncio.wait_for(_follow(url, asking, resolve, deadline), asking.seconds)
    except TimeoutError:
        return _late(url, asking)


async def send_to_socket(path: Path, port: int, target: str, asking: HttpRequest) -> HttpAnswer | CheckFinding:
    """Return the answer of a service behind a socket that is a file, or why there is none. Follows no redirect."""
    hop = _Hop(urlsplit(f"http://127.0.0.1:{port}{target}"), "127.0.0.1", port, "")
    connection = _SocketConnection(hop.host, port)
    connection.path, connection.deadline = path, time.monotonic() + asking.seconds
    connection.response_class = partial(_Response, connection)  # type: ignore[assignment]  # any callable will do
    answer = await _run_exchange(connection, hop, replace(asking, follow=False))
    return answer if not isinstance(answer, str) else CheckFinding(False, "refused", answer)


def _late(url: str, asking: HttpRequest) -> CheckFinding:
    return CheckFinding(False, "timeout", check_words.NOT_ANSWERED(url=url[:200], seconds=asking.seconds))


async def _follow(url: str, asking: HttpRequest, resolve: Resolve, deadline: float) -> HttpAnswer | CheckFinding:
    for _ in range(_REDIRECTS + 1):
        hop = await _judged(url, asking, resolve)
        if isinstance(hop, CheckFinding):
            return hop
        answer = await _send_hop(hop, asking, deadline)
        if isinstance(answer, str):
            url = urljoin(url, answer)
            continue
        return answer
    return CheckFinding(False, "refused", check_words.TOO_MANY_HOPS(url=url[:200]))


async def _judged(url: str, asking: HttpRequest, resolve: Resolve) -> _Hop | CheckFinding:
    """Choose the address to connect to. If one of the host's addresses is not allowed, none is."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        return CheckFinding(False, "refused", check_words.BAD_ADDRESS(url=url[:200], error=error))
    if parts.scheme not in {"http", "https"} or not host:
        return CheckFinding(False, "refused", check_words.NOT_HTTP(url=url[:200]))
    if parts.username is not None or parts.password is not None:
        return CheckFinding(False, "refused", check_words.ADDRESS_WITH_NAME())
    try:
        addresses = await resolve(host, port)
    except (OSError, UnicodeError) as error:
        return CheckFinding(False, "unreachable", check_words.HOST_NOT_FOUND(host=host, error=error))
    refusals = [why for address in addresses if (why := http_addresses.explain_refusal(address, port, asking.allowed))]
    if refusals or not addresses:
        return CheckFinding(
            False, "refused", ABOUT(subject=repr(host), what=refusals[0] if refusals else check_words.HAS_NO_ADDRESS())
        )
    return _Hop(parts, host, port, addresses[0])


async def _send_hop(hop: _Hop, asking: HttpRequest, deadline: float) -> HttpAnswer | CheckFinding | str:
    """Return the answer, or the address that it redirects to.

    Cancelling closes the connection, and with it the thread ends. A connection that is just being made notices this as
    soon as it is established.
    """
    return await _run_exchange(_connection(hop, deadline), hop, asking)


async def _run_exchange(
    connection: _DeadlineConnection, hop: _Hop, asking: HttpRequest
) -> HttpAnswer | CheckFinding | str:
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(None, _exchange, connection, hop, asking)
    finally:
        connection.cut = True
        if isinstance(connection.sock, socket.socket):
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)


def _exchange(
    connection: http.client.HTTPConnection, hop: _Hop, asking: HttpRequest
) -> HttpAnswer | CheckFinding | str:
    target = (hop.url.path or "/") + (f"?{hop.url.query}" if hop.url.query else "")
    usual = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "agenttalk", "Connection": "close"}
    asked = hop.url.geturl()[:200]
    try:
        connection.request(asking.method, target, body=asking.body, headers={**usual, **asking.headers})
        response = connection.getresponse()
        location = response.getheader("Location")
        if asking.follow and location and response.status in {301, 302, 303, 307, 308}:
            return location
        body = _body(response, asking.most + 1)
        plain = response.getheader("Content-Encoding", "identity").strip().lower() == "identity"
        return HttpAnswer(response.status, body[: asking.most], plain and len(body) <= asking.most, asked)
    except TimeoutError:
        return _late(asked, asking)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return CheckFinding(False, "unreachable", f"{asked}: {type(error).__name__}: {str(error)[:200]}")
    finally:
        connection.close()


def _body(response: http.client.HTTPResponse, most: int) -> bytes:
    parts: list[bytes] = []
    left = most
    while left > 0 and (piece := response.read(min(_PIECE, left))):
        parts.append(piece)
        left -= len(piece)
    return b"".join(parts)


def _connection(hop: _Hop, deadline: float) -> _PinnedConnection:
    kind = _PinnedTlsConnection if hop.url.scheme == "https" else _PinnedConnection
    connection = kind(hop.host, hop.port)
    connection.goal, connection.deadline = (hop.address, hop.port), deadline
    connection.response_class = partial(_Response, connection)  # type: ignore[assignment]  # any callable will do
    return connection


class _DeadlineConnection(http.client.HTTPConnection):
    """A connection that ends at the deadline of its request."""

    deadline: float
    cut = False


class _SocketConnection(_DeadlineConnection):
    """Connects to a socket that is a file."""

    path: Path

    def connect(self) -> None:
        """Connect to exactly this file: no link is followed, and the path may be longer than such an address."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(max(0.01, self.deadline - time.monotonic()))
        file = os.open(self.path, os.O_PATH | os.O_NOFOLLOW)
        try:
            self.sock.connect(f"/proc/self/fd/{file}")
        finally:
            os.close(file)


class _PinnedConnection(_DeadlineConnection):
    """Connects to an address that was judged, even if the host's name resolves to another one by now."""

    goal: tuple[str, int]

    def connect(self) -> None:
        """Connect. Each wait ends at the deadline of the whole request."""
        left = max(0.01, self.deadline - time.monotonic())
        self.sock = socket.create_connection(self.goal, timeout=left)
        if self.cut:
            raise TimeoutError("the time limit has passed")


class _PinnedTlsConnection(_PinnedConnection):
    """The same, with the certificate of the host's name."""

    def connect(self) -> None:
        """Connect, and verify the certificate."""
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


class _Response(http.client.HTTPResponse):
    """Reads until the deadline, however much has arrived by then."""

    def __init__(
        self, connection: _DeadlineConnection, sock: socket.socket, debuglevel: int = 0, method: str | None = None
    ) -> None:
        super().__init__(sock, debuglevel, method)
        self.fp = io.BufferedReader(_DeadlineStream(self.fp, connection))


class _DeadlineStream(io.RawIOBase):
    """Reads from a connection until the deadline."""

    def __init__(self, source: io.BufferedReader, connection: _DeadlineConnection) -> None:
        self._source, self._connection = source, connection

    def readable(self) -> bool:
        """Return true: it can only be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # called by BufferedReader alone
        """Read what has arrived."""
        if self._connection.cut or time.monotonic() > self._connection.deadline:
            raise TimeoutError("the time limit has passed")
        return self._source.raw.readinto(buffer) or 0

    def close(self) -> None:
        """Also close the file below."""
        self._source.close()
        super().close()
