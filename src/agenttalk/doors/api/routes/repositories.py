"""Routes for the repositories of remote attempts: git fetches the base there, and a pack with the work comes back."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import to_json_response
from agenttalk.engine.agents.remote import SNAPSHOT
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.operation.service import Service

SERVICE: Final = "git-upload-pack"
MEDIA: Final = "application/x-git-upload-pack"
REQUEST_BYTES: Final = 4 * 1024 * 1024
SLOWEST: Final = 16 * 1024
"""Bytes per second that a pack has to arrive with, after the time that every body has."""
PIECE_SECONDS: Final = 60.0
"""Seconds in which the other side has to take a piece of an answer."""
SNAPSHOT_BYTES: Final = 64 * 1024 * 1024
"""How large a pack with work so far may be."""
HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class PieceResponse(Response):
    """An answer that is sent piece by piece, and dropped when its receiver is gone or too slow."""

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None], request: Request, media: str) -> None:
        super().__init__(None, 200, headers=HEADERS, media_type=media)
        del self.headers["content-length"]
        self._first = first
        self._rest = rest
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as it is called
        """Send it."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send_piece(send, self._first)
            async for piece in self._rest:
                if await self._request.is_disconnected():
                    return
                await _send_piece(send, piece)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._rest.aclose()


async def _send_piece(send: Send, piece: bytes) -> None:
    async with asyncio.timeout(PIECE_SECONDS):
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def get_refs(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Show git the one ref of an attempt."""
    if request.query_params.get("service") != SERVICE:
        hint = "fetch from here with a git that speaks smart HTTP; hand work in as a pack at the address in the claim"
        raise UsageError(Code.FETCH_REFUSED, "nothing can be pushed here, and files are not served", hint=hint)
    data = await service.repositories.advertise(task, caller)
    return Response(data, headers=HEADERS, media_type=f"{MEDIA}-advertisement")


async def upload_pack(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Answer what git asks for to fetch that ref."""
    body = await bodies.read_raw(request, REQUEST_BYTES)
    coding = request.headers.get("content-encoding", "").strip().lower()
    pieces = service.repositories.serve(task, caller, body, coding)
    first = await anext(pieces, b"")
    return PieceResponse(first, pieces, request, f"{MEDIA}-result")


async def submit_tree(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Take in the tree of an attempt, as a pack."""
    async with _received(request, service.repositories.most_bytes) as (pack, sha256):
        told = request.query_params.get("sha256", "")
        if told and told.removeprefix("sha256:") != sha256:
            hint = "send it again"
            raise UsageError(Code.PACK_REFUSED, "the pack has another hash than the address says", hint=hint)
        return to_json_response(await service.repositories.submit(task, caller, pack, f"sha256:{sha256}"), 201)


async def submit_snapshot(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Take in the tree of an attempt as it is so far, as a pack."""
    async with _received(request, min(service.repositories.most_bytes, SNAPSHOT_BYTES)) as (pack, sha256):
        told = await service.repositories.submit(task, caller, pack, f"sha256:{sha256}", kind=SNAPSHOT)
        return to_json_response(told, 201)


@asynccontextmanager
async def _received(request: Request, limit: int) -> AsyncIterator[tuple[Path, str]]:
    """Receive a body into a file; yield the file and the hash. Raises UsageError when it is too large or too slow."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > limit:
        raise _too_large(limit)
    with NamedTemporaryFile(prefix="agenttalk-pack-") as file:
        sha256 = await _receive(request, file, limit)
        yield Path(file.name), sha256


async def _receive(request: Request, file: IO[bytes], limit: int) -> str:
    loop, size, hasher, more = asyncio.get_running_loop(), 0, hashlib.sha256(), True
    began = loop.time()
    while more:
        try:
            async with asyncio.timeout_at(began + bodies.PATIENCE + size / SLOWEST):
                message = await request.receive()
        except TimeoutError as error:
            raise MachineError(Code.FILE_UNREADABLE, "the request comes too slowly", hint="send it again") from error
        if message["type"] != "http.request":
            raise MachineError(Code.FILE_UNREADABLE, "the request did not come to its end")
        piece, more = message.get("body", b""), message.get("more_body", False)
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        hasher.update(piece)
        file.write(piece)
    file.flush()
    return hasher.hexdigest()


def _too_large(limit: int) -> UsageError:
    hint = "change less at once, or have limits.payload_mib raised"
    return UsageError(Code.FILE_TOO_LARGE, f"this pack is larger than {limit:,} bytes", hint=hint)
