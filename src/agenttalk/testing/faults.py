"""Faults of a forge, on demand."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

FaultKind = Literal["status", "applied_then_status", "silent", "applied_then_silent", "cut"]


@dataclass(slots=True)
class ForgeFault:
    """A fault of the next requests that match."""

    kind: FaultKind
    """An error or no answer, each instead of the action or after it; or half an answer after it."""
    method: str = ""
    """Match only this method."""
    path: str = ""
    """Match only paths that contain this pattern."""
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "the forge is out of order"
    times: int = 1
    """How many times; a negative number: until it is removed."""


class FaultyApp:
    """Wraps an application with faults, which are used up in order."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.faults: list[ForgeFault] = []
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or fail to."""
        fault = self._taken(scope) if scope["type"] == "http" else None
        self.asked += [f"{scope['method']} {scope['path']}"] if scope["type"] == "http" else []
        if fault is None:
            await self._app(scope, receive, send)
            return
        if fault.kind in {"applied_then_status", "applied_then_silent", "cut"}:
            await self._app(scope, receive, _nowhere)
        if fault.kind in {"silent", "applied_then_silent"}:
            while (await receive())["type"] != "http.disconnect":
                pass  # the client gives up, not we
            return
        await _answer(send, fault)

    def _taken(self, scope: Scope) -> ForgeFault | None:
        for fault in self.faults:
            fits = fault.method in {"", scope["method"]} and re.search(fault.path, scope["path"])
            if fits and fault.times != 0:
                fault.times -= 1
                return fault
        return None


async def _nowhere(message: Message) -> None:
    pass


async def _answer(send: Send, fault: ForgeFault) -> None:
    body = json.dumps({"message": fault.message}).encode()
    status = 200 if fault.kind == "cut" else fault.status
    length = len(body) + (1000 if fault.kind == "cut" else 0)
    headers = {"content-type": "application/json", "content-length": str(length), **fault.headers}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body, "more_body": fault.kind == "cut"})
    if fault.kind == "cut":
        raise ConnectionResetError("cut on purpose")
