"""Reloads the settings of a running engine when an operator asks for it, because agents may write the file."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

from agenttalk.engine.core import boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.engine import Engine
from agenttalk.engine.operation.service import ReloadReport
from agenttalk.wiring import settings
from agenttalk.wiring.settings import Settings
from agenttalk.wiring.settings.changes import find_changes

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class SettingsReloader:
    """The settings of an engine: those it started with, and those that apply now."""

    root: Path
    deps: Deps
    started: Settings
    holds: Settings

    async def reload(self, engine: Engine, by: str) -> ReloadReport:
        """Read the settings, and apply what can be applied now. Raises AgentTalkError when they are wrong."""
        read = await asyncio.to_thread(settings.load, self.root)
        live, restart = find_changes(self.holds, read).live, find_changes(self.started, read).restart
        self.deps.secret_guard.register_values(read.read_secrets(self.root))
        self.holds = read
        self.deps.operator.words = read.isolation_words
        if live:
            logging.getLogger().setLevel(read.log.level.upper())
            limits = read.limits
            await engine.configure(
                read.profile_of,
                max_running=limits.max_running,
                day_cost_usd=limits.cost_usd_per_day,
                schedules=read.schedules,
            )
        told: ReloadReport = {"changed": list(live), "needs_restart": list(restart)}
        system = await self.deps.stores.board(boards.SYSTEM)
        await system.transact(lambda tx: tx.record("settings.read", "settings", {"by": by, **told}))
        LOG.info("settings were read again: %s", told, extra={"action": "engine.settings"})
        return told
