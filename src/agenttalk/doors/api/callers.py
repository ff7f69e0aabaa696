"""Identifies the caller of a request, by its token or by the session of a browser."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api import guard
from agenttalk.doors.pages import sessions
from agenttalk.engine.core import access
from agenttalk.engine.core.access import Caller, Role
from agenttalk.engine.operation.service import Service

_LONGEST_TOKEN: Final = 4096


async def identify_by_session_or_token(service: Service, request: Request) -> Caller:
    """Identify a caller by the session of a browser or by a token. Raises UsageError when it is unknown."""
    session = await sessions.session_of(service, request) if "authorization" not in request.headers else None
    return Caller(session.role, session.name) if session is not None else await identify_by_token(service, request)


async def identify_by_token(service: Service, request: Request, *, basic: bool = False) -> Caller:
    """Identify a caller by a token. Raises UsageError when the token is missing or not valid.

    With `basic` the token may be the password of HTTP Basic.
    """
    given = request.headers.getlist("authorization")
    token = guard.read_bearer(given[0], basic=basic) if len(given) == 1 else ""
    if 0 < len(token) <= _LONGEST_TOKEN:
        caller = await access.identify(service.deps, token)
        if caller is not None:
            return caller
    raise UsageError(
        Code.TOKEN_REFUSED,
        "this token is unknown or not valid any more" if given else "this needs a token",
        hint="send the header Authorization: Bearer TOKEN",
    )


def require_role(caller: Caller, roles: tuple[Role, ...]) -> None:
    """Raise UsageError unless the caller has one of these roles."""
    if caller.role not in roles:
        raise UsageError(
            Code.NOT_ALLOWED,
            f"a token of the role {caller.role!r} may not do this",
            hint=f"use a token of the role {' or '.join(roles)}",
        )
