"""What people look at: everything at a glance, plans with their lines, agents, the ledger and deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from agenttalk.contracts import places, wire
from agenttalk.contracts.base import moment
from agenttalk.contracts.dag import TaskDag
from agenttalk.engine import human, monitor, showing, standing
from agenttalk.engine.deps import Deps
from agenttalk.engine.plans import SYSTEM, VIRTUAL, agents_in, board_of, boards
from agenttalk.errors import Code, UsageError
from agenttalk.ports import Store
from agenttalk.rules.timeline import Span

MOST_PLANS: Final = 50
TROUBLES: Final = 50
_WINDOW: Final = 5_000
"""So many facts back turns are looked at."""
_TURNS: Final = 500
LEDGER_PAGE: Final = 100
_TOP: Final = 2**62
_IDLE: Final = frozenset({"asking", "offered"})
"""Phases in which nobody works: a person is asked, or an agent elsewhere has yet to take it."""
_NOT_SO: Final = frozenset({"NOT_FULFILLED", "REWORK_EXHAUSTED", "GATE_UNMET"})
"""Why a turn that its agent called finished was not."""


@dataclass(slots=True)
class Record:
    """What an agent said and did of late."""

    agent_id: str
    turns: int = 0
    claimed: int = 0
    """Turns that it called finished."""
    refuted: int = 0
    """Those of them that were not."""
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    now: list[dict[str, Any]] = field(default_factory=list)
    queued: int = 0
    health: str | None = None
    last_at: str | None = None

    @property
    def honesty(self) -> float | None:
        """The part of its claims that held; None when it made none."""
        return 1 - self.refuted / self.claimed if self.claimed else None


async def overview(deps: Deps) -> dict[str, Any]:
    """What needs somebody, what runs, what fails, and how far claims could be believed of late."""
    found = await boards(deps)
    runs = await plans(deps)
    troubled = [
        {**each, "plan_id": run["plan_id"]}
        for run in runs
        if run["state"] != "ENDED" or run["failed"]
        for each in await _troubles(await deps.stores.board(run["board"]), run["plan_id"])
    ]
    records = await agents(deps)
    today = deps.stamp()[:10]
    costs = [await _cost(store, today) for store in found]
    dead = sum([(await store.read("counted_open"))[0][1] for store in found])
    return {
        "requests": await human.requests(deps),
        "held": [each for each in troubled if each["cause"] == "SOFT_DENIED"],
        "running": [task for record in records for task in record.now if task["phase"] not in _IDLE],
        "failing": [each for each in troubled if each["state"] == "FAILED"][:TROUBLES],
        "waiting": [each for each in troubled if each["state"] == "BLOCKED_WAITING_INPUT"][:TROUBLES],
        "plans": runs[:MOST_PLANS],
        "claimed": sum(each.claimed for each in records),
        "refuted": sum(each.refuted for each in records),
        "cost_today": sum(costs),
        "deadletters": dead,
        **(await showing.overview(deps)),
        "broken": dict(deps.broken),
    }


async def plans(deps: Deps) -> list[dict[str, Any]]:
    """Plans, those that began last first; plans that only lie in folders come after them."""
    keys = ("plan_id", "state", "open", "completed", "failed", "skipped", "began_at", "ended_at")
    found: list[dict[str, Any]] = []
    foreign: list[dict[str, Any]] = []
    for store in await boards(deps):
        rows = await store.read("runs_page", limit=1_000)
        runs = [{**dict(zip(keys, row, strict=True)), "board": store.name, "origin": "engine"} for row in rows]
        known = {each["plan_id"] for each in runs}
        found += [each for each in runs if each["plan_id"] not in VIRTUAL]
        for plan_id, origin, *_ in await store.read("plans"):
            if origin == "foreign" and plan_id not in known:
                foreign.append(await _foreign(store, plan_id))
    found.sort(key=lambda each: each["began_at"], reverse=True)
    return found + foreign


async def _foreign(store: Store, plan_id: str) -> dict[str, Any]:
    counts: dict[str, int] = dict(await store.read("counted_tasks", plan_id=plan_id))
    closed = {name: counts.get(name, 0) for name in ("COMPLETED", "FAILED", "SKIPPED")}
    return {
        "plan_id": plan_id,
        "board": store.name,
        "origin": "foreign",
        "state": "FOREIGN",
        "open": sum(counts.values()) - sum(closed.values()),
        **{name.lower(): number for name, number in closed.items()},
        "began_at": None,
        "ended_at": None,
    }


async def _troubles(store: Store, plan_id: str) -> list[dict[str, Any]]:
    keys = ("task_id", "agent_id", "state", "cause", "reason", "request_id", "updated_at")
    rows = await store.read("troubled_tasks", plan_id=plan_id, limit=TROUBLES)
    return [dict(zip(keys, row, strict=True)) for row in rows]


async def _cost(store: Store, today: str) -> float:
    """What was spent on a board today, as far as turns told it."""
    return float(sum(_usage(each, "cost_usd") for at, each in await _turns(store) if at.startswith(today)))


async def _turns(store: Store) -> list[tuple[str, dict[str, Any]]]:
    [(newest,)] = await store.read("newest_fact")
    rows = await store.read("recent_turns", after=max(0, newest - _WINDOW), limit=_TURNS)
    found: list[tuple[str, dict[str, Any]]] = []
    for _, at, body in rows:
        told: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
        found.append((at, told))
    return found


def _usage(turn: dict[str, Any], name: str) -> Any:
    return (turn.get("usage") or {}).get(name) or 0


async def agents(deps: Deps) -> list[Record]:
    """Everybody who works or has worked here, by name."""
    records: dict[str, Record] = {name: Record(name) for name in sorted(agents_in(deps.root)) if name != places.GATEWAY}
    for store in await boards(deps):
        for at, turn in await _turns(store):
            told = turn.get("ack", {}).get("consumer_agent_id")
            if told:
                _count(records.setdefault(told, Record(told)), turn, at)
        for plan_id, task_id, agent_id, state, phase, attempt, since, _ in await store.read("tasks_at_work"):
            record = records.setdefault(agent_id, Record(agent_id))
            task = {"plan_id": plan_id, "task_id": task_id, "agent_id": agent_id, "state": state, "phase": phase}
            record.now.append({**task, "attempt": attempt, "since": since, "board": store.name})
        for agent_id, number in await store.read("queued_tasks"):
            records.setdefault(agent_id, Record(agent_id)).queued += number
    health = await _health(deps)
    for record in records.values():
        record.health = health.get(record.agent_id)
    return sorted(records.values(), key=lambda each: each.agent_id)


async def _health(deps: Deps) -> dict[str, str]:
    store = (await boards(deps))[0]
    found: dict[str, str] = {}
    for path, body in await store.read("views_under", first="agent_status/", last="agent_status0"):
        told: Any = wire.read(bytes(body)) if body else {}
        found[path.removeprefix("agent_status/").removesuffix(".json")] = str(told.get("health", ""))
    return found


def _count(record: Record, turn: dict[str, Any], at: str) -> None:
    record.turns += 1
    record.seconds += _usage(turn, "duration_s")
    record.tokens += _usage(turn, "tokens")
    record.cost_usd += _usage(turn, "cost_usd")
    record.last_at = max(record.last_at or "", at)
    believed = (turn.get("verdict") or {}).get("trust") == "claimed"  # nobody looked, so it shows nothing
    if turn.get("how") == "finished" and turn.get("cause") in _NOT_SO | {"FULFILLED"} and not believed:
        record.claimed += 1
        record.refuted += turn["cause"] in _NOT_SO


async def plan(deps: Deps, plan_id: str) -> dict[str, Any]:
    """A plan with the lines between its tasks, and when what was done. Raises UsageError when there is none."""
    store = await board_of(deps, plan_id)
    if await store.read("run_state", plan_id=plan_id):
        found = (await standing.of(deps, plan_id)).as_json()
        edges = await store.read("plan_edges", plan_id=plan_id)
    else:
        found = await _lying_there(deps, store, plan_id)
        [(data, _, _)] = await store.read("plan_documents", plan_id=plan_id)
        dag = TaskDag.from_bytes(bytes(data)) if data else None
        edges = [(one, node.task_id) for node in (dag.nodes if dag else ()) for one in node.depends_on]
    rows = await store.read("orders_of_plan", plan_id=plan_id)
    spans = [
        Span(task_id, moment(begin), moment(end) if end else None, (ack or "").lower() or "running")
        for task_id, _, begin, end, ack in rows
    ]
    return {**found, "board_name": store.name, "edges": [tuple(each) for each in edges], "spans": spans}


async def _lying_there(deps: Deps, store: Store, plan_id: str) -> dict[str, Any]:
    """A plan that the engine does not run."""
    known = (await monitor.overview(deps, plan_id=plan_id))["plans"]
    if not known:
        raise UsageError(Code.NAME_UNKNOWN, f"there is no plan {plan_id[:80]!r}", hint="'agenttalk status' lists all")
    told = {"phase": None, "cause": None, "score": None, "retries": 0, "reexecutions": 0, "since": None}
    tasks = [{**told, **each} for each in known[0]["tasks"]]
    counts = await _foreign(store, plan_id)
    shown = {name: counts[name] for name in ("open", "completed", "failed", "skipped")}
    return {
        **known[0],
        "state": "FOREIGN",
        "result": "foreign",
        "counts": {**shown, "running": 0},
        "began_at": None,
        "ended_at": None,
        "closing": None,
        "tasks": tasks,
    }


async def ledger(
    deps: Deps, board: str, *, before: int = 0, plan_id: str = "", kind: str = "", limit: int = LEDGER_PAGE
) -> dict[str, Any]:
    """Facts of a board, the newest first, and from where the next page goes on."""
    names = [store.name for store in await boards(deps)] + [SYSTEM]
    if board not in names:
        raise UsageError(Code.NAME_UNKNOWN, f"there is no board {board[:80]!r}", hint=f"there are: {', '.join(names)}")
    store = await deps.stores.board(board)
    top, found = before or _TOP, list[dict[str, Any]]()
    for _ in range(20):
        rows = await store.read("facts_before", before=top, after=0, limit=limit)
        found += [each for each in _facts(rows) if _fits(each, plan_id, kind)]
        top = rows[-1][0] if len(rows) == limit else 0
        if not top or len(found) >= limit:
            break
    return {"facts": found, "next": top or None, "boards": names}


def _facts(rows: Iterable[tuple[Any, ...]]) -> Iterable[dict[str, Any]]:
    for seq, link, at, kind, subject, body, digest in rows:
        shown = bytes(body).decode("utf-8", "replace")
        sealed = bytes(digest).hex() if digest else None
        yield {"seq": seq, "link": link, "at": at, "kind": kind, "subject": subject, "body": shown, "hash": sealed}


def _fits(fact: dict[str, Any], plan_id: str, kind: str) -> bool:
    return (not plan_id or plan_id in fact["subject"].split("/")) and (not kind or fact["kind"].startswith(kind))


async def webhooks(deps: Deps, *, before: int = 0, limit: int = 100) -> dict[str, Any]:
    """Deliveries of forges, the newest first, and from where the next page goes on."""
    system = await deps.stores.board(SYSTEM)
    keys = ("id", "source", "kind", "delivery", "event", "sha256", "received_at", "state", "outcome")
    rows = await system.read("webhook_page", before=before or _TOP, limit=limit)
    found = [dict(zip(keys, row, strict=True)) for row in rows]
    return {"webhooks": found, "next": rows[-1][0] if len(rows) == limit else None}
