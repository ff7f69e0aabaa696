"""`/mcp`: Streamable HTTP without sessions. Every request stands for itself, with its own token."""

from __future__ import annotations

from typing import Any, Final

import httpx2
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttalk.doors.mcp.engine_client import AsyncEngineClient
from agenttalk.doors.mcp.server import make_server

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a request."""


class McpEndpoint:
    """Answers MCP requests by asking the application that it stands in, each with the token that came with it."""

    def __init__(self, app: ASGIApp) -> None:
        transport = httpx2.ASGITransport(app=app)

        def ask(request: Request | None) -> AsyncEngineClient:
            said: Any = request.headers.get("authorization", "") if request is not None else ""
            token = said.partition(" ")[2].strip()
            return AsyncEngineClient(
                lambda: httpx2.AsyncClient(transport=transport, base_url="http://agenttalk"), token
            )

        self._server = make_server(ask)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=LARGEST
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)
