"""Which attempt may merge into a plan's branch: any, unless one that conflicted before has the turn."""

from __future__ import annotations

import asyncio


class MergeTurns:
    """Gives an attempt after a conflict the only turn to merge. The others wait, so it cannot conflict again."""

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}
        self._freed: dict[str, asyncio.Event] = {}

    def is_open(self, plan: str, lease: str) -> bool:
        """Return whether no other lease holds the plan's turn."""
        return self._holders.get(plan, lease) == lease

    async def wait_turn(self, plan: str, lease: str) -> None:
        """Wait until no other lease holds the turn."""
        while not self.is_open(plan, lease):
            await self._freed.setdefault(plan, asyncio.Event()).wait()

    async def hold(self, plan: str, lease: str) -> None:
        """Wait for the turn, and hold it."""
        await self.wait_turn(plan, lease)
        self._holders[plan] = lease

    def let_go(self, plan: str, lease: str) -> None:
        """Free the turn, if this lease holds it."""
        if self._holders.get(plan) == lease:
            del self._holders[plan]
            freed = self._freed.pop(plan, None)
            if freed is not None:
                freed.set()
