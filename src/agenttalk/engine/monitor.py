"""The monitor: publishes where plans and agents stand, and tells people what does not add up."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

from agenttalk.contracts import places, wire
from agenttalk.contracts.record import StatusHeartbeat
from agenttalk.engine import objections, publish, records, releases, reviews
from agenttalk.engine.deps import Deps
from agenttalk.engine.plans import Plans, boards
from agenttalk.engine.router import conserve
from agenttalk.engine.standing import by_agent, together, usage_of
from agenttalk.errors import AgentTalkError
from agenttalk.ports import Folder, Store, Tx
from agenttalk.rules.lifecycle import board_status

STALE: Final = timedelta(seconds=90)
"""A heartbeat that is older than three slow polls is a bad sign."""
_LIMIT: Final = 64 * 1024


@dataclass(slots=True)
class Watchlist:
    """What a pass of the monitor saw."""

    plans: dict[str, dict[str, int]] = field(default_factory=dict)
    """Plan → state → number of tasks."""
    agents: dict[str, str] = field(default_factory=dict)
    """Agent → health."""
    lost: int = 0
    """Messages that nobody can account for."""
    problems: list[dict[str, str]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


class Monitor:
    """Watches a root. Never changes what became of a message or a task."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._plans = Plans(deps)
        self._shown: publish.Seen = {}

    async def pass_(self) -> Watchlist:
        """Look at everything once and publish it."""
        seen = Watchlist()
        await self._plans.refresh()
        for board in await boards(self._deps):
            await self._look(board, seen)
        await self._agents(seen)
        for board in await boards(self._deps):
            try:
                await publish.publish(self._deps, board)
            except AgentTalkError as error:
                seen.problems.append({"code": str(error.code), "message": error.message, "hint": error.hint})
        return seen

    async def _look(self, board: Store, seen: Watchlist) -> None:
        for plan_id, origin, *_ in await board.read("plans"):
            lost = await conserve(board, plan_id, self._deps.stamp())
            seen.lost += abs(lost)
            if plan_id in self._deps.kinds and origin == "virtual":
                continue  # a board's own run never ends, so that counting its tasks would take ever longer
            if await board.read("counted_tasks", plan_id=plan_id):
                seen.plans[plan_id] = dict(await board.read("counted_tasks", plan_id=plan_id))
            await publish.status(self._deps, board, plan_id, self._shown)

    async def _agents(self, seen: Watchlist) -> None:
        board = (await boards(self._deps))[0]
        now = self._deps.now()
        for agent_id in sorted(self._plans.agents):
            status = await asyncio.to_thread(_heartbeat, self._deps.root, agent_id)
            if status is None or status.agent_id != agent_id:
                continue
            age = max(timedelta(0), now - status.last_heartbeat)
            stale = max(STALE, timedelta(seconds=9 * self._deps.limits.poll_seconds))
            health = "CRITICAL" if age > stale else status.health
            seen.agents[agent_id] = health
            body = {**status.as_json(), "health": health}
            await board.transact(partial(_show_agent, agent_id=agent_id, body=body))


def _show_agent(tx: Tx, agent_id: str, body: dict[str, Any]) -> None:
    records.show(tx, f"agent_status/{agent_id}.json", body)


def _heartbeat(root: Folder, agent_id: str) -> StatusHeartbeat | None:
    """An agent's sign of life, if it left one that can be read."""
    try:
        return StatusHeartbeat.from_bytes(root.read(f"{places.agent(agent_id)}/{places.HEARTBEAT}", _LIMIT))
    except AgentTalkError:
        return None


async def overview(deps: Deps, *, plan_id: str | None = None) -> dict[str, Any]:
    """Where everything stands, for people and programs."""
    found = [(board, row) for board in await boards(deps) for row in await board.read("plans")]
    return {"plans": [await _stand(board, row) for board, row in found if plan_id in {None, row[0]}]}


async def _stand(board: Store, row: tuple[Any, ...]) -> dict[str, Any]:
    plan_id, origin, dag_sha256, _, halted, sent, delivered, superseded, duplicate, dead = row
    [(in_flight,)] = await board.read("in_flight", plan_id=plan_id)
    runs = await board.read("run", plan_id=plan_id)
    endless = origin == "virtual" and bool(runs)  # its tasks are listed page by page elsewhere
    tasks = [] if endless else await board.read("tasks_of", plan_id=plan_id)
    reasons: dict[str, str] = {} if endless else dict(await board.read("failures_of", plan_id=plan_id))
    ends = bool(runs) and not endless
    review = await reviews.last(board, plan_id) if ends else None
    release = await releases.last(board, plan_id) if ends else None
    stands = await board.read("standings", plan_id=plan_id) if ends else []
    taken = {each[0]: usage_of(each) for each in stands}
    fresh = {each[0]: bool(each[7]) for each in stands}
    believed = {each[0] for each in stands if each[20]}
    held = [objections.shown(each) for each in await board.read("objections_in", plan_id=plan_id)] if ends else []
    return {
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
        "usage": together(taken.values()),
        "usage_by_agent": by_agent((each[1], taken[each[0]]) for each in stands),
        "gates": held,
        **({"review": review.as_json()} if review else {}),
        **({"release": release.as_json()} if release else {}),
        "tasks": [
            {
                **_task(row, fresh=fresh.get(row[0]) if runs else None, believed=row[0] in believed),
                "reason": reasons.get(row[0]),
                "usage": taken.get(row[0]),
            }
            for row in tasks
        ],
    }


def _task(row: tuple[Any, ...], *, fresh: bool | None, believed: bool) -> dict[str, Any]:
    """A task. What an agent of a foreign plan says of itself is its claim; of its own plans the engine saw more.

    `fresh` says whether what the engine saw still holds; None when it saw nothing. `believed` is what is done by its
    agent's word alone.
    """
    task_id, agent_id, state, updated_at, _, _, attempt, _, missing, request_id, _, _ = row
    done = state == "COMPLETED"
    return {
        "task_id": task_id,
        "agent_id": agent_id,
        "state": state,
        "board": board_status(state),
        "freshness": ("fresh" if fresh else "stale") if done and fresh is not None else None,
        "trust": ("claimed" if fresh is None or believed else "observed") if done else None,
        "updated_at": updated_at,
        "attempt": attempt,
        "missing": wire.read(bytes(missing)) if missing else [],
        "request_id": request_id,
    }
