"""The dispatcher: takes tasks out of the queues, has them carried out, and writes down what came of it.

The end of a turn, what it makes ready and the beginning of the next turn are one transaction. What a crash leaves is
found by the next start: leases of dead processes, tasks that are due, queues that wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from agenttalk.contracts import wire
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.promise import HumanCheck
from agenttalk.engine import (
    acceptance,
    by_hand,
    deciding,
    ending,
    granting,
    human,
    kinds,
    people,
    regressing,
    releasing,
    resuming,
    reviews,
    revising,
    spending,
    steering,
)
from agenttalk.engine import evidence as kept
from agenttalk.engine.awaiting import Deciding
from agenttalk.engine.closing import Closing
from agenttalk.engine.deps import Deps
from agenttalk.engine.ending import End
from agenttalk.engine.granting import Desk, Granted
from agenttalk.engine.judging import Judges
from agenttalk.engine.moves import Moves
from agenttalk.engine.plans import VIRTUAL, board_of, boards
from agenttalk.engine.resuming import Left
from agenttalk.engine.reviewing import Review
from agenttalk.engine.sheets import Sheets
from agenttalk.engine.slots import Slots
from agenttalk.engine.spending import Allowance, Purse
from agenttalk.engine.watching import Watches, counted, listening
from agenttalk.errors import AgentTalkError, Code, InputError, MachineError
from agenttalk.ports import Job, Owner, Performance, Performer, Processes, Proof, Prover, Store, Tx
from agenttalk.rules import media, rework
from agenttalk.rules.aborts import Abort
from agenttalk.rules.checks import Confirmation
from agenttalk.rules.done import Evidence
from agenttalk.rules.rework import Accept, Decision, Judgement
from agenttalk.rules.usage import NOTHING, Used

LOG = logging.getLogger(__name__)
POLL: Final = 10.0
"""Seconds after which it looks at everything, whether or not anything woke it."""
TOGETHER: Final = 256
"""Plans that are looked at in one transaction."""
PAUSE: Final = 1.0
"""Seconds after which a step that the machine refused is tried again."""
T = TypeVar("T")


@dataclass(slots=True)
class _Board:
    """A board and what is known of its plans."""

    store: Store
    sheets: Sheets = field(default_factory=Sheets)
    ends: list[tuple[End, asyncio.Future[bool]]] = field(default_factory=list)
    """Turns whose ends wait for the transaction that writes them down together."""
    writing: asyncio.Task[None] | None = None
    """Who does that."""


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
        self._closings: dict[str, asyncio.Task[None]] = {}
        self._ours: set[str] = set()
        self._lost: set[str] = set()
        """Leases of turns that our own code failed on: they count as deaths of the engine, so that it ends somewhen."""
        self._unpaid: dict[str, tuple[Allowance | None, Used]] = {}
        """Leases of turns that we ended ourselves, and what they had used of what they may."""
        self._revoked: set[str] = set()
        """Leases of turns that are to end, because what they were given was replaced."""
        self._wake = asyncio.Event()
        self._working: set[str] = set()
        """Leases of turns under way, apart from questions to people."""
        self._followers: set[asyncio.Event] = set()
        self._waiters: set[asyncio.Event] = set()
        self._ended: set[str] = set()
        self._deciding = Deciding(
            deps,
            prover,
            lambda store, do: self._step(self._boards.setdefault(store.name, _Board(store)), do),
            lambda plan_id: self.cancel(plan_id, by="engine", why="the review is over"),
            self._release_decided,
        )
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
        if self._lost or self._revoked - self._turns.keys():
            await self.recover()
            self._revoked &= self._turns.keys()
        if self._desk.purse.day_cost_usd is not None:
            await spending.see_the_day(self._deps, self._desk.purse)
        for store in await boards(self._deps):
            try:
                more = await self._look_on(store) or more
            except MachineError as error:
                if store.name not in VIRTUAL:
                    raise
                LOG.warning("%s: %s", store.name, error.message, extra={"action": "dispatcher.board"})
        return more

    async def _look_on(self, store: Store) -> bool:
        """Look at one board; whether there is more to do on it at once."""
        more = False
        board = self._boards.setdefault(store.name, _Board(store))
        runs = [row for row in await store.read("open_runs") if row[1] == "RUNNING"]
        for plan_id in (row[0] for row in runs if not row[2]):
            self._close_plan(board, plan_id)
        plans = deque(row[0] for row in runs if row[2])
        while plans:
            more = await self._look_at(board, plans) or more
        for row in await store.read("answered_failures"):
            await self._answered(board, *row)
        more = await self._deciding.look(store) or more
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

    async def _step(self, board: _Board, do: Callable[[Moves], T], *, after: Sequence[Granted] = ()) -> T:
        """Do something in a transaction, and begin in it what it made possible."""
        taken: list[Granted] = []
        seen: list[Moves] = []

        def work(tx: Tx) -> T:
            moves = Moves(tx, self._deps, board.sheets, self._deps.stamp())
            seen[:] = [moves]
            outcome = do(moves)
            agents = dict.fromkeys([*(each.job.agent_id for each in after), *moves.agents])
            for each in after:
                self._free(each)
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
            while not committed.done():
                with suppress(asyncio.CancelledError):
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

    def _go_on(self, board: _Board, moves: Moves, taken: list[Granted], after: Sequence[Granted]) -> None:
        """Do what follows from a commit."""
        self._desk.remember(board.store.name, moves.queued)
        for each in taken:
            self._begin(board, each)
        for lease in moves.revoked:
            self._revoke(lease)
        if moves.in_folders:
            self._nudge_router()
        for plan_id in moves.closing:
            self._close_plan(board, plan_id)
        self._ended.update(moves.closed)
        if moves.left or moves.undecided or self._deciding.awaits(moves.closed):
            self._wake.set()
        for each in after:
            self._working.discard(each.job.lease)
        self._tell(ended=bool(moves.closed))

    def _revoke(self, lease: str) -> None:
        """End a turn whose inputs were replaced. Once nothing of it runs any more, its task is taken back."""
        self._revoked.add(lease)
        if lease in self._turns:
            self._turns[lease].cancel()
        else:
            self._wake.set()

    def _close_plan(self, board: _Board, plan_id: str) -> None:
        """Look once more at what a plan proved, and end it if all of that holds."""
        if plan_id in self._closings:
            return
        mark = f"closing/{plan_id}"
        self._working.add(mark)
        self._closings[plan_id] = asyncio.create_task(self._closing(board, plan_id).close())

        def over(task: asyncio.Task[None]) -> None:
            del self._closings[plan_id]
            self._working.discard(mark)
            if not task.cancelled() and task.exception() is not None:
                LOG.error("%s: our own code failed on it", plan_id, exc_info=task.exception())
            self._tell(ended=False)

        self._closings[plan_id].add_done_callback(over)

    def _closing(self, board: _Board, plan_id: str) -> Closing:
        step, without_secrets = partial(self._step, board), self._deps.discretion.result
        return Closing(board.store, board.sheets, self._prover, step, plan_id, without_secrets)

    @property
    def closing(self) -> frozenset[str]:
        """Plans that are looked at once more before they end."""
        return frozenset(self._closings)

    async def verify(self, plan_id: str, task_id: str | None = None) -> dict[str, Any]:
        """Look now whether what a plan, or a task of it, proved still holds; also when it has ended."""
        board = await self._board_of(plan_id)
        await board.store.transact(partial(steering.require, plan_id=plan_id, task_id=task_id))
        return await self._closing(board, plan_id).verify(task_id)

    def _drop(self, taken: list[Granted]) -> None:
        for each in taken:
            self._free(each)
            self._ours.discard(each.job.lease)

    def _begin(self, board: _Board, granted: Granted, performance: Performance | None = None) -> None:
        task = asyncio.create_task(self._turn(board, granted, performance))
        job = granted.job
        self._turns[job.lease] = task
        self.watches.begin(job, granted.watch, task.cancel)
        if granted.job.profile.driver != "human":
            self._working.add(granted.job.lease)
        task.add_done_callback(lambda _: self._forget(granted))  # one that is cancelled before it begins ends, too

    def _forget(self, granted: Granted) -> None:
        self._free(granted)
        if self._prover is not None:
            self._prover.leave(granted.job)
        self._turns.pop(granted.job.lease, None)
        self.watches.end(granted.job, granted.watch)
        self._working.discard(granted.job.lease)
        self._ours.discard(granted.job.lease)
        if granted.job.lease in self._revoked:
            self._wake.set()

    async def _turn(self, board: _Board, granted: Granted, known: Performance | None) -> None:
        """Carry out a job and write down its end. An end that the store refuses is told again until it takes it.

        What came of it may be known already: then it is only proven.
        """
        job = granted.job
        try:
            performance, proof = await self._watched(board, granted, known)
            seen = await self._closing(board, job.plan_id).look() if proof.commit else None
            end = End(granted, performance, proof)
            if seen is None and _is_common(end) and await self._end_together(board, end):
                return
            while True:
                try:
                    await self._step(board, partial(_conclude, end, seen), after=[granted])
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

    async def _end_together(self, board: _Board, end: End) -> bool:
        """Write the end of a turn down in one transaction with all others that ended meanwhile.

        False when that cannot be, because of this one or of another: nothing of it was kept.
        """
        written = asyncio.get_running_loop().create_future()
        board.ends.append((end, written))
        if board.writing is None:
            board.writing = asyncio.create_task(self._write_ends(board))
        try:
            return await asyncio.shield(written)
        except asyncio.CancelledError:  # what was handed over is carried out all the same
            while not written.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({written})
            raise

    async def _write_ends(self, board: _Board) -> None:
        """Write down ends of turns, those that come meanwhile afterwards."""
        while board.ends:
            ends, board.ends = board.ends[:TOGETHER], board.ends[TOGETHER:]
            kept = False
            try:
                after = [end.granted for end, _ in ends]
                await self._step(board, partial(ending.conclude, ends=[end for end, _ in ends]), after=after)
                kept = True
            except Exception as error:  # noqa: BLE001 - each is tried by itself then, and told whose fault it is
                LOG.info("%d turns are ended one by one: %s", len(ends), error, extra={"action": "dispatcher.ends"})
            finally:
                for _, written in ends:
                    if not written.done():
                        written.set_result(kept)
        board.writing = None

    async def _watched(self, board: _Board, granted: Granted, known: Performance | None) -> tuple[Performance, Proof]:
        """Have a job done; one that is stopped meanwhile, by whoever looks on or by a person, ends with the reason."""
        watch = granted.watch
        try:
            performance, proof = await self._worked(board, granted) if known is None else (known, None)
            if proof is None:
                proof = await self._proven(board, granted, granted.job, performance)
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

    async def _worked(self, board: _Board, granted: Granted) -> tuple[Performance, Proof | None]:
        """Have a job done. Without a proof, somebody else has to look at it."""
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
            performance = await self._performed(board, job)
            if granted.kind_task is not None and performance.how == "finished" and performance.code is None:
                await board.store.transact(lambda tx: resuming.keep(tx, job, performance))
                self._tell(ended=False)
                return performance, None
            return replace(performance, judgements=judgements) if judgements else performance, ending.NO_PROOF
        try:
            job = await prover.begin(job)
        except AgentTalkError as error:
            return Performance("not_started", error=error.message), ending.NO_PROOF
        performance = replace(await self._performed(board, job), judgements=judgements)
        if performance.how != "finished" or performance.code is not None:
            return performance, ending.NO_PROOF
        await board.store.transact(lambda tx: resuming.keep(tx, job, performance))
        self._tell(ended=False)
        return performance, None

    async def _proven(self, board: _Board, granted: Granted, job: Job, performance: Performance) -> Proof:
        """Have proven what came of a job."""
        if granted.kind_task is not None:
            return await self._found(board, granted, performance)
        if self._prover is None:
            return Proof(refused="checks and repositories are not supported here")
        if names := acceptance.others(job):
            blobs = await self._deps.stores.blobs(job.board)
            job = replace(job, others=await acceptance.stored(board.store, blobs, job.plan_id, names))
        try:
            done = partial(ending.is_done, granted, performance, at=self._deps.stamp())
            proof = await self._prover.prove(job, performance, done, partial(self._confirm, board, granted))
            return self._deps.discretion.proof(proof)
        except AgentTalkError as error:
            return Proof(refused=f"it could not be checked: {error.message}")

    async def _found(self, board: _Board, granted: Granted, performance: Performance) -> Proof:
        """What the kind of a task finds of the work. What cannot be looked at is not there."""
        kind, task = self._deps.kinds.get(granted.job.board), granted.kind_task
        if kind is None or task is None or performance.how != "finished":
            return ending.NO_PROOF
        try:
            confirm = partial(self._confirm, board, granted)
            turn = await kinds.turn_of(board.store, granted, performance, at=self._deps.stamp(), confirm=confirm)
            found = tuple(await kind.evidence(task, turn))
        except Exception as error:  # also somebody else's code; whatever it is, nothing was found
            LOG.exception("%s: it could not be checked", granted.job.task_id, extra={"action": "dispatcher.evidence"})
            code = f"{error.code}: " if isinstance(error, AgentTalkError) else ""
            detail = f"verify_error: {code}{error}"
            found = (Evidence("read_back", False, True, "observed", "engine", self._deps.stamp(), detail),)
        return self._deps.discretion.proof(Proof(evidence=found, told=kinds.told(found)))

    async def _judged(self, board: _Board, granted: Granted, prover: Prover) -> dict[str, Judgement]:
        """Have inputs looked at before they are used."""
        await self._enter(board, granted.job, "validating")
        confirm = partial(self._confirm, board, granted)
        found = await Judges(self._deps, board.store, self._performers, prover, confirm).judge(granted.job)
        await self._enter(board, granted.job, "executing")
        return found

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

    async def _performed(self, board: _Board, job: Job) -> Performance:
        """Have a job done, and look at what came: the types of its outputs, and what its agent claims elsewhere."""
        performance = await self._look_into(job, await self._perform(job))
        if job.command.promise is None:
            return performance
        return replace(performance, claims=(*performance.claims, *await kept.claimed(self._deps, board.store, job)))

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
        await board.store.transact(lambda tx: steering.hold(tx, plan_id, by=by, at=at))
        if plan_id in self._closings:
            self._closings[plan_id].cancel()
            await asyncio.wait({self._closings[plan_id]})
        tasks = {row[1] for row in await board.store.read("working_in_plan", plan_id=plan_id)}
        review = await reviews.last(board.store, plan_id)
        await self._end_turns(board, plan_id, tasks)
        count = await self._step(board, lambda moves: steering.cancel(moves, plan_id, by=by, why=why))
        await self._drop_review(board, review, by)
        return count

    async def _drop_review(self, board: _Board, review: reviews.Review | None, by: str) -> None:
        """Nobody needs to know any more what reviewers think."""
        if review is not None and review.state == "open" and await board.store.read("run", plan_id=review.review_plan):
            await self.cancel(review.review_plan, by=by, why="the review is over")

    async def retry(self, plan_id: str, task_id: str, *, by: str, onwards: bool = False) -> list[str]:
        """Try a failed task again; the tasks that wait for something again. `onwards`, all that hangs on it, too."""
        board = await self._board_of(plan_id)
        if not onwards:
            return await self._step(board, lambda moves: steering.retry(moves, plan_id, task_id, by=by))
        tasks = await self._step(board, lambda moves: steering.runs_again(moves, plan_id, task_id))
        at = self._deps.stamp()
        state = await board.store.transact(lambda tx: steering.hold(tx, plan_id, by=by, at=at))
        paused = state == "RUNNING"
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
        await board.store.transact(lambda tx: steering.require(tx, plan_id, task_id))
        rows = await board.store.read("engine_task", plan_id=plan_id, task_id=task_id)
        found = await board.store.read("objections_to", plan_id=plan_id, task_id=task_id)
        request_id, denial = steering.held_up(plan_id, task_id, rows, found, checkpoint)
        _, asked = await human.request(self._deps, request_id)
        if asked.state == "open":  # else whoever answered it died before that was carried out
            await human.answer(self._deps, request_id, by=by, decision="APPROVE", answers=["override"], notes=why)
        await self._step(board, partial(_look, plans=(plan_id,)))
        self.nudge()
        return {"checkpoint": denial["checkpoint"], "reasons": denial["reasons"], "trace_id": denial["trace_id"]}

    async def rework(self, plan_id: str, task_id: str, decision: Decision, *, by: str) -> None:
        """Do what an operator decided of a task that has no round left: grant some, accept it as it is, or abort."""
        board = await self._board_of(plan_id)
        await board.store.transact(lambda tx: steering.require(tx, plan_id, task_id))
        await self._decided(board, plan_id, task_id, decision, by)

    async def _decided(self, board: _Board, plan_id: str, task_id: str, decision: Decision, by: str) -> None:
        """What is accepted in a repository is merged before it is done, like everything else there."""
        commit = ""
        if isinstance(decision, Accept):
            left = await board.store.transact(lambda tx: deciding.left(tx, board.sheets.of(tx, plan_id), task_id))
            if left is not None:
                if self._prover is None:
                    raise MachineError(
                        Code.ENGINE_UNREACHABLE, "only an engine can merge", hint="'agenttalk serve' or 'run' first"
                    )
                commit = await self._prover.accept(left)

        def work(moves: Moves) -> None:
            sheet = moves.sheets.of(moves.tx, plan_id)
            deciding.decide(moves, sheet, task_id, decision, by=by, commit=commit)

        await self._step(board, work)

    async def _answered(
        self, board: _Board, plan_id: str, task_id: str, request_id: str, response: bytes, by: str
    ) -> None:
        """A person answered what is to become of a task without rounds. What cannot be done is asked again."""
        said = HumanInterventionResponse.from_bytes(bytes(response))
        decision = rework.decision(said.decision, said.decision_answers)
        why = "it is none of what was offered"
        if decision is not None:
            try:
                await self._decided(board, plan_id, task_id, decision, by)
            except MachineError as error:
                LOG.warning("%s: %s", task_id, error.message, extra={"action": "dispatcher.decide"})
                return
            except AgentTalkError as error:
                why = error.message
            else:
                return
        await self._step(
            board, lambda moves: deciding.ask_again(moves, moves.sheets.of(moves.tx, plan_id), task_id, request_id, why)
        )

    async def apply(
        self, dag: TaskDag, manifest: PlanManifest, profiles: Mapping[str, AgentProfile], *, by: str
    ) -> revising.Difference:
        """Put a new revision of a plan in force: what changed is ended first, what did not goes on."""
        board = await self._board_of(dag.plan_id)
        at = self._deps.stamp()
        found = await board.store.transact(lambda tx: revising.difference(tx, dag))
        review = await reviews.last(board.store, dag.plan_id)
        state = await board.store.transact(lambda tx: steering.hold(tx, dag.plan_id, by=by, at=at))
        paused = review.held if review is not None and review.undecided else state == "PAUSED"
        await self._end_turns(board, dag.plan_id, {*found.changed, *found.removed})
        found = await self._step(
            board, lambda moves: revising.apply(moves, dag, manifest, profiles, by=by, paused=paused)
        )
        await self._drop_review(board, review, by)
        return found

    async def release(self, plan_id: str, *, by: str) -> None:
        """Decide anew whether a plan's results are shipped."""
        board = await self._board_of(plan_id)
        await releasing.release(self._deps, board.store, plan_id, self._prover, again=True, by=by)
        self._release_decided()

    async def _end_turns(self, board: _Board, plan_id: str, tasks: set[str]) -> None:
        rows = await board.store.read("working_in_plan", plan_id=plan_id)
        turns = [self._turns[lease] for lease, task_id in rows if lease in self._turns and task_id in tasks]
        for turn in turns:
            turn.cancel()
        await asyncio.gather(*turns, return_exceptions=True)
        await self.recover(unwanted={(plan_id, task_id) for task_id in tasks})

    async def _board_of(self, plan_id: str) -> _Board:
        store = await board_of(self._deps, plan_id)
        return self._boards.setdefault(store.name, _Board(store))

    async def recover(self, *, unwanted: Collection[tuple[str, str]] = (), stopping: bool = False) -> int:
        """End leases that nobody takes care of, once their processes are confirmed dead; how many there were.

        What was being verified is verified again, or left to the next start by who is `stopping`; not so the
        `unwanted`, by plan and task.
        """
        count = 0
        for store in await boards(self._deps):
            board = self._boards.setdefault(store.name, _Board(store))
            for plan_id, task_id, agent_id, epoch, lease, owner, delivery, phase in await store.read("working_tasks"):
                if lease in self._ours or self._lives(owner) or (stopping and owner == resuming.NOBODY):
                    continue
                await self._processes.end(lease)
                died = owner not in {self._desk.owner, resuming.NOBODY} or lease in self._lost
                left = Left(plan_id, task_id, agent_id, epoch, lease, delivery, phase, died)
                await self._settle(board, left, wanted=(plan_id, task_id) not in unwanted, stopping=stopping)
                self._lost.discard(lease)
                self._revoked.discard(lease)
                count += 1
        return count

    async def _settle(self, board: _Board, left: Left, *, wanted: bool, stopping: bool) -> None:
        """Decide about a lease that nobody takes care of. Who cannot verify leaves that to somebody who can."""
        leaves = stopping or not self._verifies(board.store.name)
        ticket = self._slots.take(left.agent_id) if left.phase == "verifying" and wanted and not leaves else None
        found: list[tuple[Granted, Performance]] = []

        allowance, used = self._unpaid.pop(left.lease, (None, NOTHING))

        def work(tx: Tx) -> None:
            moves = Moves(tx, self._deps, board.sheets, self._deps.stamp())
            if wanted and leaves and resuming.leave(tx, left):
                return
            taken = resuming.take_up(moves, self._desk, left, ticket or 0) if wanted and not leaves else None
            if taken is None:
                ending.give_up(moves, left, used, allowance)
            else:
                found.append(taken)
                self._ours.add(taken[0].job.lease)
            moves.finish()
            folders.append(moves.in_folders)

        folders: list[bool] = []
        try:
            await board.store.transact(work)
        except BaseException:
            self._drop([granted for granted, _ in found])
            found.clear()
            raise
        finally:
            if not found and ticket is not None:
                self._slots.free(left.agent_id, ticket)
        if any(folders):
            self._nudge_router()
        for granted, performance in found:
            self._begin(board, granted, performance)

    def _verifies(self, board: str) -> bool:
        """Whether work on a board can be verified here: by the kind of its tasks, or by making checks."""
        return board in self._deps.kinds if board in VIRTUAL else self._prover is not None

    def _lives(self, owner: str) -> bool:
        said: Any = wire.read(owner.encode())
        found = Owner(**said)
        return found != self._processes.me() and self._processes.alive(found)

    async def close(self) -> None:
        """End every turn under way and give its task back."""
        await self._deciding.close()
        while turns := [*self._turns.values(), *self._closings.values()]:
            for turn in turns:
                turn.cancel()
            await asyncio.gather(*turns, return_exceptions=True)
        with suppress(AgentTalkError):
            await self.recover(stopping=True)

    @property
    def deciding(self) -> frozenset[str]:
        """Plans whose release is being decided on."""
        return self._deciding.releasing

    def _release_decided(self, *, again: bool = False) -> None:
        """A release was decided on, or could not be."""
        if again:
            self._wake.set()
        self._tell(ended=True)

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


def _is_common(end: End) -> bool:
    """Whether the end of a turn concerns nobody but those who wait for it, so that it can be written with others."""
    granted, performance = end.granted, end.performance
    finished = performance.how == "finished" and performance.code is None and not performance.judgements
    return finished and granted.allowance is None and granted.job.command.command_seq == 1


def _conclude(end: End, seen: Review | None, moves: Moves) -> None:
    """Write down the end of a turn, and what was proven of other tasks and is not as it was since its merge."""
    ending.conclude(moves, [end])
    if seen is not None:
        regressing.mark(moves, end.granted.job.plan_id, seen)


def _offer(moves: Moves, agents: list[str]) -> None:
    moves.agents.update(dict.fromkeys(agents))
