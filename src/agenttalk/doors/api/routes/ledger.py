"""Routes for the ledger, and for what forges told us."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core.base import Text
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.contracts.policy import policy_of
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import to_json_response
from agenttalk.doors.api.query import read_number
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.boards import DEFAULT
from agenttalk.engine.operation.service import Service
from agenttalk.engine.proof import policy_replay
from agenttalk.engine.views import ledger, plans

_VERIFYING = asyncio.Semaphore(1)
"""It reads everything, so one at a time is enough."""


async def facts(service: Service, request: Request, _: Caller) -> Response:
    """Facts of a board, a page of them, the newest first."""
    query = request.query_params
    found = await ledger.list_ledger(
        service.deps,
        query.get("board") or DEFAULT,
        kind=query.get("kind", ""),
        subject=query.get("subject", ""),
        plan_id=query.get("plan", ""),
        before=read_number(query, "before"),
        limit=read_number(query, "limit") or plans.PAGE,
    )
    return to_json_response(found)


class ReplayBody(bodies.Body):
    """What past work is to be held against."""

    policy: dict[str, Any]
    since: Text | None = None
    plan: str = ""
    board: str = ""
    """Where to go on, as `next` of the page before says."""
    before: int = Field(default=0, ge=0)


async def replay_policy(service: Service, request: Request, _: Caller) -> Response:
    """Return a page of completed tasks that a policy would have refused."""
    body = await bodies.read(request, ReplayBody)
    asked = policy_replay.ReplayQuery(
        policy_of(body.policy), policy_replay.parse_since(body.since), body.plan, body.board, min(body.before, 2**53)
    )
    return to_json_response(await policy_replay.replay_page(service.deps, asked))


async def verify_ledger(service: Service, _: Request, __: Caller) -> Response:
    """Check every chain of the ledger. This reads all of it."""
    if service.tools.verify_ledger is None:
        hint = "run 'agenttalk audit verify'"
        raise MachineError(Code.ENGINE_UNREACHABLE, "this process cannot verify the ledger", hint=hint)
    async with _VERIFYING:
        chains = await asyncio.to_thread(service.tools.verify_ledger)
    return to_json_response({"ok": all(each["intact"] for each in chains), "chains": list(chains)})


async def list_deliveries(service: Service, request: Request, _: Caller) -> Response:
    """Deliveries of forges and pipelines, a page of them, the newest first."""
    query = request.query_params
    wanted = {name: query[name] for name in ledger.WEBHOOK_FILTERS if query.get(name)}
    limit = read_number(query, "limit") or plans.PAGE
    return to_json_response(
        await ledger.list_webhooks(service.deps, wanted=wanted, before=read_number(query, "before"), limit=limit)
    )


async def replay_delivery(service: Service, request: Request, caller: Caller) -> Response:
    """Have a delivery decided about anew."""
    told = await ledger.replay_webhook(service.deps, request.path_params["id"], by=caller.name)
    service.receiver.wake()
    return to_json_response(told)
