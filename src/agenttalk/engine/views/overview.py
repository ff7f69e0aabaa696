"""Shows the overview of a root and its agents: questions, work, failures, costs, and how many claims held."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.profiles import list_agents
from agenttalk.engine.people import questions
from agenttalk.engine.proof import honesty
from agenttalk.engine.views import plans, toolchain
from agenttalk.engine.views.models.plans import PlanSummary
from agenttalk.engine.views.models.root import (
    AgentDetail,
    AgentSummary,
    QueuedTask,
    RootOverview,
    RunningTask,
    TroubledTask,
)
from agenttalk.engine.views.plans import PlanQuery
from agenttalk.ports.statements.agents import QUEUED_FOR
from agenttalk.ports.statements.core import COUNTED_OPEN, NEWEST_FACT
from agenttalk.ports.statements.messages import VIEWS_UNDER
from agenttalk.ports.statements.views import AT_WORK, QUEUE_LENGTHS, RECENT_TURNS, TROUBLED_TASKS
from agenttalk.ports.storage import Store
from agenttalk.rules.proof.honesty import NOTHING, HonestyTally
from agenttalk.rules.text.catalogue import read_column

PLANS: Final = 10
"""How many plans are shown."""
REQUESTS: Final = 20
"""How many questions are shown."""
TROUBLES: Final = 50
"""How many tasks of each sort are shown."""
_EXAMINED: Final = 25
"""How many open plans, and how many of the newest plans, are searched for tasks that cannot go on."""
_WINDOW: Final = 5_000
"""How many facts back turns are searched for."""
_TURNS: Final = 500
_QUEUED: Final = 100
_IDLE: Final = frozenset({"asking", "offered", "awaiting"})
"""Phases in which no agent works: a person is asked, or a remote agent has yet to take the task."""

_USAGE: Final = ("turns", "tokens", "cost_usd", "seconds", "cost_per_proven")
"""The usage of an agent, apart from what it claimed."""


async def build_overview(deps: Deps) -> RootOverview:
    """Build the overview of a root: what waits for a person, what runs, what fails, and how many claims held."""
    stores = await list_boards(deps)
    recent = (await plans.list_plans(deps, PlanQuery(limit=_EXAMINED)))["plans"]
    troubled = await _list_troubled_tasks(deps, recent)
    today = deps.stamp()[:10]
    board = await toolchain.summarize_board(deps)
    counted = [(await store.read(COUNTED_OPEN))[0] for store in stores]
    overview: RootOverview = {
        "requests": (await questions.read_page(deps, limit=REQUESTS)).requests,
        "waiting_for_people": sum(requests for requests, _ in counted),
        "held": [task for task in troubled if task["cause"] == "SOFT_DENIED" and not task["request_id"]],
        "running": [task for task in await list_running_tasks(deps) if task["phase"] not in _IDLE],
        "failing": [task for task in troubled if task["state"] == "FAILED"][:TROUBLES],
        "waiting": [task for task in troubled if task["state"] == "BLOCKED_WAITING_INPUT"][:TROUBLES],
        "plans": recent[:PLANS],
        "more_plans": len(recent) > PLANS,
        "honesty": await honesty.sum_tallies(deps),
        "cost_today": sum([await _sum_cost(store, today) for store in stores]),
        "deadletters": sum(dead for _, dead in counted),
        "broken": dict(deps.broken),
    }
    if board is not None:
        overview["toolchain"] = board
    return overview


async def _list_troubled_tasks(deps: Deps, recent: list[PlanSummary]) -> list[TroubledTask]:
    """List tasks that cannot go on by themselves, of open plans and of plans that failed recently."""
    still_open = (await plans.list_plans(deps, PlanQuery(state="open", limit=_EXAMINED)))["plans"]
    failed = [plan for plan in recent if plan["state"] == "ENDED" and plan["counts"]["failed"]]
    return [
        {
            "plan_id": plan["plan_id"],
            "task_id": row.task_id,
            "agent_id": row.agent_id,
            "state": row.state,
            "cause": row.cause,
            "reason": read_column(row.reason, row.reason_message),
            "request_id": row.request_id,
            "updated_at": row.updated_at,
        }
        for plan in (*still_open, *failed)
        for row in await (await deps.stores.board(plan["board"])).read(
            TROUBLED_TASKS, plan_id=plan["plan_id"], limit=TROUBLES
        )
    ]


async def _sum_cost(store: Store, today: str) -> float:
    """Return the cost of a board's turns today, as far as the turns reported it."""
    newest = (await store.read(NEWEST_FACT))[0].newest
    cost = 0.0
    for row in await store.read(RECENT_TURNS, after=max(0, newest - _WINDOW), limit=_TURNS):
        if row.at.startswith(today):
            body: Any = wire.read(bytes(row.body), limit=wire.DOCUMENT_LIMIT)
            cost += (body.get("usage") or {}).get("cost_usd") or 0
    return cost


async def describe_agents(deps: Deps) -> list[AgentSummary]:
    """Describe every agent that works or has worked in a root, by name."""
    names = set(await asyncio.to_thread(list_agents, deps.root)) - {root_layout.GATEWAY}
    tallies = await honesty.read_agent_tallies(deps)
    current: dict[str, list[RunningTask]] = {}
    queued: dict[str, int] = {}
    health: dict[str, Any] = {}
    for task in await list_running_tasks(deps):
        current.setdefault(task["agent_id"], []).append(task)
    for store in await list_boards(deps):
        for length in await store.read(QUEUE_LENGTHS):
            queued[length.agent_id] = queued.get(length.agent_id, 0) + length.tasks
        for view in await store.read(VIEWS_UNDER, first="agent_status/", last="agent_status0"):
            name = view.path.removeprefix("agent_status/").removesuffix(".json")
            health[name] = wire.read(bytes(view.body)) if view.body else None
    names |= tallies.keys() | current.keys() | queued.keys()
    return [
        _describe_agent(
            name, current.get(name, []), queued.get(name, 0), health.get(name), tallies.get(name, (NOTHING, {}))
        )
        for name in sorted(names)
    ]


async def list_running_tasks(deps: Deps) -> list[RunningTask]:
    """List the tasks that an agent has taken and not ended yet."""
    return [
        {
            "board": store.name,
            "plan_id": row.plan_id,
            "task_id": row.task_id,
            "agent_id": row.agent_id,
            "state": row.state,
            "phase": row.phase,
            "attempt": row.attempt,
            "since": row.leased_at,
        }
        for store in await list_boards(deps)
        for row in await store.read(AT_WORK)
    ]


def _describe_agent(
    name: str,
    current: list[RunningTask],
    queued: int,
    status: JsonObject | None,
    tallies: tuple[HonestyTally, dict[str, HonestyTally]],
) -> AgentSummary:
    total, by_model = tallies
    tally = total.as_json()
    return {
        "agent_id": name,
        "health": (status or {}).get("health"),
        "last_heartbeat": (status or {}).get("last_heartbeat"),
        "current": current,
        "queued": queued,
        "honesty": {name: count for name, count in tally.items() if name not in _USAGE},
        "usage": {name: tally[name] for name in _USAGE},
        "by_model": [{"model": model, **tally.as_json()} for model, tally in by_model.items()],
    }


async def describe_agent(deps: Deps, agent_id: str) -> AgentDetail:
    """Describe an agent and the tasks in its queue. Raises UsageError when there is no such agent."""
    agent = next((agent for agent in await describe_agents(deps) if agent["agent_id"] == agent_id), None)
    if agent is None:
        hint = "'GET /api/agents' lists agents"
        raise UsageError(Code.NAME_UNKNOWN, f"there is no agent {agent_id[:80]!r}", hint=hint)
    queue: list[QueuedTask] = [
        {"board": store.name, "plan_id": row.plan_id, "task_id": row.task_id, "priority": row.priority}
        for store in await list_boards(deps)
        for row in await store.read(QUEUED_FOR, agent_id=agent_id, limit=_QUEUED)
    ]
    return {**agent, "queue": queue}
