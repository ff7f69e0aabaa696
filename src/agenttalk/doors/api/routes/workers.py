"""Routes for workers, and for the operators who look after them."""

from __future__ import annotations

from typing import Final, Literal, TypedDict

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import IdText
from agenttalk.contracts.worker import Enrolment, LogPlace, SyncRequest, WorkerRole
from agenttalk.doors.api import bodies, guard
from agenttalk.doors.api.bodies import Body
from agenttalk.doors.api.problems import to_json_response
from agenttalk.doors.api.query import read_number
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.fleet.sync import WaitingTask, WorkerView
from agenttalk.engine.fleet.worker_logs import PIECE_BYTES
from agenttalk.engine.operation.service import Service

SYNC_BYTES: Final = 16 * 1024 * 1024
"""A sync brings the results of attempts."""


class InvitationBody(Body):
    """What a new worker belongs to, and the token with which it enrols."""

    pool: IdText
    labels: list[IdText] = Field(default_factory=list, max_length=50)
    role: WorkerRole = "agents"
    token: str = Field(min_length=20, max_length=200, pattern=r"^inv_[A-Za-z0-9_-]+$")
    """A token that the caller made, so that it travels only once."""


class WorkerBody(Body):
    """The new state of a worker."""

    state: Literal["active", "draining", "removed"]


class PoolBody(Body):
    """Whether a pool gets new work."""

    paused: bool


class WorkerChange(TypedDict):
    """The state of a worker after a change."""

    id: str
    name: str
    state: str


class PoolChange(TypedDict):
    """Whether a pool is paused, after a change."""

    pool: str
    paused: bool


class WorkerList(TypedDict):
    """The workers, as people see them."""

    workers: list[WorkerView]
    paused_pools: list[str]
    waiting: list[WaitingTask]
    """Tasks that no worker has taken yet."""


async def invite(service: Service, request: Request, caller: Caller) -> Response:
    """Accept the token of an invitation."""
    body = await bodies.read(request, InvitationBody)
    made = await service.fleet.workers.invite(body.token, body.pool, body.labels, by=caller.name, role=body.role)
    return to_json_response(made.as_json(), 201)


async def enrol(service: Service, request: Request, _: Caller) -> Response:
    """Enrol a worker that shows the token of its invitation."""
    enrolment = Enrolment.from_json(wire.read(await bodies.read_raw(request, bodies.LIMIT)))
    token = guard.read_bearer(request.headers["authorization"])
    return to_json_response((await service.fleet.workers.enrol(token, enrolment)).as_json(), 201)


async def sync(service: Service, request: Request, caller: Caller) -> Response:
    """Exchange the whole state with a worker."""
    told = SyncRequest.from_json(wire.read(await bodies.read_raw(request, SYNC_BYTES), limit=SYNC_BYTES))
    return to_json_response((await service.fleet.sync(caller.name, told)).as_json())


async def append_log(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Take a piece of the log of an attempt."""
    at = read_number(request.query_params, "at")
    data = await bodies.read_raw(request, PIECE_BYTES)
    return to_json_response(LogPlace(next=await service.fleet.logs.append(task, caller, at, data)).as_json())


async def list_workers(service: Service, _: Request, __: Caller) -> Response:
    """List the workers."""
    paused = sorted(await service.fleet.workers.list_paused_pools())
    found: WorkerList = {
        "workers": await service.fleet.describe(),
        "paused_pools": paused,
        "waiting": await service.fleet.list_waiting(),
    }
    return to_json_response(found)


async def set_state(service: Service, request: Request, caller: Caller) -> Response:
    """Drain a worker, let it go on, or remove it."""
    body = await bodies.read(request, WorkerBody)
    row = await service.fleet.workers.set_state(request.path_params["id"], body.state, by=caller.name)
    service.fleet.wake()
    return to_json_response({"id": row.id, "name": row.name, "state": row.state})


async def pause_pool(service: Service, request: Request, caller: Caller) -> Response:
    """Pause a pool, or let it go on."""
    body = await bodies.read(request, PoolBody)
    pool = request.path_params["id"]
    await service.fleet.workers.pause_pool(pool, paused=body.paused, by=caller.name)
    service.fleet.wake()
    return to_json_response({"pool": pool, "paused": body.paused})
