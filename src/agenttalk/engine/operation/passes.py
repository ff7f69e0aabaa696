"""Passes of the router, a heartbeat or the monitor that a caller asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.engine.messages.router import RouterReport
from agenttalk.engine.operation.monitor import MonitorReport

PassReport: TypeAlias = RouterReport | MonitorReport | TickReport
"""The report of a pass of the router, the monitor or a heartbeat."""
PassRunner: TypeAlias = Callable[[str | None], Awaitable[PassReport]]
"""Runs a pass of a part, for an agent if one is named, and returns its report."""


class Passes:
    """The parts of a process that can be asked for a pass."""

    def __init__(self, runners: Mapping[str, PassRunner]) -> None:
        self._runners = runners

    async def run(self, part: str, agent: str | None) -> PassReport:
        """Run one pass of a part, and return its report. Raises UsageError when there is no such part."""
        if part not in self._runners:
            near = find_nearest(part, self._runners)
            known = ", ".join(sorted(self._runners)) or "none here"
            hint = f"did you mean {near!r}?" if near else f"there are: {known}"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no part {part[:80]!r}", hint=hint)
        return await self._runners[part](agent)
