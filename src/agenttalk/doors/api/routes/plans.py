"""Routes for looking through plans: lists, graphs, tasks, messages, facts, and the files that were made."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core.base import is_hash
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api.problems import to_json_response
from agenttalk.doors.api.query import read_number
from agenttalk.doors.pages.files import respond_with_blob
from agenttalk.engine.agents import prompt_record
from agenttalk.engine.core.access import Caller
from agenttalk.engine.operation.service import Service
from agenttalk.engine.views import ledger, plans, task_detail


async def list_plans(service: Service, request: Request, _: Caller) -> Response:
    """Return a page of plans."""
    query = request.query_params
    asked = plans.PlanQuery(
        state=query.get("state", "").lower(),
        board=query.get("board", ""),
        text=query.get("text", ""),
        after=query.get("after", ""),
        limit=read_number(query, "limit") or plans.PAGE,
    )
    return to_json_response(await plans.list_plans(service.deps, asked))


async def graph(service: Service, request: Request, _: Caller) -> Response:
    """Return the tasks of a plan, and the edges between them."""
    plan_id = request.path_params["id"]
    stale = await service.plans.find_stale_tasks(plan_id)
    return to_json_response(await plans.describe_graph(service.deps, plan_id, stale))


async def tasks(service: Service, request: Request, _: Caller) -> Response:
    """Return a page of a plan's tasks."""
    query = request.query_params
    found = await plans.list_tasks(
        service.deps,
        request.path_params["id"],
        await service.plans.find_stale_tasks(request.path_params["id"]),
        state=query.get("state", ""),
        agent_id=query.get("agent", ""),
        after=query.get("after", ""),
        limit=read_number(query, "limit") or plans.PAGE,
    )
    return to_json_response(found)


async def task(service: Service, request: Request, _: Caller) -> Response:
    """Return everything about a task."""
    named = request.path_params
    stale = await service.plans.find_stale_tasks(named["id"])
    found = await task_detail.describe_task(service.deps, named["id"], named["task"], stale)
    await service.plans.add_activities(named["id"], [found])
    return to_json_response(found)


async def log(service: Service, request: Request, _: Caller) -> Response:
    """Return a page of the events that an agent reported."""
    query = request.query_params
    found = await task_detail.read_transcript(
        service.deps,
        request.path_params["id"],
        request.path_params["task"],
        command_id=query.get("command", ""),
        attempt=read_number(query, "attempt"),
        after=read_number(query, "after"),
    )
    return to_json_response(found)


async def prompt(service: Service, request: Request, _: Caller) -> Response:
    """Return the prompt of a command, as its agent got it."""
    query = request.query_params
    named = request.path_params
    found = await prompt_record.read_prompt(service.deps, named["id"], named["task"], query.get("command", ""))
    return to_json_response(found)


async def deliveries(service: Service, request: Request, _: Caller) -> Response:
    """Return a page of deliveries."""
    return to_json_response(await plans.list_deliveries(service.deps, request.path_params["id"], **_page(request)))


async def acks(service: Service, request: Request, _: Caller) -> Response:
    """Return a page of receipts."""
    return to_json_response(await plans.list_acks(service.deps, request.path_params["id"], **_page(request)))


async def decisions(service: Service, request: Request, _: Caller) -> Response:
    """Return a page of decisions."""
    return to_json_response(await ledger.list_decisions(service.deps, request.path_params["id"], **_page(request)))


async def facts(service: Service, request: Request, _: Caller) -> Response:
    """Return a page of a plan's facts."""
    return to_json_response(await ledger.list_facts(service.deps, request.path_params["id"], **_page(request)))


async def artifacts(service: Service, request: Request, _: Caller) -> Response:
    """Return a page of the artifacts of a plan."""
    return to_json_response(await plans.list_artifacts(service.deps, request.path_params["id"], **_page(request)))


def _page(request: Request) -> dict[str, Any]:
    query = request.query_params
    return {"after": read_number(query, "after"), "limit": read_number(query, "limit") or plans.PAGE}


async def file(service: Service, request: Request, _: Caller) -> Response:
    """Return a file that a task was given or made, as a download and never to be displayed: its content is not trusted.

    It is read and sent piece by piece. One range of bytes may be asked for.
    """
    named = request.path_params
    digest = named["sha256"] if named["sha256"].startswith("sha256:") else f"sha256:{named['sha256']}"
    if not is_hash(digest):
        raise UsageError(
            Code.HASH_INVALID,
            f"{digest[:80]!r} is not a hash",
            hint="write 64 hex digits, with or without the prefix sha256:",
        )
    board, name = await task_detail.find_task_file(service.deps, named["id"], named["task"], digest)
    blobs = await service.deps.stores.blobs(board)
    return await respond_with_blob(blobs, digest, name, wanted=request.headers.get("range", ""))
