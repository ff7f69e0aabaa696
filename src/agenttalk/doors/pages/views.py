"""The pages and what each of them shows."""

from __future__ import annotations

import asyncio
import base64
from datetime import datetime
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from agenttalk.contracts.errors import UsageError
from agenttalk.doors.pages import diffs, files, graph
from agenttalk.doors.pages.files import PREVIEW
from agenttalk.doors.pages.page import HEADERS, PageContext, board_of, render_page
from agenttalk.doors.pages.sessions import make_page_route
from agenttalk.engine.agents import prompt_record
from agenttalk.engine.core.boards import DEFAULT
from agenttalk.engine.messages import dead_letters as refused
from agenttalk.engine.operation.service import Service
from agenttalk.engine.people import exhibits, questions
from agenttalk.engine.views import forge_audit, plan_status, task_detail
from agenttalk.engine.views import ledger as view_ledger
from agenttalk.engine.views import mail as view_mail
from agenttalk.engine.views import overview as glance
from agenttalk.engine.views import plans as view_plans
from agenttalk.engine.views import toolchain as view_toolchain
from agenttalk.engine.views.mail import MailQuery
from agenttalk.engine.views.models.plans import PlanDetail
from agenttalk.rules.plans import timeline

ROWS: Final = 200
"""How many rows of a timeline are drawn, the newest."""
LISTED: Final = 200
"""How many tasks of a plan are listed on one page."""
MOST_PARTS: Final = 100
"""How many tasks one request may name."""
_BOARDS: Final = {"_toolchain": "/toolchain", "_mail": "/mail"}
"""Boards that have pages of their own."""


def routes(service: Service) -> list[Route]:
    """Return the route of every page."""
    views = {
        "/": overview,
        "/plans": plans,
        "/plans/{id}": plan,
        "/plans/{id}/parts": render_parts,
        "/plans/{id}/tasks/{task}": task,
        "/plans/{id}/tasks/{task}/files/{sha256}": preview,
        "/plans/{id}/tasks/{task}/files/{sha256}/download": download,
        "/plans/{id}/tasks/{task}/pictures/{sha256}": picture,
        "/inbox": inbox,
        "/inbox/{id}": question,
        "/inbox/{id}/files/{sha256}/download": download_exhibit,
        "/deadletters": deadletters,
        "/deadletters/{id}": deadletter,
        "/deadletters/{id}/download": download_original,
        "/agents": agents,
        "/workers": workers,
        "/toolchain": toolchain,
        "/toolchain/{id}": toolchain_task,
        "/mail": mail,
        "/mail/{id}": letter,
        "/ledger": ledger,
        "/deliveries": deliveries,
        "/schedules": schedules,
    }
    return [make_page_route(service, path, view) for path, view in views.items()]


async def overview(service: Service, _: Request, reader: PageContext) -> Response:
    """Show the overview of the root."""
    return render_page("overview", reader, **await glance.build_overview(service.deps), day=await service.day.read())


async def plans(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a page of plans, newest first."""
    query = request.query_params
    asked = view_plans.PlanQuery(
        state=query.get("state", ""), text=query.get("text", "")[:200], after=query.get("after", "")
    )
    page = await view_plans.list_plans(service.deps, asked)
    return render_page("plans", reader, listed=page, asked=asked, states=view_plans.STATES)


async def plan(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a plan as a graph with its tasks."""
    if request.path_params["id"] in _BOARDS:
        return RedirectResponse(_BOARDS[request.path_params["id"]], 303, headers=HEADERS)
    stale = await service.plans.find_stale_tasks(request.path_params["id"])
    detail = await view_plans.describe_plan(service.deps, request.path_params["id"], stale)
    await service.plans.add_activities(request.path_params["id"], detail["tasks"])
    large = len(detail["tasks"]) > graph.LARGE
    wanted = request.query_params.get("state", "")
    # The graph is left out for those who have had every change of it.
    drawn = len(detail["tasks"]) <= graph.MOST and request.headers.get("x-fragment") != "rest"
    show = partial(_plan, reader, detail, service.deps.now(), wanted, large=large, drawn=drawn)
    # What takes long must not keep the engine from its work.
    return await asyncio.to_thread(show, _number(request, "page")) if large else show(_number(request, "page"))


def _plan(
    reader: PageContext, detail: PlanDetail, now: datetime, wanted: str, number: int, *, large: bool, drawn: bool
) -> Response:
    tasks = {task["task_id"]: task for task in detail["tasks"]}
    times = timeline.build_timeline(detail["spans"], now)
    listed = [task for task in detail["tasks"] if wanted in {"", board_of(task)}]
    pages = -(-len(listed) // LISTED)
    number = max(1, min(number, pages))
    return render_page(
        "plan",
        reader,
        plan=detail,
        tasks=tasks,
        listed=listed[(number - 1) * LISTED : number * LISTED],
        pages=pages,
        at_page=number,
        counted={name: number for name, number in graph.count_states(detail["tasks"]).items() if number or large},
        wanted=wanted,
        drawn=graph.draw_plan(tuple(tasks), tuple(detail["edges"])) if drawn else None,
        most=graph.MOST,
        node=graph.draw_node,
        met=graph.is_met,
        times=times,
        rows=times.rows[-ROWS:],
        large=large and detail["result"] != "foreign",
    )


async def render_parts(service: Service, request: Request, reader: PageContext) -> Response:
    """Show some tasks of a plan again, to replace parts of its page."""
    names = request.query_params.getlist("task")[:MOST_PARTS]
    stale = await service.plans.find_stale_tasks(request.path_params["id"])
    progress = await plan_status.read_progress(service.deps, request.path_params["id"], names, stale)
    await service.plans.add_activities(request.path_params["id"], progress["tasks"])
    return render_page("plan_parts", reader, plan=progress, node=graph.draw_node)


async def task(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a task, and explain its state."""
    plan_id, task_id = request.path_params["id"], request.path_params["task"]
    stale = await service.plans.find_stale_tasks(plan_id)
    detail = await task_detail.describe_task(service.deps, plan_id, task_id, stale)
    await service.plans.add_activities(plan_id, [detail])
    asked = await prompt_record.read_prompt(service.deps, plan_id, task_id)
    remarks = await task_detail.list_remarks(service.deps, plan_id, task_id)
    events = await task_detail.read_transcript_tail(service.deps, plan_id, task_id)
    return render_page(
        "task",
        reader,
        task=detail,
        status=board_of(detail),
        injected=asked,
        most=PREVIEW,
        remarks=remarks,
        events=events,
    )


async def preview(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a file as escaped text. Its content is never run or rendered."""
    asked = request.path_params
    board, name = await task_detail.find_task_file(service.deps, asked["id"], asked["task"], asked["sha256"])
    blobs = await service.deps.stores.blobs(board)
    size = await blobs.size(asked["sha256"])
    data = await blobs.read_piece(asked["sha256"], 0, PREVIEW)
    return render_page(
        "file",
        reader,
        plan_id=asked["id"],
        task_id=asked["task"],
        sha256=asked["sha256"],
        name=name,
        size=size,
        text=files.decode_text(data, cut=size > len(data)),
        cut=size > len(data),
    )


async def download(service: Service, request: Request, _: PageContext) -> Response:
    """Send a file as a download."""
    asked = request.path_params
    board, name = await task_detail.find_task_file(service.deps, asked["id"], asked["task"], asked["sha256"])
    return await files.respond_with_blob(await service.deps.stores.blobs(board), asked["sha256"], name)


async def picture(service: Service, request: Request, _: PageContext) -> Response:
    """Send a picture that a check took."""
    asked = request.path_params
    board = await task_detail.find_picture(service.deps, asked["id"], asked["task"], asked["sha256"])
    return files.respond_with_picture(await (await service.deps.stores.blobs(board)).get(asked["sha256"]))


async def inbox(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a page of open questions."""
    page = await questions.read_page(service.deps, after=request.query_params.get("after", ""))
    return render_page("inbox", reader, requests=[question.as_json() for question in page.requests], next=page.next)


async def question(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a question with the form that answers it."""
    return await render_question(service, reader, request.path_params["id"])


async def render_question(
    service: Service,
    reader: PageContext,
    request_id: str,
    status: int = 200,
    *,
    why_not: UsageError | None = None,
    notes: str = "",
) -> Response:
    """Show a question; `why_not` is the error with which the last answer was refused."""
    question = await service.messages.find_question(request_id)
    exhibit = await exhibits.read_exhibit(service.deps, question)
    shown = []
    for file in exhibit["files"]:
        data = file.get("beginning")
        cut = data is not None and file["size_bytes"] > len(data)
        shown.append({**file, "text": files.decode_text(data, cut=cut) if data else None, "cut": cut})
    return render_page(
        "question",
        reader,
        status,
        asked=question.as_json(),
        exhibit={**exhibit, "files": shown},
        changed=diffs.split_diff(exhibit["diff"] or ""),
        why_not=why_not,
        notes=notes,
    )


async def download_exhibit(service: Service, request: Request, _: PageContext) -> Response:
    """Send a file of a question as a download."""
    digest = request.path_params["sha256"]
    board, name = await exhibits.find_file(service.deps, request.path_params["id"], digest)
    return await files.respond_with_blob(await service.deps.stores.blobs(board), digest, name)


async def deadletters(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a page of dead letters."""
    page = await refused.read_page(service.deps, after=request.query_params.get("after", ""))
    return render_page("deadletters", reader, letters=page.letters, next=page.next)


async def deadletter(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a dead letter with its original."""
    letter = await service.messages.read_dead_letter(request.path_params["id"])
    data = base64.b64decode(letter["content"]) if letter["content"] is not None else None
    size = len(data) if data is not None else None
    cut = (size or 0) > PREVIEW
    text = files.decode_text(data[:PREVIEW], cut=cut) if data is not None else None
    return render_page("deadletter", reader, letter=letter, text=text, size=size, cut=cut)


async def download_original(service: Service, request: Request, _: PageContext) -> Response:
    """Send the original of a dead letter as a download."""
    letter = await service.messages.read_dead_letter(request.path_params["id"])
    return files.respond_with_file(base64.b64decode(letter["content"] or ""), "original.bin")


async def agents(service: Service, _: Request, reader: PageContext) -> Response:
    """Show the agents, and how many of their claims held."""
    return render_page("agents", reader, agents=await glance.describe_agents(service.deps))


async def workers(service: Service, _: Request, reader: PageContext) -> Response:
    """Show the workers, and the tasks that wait for one."""
    known = await service.fleet.describe() if service.has_fleet else []
    waiting = await service.fleet.list_waiting() if service.has_fleet else []
    return render_page("workers", reader, workers=known, waiting=waiting)


async def toolchain(service: Service, request: Request, reader: PageContext) -> Response:
    """Show the board of forge events: its tasks, its warnings, and the texts written at forges."""
    status = request.query_params.get("status", "")
    asked = view_toolchain.ToolchainQuery(status=status, after=_number(request, "after"), newest=True)
    return render_page(
        "toolchain",
        reader,
        listed=await view_toolchain.list_toolchain_tasks(service.deps, asked),
        warnings=(await view_toolchain.list_warnings(service.deps))["warnings"],
        outgoing=await view_toolchain.list_outgoing(service.deps),
        wanted=status,
        readable=service.reconciler is not None,
    )


async def toolchain_task(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a task of a forge event: the reports of its agent beside what the engine read at the forge."""
    return render_page(
        "toolchain_task", reader, task=await forge_audit.audit_task(service.deps, request.path_params["id"])
    )


async def mail(service: Service, request: Request, reader: PageContext) -> Response:
    """Show letters, newest first."""
    query = request.query_params
    asked = MailQuery(
        sender=query.get("from", ""),
        to=query.get("to", ""),
        kind=query.get("kind", ""),
        search=query.get("search", "")[:200],
        before=_number(request, "before"),
    )
    return render_page("mail", reader, listed=await view_mail.list_letters(service.deps, asked), asked=asked)


async def letter(service: Service, request: Request, reader: PageContext) -> Response:
    """Show a letter with its thread."""
    letter_view = await view_mail.read_letter(service.deps, request.path_params["id"])
    thread = await view_mail.list_letters(service.deps, MailQuery(thread=letter_view["thread"], limit=100))
    letters = [await view_mail.read_letter(service.deps, each["message_id"]) for each in thread["mails"][::-1]]
    return render_page("letter", reader, letter=letter_view, letters=letters)


async def ledger(service: Service, request: Request, reader: PageContext) -> Response:
    """Show facts of the ledger, newest first."""
    query = request.query_params
    board, plan_id, kind = query.get("board", DEFAULT), query.get("plan", ""), query.get("kind", "")
    before = _number(request, "before")
    page = await view_ledger.list_ledger(service.deps, board, before=before, plan_id=plan_id, kind=kind)
    boards = await view_ledger.list_ledger_boards(service.deps)
    return render_page("ledger", reader, listed=page, boards=boards, board=board, plan_id=plan_id, kind=kind)


async def deliveries(service: Service, request: Request, reader: PageContext) -> Response:
    """Show deliveries of forges and their results."""
    page = await view_ledger.list_webhooks(service.deps, before=_number(request, "before"))
    return render_page("deliveries", reader, listed=page)


async def schedules(service: Service, _: Request, reader: PageContext) -> Response:
    """Show the schedules."""
    known = await service.tools.schedules.describe_all() if service.tools.schedules is not None else None
    return render_page("schedules", reader, schedules=known)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else 0
