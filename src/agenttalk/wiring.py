"""The composition root: the only module that knows both the engine and the adapters."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agenttalk.contracts.memory import what_is_there_spared
from agenttalk.engine.deps import Deps, Limits, Walls
from agenttalk.engine.discretion import Discretion
from agenttalk.errors import Code, MachineError, UsageError
from agenttalk.mailbox.fsio import Folder
from agenttalk.ports import Clock, Driver, Ids, Performer, TaskKind
from agenttalk.store import operator
from agenttalk.store.root import RootStores
from agenttalk.store.rootlock import RootLock, is_alive, running_engine

if TYPE_CHECKING:
    # The server is loaded only by those who listen: most commands do not.
    from agenttalk.api.serving import Listening
    from agenttalk.checking.checker import AskForge
    from agenttalk.engine.forges import Connected
    from agenttalk.engine.layout import Api
    from agenttalk.engine.notifying import Notifications
    from agenttalk.engine.running import Running
    from agenttalk.engine.scheduling import Schedules
    from agenttalk.engine.service import Service
    from agenttalk.garbage import Collector
    from agenttalk.ports import EventSource, Forge
    from agenttalk.proving import Prover
    from agenttalk.settings import Settings

LOG = logging.getLogger(__name__)
OURSELVES: Final = (sys.executable, "-P", "-m", "agenttalk")
"""How agents start us from where they work."""
LITTER: Final = 3600.0
"""Temporaries of dead processes are removed once they are this old, in seconds."""
LOCKED: Final = 2.0
"""How long an engine that starts waits for commands that just have the root, in seconds."""
LAST_WORD: Final = 5.0
"""Seconds in which whoever runs a single plan tells others how it ended."""
KEEP: Final = 1.0
"""How often what the ledger has come to is written down outside of the root, in seconds."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The time in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the door through which the time comes in


class RandomIds:
    """Ids that nobody can guess."""

    def new(self, prefix: str) -> str:
        """`prefix_` and 24 hex digits."""
        return f"{prefix}_{secrets.token_hex(12)}"


@asynccontextmanager
async def opened(
    root: Path,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    limits: Limits | None = None,
    url: str = "",
    witnessed: bool = False,
    hidden: tuple[Path, ...] = (),
    kinds: Mapping[str, TaskKind] | None = None,
    traced: bool = False,
) -> AsyncIterator[Deps]:
    """What use cases need of a root, open until the block ends. What is `hidden` no agent in a sandbox sees.

    With `witnessed`, the operator's configuration folder keeps how far the ledger has come: then cutting off
    everything that lies under the root is seen too.
    """
    clock = clock or SystemClock()
    heads = operator.Heads(root, shared=bool(url)) if witnessed else None
    stores = RootStores(root, clock, url=url, witness=heads)
    with Folder.open(root) as folder:
        keeping = asyncio.create_task(_keep(heads)) if heads else None
        try:
            own = operator.folder_of(root).parent  # and that of the operator's other roots
            walls = Walls((own, *hidden), (Path(sys.prefix), Path(sys.base_prefix)))
            yield Deps(
                folder,
                stores,
                clock,
                ids or RandomIds(),
                limits or Limits(),
                shared=bool(url),
                walls=walls,
                traced=traced,
                kinds=kinds or {},
                self_check=(*OURSELVES, "promise", "check"),
                asks_models=(sys.executable, "-P", "-m", "agenttalk.answering"),
                mcp_server=(*OURSELVES, "mcp") if find_spec("mcp") is not None else (),
            )
        finally:
            await stores.close()
            if heads and keeping:
                keeping.cancel()
                await asyncio.to_thread(heads.flush)


@asynccontextmanager
async def opened_as_set(
    root: Path, settings: Settings, *, kinds: Mapping[str, TaskKind] | None = None
) -> AsyncIterator[Deps]:
    """A root with the store and the limits that its settings name, its ledger witnessed.

    Who names no kinds takes letters all the same.
    """
    from agenttalk.kinds.mail import BOARD, Letters

    said = settings.limits
    limits = Limits(
        payload_bytes=said.payload_mib * 1024 * 1024,
        new_messages_per_tick=said.max_new_messages_per_tick,
        resumed_messages_per_tick=said.max_resume_messages_per_tick,
        poll_seconds=float(said.poll_interval_seconds),
        remote_silence_seconds=float(said.remote_silence_seconds),
    )
    named = [
        settings.store.url_file,
        settings.telemetry.headers_file,
        *(each for one in settings.sources.values() for each in one.files),
    ]
    hidden = tuple(root / each for each in named if each)
    url = settings.store_url
    kinds = {BOARD: Letters(settings.mail_rules)} if kinds is None else kinds
    traced = settings.telemetry.endpoint is not None
    async with opened(root, limits=limits, url=url, witnessed=True, hidden=hidden, kinds=kinds, traced=traced) as deps:
        own = operator.token_of(root)
        deps.discretion.keep(settings.secrets(root) | ({"the operator's token": own} if own else {}))
        with _discreet_logs(deps.discretion):
            yield deps


@contextmanager
def _discreet_logs(discretion: Discretion) -> Iterator[None]:
    """Secrets stay out of logs, too, whoever writes there and wherever they go."""
    make = logging.getLogRecordFactory()

    def discreet(*args: Any, **more: Any) -> logging.LogRecord:
        record = make(*args, **more)
        if discretion.secrets:
            record.msg, record.args = discretion.secrets.redact(record.getMessage()), ()
            if record.exc_info:
                said = "".join(traceback.format_exception(*record.exc_info)).rstrip()
                record.exc_text, record.exc_info = discretion.secrets.redact(said), None
        return record

    logging.setLogRecordFactory(discreet)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)


async def _keep(heads: operator.Heads) -> None:
    while True:
        await asyncio.sleep(KEEP)
        await asyncio.to_thread(heads.flush)


@asynccontextmanager
async def agent_api(deps: Deps, root: Path) -> AsyncIterator[Api]:
    """The API for agents alone, of a part that runs them without an engine."""
    from agenttalk.api.app import create_app
    from agenttalk.api.serving import serving, socket_folder
    from agenttalk.engine.layout import Api
    from agenttalk.engine.service import Service

    service = Service(deps)
    service.ready = True
    folder = socket_folder(operator.root_name(root))
    _sweep_sockets(folder, lambda pid: not is_alive(pid))
    path = folder / f"part-{os.getpid()}-{secrets.token_hex(3)}.sock"
    app = create_app(service, serves="agents")
    async with serving(app, host="127.0.0.1", port=0, socket_path=path) as where:
        yield Api(where.http, where.socket)


async def serve(
    root: Path,
    settings: Settings,
    *,
    stop: asyncio.Event,
    tell: Callable[[Listening], None] = lambda _: None,
    port: int | None = None,
    name: str = "operator",
    job: Callable[[Running], Coroutine[None, None, None]] | None = None,
    performers: Callable[[Deps], Mapping[str, Performer]] = lambda _: {},
) -> None:
    """Be the engine of a root until `stop` is set. `tell` is called once it listens; its pages open for `name`.

    With a `job`, the engine ends when that has ended. `performers` carry out tasks of agents that are no programs,
    by their driver. Raises ENGINE_RUNNING when there is one, or parts run.
    """
    from agenttalk import connecting
    from agenttalk.drivers.processes import LocalProcesses
    from agenttalk.drivers.script import ScriptDriver
    from agenttalk.engine import access
    from agenttalk.engine.layout import Api
    from agenttalk.engine.running import Running
    from agenttalk.engine.sessions import FIRST_LINK
    from agenttalk.garbage import Collector
    from agenttalk.mailbox.watch import Watch
    from agenttalk.reloading import Reloading

    # A single plan listens to no forge, and asks only those whose token is at hand.
    listened = settings if job is None else settings.model_copy(update={"sources": {}})
    sources = connecting.sources(root, listened)
    with await _locked(root) as lock:
        async with (
            connecting.clients(root, settings, lenient=job is not None) as forges,
            opened_as_set(root, settings, kinds=connecting.kinds_of(settings, forges)) as deps,
        ):
            own = operator.made_token(root)
            deps.discretion.keep({"the operator's token": own})
            await access.admit(deps, own, "operator", access.ENGINE)
            await asyncio.to_thread(swept, root)
            processes = LocalProcesses()
            driver = ScriptDriver(processes)
            running = Running(
                deps,
                driver,
                processes,
                max_running=settings.limits.max_running,
                day_cost_usd=settings.limits.cost_usd_per_day,
                profile=settings.profile,
                environ=os.environ,
                performers=performers(deps),
                prover=_prover(root, deps, driver, connecting.read_back(settings, forges).check),
                toolchain=_connected(deps, listened, sources, forges),
            )
            running.service.commits = deps.stores.commits if isinstance(deps.stores, RootStores) else dict
            running.service.verify_ledger = partial(_verified, root, settings.store_url)
            collector = Collector(deps, settings.gc.keeps)
            running.service.collect = collector.collect
            running.notifications = _notifications(root, deps, settings)
            if settings.telemetry.endpoint is not None:
                from agenttalk import telemetry

                told = telemetry.tracing(root, operator.root_name(root), deps, settings.telemetry)
                running.tracing = running.service.tracing = told
                await told.begin()  # before anything can happen that is to be told
            known = schedules(root, deps, settings)
            if job is None:
                running.look_after(known)
            running.service.reload = Reloading(root, deps, running, known, settings, settings).reload
            running.service.schedules = known  # a single plan begins no others, but people may look at them
            async with _door(root, settings, running.service, port) as where, collecting(collector, settings):
                watch = Watch(root, boxes=("inbox", "outbox"), plans=True)
                await watch.start()
                try:
                    lock.announce(http=where.http, socket=where.socket)
                    key = running.service.sessions.link("operator", name, lasts=FIRST_LINK)
                    tell(where._replace(pages=f"{where.http}/login?key={key}"))
                    with what_is_there_spared():
                        await _until(running, running.run(stop, watch, Api(where.http, where.socket)), job, stop)
                finally:
                    watch.close()


@asynccontextmanager
async def collecting(collector: Collector, settings: Settings) -> AsyncIterator[None]:
    """Have garbage removed now and then, if that is configured. That it fails is told, and nothing else."""

    async def again() -> None:
        while True:
            try:
                found = await collector.collect()
                LOG.info("%s bytes were freed", found["bytes"], extra={"action": "engine.gc"})
            except Exception:
                LOG.exception("nothing could be removed; it is tried again", extra={"action": "engine.gc"})
            await asyncio.sleep(settings.gc.every_hours * 3600)

    task = asyncio.create_task(again()) if settings.gc.every_hours else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


def _verified(root: Path, url: str) -> list[dict[str, Any]]:
    """What came of checking every chain of the ledger."""
    from agenttalk.store import audit

    kept = operator.kept_heads(root, shared=bool(url))
    return [audit.shown(each) for each in audit.verify(root, kept, url=url)]


def schedules(root: Path, deps: Deps, settings: Settings) -> Schedules:
    """What is done again and again in a root."""
    from agenttalk.engine.scheduling import Schedules
    from agenttalk.planfiles import scheduled_plan

    return Schedules(deps, settings.schedules, lambda schedule, plan_id: scheduled_plan(root, schedule, plan_id))


def _notifications(root: Path, deps: Deps, settings: Settings) -> Notifications | None:
    """Who tells others what happens; None where nobody is to be told. Raises UsageError when a variable is not set."""
    if not settings.notify:
        return None
    from agenttalk.checking import telling
    from agenttalk.engine.notifying import Notifications, Said, Target
    from agenttalk.rules.http_addresses import read_allowed

    targets = [
        Target(
            name,
            each.url or _variable(f"notify.{name}.url_env", each.url_env),
            each.kind,
            frozenset(each.events),
            _signing_secret(name, each.secret_env),
            each.allow,
        )
        for name, each in settings.notify.items()
    ]

    async def post(target: Target, headers: Mapping[str, str], body: bytes) -> Said:
        allowed = [read_allowed(each) for each in target.allow]
        return Said(*await telling.told(target.url, headers, body, allowed=allowed))

    return Notifications(deps, targets, post, source=f"urn:agenttalk:{operator.root_name(root)}")


def _signing_secret(name: str, variable: str | None) -> str | None:
    """The secret by which notices to somebody are signed. Raises UsageError when it cannot be one."""
    if not variable:
        return None
    from agenttalk.rules import notices

    setting = f"notify.{name}.secret_env"
    secret = _variable(setting, variable)
    try:
        notices.key(secret)
    except UsageError as error:
        raise UsageError(error.code, f"{setting} ({variable}): {error.message}", hint=error.hint) from None
    return secret


def _variable(setting: str, name: str | None) -> str:
    """What a variable holds that a setting names."""
    value = os.environ.get(name or "", "")
    if not value:
        raise UsageError(Code.FIELD_VALUE, f"{setting} names {name}, which is not set", hint=f"set {name}")
    return value


def local_prover(root: Path, deps: Deps) -> Prover:
    """Whoever makes checks for a command that works without an engine."""
    from agenttalk.drivers.processes import LocalProcesses
    from agenttalk.drivers.script import ScriptDriver

    return _prover(root, deps, ScriptDriver(LocalProcesses()))


def verifying(root: Path, deps: Deps) -> Service:
    """What looks again at what plans proved, of a root that has no engine. It begins nothing."""
    from agenttalk.drivers.processes import LocalProcesses
    from agenttalk.drivers.script import ScriptDriver
    from agenttalk.engine.dispatcher import Dispatcher
    from agenttalk.engine.service import Service

    processes = LocalProcesses()
    prover = _prover(root, deps, ScriptDriver(processes))
    return Service(deps, dispatcher=Dispatcher(deps, {}, processes, max_running=0, prover=prover))


async def reconciled(root: Path, deps: Deps, settings: Settings, *, dry_run: bool) -> dict[str, Any]:
    """Read the forges of a root that has no engine; the tasks begin when there is one."""
    from agenttalk import connecting
    from agenttalk.engine.profiles import profile_of
    from agenttalk.engine.reconcile import Reconciler
    from agenttalk.engine.service import Service
    from agenttalk.engine.toolchain import Board

    deps = replace(deps, kinds=connecting.kinds_of(settings))
    service = Service(deps)
    async with connecting.clients(root, settings) as forges:
        if forges:
            setup = connecting.setup(settings, lambda agent: profile_of(deps, agent, settings.profile))
            reading = connecting.Reading(forges, settings.toolchain.risk.high)
            service.reconciler = Reconciler(deps, Board(deps, setup, lambda: ""), forges, gather=reading.gather)
        return await service.reconcile(dry_run=dry_run, by="operator")


def _connected(
    deps: Deps, settings: Settings, sources: Mapping[str, EventSource], forges: Mapping[str, Forge]
) -> Connected | None:
    """What forges are connected by; None where none is configured."""
    from agenttalk import connecting
    from agenttalk.engine.forges import Connected
    from agenttalk.engine.profiles import profile_of

    if not settings.sources:
        return None
    setup = connecting.setup(settings, lambda agent: profile_of(deps, agent, settings.profile))
    reading = connecting.Reading(forges, settings.toolchain.risk.high)
    if not forges:
        return Connected(sources, setup)
    return Connected(
        sources,
        setup,
        gather=reading.gather,
        search=reading.search,
        forges=forges,
        reconcile_every=settings.toolchain.reconcile_every,
    )


def _prover(root: Path, deps: Deps, driver: Driver, forge: AskForge | None = None) -> Prover:
    """Whoever makes the checks: in a sandbox where there is one, and without sight of what is ours."""
    from agenttalk import sandbox
    from agenttalk.checking.checker import Checker
    from agenttalk.checking.running import Context
    from agenttalk.engine.evidence import KeptFindings
    from agenttalk.proving import Prover

    checker = Checker(driver, deps.clock, deps.ids, bubblewrap=sandbox.installed(), forge=forge)
    path = os.environ.get("PATH", os.defpath)
    masked = (root.absolute() / "data", *deps.walls.hidden)
    context = Context(path=path, masked=masked, readable=deps.walls.readable)
    return Prover(root, checker, context, deps.clock, deps.stores.blobs, KeptFindings(deps))


async def _until(
    running: Running,
    work: Coroutine[None, None, None],
    job: Callable[[Running], Coroutine[None, None, None]] | None,
    stop: asyncio.Event,
) -> None:
    """Work until the job has ended, if there is one; what it raises comes out here. The last word is published."""
    if job is None:
        await work
        return
    doing = asyncio.create_task(job(running))
    doing.add_done_callback(lambda _: stop.set())
    await work
    doing.cancel()
    with suppress(asyncio.CancelledError):
        await doing
    await running.show()
    if running.notifications is not None:
        with suppress(TimeoutError):  # what is not told by then is told by the next engine
            await asyncio.wait_for(running.notifications.pass_(), LAST_WORD)
    if running.tracing is not None:
        with suppress(TimeoutError):
            await asyncio.wait_for(running.tracing.pass_(), LAST_WORD)


async def _locked(root: Path) -> RootLock:
    """The lock of an engine. Commands hold it for a moment, so it is asked for again while nobody else is one."""
    deadline = asyncio.get_running_loop().time() + LOCKED
    while True:
        try:
            return RootLock.take(root, "engine")
        except MachineError as error:
            late = asyncio.get_running_loop().time() > deadline
            if late or error.code is not Code.ENGINE_RUNNING or running_engine(root) is not None:
                raise
        await asyncio.sleep(0.05)


@asynccontextmanager
async def _door(root: Path, settings: Settings, service: Service, port: int | None) -> AsyncIterator[Listening]:
    from agenttalk.api.app import create_app
    from agenttalk.api.serving import serving, socket_folder

    server = settings.server
    folder = socket_folder(operator.root_name(root))
    _sweep_sockets(folder, lambda _: True)  # the root is ours alone, so whoever made them is dead
    async with serving(
        create_app(service),
        host=server.host,
        port=server.port if port is None else port,
        socket_path=folder / "engine.sock",
        public=server.public,
        names=server.names,
    ) as where:
        yield where


def swept(root: Path) -> None:
    """Remove what killed processes left behind."""
    from agenttalk.mailbox.sweep import file_time, sweep

    with Folder.open(root) as folder:
        sweep(folder, LITTER, file_time(folder))


def _sweep_sockets(folder: Path, is_dead: Callable[[int], bool]) -> None:
    """Remove sockets of parts that were killed."""
    for path in folder.glob("part-*.sock"):
        pid = path.name.split("-")[1]
        if pid.isdecimal() and is_dead(int(pid)):
            with suppress(OSError):
                path.unlink()
