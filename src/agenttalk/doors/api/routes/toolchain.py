"""Routes for forges, pipelines, and the tasks that their events create."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.toolchain import PipelineResult
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import to_json_response
from agenttalk.doors.api.query import read_number
from agenttalk.engine.core.access import Caller
from agenttalk.engine.operation.service import Service
from agenttalk.engine.views import forge_audit, toolchain
from agenttalk.engine.views.toolchain import PAGE, ToolchainQuery


async def get_delivery(service: Service, request: Request, _: Caller) -> Response:
    """Show a delivery and its outcome."""
    return to_json_response(await service.receiver.describe_delivery(request.path_params["id"]))


async def receive_event(service: Service, request: Request, _: Caller) -> Response:
    """Store the result of a pipeline that has no webhook."""
    said = wire.read(await bodies.read_raw(request, bodies.LIMIT))
    result = PipelineResult.from_json(said)
    names = sorted(service.receiver.sources)
    name = request.query_params.get("source") or (names[0] if len(names) == 1 else "")
    if not name:
        hint = f"say ?source=NAME with one of: {', '.join(names) or 'none is configured'}"
        raise UsageError(Code.FIELD_MISSING, "which source is this about?", hint=hint)
    received = await service.receiver.store_pipeline_result(name, result)
    return to_json_response({"id": received.id, "again": received.again}, 202)


async def list_tasks(service: Service, request: Request, _: Caller) -> Response:
    """List tasks."""
    query = request.query_params
    asked = ToolchainQuery(
        assignee=query.get("assignee", ""),
        status=query.get("status", ""),
        action_type=query.get("action_type", ""),
        after=read_number(query, "after"),
        limit=read_number(query, "limit") or PAGE,
    )
    return to_json_response(await toolchain.list_toolchain_tasks(service.deps, asked))


async def get_task(service: Service, request: Request, _: Caller) -> Response:
    """Show a task: what was reported, and what the forge showed."""
    return to_json_response(await forge_audit.audit_task(service.deps, request.path_params["id"]))


async def list_warnings(service: Service, request: Request, _: Caller) -> Response:
    """List warnings."""
    return to_json_response(await toolchain.list_warnings(service.deps, read_number(request.query_params, "after")))


async def list_outgoing(service: Service, request: Request, _: Caller) -> Response:
    """List what the engine writes at forges."""
    return to_json_response(await toolchain.list_outgoing(service.deps, read_number(request.query_params, "after")))


async def reconcile(service: Service, request: Request, caller: Caller) -> Response:
    """Read the forges now."""
    body = await bodies.read(request, bodies.ReconcileBody)
    return to_json_response((await service.reconcile(dry_run=body.dry_run, by=caller.name)).as_json())
