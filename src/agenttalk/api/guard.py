"""Before anything is routed: under which name, and from which page, a request comes.

A page of somebody else that a browser shows can send requests to a loopback address, and by DNS also under a
name of its own (rebinding). Both are told by headers that such a page cannot choose.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from agenttalk.api.problems import refused
from agenttalk.errors import Code, UsageError

SOCKET_NAME: Final = "agenttalk"
"""The name under which the engine answers on its socket."""


class Guard:
    """Lets requests through that come under one of our names."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """`hosts`: names as a Host header has them, with their port where there is one."""
        self._app = app
        self._hosts = frozenset(hosts)
        self._origins = frozenset(f"http://{host}" for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal:
            status = 421 if "Host" in refusal else 403
            error = UsageError(Code.HOST_REFUSED, refusal, hint="ask under the address that the engine tells")
            await refused(error, status)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str:
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return "the Host of this request is not a name of this engine"
        if any(origin not in self._origins for origin in _values(scope, b"origin")):
            return "this request comes from a page that is not ours"
        return ""


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
