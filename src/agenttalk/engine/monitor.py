"""The monitor: publishes where plans and agents stand, and tells people what does not add up."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

from agenttalk.contracts import places
from agenttalk.contracts.record import StatusHeartbeat
from agenttalk.engine import publish, records
from agenttalk.engine.boards import boards
from agenttalk.engine.deps import Deps
from agenttalk.engine.plans import Plans
from agenttalk.engine.router import conserve
from agenttalk.errors import AgentTalkError
from agenttalk.ports import Folder, Store, Tx

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
