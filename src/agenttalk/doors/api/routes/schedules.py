"""The HTTP door to schedules."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core.base import Text
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import to_json_response
from agenttalk.engine.core.access import Caller
from agenttalk.engine.operation.service import Service


class ScheduleBody(bodies.Body):
    """A new schedule."""

    name: Text
    schedule: dict[str, Any] = Field(default_factory=dict)
    """`cron`, `timezone`, `plan` or `agent` and `prompt`, `catch_up`."""
    by: Text | None = None


class ActBody(bodies.Body):
    """In whose name something is done."""

    by: Text | None = None


async def list_schedules(service: Service, _: Request, __: Caller) -> Response:
    """Return all schedules."""
    return to_json_response({"schedules": await service.scheduling.describe_all()})


async def add(service: Service, request: Request, caller: Caller) -> Response:
    """Add a schedule."""
    body = await bodies.read(request, ScheduleBody)
    return to_json_response(await service.scheduling.add(body.name, body.schedule, by=body.by or caller.name), 201)


async def act(service: Service, request: Request, caller: Caller) -> Response:
    """Pause, resume, remove or run a schedule."""
    body = await bodies.read(request, ActBody)
    name, action = request.path_params["id"], request.path_params["action"]
    return to_json_response(await service.scheduling.apply_action(name, action, by=body.by or caller.name))
