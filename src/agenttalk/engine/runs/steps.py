"""Steps of the dispatcher: a transaction, the turns that it began, and everything else that follows from its commit.

The end of a turn, what it makes ready and the lease of the next turn are one transaction. A turn begins only after
that is committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from agenttalk.contracts.errors import AgentTalkError, Code, ConflictError, MachineError
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof import regressions
from agenttalk.engine.proof.plan_closer import PlanCloser
from agenttalk.engine.proof.staleness import StalenessReport
from agenttalk.engine.runs import conclusion, leases
from agenttalk.engine.runs.conclusion import FinishedTurn
from agenttalk.engine.runs.state import BoardState, DispatcherState
from agenttalk.engine.runs.turn_runner import TurnRunner
from agenttalk.ports.storage import Tx, UncancellableFuture
from agenttalk.rules.proof.performance import Performance, WorkProof

LOG = logging.getLogger(__name__)
TOGETHER: Final = 256
"""Ends of turns that are written in one transaction."""
PAUSE: Final = 1.0
"""Seconds until a step that the machine refused is tried again."""
T = TypeVar("T")


class StepWriter:
    """Writes steps, and starts what they make possible."""

    def __init__(
        self, state: DispatcherState, runner: TurnRunner, decides_review: Callable[[Iterable[str]], bool]
    ) -> None:
        """`decides_review` says whether one of the plans that ended is a review, so that a decision is due."""
        self._state = state
        self._runner = runner
        self._decides_review = decides_review

    async def run(
        self, board: BoardState, do: Callable[[PlanTransaction], T], *, after: Sequence[LeasedAttempt] = ()
    ) -> T:
        """Do something in a transaction, and lease in it the tasks that became possible. Returns what `do` returned.

        `after` are the attempts that end in it: their slots are free for the leases of the same transaction.
        """
        # `work` runs in the thread of the store, and leaves here what the loop needs after the commit.
        taken: list[LeasedAttempt] = []
        seen: list[PlanTransaction] = []

        def work(tx: Tx) -> T:
            moves = PlanTransaction(tx, self._state.deps, board.sheets, self._state.deps.stamp())
            seen[:] = [moves]
            outcome = do(moves)
            agents = dict.fromkeys([*(each.job.agent_id for each in after), *moves.agents])
            agents |= dict.fromkeys(self._state.desk.crowds.pop_waiting_agents(each.job.plan_id for each in after))
            for each in after:
                self._state.free(each)
            taken[:] = leases.lease_next_tasks(moves, self._state.desk, agents)
            self._state.ours.update(each.job.lease for each in taken)
            moves.finish()
            return outcome

        committed = board.store.submit(work)
        try:
            return await committed
        except asyncio.CancelledError:
            # The caller is cancelled, but a work that was handed over is carried out anyway. Its leases are dropped
            # only if it is known to have failed; if it was committed, `finally` starts the turns that it leased.
            if committed.done() and committed.exception() is not None:
                self._state.drop(taken)
            raise
        except BaseException:
            self._state.drop(taken)
            raise
        finally:
            # Also for a caller that was cancelled: a committed lease without a turn would wait for the next start.
            if committed.done() and committed.exception() is None:
                self._go_on(board, seen[0], taken, after)

    def _go_on(
        self, board: BoardState, moves: PlanTransaction, taken: list[LeasedAttempt], after: Sequence[LeasedAttempt]
    ) -> None:
        """Start what a commit made possible: turns, closings, another pass."""
        self._state.desk.remember(board.store.name, moves.queued)
        if moves.account_waits and self._state.desk.accounts is not None:
            self._state.desk.accounts.add(moves.account_waits)
            self._state.wake.set()
        for each in taken:
            self.begin(board, each)
        for lease in moves.revoked:
            self._revoke(lease)
        if moves.in_folders:
            self._state.nudge_router()
        for plan_id in moves.closing:
            self.close_plan(board, plan_id)
        self._state.ended.update(moves.closed)
        if self._state.prover is not None:
            for plan_id in moves.closed:
                self._state.prover.end_plan(plan_id)
        if moves.has_more_due or moves.undecided or self._decides_review(moves.closed):
            self._state.wake.set()
        for each in after:
            self._state.working.discard(each.job.lease)
        self._state.announce(ended=bool(moves.closed))

    def _revoke(self, lease: str) -> None:
        """End a turn whose inputs were replaced. A pass takes its task back, once nothing of it runs any more."""
        # The row of the task has a higher epoch already, so the turn can write nothing. Its lease stays in `revoked`
        # until the turn has ended: `forget` wakes a pass then, and recovery gives the task out again.
        self._state.revoked.add(lease)
        if lease in self._state.turns:
            self._state.turns[lease].cancel()
        else:
            self._state.wake.set()

    def close_plan(self, board: BoardState, plan_id: str) -> None:
        """Check the proofs of a plan once more in the background, and end the plan if all of them hold."""
        if plan_id in self._state.closings:
            return
        mark = f"closing/{plan_id}"
        self._state.working.add(mark)
        self._state.closings[plan_id] = asyncio.create_task(self.closer_of(board, plan_id).close())

        def over(task: asyncio.Task[None]) -> None:
            del self._state.closings[plan_id]
            self._state.working.discard(mark)
            if not task.cancelled() and task.exception() is not None:
                LOG.error("%s: unhandled error while the plan was closed", plan_id, exc_info=task.exception())
            self._state.announce(ended=False)

        self._state.closings[plan_id].add_done_callback(over)

    def closer_of(self, board: BoardState, plan_id: str) -> PlanCloser:
        """Build the closer of a plan, which checks its proofs again."""
        state = self._state
        return PlanCloser(
            board.store,
            state.prover,
            partial(self.run, board),
            plan_id,
            state.deps.secret_guard.redact_result,
            state.deps.operator,
            at_once=max(1, state.slots.limit),
        )

    def begin(self, board: BoardState, granted: LeasedAttempt, performance: Performance | None = None) -> None:
        """Start the turn of a lease; with a `performance`, only prove its result."""
        task = asyncio.create_task(self._turn(board, granted, performance))
        job = granted.job
        if job.needs_proof:
            job.times.note("turn", self._state.deps.now())
        self._state.turns[job.lease] = task
        self._state.watches.begin(job, granted.watch, task.cancel)
        if job.profile.is_elsewhere:  # it is at work once its agent has taken it
            self._state.slots.mark_remote(job.agent_id, granted.ticket)
            self._state.wake.set()
        elif job.profile.driver != "human":
            self._state.working.add(job.lease)
        # A callback, not a `finally` in the turn: a task that is cancelled before its first step never enters its body.
        task.add_done_callback(lambda _: self._forget(granted))

    def _forget(self, granted: LeasedAttempt) -> None:
        self._state.free(granted)
        if self._state.prover is not None:
            self._state.prover.release_attempt(granted.job)
        self._state.turns.pop(granted.job.lease, None)
        self._state.watches.end(granted.job, granted.watch)
        self._state.working.discard(granted.job.lease)
        self._state.ours.discard(granted.job.lease)
        if granted.job.lease in self._state.revoked:
            self._state.wake.set()

    async def _turn(self, board: BoardState, granted: LeasedAttempt, known: Performance | None) -> None:
        """Run a turn and write its end. With a `known` performance, its work is only proven.

        The work is done by then, so an end that the machine refuses to store is written again until it succeeds.
        """
        job = granted.job
        try:
            land = partial(self._land, board, granted)
            performance, proof = await self._runner.run_watched(board, granted, known, land)
            if proof.move is not None:  # its end was written when it landed
                return
            end = FinishedTurn(granted, performance, proof)
            others = len(self._state.turns) > 1 or board.writing is not None
            if not (others and _is_common(end) and await self._end_together(board, end)):
                await self._write_end(board, end)
        except AgentTalkError as error:
            if error.code is not Code.LEASE_LOST:
                LOG.exception("%s: a turn failed", job.task_id, extra={"action": "dispatcher.turn"})
                self._state.lost.add(job.lease)
            self._state.free(granted)
            self._state.wake.set()
        except asyncio.CancelledError:
            # The turn was ended by a stop, an operator or a revoked lease. Its lease is not given back here: recovery
            # does that, after the processes of the turn are confirmed dead, and charges what the turn had used.
            self._state.unpaid[job.lease] = (granted.watch.allowance, granted.watch.used)
            self._state.free(granted)
            raise
        except Exception:
            LOG.exception("%s: unhandled error in turn", job.task_id, extra={"action": "dispatcher.turn"})
            self._state.lost.add(job.lease)
            self._state.free(granted)
            self._state.wake.set()

    async def _land(
        self, board: BoardState, granted: LeasedAttempt, performance: Performance, proof: WorkProof
    ) -> bool:
        """Write the end of a turn whose work is done, and move the tip of the plan's branch to it.

        False if the tip was moved meanwhile; then nothing is written.
        """
        tip = proof.move.after if proof.move is not None else ""
        seen = await self.closer_of(board, granted.job.plan_id).find_stale_after_merge(tip)
        try:
            await self._write_end(board, FinishedTurn(granted, performance, proof), seen)
        except ConflictError as error:
            if error.code is not Code.TIP_MOVED:
                raise
            return False
        return True

    async def _write_end(self, board: BoardState, end: FinishedTurn, seen: StalenessReport | None = None) -> None:
        """Write the end of a turn, and which proofs its merge made stale. If the machine refuses, it is tried again."""
        logged = ""
        while True:
            try:
                await self.run(board, partial(_conclude, end, seen), after=[end.granted])
            except MachineError as error:
                if error.message != logged:
                    task_id = end.granted.job.task_id
                    LOG.warning("%s: %s", task_id, error.message, extra={"action": "dispatcher.conclude"})
                logged = error.message
                await asyncio.sleep(PAUSE)
            else:
                return

    async def _end_together(self, board: BoardState, end: FinishedTurn) -> bool:
        """Write the end of a turn in one transaction with all others that ended meanwhile.

        False if the transaction failed, because of this turn or another one: then nothing of it was kept.
        """
        # The end is written for all turns of the transaction. A turn that is cancelled meanwhile must wait for the
        # result, or its end would be written and its lease given back as well.
        written: UncancellableFuture[bool] = UncancellableFuture(loop=asyncio.get_running_loop())
        board.ends.append((end, written))
        if board.writing is None:
            board.writing = asyncio.create_task(self._write_ends(board))
        return await written

    async def _write_ends(self, board: BoardState) -> None:
        """Write ends of turns until none is left. Turns that end meanwhile share the next transaction."""
        while board.ends:
            ends, board.ends = board.ends[:TOGETHER], board.ends[TOGETHER:]
            kept = False
            try:
                after = [end.granted for end, _ in ends]
                await self.run(board, partial(_conclude_all, ends=[end for end, _ in ends]), after=after)
                kept = True
            except Exception as error:  # noqa: BLE001 - each is written by itself then, and gets the error that is its own
                LOG.info("%d turns are ended one by one: %s", len(ends), error, extra={"action": "dispatcher.ends"})
            finally:
                for _, written in ends:
                    if not written.done():
                        written.set_result(kept)
        board.writing = None


def _is_common(end: FinishedTurn) -> bool:
    """Whether only dependants follow from the end of a turn, so that it can share a transaction with others."""
    granted, performance = end.granted, end.performance
    finished = performance.how == "finished" and performance.code is None and not performance.judgements
    alone = granted.watch.allowance is None and not granted.node.race
    return finished and alone and granted.job.command.command_seq == 1


def _conclude(end: FinishedTurn, seen: StalenessReport | None, moves: PlanTransaction) -> None:
    """Write the end of a turn, and which proofs of other tasks its merge made stale."""
    conclusion.conclude(moves, [end])
    if seen is not None:
        regressions.mark_freshness(moves, end.granted.job.plan_id, seen)


def _conclude_all(moves: PlanTransaction, ends: Sequence[FinishedTurn]) -> None:
    """Write the ends of turns together. Any surprise undoes all of them, and each is written by itself."""
    conclusion.conclude(moves, ends, lightly=True)
