"""Everything at a glance: what needs somebody, what runs, what fails, what was spent, and how far to believe claims."""

from __future__ import annotations

from typing import Any, Final

from agenttalk.contracts import wire
from agenttalk.engine import crew, honesty, human, plan_showing, showing
from agenttalk.engine.deps import Deps
from agenttalk.engine.plan_showing import Asked
from agenttalk.engine.plans import boards
from agenttalk.ports import Store

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


async def overview(deps: Deps) -> dict[str, Any]:
    """What needs somebody, what runs, what fails, and how far claims could be believed."""
    found = await boards(deps)
    recent = (await plan_showing.listed(deps, Asked(limit=_LOOKED_AT)))["plans"]
    troubled = await _troubled(deps, recent)
    today = deps.stamp()[:10]
    counted = [(await store.read("counted_open"))[0] for store in found]
    return {
        "requests": (await human.page(deps, limit=REQUESTS)).requests,
        "waiting_for_people": sum(asked for asked, _ in counted),
        "held": [each for each in troubled if each["cause"] == "SOFT_DENIED" and not each["request_id"]],
        "running": [each for each in await crew.at_work(deps) if each["phase"] not in _IDLE],
        "failing": [each for each in troubled if each["state"] == "FAILED"][:TROUBLES],
        "waiting": [each for each in troubled if each["state"] == "BLOCKED_WAITING_INPUT"][:TROUBLES],
        "plans": recent[:PLANS],
        "more_plans": len(recent) > PLANS,
        "honesty": await honesty.total(deps),
        "cost_today": sum([await _cost(store, today) for store in found]),
        "deadletters": sum(dead for _, dead in counted),
        **(await showing.overview(deps)),
        "broken": dict(deps.broken),
    }


async def _troubled(deps: Deps, recent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tasks that cannot go on by themselves: of plans that are open, and of those that ended badly of late."""
    still_open = (await plan_showing.listed(deps, Asked(state="open", limit=_LOOKED_AT)))["plans"]
    ended = [each for each in recent if each["state"] == "ENDED" and each["counts"]["failed"]]
    keys = ("task_id", "agent_id", "state", "cause", "reason", "request_id", "updated_at")
    found: list[dict[str, Any]] = []
    for run in (*still_open, *ended):
        store = await deps.stores.board(run["board"])
        rows = await store.read("troubled_tasks", plan_id=run["plan_id"], limit=TROUBLES)
        found += [{**dict(zip(keys, row, strict=True)), "plan_id": run["plan_id"]} for row in rows]
    return found


async def _cost(store: Store, today: str) -> float:
    """What was spent on a board today, as far as turns told it."""
    [(newest,)] = await store.read("newest_fact")
    spent = 0.0
    for _, at, body in await store.read("recent_turns", after=max(0, newest - _WINDOW), limit=_TURNS):
        if at.startswith(today):
            told: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
            spent += (told.get("usage") or {}).get("cost_usd") or 0
    return spent
