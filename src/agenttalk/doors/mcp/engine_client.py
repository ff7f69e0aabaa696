"""Connects tools to the engine: by its HTTP API, with the token of the caller. They can do nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx2

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError

LARGEST: Final = 64 * 1024 * 1024
TIMEOUT: Final = 120.0
"""Seconds for an answer; a request that waits for work waits a minute at most."""
Connect = Callable[[], httpx2.AsyncClient]
"""Makes a client of the engine, wherever that listens by now."""


class ToolRefusal(Exception):  # noqa: N818 - an answer, not a fault of ours
    """What the engine answered instead of what was asked for."""

    def __init__(self, code: str, message: str, *, hint: str = "", problems: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.problems = problems

    def to_json(self) -> dict[str, Any]:
        """Return the answer for the caller of the tool."""
        told: dict[str, Any] = {"code": self.code, "message": self.message, "hint": self.hint}
        return {**told, "problems": list(self.problems)} if self.problems else told

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}"]
        lines += [f"hint: {self.hint}"] if self.hint else []
        for each in self.problems:
            if isinstance(each, dict):
                lines.append(
                    f"- {each.get('field') or '(all)'}: {each.get('message')} {each.get('hint') or ''}".rstrip()
                )
        return "\n".join(lines)


class AsyncEngineClient:
    """Asks an engine with one token."""

    def __init__(self, connect: Connect, token: str) -> None:
        self._connect = connect
        self._token = token

    async def get(self, path: str) -> Any:
        """Read the answer at a path. Raises Refusal."""
        return _read(await self._ask("GET", path, None, {}))

    async def get_bytes(self, path: str) -> bytes:
        """Read the bytes at a path. Raises Refusal."""
        return await self._ask("GET", path, None, {})

    async def post(self, path: str, body: Mapping[str, Any], *, key: str = "") -> Any:
        """Have something done, and return the answer; raises Refusal."""
        return _read(await self._ask("POST", path, wire.write(dict(body)), {"Idempotency-Key": key} if key else {}))

    async def _ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        told = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", **headers}
        try:
            async with self._connect() as client:
                answer = await client.request(method, path, content=body, headers=told, timeout=TIMEOUT)
        except httpx2.HTTPError as error:
            message = f"the engine does not answer: {error or type(error).__name__}"
            raise ToolRefusal(Code.ENGINE_UNREACHABLE, message, hint="is 'agenttalk serve' running?") from error
        if answer.status_code < 300:
            return answer.content
        raise _refusal(answer.status_code, answer.content)


def _read(data: bytes) -> Any:
    try:
        return wire.read(data, limit=LARGEST)
    except JsonError as error:
        raise ToolRefusal(
            Code.ENGINE_UNREACHABLE, f"the answer of the engine cannot be read: {error.message}"
        ) from error


def _refusal(status: int, data: bytes) -> ToolRefusal:
    try:
        told = wire.read(data)
    except JsonError:
        told = None
    said: dict[str, Any] = told if isinstance(told, dict) else {}
    code = said.get("code")
    problems = said.get("problems")
    return ToolRefusal(
        code if isinstance(code, str) else Code.UNHANDLED_EXCEPTION,
        str(said.get("detail") or f"the engine answered {status}"),
        hint=str(said.get("hint") or ""),
        problems=tuple(problems) if isinstance(problems, list) else (),
    )
