"""Idempotency-Key: a POST of an operator or a pipeline that is repeated under the same key is carried out once.

`engine.core.idempotency` says what an engine answers that was killed in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, Code, InputError
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import JSON
from agenttalk.engine.core import idempotency
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.idempotency import IdempotencyKeys, StoredResponse

REPEATED: Final = "Idempotency-Replayed"
"""The header of an answer that is repeated."""
_HOLDERS: Final = frozenset({"operator", "worker"})
"""Roles whose keys are stored here. Keys of agents are stored with what they write."""
Work = Callable[[Request], Awaitable[Response]]


async def run_once(
    held: IdempotencyKeys, request: Request, caller: Caller, work: Work, *, repeatable: bool
) -> Response:
    """Carry out a request, or return the stored answer when it came before under the same key."""
    key = bodies.read_idempotency_key(request) if request.method == "POST" and caller.role in _HOLDERS else None
    if key is None:
        return await work(request)
    body = await bodies.read_raw(request, bodies.PLAN_LIMIT)
    asked = wire.sha256(wire.write([request.url.query, wire.sha256(body)]))
    name = idempotency.hash_key(caller.name, request.method, request.url.path, key)
    kept = await held.begin(name, asked, repeatable=repeatable)
    if kept is not None:
        return _replay_answer(kept)
    try:
        response = await work(_with_body(request, body))
    except AgentTalkError as error:
        if isinstance(error, InputError) or (error.retriable and error.code != Code.STORE_IN_DOUBT):
            await held.forget(name)
        else:
            held.abandon(name)
        raise
    except BaseException:
        held.abandon(name)
        raise
    await held.end(name, response.status_code, bytes(response.body))
    return response


def _replay_answer(kept: StoredResponse) -> Response:
    headers = {"Cache-Control": "no-store", REPEATED: "true"}
    return Response(kept.answer, kept.status, headers=headers, media_type=JSON)


def _with_body(request: Request, body: bytes) -> Request:
    """Return the same request with a body that was read already."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)
