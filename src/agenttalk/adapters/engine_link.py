"""The connection of a worker to its engine, over HTTP with tokens that the worker signs itself."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import httpx2

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError, MachineError, UsageError
from agenttalk.contracts.worker import (
    AttemptName,
    Enrolled,
    Enrolment,
    JobInput,
    LogPlace,
    RepositoryBase,
    SyncAnswer,
    SyncRequest,
)
from agenttalk.ports.fleet import RelayedAnswer, RelayedRequest
from agenttalk.rules.core.worker_tokens import LIFETIME, make_claims, make_worker_token

_ANSWER: Final = 60.0
"""Seconds in which an answer has to come, besides those that it may wait for news."""
_CONNECT: Final = 10.0
_LARGEST: Final = 256 * 1024 * 1024
_BUSY: Final = frozenset({408, 421, 425, 429})
"""Statuses below 500 that say nothing about the request."""


_CHECKS: Final = "/api/worker/checks"


class HttpEngineLink:
    """Speaks with an engine. Implements `EngineLink`."""

    def __init__(
        self, client: httpx2.AsyncClient, server: str, sign: Callable[[bytes], bytes], now: Callable[[], datetime]
    ) -> None:
        """`sign` signs with the worker's key; `now` is this machine's clock, which may be wrong."""
        self._client = client
        self._server = server.rstrip("/")
        self._sign = sign
        self._now = now
        self._worker = ""
        self._ahead = timedelta(0)
        """How far the engine's clock is ahead of ours."""
        self._token = ""
        self._good_until = datetime.min.replace(tzinfo=UTC)

    def identify(self, worker: str) -> None:
        """Speak as a worker from now on."""
        self._worker = worker

    async def enrol(self, token: str, enrolment: Enrolment) -> Enrolled:
        """Enrol with the token of an invitation."""
        answer = await self._ask("POST", "/api/worker/enrol", wire.write(enrolment.as_json()), token=token)
        return Enrolled.from_json(_json(answer))

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        """Exchange the whole state; see the port."""
        body, seconds = wire.write(request.as_json()), request.wait_seconds + _ANSWER
        return SyncAnswer.from_json(_json(await self._ask("POST", "/api/worker/sync", body, seconds=seconds)))

    async def fetch_input(self, attempt: AttemptName, file: JobInput) -> bytes:
        """Fetch a file of an input; see the port."""
        query = f"name={quote(file.name, safe='')}&path={quote(file.path, safe='')}&epoch={attempt.epoch}"
        return await self._ask("GET", f"{_task(attempt)}/inputs?{query}")

    async def submit_file(self, attempt: AttemptName, output: str, path: str, data: bytes) -> None:
        """Hand in a file of an output; see the port."""
        body = {"output": output, "path": path, "content": base64.b64encode(data).decode()}
        await self._ask("POST", f"{_task(attempt)}/artifacts?epoch={attempt.epoch}", wire.write(body))

    async def submit_pack(self, base: RepositoryBase, pack: bytes) -> None:
        """Hand in the work on a repository; see the port."""
        await self._ask("PUT", base.submit, pack)

    async def submit_snapshot(self, base: RepositoryBase, pack: bytes) -> None:
        """Hand in the work so far; see the port."""
        await self._ask("PUT", base.snapshot, pack)

    async def send_log(self, attempt: AttemptName, at: int, data: bytes) -> int:
        """Send a piece of a log; see the port."""
        answer = await self._ask("PUT", f"{_task(attempt)}/log?epoch={attempt.epoch}&at={at}", data)
        return LogPlace.from_json(_json(answer)).next

    async def relay(self, attempt: AttemptName, request: RelayedRequest) -> RelayedAnswer:
        """Pass a request of an agent on; see the port."""
        query = "&".join([*([request.query] if request.query else []), f"epoch={attempt.epoch}"])
        path, more = f"{_task(attempt)}{request.rest}?{query}", {"Idempotency-Key": request.key} if request.key else {}
        answer = await self._send(request.method, path, request.body, self._current_token(), _ANSWER, more)
        return RelayedAnswer(answer.status_code, answer.headers.get("content-type", ""), answer.content)

    async def fetch_check_file(self, lease: str, sha256: str) -> bytes:
        """Fetch a file of a check; see the port."""
        return await self._ask("GET", f"{_CHECKS}/{quote(lease, safe='')}/files/{quote(sha256, safe='')}")

    def check_remote(self, lease: str) -> tuple[str, str]:
        """Return the address of the tree of a check, and its header; see the port."""
        address = f"{self._server}{_CHECKS}/{quote(lease, safe='')}/tree.git"
        return address, f"Authorization: Bearer {self._current_token()}"

    def git_remote(self, base: RepositoryBase) -> tuple[str, str]:
        """Return the address that git fetches from, and its header; see the port."""
        return f"{self._server}{base.fetch}", f"Authorization: Bearer {self._current_token()}"

    def _current_token(self) -> str:
        now = self._now() + self._ahead
        if now >= self._good_until:
            part, signed = make_claims(self._worker, now)
            self._token, self._good_until = make_worker_token(part, self._sign(signed)), now + LIFETIME / 2
        return self._token

    async def _ask(
        self, method: str, path: str, body: bytes | None = None, *, token: str = "", seconds: float = _ANSWER
    ) -> bytes:
        """Send a request. One that is refused because of the time is sent again with the engine's time."""
        answer = await self._send(method, path, body, token or self._current_token(), seconds)
        if answer.status_code == 401 and not token and self._learn_time(answer.headers):
            answer = await self._send(method, path, body, self._current_token(), seconds)
        if answer.status_code < 300:
            return answer.content
        raise _error(answer.status_code, answer.content)

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        token: str,
        seconds: float,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **more}
        try:
            async with asyncio.timeout(seconds + _CONNECT):
                return await self._client.request(
                    method, f"{self._server}{path}", content=body, headers=headers, timeout=seconds
                )
        except (httpx2.HTTPError, TimeoutError) as error:
            message = f"the engine at {self._server} does not answer: {type(error).__name__} {error}"
            raise MachineError(Code.ENGINE_UNREACHABLE, message, hint="the worker tries again") from error

    def _learn_time(self, headers: Mapping[str, str]) -> bool:
        """Learn the engine's time from an answer. Whether it differs so much that a new token may help."""
        try:
            ahead = parsedate_to_datetime(headers.get("date", "")) - self._now()
        except (TypeError, ValueError):
            return False
        differs = abs(ahead - self._ahead) > timedelta(minutes=1)
        if differs:
            self._ahead, self._good_until = ahead, datetime.min.replace(tzinfo=UTC)
        return differs


def _task(attempt: AttemptName) -> str:
    return f"/api/projects/{attempt.board}/tasks/{attempt.plan_id}:{attempt.task_id}"


def _json(data: bytes) -> Any:
    try:
        return wire.read(data, limit=_LARGEST)
    except JsonError as error:
        raise MachineError(
            Code.ENGINE_UNREACHABLE, "the engine's answer cannot be read", hint="check --server"
        ) from error


def _error(status: int, data: bytes) -> MachineError | UsageError:
    try:
        said = wire.read(data)
    except JsonError:
        said = {}
    document = said if isinstance(said, dict) else {}
    message = str(document.get("detail") or f"the engine answered {status}")
    text, hint = str(document.get("code") or ""), str(document.get("hint") or "")
    code = Code(text) if text in set(Code) else Code.ENGINE_UNREACHABLE
    if status >= 500 or status in _BUSY or not document:
        return MachineError(code, message, hint=hint)
    return UsageError(code, message, hint=hint)
