"""Shows the whole root at a glance, and its agents: questions, work, failures, costs, and how many claims held."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.profiles import list_agents
from agenttalk.engine.people import questions
from agenttalk.engine.proof import honesty
from agenttalk.engine.views import plans, toolchain
from agenttalk.engine.views.models.plans import PlanSummary
from agenttalk.engine.views.plans import PlanQuery
from agenttalk.ports.statements.agents import QUEUED_FOR
from agenttalk.ports.statements.core import COUNTED_OPEN, NEWEST_FACT
from agenttalk.ports.statements.messages import VIEWS_UNDER
from agenttalk.ports.statements.views import AT_WORK, QUEUE_LENGTHS, RECENT_TURNS, TROUBLED_TASKS
from agenttalk.ports.storage import Store
from agenttalk.rules.proof.honesty import NOTHING, HonestyTally
from agenttalk.rules.text.catalogue import read_column

PLANS: Final = 10
"""Plans that are shown."""
REQUESTS: Final = 20
"""Questions that are shown."""
TROUBLES: Final = 50
"""Tasks of each sort that are shown."""
_LOOKED_AT: Final = 25
"""Plans that are looked at for tasks that cannot go on: so many that are open, and so many that began last."""
_WINDOW: Final = 5_000
"""So many facts back turns are looked at."""
_TURNS: Final = 500
_IDLE: Final = frozenset({"asking", "offered", "awaiting"})
"""Phases in which nobody works: a person is asked, or an agent elsewhere has yet to take it."""


async def build_overview(deps: Deps) -> dict[str, Any]:
    """What needs somebody, what runs, what fails, and how far claims could be believed."""
    found = await list_boards(deps)
    recent = (await plans.list_plans(deps, PlanQuery(limit=_LOOKED_AT)))["plans"]
    troubled = await _troubled(deps, recent)
    today = deps.stamp()[:10]
    board = await toolchain.summarize_board(deps)
    counted = [(await store.read(COUNTED_OPEN))[0] for store in found]
    return {
        "requests": (await questions.read_page(deps, limit=REQUESTS)).requests,
        "waiting_for_people": sum(asked for asked, _ in counted),
        "held": [each for each in troubled if each["cause"] == "SOFT_DENIED" and not each["request_id"]],
        "running": [each for each in await list_running_tasks(deps) if each["phase"] not in _IDLE],
        "failing": [each for each in troubled if each["state"] == "FAILED"][:TROUBLES],
        "waiting": [each for each in troubled if each["state"] == "BLOCKED_WAITING_INPUT"][:TROUBLES],
        "plans": recent[:PLANS],
        "more_plans": len(recent) > PLANS,
        "honesty": await honesty.sum_tallies(deps),
        "cost_today": sum([await _cost(store, today) for store in found]),
        "deadletters": sum(dead for _, dead in counted),
        **({"toolchain": board} if board is not None else {}),
        "broken": dict(deps.broken),
    }


async def _troubled(deps: Deps, recent: list[PlanSummary]) -> list[dict[str, Any]]:
    """Tasks that cannot go on by themselves: of plans that are open, and of those that ended badly of late."""
    still_open = (await plans.list_plans(deps, PlanQuery(state="open", limit=_LOOKED_AT)))["plans"]
    ended = [each for each in recent if each["state"] == "ENDED" and each["counts"]["failed"]]
    found: list[dict[str, Any]] = []
    for run in (*still_open, *ended):
        store = await deps.stores.board(run["board"])
        rows = await store.read(TROUBLED_TASKS, plan_id=run["plan_id"], limit=TROUBLES)
        found += [
            {
                "task_id": row.task_id,
                "agent_id": row.agent_id,
                "state": row.state,
                "cause": row.cause,
                "reason": read_column(row.reason, row.reason_message),
                "request_id": row.request_id,
                "updated_at": row.updated_at,
                "plan_id": run["plan_id"],
            }
            for row in rows
        ]
    return found


async def _cost(store: Store, today: str) -> float:
    """What was spent on a board today, as far as turns told it."""
    [(newest,)] = await store.read(NEWEST_FACT)
    spent = 0.0
    for _, at, body in await store.read(RECENT_TURNS, after=max(0, newest - _WINDOW), limit=_TURNS):
        if at.startswith(today):
            told: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
            spent += (told.get("usage") or {}).get("cost_usd") or 0
    return spent


async def describe_agents(deps: Deps) -> list[dict[str, Any]]:
    """Everybody who works or has worked here, by name."""
    names = set(await asyncio.to_thread(list_agents, deps.root)) - {root_layout.GATEWAY}
    believed = await honesty.read_agent_tallies(deps)
    now: dict[str, list[dict[str, Any]]] = {}
    queued: dict[str, int] = {}
    health: dict[str, Any] = {}
    for task in await list_running_tasks(deps):
        now.setdefault(task.pop("agent_id"), []).append(task)
    for store in await list_boards(deps):
        for agent_id, number in await store.read(QUEUE_LENGTHS):
            queued[agent_id] = queued.get(agent_id, 0) + number
        for path, body in await store.read(VIEWS_UNDER, first="agent_status/", last="agent_status0"):
            health[path.removeprefix("agent_status/").removesuffix(".json")] = wire.read(bytes(body)) if body else None
    names |= believed.keys() | now.keys() | queued.keys()
    return [
        _agent(name, now.get(name, []), queued.get(name, 0), health.get(name), believed.get(name, (NOTHING, {})))
        for name in sorted(names)
    ]


async def list_running_tasks(deps: Deps) -> list[dict[str, Any]]:
    """Every task that somebody has taken and not ended yet."""
    keys = ("plan_id", "task_id", "agent_id", "state", "phase", "attempt", "since")
    return [
        {"board": store.name, **dict(zip(keys, row, strict=True))}
        for store in await list_boards(deps)
        for row in await store.read(AT_WORK)
    ]


def _agent(
    name: str,
    now: list[dict[str, Any]],
    queued: int,
    status: dict[str, Any] | None,
    believed: tuple[HonestyTally, dict[str, HonestyTally]],
) -> dict[str, Any]:
    tally, models = believed
    said = tally.as_json()
    used = {key: said.pop(key) for key in ("turns", "tokens", "cost_usd", "seconds", "cost_per_proven")}
    return {
        "agent_id": name,
        "health": (status or {}).get("health"),
        "last_heartbeat": (status or {}).get("last_heartbeat"),
        "current": now,
        "queued": queued,
        "honesty": said,
        "usage": used,
        "by_model": [{"model": model, **each.as_json()} for model, each in models.items()],
    }


async def describe_agent(deps: Deps, agent_id: str) -> dict[str, Any]:
    """One of them, and the tasks that wait in its queue. Raises UsageError when there is none."""
    found = next((each for each in await describe_agents(deps) if each["agent_id"] == agent_id), None)
    if found is None:
        raise UsageError(Code.NAME_UNKNOWN, f"there is no agent {agent_id[:80]!r}", hint="'GET /api/agents' lists them")
    queue = [
        {"board": store.name, "plan_id": plan_id, "task_id": task_id, "priority": priority}
        for store in await list_boards(deps)
        for plan_id, task_id, priority in await store.read(QUEUED_FOR, agent_id=agent_id, limit=100)
    ]
    return {**found, "queue": queue}
