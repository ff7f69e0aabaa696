"""The dispatcher: takes tasks out of the queues, has them carried out, and writes down what came of it.

The end of a turn, what it makes ready and the beginning of the next turn are one transaction. What a crash leaves is
found by the next start: leases of dead processes, tasks that are due, queues that wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar, cast

from agenttalk.contracts import wire
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import ValidationCriteria
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.promise import HumanCheck
from agenttalk.engine import by_hand, ending, granting, human, people, revising, spending, steering
from agenttalk.engine.deps import Deps
from agenttalk.engine.granting import Desk, Granted
from agenttalk.engine.moves import Moves
from agenttalk.engine.plans import board_of, boards
from agenttalk.engine.sheets import Sheets
from agenttalk.engine.slots import Slots
from agenttalk.engine.spending import Allowance, Purse
from agenttalk.engine.watching import Watches, counted, listening
from agenttalk.errors import AgentTalkError, Code, InputError, MachineError
from agenttalk.ports import Job, Judge, Owner, Performance, Performer, Processes, Proof, Prover, Store, Tx
from agenttalk.prompts.judge import judging
from agenttalk.rules import checks, media, rework
from agenttalk.rules.aborts import Abort
from agenttalk.rules.checks import Confirmation
from agenttalk.rules.rework import Judgement
from agenttalk.rules.usage import NOTHING, Used

LOG = logging.getLogger(__name__)
POLL: Final = 10.0
"""Seconds after which it looks at everything, whether or not anything woke it."""
TOGETHER: Final = 256
"""Plans that are looked at in one transaction."""
PAUSE: Final = 1.0
"""Seconds after which a step that the machine refused is tried again."""
JUDGED: Final = 2
"""How often an agent is asked for a judgement that can be read."""
T = TypeVar("T")


@dataclass(slots=True)
class _Board:
    """A board and what is known of its plans."""

    store: Store
    sheets: Sheets = field(default_factory=Sheets)


class Dispatcher:
    """Runs the engine's plans of a root."""

    def __init__(
        self,
        deps: Deps,
        performers: Mapping[str, Performer],
        processes: Processes,
        *,
        max_running: int = 8,
        nudge_router: Callable[[], None] = lambda: None,
        prover: Prover | None = None,
        slots: Slots | None = None,
        day_cost_usd: float | None = None,
    ) -> None:
        self._deps = deps
        self._performers = performers
        self._processes = processes
        self._nudge_router = nudge_router
        self._prover = prover
        self._slots = slots or Slots(max_running)
        owner = wire.write(processes.me()._asdict()).decode()
        self._desk = Desk(owner, str(deps.root.path.absolute()), self._slots, Purse(day_cost_usd))
        self._boards: dict[str, _Board] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}
        self.watches = Watches()
        """Who looks on at turns under way."""
        self._ours: set[str] = set()
        self._lost: set[str] = set()
        """Leases of turns that our own code failed on: they count as deaths of the engine, so that it ends somewhen."""
        self._unpaid: dict[str, tuple[Allowance | None, Used]] = {}
        """Leases of turns that we ended ourselves, and what they had used of what they may."""
        self._wake = asyncio.Event()
        self._working: set[str] = set()
        """Leases of turns under way, apart from questions to people."""
        self._followers: set[asyncio.Event] = set()
        self._waiters: set[asyncio.Event] = set()
        self._ended: set[str] = set()
        self._onlookers: list[asyncio.Future[None]] = []
        """Those who wait for a look that begins after they asked for it."""

    def nudge(self) -> None:
        """Look at everything soon."""
        self._wake.set()

    async def looked(self) -> None:
        """Have it look at everything; returns when it has. Only while it runs."""
        asked = asyncio.get_running_loop().create_future()
        self._onlookers.append(asked)
        self.nudge()
        await asked

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. Turns under way are ended then, and begin anew with the next start."""
        try:
            await self.recover()
            while not stop.is_set():
                self._wake.clear()
                asked = len(self._onlookers)
                try:
                    more = await self.look()
                except AgentTalkError as error:
                    LOG.warning("%s", error.message, extra={"action": "dispatcher.look"})
                    more, wait = False, PAUSE
                else:
                    wait = POLL
                if not more:
                    self._tell_onlookers(asked)
                    await self._sleep(stop, wait)
        finally:
            self._tell_onlookers(len(self._onlookers))
            await self.close()

    def _tell_onlookers(self, number: int) -> None:
        """Tell those who asked for a look that it is over."""
        for each in self._onlookers[:number]:
            if not each.done():  # whoever asked may be gone
                each.set_result(None)
        del self._onlookers[:number]

    async def _sleep(self, stop: asyncio.Event, seconds: float) -> None:
        waits = {asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._wake.wait())}
        _, pending = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()

    async def look(self) -> bool:
        """Make due tasks ready and begin what can begin, on all boards; whether there is more to do at once."""
        more = False
        if self._lost:
            await self.recover()
        if self._desk.purse.day_cost_usd is not None:
            await spending.see_the_day(self._deps, self._desk.purse)
        for store in await boards(self._deps):
            board = self._boards.setdefault(store.name, _Board(store))
            plans = deque(plan_id for plan_id, state in await store.read("open_runs") if state == "RUNNING")
            while plans:
                more = await self._look_at(board, plans) or more
            agents = [row[0] for row in await store.read("queueing_agents")]
            if agents:
                await self._step(board, partial(_offer, agents=agents))
        return more

    async def _look_at(self, board: _Board, plans: deque[str]) -> bool:
        """Look at the first of some plans, many in one transaction; whether there is more to do in them at once.

        If that fails the first one is looked at alone, so that no plan suffers for another.
        """
        try:
            looked, more = await self._step(board, partial(_look, plans=tuple(islice(plans, TOGETHER))))
        except AgentTalkError:
            if len(plans) == 1:
                raise
            looked, more = await self._step(board, partial(_look, plans=(plans[0],)))
        for _ in range(looked):
            plans.popleft()
        return more

    async def _step(self, board: _Board, do: Callable[[Moves], T], *, after: Granted | None = None) -> T:
        """Do something in a transaction, and begin in it what it made possible."""
        taken: list[Granted] = []
        seen: list[Moves] = []

        def work(tx: Tx) -> T:
            moves = Moves(tx, self._deps, board.sheets, self._deps.stamp())
            seen[:] = [moves]
            outcome = do(moves)
            agents = dict.fromkeys([after.job.agent_id, *moves.agents] if after else moves.agents)
            if after:
                self._free(after)
            taken[:] = granting.grant(moves, self._desk, agents)
            self._ours.update(each.job.lease for each in taken)
            moves.finish()
            return outcome

        committed = asyncio.ensure_future(board.store.transact(work))
        cancelled: asyncio.CancelledError | None = None
        try:
            outcome = await asyncio.shield(committed)
        except asyncio.CancelledError as error:  # what was handed over is carried out all the same
            cancelled = error
            await asyncio.wait({committed})
        except BaseException:
            self._drop(taken)
            raise
        if cancelled is not None and committed.exception() is not None:
            self._drop(taken)
            raise cancelled
        self._go_on(board, seen[0], taken, after)
        if cancelled is not None:
            raise cancelled
        return outcome

    def _go_on(self, board: _Board, moves: Moves, taken: list[Granted], after: Granted | None) -> None:
        """Do what follows from a commit."""
        self._desk.remember(board.store.name, moves.queued)
        for each in taken:
            self._begin(board, each)
        if moves.in_folders:
            self._nudge_router()
        self._ended.update(moves.closed)
        if moves.left:
            self._wake.set()
        if after is not None:
            self._working.discard(after.job.lease)
        self._tell(ended=bool(moves.closed))

    def _drop(self, taken: list[Granted]) -> None:
        for each in taken:
            self._free(each)
            self._ours.discard(each.job.lease)

    def _begin(self, board: _Board, granted: Granted) -> None:
        task = asyncio.create_task(self._turn(board, granted))
        job = granted.job
        self._turns[job.lease] = task
        self.watches.begin(job, granted.watch, task.cancel)
        if granted.job.profile.driver != "human":
            self._working.add(granted.job.lease)
        task.add_done_callback(lambda _: self._forget(granted))  # one that is cancelled before it begins ends, too

    def _forget(self, granted: Granted) -> None:
        self._free(granted)
        self._turns.pop(granted.job.lease, None)
        self.watches.end(granted.job, granted.watch)
        self._working.discard(granted.job.lease)
        self._ours.discard(granted.job.lease)

    async def _turn(self, board: _Board, granted: Granted) -> None:
        """Carry out a job and write down its end. An end that the store refuses is told again until it takes it."""
        job = granted.job
        try:
            performance, proof = await self._watched(board, granted)
            while True:
                try:
                    await self._step(
                        board, lambda moves: ending.conclude(moves, granted, performance, proof), after=granted
                    )
                except MachineError as error:
                    LOG.warning("%s: %s", job.task_id, error.message, extra={"action": "dispatcher.conclude"})
                    await asyncio.sleep(PAUSE)
                else:
                    return
        except AgentTalkError as error:
            if error.code is not Code.LEASE_LOST:
                LOG.exception("%s: a turn failed", job.task_id, extra={"action": "dispatcher.turn"})
                self._lost.add(job.lease)
            self._free(granted)
            self._wake.set()
        except asyncio.CancelledError:
            self._unpaid[job.lease] = (granted.allowance, granted.watch.used)
            self._free(granted)
            raise
        except Exception:
            LOG.exception("%s: our own code failed on it", job.task_id, extra={"action": "dispatcher.turn"})
            self._lost.add(job.lease)
            self._free(granted)
            self._wake.set()

    async def _watched(self, board: _Board, granted: Granted) -> tuple[Performance, Proof]:
        """Have a job done; one that is stopped meanwhile, by whoever looks on or by a person, ends with the reason."""
        watch = granted.watch
        try:
            performance, proof = await self._worked(board, granted)
        except asyncio.CancelledError:
            if watch.abort is None:
                raise
            performance, proof = Performance("aborted"), ending.NO_PROOF
        if watch.abort is None:
            return performance, proof
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # the cancellation may still be on its way
        task = asyncio.current_task()
        if task is not None and task.uncancel() > 0:
            raise asyncio.CancelledError  # somebody else wants us to end, too
        self._working.add(granted.job.lease)
        detail = self._deps.discretion.secrets.redact(watch.abort.detail)  # it may quote what the agent told
        abort = watch.abort._replace(detail=detail)
        return Performance("aborted", abort=abort, **counted(watch.used, {})), ending.NO_PROOF

    async def _worked(self, board: _Board, granted: Granted) -> tuple[Performance, Proof]:
        """Have a job done, and proven if somebody else has to look at it."""
        job = granted.job
        prover = self._prover
        if prover is None and (job.proven or job.criteria):
            return Performance("not_started", error="checks and repositories are not supported here"), ending.NO_PROOF
        if job.profile.confined and not getattr(self._performers.get(job.profile.driver), "confines", False):
            error = f"the driver {job.profile.driver!r} knows no sandbox; leave out sandbox and network, or use script"
            return Performance("not_started", error=error), ending.NO_PROOF
        try:
            judgements = await self._judged(board, granted, prover) if prover is not None and job.criteria else {}
        except InputError as error:  # whoever is to judge cannot be asked: that is no judgement of what it was given
            return Performance("not_started", error=error.message), ending.NO_PROOF
        if not all(each.accepted for each in judgements.values()):
            return Performance("refused", judgements=judgements), ending.NO_PROOF
        if prover is None or not job.proven:
            performance = await self._look_into(job, await self._perform(job))
            return replace(performance, judgements=judgements) if judgements else performance, ending.NO_PROOF
        try:
            job = await prover.begin(job)
        except AgentTalkError as error:
            return Performance("not_started", error=error.message), ending.NO_PROOF
        performance = replace(await self._look_into(job, await self._perform(job)), judgements=judgements)
        if performance.how != "finished" or performance.code is not None:
            return performance, ending.NO_PROOF
        await self._enter(board, job, "verifying")
        try:
            done = partial(ending.is_done, granted, performance, at=self._deps.stamp())
            proof = await prover.prove(job, performance, done, partial(self._confirm, board, granted))
            return performance, self._deps.discretion.proof(proof)
        except AgentTalkError as error:
            return performance, Proof(refused=f"it could not be checked: {error.message}")

    async def _judged(self, board: _Board, granted: Granted, prover: Prover) -> dict[str, Judgement]:
        """Have inputs looked at before they are used: by a machine, and then by the agent that is to use them."""
        job = granted.job
        await self._enter(board, job, "validating")
        found = {}
        blobs = await self._deps.stores.blobs(job.board)
        for name, criteria in job.criteria.items():
            files = {
                each.path: each.data if each.data is not None else await blobs.get(each.sha256)
                for each in job.inputs
                if each.input_name == name
            }
            if files:
                faults = await prover.faults(criteria, files)
                if faults:
                    found[name] = rework.refused(faults)
                elif not rework.wants_judgement(criteria):
                    found[name] = Judgement(True, 100, "a machine finds nothing wrong with it")
                elif name in job.own_inputs or not hasattr(self._performers.get(job.profile.driver), "judge"):
                    found[name] = await self._asked(board, granted, name, criteria, files)
                else:
                    found[name] = await self._judgement(job, name, criteria)
        await self._enter(board, job, "executing")
        return found

    async def _asked(
        self, board: _Board, granted: Granted, name: str, criteria: ValidationCriteria, files: Mapping[str, bytes]
    ) -> Judgement:
        """Have a person judge an input, because its user made it itself, or cannot judge."""
        wanted = f": {criteria.completeness}" if criteria.completeness else ""
        question = f"Is the input {name!r} of {granted.job.task_id} good enough to work with{wanted}?"
        shown = checks.shown_hash(question, {path: wire.sha256(data) for path, data in files.items()})
        check = HumanCheck(id=f"input:{name}", kind="human", question=question)
        said = await self._confirm(board, granted, check, shown)
        return rework.by_person(said)

    async def _judgement(self, job: Job, name: str, criteria: ValidationCriteria) -> Judgement:
        judge = cast("Judge", self._performers[job.profile.driver])
        for _ in range(JUDGED):
            watch = listening(job)
            try:
                said = await judge.judge(job, name, judging(name, criteria, locale=job.profile.locale))
            finally:
                if watch is not None:
                    watch.rest()
            judgement = rework.judged(criteria, said)
            if judgement is not None:
                return judgement
        return rework.refused([f"{job.agent_id} did not say what it thinks of {name}"])

    async def _confirm(self, board: _Board, granted: Granted, check: HumanCheck, shown: str) -> Confirmation:
        """Ask a person about what a turn left. Meanwhile its agent can do something else."""
        await self._enter(board, granted.job, "asking")
        self._free(granted)
        self._working.discard(granted.job.lease)
        self._wake.set()
        self._tell(ended=False)
        try:
            return await people.confirm(self._deps, granted.job, check, shown)
        finally:
            self._working.add(granted.job.lease)
            await self._enter(board, granted.job, "verifying")

    async def _enter(self, board: _Board, job: Job, phase: str) -> None:
        about = {"plan_id": job.plan_id, "task_id": job.task_id, "lease": job.lease, "phase": phase}
        await board.store.transact(lambda tx: tx.run("set_phase", **about))
        self._tell(ended=False)

    async def _perform(self, job: Job) -> Performance:
        performer = self._performers.get(job.profile.driver)
        if performer is None:
            return Performance("not_started", error=f"the driver {job.profile.driver!r} is not supported here")
        try:
            watch = listening(job)
            try:
                performance = await performer.perform(job)
            finally:
                if watch is not None:
                    watch.rest()
            if watch is None or not watch.heard:
                return performance
            return replace(performance, **counted(watch.used._replace(seconds=performance.seconds), performance.usage))
        except Exception as error:  # a performer that fails is a fault of ours or of the machine, not of the agent
            LOG.exception("%s: its driver failed", job.task_id, extra={"action": "dispatcher.perform"})
            return Performance("crashed", error=f"{type(error).__name__}: {error}")

    async def _look_into(self, job: Job, performance: Performance) -> Performance:
        """Hold the outputs against the media types that they must have."""
        misfits = {}
        for made in performance.outputs:
            wanted = job.types.get(made.output_name)
            if wanted is not None:
                data = made.data
                if data is None:
                    data = await (await self._deps.stores.blobs(job.board)).get(made.sha256)
                why = (
                    media.misfit(wanted, data)
                    if made.data is not None
                    else await asyncio.to_thread(media.misfit, wanted, data)
                )
                if why is not None:
                    misfits[made.output_name] = f"({made.path}) {why}"
        return replace(performance, misfits=misfits) if misfits else performance

    async def pause(self, plan_id: str, *, by: str) -> bool:
        """Begin nothing new of a plan."""
        board = await self._board_of(plan_id)
        at = self._deps.stamp()
        return await board.store.transact(lambda tx: steering.pause(tx, plan_id, by=by, at=at))

    async def resume(self, plan_id: str, *, by: str) -> bool:
        """Let a paused plan go on."""
        board = await self._board_of(plan_id)
        return await self._step(board, lambda moves: steering.resume(moves, plan_id, by=by))

    async def cancel(self, plan_id: str, *, by: str, why: str = "") -> int:
        """Call a plan off: first nothing new begins, then what runs is ended, then the rest is called off."""
        board = await self._board_of(plan_id)
        at = self._deps.stamp()
        rows = await board.store.read("run", plan_id=plan_id)
        if rows and rows[0][0] != "ENDED":
            await board.store.transact(lambda tx: steering.pause(tx, plan_id, by=by, at=at))
        tasks = {row[1] for row in await board.store.read("working_in_plan", plan_id=plan_id)}
        await self._end_turns(board, plan_id, tasks)
        return await self._step(board, lambda moves: steering.cancel(moves, plan_id, by=by, why=why))

    async def retry(self, plan_id: str, task_id: str, *, by: str, onwards: bool = False) -> list[str]:
        """Try a failed task again; the tasks that wait for something again. `onwards`, all that hangs on it, too."""
        board = await self._board_of(plan_id)
        if not onwards:
            return await self._step(board, lambda moves: steering.retry(moves, plan_id, task_id, by=by))
        tasks = await self._step(board, lambda moves: steering.runs_again(moves, plan_id, task_id))
        at = self._deps.stamp()
        paused = (await board.store.read("run", plan_id=plan_id))[0][0] == "RUNNING" and await board.store.transact(
            lambda tx: steering.pause(tx, plan_id, by=by, at=at)
        )
        try:
            await self._end_turns(board, plan_id, tasks)
            return await self._step(
                board, lambda moves: steering.retry(moves, plan_id, task_id, by=by, onwards=True, go_on=paused)
            )
        except AgentTalkError:
            if paused:
                await self.resume(plan_id, by=by)
            raise

    async def abort(self, plan_id: str, task_id: str, *, by: str, why: str = "") -> dict[str, Any]:
        """Stop a task, whatever it is doing: its processes are dead when this returns, and it has failed."""
        board = await self._board_of(plan_id)
        detail = f"stopped by {by}" + (f": {why}" if why else "")
        watch = self.watches.of(board.store.name, plan_id, task_id)
        turns = [self._turns[lease] for lease, each in await self._under_way(board, plan_id) if each == task_id]
        if watch is not None and turns:
            watch.stop(Abort("user-aborted", detail))
            await asyncio.wait(turns)
        await self.recover()
        return await self._step(board, lambda moves: steering.abort(moves, plan_id, task_id, detail=detail))

    async def _under_way(self, board: _Board, plan_id: str) -> list[tuple[str, str]]:
        rows = await board.store.read("working_in_plan", plan_id=plan_id)
        return [(lease, task_id) for lease, task_id in rows if lease in self._turns]

    async def override(self, plan_id: str, task_id: str, *, checkpoint: str, by: str, why: str) -> dict[str, Any]:
        """Let a task begin that a checkpoint holds up, in an operator's name and for exactly the reasons it gave."""
        board = await self._board_of(plan_id)
        rows = await board.store.read("engine_task", plan_id=plan_id, task_id=task_id)
        found = await board.store.read("objections_to", plan_id=plan_id, task_id=task_id)
        request_id, denial = steering.held_up(plan_id, task_id, rows, found, checkpoint)
        _, asked = await human.request(self._deps, request_id)
        if asked.state == "open":  # else whoever answered it died before that was carried out
            await human.answer(self._deps, request_id, by=by, decision="APPROVE", answers=["override"], notes=why)
        await self._step(board, partial(_look, plans=(plan_id,)))
        self.nudge()
        return {"checkpoint": denial["checkpoint"], "reasons": denial["reasons"], "trace_id": denial["trace_id"]}

    async def apply(
        self, dag: TaskDag, manifest: PlanManifest, profiles: Mapping[str, AgentProfile], *, by: str
    ) -> revising.Difference:
        """Put a new revision of a plan in force: what changed is ended first, what did not goes on."""
        board = await self._board_of(dag.plan_id)
        at = self._deps.stamp()
        found = await board.store.transact(lambda tx: revising.difference(tx, dag))
        state = (await board.store.read("run", plan_id=dag.plan_id))[0][0]
        if state == "RUNNING":
            await board.store.transact(lambda tx: steering.pause(tx, dag.plan_id, by=by, at=at))
        await self._end_turns(board, dag.plan_id, {*found.changed, *found.removed})
        return await self._step(
            board, lambda moves: revising.apply(moves, dag, manifest, profiles, by=by, paused=state == "PAUSED")
        )

    async def _end_turns(self, board: _Board, plan_id: str, tasks: set[str]) -> None:
        rows = await board.store.read("working_in_plan", plan_id=plan_id)
        turns = [self._turns[lease] for lease, task_id in rows if lease in self._turns and task_id in tasks]
        for turn in turns:
            turn.cancel()
        await asyncio.gather(*turns, return_exceptions=True)
        await self.recover()

    async def _board_of(self, plan_id: str) -> _Board:
        store = await board_of(self._deps, plan_id)
        return self._boards.setdefault(store.name, _Board(store))

    async def recover(self) -> int:
        """End leases that nobody takes care of, once their processes are confirmed dead; how many there were."""
        count = 0
        for store in await boards(self._deps):
            board = self._boards.setdefault(store.name, _Board(store))
            for plan_id, task_id, agent_id, epoch, lease, owner, delivery in await store.read("working_tasks"):
                if lease in self._ours or self._lives(owner):
                    continue
                await self._processes.end(lease)
                died = owner != self._desk.owner or lease in self._lost
                about = (plan_id, task_id, agent_id, epoch, lease, delivery, died)
                await board.store.transact(lambda tx, about=about, board=board: self._release(tx, board, about))  # type: ignore[misc]
                self._lost.discard(lease)
                count += 1
        return count

    def _lives(self, owner: str) -> bool:
        said: Any = wire.read(owner.encode())
        found = Owner(**said)
        return found != self._processes.me() and self._processes.alive(found)

    def _release(self, tx: Tx, board: _Board, about: tuple[str, str, str, int, str, int, bool]) -> None:
        moves = Moves(tx, self._deps, board.sheets, self._deps.stamp())
        allowance, used = self._unpaid.pop(about[4], (None, NOTHING))
        ending.give_up(moves, *about[:6], died=about[6], used=used, allowance=allowance)
        moves.finish()

    async def close(self) -> None:
        """End every turn under way and give its task back."""
        while turns := list(self._turns.values()):
            for turn in turns:
                turn.cancel()
            await asyncio.gather(*turns, return_exceptions=True)
        with suppress(AgentTalkError):
            await self.recover()

    def _free(self, granted: Granted) -> None:
        self._slots.free(granted.job.agent_id, granted.ticket)

    def take_ended(self) -> set[str]:
        """Plans that ended since this was asked last."""
        ended, self._ended = self._ended, set()
        return ended

    def _tell(self, *, ended: bool) -> None:
        for follower in self._followers:
            follower.set()
        if ended or not self._working:
            for waiter in self._waiters:
                waiter.set()

    @contextmanager
    def followed(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever something changed; whoever follows clears it."""
        with _joined(self._followers) as news:
            yield news

    @contextmanager
    def awaited(self) -> Iterator[asyncio.Event]:
        """An event that is set when a plan ended, or nothing is under way but questions to people."""
        with _joined(self._waiters) as news:
            yield news


@contextmanager
def _joined(events: set[asyncio.Event]) -> Iterator[asyncio.Event]:
    news = asyncio.Event()
    events.add(news)
    try:
        yield news
    finally:
        events.discard(news)


def _look(moves: Moves, plans: Sequence[str]) -> tuple[int, bool]:
    """Look at plans until enough is ready for one transaction; at how many, and whether there is more in them."""
    looked, due = 0, 0
    for plan_id in plans:
        sheet = moves.sheets.of(moves.tx, plan_id)
        by_hand.look(moves, sheet)
        due += moves.look(sheet)
        looked += 1
        if moves.full:
            break
    return looked, due > 0


def _offer(moves: Moves, agents: list[str]) -> None:
    moves.agents.update(dict.fromkeys(agents))
