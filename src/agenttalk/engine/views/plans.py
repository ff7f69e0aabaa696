"""Lists plans with their graphs, tasks, messages and facts, page by page, and names the repository of a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.dag import Node, TaskDag
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine.core import boards, cursors, records
from agenttalk.engine.core.boards import VIRTUAL, board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_status import TaskView, describe_status
from agenttalk.engine.plans.versions import files_of
from agenttalk.engine.views import plan_status
from agenttalk.engine.views.models.plans import (
    AckPage,
    ArtifactPage,
    ArtifactSummary,
    CommandProgress,
    DeliveryPage,
    GraphEdge,
    PlanDetail,
    PlanGraph,
    PlanPage,
    PlanSummary,
    RepositorySummary,
)
from agenttalk.engine.views.models.tasks import TaskPage
from agenttalk.ports.statements.core import FACTS_OF, TASK_STATUSES, TaskStatusRow
from agenttalk.ports.statements.messages import PLAN, PLAN_DOCUMENTS, PLAN_MANIFEST
from agenttalk.ports.statements.plans import NODES_OF, RUN_STATE
from agenttalk.ports.statements.proof import TIP
from agenttalk.ports.statements.views import (
    FOREIGN_PLAN_PAGE,
    OPEN_PLAN_PAGE,
    ORDERS_OF_PLAN,
    PLAN_ACKS,
    PLAN_ARTIFACTS,
    PLAN_EDGES,
    PLAN_PAGE,
    ForeignPlanRow,
    OrderTimesRow,
    PlanAckRow,
    PlanArtifactRow,
    RunPageRow,
)
from agenttalk.ports.storage import Store
from agenttalk.rules.core import turn_times
from agenttalk.rules.plans import timeline
from agenttalk.rules.plans.timeline import TimelineSpan

PAGE: Final = 100
LONGEST_PAGE: Final = 500
LOOKED_AT: Final = 5_000
"""How many rows one request examines; the next page goes on from there."""
STATES: Final = ("open", "submitted", "running", "paused", "ended", "foreign")
"""States by which plans can be searched."""
_OPEN: Final = frozenset(STATES[:4])
_TOP: Final = ("9999", "")
_LAST: Final = "\U0010ffff"
_NO_END: Final = {
    "_toolchain": "'GET /api/toolchain/tasks' lists its tasks",
    "_mail": "'GET /api/mail' lists letters",
}


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """A search for plans. Empty fields match every plan."""

    state: str = ""
    board: str = ""
    text: str = ""
    """A text that their names contain."""
    after: str = ""
    """Where the previous page ended."""
    limit: int = PAGE

    @property
    def size(self) -> int:
        """How many plans one page has."""
        return max(1, min(self.limit, LONGEST_PAGE))


@dataclass(frozen=True, slots=True)
class _PlanCursor:
    """The place at which a page of plans ended: plans that the engine runs come first, by when they began."""

    began_at: str
    plan_id: str
    foreign: bool = False

    def __str__(self) -> str:
        return cursors.encode([self.began_at, self.plan_id, self.foreign])


async def list_plans(deps: Deps, asked: PlanQuery) -> PlanPage:
    """List plans, the newest first, then foreign plans, and where the next page begins."""
    if asked.state and asked.state not in STATES:
        near = find_nearest(asked.state, STATES)
        hint = f"did you mean {near!r}?" if near else f"use one of: {', '.join(STATES)}"
        raise UsageError(Code.FIELD_VALUE, f"unknown plan state {asked.state[:40]!r}", hint=hint)
    stores = await _boards(deps, asked.board)
    place: _PlanCursor | None = _place(asked.after)
    found: list[PlanSummary] = []
    seen = 0
    while place is not None and len(found) < asked.size and seen < LOOKED_AT:
        rows, place = await _next(stores, asked, place)
        seen += len(rows) or 1
        found += [row for row in rows if _fits(row, asked)]
    return {"plans": found, "next": str(place) if place is not None else None}


async def _boards(deps: Deps, board: str) -> list[Store]:
    stores = [each for each in await boards.list_boards(deps) if each.name not in VIRTUAL | deps.kinds.keys()]
    if not board:
        return stores
    named = [each for each in stores if each.name == board]
    if not named:
        hint = f"there are: {', '.join(each.name for each in stores)}"
        raise UsageError(Code.NAME_UNKNOWN, f"there is no board {board[:80]!r} with plans", hint=hint)
    return named


async def _next(
    stores: Sequence[Store], asked: PlanQuery, place: _PlanCursor
) -> tuple[list[PlanSummary], _PlanCursor | None]:
    """Return the next plans in order, and the place behind them; None at the end."""
    limit = asked.size
    if place.foreign:
        rows = [
            await _summarize_foreign_plan(store, row)
            for store in stores
            for row in await store.read(FOREIGN_PLAN_PAGE, plan_id=place.plan_id, limit=limit)
        ]
        rows = sorted(rows, key=lambda each: str(each["plan_id"]), reverse=True)[:limit]
        return rows, _PlanCursor("", rows[-1]["plan_id"], foreign=True) if len(rows) == limit else None
    statement = OPEN_PLAN_PAGE if asked.state in _OPEN else PLAN_PAGE
    rows = [
        await _summarize_run(store, row)
        for store in stores
        for row in await store.read(statement, began_at=place.began_at, plan_id=place.plan_id, limit=limit)
    ]
    rows = sorted(rows, key=lambda plan: (plan["began_at"] or "", plan["plan_id"]), reverse=True)[:limit]
    if len(rows) == limit:
        return rows, _PlanCursor(rows[-1]["began_at"] or "", rows[-1]["plan_id"])
    return rows, _PlanCursor("", _LAST, foreign=True) if asked.state in {"", "foreign"} else None


def _place(text: str) -> _PlanCursor:
    if not text:
        return _PlanCursor(*_TOP)
    match cursors.decode(text):
        case [str() as began_at, str() as plan_id, bool() as foreign]:
            return _PlanCursor(began_at.replace("\0", ""), plan_id.replace("\0", ""), foreign)
        case _:
            raise cursors.make_cursor_error()


async def _summarize_run(store: Store, row: RunPageRow) -> PlanSummary:
    counts = await plan_status.count_tasks(store, row.plan_id, row)
    return {
        "plan_id": row.plan_id,
        "board": store.name,
        "origin": "engine",
        "state": row.state,
        "halted": None,
        "result": await plan_status.find_result(store, row.plan_id, row.state, counts),
        "counts": counts,
        "began_at": row.began_at,
        "ended_at": row.ended_at,
    }


async def _summarize_foreign_plan(store: Store, row: ForeignPlanRow) -> PlanSummary:
    return {
        "plan_id": row.plan_id,
        "board": store.name,
        "origin": "foreign",
        "state": "FOREIGN",
        "halted": row.halted,
        "result": "foreign",
        "counts": await plan_status.count_foreign_tasks(store, row.plan_id),
        "began_at": None,
        "ended_at": None,
    }


def _fits(row: PlanSummary, asked: PlanQuery) -> bool:
    state = row["state"].lower()
    wanted = state in _OPEN if asked.state == "open" else asked.state in {"", state}
    return wanted and asked.text.lower() in row["plan_id"].lower()


async def find_plan_board(deps: Deps, plan_id: str, *, ends: bool = True) -> Store:
    """Return the board of a plan. Raises UsageError when there is no such plan.

    With `ends`, a board that never ends does not count as a plan.
    """
    if ends and plan_id in VIRTUAL | deps.kinds.keys():
        hint = _NO_END.get(plan_id, "list its tasks instead")
        raise UsageError(Code.NAME_UNKNOWN, f"{plan_id} is a board that never ends, not a plan", hint=hint)
    if plan_id in VIRTUAL and not deps.stores.has_board(plan_id):
        raise _unknown(plan_id)
    store = await board_of(deps, plan_id)
    if not await store.read(PLAN, plan_id=plan_id):
        raise _unknown(plan_id)
    return store


def _unknown(plan_id: str) -> UsageError:
    return UsageError(Code.NAME_UNKNOWN, f"there is no plan {plan_id[:80]!r}", hint="'agenttalk status' lists all")


async def describe_plan(deps: Deps, plan_id: str, stale: Collection[str] = ()) -> PlanDetail:
    """Return a plan with the edges between its tasks, and the times of its commands.

    `stale` names tasks that were found stale, which is not stored yet.
    """
    store = await find_plan_board(deps, plan_id)
    status = await plan_status.read_plan_status(deps, plan_id, stale)
    edges = await _edges(store, plan_id, await _nodes(store, plan_id) if status["origin"] == "foreign" else ())
    rows = await store.read(ORDERS_OF_PLAN, plan_id=plan_id)
    return {**status, "edges": edges, "spans": [_span(row) for row in rows]}


def _span(row: OrderTimesRow) -> TimelineSpan:
    end = parse_instant(row.finished_at) if row.finished_at else None
    begin = parse_instant(row.consumed_at)
    times = turn_times.read_turn_times(wire.read(row.times.encode())) if row.times else {}
    waits = timeline.find_waits(times, end)
    return TimelineSpan(row.task_id, begin, end, (row.ack or "").lower() or "running", waits)


async def describe_graph(deps: Deps, plan_id: str, stale: Collection[str] = ()) -> PlanGraph:
    """Return the tasks of a plan with their states, and the edges between them."""
    store = await find_plan_board(deps, plan_id)
    nodes = await _nodes(store, plan_id)
    edges = await _edges(store, plan_id, nodes)
    lines: list[GraphEdge] = [{"from": source, "to": target, "kind": "depends"} for source, target in edges]
    lines += [line for node in nodes for line in _called(node)]
    tasks = [task for task in await _all_tasks(store, plan_id, stale) if task["cause"] != "REMOVED"]
    return {"plan_id": plan_id, "nodes": tasks, "edges": lines}


async def _edges(store: Store, plan_id: str, nodes: Sequence[Node]) -> list[tuple[str, str]]:
    """Return which task waits for which. Of a foreign plan only its DAG shows it."""
    rows = await store.read(PLAN_EDGES, plan_id=plan_id)
    if not rows and not await store.read(RUN_STATE, plan_id=plan_id):
        return [(one, node.task_id) for node in nodes for one in node.depends_on]
    return [(row.task_id, row.dependant) for row in rows]


async def _nodes(store: Store, plan_id: str) -> list[Node]:
    rows = await store.read(NODES_OF, plan_id=plan_id)
    if rows:
        return [Node.model_validate_json(bytes(data)) for _, data in rows]
    documents = await store.read(PLAN_DOCUMENTS, plan_id=plan_id)
    return list(TaskDag.from_bytes(bytes(documents[0].dag)).nodes) if documents and documents[0].dag else []


def _called(node: Node) -> Iterable[GraphEdge]:
    """Yield the edges to tasks that run only by the score or the failure of a task."""
    for branch in node.gates.branches if node.gates else ():
        for task_id in branch.activate:
            yield {"from": node.task_id, "to": task_id, "kind": "branch", "when": branch.when}
    if node.failure_policy is not None and node.failure_policy.fallback_task_id:
        yield {"from": node.task_id, "to": node.failure_policy.fallback_task_id, "kind": "fallback"}


async def _all_tasks(store: Store, plan_id: str, stale: Collection[str]) -> list[TaskView]:
    rows: list[TaskStatusRow] = []
    while page := await store.read(
        TASK_STATUSES, plan_id=plan_id, task_id=rows[-1].task_id if rows else "", limit=LOOKED_AT
    ):
        rows += page
        if len(page) < LOOKED_AT:
            break
    return [describe_status(row, stale) for row in rows]


async def list_tasks(
    deps: Deps,
    plan_id: str,
    stale: Collection[str] = (),
    *,
    state: str = "",
    agent_id: str = "",
    after: str = "",
    limit: int = PAGE,
) -> TaskPage:
    """List tasks of a plan by name. `state` is a state, or the word in which people see it."""
    store = await find_plan_board(deps, plan_id, ends=False)
    size = max(1, min(limit, LONGEST_PAGE))
    shown: list[TaskView] = []
    seen, last = 0, after.replace("\0", "")
    while seen < LOOKED_AT:
        rows = await store.read(TASK_STATUSES, plan_id=plan_id, task_id=last, limit=size)
        for row in rows:
            last, seen = row.task_id, seen + 1
            task = describe_status(row, stale)
            if agent_id in {"", task["agent_id"]} and state.lower() in {"", task["state"].lower(), task["board"]}:
                shown.append(task)
                if len(shown) == size:
                    return {"tasks": shown, "next": last}
        if len(rows) < size:
            return {"tasks": shown, "next": None}
    return {"tasks": shown, "next": last}


async def list_deliveries(deps: Deps, plan_id: str, *, after: int = 0, limit: int = PAGE) -> DeliveryPage:
    """List the lines of a plan's journal: the deliveries of its messages."""
    store = await find_plan_board(deps, plan_id, ends=False)
    size = max(1, min(limit, LONGEST_PAGE))
    rows = await store.read(FACTS_OF, subject=records.journal_subject(plan_id), after=after, limit=size)
    lines: list[Any] = [wire.read(line) for row in rows for line in records.read_journal_lines(bytes(row.body))]
    return {"deliveries": lines, "next": rows[-1].seq if len(rows) == size else None}


async def list_acks(deps: Deps, plan_id: str, *, after: int = 0, limit: int = PAGE) -> AckPage:
    """List the commands of a plan, and how far each receiver came: stored, injected, acted, and the receipt."""
    store = await find_plan_board(deps, plan_id)
    size = max(1, min(limit, LONGEST_PAGE))
    rows = await store.read(PLAN_ACKS, plan_id=plan_id, after=after, limit=size)
    acks = [_describe_progress(row) for row in rows]
    return {"acks": acks, "next": rows[-1].id if len(rows) == size else None}


def _describe_progress(row: PlanAckRow) -> CommandProgress:
    return {
        "message_id": row.message_id,
        "task_id": row.task_id,
        "command_id": row.command_id,
        "command_seq": row.seq,
        "consumer_agent_id": row.receiver,
        "state": row.state,
        "status": row.ack,
        "stored_at": row.stored_at,
        "injected_at": row.injected_at,
        "acted_at": row.acted_at,
        "consumed_at": row.consumed_at,
        "finished_at": row.finished_at,
        "details": row.details,
        "prompt_sha256": row.prompt_sha256,
    }


async def list_artifacts(deps: Deps, plan_id: str, *, after: int = 0, limit: int = PAGE) -> ArtifactPage:
    """List every version of the outputs of a plan, with the hashes of its files."""
    store = await find_plan_board(deps, plan_id)
    size = max(1, min(limit, LONGEST_PAGE))
    rows = await store.read(PLAN_ARTIFACTS, plan_id=plan_id, after=after, limit=size)
    return {"artifacts": [_describe_artifact(row) for row in rows], "next": rows[-1].id if len(rows) == size else None}


def _describe_artifact(row: PlanArtifactRow) -> ArtifactSummary:
    return {
        "message_id": row.message_id,
        "task_id": row.task_id,
        "output_name": row.output_name,
        "seq": row.seq,
        "agent_id": row.producer,
        "state": row.state,
        "at": row.accepted_at,
        "files": [
            {"path": file.path, "sha256": file.sha256, "size_bytes": file.size_bytes}
            for file in files_of(bytes(row.envelope))
        ],
    }


async def describe_repository(deps: Deps, plan_id: str) -> RepositorySummary:
    """Return the repository of a plan, and what its clones share. Raises UsageError when the plan has none."""
    store = await board_of(deps, plan_id)
    rows = await store.read(PLAN_MANIFEST, plan_id=plan_id)
    manifest = rows[0].manifest if rows else None
    workspace = PlanManifest.model_validate_json(bytes(manifest)).workspace if manifest else None
    if workspace is None:
        raise UsageError(
            Code.NAME_UNKNOWN,
            f"plan {plan_id!r} has no repository",
            hint="a plan file names its repository as workspace.repo",
        )
    tips = await store.read(TIP, plan_id=plan_id)
    tip = tips[0].commit_id if tips else ""
    return {"repo": workspace.repo, "base": workspace.base, "link": list(workspace.link), "tip": tip}
