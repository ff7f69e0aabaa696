"""Shows the status of a plan, of some of its tasks, or of all plans. It is read often, so it imports little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.budgets import denials
from agenttalk.engine.core.boards import VIRTUAL, board_of, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_status import describe_status, sum_usage, sum_usage_by_agent
from agenttalk.engine.plans import dag_reviews, releases
from agenttalk.ports.statements.budgets import OBJECTIONS_IN
from agenttalk.ports.statements.core import TASK_STATUS, TASK_STATUSES
from agenttalk.ports.statements.messages import COUNTED_TASKS, IN_FLIGHT, PLAN, PLANS, PlanRow
from agenttalk.ports.statements.people import OPEN_REQUESTS_IN
from agenttalk.ports.statements.plans import ACTIVITY, RUN, SKIPPED_BY_FAILURE
from agenttalk.ports.statements.views import RUN_COUNTS, UNISOLATED_IN, UNPROVEN_IN
from agenttalk.rules.text import turn_words, view_words

if TYPE_CHECKING:
    from agenttalk.engine.core.task_status import TaskView
    from agenttalk.engine.plans.dag_reviews import DagReviewRecord
    from agenttalk.engine.plans.releases import Release
    from agenttalk.engine.views.models.plans import (
        AccountWaitSummary,
        PlanCounts,
        PlanOverview,
        PlanProgress,
        PlanResult,
        PlanSummary,
        PlanView,
    )
    from agenttalk.engine.views.models.root import StatusOverview
    from agenttalk.ports.statements.plans import RunRow
    from agenttalk.ports.statements.views import RunCountsRow, RunPageRow
    from agenttalk.ports.storage import Store

_NAMED: Final = 5
"""Stale tasks that `closing` names."""
_ALL: Final = 2**31 - 1
NOT_STALE: Final[frozenset[str]] = frozenset()


async def read_plan_status(deps: Deps, plan_id: str, stale: Collection[str] = NOT_STALE) -> PlanView:
    """Return the status of a plan. Raises UsageError when there is no such plan.

    `stale` names tasks that were found stale, which is not stored yet.
    """
    store = await board_of(deps, plan_id)
    rows = await store.read(PLAN, plan_id=plan_id)
    if not rows:
        raise _make_unknown_plan_error(plan_id)
    return await _describe_plan(store, rows[0], stale)


def _make_unknown_plan_error(plan_id: str) -> UsageError:
    return UsageError(
        Code.NAME_UNKNOWN, f"there is no plan {plan_id[:80]!r}", hint="'agenttalk status' lists all plans"
    )


async def _describe_plan(store: Store, plan: PlanRow, stale: Collection[str]) -> PlanView:
    plan_id = plan.plan_id
    # Activity first: a plan in which nothing goes on stays as it is, so what is read afterwards fits it. Only the end
    # of its review, a retry or stale evidence may start it in between, and then everything is read again.
    while True:
        review = await dag_reviews.read_latest_committed(store, plan_id)
        [activity] = await store.read(ACTIVITY, plan_id=plan_id)
        runs = await store.read(RUN, plan_id=plan_id)
        if not runs:
            return await _describe_foreign_plan(store, plan)
        if (runs[0].state, runs[0].open) == (activity.state, activity.open):
            break
    run = runs[0]
    tasks = await _read_tasks(store, plan_id, stale)
    state = "RUNNING" if run.state == "ENDED" and _has_stale(tasks, stale) else run.state
    closing = state == "RUNNING" and not run.open
    lost = (await store.read(SKIPPED_BY_FAILURE, plan_id=plan_id))[0].tasks
    running = 0 if state == "ENDED" else activity.working  # it may have ended since that was read
    goes_on = _goes_on(state, running, activity.queued, activity.due, closing=closing)
    result = _result(state, goes_on=goes_on, failed=bool(run.failed or lost))
    release = await releases.read_latest_committed(store, plan_id)
    if review is not None and review.is_undecided and not running:
        result = "running" if await dag_reviews.is_progressing(store, review) else "waiting"
    elif release is not None and state == "ENDED":
        result = _released(release.state, result)
    unproven = sum(task["proven"] is False for task in tasks)
    not_isolated = sum(task["isolated"] is False for task in tasks)
    counts = _count_tasks(plan_id, run, unproven, not_isolated) | {"running": running}
    summary = _summarize(store, plan, state, result, counts, run.began_at, run.ended_at)
    return await _complete(store, summary, tasks, _describe_closing(tasks) if closing else None, review, release)


def _has_stale(tasks: Iterable[TaskView], stale: Collection[str]) -> bool:
    """Return whether a plan goes on because completed tasks were found stale."""
    return any(task["task_id"] in stale and task["freshness"] == "stale" for task in tasks)


async def _describe_foreign_plan(store: Store, plan: PlanRow) -> PlanView:
    """Return the status of a plan that the engine does not run: its tasks are as their agents report them."""
    counts = await count_foreign_tasks(store, plan.plan_id)
    summary = _summarize(store, plan, "FOREIGN", "foreign", counts, None, None)
    return await _complete(store, summary, await _read_tasks(store, plan.plan_id, NOT_STALE))


def _summarize(
    store: Store,
    plan: PlanRow,
    state: str,
    result: PlanResult,
    counts: PlanCounts,
    began_at: str | None,
    ended_at: str | None,
) -> PlanSummary:
    return {
        "plan_id": plan.plan_id,
        "board": store.name,
        "origin": plan.origin,
        "state": state,
        "halted": plan.halted,
        "result": result,
        "counts": counts,
        "began_at": began_at,
        "ended_at": ended_at,
    }


async def _complete(
    store: Store,
    summary: PlanSummary,
    tasks: list[TaskView],
    closing: str | None = None,
    review: DagReviewRecord | None = None,
    release: Release | None = None,
) -> PlanView:
    plan_id = summary["plan_id"]
    return {
        **summary,
        "usage": sum_usage(task["usage"] for task in tasks),
        "usage_by_agent": sum_usage_by_agent(tasks),
        "closing": closing,
        "tasks": tasks,
        "gates": [denials.to_json(row) for row in await store.read(OBJECTIONS_IN, plan_id=plan_id)],
        "waits": _list_account_waits(tasks),
        "questions": [row.request_id for row in await store.read(OPEN_REQUESTS_IN, plan_id=plan_id)],
        "review": review.as_json() if review else None,
        "release": release.as_json() if release else None,
    }


def _list_account_waits(tasks: Iterable[TaskView]) -> list[AccountWaitSummary]:
    """List the accounts that tasks wait for, each with the number of its tasks."""
    found: dict[str, list[TaskView]] = {}
    for task in tasks:
        if task["waits_for_account"]:
            found.setdefault(task["reason"] or "", []).append(task)
    waits: list[AccountWaitSummary] = []
    for reason, waiting in found.items():
        words = turn_words.TASK_WAITS if len(waiting) == 1 else turn_words.TASKS_WAIT
        wait, text = waiting[0]["waits_for_account"], words(wait=reason, count=len(waiting))
        if wait is not None:
            waits.append({**wait, "tasks": len(waiting), "text": text})
    return waits


async def _read_tasks(store: Store, plan_id: str, stale: Collection[str]) -> list[TaskView]:
    rows = await store.read(TASK_STATUSES, plan_id=plan_id, task_id="", limit=_ALL)
    return [describe_status(row, stale) for row in rows]


def _count_tasks(plan_id: str, run: RunRow | RunCountsRow | RunPageRow, unproven: int, not_isolated: int) -> PlanCounts:
    """Return the counts of a plan. The run of a virtual board counts one open task more, so that it never ends."""
    return {
        "open": run.open - 1 if plan_id in VIRTUAL else run.open,
        "completed": run.completed,
        "failed": run.failed,
        "skipped": run.skipped,
        "unproven": unproven,
        "not_isolated": not_isolated,
    }


async def count_tasks(store: Store, plan_id: str, run: RunCountsRow | RunPageRow) -> PlanCounts:
    """Count the tasks of a plan that the engine runs, without reading them."""
    unproven = (await store.read(UNPROVEN_IN, plan_id=plan_id))[0].tasks
    not_isolated = (await store.read(UNISOLATED_IN, plan_id=plan_id))[0].tasks
    return _count_tasks(plan_id, run, unproven, not_isolated)


async def count_foreign_tasks(store: Store, plan_id: str) -> PlanCounts:
    """Count the tasks of a foreign plan by their states. What is completed there is claimed, and never proven."""
    states: Counter[str] = Counter({row.state: row.tasks for row in await store.read(COUNTED_TASKS, plan_id=plan_id)})
    completed, failed, skipped = states["COMPLETED"], states["FAILED"], states["SKIPPED"]
    return {
        "open": states.total() - completed - failed - skipped,
        "completed": completed,
        "failed": failed,
        "skipped": skipped,
        "unproven": completed,
        "not_isolated": 0,
        "running": 0,
    }


async def find_result(store: Store, plan_id: str, state: str, counts: PlanCounts) -> PlanResult:
    """Return the result of a plan for a list of plans; see `PlanSummary.result`."""
    lost = counts["failed"] or (counts["skipped"] and (await store.read(SKIPPED_BY_FAILURE, plan_id=plan_id))[0].tasks)
    if state == "ENDED":
        release = await releases.read_latest_committed(store, plan_id)
        result = _result(state, goes_on=False, failed=bool(lost))
        return _released(release.state, result) if release is not None else result
    [activity] = await store.read(ACTIVITY, plan_id=plan_id)
    closing = not counts["open"]
    goes_on = _goes_on(state, activity.working, activity.queued, activity.due, closing=closing)
    return _result(state, goes_on=goes_on, failed=bool(lost))


def _goes_on(state: str, running: int, queued: int, due: int, *, closing: bool) -> bool:
    """Return whether anything of a plan continues by itself. In a paused plan, running turns come to their end."""
    if state == "PAUSED":
        return running > 0
    return state == "SUBMITTED" or (state == "RUNNING" and bool(running or queued or due or closing))


def _released(release: str, result: PlanResult) -> PlanResult:
    """Return the result of an ended plan that has a release: it is done when the release is approved."""
    if release == "due":
        return "running"
    return result if release == "approved" else "failed"


def _result(state: str, *, goes_on: bool, failed: bool) -> PlanResult:
    if goes_on:
        return "running"
    if failed:
        return "failed"
    if state == "ENDED":
        return "done"
    return "paused" if state == "PAUSED" else "waiting"


def _describe_closing(tasks: Iterable[TaskView]) -> str:
    stale = [task["task_id"] for task in tasks if task["freshness"] == "stale"]
    named = ", ".join(stale[:_NAMED]) + (" …" if len(stale) > _NAMED else "")
    return view_words.VERIFYING_AGAIN(tasks=named) if stale else view_words.VERIFYING_ALL()


async def read_progress(
    deps: Deps, plan_id: str, names: Iterable[str], stale: Collection[str] = NOT_STALE
) -> PlanProgress:
    """Return the counts of a plan, and the tasks named. Raises UsageError when the engine runs no such plan."""
    store = await board_of(deps, plan_id)
    rows = await store.read(RUN_COUNTS, plan_id=plan_id)
    if not rows:
        raise _make_unknown_plan_error(plan_id)
    tasks = [
        describe_status(row, stale)
        for name in dict.fromkeys(names)
        for row in await store.read(TASK_STATUS, plan_id=plan_id, task_id=name.replace("\0", ""))
    ]
    counts = await count_tasks(store, plan_id, rows[0])
    return {"plan_id": plan_id, "state": rows[0].state, "counts": counts, "tasks": tasks}


async def read_status_overview(deps: Deps, stale: Mapping[str, Collection[str]]) -> StatusOverview:
    """Return the status of every plan. `stale` names the tasks of each that were found stale, if that is not stored."""
    plans = [(board, row) for board in await list_boards(deps) for row in await board.read(PLANS)]
    return {"plans": [await _describe_with_messages(board, row, stale) for board, row in plans]}


async def _describe_with_messages(board: Store, plan: PlanRow, stale: Mapping[str, Collection[str]]) -> PlanOverview:
    view = await _describe_board(board, plan)
    view = view or await _describe_plan(board, plan, stale.get(plan.plan_id, NOT_STALE))
    in_flight = (await board.read(IN_FLIGHT, plan_id=plan.plan_id))[0].messages
    return {
        **view,
        "dag_sha256": plan.dag_sha256,
        "messages": {
            "sent": plan.sent,
            "delivered": plan.delivered,
            "superseded": plan.superseded,
            "duplicate": plan.duplicate,
            "dead": plan.dead,
            "in_flight": in_flight,
        },
    }


async def _describe_board(board: Store, plan: PlanRow) -> PlanView | None:
    """Return the status of a board that never ends, without its tasks: other views list them page by page."""
    rows = await board.read(RUN_COUNTS, plan_id=plan.plan_id) if plan.origin == "virtual" else []
    if not rows:
        return None
    counts = await count_tasks(board, plan.plan_id, rows[0])
    result = await find_result(board, plan.plan_id, rows[0].state, counts)
    return await _complete(board, _summarize(board, plan, rows[0].state, result, counts, None, None), [])
