"""Assembles and runs the engine of a root until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.mailbox.watch import FolderWatcher, open_watcher
from agenttalk.adapters.store import audit, operator_folder
from agenttalk.adapters.store.ledger_heads import read_heads
from agenttalk.adapters.store.root import RootStores
from agenttalk.adapters.store.root_lock import RootLock, running_engine
from agenttalk.contracts.core.large_documents import spare_existing_objects
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.doors.api.server import ServerAddresses
from agenttalk.engine.core import access
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.fleet.check_leases import CheckLeases
from agenttalk.engine.operation.engine import Engine, EngineOptions
from agenttalk.engine.operation.service import ChainVerification, EngineTools
from agenttalk.engine.operation.sessions import FIRST_LINK
from agenttalk.engine.operation.trace_export import TraceExporter
from agenttalk.engine.toolchain.loops import ForgeConnections
from agenttalk.ports.agents import Performer
from agenttalk.ports.forge import Forge
from agenttalk.wiring import forge_sources, telemetry
from agenttalk.wiring.forges import connect_forges
from agenttalk.wiring.garbage_collection import GarbageCollector
from agenttalk.wiring.http_door import engine_api
from agenttalk.wiring.machine import measure_start
from agenttalk.wiring.notices import make_notifier
from agenttalk.wiring.provers import make_prover
from agenttalk.wiring.reload import SettingsReloader
from agenttalk.wiring.root import open_configured_root, sweep_root
from agenttalk.wiring.schedules import make_scheduler
from agenttalk.wiring.settings import Settings

LOG = logging.getLogger(__name__)
EngineJob: TypeAlias = "Callable[[Engine], Coroutine[None, None, None]]"
"""The job of an engine that ends with it."""
LOCKED: Final = 2.0
"""How long an engine that starts waits for commands that hold the root, in seconds."""
GUARD: Final = 1.0
"""Seconds between two checks that the state still exists."""
LAST_WORD: Final = 5.0
"""Seconds for the last notices and spans of an engine that ran a single plan."""


async def serve(
    root: Path,
    settings: Settings,
    *,
    stop: asyncio.Event,
    tell: Callable[[ServerAddresses], None] = lambda _: None,
    port: int | None = None,
    name: str = "operator",
    job: EngineJob | None = None,
    performers: Callable[[Deps], Mapping[str, Performer]] = lambda _: {},
) -> None:
    """Run the engine of a root until `stop` is set. `tell` is called once it listens; its pages open for `name`.

    With a `job`, the engine ends with the job. `performers` carry out tasks of agents that are not programs, by
    driver. Raises ENGINE_RUNNING when an engine or parts run already.
    """
    # A single plan listens to no forge, and asks only those whose token is at hand.
    listened = settings if job is None else settings.model_copy(update={"sources": {}})
    sources = forge_sources.make_sources(root, listened)
    with await _locked(root) as lock:
        async with (
            forge_sources.open_clients(root, settings, lenient=job is not None) as forges,
            open_configured_root(root, settings, kinds=forge_sources.kinds_of(settings, forges)) as deps,
        ):
            await _let_operator_in(root, deps)
            await asyncio.to_thread(sweep_root, root)
            toolchain = connect_forges(deps, listened, sources, forges)
            collector = GarbageCollector(deps, settings.gc.keeps)
            running = await _assemble(
                root, deps, settings, performers(deps), forges, toolchain, collector, alone=job is not None
            )
            async with (
                engine_api(root, settings, running.service, port) as where,
                collect_periodically(collector, settings),
                open_watcher(FolderWatcher(root, boxes=("inbox", "outbox"), plans=True)) as watch,
            ):
                lock.announce(http=where.http, socket=where.socket, passing=job is not None)
                key = running.service.sessions.make_link("operator", name, lasts=FIRST_LINK)
                tell(where._replace(pages=f"{where.http}/login?key={key}"))
                with spare_existing_objects(), _guarding(lock, stop):
                    await _until(
                        running,
                        running.run(stop, watch, EngineAddress(where.http, where.socket, where.doors)),
                        job,
                        stop,
                    )


@contextmanager
def _guarding(lock: RootLock, stop: asyncio.Event) -> Iterator[None]:
    """End the engine when its database or folder is gone. Raises MachineError then, however it ended."""

    async def guard() -> None:
        while True:
            await asyncio.sleep(GUARD)
            try:
                lock.require_data()
            except MachineError as error:
                LOG.critical("%s", error.message, extra={"action": "engine.data"})
                stop.set()
                return

    task = asyncio.create_task(guard())
    try:
        yield
    finally:
        task.cancel()
    lock.require_data()


async def _locked(root: Path) -> RootLock:
    """Acquire the lock of an engine. Commands hold it briefly, so this retries while no other engine runs."""
    deadline = asyncio.get_running_loop().time() + LOCKED
    while True:
        try:
            return RootLock.acquire(root, "engine")
        except MachineError as error:
            late = asyncio.get_running_loop().time() > deadline
            if late or error.code is not Code.ENGINE_RUNNING or running_engine(root) is not None:
                raise
        await asyncio.sleep(0.05)


async def _let_operator_in(root: Path, deps: Deps) -> None:
    """Register the operator's token, which no agent can read."""
    own = operator_folder.ensure_token(root)
    deps.secret_guard.register_values({"the operator's token": own})
    await access.admit(deps, own, "operator", access.ENGINE_TOKEN_LABEL)


async def _assemble(
    root: Path,
    deps: Deps,
    settings: Settings,
    performers: Mapping[str, Performer],
    forges: Mapping[str, Forge],
    toolchain: ForgeConnections | None,
    collector: GarbageCollector,
    *,
    alone: bool,
) -> Engine:
    """Make the engine as the settings want it. It does not run yet."""
    processes = LocalProcesses()
    driver = ScriptDriver(processes)
    checks = CheckLeases(deps, measure_start())
    forge = forge_sources.build_read_back(settings, forges).check
    return Engine(
        deps,
        driver,
        processes,
        max_running=settings.limits.max_running,
        day_cost_usd=settings.limits.cost_usd_per_day,
        profile=settings.profile_of,
        environ=os.environ,
        performers=performers,
        prover=make_prover(root, deps, driver, settings.checks, forge, checks),
        toolchain=toolchain,
        options=EngineOptions(
            notifications=make_notifier(root, deps, settings),
            tracing=await _make_exporter(root, deps, settings),
            make_scheduler=lambda nudge, begun: make_scheduler(root, deps, settings, nudge=nudge, submitted=begun),
            reload=SettingsReloader(root, deps, settings, settings).reload,
            tools=EngineTools(
                collect=collector.collect,
                verify_ledger=partial(_verify_ledger, root, settings.store_url),
                commits=deps.stores.commits if isinstance(deps.stores, RootStores) else dict,
            ),
            is_alone=alone,
            checks=checks,
        ),
    )


def _verify_ledger(root: Path, url: str) -> list[ChainVerification]:
    kept = read_heads(root, shared=bool(url))
    found: list[Any] = [audit.to_json(report) for report in audit.verify(root, kept, url=url)]
    return found


async def _make_exporter(root: Path, deps: Deps, settings: Settings) -> TraceExporter | None:
    """Make the exporter of traces, if the settings name a collector. It begins before anything happens to export."""
    if settings.telemetry.endpoint is None:
        return None
    exporter = telemetry.make_trace_exporter(root, operator_folder.root_name(root), deps, settings.telemetry)
    await exporter.begin()
    return exporter


@asynccontextmanager
async def collect_periodically(collector: GarbageCollector, settings: Settings) -> AsyncIterator[None]:
    """Collect garbage periodically, if configured. A failure is logged, and has no other effect."""

    async def again() -> None:
        while True:
            try:
                found = await collector.collect()
                LOG.info("%s bytes were freed", found["bytes"], extra={"action": "engine.gc"})
            except Exception:
                LOG.exception("garbage collection failed; it is tried again", extra={"action": "engine.gc"})
            await asyncio.sleep(settings.gc.every_hours * 3600)

    task = asyncio.create_task(again()) if settings.gc.every_hours else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


async def _until(
    running: Engine, work: Coroutine[None, None, None], job: EngineJob | None, stop: asyncio.Event
) -> None:
    """Run until the job has ended, if there is one, and raise its error. The last status is published."""
    if job is None:
        await work
        return
    doing = asyncio.create_task(job(running))
    doing.add_done_callback(lambda _: stop.set())
    await work
    doing.cancel()
    with suppress(asyncio.CancelledError):
        await doing
    await running.publish_plans()
    for told in (running.notifications, running.tracing):
        if told is not None:
            with suppress(TimeoutError):  # the next engine sends what is left
                await asyncio.wait_for(told.pass_(), LAST_WORD)
