"""The MCP endpoint of an engine. Its package is loaded by the first request."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttalk.contracts.errors import AgentTalkError, Code, MachineError
from agenttalk.doors.api import callers
from agenttalk.doors.api.problems import to_problem_response
from agenttalk.doors.api.roles import MCP
from agenttalk.engine.operation.service import Service


class LazyMcpEndpoint:
    """Serves MCP requests. Its tools call the application that serves it, so a token has the same rights in both."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._endpoint: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            callers.require_role(await callers.identify_by_token(self._service, Request(scope, receive)), MCP)
            self._endpoint = self._endpoint or _load_endpoint(scope["app"])
        except AgentTalkError as error:
            await to_problem_response(error)(scope, receive, send)
            return
        await self._endpoint(scope, receive, send)


def _load_endpoint(app: ASGIApp) -> ASGIApp:
    try:
        from agenttalk.doors.mcp.http import McpEndpoint
    except ImportError as error:
        hint = "install agenttalk[mcp] and start the engine again"
        raise MachineError(Code.ENGINE_UNREACHABLE, "the package mcp is not installed", hint=hint) from error
    return McpEndpoint(app)
