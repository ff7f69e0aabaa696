"""Checks the host and the origin of a request before it is routed.

A foreign page in a browser can send requests to a loopback address, and by DNS also under a name of its own
(rebinding). Both show in headers that such a page cannot choose.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api.problems import to_problem_response
from agenttalk.rules.core.tokens import read_token, token_hash

SOCKET_NAME: Final = "agenttalk"
"""The name under which the engine answers on its socket."""
ATTEMPT: Final = "agenttalk.attempt"
"""In the state of a connection: the hash of the one token that its socket takes."""
AGENT: Final = "agenttalk.agent"
"""In the state of a connection: what says how the process at its other end is known to be an agent's."""


class HostGuard:
    """Lets requests through that come under one of our names."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """`hosts`: names as a Host header has them, with their port where there is one."""
        self._app = app
        self._hosts = frozenset(hosts)
        self._origins = frozenset(f"http://{host}" for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal:
            status = 421 if "Host" in refusal else 403
            error = UsageError(Code.HOST_REFUSED, refusal, hint="ask under the address that the engine tells")
            await to_problem_response(error, status)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str:
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return "the Host of this request is not a name of this engine"
        if any(origin not in self._origins for origin in _values(scope, b"origin")):
            return "this request comes from a page that is not ours"
        return ""


class AgentTokenGuard:
    """Keeps agents to the tokens of attempts: on the socket of a turn to its own, elsewhere to any of an attempt's.

    Another credential that they may have found, an operator's token or the session of a browser, is ignored.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        state = scope.get("state", {})
        refusal = self._refusal(scope, state.get(ATTEMPT, ""), state.get(AGENT))
        if refusal:
            error = UsageError(Code.PERSON_NEEDED, refusal, hint="send AGENTTALK_TOKEN as the bearer, and no cookie")
            await to_problem_response(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    @staticmethod
    def _refusal(scope: Scope, wanted: str, judge: Callable[[], str] | None) -> str:
        given, cookies = _values(scope, b"authorization"), _values(scope, b"cookie")
        token = read_bearer(given[0], basic=True) if len(given) == 1 else ""
        own = read_token(token) is not None and not cookies
        if wanted:
            fits = own and hmac.compare_digest(token_hash(token), wanted)
            return "" if fits else "this socket takes the token of its own attempt, and nothing else"
        if own or judge is None or not (given or cookies):  # who shows nothing gets nothing that takes a person
            return ""
        found = judge()
        return found and f"an agent's process may use the token of its own attempt alone: {found}"


def read_bearer(value: str, *, basic: bool = False) -> str:
    """Return the token of an Authorization header; empty if it has none. With `basic` a password is one, too."""
    scheme, _, token = value.partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    if basic and scheme.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(token.strip(), validate=True).decode().partition(":")[2]
    return ""


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
