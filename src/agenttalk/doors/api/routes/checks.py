"""Routes for verifiers: the tree and the files of a check that they have."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api import bodies
from agenttalk.doors.api.routes.repositories import HEADERS, MEDIA, REQUEST_BYTES, SERVICE, PieceResponse
from agenttalk.engine.core.access import Caller
from agenttalk.engine.operation.service import Service
from agenttalk.ports.verification import CheckSource

_BYTES: Final = "application/octet-stream"


async def get_file(service: Service, request: Request, caller: Caller) -> Response:
    """Return a file of a check."""
    data = await _find_source(service, request, caller).read(request.path_params["sha256"])
    return Response(data, headers=HEADERS, media_type=_BYTES)


async def get_refs(service: Service, request: Request, caller: Caller) -> Response:
    """Show git the one ref of a check."""
    if request.query_params.get("service") != SERVICE:
        hint = "fetch from here with a git that speaks smart HTTP"
        raise UsageError(Code.FETCH_REFUSED, "nothing can be pushed here, and files are not served", hint=hint)
    data = await _find_source(service, request, caller).advertise()
    return Response(data, headers=HEADERS, media_type=f"{MEDIA}-advertisement")


async def upload_pack(service: Service, request: Request, caller: Caller) -> Response:
    """Answer what git asks for to fetch that ref."""
    source = _find_source(service, request, caller)
    body = await bodies.read_raw(request, REQUEST_BYTES)
    pieces = source.serve(body, request.headers.get("content-encoding", "").strip().lower())
    first = await anext(pieces, b"")
    return PieceResponse(first, pieces, request, f"{MEDIA}-result")


def _find_source(service: Service, request: Request, caller: Caller) -> CheckSource:
    checks = service.fleet.checks
    source = checks.find_source(caller.name, request.path_params["id"]) if checks is not None else None
    if source is None:
        raise UsageError(Code.LEASE_LOST, "this worker does not have this check, or no longer has it")
    return source
