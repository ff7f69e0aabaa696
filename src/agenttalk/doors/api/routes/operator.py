"""Routes for operators: plans are submitted, steered and verified, commands sent, and the root is looked after."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.command import Command
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import to_json_response
from agenttalk.engine.core.access import Caller
from agenttalk.engine.operation.service import Service
from agenttalk.engine.runs.plan_actions import PlanAction
from agenttalk.rules.people.attestation import AnswerProof


async def status(service: Service, _: Request, __: Caller) -> Response:
    """Where everything stands."""
    return to_json_response(await service.status())


async def submit(service: Service, request: Request, _: Caller) -> Response:
    """Have a plan run."""
    body = await bodies.read(request, bodies.PlanBody, limit=bodies.PLAN_LIMIT)
    dag, manifest, profiles = body.read_documents()
    bodies.require_valid_dag(dag, {*profiles, *(each.agent_id for each in manifest.agents)})
    context = request.headers.get("traceparent", "")
    remarks = await service.remarks(dag, manifest)
    new = await service.submit(dag, manifest, profiles, body.decode_files(), traceparent=context)
    return to_json_response(
        {"plan_id": dag.plan_id, "new": new, "remarks": remarks if new else []}, 201 if new else 200
    )


async def apply(service: Service, request: Request, caller: Caller) -> Response:
    """Put a changed plan in force."""
    body = await bodies.read(request, bodies.PlanBody, limit=bodies.PLAN_LIMIT)
    dag, manifest, profiles = body.read_documents()
    bodies.require_valid_dag(dag, {*profiles, *(each.agent_id for each in manifest.agents)})
    return to_json_response(await service.apply(dag, manifest, profiles, body.decode_files(), by=caller.name))


async def get_plan(service: Service, request: Request, caller: Caller) -> Response:
    """Where a plan stands."""
    wanted = request.query_params.get("settled") == "true" and caller.role == "operator" and service.ready
    look = service.read_settled_status if wanted else service.read_plan_status
    return to_json_response(await look(request.path_params["id"]))


async def explain(service: Service, request: Request, _: Caller) -> Response:
    """Why a task is in its state."""
    return to_json_response(await service.explain(request.path_params["id"], request.path_params["task"]))


async def verify(service: Service, request: Request, caller: Caller) -> Response:
    """Look now whether what was proven still holds."""
    body = await bodies.read(request, bodies.VerifyBody)
    return to_json_response(await service.verify(request.path_params["id"], body.task, by=caller.name))


async def note_merge(service: Service, request: Request, caller: Caller) -> Response:
    """Note that a person merged what a plan has done."""
    body = await bodies.read(request, bodies.MergedBody)
    by = body.by or caller.name
    plan_id = request.path_params["id"]
    await service.record_merge(plan_id, by=by, commit=body.commit, into=body.into, stale=body.stale)
    return to_json_response({"plan_id": plan_id, "commit": body.commit})


async def repository(service: Service, request: Request, _: Caller) -> Response:
    """The repository that a plan works on."""
    return to_json_response(await service.repository(request.path_params["id"]))


async def release(service: Service, request: Request, _: Caller) -> Response:
    """What was decided last about a release, which is not approved any more when something that it rests on changed."""
    return to_json_response(await service.release(request.path_params["id"]))


async def release_manifest(service: Service, request: Request, _: Caller) -> Response:
    """The manifest of the last release."""
    return to_json_response(await service.release_manifest(request.path_params["id"]))


async def steer(service: Service, request: Request, caller: Caller) -> Response:
    """Pause, go on, cancel, try again, stop, override, or decide on rework."""
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
    return to_json_response(await service.steer(request.path_params["id"], action))


async def run_pass(service: Service, request: Request, _: Caller) -> Response:
    """Have a part make a pass."""
    body = await bodies.read(request, bodies.PassBody)
    return to_json_response(await service.run_pass(body.part, body.agent))


async def send(service: Service, request: Request, _: Caller) -> Response:
    """Send a command in the operator's name."""
    body = await bodies.read(request, bodies.SendBody, limit=2 * bodies.LIMIT)
    return to_json_response(await service.send(Command.from_json(body.command), bodies.read_idempotency_key(request)))


async def log(service: Service, request: Request, _: Caller) -> Response:
    """Note how a command came out."""
    body = await bodies.read(request, bodies.LogBody)
    await service.record_outcome(body.what, body.subject, body.model_dump(include={"ok", "repairs", "errors"}))
    return to_json_response({"ok": True})


async def fsck(service: Service, _: Request, __: Caller) -> Response:
    """What is not sound."""
    faults: list[Any] = await service.fsck()
    return to_json_response({"faults": faults})


async def gc(service: Service, request: Request, _: Caller) -> Response:
    """Remove what nobody needs any more."""
    body = await bodies.read(request, bodies.GcBody)
    return to_json_response(await service.gc(dry_run=body.dry_run))


async def republish(service: Service, _: Request, __: Caller) -> Response:
    """Write everything that is published anew."""
    return to_json_response({"written": await service.republish()})


async def get_openapi_document(_: Service, request: Request, __: Caller) -> Response:
    """Describe the routes that are served."""
    return to_json_response(request.app.document)
