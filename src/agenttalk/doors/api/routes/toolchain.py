"""Routes for forges, pipelines and the tasks that they come to."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.toolchain import PipelineResult
from agenttalk.doors.api import bodies
from agenttalk.doors.api.paging import read_number
from agenttalk.doors.api.problems import to_json_response
from agenttalk.engine.core.access import Caller
from agenttalk.engine.operation.service import Service
from agenttalk.engine.views.toolchain import PAGE, ToolchainQuery


async def delivery(service: Service, request: Request, _: Caller) -> Response:
    """A delivery and what came of it."""
    return to_json_response(await service.receiver.describe_delivery(request.path_params["id"]))


async def event(service: Service, request: Request, _: Caller) -> Response:
    """What a pipeline without a webhook reports."""
    said = wire.read(await bodies.read_raw(request, bodies.LIMIT))
    result = PipelineResult.from_json(said)
    names = sorted(service.receiver.sources)
    name = request.query_params.get("source") or (names[0] if len(names) == 1 else "")
    if not name:
        hint = f"say ?source=NAME with one of: {', '.join(names) or 'none is configured'}"
        raise UsageError(Code.FIELD_MISSING, "which source is this about?", hint=hint)
    received = await service.receiver.store_pipeline_result(name, result)
    return to_json_response({"id": received.id, "again": received.again}, 202)


async def tasks(service: Service, request: Request, _: Caller) -> Response:
    """A page of tasks."""
    said = dict(request.query_params)
    asked = ToolchainQuery(
        assignee=said.get("assignee", ""),
        status=said.get("status", ""),
        action_type=said.get("action_type", ""),
        after=read_number(said, "after"),
        limit=read_number(said, "limit") or PAGE,
    )
    return to_json_response(await service.toolchain_tasks(asked))


async def task(service: Service, request: Request, _: Caller) -> Response:
    """One task: what was reported of it beside what was read at the forge."""
    return to_json_response(await service.toolchain_task(request.path_params["id"]))


async def warnings(service: Service, request: Request, _: Caller) -> Response:
    """What operators should know."""
    return to_json_response(await service.toolchain_warnings(read_number(dict(request.query_params), "after")))


async def outgoing(service: Service, request: Request, _: Caller) -> Response:
    """What the engine has to say at forges."""
    return to_json_response(await service.toolchain_outgoing(read_number(dict(request.query_params), "after")))


async def reconcile(service: Service, request: Request, caller: Caller) -> Response:
    """Read the forges now."""
    body = await bodies.read(request, bodies.ReconcileBody)
    return to_json_response(await service.reconcile(dry_run=body.dry_run, by=caller.name))


async def set_state(_: Service, __: Request, caller: Caller) -> Response:
    """Nobody sets a state by hand."""
    raise UsageError(
        Code.NOT_ALLOWED,
        "the state of a task is set by the engine alone, from what it finds",
        hint="submit an action report and end your turn"
        if caller.role == "agent"
        else "see 'agenttalk retry', 'answer' and 'cancel'",
    )
