"""Passes of the parts of a running engine that a caller asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.engine.inbox.supervisor import HeartbeatSupervisor
from agenttalk.engine.messages.router import Router
from agenttalk.engine.operation.monitor import Monitor
from agenttalk.engine.operation.passes import PassReport, PassRunner


@dataclass(frozen=True, slots=True)
class RequestedPasses:
    """Runs one pass of the router, the monitor or a heartbeat. Raises MachineError while the engine starts or ends."""

    router: Router
    monitor: Monitor
    heartbeats: HeartbeatSupervisor
    turn: asyncio.Lock
    """Is held while the router or the monitor moves files."""
    routed: Callable[[], None]
    """Is called after a pass of the router that moved something."""
    is_running: Callable[[], bool]

    def runners(self) -> Mapping[str, PassRunner]:
        """Return the passes by the names of their parts."""
        return {"route": self._route, "monitor": self._monitor, "heartbeat": self._heartbeat}

    async def _route(self, _: str | None) -> PassReport:
        self._require_running()
        async with self.turn:
            report = await self.router.run_once()
        if not report.idle:
            self.routed()
        return report

    async def _monitor(self, _: str | None) -> PassReport:
        self._require_running()
        async with self.turn:
            return await self.monitor.pass_()

    async def _heartbeat(self, agent_id: str | None) -> PassReport:
        self._require_running()
        if agent_id is None:
            raise UsageError(
                Code.FIELD_MISSING, "the agent is missing", hint="name the agent whose heartbeat shall run"
            )
        tick = await self.heartbeats.pass_(agent_id)
        if tick is None:
            self._require_running()
            raise MachineError(Code.ENGINE_UNREACHABLE, f"the heartbeat of {agent_id} failed", hint="try again")
        return tick

    def _require_running(self) -> None:
        if not self.is_running():
            raise MachineError(Code.ENGINE_UNREACHABLE, "the engine is starting or ending", hint="try again")
