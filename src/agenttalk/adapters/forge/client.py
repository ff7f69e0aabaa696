"""Requests to a forge, with limits and retries, and the errors that its answers mean.

A read is retried while the forge is out of order. A change is retried only when it is certain that the forge did
nothing. Otherwise the error is `FORGE_IN_DOUBT`: read first whether the change was made.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self
from urllib.parse import quote

import httpx2

from agenttalk.contracts.errors import Code, ForgeError

Method = Literal["GET", "POST", "PUT", "PATCH"]
Sleep = Callable[[float], Awaitable[None]]
LARGEST_ANSWER: Final = 32 * 1024 * 1024
_OUT_OF_ORDER: Final = frozenset({500, 502, 503, 504})
_MOST_PAGES: Final = 400
_NOTHING_DONE: Final = frozenset({Code.FORGE_LIMITED, Code.FORGE_UNREACHABLE})
"""Errors after which the request can be repeated: the forge did nothing, or the request only read."""
_MOVED: Final = frozenset({301, 302, 307, 308})


class PageSize(NamedTuple):
    """How many items of a list one page has."""

    parameter: str
    """The query parameter that sets it."""
    items: int


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Time limits of requests, and how often they are tried."""

    connect: float = 5.0
    """Seconds for a connection."""
    answer: float = 20.0
    """Seconds for an answer."""
    tries: int = 3
    """How often a request is made."""
    pause: float = 0.5
    """Seconds before the second try; twice as many before each further one."""
    longest_pause: float = 30.0
    """If the forge demands a longer pause, the request fails instead."""


@dataclass(frozen=True, slots=True)
class ForgeAnswer:
    """The answer to one request."""

    status: int
    headers: Mapping[str, str]
    data: Any

    @property
    def part(self) -> Mapping[str, Any]:
        """Return the answer as an object. Raises FORGE_ANSWER_INVALID when it is something else."""
        if not isinstance(self.data, dict):
            raise ForgeError(Code.FORGE_ANSWER_INVALID, "the forge's answer is not a JSON object", status=self.status)
        return self.data

    @property
    def parts(self) -> list[Mapping[str, Any]]:
        """Return the objects of the answer's list. Raises FORGE_ANSWER_INVALID when it is something else."""
        if not isinstance(self.data, list):
            raise ForgeError(Code.FORGE_ANSWER_INVALID, "the forge's answer is not a JSON list", status=self.status)
        return [item for item in self.data if isinstance(item, dict)]

    @property
    def message(self) -> str:
        """Return the forge's message as one line of limited length."""
        text = self.data.get("message") if isinstance(self.data, dict) else ""
        return " ".join(text.split())[:300] if isinstance(text, str) else ""


class ForgeClient:
    """Makes requests to one forge with one token."""

    def __init__(
        self, client: httpx2.AsyncClient, *, patience: RetryPolicy | None = None, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._client = client
        self._patience = patience or RetryPolicy()
        self._sleep = sleep

    @property
    def address(self) -> str:
        """Where the API is."""
        return str(self._client.base_url)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        base_url: str,
        headers: Mapping[str, str],
        *,
        patience: RetryPolicy | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> AsyncIterator[Self]:
        """Open a client whose connections are closed when the block ends.

        Redirects are followed only for reads, and only within the forge's API, so that no other host gets the token.
        """
        limits = patience or RetryPolicy()
        timeout = httpx2.Timeout(limits.answer, connect=limits.connect)
        # Reading the certificates of the system takes a while, and only TLS needs them.
        secure = await asyncio.to_thread(httpx2.create_ssl_context) if base_url.startswith("https:") else False
        async with httpx2.AsyncClient(
            base_url=base_url,
            headers=dict(headers),
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
            verify=secure,
        ) as client:
            yield cls(client, patience=limits, sleep=sleep)

    async def request(
        self,
        method: Method,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int] | None = None,
        accept: frozenset[int] = frozenset(),
    ) -> ForgeAnswer:
        """Make a request, with retries. Raises ForgeError for statuses above 299 that are not in `accept`."""
        for attempt in range(1, self._patience.tries + 1):
            last = attempt == self._patience.tries
            try:
                answer = await self._send(method, path, body, query)
                if method == "GET" and answer.status in _MOVED and (address := self._find_redirect(answer)):
                    answer = await self._send(method, address, body, query)
                if answer.status < 300 or answer.status in accept:
                    return answer
                raise make_error(method, path, answer)
            except ForgeError as error:
                if last or error.code not in _NOTHING_DONE:
                    raise
                pause = error.retry_after or self._patience.pause * 2 ** (attempt - 1)
                if pause > self._patience.longest_pause:
                    raise
            await self._sleep(pause)
        raise AssertionError("unreachable")  # pragma: no cover

    def _find_redirect(self, answer: ForgeAnswer) -> str:
        """Find the new address of a renamed repository; empty when it is not below the address of the API."""
        base = self._client.base_url
        try:
            target = base.join(answer.headers.get("location", ""))
        except httpx2.InvalidURL:
            return ""
        same = (target.scheme, target.host, target.port) == (base.scheme, base.host, base.port)
        return str(target.copy_with(query=None)) if same and target.path.startswith(base.path) else ""

    async def read_pages(
        self, path: str, *, size: PageSize, query: Mapping[str, str | int] | None = None
    ) -> list[Mapping[str, Any]]:
        """Read all items of a list."""
        return [item async for page in self.iterate_pages(path, size=size, query=query) for item in page]

    async def iterate_pages(
        self, path: str, *, size: PageSize, query: Mapping[str, str | int] | None = None
    ) -> AsyncIterator[list[Mapping[str, Any]]]:
        """Read the pages of a list, one after the other, as long as the caller goes on.

        A forge may return smaller pages than requested, so the headers say whether there are more.
        """
        count = 0
        for page in range(1, _MOST_PAGES + 1):
            answer = await self.request("GET", path, query={**(query or {}), "page": page, size.parameter: size.items})
            items = answer.parts
            count += len(items)
            yield items
            total = answer.headers.get("x-total-count", "")
            more = 'rel="next"' in answer.headers.get("link", "") or answer.headers.get("x-hasmore") == "true"
            if not items or not (more or (total.isdecimal() and count < int(total))):
                return
        raise ForgeError(Code.FORGE_ANSWER_INVALID, f"{path} has more than {_MOST_PAGES} pages")

    async def _send(
        self, method: Method, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str | int] | None
    ) -> ForgeAnswer:
        try:
            async with self._client.stream(method, path, json=body, params=dict(query or {})) as response:
                content = bytearray()
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > LARGEST_ANSWER:
                        raise ForgeError(Code.FORGE_ANSWER_INVALID, f"the answer to {method} {path} is too large")
                return ForgeAnswer(response.status_code, response.headers, _json(bytes(content)))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise ForgeError(
                Code.FORGE_UNREACHABLE, f"the forge cannot be reached: {_describe_error(error)}"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            code = Code.FORGE_UNREACHABLE if method == "GET" else Code.FORGE_IN_DOUBT
            raise ForgeError(code, f"{method} {path} got no answer: {_describe_error(error)}") from error


def make_error(method: Method, path: str, answer: ForgeAnswer) -> ForgeError:
    """Make the error that an answer means. It never contains the token."""
    status, message = answer.status, answer.message
    text = f"{method} {path} was answered with {status}" + (f": {message}" if message else "")
    after = _retry_after(answer)
    if status == 429 or (status == 403 and (after or answer.headers.get("x-ratelimit-remaining") == "0")):
        return ForgeError(Code.FORGE_LIMITED, text, status=status, retry_after=after)
    if status in _OUT_OF_ORDER:
        # The forge does not say whether it made the change before it failed.
        code = Code.FORGE_UNREACHABLE if method == "GET" else Code.FORGE_IN_DOUBT
        return ForgeError(code, text, status=status, retry_after=after)
    if status in {404, 410}:
        return ForgeError(Code.FORGE_MISSING, text, status=status)
    if status in {409, 412}:
        return ForgeError(Code.FORGE_CONFLICT, text, status=status)
    hint = "check the token and its scopes" if status in {401, 403} else ""
    return ForgeError(Code.FORGE_REFUSED, text, status=status, hint=hint)


def to_path(repository: str) -> str:
    """Return the path of a repository `owner/name`. Raises FORGE_MISSING for any other text."""
    owner, slash, name = repository.partition("/")
    if not slash or not owner or not name or "/" in name or {owner, name} & {".", ".."}:
        raise ForgeError(Code.FORGE_MISSING, f"{repository[:100]!r} is not a repository: expected OWNER/NAME")
    return f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"


def _retry_after(answer: ForgeAnswer) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 10 else 0.0


def _json(content: bytes) -> Any:
    try:
        return json.loads(content) if content.strip() else None
    except (ValueError, RecursionError):
        return None


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__} {str(error)[:200]}".strip()
