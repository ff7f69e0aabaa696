"""Who may merge into a plan's branch: everybody, unless somebody is at work who conflicted with others before."""

from __future__ import annotations

import asyncio


class MergeTurns:
    """Lets those through who merge. Whoever holds it conflicts with nobody: the others wait until it is let go."""

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}
        self._freed: dict[str, asyncio.Event] = {}

    def is_open(self, plan: str, who: str) -> bool:
        """Whether nobody else holds that of a plan."""
        return self._holders.get(plan, who) == who

    async def wait_turn(self, plan: str, who: str) -> None:
        """Wait until nobody else holds it."""
        while not self.is_open(plan, who):
            await self._freed.setdefault(plan, asyncio.Event()).wait()

    async def hold(self, plan: str, who: str) -> None:
        """Hold it from now on, once nobody else does."""
        await self.wait_turn(plan, who)
        self._holders[plan] = who

    def let_go(self, plan: str, who: str) -> None:
        """Let the others through, if this one held it."""
        if self._holders.get(plan) == who:
            del self._holders[plan]
            freed = self._freed.pop(plan, None)
            if freed is not None:
                freed.set()
