"""The socket of a turn on a worker: it passes the requests of an agent about its own task on to the engine.

The agent shows the token of its turn, which is good at this socket alone. The worker speaks for it, with its own token
and under the epoch of the attempt, so the agent never sees a credential of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.contracts.worker import AttemptName
from agenttalk.doors.api import bodies, guard
from agenttalk.doors.api.answers import TokenOwner
from agenttalk.doors.api.problems import to_json_response, to_problem_response
from agenttalk.ports.fleet import EngineLink, RelayedRequest
from agenttalk.rules.core.tokens import TokenSubject, read_token

LIMIT: Final = 2 * 1024 * 1024
"""Bytes of a request."""
_TASK: Final = re.compile(
    r"/api/projects/[^/]+/tasks/(?P<plan>[^/:]+):(?P<task>[^/:]+)"
    r"(?P<rest>(?:/(?:promise|explanation|comments|outputs|progress|disputes|questions(?:/[A-Za-z0-9_-]+)?"
    r"|commands/(?:generate|validate)))?)\Z"
)
"""The addresses that are passed on. What an attempt hands in is the worker's to send."""


class RelayedAttempt(NamedTuple):
    """An attempt on this worker whose agent asks."""

    name: AttemptName
    agent_id: str


class AttemptRelay:
    """Passes requests on. An application of ASGI, behind a guard that knows the token of the turn."""

    def __init__(self, link: EngineLink, find: Callable[[TokenSubject], RelayedAttempt | None]) -> None:
        """`find` finds the attempt that a token was made for here."""
        self._link = link
        self._find = find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(Request(scope, receive))
        except AgentTalkError as error:
            answer = to_problem_response(error)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        subject = read_token(guard.read_bearer(request.headers.get("authorization", "")))
        attempt = self._find(subject) if subject is not None else None
        if attempt is None:
            raise UsageError(Code.TOKEN_REFUSED, "this attempt is over")
        name = attempt.name
        if request.url.path == "/api/me":
            owner: TokenOwner = {"role": "agent", "name": attempt.agent_id, "ready": True}
            known = {"board": name.board, "plan_id": name.plan_id, "task_id": name.task_id, "epoch": name.epoch}
            return to_json_response({**owner, **known})
        found = _TASK.match(request.url.path)
        is_own = found is not None and (found["plan"], found["task"]) == (name.plan_id, name.task_id)
        if found is None or not is_own or "epoch" in request.query_params:
            hint = "an agent on a worker reaches the addresses of its own task"
            raise UsageError(Code.NOT_ALLOWED, "this address is not passed on", hint=hint)
        body = await bodies.read_raw(request, LIMIT)
        key = request.headers.get("idempotency-key", "")
        asked = RelayedRequest(request.method, found["rest"], request.url.query, body, key)
        answer = await self._link.relay(name, asked)
        return Response(answer.body, answer.status, media_type=answer.media or None)
