"""Routes for remote agents, and for tokens."""

from __future__ import annotations

from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core.base import AgentIdText, IdText
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api import bodies
from agenttalk.doors.api.answers import TokenOwner
from agenttalk.doors.api.bodies import Body
from agenttalk.doors.api.problems import to_json_response
from agenttalk.engine.core import access
from agenttalk.engine.core.access import Caller, PersonRole
from agenttalk.engine.operation.service import Service

LONGEST_WAIT: Final = 60.0
"""Seconds for which a request may wait for work."""


class ClaimBody(Body):
    """How long to wait for work."""

    wait_seconds: float = Field(default=0.0, ge=0.0, le=LONGEST_WAIT, strict=False)


class TokenBody(Body):
    """Whose token it is to be: an agent's, or, with `role`, that of a person or of a program of theirs."""

    agent_id: AgentIdText | None = None
    role: PersonRole | None = None
    """A viewer may look at everything and do nothing, a worker report what a pipeline did and nothing else."""
    name: IdText | None = None
    """What the holder of a role is called in the ledger."""
    token: str = Field(min_length=20, max_length=200, pattern=r"^[A-Za-z0-9_-]+$")
    """A token that the caller made, so that it travels only once."""


async def me(service: Service, _: Request, caller: Caller) -> Response:
    """Show the owner of the token."""
    owner: TokenOwner = {"role": caller.role, "name": caller.name, "ready": service.ready}
    if caller.attempt is not None:
        board, plan_id, task_id, epoch = caller.attempt
        owner |= {"board": board, "plan_id": plan_id, "task_id": task_id, "epoch": epoch}
    return to_json_response(owner)


async def list_offers(service: Service, _: Request, caller: Caller) -> Response:
    """List what a remote agent has claimed, and what it can claim."""
    return to_json_response(await service.remote_agents.describe_offers(caller.name))


async def claim(service: Service, request: Request, caller: Caller) -> Response:
    """Claim the next task that is offered."""
    body = await bodies.read(request, ClaimBody)
    key = bodies.read_idempotency_key(request)
    taken = await service.remote_agents.claim(caller.name, key=key, wait=body.wait_seconds)
    return to_json_response({"taken": taken})


async def make_token(service: Service, request: Request, caller: Caller) -> Response:
    """Register a token of a remote agent or of a person."""
    body = await bodies.read(request, TokenBody)
    match body.agent_id, body.role, body.name:
        case (str(agent_id), None, None):
            token = await access.admit_agent(service.deps, body.token, agent_id, by=caller.name)
            return to_json_response(token, 201)
        case (None, str(role), str(name)) if name != access.ENGINE_TOKEN_LABEL:
            token = await access.admit_person(service.deps, body.token, role, name, by=caller.name)
            return to_json_response(token, 201)
    hint = f"give agent_id; or role and name, which is not {access.ENGINE_TOKEN_LABEL!r}"
    raise UsageError(Code.FIELD_VALUE, "a token is for an agent or for a person", hint=hint)


async def tokens(service: Service, _: Request, __: Caller) -> Response:
    """List tokens without their secrets, of which only hashes are stored."""
    return to_json_response({"tokens": await access.list_tokens(service.deps)})


async def revoke_token(service: Service, request: Request, caller: Caller) -> Response:
    """Revoke a token."""
    revoked = await access.revoke(service.deps, request.path_params["id"], by=caller.name)
    if revoked["role"] != "agent":
        service.sessions.forget_links()
    return to_json_response(revoked)
