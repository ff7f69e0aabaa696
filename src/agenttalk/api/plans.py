"""Routes for looking through plans: lists, graphs, tasks, messages, facts, and the files that were made."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agenttalk.api.paging import filters, number
from agenttalk.api.problems import answered
from agenttalk.contracts.base import is_hash
from agenttalk.engine import browsing, browsing_ledger, browsing_task, injected
from agenttalk.engine.access import Caller
from agenttalk.engine.service import Service
from agenttalk.errors import Code, MachineError, UsageError
from agenttalk.ports import Blobs

PIECE: Final = 256 * 1024
"""Bytes of a file that are in memory at once."""
_RANGE: Final = re.compile(r"^bytes=(\d{0,18})-(\d{0,18})$", re.ASCII)
_UNSAFE: Final = re.compile(r'[^\x20-\x7e]|["\\]')


async def listed(service: Service, request: Request, _: Caller) -> Response:
    """Plans, a page of them."""
    said = filters(request, "state", "board", "text", "after", "limit")
    asked = browsing.Asked(
        state=said.get("state", "").lower(),
        board=said.get("board", ""),
        text=said.get("text", ""),
        after=said.get("after", ""),
        limit=number(said, "limit") or browsing.PAGE,
    )
    return answered(await browsing.listed(service.deps, asked))


async def graph(service: Service, request: Request, _: Caller) -> Response:
    """The tasks of a plan, and the lines between them."""
    filters(request)
    return answered(await browsing.graph(service.deps, request.path_params["id"]))


async def tasks(service: Service, request: Request, _: Caller) -> Response:
    """Tasks of a plan, a page of them."""
    said = filters(request, "state", "agent", "after", "limit")
    found = await browsing.tasks(
        service.deps,
        request.path_params["id"],
        state=said.get("state", ""),
        agent_id=said.get("agent", ""),
        after=said.get("after", ""),
        limit=number(said, "limit") or browsing.PAGE,
    )
    return answered(found)


async def task(service: Service, request: Request, _: Caller) -> Response:
    """One task, with everything that is known of it."""
    filters(request)
    return answered(await browsing_task.task(service.deps, request.path_params["id"], request.path_params["task"]))


async def log(service: Service, request: Request, _: Caller) -> Response:
    """What an agent told while it ran, a page of it."""
    said = filters(request, "command", "attempt", "after")
    found = await browsing_task.log(
        service.deps,
        request.path_params["id"],
        request.path_params["task"],
        command_id=said.get("command", ""),
        attempt=number(said, "attempt"),
        after=number(said, "after"),
    )
    return answered(found)


async def prompt(service: Service, request: Request, _: Caller) -> Response:
    """The prompt of a command, as its agent got it."""
    said = filters(request, "command")
    named = request.path_params
    found = await injected.prompt(service.deps, named["id"], named["task"], said.get("command", ""))
    return answered(found.as_json())


async def deliveries(service: Service, request: Request, _: Caller) -> Response:
    """What became of messages, a page of it."""
    return answered(await browsing.deliveries(service.deps, request.path_params["id"], **_page(request)))


async def acks(service: Service, request: Request, _: Caller) -> Response:
    """Receipts, a page of them."""
    return answered(await browsing.acks(service.deps, request.path_params["id"], **_page(request)))


async def decisions(service: Service, request: Request, _: Caller) -> Response:
    """What was decided, a page of it."""
    return answered(await browsing_ledger.decisions(service.deps, request.path_params["id"], **_page(request)))


async def facts(service: Service, request: Request, _: Caller) -> Response:
    """The ledger of a plan, a page of it."""
    return answered(await browsing_ledger.facts(service.deps, request.path_params["id"], **_page(request)))


async def artifacts(service: Service, request: Request, _: Caller) -> Response:
    """What the tasks of a plan made, a page of it."""
    return answered(await browsing.artifacts(service.deps, request.path_params["id"], **_page(request)))


def _page(request: Request) -> dict[str, Any]:
    said = filters(request, "after", "limit")
    return {"after": number(said, "after"), "limit": number(said, "limit") or browsing.PAGE}


async def file(service: Service, request: Request, _: Caller) -> Response:
    """A file that a task made, as something to be kept and never to be shown: nobody knows what is in it.

    It is read and sent piece by piece. One range of bytes may be asked for.
    """
    filters(request)
    named = request.path_params
    digest = named["sha256"] if named["sha256"].startswith("sha256:") else f"sha256:{named['sha256']}"
    if not is_hash(digest):
        raise UsageError(
            Code.HASH_INVALID, "this is no hash", hint="write 64 hex digits, with or without sha256: before"
        )
    board, name = await browsing.named_file(service.deps, named["id"], named["task"], digest)
    blobs = await service.deps.stores.blobs(board)
    size = await blobs.size(digest)
    headers = {
        "Content-Disposition": f"attachment; filename=\"{_UNSAFE.sub('_', name)}\"; filename*=UTF-8''{_quoted(name)}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "no-store",
        "Accept-Ranges": "bytes",
        "ETag": f'"{digest}"',
    }
    first, last = _wanted(request.headers.get("range", ""), size)
    if first > last and size:
        return Response(None, 416, headers={**headers, "Content-Range": f"bytes */{size}"})
    whole = last - first + 1 == size
    headers["Content-Length"] = str(max(0, last - first + 1))
    if not whole:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    pieces = _pieces(blobs, digest, first, last, check=whole)
    return StreamingResponse(pieces, 200 if whole else 206, headers=headers, media_type="application/octet-stream")


def _quoted(name: str) -> str:
    return quote(name.encode("utf-8", "replace"), safe="")


def _wanted(said: str, size: int) -> tuple[int, int]:
    """The first and the last byte that are asked for; what is no range asks for all, an impossible one for none."""
    match = _RANGE.match(said)
    if match is None or match[0] == "bytes=-":
        return 0, size - 1
    if not match[1]:
        many = min(int(match[2]), size)
        return (size - many, size - 1) if many else (1, 0)
    first = int(match[1])
    last = min(int(match[2]), size - 1) if match[2] else size - 1
    return (first, last) if first <= last else (1, 0)


async def _pieces(blobs: Blobs, digest: str, first: int, last: int, *, check: bool) -> AsyncIterator[bytes]:
    """The bytes. What is not what was put in comes to no end, so that nobody takes it for whole."""
    hasher = sha256()
    place = first
    while place <= last:
        piece = await blobs.piece(digest, place, min(PIECE, last - place + 1))
        place += len(piece)
        hasher.update(piece)
        if not piece or (place > last and check and f"sha256:{hasher.hexdigest()}" != digest):
            raise MachineError(Code.STORE_DAMAGED, f"the content stored as {digest} has another hash, or is cut off")
        yield piece
