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
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, Code, MachineError
from agenttalk.engine.budgets import day_limit
from agenttalk.engine.budgets.spending import Allowance, Budgets
from agenttalk.engine.budgets.turn_monitor import TurnMonitors
from agenttalk.engine.core.boards import VIRTUAL, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transitions import TaskTransitions
from agenttalk.engine.proof import regressions
from agenttalk.engine.proof.closing import PlanCloser
from agenttalk.engine.proof.pending_decisions import PendingDecisions
from agenttalk.engine.proof.staleness import StalenessReport
from agenttalk.engine.runs import checkpoints, conclusion, leasing
from agenttalk.engine.runs.conclusion import FinishedTurn
from agenttalk.engine.runs.leasing import LeaseContext
from agenttalk.engine.runs.operator import OperatorActions
from agenttalk.engine.runs.recovery import Recovery
from agenttalk.engine.runs.state import BoardState, make_tasks_ready
from agenttalk.engine.runs.turn_runner import TurnRunner
from agenttalk.ports import Performance, Performer, Processes, Prover, Store, Tx, UncancellableFuture
from agenttalk.ports.statements.budgets import HELD_BY
from agenttalk.ports.statements.plans import OPEN_RUNS
from agenttalk.ports.statements.runs import ANSWERED_FAILURES, QUEUEING_AGENTS
from agenttalk.rules.core.usage import UsageTotals

LOG = logging.getLogger(__name__)
POLL: Final = 10.0
"""Seconds after which it looks at everything, whether or not anything woke it."""
TOGETHER: Final = 256
"""Plans that are looked at in one transaction."""
PAUSE: Final = 1.0
"""Seconds after which a step that the machine refused is tried again."""
T = TypeVar("T")


class Dispatcher(TurnRunner, OperatorActions, Recovery):
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
        only_new: bool = False,
    ) -> None:
        self._deps = deps
        self._performers = performers
        self._processes = processes
        self._nudge_router = nudge_router
        self._prover = prover
        self._slots = slots or Slots(max_running)
        owner = wire.write(processes.me()._asdict()).decode()
        purse = Budgets(day_cost_usd)
        self._desk = LeaseContext(owner, str(deps.root.path.absolute()), self._slots, purse)
        """What may be spent on a day."""
        self._boards: dict[str, BoardState] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}
        self.watches = TurnMonitors()
        self.days = day_limit.DayLimitTracker(deps, purse, day_cost_usd, self.watches)
        self.only_new = only_new
        """Whether plans that were open before it began are left as they are, until somebody takes them up."""
        self._closings: dict[str, asyncio.Task[None]] = {}
        self._ours: set[str] = set()
        self._lost: set[str] = set()
        self._unpaid: dict[str, tuple[Allowance | None, UsageTotals]] = {}
        self._revoked: set[str] = set()
        self._wake = asyncio.Event()
        self._working: set[str] = set()
        self._awaiting: set[asyncio.Event] = set()
        self._followers: set[asyncio.Event] = set()
        self._waiters: set[asyncio.Event] = set()
        self._ended: set[str] = set()
        self._deciding = PendingDecisions(
            deps,
            prover,
            lambda store, do: self._step(self._board(store), do),
            lambda plan_id: self.cancel(plan_id, by="engine", why="the review is over"),
            self._release_decided,
        )
        self._onlookers: list[asyncio.Future[None]] = []
        """Those who wait for a look that begins after they asked for it."""

    async def wait_for_dispatch(self) -> None:
        """Have it look at everything; returns when it has. Only while it runs."""
        asked = asyncio.get_running_loop().create_future()
        self._onlookers.append(asked)
        self.nudge()
        await asked

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. Turns under way are ended then, and begin anew with the next start."""
        try:
            await self.recover()
            if self.only_new:
                await self._leave_others()
            while not stop.is_set():
                self._wake.clear()
                asked = len(self._onlookers)
                try:
                    more = await self.dispatch_ready()
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

    async def dispatch_ready(self) -> bool:
        """Make due tasks ready and begin what can begin, on all boards; whether there is more to do at once."""
        more = False
        if self._lost or self._revoked - self._turns.keys():
            await self.recover()
            self._revoked &= self._turns.keys()
        another_day, everywhere = await self.days.may_resume(), True
        for store in await list_boards(self._deps):
            try:
                more = await self._dispatch_board(store, another_day=another_day) or more
            except MachineError as error:
                if store.name not in VIRTUAL:
                    raise
                everywhere = False
                LOG.warning("%s: %s", store.name, error.message, extra={"action": "dispatcher.board"})
        if everywhere:
            self.days.mark_resumed()
        return more

    async def _dispatch_board(self, store: Store, *, another_day: bool) -> bool:
        """Look at one board; whether there is more to do on it at once."""
        more = False
        board = self._board(store)
        if another_day and await store.read(HELD_BY, like=day_limit.HELD):
            await self._step(board, checkpoints.release_day_limited)
        others = self._desk.crowds.others
        runs = [row for row in await store.read(OPEN_RUNS) if row.state == "RUNNING" and row.plan_id not in others]
        for plan_id in (row.plan_id for row in runs if not row.open):
            self._close_plan(board, plan_id)
        plans = deque(row.plan_id for row in runs if row.open)
        while plans:
            more = await self._dispatch_plans(board, plans) or more
        for row in await store.read(ANSWERED_FAILURES):
            await self._apply_answer(board, *row)
        more = await self._deciding.decide_pending(store) or more
        agents = [row.agent_id for row in await store.read(QUEUEING_AGENTS)]
        if agents:
            await self._step(board, partial(_offer, agents=agents))
        return more

    async def _dispatch_plans(self, board: BoardState, plans: deque[str]) -> bool:
        """Look at the first of some plans, many in one transaction; whether there is more to do in them at once.

        If that fails the first one is looked at alone, so that no plan suffers for another.
        """
        try:
            looked, more = await self._step(board, partial(make_tasks_ready, plans=tuple(islice(plans, TOGETHER))))
        except AgentTalkError:
            if len(plans) == 1:
                raise
            looked, more = await self._step(board, partial(make_tasks_ready, plans=(plans[0],)))
        for _ in range(looked):
            plans.popleft()
        return more

    async def _step(
        self, board: BoardState, do: Callable[[TaskTransitions], T], *, after: Sequence[LeasedAttempt] = ()
    ) -> T:
        """Do something in a transaction, and begin in it what it made possible."""
        taken: list[LeasedAttempt] = []
        seen: list[TaskTransitions] = []

        def work(tx: Tx) -> T:
            moves = TaskTransitions(tx, self._deps, board.sheets, self._deps.stamp())
            seen[:] = [moves]
            outcome = do(moves)
            agents = dict.fromkeys([*(each.job.agent_id for each in after), *moves.agents])
            agents |= dict.fromkeys(self._desk.crowds.pop_waiting_agents(each.job.plan_id for each in after))
            for each in after:
                self._free(each)
            taken[:] = leasing.lease_next_tasks(moves, self._desk, agents)
            self._ours.update(each.job.lease for each in taken)
            moves.finish()
            return outcome

        committed = board.store.submit(work)
        try:
            return await committed
        except asyncio.CancelledError:  # what was handed over was carried out all the same
            if committed.done() and committed.exception() is not None:
                self._drop(taken)
            raise
        except BaseException:
            self._drop(taken)
            raise
        finally:
            if committed.done() and committed.exception() is None:
                self._go_on(board, seen[0], taken, after)

    def _go_on(
        self, board: BoardState, moves: TaskTransitions, taken: list[LeasedAttempt], after: Sequence[LeasedAttempt]
    ) -> None:
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
        if moves.has_more_due or moves.undecided or self._deciding.has_review_among(moves.closed):
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

    def _close_plan(self, board: BoardState, plan_id: str) -> None:
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

    def _closing(self, board: BoardState, plan_id: str) -> PlanCloser:
        step, without_secrets = partial(self._step, board), self._deps.secret_guard.redact_result
        return PlanCloser(board.store, board.sheets, self._prover, step, plan_id, without_secrets, self._deps.operator)

    @property
    def closing_plans(self) -> frozenset[str]:
        """Plans that are looked at once more before they end."""
        return frozenset(self._closings)

    def _begin(self, board: BoardState, granted: LeasedAttempt, performance: Performance | None = None) -> None:
        task = asyncio.create_task(self._turn(board, granted, performance))
        job = granted.job
        self._turns[job.lease] = task
        self.watches.begin(job, granted.watch, task.cancel)
        if job.profile.driver == "remote":  # it is at work once its agent has taken it
            self._slots.mark_remote(job.agent_id, granted.ticket)
            self._wake.set()
        elif job.profile.driver != "human":
            self._working.add(job.lease)
        task.add_done_callback(lambda _: self._forget(granted))  # one that is cancelled before it begins ends, too

    def mark_at_work(self, lease: str) -> None:
        """An agent elsewhere has taken the job of a lease."""
        if lease in self._turns:
            self._working.add(lease)
            self._tell(ended=False)

    def _forget(self, granted: LeasedAttempt) -> None:
        self._free(granted)
        if self._prover is not None:
            self._prover.release_attempt(granted.job)
        self._turns.pop(granted.job.lease, None)
        self.watches.end(granted.job, granted.watch)
        self._working.discard(granted.job.lease)
        self._ours.discard(granted.job.lease)
        if granted.job.lease in self._revoked:
            self._wake.set()

    async def _turn(self, board: BoardState, granted: LeasedAttempt, known: Performance | None) -> None:
        """Carry out a job and write down its end. An end that the store refuses is told again until it takes it.

        What came of it may be known already: then it is only proven.
        """
        job = granted.job
        try:
            performance, proof = await self._run_watched(board, granted, known)
            seen = await self._closing(board, job.plan_id).find_stale_after_merge() if proof.commit else None
            end = FinishedTurn(granted, performance, proof)
            others = len(self._turns) > 1 or board.writing is not None
            if others and seen is None and _is_common(end) and await self._end_together(board, end):
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
            self._unpaid[job.lease] = (granted.watch.allowance, granted.watch.used)
            self._free(granted)
            raise
        except Exception:
            LOG.exception("%s: our own code failed on it", job.task_id, extra={"action": "dispatcher.turn"})
            self._lost.add(job.lease)
            self._free(granted)
            self._wake.set()

    async def _end_together(self, board: BoardState, end: FinishedTurn) -> bool:
        """Write the end of a turn down in one transaction with all others that ended meanwhile.

        False when that cannot be, because of this one or of another: nothing of it was kept.
        """
        written: UncancellableFuture[bool] = UncancellableFuture(
            loop=asyncio.get_running_loop()
        )  # it is carried out, whoever is cancelled
        board.ends.append((end, written))
        if board.writing is None:
            board.writing = asyncio.create_task(self._write_ends(board))
        return await written

    async def _write_ends(self, board: BoardState) -> None:
        """Write down ends of turns, those that come meanwhile afterwards."""
        while board.ends:
            ends, board.ends = board.ends[:TOGETHER], board.ends[TOGETHER:]
            kept = False
            try:
                after = [end.granted for end, _ in ends]
                await self._step(board, partial(_conclude_all, ends=[end for end, _ in ends]), after=after)
                kept = True
            except Exception as error:  # noqa: BLE001 - each is tried by itself then, and told whose fault it is
                LOG.info("%d turns are ended one by one: %s", len(ends), error, extra={"action": "dispatcher.ends"})
            finally:
                for _, written in ends:
                    if not written.done():
                        written.set_result(kept)
        board.writing = None

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
    def plans_in_release(self) -> frozenset[str]:
        """Plans whose release is being decided on."""
        return self._deciding.plans_in_release

    def _release_decided(self, *, again: bool = False) -> None:
        """A release was decided on, or could not be."""
        if again:
            self._wake.set()
        self._tell(ended=True)

    def pop_ended_plans(self) -> set[str]:
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
    def subscribe_changes(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever something changed; whoever follows clears it."""
        with _subscribe(self._followers) as news:
            yield news

    @contextmanager
    def subscribe_ends(self) -> Iterator[asyncio.Event]:
        """An event that is set when a plan ended, or nothing is under way but questions to people."""
        with _subscribe(self._waiters) as news:
            yield news


@contextmanager
def _subscribe(events: set[asyncio.Event]) -> Iterator[asyncio.Event]:
    news = asyncio.Event()
    events.add(news)
    try:
        yield news
    finally:
        events.discard(news)


def _is_common(end: FinishedTurn) -> bool:
    """Whether the end of a turn concerns nobody but those who wait for it, so that it can be written with others."""
    granted, performance = end.granted, end.performance
    finished = performance.how == "finished" and performance.code is None and not performance.judgements
    return finished and granted.watch.allowance is None and granted.job.command.command_seq == 1


def _conclude(end: FinishedTurn, seen: StalenessReport | None, moves: TaskTransitions) -> None:
    """Write down the end of a turn, and what was proven of other tasks and is not as it was since its merge."""
    conclusion.conclude(moves, [end])
    if seen is not None:
        regressions.mark_freshness(moves, end.granted.job.plan_id, seen)


def _conclude_all(moves: TaskTransitions, ends: Sequence[FinishedTurn]) -> None:
    """Write down the ends of turns. What is not as it should be undoes all of it, and each is written by itself."""
    moves.lightly = True
    conclusion.conclude(moves, ends)


def _offer(moves: TaskTransitions, agents: list[str]) -> None:
    moves.agents.update(dict.fromkeys(agents))
