"""Routes for looking through plans: lists, graphs, tasks, messages, facts, and the files that were made."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core.base import is_hash
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api.paging import filters, number
from agenttalk.doors.api.problems import answered
from agenttalk.doors.pages.files import attached
from agenttalk.engine.agents import prompt_record
from agenttalk.engine.core.access import Caller
from agenttalk.engine.operation.service import Service
from agenttalk.engine.views import ledger, plans, task_detail


async def listed(service: Service, request: Request, _: Caller) -> Response:
    """Plans, a page of them."""
    said = filters(request, "state", "board", "text", "after", "limit")
    asked = plans.PlanQuery(
        state=said.get("state", "").lower(),
        board=said.get("board", ""),
        text=said.get("text", ""),
        after=said.get("after", ""),
        limit=number(said, "limit") or plans.PAGE,
    )
    return answered(await plans.list_plans(service.deps, asked))


async def graph(service: Service, request: Request, _: Caller) -> Response:
    """The tasks of a plan, and the lines between them."""
    filters(request)
    return answered(await plans.describe_graph(service.deps, request.path_params["id"]))


async def tasks(service: Service, request: Request, _: Caller) -> Response:
    """Tasks of a plan, a page of them."""
    said = filters(request, "state", "agent", "after", "limit")
    found = await plans.list_tasks(
        service.deps,
        request.path_params["id"],
        state=said.get("state", ""),
        agent_id=said.get("agent", ""),
        after=said.get("after", ""),
        limit=number(said, "limit") or plans.PAGE,
    )
    return answered(found)


async def task(service: Service, request: Request, _: Caller) -> Response:
    """One task, with everything that is known of it."""
    filters(request)
    return answered(
        await task_detail.describe_task(service.deps, request.path_params["id"], request.path_params["task"])
    )


async def log(service: Service, request: Request, _: Caller) -> Response:
    """What an agent told while it ran, a page of it."""
    said = filters(request, "command", "attempt", "after")
    found = await task_detail.read_transcript(
        service.deps,
        request.path_params["id"],
        request.path_params["task"],
        command_id=said.get("command", ""),
        attempt=number(said, "attempt"),
        after=number(said, "after"),
    )
    return answered(found)


async def prompt(service: Service, request: Request, _: Caller) -> Response:
    """The prompt of a command, as its agent got it."""
    said = filters(request, "command")
    named = request.path_params
    found = await prompt_record.read_prompt(service.deps, named["id"], named["task"], said.get("command", ""))
    return answered(found.as_json())


async def deliveries(service: Service, request: Request, _: Caller) -> Response:
    """What became of messages, a page of it."""
    return answered(await plans.list_deliveries(service.deps, request.path_params["id"], **_page(request)))


async def acks(service: Service, request: Request, _: Caller) -> Response:
    """Receipts, a page of them."""
    return answered(await plans.list_acks(service.deps, request.path_params["id"], **_page(request)))


async def decisions(service: Service, request: Request, _: Caller) -> Response:
    """What was decided, a page of it."""
    return answered(await ledger.list_decisions(service.deps, request.path_params["id"], **_page(request)))


async def facts(service: Service, request: Request, _: Caller) -> Response:
    """The ledger of a plan, a page of it."""
    return answered(await ledger.list_facts(service.deps, request.path_params["id"], **_page(request)))


async def artifacts(service: Service, request: Request, _: Caller) -> Response:
    """What the tasks of a plan made, a page of it."""
    return answered(await plans.list_artifacts(service.deps, request.path_params["id"], **_page(request)))


def _page(request: Request) -> dict[str, Any]:
    said = filters(request, "after", "limit")
    return {"after": number(said, "after"), "limit": number(said, "limit") or plans.PAGE}


async def file(service: Service, request: Request, _: Caller) -> Response:
    """A file that a task was given or made, as something to be kept and never to be shown: nobody knows what is in it.

    It is read and sent piece by piece. One range of bytes may be asked for.
    """
    filters(request)
    named = request.path_params
    digest = named["sha256"] if named["sha256"].startswith("sha256:") else f"sha256:{named['sha256']}"
    if not is_hash(digest):
        raise UsageError(
            Code.HASH_INVALID, "this is no hash", hint="write 64 hex digits, with or without sha256: before"
        )
    board, name = await task_detail.find_task_file(service.deps, named["id"], named["task"], digest)
    blobs = await service.deps.stores.blobs(board)
    return await attached(blobs, digest, name, wanted=request.headers.get("range", ""))
