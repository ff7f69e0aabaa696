"""Idempotency-Key: the same write of an operator or a pipeline, asked for again under its key, is carried out once.

Every POST takes one. What stands in `REPEATABLE` may be carried out twice without harm: it says what shall be so, or
its use case keeps the key with what it writes. `engine.core.idempotency` says what an engine that was killed answers.
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
"""A header of answers that were given before."""
_TASK: Final = "/api/projects/{board}/tasks/{task}"
REPEATABLE: Final = frozenset(
    {
        "/api/audit/replay",
        "/api/commands/generate",
        "/api/commands/send",
        "/api/commands/validate",
        "/api/human-requests/{id}/answer",
        "/api/mail",
        "/api/mail/{id}/reply",
        "/api/passes",
        "/api/plans",
        "/api/plans/{id}/verify",
        "/api/republish",
        "/api/settings/reload",
        "/api/spending",
        "/api/tokens",
        "/api/toolchain/events",
        "/api/toolchain/reconcile",
        "/api/webhooks/{id}/replay",
        f"{_TASK}/comments",
        f"{_TASK}/outputs",
    }
)
"""Routes of which being asked twice does what being asked once does."""
_HOLDERS: Final = frozenset({"operator", "worker"})
"""Roles whose keys are kept here. Agents' keys are kept with what they write."""
Work = Callable[[Request], Awaitable[Response]]


async def run_once(held: IdempotencyKeys, route: str, request: Request, caller: Caller, work: Work) -> Response:
    """The answer to a write; the one that was given before, when it was asked for under the same key."""
    key = bodies.read_idempotency_key(request) if request.method == "POST" and caller.role in _HOLDERS else None
    if key is None:
        return await work(request)
    body = await bodies.read_raw(request, bodies.PLAN_LIMIT)
    asked = wire.sha256(wire.write([request.url.query, wire.sha256(body)]))
    name = idempotency.hash_key(caller.name, request.method, request.url.path, key)
    kept = await held.begin(name, asked, repeatable=route in REPEATABLE)
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
    """The same request, whose body was read."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)
