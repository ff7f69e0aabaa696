"""Shows where one plan, some of its tasks, or all plans of a root stand. It is asked often, so it imports little."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.budgets import denials
from agenttalk.engine.core.boards import VIRTUAL, board_of, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.plans import dag_reviews, releases
from agenttalk.ports.statements.budgets import OBJECTIONS_IN
from agenttalk.ports.statements.messages import FAILURES_OF, IN_FLIGHT, PLANS, TASKS_OF, PlanRow, PlanTaskRow
from agenttalk.ports.statements.people import OPEN_REQUESTS_IN
from agenttalk.ports.statements.plans import ACTIVITY, RUN, SKIPPED_BY_FAILURE, STANDINGS, StandingRow
from agenttalk.ports.statements.views import RUN_COUNTS, TASK_STANDING, UNISOLATED_IN, UNPROVEN_IN, TaskPageRow
from agenttalk.rules.core.task_states import board_status
from agenttalk.rules.text import view_words
from agenttalk.rules.text.catalogue import read_column

if TYPE_CHECKING:
    from agenttalk.contracts.core.wire import JsonObject
    from agenttalk.engine.budgets.denials import GateDenial
    from agenttalk.engine.views.models.plans import PlanCounts, PlanOverview, PlanProgress, PlanResult, PlanView
    from agenttalk.engine.views.models.root import StatusOverview
    from agenttalk.engine.views.models.tasks import TaskSummary, TaskUsage, TaskView
    from agenttalk.ports.storage import Store

_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class PlanStanding:
    """The status of a plan that the engine runs."""

    plan_id: str
    state: str
    result: PlanResult
    """`running` while anything goes on by itself; `waiting` when a person or a program outside has to act."""
    counts: PlanCounts
    began_at: str
    ended_at: str | None
    tasks: tuple[TaskView, ...]
    gates: tuple[GateDenial, ...] = ()
    """What checkpoints held against its tasks."""
    closing: str | None = None
    """What is done before it ends, now that no task is open."""
    review: JsonObject | None = None
    """The review of its DAG, if it has one."""
    release: JsonObject | None = None
    """The last decision about its release, if it has one."""
    questions: tuple[str, ...] = ()
    """Questions of it that are not answered."""

    @property
    def usage(self) -> TaskUsage | None:
        """What all tasks together took, as far as it is known."""
        return sum_usage(task["usage"] for task in self.tasks)

    def as_json(self) -> PlanView:
        """Return it as JSON has it."""
        view: PlanView = {
            "plan_id": self.plan_id,
            "state": self.state,
            "result": self.result,
            "counts": self.counts,
            "began_at": self.began_at,
            "ended_at": self.ended_at,
            "usage": self.usage,
            "usage_by_agent": sum_usage_by_agent((task["agent_id"], task["usage"]) for task in self.tasks),
            "closing": self.closing,
            "tasks": list(self.tasks),
            "gates": list(self.gates),
            "questions": list(self.questions),
        }
        if self.review:
            view["review"] = self.review
        if self.release:
            view["release"] = self.release
        return view


async def read_plan_status(deps: Deps, plan_id: str) -> PlanStanding:
    """Return the status of a plan. Raises UsageError when the engine runs no such plan."""
    store = await board_of(deps, plan_id)
    # First what goes on: a plan in which nothing does stays as it is, so what is read afterwards fits it. Only that its
    # review is over, somebody tries it again, or what was proven is found broken may set it going in between, and then
    # all of it is read again.
    while True:
        review = await dag_reviews.read_latest_committed(store, plan_id)
        [(running, queued, due, *seen)] = await store.read(ACTIVITY, plan_id=plan_id)
        rows = await store.read(RUN, plan_id=plan_id)
        if not rows:
            hint = "'agenttalk status' lists all"
            raise UsageError(Code.NAME_UNKNOWN, f"the engine runs no plan {plan_id!r}", hint=hint)
        if [rows[0].state, rows[0].open] == seen:
            break
    state, _, still_open, completed, failed, skipped, began_at, ended_at, *_ = rows[0]
    closing = state == "RUNNING" and not still_open
    tasks = tuple(task_status_of(row) for row in await store.read(STANDINGS, plan_id=plan_id))
    [(lost,)] = await store.read(SKIPPED_BY_FAILURE, plan_id=plan_id)
    running = 0 if state == "ENDED" else running  # it may have ended since that was read
    goes_on = _goes_on(state, running, queued, due, closing=closing)
    counts: PlanCounts = {
        "open": count_open_tasks(plan_id, still_open),
        "completed": completed,
        "failed": failed,
        "skipped": skipped,
        "running": running,
        "unproven": sum(task["proven"] is False for task in tasks),
        "not_isolated": sum(task["isolated"] is False for task in tasks),
    }
    result = _result(state, goes_on=goes_on, failed=bool(failed or lost))
    release = await releases.read_latest_committed(store, plan_id)
    if review is not None and review.is_undecided and not running:
        result = "running" if await dag_reviews.is_progressing(store, review) else "waiting"
    elif release is not None and state == "ENDED":
        result = _shipped(release.state, result)
    return PlanStanding(
        plan_id,
        state,
        result,
        counts,
        began_at,
        ended_at,
        tasks,
        tuple(denials.to_json(row) for row in await store.read(OBJECTIONS_IN, plan_id=plan_id)),
        _closing(tasks) if closing else None,
        review.as_json() if review else None,
        release.as_json() if release else None,
        tuple(str(row.request_id) for row in await store.read(OPEN_REQUESTS_IN, plan_id=plan_id)),
    )


def count_open_tasks(plan_id: str, counted: int) -> int:
    """Return how many tasks are open. The run of a virtual board counts one more, so that it never ends."""
    return counted - 1 if plan_id in VIRTUAL else counted


async def result_of(store: Store, plan_id: str, state: str, counts: PlanCounts) -> PlanResult:
    """Return the result of a plan for a list of plans; see `PlanStanding.result`."""
    lost = counts["failed"] or (counts["skipped"] and (await store.read(SKIPPED_BY_FAILURE, plan_id=plan_id))[0].tasks)
    if state == "ENDED":
        release = await releases.read_latest_committed(store, plan_id)
        result = _result(state, goes_on=False, failed=bool(lost))
        return _shipped(release.state, result) if release is not None else result
    [(running, queued, due, *_)] = await store.read(ACTIVITY, plan_id=plan_id)
    return _result(state, goes_on=_goes_on(state, running, queued, due, closing=not counts["open"]), failed=bool(lost))


def _goes_on(state: str, running: int, queued: int, due: int, *, closing: bool) -> bool:
    """Return whether anything of a plan goes on by itself. In a paused plan, running turns come to their end."""
    if state == "PAUSED":
        return running > 0
    return state == "SUBMITTED" or (state == "RUNNING" and bool(running or queued or due or closing))


def _shipped(release: str, result: PlanResult) -> PlanResult:
    """A plan that ships something is done when that is approved."""
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


def _closing(tasks: Iterable[TaskView]) -> str:
    stale = [task["task_id"] for task in tasks if task["freshness"] == "stale"]
    named = ", ".join(stale[:_NAMED]) + (" …" if len(stale) > _NAMED else "")
    return view_words.VERIFYING_AGAIN(tasks=named) if stale else view_words.VERIFYING_ALL()


def task_status_of(row: StandingRow | TaskPageRow) -> TaskView:
    """Return the status of a task."""
    completed = row.state == "COMPLETED"
    return {
        "task_id": row.task_id,
        "agent_id": row.agent_id,
        "state": row.state,
        "phase": row.phase,
        "board": board_status(row.state, row.phase),
        "freshness": ("fresh" if row.fresh else "stale") if completed else None,
        "proven": not row.unproven if completed else None,
        "isolated": is_isolated(row.state, row.unisolated),
        "cause": row.cause,
        "reason": read_column(row.reason, row.reason_message),
        "score": row.score,
        "attempt": row.attempt,
        "retries": row.retries,
        "reexecutions": row.reexecutions,
        "missing": read_missing(row.missing),
        "request_id": row.request_id,
        "updated_at": row.updated_at,
        "since": row.leased_at or row.waiting_since,
        "usage": usage_of(row),
    }


def is_isolated(state: str, unisolated: int) -> bool | None:
    """Whether all that a task rests on ran in a sandbox; None of one that rests on nothing yet."""
    return False if unisolated else True if state == "COMPLETED" else None


def sum_usage(usages: Iterable[TaskUsage | None]) -> TaskUsage | None:
    """Return what several tasks took together; None when nothing is known of any."""
    known = [usage for usage in usages if usage]
    if not known:
        return None
    return {
        "duration_s": round(sum(usage["duration_s"] for usage in known), 6),
        "tokens": sum(usage["tokens"] for usage in known),
        "cost_usd": round(sum(usage["cost_usd"] for usage in known), 6),
        "tool_calls": sum(usage["tool_calls"] for usage in known),
    }


def sum_usage_by_agent(usages: Iterable[tuple[str, TaskUsage | None]]) -> dict[str, TaskUsage]:
    """Return what the tasks of each agent took together, where it is known."""
    tasks: dict[str, list[TaskUsage]] = {}
    for agent_id, usage in usages:
        if usage:
            tasks.setdefault(agent_id, []).append(usage)
    return {agent_id: total for agent_id, known in sorted(tasks.items()) if (total := sum_usage(known))}


def usage_of(row: StandingRow | TaskPageRow) -> TaskUsage | None:
    """Return what all attempts at a task used together; None when nothing was counted."""
    if not (row.seconds or row.tokens or row.cost_usd or row.tool_calls):
        return None
    return {
        "duration_s": round(row.seconds, 3),
        "tokens": row.tokens,
        "cost_usd": row.cost_usd,
        "tool_calls": row.tool_calls,
    }


async def read_progress(deps: Deps, plan_id: str, names: Iterable[str]) -> PlanProgress:
    """Return how far a plan has come, and the tasks of these names. Raises UsageError when there is no such plan."""
    store = await board_of(deps, plan_id)
    rows = await store.read(RUN_COUNTS, plan_id=plan_id)
    if not rows:
        hint = "'agenttalk status' lists all"
        raise UsageError(Code.NAME_UNKNOWN, f"the engine runs no plan {plan_id[:80]!r}", hint=hint)
    state, still_open, completed, failed, skipped = rows[0]
    found = [
        task_status_of(row)
        for name in dict.fromkeys(names)
        for row in await store.read(TASK_STANDING, plan_id=plan_id, task_id=name.replace("\0", ""))
    ]
    [(unproven,)] = await store.read(UNPROVEN_IN, plan_id=plan_id)
    [(unisolated,)] = await store.read(UNISOLATED_IN, plan_id=plan_id)
    left = count_open_tasks(plan_id, still_open)
    counts: PlanCounts = {
        "open": left,
        "completed": completed,
        "failed": failed,
        "skipped": skipped,
        "unproven": unproven,
        "not_isolated": unisolated,
    }
    return {"plan_id": plan_id, "state": state, "counts": counts, "tasks": found}


async def read_status_overview(deps: Deps, *, plan_id: str | None = None) -> StatusOverview:
    """Return the status of every plan, or of one."""
    found = [(board, row) for board in await list_boards(deps) for row in await board.read(PLANS)]
    return {"plans": [await _stand(board, row) for board, row in found if plan_id in {None, row.plan_id}]}


async def _stand(board: Store, row: PlanRow) -> PlanOverview:
    plan_id, origin, dag_sha256, _, halted, sent, delivered, superseded, duplicate, dead = row
    [(in_flight,)] = await board.read(IN_FLIGHT, plan_id=plan_id)
    runs = await board.read(RUN, plan_id=plan_id)
    endless = origin == "virtual" and bool(runs)  # its tasks are listed page by page elsewhere
    tasks = [] if endless else await board.read(TASKS_OF, plan_id=plan_id)
    reasons: dict[str, str] = {} if endless else dict(await board.read(FAILURES_OF, plan_id=plan_id))
    ends = bool(runs) and not endless
    review = await dag_reviews.read_latest_committed(board, plan_id) if ends else None
    release = await releases.read_latest_committed(board, plan_id) if ends else None
    stands = await board.read(STANDINGS, plan_id=plan_id) if ends else []
    taken = {each.task_id: usage_of(each) for each in stands}
    fresh = {each.task_id: bool(each.fresh) for each in stands}
    believed = {each.task_id for each in stands if each.unproven}
    isolated = {each.task_id: is_isolated(each.state, each.unisolated) for each in stands}
    held = [denials.to_json(each) for each in await board.read(OBJECTIONS_IN, plan_id=plan_id)] if ends else []
    overview: PlanOverview = {
        "plan_id": plan_id,
        "board": board.name,
        "origin": origin,
        "halted": halted,
        "dag_sha256": dag_sha256,
        "messages": {
            "sent": sent,
            "delivered": delivered,
            "superseded": superseded,
            "duplicate": duplicate,
            "dead": dead,
            "in_flight": in_flight,
        },
        "usage": sum_usage(taken.values()),
        "usage_by_agent": sum_usage_by_agent((each.agent_id, taken[each.task_id]) for each in stands),
        "gates": held,
        "questions": [row.request_id for row in await board.read(OPEN_REQUESTS_IN, plan_id=plan_id)],
        "state": runs[0].state if ends else None,
        "tasks": [
            _task(
                row,
                fresh=fresh.get(row.task_id) if runs else None,
                believed=row.task_id in believed,
                reason=reasons.get(row.task_id),
                isolated=isolated.get(row.task_id),
                usage=taken.get(row.task_id),
            )
            for row in tasks
        ],
    }
    if review:
        overview["review"] = review.as_json()
    if release:
        overview["release"] = release.as_json()
    return overview


def _task(
    row: PlanTaskRow,
    *,
    fresh: bool | None,
    believed: bool,
    reason: str | None,
    isolated: bool | None,
    usage: TaskUsage | None,
) -> TaskSummary:
    """A task. What an agent of a foreign plan says of itself is its claim; of its own plans the engine saw more.

    `fresh` says whether what the engine saw still holds; None when it saw nothing. `believed` is what is done by its
    agent's word alone.
    """
    done = row.state == "COMPLETED"
    return {
        "task_id": row.task_id,
        "agent_id": row.agent_id,
        "state": row.state,
        "board": board_status(row.state),
        "freshness": ("fresh" if fresh else "stale") if done and fresh is not None else None,
        "trust": ("claimed" if fresh is None or believed else "observed") if done else None,
        "updated_at": row.updated_at,
        "attempt": row.attempt,
        "missing": read_missing(row.missing),
        "request_id": row.request_id,
        "reason": reason,
        "isolated": isolated,
        "usage": usage,
    }


def read_missing(data: Any) -> list[Any]:
    """Return the inputs that a task waits for, as its row stores them."""
    missing = wire.read(bytes(data)) if data else []
    return missing if isinstance(missing, list) else [missing]
