"""An agent's sign of life: `status_heartbeat.json`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.core.base import write_time
from agenttalk.contracts.record import StatusHeartbeat
from agenttalk.engine.core.deps import Deps


class StatusFile:
    """Writes the file when something changed, and at least once in each interval."""

    def __init__(self, deps: Deps, agent_id: str) -> None:
        self._deps = deps
        self._agent_id = agent_id
        self._began = time.monotonic()
        self._last_error: str | None = None
        self._told: tuple[Any, ...] = ()
        self._told_at = float("-inf")

    async def write_status(
        self, status: str, plans: Sequence[str], tasks: Sequence[str], errors: Sequence[str], interval: float
    ) -> None:
        """Write the agent's status, plans, tasks and last error, if they changed or the interval is over."""
        if errors:
            self._last_error = errors[-1].encode("utf-8", "backslashreplace").decode()
        health = "WARNING" if errors else "HEALTHY"
        told = (status, health, list(plans), list(tasks), self._last_error)
        now = time.monotonic()
        if told == self._told and now - self._told_at < interval:
            return
        document = StatusHeartbeat.from_json(
            {
                "agent_id": self._agent_id,
                "last_heartbeat": write_time(self._deps.now()),
                "health": health,
                "status": status,
                "current_plan_ids": list(plans),
                "current_task_ids": list(tasks),
                "uptime_seconds": int(now - self._began),
                "last_error": self._last_error,
            }
        )
        path = f"{root_layout.agent_folder(self._agent_id)}/{root_layout.HEARTBEAT}"
        await asyncio.to_thread(self._deps.root.write, path, document.to_bytes() + b"\n")
        self._told, self._told_at = told, now
