"""A running engine: router, monitor and the agents' heartbeats as loops of one process, and passes on request.

A loop never ends because a step of it failed: it says so and tries again. When the engine stops, nothing more is
claimed and turns under way are ended; their commands are run again by the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from agenttalk.contracts import places, wire
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.model_use import MODEL_DRIVERS
from agenttalk.contracts.problem import nearest
from agenttalk.engine import honesty, kinds, letters, mail, publish
from agenttalk.engine.answering import Models
from agenttalk.engine.coding import CodingAgents
from agenttalk.engine.deps import Deps
from agenttalk.engine.dispatcher import Dispatcher
from agenttalk.engine.elsewhere import Elsewhere
from agenttalk.engine.heartbeat import Heartbeat, Tick
from agenttalk.engine.layout import Api
from agenttalk.engine.monitor import Monitor
from agenttalk.engine.notifying import POLL as NOTIFY
from agenttalk.engine.notifying import Notifications
from agenttalk.engine.outgoing import IDLE, Outgoing
from agenttalk.engine.people import People
from agenttalk.engine.performing import Programs
from agenttalk.engine.plans import agents_in, boards
from agenttalk.engine.receiving import Receiver
from agenttalk.engine.reconcile import Reconciler
from agenttalk.engine.router import POLL, Report, Router
from agenttalk.engine.scheduling import Schedules
from agenttalk.engine.service import Service
from agenttalk.engine.slots import Slots
from agenttalk.engine.talking import SpokenAgents
from agenttalk.engine.toolchain import BOARD, Setup
from agenttalk.engine.toolchain import Board as ToolchainBoard
from agenttalk.engine.tracing import POLL as TRACE
from agenttalk.engine.tracing import Tracing
from agenttalk.engine.wakes import Waiter, Wake, Wakes
from agenttalk.engine.webhooks import Gather, Intake, Search
from agenttalk.errors import AgentTalkError, Code, MachineError, MissingError, UsageError
from agenttalk.ports import Driver, EventSource, Forge, Performer, Processes, Prover, Speaks, Tiers
from agenttalk.rules.mail import BOARD as MAIL

LOG = logging.getLogger(__name__)
T = TypeVar("T")
Configured: TypeAlias = "Callable[[str, Mapping[str, Any]], dict[str, Any]]"
"""Makes of an agent's id, and of what its own profile says, what holds for it."""
PAUSE: Final = 5.0
"""Seconds after which a loop tries again when a step failed."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The forges of an engine."""

    sources: Mapping[str, EventSource]
    setup: Setup
    gather: Gather | None = None
    search: Search | None = None
    forges: Mapping[str, Forge] = field(default_factory=dict)
    """Those that the engine has a token for."""
    reconcile_every: float = 0
    """Seconds between two looks at them; 0: only at the start."""


class Running:
    """The loops of an engine. `service` is what its doors ask."""

    def __init__(
        self,
        deps: Deps,
        driver: Driver,
        processes: Processes,
        *,
        max_running: int = 8,
        day_cost_usd: float | None = None,
        profile: Configured = lambda _, said: dict(said),
        environ: Mapping[str, str] | None = None,
        performers: Mapping[str, Performer] | None = None,
        prover: Prover | None = None,
        toolchain: Connected | None = None,
    ) -> None:
        """`performers` carry out the tasks of the engine's own plans, by driver, besides those that are programs.

        `toolchain` is what forges are connected by, if any are. A driver that knows sandboxes has coding agents, too.
        """
        self._deps = deps
        self._driver = driver
        self._slots = Slots(max_running)
        self._processes = processes
        self._configured = profile
        self._environ = environ
        self._router = Router(deps)
        self._monitor = Monitor(deps)
        self._turn = asyncio.Lock()
        self._seen: publish.Seen = {}
        self._crew: dict[str, tuple[Worker, asyncio.Task[None]]] = {}
        self._marks: dict[str, object] = {}
        self._api: Api | None = None
        self._wakes: Wakes | None = None
        self._stop = asyncio.Event()
        self._at_router = Waiter(lambda _: False)
        self._at_intake = Waiter(lambda _: False)
        self._at_outgoing = Waiter(lambda _: False)
        self._taken = asyncio.Event()
        self._at_mail = Waiter(lambda _: False)
        self.toolchain: ToolchainBoard | None = None
        """The board of forge events, if forges are connected."""
        self._setup = toolchain.setup if toolchain else None
        elsewhere = Elsewhere(deps)
        self.dispatcher = Dispatcher(
            deps,
            {**self._programs(), "human": People(deps), "remote": elsewhere, **(performers or {})},
            processes,
            slots=self._slots,
            nudge_router=self._look_soon,
            prover=prover,
            day_cost_usd=day_cost_usd,
        )
        elsewhere.at_work = self.dispatcher.at_work
        self.post = mail.Post(deps, nudge=self._mail_came, stop=self._end_turn)
        """Takes letters, and looks after them."""
        self.service = Service(
            deps,
            post=self.post,
            dispatcher=self.dispatcher,
            elsewhere=elsewhere,
            passes={"route": self._route_once, "monitor": self._monitor_once, "heartbeat": self._heartbeat_once},
            nudge=self._acted,
            turn=self._turn,
            receiver=Receiver(deps, toolchain.sources, self._at_intake.nudge) if toolchain else None,
        )
        self.service.day_cost_usd = day_cost_usd
        self._intake: Intake | None = None
        self._outgoing: Outgoing | None = None
        if toolchain is not None:
            self._connect(toolchain)
        if hasattr(deps.kinds.get(MAIL), "replies"):
            deps.kinds[MAIL].replies = self.post  # type: ignore[attr-defined]  # it is made before us
        self._at_schedules = Waiter(lambda _: False)
        self._schedules: Schedules | None = None
        self.notifications: Notifications | None = None
        """Who tells others what happens, if somebody is to be told."""
        self.tracing: Tracing | None = None
        """Who tells a tracing system what happens, if there is one."""
        self._every = toolchain.reconcile_every if toolchain else 0
        self.service.reconciler = self._reconciling(toolchain) if toolchain else None

    def look_after(self, schedules: Schedules) -> None:
        """Have plans begun by schedules, from the next `run` on."""
        self._schedules = self.service.schedules = schedules
        schedules.nudge, schedules.submitted = self._at_schedules.nudge, self.dispatcher.nudge

    async def configure(self, profile: Configured, *, max_running: int, day_cost_usd: float | None) -> None:
        """Have other settings hold from now on; what is under way goes on as it began."""
        self._configured = profile
        self._marks.clear()
        self._slots.resize(max_running)
        self.service.day_cost_usd = self.dispatcher.days.configured = day_cost_usd
        await self.dispatcher.days.refresh()
        self._at_schedules.nudge()
        self.dispatcher.nudge()
        self._look_soon()

    def _programs(self) -> dict[str, Performer]:
        """Who carries out the tasks of agents that are programs, by driver."""
        deps, driver, environ = self._deps, self._driver, dict(self._environ or {})
        found: dict[str, Performer] = {"script": Programs(deps, driver, lambda: self._api, environ)}
        if isinstance(driver, Tiers):
            found["cli"] = CodingAgents(deps, driver, lambda: self._api, environ, tiers=driver)
            if isinstance(driver, Speaks):
                speaks = driver.dialogue
                found["acp"] = SpokenAgents(deps, driver, lambda: self._api, environ, tiers=driver, dialogues=speaks)
        if deps.asks_models:
            models = Models(deps, driver, lambda: self._api, environ, program=deps.asks_models)
            found |= dict.fromkeys(MODEL_DRIVERS, models)
        return found

    def _connect(self, toolchain: Connected) -> None:
        deps = self._deps
        board = ToolchainBoard(deps, toolchain.setup, lambda: self._api.http if self._api else "")
        self.toolchain = board
        self._intake = Intake(
            deps,
            toolchain.sources,
            board,
            gather=toolchain.gather,
            search=toolchain.search,
            nudge=self._taken_in,
        )
        self._outgoing = Outgoing(
            deps,
            board,
            toolchain.forges,
            retry=lambda task_id, by: self.dispatcher.retry(BOARD, task_id, by=by),
            nudge=self.dispatcher.nudge,
        )

    def _taken_in(self) -> None:
        self._taken.set()
        self.dispatcher.nudge()
        self._at_outgoing.nudge()

    def _acted(self) -> None:
        """Somebody sent or answered something."""
        self._look_soon()
        self._at_outgoing.nudge()

    async def _say(self) -> float:
        return IDLE if self._outgoing is None else await self._outgoing.pass_()

    async def _hear_effects(self) -> None:
        """Have what turns leave behind seen to at once. The board is there once the first event was taken in."""
        while True:
            try:
                while not self._deps.stores.has(BOARD):
                    self._taken.clear()
                    await self._taken.wait()
                store, seen = await self._deps.stores.board(BOARD), 0
                while True:
                    seen = await store.woken(seen)
                    self._at_outgoing.nudge()
            except Exception:
                LOG.exception("nobody hears of effects; it is tried again", extra={"action": "engine.effects"})
            await asyncio.sleep(PAUSE)

    def _mail_came(self) -> None:
        self._at_mail.nudge()
        self.dispatcher.nudge()

    async def _end_turn(self, task_id: str, why: str) -> None:
        await self.dispatcher.abort(MAIL, task_id, by="the engine", why=why)

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
                await kinds.opened_again(self._deps, board, policies, profiles)
            except AgentTalkError as error:
                LOG.warning("%s: %s", board, error.message, extra={"action": "engine.board"})

    def _reconciling(self, toolchain: Connected) -> Reconciler | None:
        if self.toolchain is None or not toolchain.forges:
            return None
        nudge = self._taken_in
        return Reconciler(self._deps, self.toolchain, toolchain.forges, gather=toolchain.gather, nudge=nudge)

    async def _reconcile(self) -> None:
        if self.service.reconciler is None:
            return
        looking = asyncio.create_task(self.service.reconciler.pass_())
        await first(self._stop.wait(), looking)  # a slow forge does not keep the engine from ending
        if not looking.cancelled():
            looking.result()

    async def _count(self) -> int:
        if await self.dispatcher.days.refresh():  # another server may have been told
            self.dispatcher.nudge()
        return await honesty.count(self._deps, most=honesty.WHILE_ASKED)

    async def _take_in(self) -> int:
        if self._intake is None:
            return 0
        rush = self.service.receiver.rush
        while (pause := rush.pause()) and not self._stop.is_set():
            await first(self._stop.wait(), asyncio.sleep(pause))
        took = await self._intake.pass_()
        rush.took(took)
        return took

    async def run(self, stop: asyncio.Event, watch: Wake, api: Api) -> None:
        """Work until `stop` is set; returns when every loop and every turn has ended."""
        self._api, self._stop, self._wakes = api, stop, Wakes(watch)
        await self._open_boards()
        if self.notifications is not None:
            await self.notifications.begin()
        router, agents = self._wakes.of_router(), self._wakes.of_agents()
        self._at_router = router
        loops = [
            self._looped("router", router, self._route, lambda report: report.pause),
            self._looped("agents", agents, self._recruit, lambda _: POLL),
            self._looped("monitor", Waiter(lambda _: False), self._watch, lambda _: POLL),
            self._looped("mail", self._at_mail, self.post.pass_, lambda pause: pause),
            self._looped("honesty", Waiter(lambda _: False), self._count, lambda _: honesty.EVERY),
        ]
        if self._schedules is not None:
            looking = self._schedules.pass_
            loops.append(self._looped("schedules", self._at_schedules, looking, lambda pause: pause))
        if self.notifications is not None:
            loops.append(self._looped("notify", Waiter(lambda _: False), self._notify, lambda _: NOTIFY))
        if self.tracing is not None:
            loops.append(self._looped("traces", Waiter(lambda _: False), self._trace, lambda _: TRACE))
        loops += [self._dispatch(), self._publish()]
        if self._intake is not None:
            loops.append(self._looped("intake", self._at_intake, self._take_in, lambda took: 0.0 if took else POLL))
            loops.append(self._looped("outgoing", self._at_outgoing, self._say, lambda pause: pause))
        if self.service.reconciler is not None:
            loops.append(self._looped("reconcile", Waiter(lambda _: False), self._reconcile, lambda _: self._pause))
        listeners = [self._listen(self._wakes), *([self._hear_effects()] if self._outgoing is not None else [])]
        heard = [asyncio.create_task(each) for each in listeners]
        tasks = [*heard, *(asyncio.create_task(each) for each in loops)]
        self.service.ready = True
        try:
            await stop.wait()
        finally:
            self.service.ready = False
            self.service.feed.close()
            stop.set()
            for each in heard:
                each.cancel()
            crew = [task for _, task in self._crew.values()]
            await asyncio.gather(*tasks, *crew, return_exceptions=True)

    async def _notify(self) -> None:
        if self.notifications is None:
            return
        telling = asyncio.create_task(self.notifications.pass_())
        await first(self._stop.wait(), telling)  # nobody who is slow to listen keeps the engine from ending
        if not telling.cancelled():
            telling.result()

    async def _trace(self) -> None:
        if self.tracing is None:
            return
        telling = asyncio.create_task(self.tracing.pass_())
        await first(self._stop.wait(), telling)  # nor does a slow collector
        if not telling.cancelled():
            telling.result()

    @property
    def _pause(self) -> float:
        """Seconds until forges are read again; without a timer nobody waits that long."""
        return self._every or 1e9

    async def _dispatch(self) -> None:
        while not self._stop.is_set():
            try:
                await self.dispatcher.run(self._stop)
            except Exception:
                LOG.exception("the dispatcher failed; it is started again", extra={"action": "engine.dispatcher"})
                await first(self._stop.wait(), asyncio.sleep(PAUSE))

    async def _publish(self) -> None:
        """Show what changed in the engine's plans, at most once a second, and for large plans less often."""
        with self.dispatcher.followed() as news:
            while not self._stop.is_set():
                await first(self._stop.wait(), news.wait())
                news.clear()
                began = asyncio.get_running_loop().time()
                try:
                    await self.show()
                except AgentTalkError as error:
                    LOG.warning("cannot publish: %s", error.message, extra={"action": "engine.publish"})
                except Exception:
                    LOG.exception("publishing failed; it is tried again", extra={"action": "engine.publish"})
                spent = asyncio.get_running_loop().time() - began
                await first(self._stop.wait(), asyncio.sleep(max(1.0, 20 * spent)))

    async def show(self) -> None:
        """Bring the files that show the engine's plans up to date."""
        ended = self.dispatcher.take_ended()
        async with self._turn:
            for board in await boards(self._deps):
                still_open = {row[0] for row in await board.read("open_runs")}
                for plan_id in sorted(still_open | ended):
                    await publish.status(self._deps, board, plan_id, self._seen)
                await publish.publish(self._deps, board)

    @staticmethod
    async def _listen(wakes: Wakes) -> None:
        """Pass wake-ups on. Without them everything goes on too, only later."""
        while True:
            try:
                await wakes.run()
            except Exception:
                LOG.exception("the watch failed; it is tried again", extra={"action": "engine.watch"})
            await asyncio.sleep(PAUSE)

    async def _looped(
        self, name: str, wake: Wake, step: Callable[[], Awaitable[T]], pause: Callable[[T], float]
    ) -> None:
        while not self._stop.is_set():
            wait = PAUSE
            try:
                wait = pause(await step())
            except AgentTalkError as error:
                LOG.warning("%s: %s", name, error.message, extra={"action": f"engine.{name}"})
            except Exception:
                LOG.exception("%s: a step failed; it is tried again", name, extra={"action": f"engine.{name}"})
            await first(self._stop.wait(), wake.changed(wait))

    def _look_soon(self) -> None:
        self._at_router.nudge()

    async def _route(self) -> Report:
        async with self._turn:
            report = await self._router.pass_()
        if not report.idle:
            self._mail_came()
            self._at_outgoing.nudge()  # people answer by files, too
        return report

    async def _watch(self) -> None:
        async with self._turn:
            await self._monitor.pass_()

    async def _route_once(self, _: str | None) -> dict[str, Any]:
        self._require_running()
        async with self._turn:
            report = await self._router.run_once()
        if not report.idle:
            self._mail_came()
        return report.as_json()

    async def _monitor_once(self, _: str | None) -> dict[str, Any]:
        self._require_running()
        async with self._turn:
            return (await self._monitor.pass_()).as_json()

    async def _heartbeat_once(self, agent_id: str | None) -> dict[str, Any]:
        self._require_running()
        if agent_id is None:
            raise UsageError(Code.FIELD_MISSING, "whose heartbeat?", hint="name an agent")
        agents = await asyncio.to_thread(agents_in, self._deps.root)
        if agent_id not in agents:
            near = nearest(agent_id, agents)
            hint = f"did you mean {near!r}?" if near else "a folder under agents/ makes one"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no agent {agent_id!r}", hint=hint)
        await self._recruit()
        if agent_id not in self._crew:
            return (await self._worker(agent_id).tick()).as_json()
        worker, loop = self._crew[agent_id]
        looking = asyncio.create_task(worker.pass_())
        await first(looking, loop, self._stop.wait(), keep={loop})
        if looking.cancelled():
            self._require_running()
            raise MachineError(Code.ENGINE_UNREACHABLE, f"the heartbeat of {agent_id} failed", hint="try again")
        return looking.result().as_json()

    def _require_running(self) -> None:
        if self._stop.is_set() or self._wakes is None:
            raise MachineError(Code.ENGINE_UNREACHABLE, "the engine is just starting or ending", hint="try again")

    async def _recruit(self) -> None:
        """Begin to drive agents whose profile says that we do, and those again whose loop has ended."""
        for agent_id in [each for each, (_, task) in self._crew.items() if task.done()]:
            del self._crew[agent_id]
            self._marks.pop(agent_id, None)
        for agent_id in await asyncio.to_thread(agents_in, self._deps.root):
            if agent_id in self._crew or self._stop.is_set() or not await self._is_driven(agent_id):
                continue
            worker = self._worker(agent_id)
            self._crew[agent_id] = (worker, asyncio.create_task(self._work(worker, agent_id)))

    async def _work(self, worker: Worker, agent_id: str) -> None:
        if self._wakes is None:
            return
        wake = self._wakes.of_agent(agent_id)
        try:
            await worker.run(self._stop, wake)
        except Exception:
            LOG.exception("the heartbeat of %s ended; it is started again", agent_id, extra={"action": "engine.agents"})
        finally:
            self._wakes.drop(wake)

    def _worker(self, agent_id: str) -> Worker:
        return Worker(
            self._deps,
            agent_id,
            self._driver,
            self._processes,
            self._api,
            environ=self._environ,
            slots=self._slots,
            freed=self.dispatcher.nudge,
            profile=lambda: profile_of(self._deps, agent_id, self._configured),
        )

    async def _is_driven(self, agent_id: str) -> bool:
        """Whether an agent's profile, with the settings over it, has us start a program. Read when it changed."""
        path = f"{places.agent(agent_id)}/{places.PROFILE}"
        try:
            mark = await asyncio.to_thread(self._deps.root.entry, path)
            if agent_id in self._marks and self._marks[agent_id] == mark:
                return False
            self._marks[agent_id] = mark
            return (await asyncio.to_thread(profile_of, self._deps, agent_id, self._configured)).driver == "script"
        except AgentTalkError:
            return False


def profile_of(deps: Deps, agent_id: str, configured: Configured) -> AgentProfile:
    """What holds for an agent: its own profile, and the settings over it. Raises AgentTalkError when it is wrong."""
    try:
        said: Any = wire.read(deps.root.read(f"{places.agent(agent_id)}/{places.PROFILE}", wire.ENVELOPE_LIMIT))
    except MissingError:
        said = {"schema_version": "1.0", "agent_id": agent_id}
    return AgentProfile.from_json(configured(agent_id, said) if isinstance(said, dict) else said)


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


async def first(*waits: Awaitable[Any], keep: Collection[asyncio.Task[Any]] = ()) -> None:
    """Wait for the first of them; the others are cancelled, unless they are to be kept."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = [task for task in tasks if task not in keep]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
