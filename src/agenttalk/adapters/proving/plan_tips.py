"""The tips of plans' branches: the store says which commit is the tip, and the branches in repositories follow it."""

from __future__ import annotations

import asyncio

from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.ports.proof import TipStore
from agenttalk.ports.storage import Clock
from agenttalk.rules.proof.performance import TipMove


class PlanTips:
    """Keeps the branches of plans where their tips are."""

    def __init__(self, store: TipStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._settling: dict[str, asyncio.Lock] = {}
        """By plan."""

    async def settle(self, space: PlanWorkspace) -> str:
        """Bring the branch of a plan to its tip, and return the tip.

        A commit that no task made becomes the tip first. The plan begins here if it has not begun.
        """
        async with self._settling.setdefault(space.plan, asyncio.Lock()):
            while True:
                tip = await self._store.find_tip(space.plan)
                if tip is None:
                    await self._store.begin_tip(space.plan, await space.ensure())
                    continue
                now = await space.follow(tip, at=self._clock.now())
                if now == tip:
                    return tip
                await self._store.take_tip(space.plan, TipMove(tip, now))
