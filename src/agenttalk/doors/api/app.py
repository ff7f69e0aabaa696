"""The routes: who may take them, and which use case each one asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import AgentTalkError, Code, MachineError, UsageError
from agenttalk.doors.api import bodies, callers, health, idempotency, openapi
from agenttalk.doors.api.delivery_bodies import DeliveryQuota
from agenttalk.doors.api.openapi import GuardedRoute
from agenttalk.doors.api.paging import read_filters, read_number
from agenttalk.doors.api.problems import to_error_response, to_json_response, to_problem_response
from agenttalk.doors.api.routes import (
    agents,
    events,
    ledger,
    mail,
    metrics,
    operator,
    people,
    plans,
    schedules,
    toolchain,
)
from agenttalk.doors.api.routes.webhooks import PATH, DirectRouteApp, WebhookEndpoint
from agenttalk.doors.pages import app as pages
from agenttalk.engine.core.access import Caller, Role
from agenttalk.engine.core.boards import VIRTUAL
from agenttalk.engine.core.task_comments import TaskContribution, TaskName
from agenttalk.engine.operation.service import Service
from agenttalk.rules.agents.progress_notes import note_of
from agenttalk.rules.core.tokens import TokenSubject

Handler: TypeAlias = "Callable[[Service, Request, Caller], Awaitable[Response]]"
TaskHandler: TypeAlias = "Callable[[Service, Request, Caller, TaskName], Awaitable[Response]]"
_OPERATOR: Final[tuple[Role, ...]] = ("operator",)
_READERS: Final[tuple[Role, ...]] = ("operator", "viewer")
_AGENTS: Final[tuple[Role, ...]] = ("agent", "remote")
"""An attempt, and an agent elsewhere for what it has taken."""
_ON_TASKS: Final[tuple[Role, ...]] = ("operator", *_AGENTS)
_REMOTE: Final[tuple[Role, ...]] = ("remote",)
_MCP: Final[tuple[Role, ...]] = ("operator", "viewer", *_AGENTS)
_WRITERS: Final[tuple[Role, ...]] = ("operator", "agent")
_WITH_MAIL: Final[tuple[Role, ...]] = ("operator", "viewer", "agent")
_PIPELINES: Final[tuple[Role, ...]] = ("operator", "worker")
_WHO_BUILDS: Final[tuple[Role, ...]] = ("operator", "viewer", "worker")
_ANYBODY: Final[tuple[Role, ...]] = (*_WHO_BUILDS, *_AGENTS)
_TASK: Final = "/api/projects/{board}/tasks/{task}"


def create_app(service: Service, *, serves: Literal["everything", "agents"] = "everything") -> Starlette:
    """The HTTP API of an engine; or only what the agents of a part need."""
    door = WebhookEndpoint(service, DeliveryQuota(service.deps.root.path / "data"))
    routes = [*(_for_engines(service, door) if serves == "everything" else ()), *_for_agents(service)]
    routes.append(_route(service, "GET", "/api/openapi.json", _openapi_handler(routes), _WHO_BUILDS))
    shown = pages.routes(service) if serves == "everything" else []
    app = DirectRouteApp(routes=[*routes, *shown], exception_handlers={HTTPException: _no_such_route})
    app.direct_routes = _direct(service, door) if serves == "everything" else {}
    mcp = GuardedRoute("/mcp", _LazyMcpEndpoint(service, app), methods=["POST"])
    mcp.roles = _MCP
    app.router.routes.append(mcp)
    app.router.redirect_slashes = False
    return app


def _for_agents(service: Service) -> list[Route]:
    """What attempts ask for, wherever they are run."""
    task = _TASK
    return [
        Route("/healthz", health.report_alive, methods=["GET"]),
        Route("/readyz", health.ReadinessProbe(service).__call__, methods=["GET"]),
        _route(service, "GET", "/api/me", agents.me, _ANYBODY),
        _on_task(service, "GET", task, _task, (*_ON_TASKS, "viewer")),
        _on_task(service, "GET", f"{task}/promise", agents.promise, (*_ON_TASKS, "viewer")),
        _on_task(service, "GET", f"{task}/explanation", agents.explanation, (*_ON_TASKS, "viewer")),
        _on_task(service, "POST", f"{task}/comments", _comment, _ON_TASKS),
        _on_task(service, "POST", f"{task}/outputs", _output, _ON_TASKS),
        _on_task(service, "POST", f"{task}/progress", _progress, _AGENTS),
        _on_task(service, "GET", f"{task}/inputs", agents.get_input, _AGENTS),
        _on_task(service, "POST", f"{task}/artifacts", agents.submit_artifact, _AGENTS),
        _on_task(service, "POST", f"{task}/result", agents.submit_result, _AGENTS),
        _on_task(service, "POST", f"{task}/questions", agents.ask_question, _AGENTS),
        _on_task(service, "GET", f"{task}/questions/{{id}}", agents.get_question, _AGENTS),
        _on_task(service, "POST", f"{task}/disputes", agents.dispute, _AGENTS),
        _on_task(service, "POST", f"{task}/commands/generate", agents.generate_for, _AGENTS),
        _on_task(service, "POST", f"{task}/commands/validate", agents.validate_for, _AGENTS),
        *(_route(service, method, path, toolchain.set_state, _ANYBODY) for method, path in openapi.SETS_STATE),
    ]


def _for_engines(service: Service, door: WebhookEndpoint) -> list[Route]:
    """What people, programs and forges ask an engine for."""
    return [
        *_of_forges(service, door),
        *_of_plans(service),
        *_of_messages(service),
        *_of_agents(service),
        *_of_the_engine(service),
    ]


def _of_forges(service: Service, door: WebhookEndpoint) -> list[Route]:
    """What forges and pipelines tell, and what came of it."""
    return [
        Route("/api/webhooks/{source}", door, methods=["POST"]),
        _route(service, "GET", "/api/webhooks", ledger.list_deliveries, _READERS),
        _route(service, "GET", "/api/webhooks/{id}", toolchain.delivery, _READERS),
        _route(service, "POST", "/api/webhooks/{id}/replay", ledger.replay_delivery, _OPERATOR),
        _route(service, "POST", "/api/toolchain/events", toolchain.event, _PIPELINES),
        _route(service, "GET", "/api/toolchain/tasks", toolchain.tasks, _READERS),
        _route(service, "GET", "/api/toolchain/tasks/{id}", toolchain.task, _READERS),
        _route(service, "GET", "/api/toolchain/warnings", toolchain.warnings, _READERS),
        _route(service, "GET", "/api/toolchain/outgoing", toolchain.outgoing, _READERS),
        _route(service, "POST", "/api/toolchain/reconcile", toolchain.reconcile, _OPERATOR),
    ]


def _of_plans(service: Service) -> list[Route]:
    """Plans and their tasks."""
    return [
        _route(service, "GET", "/api/plans", plans.list_plans, _READERS),
        _route(service, "POST", "/api/plans", operator.submit, _OPERATOR),
        _route(service, "POST", "/api/plans/apply", operator.apply, _OPERATOR),
        _route(service, "GET", "/api/plans/{id}", operator.get_plan, _READERS),
        _route(service, "GET", "/api/plans/{id}/graph", plans.graph, _READERS),
        _route(service, "GET", "/api/plans/{id}/tasks", plans.tasks, _READERS),
        _route(service, "GET", "/api/plans/{id}/tasks/{task}", plans.task, _READERS),
        _route(service, "GET", "/api/plans/{id}/tasks/{task}/log", plans.log, _READERS),
        _route(service, "GET", "/api/plans/{id}/tasks/{task}/prompt", plans.prompt, _READERS),
        _route(service, "GET", "/api/plans/{id}/tasks/{task}/explanation", operator.explain, _READERS),
        _route(service, "GET", "/api/plans/{id}/deliveries", plans.deliveries, _READERS),
        _route(service, "GET", "/api/plans/{id}/acks", plans.acks, _READERS),
        _route(service, "GET", "/api/plans/{id}/decisions", plans.decisions, _READERS),
        _route(service, "GET", "/api/plans/{id}/facts", plans.facts, _READERS),
        _route(service, "GET", "/api/plans/{id}/artifacts", plans.artifacts, _READERS),
        _route(service, "GET", "/api/plans/{id}/artifacts/{task}/{sha256}", plans.file, _READERS),
        _route(service, "GET", "/api/plans/{id}/repository", operator.repository, _READERS),
        _route(service, "GET", "/api/plans/{id}/release", operator.release, _READERS),
        _route(service, "GET", "/api/plans/{id}/release_manifest", operator.release_manifest, _READERS),
        _route(service, "POST", "/api/plans/{id}/verify", operator.verify, _OPERATOR),
        _route(service, "POST", "/api/plans/{id}/merged", operator.note_merge, _OPERATOR),
        _route(service, "POST", "/api/plans/{id}/{action}", operator.steer, _OPERATOR),
        _route(service, "GET", "/api/schedules", schedules.list_schedules, _READERS),
        _route(service, "POST", "/api/schedules", schedules.add, _OPERATOR),
        _route(service, "POST", "/api/schedules/{id}/{action}", schedules.act, _OPERATOR),
    ]


def _of_messages(service: Service) -> list[Route]:
    """Letters, commands, questions to people, and what was refused."""
    return [
        _route(service, "POST", "/api/mail", mail.send, _WRITERS),
        _route(service, "GET", "/api/mail", mail.list_letters, _WITH_MAIL),
        _route(service, "GET", "/api/mail/threads", mail.threads, _WITH_MAIL),
        _route(service, "GET", "/api/mail/threads/{id}", mail.thread, _WITH_MAIL),
        _route(service, "GET", "/api/mail/{id}", mail.get_letter, _WITH_MAIL),
        _route(service, "POST", "/api/mail/{id}/reply", mail.reply, _WRITERS),
        _route(service, "GET", "/api/human-requests", people.requests, _READERS),
        _route(service, "GET", "/api/human-requests/{id}", people.request, _READERS),
        _route(service, "GET", "/api/human-requests/{id}/files/{sha256}", people.get_exhibit, _READERS),
        _route(service, "POST", "/api/human-requests/{id}/answer", people.answer, _OPERATOR),
        _route(service, "GET", "/api/deadletters", people.deadletters, _READERS),
        _route(service, "GET", "/api/deadletters/{id}", people.deadletter, _READERS),
        _route(service, "POST", "/api/deadletters/{id}/replay", people.replay_deadletter, _OPERATOR),
        _route(service, "POST", "/api/promises", agents.make_promise, _OPERATOR),
        _route(service, "POST", "/api/commands/generate", agents.generate, _OPERATOR),
        _route(service, "POST", "/api/commands/validate", agents.validate, _OPERATOR),
        _route(service, "POST", "/api/commands/send", operator.send, _OPERATOR),
        _route(service, "POST", "/api/commands/log", operator.log, _OPERATOR),
    ]


def _of_agents(service: Service) -> list[Route]:
    """Agents, those that are elsewhere, and who may come in."""
    return [
        _route(service, "GET", "/api/agents", metrics.agents, _READERS),
        _route(service, "GET", "/api/agents/{id}", metrics.agent, _READERS),
        _route(service, "GET", "/api/honesty", metrics.get_honesty, _READERS),
        _route(service, "GET", "/api/agent/tasks", agents.list_offers, _REMOTE),
        _route(service, "POST", "/api/agent/claim", agents.claim, _REMOTE),
        _route(service, "POST", "/api/login-links", people.login_link, _OPERATOR, secret=True),
        _route(service, "GET", "/api/tokens", agents.tokens, _OPERATOR),
        _route(service, "POST", "/api/tokens", agents.make_token, _OPERATOR),
        _route(service, "POST", "/api/tokens/{id}/revoke", agents.revoke_token, _OPERATOR),
    ]


def _of_the_engine(service: Service) -> list[Route]:
    """The engine itself: its ledger, its numbers, its upkeep."""
    return [
        _route(service, "GET", "/api/ledger", ledger.facts, _READERS),
        _route(service, "GET", "/api/ledger/verify", ledger.verify_ledger, _READERS),
        _route(service, "POST", "/api/audit/replay", ledger.replay_policy, _OPERATOR),
        _route(service, "GET", "/api/spending", metrics.spending, _READERS),
        _route(service, "POST", "/api/spending", metrics.limit_day, _OPERATOR),
        _route(service, "GET", "/api/metrics", metrics.get_metrics, _READERS),
        _route(service, "GET", "/api/status", operator.status, _READERS),
        _route(service, "POST", "/api/passes", operator.run_pass, _OPERATOR),
        _route(service, "GET", "/api/events", events.events, _READERS, sessions=True),
        _route(service, "GET", "/api/fsck", operator.fsck, _READERS),
        _route(service, "POST", "/api/republish", operator.republish, _OPERATOR),
        _route(service, "POST", "/api/gc", operator.gc, _OPERATOR),
        _route(service, "POST", "/api/settings/reload", metrics.reload_settings, _OPERATOR),
    ]


def _route(
    service: Service,
    method: str,
    path: str,
    handler: Handler,
    roles: tuple[Role, ...],
    *,
    sessions: bool = False,
    secret: bool = False,
) -> Route:
    """A route that only tokens of some roles may take; with `sessions`, also a browser that is logged in.

    An answer that is a `secret` is kept under no key. What an address is asked with has to be what is said of it.
    """
    asked = openapi.list_query_names(method, path)

    async def work(request: Request) -> Response:
        caller = await (
            callers.identify_by_session_or_token(service, request)
            if sessions
            else callers.identify_by_token(service, request)
        )
        callers.require_role(caller, roles)
        if asked is not None:
            read_filters(request, *asked)

        async def act(asked: Request) -> Response:
            return await handler(service, asked, caller)

        if secret:
            return await act(request)
        return await idempotency.run_once(service.keys, path, request, caller, act)

    route = GuardedRoute(path, _catch_errors(service, work), methods=[method])
    route.roles = roles
    return route


def _openapi_handler(routes: list[Route]) -> Handler:
    """What all of these routes are, as a document that is made when somebody asks for it first."""
    made: list[dict[str, Any]] = []

    async def handler(_: Service, __: Request, ___: Caller) -> Response:
        if not made:
            made.append(openapi.build_document(routes))
        return to_json_response(made[0])

    return handler


def _on_task(service: Service, method: str, path: str, handler: TaskHandler, roles: tuple[Role, ...]) -> Route:
    """A route about one task. An agent elsewhere takes it as the attempt that it has taken; each is a sign of life."""

    async def work(service: Service, request: Request, caller: Caller) -> Response:
        task = _read_task_name(request, caller)
        if caller.role == "remote":
            caller = await _identify_attempt(service, request, caller, task)
        service.note_sign_of_life(caller)
        return await handler(service, request, caller, task)

    return _route(service, method, path, work, roles)


async def _identify_attempt(service: Service, request: Request, caller: Caller, task: TaskName) -> Caller:
    said = request.query_params.get("epoch", "")
    epoch = int(said) if said.isascii() and said.isdecimal() and len(said) < 18 else 0
    found = await service.act_as_attempt(caller, TokenSubject(*task, epoch))
    if found is None:
        raise UsageError(
            Code.NOT_ALLOWED,
            f"{caller.name} has not taken this task, or not under this epoch",
            hint="GET /api/agent/tasks lists what it has taken; write ?epoch=N behind the address",
        )
    return found


def _direct(service: Service, door: WebhookEndpoint) -> dict[str, ASGIApp]:
    """Where the configured forges deliver. Any other name of one takes its route, and is told that there is none."""
    return {f"{PATH}{name}": door for name in service.receiver.sources}


class _LazyMcpEndpoint:
    """The MCP door. Its tools ask this very application, so a token can do there what it can do here and no more."""

    def __init__(self, service: Service, app: ASGIApp) -> None:
        self._service = service
        self._app = app
        self._door: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        request = Request(scope, receive)
        try:
            callers.require_role(await callers.identify_by_token(self._service, request), _MCP)
            self._door = self._door or _load_mcp_endpoint(self._app)
        except AgentTalkError as error:
            await to_problem_response(error)(scope, receive, send)
            return
        await self._door(scope, receive, send)


def _load_mcp_endpoint(app: ASGIApp) -> ASGIApp:
    """Loaded when somebody asks for it first: most do not."""
    try:
        from agenttalk.doors.mcp.http import McpEndpoint
    except ImportError as error:
        hint = "install agenttalk[mcp] and start the engine again"
        raise MachineError(Code.ENGINE_UNREACHABLE, "the package mcp is not installed here", hint=hint) from error
    return McpEndpoint(app)


def _catch_errors(
    service: Service, work: Callable[[Request], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await work(request)
        except Exception as error:  # noqa: BLE001 - told, and logged where it is ours
            return to_error_response(error, service.redact)

    return endpoint


async def _no_such_route(_: Request, error: Exception) -> Response:
    told = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if isinstance(error, HTTPException) and error.status_code == 405:
        said, hint = "this cannot be asked of that address", f"it takes {told.get('Allow', 'another method')}"
    else:
        said, hint = "there is nothing at this address", "GET /api/openapi.json names every address"
    status = error.status_code if isinstance(error, HTTPException) else 404
    response = to_problem_response(UsageError(Code.NAME_UNKNOWN, said, hint=hint), status)
    response.headers.update(told)
    return response


async def _task(service: Service, request: Request, _: Caller, task: TaskName) -> Response:
    return to_json_response(await service.task(task, after=read_number(dict(request.query_params), "after")))


async def _comment(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    body = await bodies.read(request, bodies.CommentBody)
    remark = TaskContribution("comment", body.author, body.comment_type, body.body, body.claims)
    return to_json_response(await service.add_remark(task, remark, caller, bodies.read_idempotency_key(request)), 201)


async def _output(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    body = await bodies.read(request, bodies.OutputBody)
    remark = TaskContribution("output", caller.name, body.type, body.content)
    return to_json_response(await service.add_remark(task, remark, caller, bodies.read_idempotency_key(request)), 201)


async def _progress(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    body = await bodies.read(request, bodies.ProgressBody)
    return to_json_response(await service.report(task, note_of(body.model_dump()), caller))


def _read_task_name(request: Request, caller: Caller) -> TaskName:
    """The task in the address. An agent's token reaches its own alone, and learns of no other."""
    board, name = request.path_params["board"], request.path_params["task"]
    plan_id, colon, task_id = (board, ":", name) if board in VIRTUAL else name.partition(":")
    task = TaskName(board, plan_id, task_id)
    if caller.attempt is not None and tuple(task) != tuple(caller.attempt[:3]):
        raise UsageError(
            Code.NOT_ALLOWED,
            "this token is good for another task",
            hint=f"its own is at /api/projects/{caller.attempt.board}/tasks/{_spell_own_task(caller)}",
        )
    if not colon or not all(is_id(part) for part in task):
        hint = "write PLAN:TASK, and on _mail and _toolchain the bare id"
        raise UsageError(Code.TASK_NOT_FOUND, "this is not the name of a task", hint=hint)
    return task


def _spell_own_task(caller: Caller) -> str:
    _, plan_id, task_id, _ = caller.attempt or ("", "", "", 0)
    return task_id if plan_id in VIRTUAL else f"{plan_id}:{task_id}"
