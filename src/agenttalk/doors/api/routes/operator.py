"""Routes for operators: plans are submitted, steered and verified, commands sent, and the root is looked after."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.command import Command
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import to_json_response
from agenttalk.engine.core.access import Caller
from agenttalk.engine.messages import sent_commands
from agenttalk.engine.operation.fsck import check_root
from agenttalk.engine.operation.service import Service
from agenttalk.engine.plans import releases
from agenttalk.engine.runs.plan_actions import PlanAction
from agenttalk.engine.views import plans as view_plans
from agenttalk.rules.people.attestation import AnswerProof


async def status(service: Service, _: Request, __: Caller) -> Response:
    """Return the status of the root."""
    return to_json_response(await service.read_status())


async def submit(service: Service, request: Request, _: Caller) -> Response:
    """Submit a plan."""
    body = await bodies.read(request, bodies.PlanBody, limit=bodies.PLAN_LIMIT)
    dag, manifest, profiles = body.read_documents()
    bodies.require_valid_dag(dag, {*profiles, *(each.agent_id for each in manifest.agents)})
    context = request.headers.get("traceparent", "")
    remarks = [{**asdict(each), "code": str(each.code)} for each in await service.plans.list_remarks(dag, manifest)]
    new = await service.plans.submit(dag, manifest, profiles, body.decode_files(), traceparent=context)
    return to_json_response(
        {"plan_id": dag.plan_id, "new": new, "remarks": remarks if new else []}, 201 if new else 200
    )


async def apply(service: Service, request: Request, caller: Caller) -> Response:
    """Apply a new revision of a plan."""
    body = await bodies.read(request, bodies.PlanBody, limit=bodies.PLAN_LIMIT)
    dag, manifest, profiles = body.read_documents()
    bodies.require_valid_dag(dag, {*profiles, *(each.agent_id for each in manifest.agents)})
    return to_json_response(await service.plans.apply(dag, manifest, profiles, body.decode_files(), by=caller.name))


async def get_plan(service: Service, request: Request, _: Caller) -> Response:
    """Return the status of a plan."""
    return to_json_response(await service.plans.read_status(request.path_params["id"]))


async def settle(service: Service, request: Request, _: Caller) -> Response:
    """Have a plan settle, and return its status."""
    read = service.plans.settle if service.ready else service.plans.read_status
    return to_json_response(await read(request.path_params["id"]))


async def explain(service: Service, request: Request, _: Caller) -> Response:
    """Explain the state of a task."""
    return to_json_response(await service.plans.explain(request.path_params["id"], request.path_params["task"]))


async def verify(service: Service, request: Request, caller: Caller) -> Response:
    """Check again whether everything proven still holds."""
    body = await bodies.read(request, bodies.VerifyBody)
    return to_json_response(await service.plans.verify(request.path_params["id"], body.task, by=caller.name))


async def note_merge(service: Service, request: Request, caller: Caller) -> Response:
    """Record that a person merged the work of a plan."""
    body = await bodies.read(request, bodies.MergedBody)
    by = body.by or caller.name
    plan_id = request.path_params["id"]
    await service.plans.record_merge(plan_id, by=by, commit=body.commit, into=body.into, stale=body.stale)
    return to_json_response({"plan_id": plan_id, "commit": body.commit})


async def repository(service: Service, request: Request, _: Caller) -> Response:
    """Return the repository of a plan."""
    return to_json_response(await view_plans.describe_repository(service.deps, request.path_params["id"]))


async def release(service: Service, request: Request, _: Caller) -> Response:
    """Return the last decision about the release of a plan."""
    plan_id = request.path_params["id"]
    return to_json_response((await releases.require_release(service.deps, plan_id)).as_json())


async def release_manifest(service: Service, request: Request, _: Caller) -> Response:
    """Return the manifest of the last release of a plan."""
    plan_id = request.path_params["id"]
    manifest = (await releases.require_release(service.deps, plan_id)).manifest
    if not manifest:
        raise UsageError(Code.NAME_UNKNOWN, f"the release of plan {plan_id!r} is not decided yet", hint="ask later")
    return to_json_response(manifest)


async def steer(service: Service, request: Request, caller: Caller) -> Response:
    """Carry out an action on a plan or a task."""
    body = await bodies.read(request, bodies.SteerBody)
    action = PlanAction(
        name=request.path_params["action"],
        by=body.by or caller.name,
        proof=AnswerProof("token", caller.name),
        task_id=body.task,
        onwards=body.onwards,
        why=body.why or "",
        checkpoint=body.checkpoint,
        answer=body.answer,
    )
    return to_json_response(await service.plans.carry_out(request.path_params["id"], action))


async def run_pass(service: Service, request: Request, _: Caller) -> Response:
    """Run a pass of a part."""
    body = await bodies.read(request, bodies.PassBody)
    return to_json_response((await service.passes.run(body.part, body.agent)).as_json())


async def send(service: Service, request: Request, _: Caller) -> Response:
    """Send a command in the operator's name."""
    body = await bodies.read(request, bodies.SendBody, limit=2 * bodies.LIMIT)
    return to_json_response(
        await service.messages.send(Command.from_json(body.command), bodies.read_idempotency_key(request))
    )


async def log(service: Service, request: Request, _: Caller) -> Response:
    """Log the result of making or checking a command."""
    body = await bodies.read(request, bodies.LogBody)
    await sent_commands.log_command(
        service.deps, body.what, body.subject, body.model_dump(include={"ok", "repairs", "errors"})
    )
    return to_json_response({"ok": True})


async def fsck(service: Service, _: Request, __: Caller) -> Response:
    """Check the root, and return its faults."""
    return to_json_response({"faults": await check_root(service.deps)})


async def gc(service: Service, request: Request, _: Caller) -> Response:
    """Remove what plans left behind."""
    body = await bodies.read(request, bodies.GcBody)
    if service.tools.collect is None:
        hint = "ask the engine of the root"
        raise UsageError(Code.NAME_UNKNOWN, "this process removes no garbage", hint=hint)
    return to_json_response(await service.tools.collect(dry_run=body.dry_run))


async def republish(service: Service, _: Request, __: Caller) -> Response:
    """Write every published file again."""
    return to_json_response({"written": await service.messages.republish()})


async def get_openapi_document(_: Service, request: Request, __: Caller) -> Response:
    """Describe the routes that are served."""
    return to_json_response(request.app.document)
