"""The dispatcher: makes passes over the boards of a root, and keeps its plans going.

It is put together from parts that share a state: `steps.py` writes transactions and starts turns, `turn_runner.py` runs
a turn, `recovery.py` settles leases that no process takes care of, `operator.py` does what operators ask for. After a
crash the next start finds everything in the store: leases of dead processes, tasks that are due, queues that wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, MachineError
from agenttalk.engine.budgets import account_waits, day_limit
from agenttalk.engine.budgets.account_waits import AccountWaits
from agenttalk.engine.budgets.turn_monitor import TurnMonitors
from agenttalk.engine.budgets.used_budgets import Budgets
from agenttalk.engine.core.boards import VIRTUAL, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof.pending_decisions import PendingDecisions
from agenttalk.engine.runs import checkpoints
from agenttalk.engine.runs.branch_watch import BranchWatch
from agenttalk.engine.runs.job_runner import JobRunner
from agenttalk.engine.runs.leases import LeaseContext
from agenttalk.engine.runs.operator import OperatorActions
from agenttalk.engine.runs.recovery import Recovery
from agenttalk.engine.runs.state import BoardState, DispatcherState, make_tasks_ready
from agenttalk.engine.runs.steps import PAUSE, TOGETHER, StepWriter
from agenttalk.engine.runs.turn_runner import TurnRunner
from agenttalk.ports.agents import Performer, Processes
from agenttalk.ports.proof import Prover
from agenttalk.ports.statements.budgets import HELD_BY
from agenttalk.ports.statements.plans import OPEN_RUNS
from agenttalk.ports.statements.runs import ANSWERED_FAILURES, QUEUEING_AGENTS
from agenttalk.ports.storage import Store
from agenttalk.rules.text import task_words

LOG = logging.getLogger(__name__)
POLL: Final = 10.0
"""Seconds until the next pass, if nothing wakes it before."""


class Dispatcher:
    """Runs the engine's plans of a root: passes over its boards, and wakes the rest.

    `operator` does what operators ask for, and `branches` watches the branches of ended plans.
    """

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
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`environ` holds the keys of agents' accounts."""
        owner = wire.write(processes.me()._asdict()).decode()
        budgets = Budgets(day_cost_usd)
        places = slots or Slots(max_running)
        self._accounts = AccountWaits(deps, environ)
        desk = LeaseContext(owner, str(deps.root.path.absolute()), places, budgets, accounts=self._accounts)
        self._deps = deps
        jobs = JobRunner(deps, performers)
        self._state = DispatcherState(deps, jobs, processes, nudge_router, prover, places, desk)
        self._deciding = PendingDecisions(
            deps,
            prover,
            lambda store, do: self._steps.run(self._state.board(store), do),
            lambda plan_id: self.operator.cancel(plan_id, by="engine", why=task_words.REVIEW_OVER()),
            self._state.report_release_decision,
        )
        self._steps = StepWriter(self._state, TurnRunner(self._state), self._deciding.has_review_among)
        self._recovery = Recovery(self._state, self._steps)
        self.operator = OperatorActions(self._state, self._steps, self._recovery)
        self.branches = BranchWatch(self._state, self._steps)
        self.days = day_limit.DayLimitTracker(deps, budgets, day_cost_usd, self._state.watches)
        self._ignores_open_plans = False
        self._pass_waiters: list[asyncio.Future[None]] = []
        """Futures that are resolved after the next full pass."""

    async def wait_for_dispatch(self) -> None:
        """Wait for a full pass that begins from now on. Only while it runs."""
        asked = asyncio.get_running_loop().create_future()
        # First the waiter, then the nudge: `run` counts the waiters when a pass begins, and the nudge makes one
        # begin.
        self._pass_waiters.append(asked)
        self._state.nudge()
        await asked

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. Turns under way are ended then, and begin again with the next start."""
        try:
            # An engine may have died between a commit and what follows from it: branches are behind their tips
            # then, and leases belong to no process. Both are settled before the first pass.
            await self.branches.settle_open_plans()
            await self._recovery.recover()
            if self._ignores_open_plans:
                await _ignore_plans(self._state)
            logged = ""
            while not stop.is_set():
                # Cleared before the pass and not after it: a wake while the pass runs may be about something that the
                # pass has read already, so another pass has to follow.
                self._state.wake.clear()
                # For the same reason a caller that comes during the pass waits for the next one.
                asked = len(self._pass_waiters)
                try:
                    more = await self.dispatch_ready()
                except AgentTalkError as error:
                    if error.message != logged:
                        LOG.warning("%s", error.message, extra={"action": "dispatcher.look"})
                    logged, more, wait = error.message, False, PAUSE
                else:
                    logged = ""
                    wait = max(0.0, min(POLL, self._accounts.seconds or POLL))
                if not more:
                    self._resolve_pass_waiters(asked)
                    await _sleep(stop, self._state.wake, wait)
        finally:
            # No pass follows any more, so these callers would wait without end.
            self._resolve_pass_waiters(len(self._pass_waiters))
            await self.close()

    def _resolve_pass_waiters(self, number: int) -> None:
        """Resolve the futures of callers that wait for a pass."""
        for each in self._pass_waiters[:number]:
            if not each.done():  # its caller may have been cancelled
                each.set_result(None)
        del self._pass_waiters[:number]

    def ignore_open_plans(self) -> None:
        """Leave plans alone that are open when `run` begins, until a person adopts one."""
        self._ignores_open_plans = True

    def nudge(self) -> None:
        """Start a pass soon."""
        self._state.nudge()

    async def dispatch_ready(self) -> bool:
        """Make due tasks ready and start turns, on all boards. Returns whether there is more to do at once."""
        more = False
        # A revoked turn is settled only once it has left `turns`: until then its processes may write into the
        # workspace, and its task must not start beside them.
        if self._state.lost or self._state.revoked - self._state.turns.keys():
            await self._recovery.recover()
            self._state.revoked &= self._state.turns.keys()
        another_day, everywhere = await self.days.may_resume(), True
        account_free = await self._accounts.refresh()
        for store in await list_boards(self._deps):
            try:
                more = await self._dispatch_board(store, another_day=another_day, account_free=account_free) or more
            except MachineError as error:
                # A board of the engine's own, for letters or forge events, can be broken without holding up plans.
                # For a project's board the pass fails, and `run` tries it again soon.
                if store.name not in VIRTUAL:
                    raise
                everywhere = False
                LOG.warning("%s: %s", store.name, error.message, extra={"action": "dispatcher.board"})
        if everywhere:
            self.days.mark_resumed()
        return more

    async def _dispatch_board(self, store: Store, *, another_day: bool, account_free: bool) -> bool:
        """Make a pass over one board. Returns whether there is more to do on it at once."""
        more = False
        board = self._state.board(store)
        if another_day and await store.read(HELD_BY, like=day_limit.HELD):
            await self._steps.run(board, checkpoints.release_day_limited)
        others = self._state.desk.crowds.others
        runs = [row for row in await store.read(OPEN_RUNS) if row.state == "RUNNING" and row.plan_id not in others]
        if account_free:
            plans_at_work = [row.plan_id for row in runs]
            at = self._deps.stamp()
            await store.transact(partial(account_waits.release_tasks, plans=plans_at_work, at=at))
        # A plan without open tasks that still runs is closing, or was when its engine ended: then it closes again.
        for plan_id in (row.plan_id for row in runs if not row.open):
            self._steps.close_plan(board, plan_id)
        plans = deque(row.plan_id for row in runs if row.open)
        while plans:
            more = await self._dispatch_plans(board, plans) or more
        for row in await store.read(ANSWERED_FAILURES):
            await self.operator.apply_answer(board, *row)
        more = await self._deciding.decide_pending(store) or more
        # Steps offer tasks to the agents that they free. This catches what no step of this process has freed: queues
        # that an earlier process left, and places in plans that were full.
        agents = [row.agent_id for row in await store.read(QUEUEING_AGENTS)]
        if agents:
            await self._steps.run(board, partial(_offer, agents=agents))
        return more

    async def _dispatch_plans(self, board: BoardState, plans: deque[str]) -> bool:
        """Make tasks of the first plans ready, many plans in one transaction. Returns whether there is more to do.

        If that fails, the first plan gets a transaction of its own, so that no plan suffers for another.
        """
        try:
            looked, more = await self._steps.run(board, partial(make_tasks_ready, plans=tuple(islice(plans, TOGETHER))))
        except AgentTalkError:
            if len(plans) == 1:
                raise
            looked, more = await self._steps.run(board, partial(make_tasks_ready, plans=(plans[0],)))
        # Only after the commit: a transaction that failed leaves its plans in line for the next try.
        for _ in range(looked):
            plans.popleft()
        return more

    def mark_at_work(self, lease: str) -> None:
        """Note that a remote agent has taken the job of a lease."""
        if lease in self._state.turns:
            self._state.working.add(lease)
            self._state.announce(ended=False)

    async def interrupt_turns(self) -> None:
        """Ask the programs of all turns to end by themselves, and wait until they have. Nothing begins any more.

        What they did is kept, and their tasks go on from there at the next start. The caller stops the engine then.
        """
        # First no place is left on this machine: an end of a turn that is committed while we wait would lease the
        # next one.
        self._state.slots.resize(0)
        asked = {watch for watch in self._state.watches.list_all() if watch.interrupt()}
        turns = [self._state.turns[watch.lease] for watch in asked if watch.lease in self._state.turns]
        if turns:
            await asyncio.wait(turns)
        with suppress(AgentTalkError):
            await self._recovery.recover(stopping=True)

    async def close(self) -> None:
        """End every turn under way and give its task back."""
        # Decisions first: a step of theirs would lease turns after those under way were ended.
        await self._deciding.close()
        # A loop, because a commit that was under way can still start turns while the others are cancelled.
        while turns := [*self._state.turns.values(), *self._state.closings.values()]:
            for turn in turns:
                turn.cancel()
            await asyncio.gather(*turns, return_exceptions=True)
        # The turns are over, so their leases are orphaned now: give their tasks back, or leave what is verified to
        # the next start. If the store fails here, the next start finds the leases.
        with suppress(AgentTalkError):
            await self._recovery.recover(stopping=True)
        # The prover comes last, because turns release their checkouts while they end.
        if self._state.prover is not None:
            with suppress(AgentTalkError):
                await self._state.prover.close()

    def pop_ended_plans(self) -> set[str]:
        """Return the plans that ended since the last call."""
        ended, self._state.ended = self._state.ended, set()
        return ended

    @property
    def busy_agents(self) -> frozenset[str]:
        """The agents that have a place."""
        return self._state.slots.busy

    @property
    def watches(self) -> TurnMonitors:
        """The monitors of turns under way."""
        return self._state.watches

    def wake_forge_waiters(self) -> None:
        """Have turns that wait for a forge check again."""
        self._state.wake_forge_waiters()

    @contextmanager
    def subscribe_changes(self) -> Iterator[asyncio.Event]:
        """Provide an event that is set whenever something changed; the caller clears it."""
        with _subscribe(self._state.followers) as news:
            yield news

    @contextmanager
    def subscribe_activities(self) -> Iterator[asyncio.Event]:
        """Provide an event that is set whenever a turn does something else than before; the caller clears it."""
        with _subscribe(self._state.watches.viewers) as news:
            yield news

    @contextmanager
    def subscribe_ends(self) -> Iterator[asyncio.Event]:
        """Provide an event that is set when a plan ended, or only questions to people are under way."""
        with _subscribe(self._state.waiters) as news:
            yield news


@contextmanager
def _subscribe(events: set[asyncio.Event]) -> Iterator[asyncio.Event]:
    news = asyncio.Event()
    events.add(news)
    try:
        yield news
    finally:
        events.discard(news)


async def _ignore_plans(state: DispatcherState) -> None:
    for store in await list_boards(state.deps):
        if store.name not in VIRTUAL:
            state.desk.crowds.ignore_plans(row.plan_id for row in await store.read(OPEN_RUNS))


async def _sleep(stop: asyncio.Event, wake: asyncio.Event, seconds: float) -> None:
    waits = {asyncio.ensure_future(stop.wait()), asyncio.ensure_future(wake.wait())}
    _, pending = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    # `asyncio.wait` leaves them running: without this, each pass would leave two tasks behind.
    for waiting in pending:
        waiting.cancel()


def _offer(moves: PlanTransaction, agents: list[str]) -> None:
    moves.agents.update(dict.fromkeys(agents))
