"""The HTTP application: it serves the routes of the table to callers whose roles may use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api import callers, idempotency, openapi
from agenttalk.doors.api.problems import to_error_response, to_problem_response, translate_response
from agenttalk.doors.api.query import require_known_names
from agenttalk.doors.api.route import RouteSpec, TaskHandler
from agenttalk.doors.api.route_table import ATTEMPT_ROUTES, DOCUMENT_ROUTES, MCP_ROUTE, ROUTES
from agenttalk.doors.api.routes.webhooks import PATH, WebhookEndpoint
from agenttalk.doors.pages import app as pages
from agenttalk.engine.core import access
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.boards import VIRTUAL
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.operation.service import Service
from agenttalk.rules.core.tokens import TokenSubject
from agenttalk.rules.text.message import read_locale


class ApiRoute(Route):
    """A route of the table, as Starlette serves it."""

    def __init__(self, spec: RouteSpec, endpoint: Any) -> None:
        super().__init__(spec.path, endpoint, methods=[spec.method])
        self.spec = spec


class EngineApp(Starlette):
    """The application of an engine. Webhooks of known sources bypass the middleware and the search for a route."""

    def __init__(self, routes: Sequence[BaseRoute], webhooks: dict[str, ASGIApp]) -> None:
        super().__init__(routes=routes, exception_handlers={HTTPException: _answer_unknown_route})
        self.router.redirect_slashes = False
        self._webhooks = webhooks
        self._document: JsonObject | None = None

    @property
    def document(self) -> JsonObject:
        """The OpenAPI document, made by the first request for it."""
        if self._document is None:
            specs = [route.spec for route in self.routes if isinstance(route, ApiRoute)]
            self._document = openapi.build_document(spec for spec in specs if spec is not MCP_ROUTE)
        return self._document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        posted = scope["type"] == "http" and scope["method"] == "POST"
        webhook = self._webhooks.get(scope["path"]) if posted else None
        await (webhook or super().__call__)(scope, receive, send)


def create_app(service: Service, *, serves: Literal["everything", "agents"] = "everything") -> EngineApp:
    """Make the application of an engine, or one with only the routes that agents of a part need."""
    if serves == "agents":
        return EngineApp([_make_route(service, spec) for spec in (*ATTEMPT_ROUTES, *DOCUMENT_ROUTES, MCP_ROUTE)], {})
    routes = [_make_route(service, spec) for spec in ROUTES]
    [endpoint] = [route.endpoint for route in routes if isinstance(route.endpoint, WebhookEndpoint)]
    webhooks: dict[str, ASGIApp] = {f"{PATH}{name}": endpoint for name in service.receiver.sources}
    return EngineApp([*routes, *pages.routes(service)], webhooks)


def _make_route(service: Service, spec: RouteSpec) -> ApiRoute:
    if spec.endpoint is not None:
        return ApiRoute(spec, spec.endpoint(service))
    identify = callers.identify_by_session_or_token if spec.sessions else callers.identify_by_token
    if spec.basic:
        identify = partial(callers.identify_by_token, basic=True)

    async def work(request: Request) -> Response:
        caller = await identify(service, request)
        callers.require_role(caller, spec.roles)
        if not spec.is_refused:
            require_known_names(request, spec.query)

        async def act(sent: Request) -> Response:
            if spec.task_handler is not None:
                return await _serve_task(service, sent, caller, spec.task_handler)
            assert spec.handler is not None  # noqa: S101 - a row has a handler of one kind
            return await spec.handler(service, sent, caller)

        if spec.secret:
            return await act(request)
        return await idempotency.run_once(service.keys, request, caller, act, repeatable=spec.repeatable)

    return ApiRoute(spec, _catch_errors(service, work, basic=spec.basic))


def _catch_errors(
    service: Service, work: Callable[[Request], Awaitable[Response]], *, basic: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        locale = read_locale(request.headers.get("accept-language", ""))
        try:
            return translate_response(await work(request), locale)
        except Exception as error:  # noqa: BLE001 - answered, and logged if it is unexpected
            response = to_error_response(error, service.redact, locale)
            if basic and response.status_code == 401:  # git asks for a password only then
                response.headers["WWW-Authenticate"] = 'Basic realm="AgentTalk"'
            return response

    return endpoint


async def _serve_task(service: Service, request: Request, caller: Caller, handler: TaskHandler) -> Response:
    """Call the handler of a task. A remote agent acts as the attempt that it claimed; every call is a heartbeat."""
    task = _read_task_name(request, caller)
    named = request.path_params.get("epoch", "")
    if caller.role in {"remote", "fleet"}:
        caller = await _identify_attempt(service, named or request.query_params.get("epoch", ""), caller, task)
    elif named and (caller.attempt is None or named != str(caller.attempt.epoch)):
        hint = "use the address in the claim's answer"
        raise UsageError(Code.NOT_ALLOWED, "this token belongs to another epoch", hint=hint)
    service.record_heartbeat(caller)
    return await handler(service, request, caller, task)


async def _identify_attempt(service: Service, text: str, caller: Caller, task: TaskName) -> Caller:
    epoch = int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else 0
    subject = TokenSubject(*task, epoch)
    if caller.role == "fleet":
        attempt = await access.identify_as_worker_attempt(service.deps, caller.name, subject)
    else:
        attempt = await access.identify_as_attempt(service.deps, caller, subject)
    if attempt is None:
        raise UsageError(
            Code.NOT_ALLOWED,
            f"{caller.name} has not claimed this task, or not under this epoch",
            hint="GET /api/agent/tasks lists what it has claimed; add ?epoch=N to the address",
        )
    return attempt


async def _answer_unknown_route(_: Request, error: Exception) -> Response:
    status, headers = (error.status_code, error.headers or {}) if isinstance(error, HTTPException) else (404, {})
    if status == 405:
        message, hint = "this address does not take this method", f"allowed: {headers.get('Allow', 'another method')}"
    else:
        message, hint = "there is no such address", "GET /api/openapi.json lists every address"
    response = to_problem_response(UsageError(Code.NAME_UNKNOWN, message, hint=hint), status)
    response.headers.update(headers)
    return response


def _read_task_name(request: Request, caller: Caller) -> TaskName:
    """Read the task in the address. An agent's token reaches only its own task, and reveals no other."""
    board, name = request.path_params["board"], request.path_params["task"]
    plan_id, colon, task_id = (board, ":", name) if board in VIRTUAL else name.partition(":")
    task = TaskName(board, plan_id, task_id)
    if caller.attempt is not None and task != caller.attempt.task:
        raise UsageError(
            Code.NOT_ALLOWED,
            "this token belongs to another task",
            hint=f"its own is at /api/projects/{caller.attempt.board}/tasks/{_spell_own_task(caller)}",
        )
    if not colon or not all(is_id(part) for part in task):
        hint = "write PLAN:TASK, and on _mail and _toolchain only the id"
        raise UsageError(Code.TASK_NOT_FOUND, "this is not the name of a task", hint=hint)
    return task


def _spell_own_task(caller: Caller) -> str:
    _, plan_id, task_id, _ = caller.attempt or ("", "", "", 0)
    return task_id if plan_id in VIRTUAL else f"{plan_id}:{task_id}"
