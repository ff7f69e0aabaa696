"""The agents of a root: how they are, what they do, what waits for them, what they cost, how far to believe them."""

from __future__ import annotations

import asyncio
from typing import Any

from agenttalk.contracts import places, wire
from agenttalk.engine import honesty
from agenttalk.engine.deps import Deps
from agenttalk.engine.plans import agents_in, boards
from agenttalk.errors import Code, UsageError
from agenttalk.rules.honesty import NOTHING, Tally


async def agents(deps: Deps) -> list[dict[str, Any]]:
    """Everybody who works or has worked here, by name."""
    await honesty.count(deps, most=honesty.AT_ONCE)
    names = set(await asyncio.to_thread(agents_in, deps.root)) - {places.GATEWAY}
    believed = await honesty.of_agents(deps)
    now: dict[str, list[dict[str, Any]]] = {}
    queued: dict[str, int] = {}
    health: dict[str, Any] = {}
    for task in await at_work(deps):
        now.setdefault(task.pop("agent_id"), []).append(task)
    for store in await boards(deps):
        for agent_id, number in await store.read("queue_lengths"):
            queued[agent_id] = queued.get(agent_id, 0) + number
        for path, body in await store.read("views_under", first="agent_status/", last="agent_status0"):
            health[path.removeprefix("agent_status/").removesuffix(".json")] = wire.read(bytes(body)) if body else None
    names |= believed.keys() | now.keys() | queued.keys()
    return [
        _agent(name, now.get(name, []), queued.get(name, 0), health.get(name), believed.get(name, (NOTHING, {})))
        for name in sorted(names)
    ]


async def at_work(deps: Deps) -> list[dict[str, Any]]:
    """Every task that somebody has taken and not ended yet."""
    keys = ("plan_id", "task_id", "agent_id", "state", "phase", "attempt", "since")
    return [
        {"board": store.name, **dict(zip(keys, row, strict=True))}
        for store in await boards(deps)
        for row in await store.read("at_work")
    ]


def _agent(
    name: str,
    now: list[dict[str, Any]],
    queued: int,
    status: dict[str, Any] | None,
    believed: tuple[Tally, dict[str, Tally]],
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


async def agent(deps: Deps, agent_id: str) -> dict[str, Any]:
    """One of them, and the tasks that wait in its queue. Raises UsageError when there is none."""
    found = next((each for each in await agents(deps) if each["agent_id"] == agent_id), None)
    if found is None:
        raise UsageError(Code.NAME_UNKNOWN, f"there is no agent {agent_id[:80]!r}", hint="'GET /api/agents' lists them")
    queue = [
        {"board": store.name, "plan_id": plan_id, "task_id": task_id, "priority": priority}
        for store in await boards(deps)
        for plan_id, task_id, priority in await store.read("queued_for", agent_id=agent_id, limit=100)
    ]
    return {**found, "queue": queue}
