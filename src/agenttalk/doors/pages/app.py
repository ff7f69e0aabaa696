"""Every address of the pages."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agenttalk.doors.pages import actions, policy_replay, sessions, views
from agenttalk.doors.pages.page import FOLDER, HEADERS
from agenttalk.doors.pages.sessions import PageRoute
from agenttalk.engine.operation.service import Service

_KINDS: Final = {
    "style.css": "text/css; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def routes(service: Service) -> list[Route]:
    """Return the routes of the pages, the forms and the static files."""
    assets = PageRoute("/static/{name}", _asset, methods=["GET"])
    return [
        *sessions.make_login_routes(service),
        *views.routes(service),
        *actions.routes(service),
        *policy_replay.routes(service),
        assets,
    ]


async def _asset(request: Request) -> Response:
    """Send a static file. It is public and contains no data of the root."""
    name = request.path_params["name"]
    if name not in _KINDS:
        return Response(status_code=404, headers=HEADERS)
    told = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return Response((FOLDER / "static" / name).read_bytes(), headers=told, media_type=_KINDS[name])
