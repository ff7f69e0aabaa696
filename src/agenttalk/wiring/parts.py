"""Runs one part without an engine: router, heartbeat or monitor, on any tree, once or as a loop.

Each holds the root's lock shared, so that they run beside each other but never beside an engine, and a lock
of its own, so that there is one router and one heartbeat per agent. Loops wake up by event; the poll is the
safety net.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from agenttalk import wiring
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.mailbox.watch import FolderWatcher, open_watcher
from agenttalk.adapters.store.root_lock import PartLock, RootLock
from agenttalk.contracts.core.root_layout import Box
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.loops import WakeSource
from agenttalk.engine.core.profiles import profile_of
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.engine.messages.router import POLL, Router, RouterReport
from agenttalk.engine.operation.monitor import Monitor, MonitorReport
from agenttalk.wiring import settings

_INBOX: Final[tuple[Box, ...]] = ("inbox",)
_OUTBOX: Final[tuple[Box, ...]] = ("outbox",)

R = TypeVar("R")
Tell = Callable[[R], None]


@asynccontextmanager
async def open_part(root: Path, name: str) -> AsyncIterator[Deps]:
    """Open a root for one part: locked, swept of litter, closed in the end."""
    configured = settings.load(root)
    if configured.store_url:
        message = f"the parts on their own work with SQLite only, and the store of {root} is PostgreSQL"
        hint = "start 'agenttalk serve': beside it they send what they are asked for to it"
        raise UsageError(Code.STORE_INCOMPATIBLE, message, hint=hint)
    with RootLock.acquire(root, "part"), PartLock.acquire(root, name):
        async with wiring.open_configured_root(root, configured) as deps:
            await asyncio.to_thread(wiring.sweep_root, root)
            yield deps


async def run_router(root: Path, tell: Tell[RouterReport], *, stop: asyncio.Event | None = None) -> None:
    """Route the messages in the outboxes: one pass, or with `stop` until it is set."""
    async with open_part(root, "route") as deps:
        router = Router(deps)
        if stop is None:
            tell(await router.run_once())
            return
        async with open_watcher(FolderWatcher(root, boxes=_OUTBOX, plans=True)) as wake:
            await run_loop(stop, wake, router.pass_, tell, pause=lambda report: report.pause)


async def run_monitor(root: Path, tell: Tell[MonitorReport], *, stop: asyncio.Event | None = None) -> None:
    """Publish the status of all plans: one pass, or with `stop` until it is set."""
    async with open_part(root, "monitor") as deps:
        watcher = Monitor(deps)
        if stop is None:
            tell(await watcher.pass_())
            return
        async with open_watcher(FolderWatcher(root, boxes=(), plans=True)) as wake:
            await run_loop(stop, wake, watcher.pass_, tell, pause=lambda _: POLL)


async def run_heartbeat(
    root: Path, agent_id: str, tell: Tell[TickReport], *, stop: asyncio.Event | None = None
) -> None:
    """Work an agent's inbox: until nothing is left to do now, or with `stop` until it is set."""
    async with open_part(root, f"heartbeat-{agent_id}") as deps, wiring.agent_api(deps, root) as api:
        processes = LocalProcesses()
        profile = partial(profile_of, deps, agent_id, settings.load(root).profile_of)
        beat = Heartbeat(deps, agent_id, ScriptDriver(processes), processes, api, environ=os.environ, profile=profile)
        if stop is None:
            tell(await beat.run_once())
            return
        async with open_watcher(FolderWatcher(root, boxes=_INBOX, plans=False, agents=(agent_id,))) as wake:
            await beat.run(stop, wake, tell)


async def run_loop(
    stop: asyncio.Event,
    wake: WakeSource,
    step: Callable[[], Awaitable[R]],
    tell: Tell[R],
    *,
    pause: Callable[[R], float],
) -> None:
    """Do a step now, and again whenever something changed or the pause is over, until `stop` is set."""
    stopped = asyncio.create_task(stop.wait())
    try:
        while not stop.is_set():
            done = await step()
            tell(done)
            changed = asyncio.create_task(wake.wait_for_change(pause(done)))
            await asyncio.wait({stopped, changed}, return_when=asyncio.FIRST_COMPLETED)
            if not changed.done():
                changed.cancel()
                with suppress(asyncio.CancelledError):
                    await changed
    finally:
        stopped.cancel()
