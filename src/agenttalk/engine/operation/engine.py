"""A running engine: router, monitor and the agents' heartbeats as loops of one process, and passes on request.

A loop never ends because a step of it failed: it says so and tries again. When the engine stops, nothing more is
claimed and turns under way are ended; their commands are run again by the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.contracts.schedule import Schedule
from agenttalk.engine.agents.registry import make_performers
from agenttalk.engine.agents.remote import RemoteAgents
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.loops import (
    PAUSE,
    Waiter,
    WakeBroadcaster,
    WakeSource,
    run_listener,
    run_loop,
    run_unless_stopped,
    sleep_unless_stopped,
    wait_for_first,
)
from agenttalk.engine.core.profiles import ProfileOverlay
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.fleet.check_leases import CheckLeases
from agenttalk.engine.fleet.sync import FleetAgents
from agenttalk.engine.inbox.supervisor import HeartbeatSupervisor
from agenttalk.engine.mail import board as mail_board
from agenttalk.engine.mail import letters
from agenttalk.engine.messages import published_files
from agenttalk.engine.messages.router import POLL, Router, RouterReport
from agenttalk.engine.operation.monitor import Monitor
from agenttalk.engine.operation.notifications import POLL as NOTIFY
from agenttalk.engine.operation.notifications import Notifier
from agenttalk.engine.operation.requested_passes import RequestedPasses
from agenttalk.engine.operation.schedules import Scheduler
from agenttalk.engine.operation.service import NO_TOOLS, EngineTools, ReloadReport, Service
from agenttalk.engine.operation.trace_export import POLL as TRACE
from agenttalk.engine.operation.trace_export import TraceExporter
from agenttalk.engine.people.human_driver import HumanAgents
from agenttalk.engine.plans import board_run
from agenttalk.engine.proof import honesty
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.toolchain.board import BOARD
from agenttalk.engine.toolchain.loops import ForgeConnections, ForgeLoops
from agenttalk.ports.agents import Driver, Performer, Processes
from agenttalk.ports.proof import Prover
from agenttalk.ports.statements.plans import OPEN_RUNS
from agenttalk.rules.mail.letters import BOARD as MAIL

LOG = logging.getLogger(__name__)
BRANCHES: Final = 5.0
"""Seconds between two checks of the branches of plans that have ended."""
SchedulerFactory: TypeAlias = "Callable[[Callable[[], None], Callable[[], None]], Scheduler]"
"""Makes the scheduler: it gets what wakes the loop of the schedules, and what wakes the dispatcher."""
SettingsReload: TypeAlias = "Callable[[Engine, str], Awaitable[ReloadReport]]"
"""Reads the settings again in the name of a person, and applies them to the engine."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The tasks of an engine besides running plans, as its settings want them."""

    notifications: Notifier | None = None
    tracing: TraceExporter | None = None
    make_scheduler: SchedulerFactory | None = None
    reload: SettingsReload | None = None
    tools: EngineTools = NO_TOOLS
    checks: CheckLeases | None = None
    """Gives checks to verifiers."""
    is_alone: bool = False
    """Whether it runs a single plan. Then it leaves plans that others began as they are, because it ends with its own
    plan and would end their turns, too. It shows schedules and begins none."""


NO_OPTIONS: Final = EngineOptions()


class Engine:
    """The loops of an engine. `service` is what its doors ask."""

    def __init__(  # noqa: PLR0913 - each is a collaborator of its own
        self,
        deps: Deps,
        driver: Driver,
        processes: Processes,
        *,
        max_running: int = 8,
        day_cost_usd: float | None = None,
        profile: ProfileOverlay = lambda _, said: dict(said),
        environ: Mapping[str, str] | None = None,
        performers: Mapping[str, Performer] | None = None,
        prover: Prover | None = None,
        toolchain: ForgeConnections | None = None,
        options: EngineOptions = NO_OPTIONS,
    ) -> None:
        """`performers` carry out the tasks of the engine's own plans, by driver, besides those that are programs.

        `toolchain` connects forges, if any are configured. A driver that knows sandboxes has coding agents, too.
        """
        self._deps = deps
        self._slots = Slots(max_running)
        self._router = Router(deps)
        self._monitor = Monitor(deps)
        self._turn = asyncio.Lock()
        self._seen: published_files.StatusMarks = {}
        self._api: EngineAddress | None = None
        self._stop = asyncio.Event()
        self._at_router = Waiter()
        self._at_mail = Waiter()
        self._at_schedules = Waiter()
        self._is_ready = False
        self.notifications = options.notifications
        """Notifies other systems, if the settings name some."""
        self.tracing = options.tracing
        """Exports traces, if the settings name a collector."""
        transport = prover.transport if prover is not None else None
        elsewhere = RemoteAgents(deps, at_work=self._mark_at_work, transport=transport)
        own = make_performers(deps, driver, lambda: self._api, dict(environ or {}))
        self.dispatcher = Dispatcher(
            deps,
            {**own, "human": HumanAgents(deps), "remote": FleetAgents(deps, elsewhere), **(performers or {})},
            processes,
            slots=self._slots,
            nudge_router=self._look_soon,
            prover=prover,
            day_cost_usd=day_cost_usd,
            environ=dict(environ or {}),
        )
        if options.is_alone:
            self.dispatcher.ignore_open_plans()
        freed = self.dispatcher.nudge
        self._heartbeats = HeartbeatSupervisor(
            deps, driver, processes, profile, environ=environ, slots=self._slots, freed=freed
        )
        self.post = mail_board.MailBoard(deps, nudge=self._mail_came, stop=self._end_letter)
        """Takes letters, and looks after them."""
        if hasattr(deps.kinds.get(MAIL), "replies"):
            deps.kinds[MAIL].replies = self.post  # type: ignore[attr-defined]  # it is made before us
        self._setup = toolchain.setup if toolchain else None
        self._forges = self._connected(toolchain) if toolchain else None
        tools = _make_tools(self, options, self._at_schedules.nudge)
        self._schedules = None if options.is_alone else tools.schedules
        self.service = self._make_service(elsewhere, day_cost_usd, tools, options.checks)

    def _connected(self, toolchain: ForgeConnections) -> ForgeLoops:
        return ForgeLoops(
            self._deps,
            toolchain,
            address=lambda: self._api.http if self._api else "",
            retry=lambda task_id, by: self.dispatcher.operator.retry(BOARD, task_id, by=by),
            nudge=self.dispatcher.nudge,
            heard=self.dispatcher.wake_forge_waiters,
        )

    def _make_service(
        self, elsewhere: RemoteAgents, day_cost_usd: float | None, tools: EngineTools, checks: CheckLeases | None
    ) -> Service:
        return Service(
            self._deps,
            post=self.post,
            dispatcher=self.dispatcher,
            elsewhere=elsewhere,
            checks=checks,
            passes=RequestedPasses(
                self._router,
                self._monitor,
                self._heartbeats,
                self._turn,
                self._mail_came,
                is_running=lambda: self._api is not None and not self._stop.is_set(),
            ).runners(),
            nudge=self._acted,
            turn=self._turn,
            receiver=self._forges.receiver if self._forges else None,
            reconciler=self._forges.reconciler if self._forges else None,
            day_cost_usd=day_cost_usd,
            tools=tools,
            is_ready=lambda: self._is_ready,
        )

    async def configure(
        self,
        profile: ProfileOverlay,
        *,
        max_running: int,
        day_cost_usd: float | None,
        schedules: Mapping[str, Schedule],
    ) -> None:
        """Apply other settings from now on; what is under way goes on as it began."""
        self._heartbeats.configure(profile)
        self._slots.resize(max_running)
        self.service.day.configure(day_cost_usd)
        if self.service.tools.schedules is not None:
            self.service.tools.schedules.configure(schedules)
        await self.dispatcher.days.configure(day_cost_usd)
        self._at_schedules.nudge()
        self.dispatcher.nudge()
        self._look_soon()

    async def run(self, stop: asyncio.Event, watch: WakeSource, api: EngineAddress) -> None:
        """Work until `stop` is set; returns when every loop and every turn has ended."""
        wakes = WakeBroadcaster(watch)
        self._api, self._stop = api, stop
        self._heartbeats.begin(stop, wakes, api)
        await self._open_boards()
        if self.notifications is not None:
            await self.notifications.begin()
        loops = self._loops(wakes)
        heard = [asyncio.create_task(each) for each in self._listeners(wakes)]
        tasks = [*heard, *(asyncio.create_task(each) for each in loops)]
        self._is_ready = True
        try:
            await stop.wait()
        finally:
            self._is_ready = False
            self.service.feed.close()
            stop.set()
            for each in heard:
                each.cancel()
            await asyncio.gather(*tasks, self._heartbeats.end(), return_exceptions=True)

    async def _open_boards(self) -> None:
        """Bring the runs of boards up to date. One that is broken must not keep the others from working."""
        found = []
        if self._setup is not None:
            found.append((BOARD, self._setup.policies, self._setup.profiles))
        if MAIL in self._deps.kinds:
            rules = letters.kind_of(self._deps).rules
            found.append((MAIL, rules.policies, rules.profiles))
        for board, policies, profiles in found:
            try:
                await board_run.refresh_run(self._deps, board, policies, profiles)
            except AgentTalkError as error:
                LOG.warning("%s: %s", board, error.message, extra={"action": "engine.board"})

    def _loops(self, wakes: WakeBroadcaster) -> list[Coroutine[Any, Any, None]]:
        """Make the loops of the engine."""
        stop = self._stop
        self._at_router = wakes.add_router_waiter()
        loops = [
            run_loop("router", stop, self._at_router, self._route, lambda report: report.pause),
            run_loop("agents", stop, wakes.add_agents_folder_waiter(), self._heartbeats.start_missing, lambda _: POLL),
            run_loop("monitor", stop, Waiter(), self._watch, lambda _: POLL),
            run_loop("mail", stop, self._at_mail, self.post.pass_, lambda pause: pause),
            run_loop("branches", stop, Waiter(), self.dispatcher.branches.record_stale_tasks, lambda _: BRANCHES),
            run_loop("honesty", stop, Waiter(), self._count, lambda _: honesty.COUNT_INTERVAL),
        ]
        if self._schedules is not None:
            loops.append(run_loop("schedules", stop, self._at_schedules, self._schedules.pass_, lambda pause: pause))
        if (notices := self.notifications) is not None:
            loops.append(
                run_loop("notify", stop, Waiter(), lambda: run_unless_stopped(stop, notices.pass_()), lambda _: NOTIFY)
            )
        if (traces := self.tracing) is not None:
            loops.append(
                run_loop("traces", stop, Waiter(), lambda: run_unless_stopped(stop, traces.pass_()), lambda _: TRACE)
            )
        loops += [self._dispatch(), self._publish()]
        return [*loops, *(self._forges.loops(stop) if self._forges else ())]

    def _listeners(self, wakes: WakeBroadcaster) -> list[Coroutine[Any, Any, None]]:
        """Make the listeners that pass wake-ups on. Without them the loops find everything by polling."""
        watching = run_listener("watch", wakes.run, "the watch failed")
        return [watching, *([self._forges.listen()] if self._forges else [])]

    # The steps of the loops

    async def _route(self) -> RouterReport:
        async with self._turn:
            report = await self._router.pass_()
        if not report.idle:
            self._mail_came()
            self._look_at_forges()  # people answer by files, too
        return report

    async def _watch(self) -> None:
        async with self._turn:
            await self._monitor.pass_()

    async def _count(self) -> int:
        if await self.dispatcher.days.refresh():  # the limit may have been changed at another server
            self.dispatcher.nudge()
        return await honesty.count_new_facts(self._deps, most=honesty.REPORT_LIMIT)

    async def _dispatch(self) -> None:
        while not self._stop.is_set():
            try:
                await self.dispatcher.run(self._stop)
            except Exception:
                LOG.exception("the dispatcher failed; it is started again", extra={"action": "engine.dispatcher"})
                await sleep_unless_stopped(self._stop, PAUSE)

    async def _publish(self) -> None:
        """Show what changed in the engine's plans, at most once a second, and for large plans less often."""
        with self.dispatcher.subscribe_changes() as news:
            while not self._stop.is_set():
                await wait_for_first(self._stop.wait(), news.wait())
                news.clear()
                began = asyncio.get_running_loop().time()
                try:
                    await self.publish_plans()
                except AgentTalkError as error:
                    LOG.warning("cannot publish: %s", error.message, extra={"action": "engine.publish"})
                except Exception:
                    LOG.exception("publishing failed; it is tried again", extra={"action": "engine.publish"})
                spent = asyncio.get_running_loop().time() - began
                await sleep_unless_stopped(self._stop, max(1.0, 20 * spent))

    async def publish_plans(self) -> None:
        """Bring the files that show the engine's plans up to date."""
        ended = self.dispatcher.pop_ended_plans()
        async with self._turn:
            for board in await list_boards(self._deps):
                still_open = {row.plan_id for row in await board.read(OPEN_RUNS)}
                for plan_id in sorted(still_open | ended):
                    await published_files.publish_status(self._deps, board, plan_id, self._seen)
                await published_files.publish(self._deps, board)

    # What wakes which loop

    def _mark_at_work(self, lease: str) -> None:
        self.dispatcher.mark_at_work(lease)

    def _look_soon(self) -> None:
        self._at_router.nudge()

    def _look_at_forges(self) -> None:
        if self._forges is not None:
            self._forges.nudge()

    def _acted(self) -> None:
        """Wake the loops that react to a message or an answer."""
        self._look_soon()
        self._look_at_forges()

    def _mail_came(self) -> None:
        self._at_mail.nudge()
        self.dispatcher.nudge()

    async def _end_letter(self, task_id: str, why: str) -> None:
        await self.dispatcher.operator.abort(MAIL, task_id, by="the engine", why=why)


def _make_tools(engine: Engine, options: EngineOptions, wake_schedules: Callable[[], None]) -> EngineTools:
    """Make the tools of an engine, with its scheduler and what reloads its settings."""
    make_scheduler, reload = options.make_scheduler, options.reload
    return replace(
        options.tools,
        schedules=make_scheduler(wake_schedules, engine.dispatcher.nudge) if make_scheduler else None,
        tracing=options.tracing,
        reload=partial(reload, engine) if reload else None,
    )
