"""The limit of the day for the doors: read and change it."""

from __future__ import annotations

from agenttalk.engine.budgets import day_limit
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.runs.dispatcher import Dispatcher


class DayBudget:
    """The spending limit of a day: the limit of the settings, unless a person set another."""

    def __init__(self, deps: Deps, dispatcher: Dispatcher | None, configured: float | None) -> None:
        self._deps = deps
        self._dispatcher = dispatcher
        self.configured = configured
        """The limit of the settings; None where they set none."""

    def configure(self, cost_usd: float | None) -> None:
        """Use another limit of the settings from now on."""
        self.configured = cost_usd

    async def read(self) -> day_limit.DayView:
        """Return what was spent today, and the limit."""
        return await day_limit.describe_day(self._deps, self.configured)

    async def set_limit(self, cost_usd: float | None, *, by: str, reset: bool = False) -> day_limit.DayView:
        """Set the limit, remove it, or `reset` it to that of the settings."""
        await (day_limit.reset(self._deps, by=by) if reset else day_limit.set_limit(self._deps, cost_usd, by=by))
        if self._dispatcher is not None:
            await self._dispatcher.days.refresh()
            self._dispatcher.nudge()
        return await self.read()
