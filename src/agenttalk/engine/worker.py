"""A heartbeat as an engine has it: its looks can be asked for, and the settings say what holds for its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agenttalk.contracts.agent import AgentProfile
from agenttalk.engine.heartbeat import Heartbeat, Tick
from agenttalk.errors import AgentTalkError


class Worker(Heartbeat):
    """A heartbeat whose looks can also be asked for while its loop runs: they never overlap.

    `profile` reads what holds for the agent, settings included.
    """

    def __init__(self, *arguments: Any, profile: Callable[[], AgentProfile], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._read_profile = profile
        self._alone = asyncio.Lock()
        self._followers: list[asyncio.Queue[Tick]] = []

    async def tick(self) -> Tick:
        """Look once, alone, and tell everybody who follows what was done."""
        async with self._alone:
            tick = await super().tick()
        for each in self._followers:
            each.put_nowait(tick)
        return tick

    async def pass_(self) -> Tick:
        """Look until nothing is left to do now, turns included; what all looks did meanwhile."""
        looks: asyncio.Queue[Tick] = asyncio.Queue()
        self._followers.append(looks)
        total = Tick()
        try:
            await self.tick()
            while True:
                tick = await looks.get()
                total.add(tick)
                if looks.empty() and not tick.running:
                    if not tick.worked:
                        return total
                    await self.tick()
        finally:
            self._followers.remove(looks)

    async def _profile(self, tick: Tick) -> AgentProfile | None:
        try:
            profile = await asyncio.to_thread(self._read_profile)
        except AgentTalkError:
            return await super()._profile(tick)  # which says what is wrong with it
        return await self._driven(profile, tick)
