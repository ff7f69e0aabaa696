"""Runs the turn of a task: has its inputs judged, its job performed and the work proven."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from agenttalk.contracts.errors import AgentTalkError, FullDiskError, InputError
from agenttalk.contracts.promise import HumanCheck
from agenttalk.engine.agents.input_review import InputReviewer
from agenttalk.engine.budgets.account_waits import AccountLimitError
from agenttalk.engine.people import human_driver
from agenttalk.engine.plans import board_run, validator_verdicts
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.runs import resume, turn_outcome
from agenttalk.engine.runs.job_runner import describe_error
from agenttalk.engine.runs.state import BoardState, DispatcherState
from agenttalk.ports.agents import Job
from agenttalk.ports.proof import NO_EXHIBIT, Exhibit, Prover
from agenttalk.ports.statements.plans import SET_PHASE
from agenttalk.ports.statements.runs import SET_AWAITING
from agenttalk.rules.proof.evidence import Confirmation
from agenttalk.rules.proof.performance import NO_PROOF, Performance, WorkProof
from agenttalk.rules.proof.rework import Judgement
from agenttalk.rules.text import turn_words, verdict_words
from agenttalk.rules.text.catalogue import to_columns
from agenttalk.rules.toolchain import read_back

LOG = logging.getLogger(__name__)
_PAUSE: Final = 1.0
"""Seconds until something is tried again for which the disk had no room."""
T = TypeVar("T")
Lander = Callable[[Performance, WorkProof], Awaitable[bool]]
"""Writes the end of a turn whose work is done, with the new tip; False if the tip was moved meanwhile."""


class TurnRunner:
    """Runs turns of plans, and has their work proven."""

    def __init__(self, state: DispatcherState) -> None:
        self._state = state

    async def run_watched(
        self, board: BoardState, granted: LeasedAttempt, known: Performance | None, land: Lander
    ) -> tuple[Performance, WorkProof]:
        """Run a turn under its monitor. With a `known` performance, its work is only proven.

        Work in a repository that is done has landed (`land`) when this returns; then its proof has a `move`.
        """
        performance, proof = await self._state.jobs.run_watched(granted.watch, self._run(board, granted, known, land))
        if performance.how == "aborted":  # it may have waited for a person or a remote agent
            self._state.working.add(granted.job.lease)
        return performance, proof

    async def _run(
        self, board: BoardState, granted: LeasedAttempt, known: Performance | None, land: Lander
    ) -> tuple[Performance, WorkProof]:
        performance, proof = await self._run_job(board, granted) if known is None else (known, None)
        if performance.strayed and performance.how == "finished":
            return performance, WorkProof(breach=performance.strayed)
        if proof is not None:
            return performance, proof
        granted.job.enter("checking")
        proof = await self._prove(board, granted, granted.job, performance, partial(land, performance))
        return self._believe_failure(granted, performance, proof)

    def _believe_failure(
        self, granted: LeasedAttempt, performance: Performance, proof: WorkProof
    ) -> tuple[Performance, WorkProof]:
        """Believe an agent that says it failed, unless its checks show that it did not."""
        failed = performance.ended_badly == "failed" and not proof.breach and proof.move is None
        if not failed or turn_outcome.would_be_done(granted, performance, proof, at=self._state.deps.stamp()):
            return performance, proof
        return replace(performance, how="crashed", error=performance.remark, remark=""), NO_PROOF

    async def _run_job(self, board: BoardState, granted: LeasedAttempt) -> tuple[Performance, WorkProof | None]:
        """Have a job performed. Returns no proof if the work has still to be verified."""
        job = granted.job
        prover = self._state.prover
        if prover is None and (job.needs_proof or job.criteria):
            return Performance("not_started", error=turn_words.UNSUPPORTED["checks"]()), NO_PROOF
        if why := self._state.jobs.find_missing_isolation(job.profile):
            return Performance("not_started", error=why), NO_PROOF
        try:
            judgements = await self._judge_inputs(board, granted, prover) if prover is not None and job.criteria else {}
        except AccountLimitError as error:
            return Performance("limited", error=error.message, limited=error.found), NO_PROOF
        except InputError as error:  # the judge cannot be asked, which says nothing about the inputs
            return Performance("not_started", error=error.message), NO_PROOF
        if judgements and not all(each.accepted for each in judgements.values()):
            return Performance("refused", judgements=judgements), NO_PROOF
        if prover is None or not job.needs_proof:
            performance = await self._state.jobs.perform(board.store, job)
            await self._end_if_interrupted(granted, job)
            if granted.kind_task is not None and performance.how == "finished" and performance.code is None:
                # Stored before it is verified: after a crash from here on the next engine verifies this performance,
                # and the agent does not work a second time.
                await board.store.transact(lambda tx: resume.keep_performance(tx, job, performance))
                self._state.announce(ended=False)
                return performance, None
            return replace(performance, judgements=judgements) if judgements else performance, NO_PROOF
        try:
            job = await _wait_for_room(job, partial(prover.begin, job))
        except AgentTalkError as error:
            return Performance("not_started", error=describe_error(error)), NO_PROOF
        performance = replace(await self._state.jobs.perform(board.store, job), judgements=judgements)
        await self._end_if_interrupted(granted, job)
        if performance.how != "finished" or performance.code is not None:
            return performance, NO_PROOF
        await board.store.transact(lambda tx: resume.keep_performance(tx, job, performance))
        self._state.announce(ended=False)
        return performance, None

    async def _end_if_interrupted(self, granted: LeasedAttempt, job: Job) -> None:
        """End a turn that a person interrupted, after its work is kept. It does not count against the agent.

        Recovery gives its lease back, as that of every turn that this process ended itself.
        """
        if not granted.watch.interruption.is_requested:
            return
        try:
            if self._state.prover is not None and await self._state.prover.keep_work(job):
                self._state.kept.add(job.lease)
        except AgentTalkError as error:
            LOG.warning("%s: %s", job.task_id, error.message, extra={"action": "dispatcher.interrupt"})
        raise asyncio.CancelledError

    async def _prove(
        self,
        board: BoardState,
        granted: LeasedAttempt,
        job: Job,
        performance: Performance,
        land: Callable[[WorkProof], Awaitable[bool]],
    ) -> WorkProof:
        """Have the work of a job proven."""
        unwritten: list[AgentTalkError] = []

        async def write(proof: WorkProof) -> bool:
            try:
                return await land(self._state.deps.secret_guard.redact_proof(proof))
            except AgentTalkError as error:
                unwritten.append(error)
                raise

        if granted.kind_task is not None:
            return await self._gather_kind_evidence(board, granted, performance)
        if self._state.prover is None:
            return WorkProof(refused=turn_words.UNSUPPORTED["checks"]())
        if names := validator_verdicts.list_other_outputs(job):
            blobs = await self._state.deps.stores.blobs(job.board)
            job = replace(
                job, others=await validator_verdicts.read_stored_outputs(board.store, blobs, job.plan_id, names)
            )
        try:
            done = partial(turn_outcome.would_be_done, granted, performance, at=self._state.deps.stamp())
            ask = partial(self._confirm, board, granted)
            prove = partial(self._state.prover.prove, job, performance, done, ask, write)
            proof = await _wait_for_room(job, prove, unwritten)
            return self._state.deps.secret_guard.redact_proof(proof)
        except AgentTalkError as error:
            if error in unwritten:  # the end could not be written, which says nothing about the work
                raise
            return WorkProof(refused=verdict_words.NOT_CHECKED(error=describe_error(error)))

    async def _gather_kind_evidence(
        self, board: BoardState, granted: LeasedAttempt, performance: Performance
    ) -> WorkProof:
        """Gather the evidence that the kind of a task finds. Evidence that cannot be gathered counts as missing."""
        kind, task = self._state.deps.kinds.get(granted.job.board), granted.kind_task
        if kind is None or task is None or performance.how != "finished":
            return NO_PROOF
        # Registered before the forge is read: what it reports after a reading ends the wait that follows from it.
        news = asyncio.Event()
        self._state.awaiting.add(news)
        try:
            confirm = partial(self._confirm, board, granted)
            wait = partial(self._await, board, granted, news)
            turn = await board_run.make_kind_turn(
                kind, board.store, granted, performance, at=self._state.deps.stamp(), confirm=confirm, wait=wait
            )
            found = tuple(await kind.evidence(task, turn))
        except Exception as error:  # a kind can be code of another party: any error of it means no evidence
            LOG.exception("%s: it could not be checked", granted.job.task_id, extra={"action": "dispatcher.evidence"})
            why, code = (error.message, error.code) if isinstance(error, AgentTalkError) else (str(error), None)
            found = (read_back.make_failure_evidence(why, code, self._state.deps.stamp()),)
        finally:
            self._state.awaiting.discard(news)
        moot = next((each.detail for each in found if each.id in board_run.MOOT), "")
        return self._state.deps.secret_guard.redact_proof(
            WorkProof(evidence=found, check_records=board_run.evidence_to_json(found), moot=moot)
        )

    async def _judge_inputs(self, board: BoardState, granted: LeasedAttempt, prover: Prover) -> dict[str, Judgement]:
        """Have inputs judged before they are used."""
        granted.job.enter("judging")
        await self._enter(board, granted.job, "validating")
        confirm = partial(self._confirm, board, granted)
        found = await InputReviewer(self._state.deps, board.store, self._state.jobs.performers, prover, confirm).judge(
            granted.job
        )
        await self._enter(board, granted.job, "executing")
        return found

    async def _confirm(
        self, board: BoardState, granted: LeasedAttempt, check: HumanCheck, shown: str, *, exhibit: Exhibit = NO_EXHIBIT
    ) -> Confirmation:
        """Ask a person about the work of a turn. Its agent is free for other tasks meanwhile."""
        granted.job.enter("asking")
        # First the row, then the slot: the agent is leased another task as soon as it is free, and a crash in between
        # must find this turn as one that waits for a person.
        await self._enter(board, granted.job, "asking")
        self._state.free(granted)
        self._state.working.discard(granted.job.lease)
        self._state.wake.set()
        self._state.announce(ended=False)
        try:
            return await human_driver.confirm(self._state.deps, granted.job, check, shown, exhibit)
        finally:
            granted.job.enter("checking")
            self._state.working.add(granted.job.lease)
            await self._enter(board, granted.job, "verifying")

    async def _await(
        self,
        board: BoardState,
        granted: LeasedAttempt,
        news: asyncio.Event,
        why: str,
        longest: Coroutine[Any, Any, None],
    ) -> None:
        """Wait until a forge has reported `news` or the time is up. The agent is free for other tasks meanwhile."""
        job = granted.job
        # Both are cancelled at the end, also when this turn is cancelled: they are tasks, and would go on without it.
        waiting = [asyncio.ensure_future(longest), asyncio.ensure_future(news.wait())]
        try:
            job.enter("awaiting")
            about = {"plan_id": job.plan_id, "task_id": job.task_id, "lease": job.lease}
            await board.store.transact(lambda tx: tx.run(SET_AWAITING, **about, **to_columns(why)))
            self._state.free(granted)
            self._state.working.discard(job.lease)
            self._state.wake.set()
            self._state.announce(ended=False)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
            news.clear()  # the forge is read after this
            job.enter("checking")
            self._state.working.add(job.lease)
            await self._enter(board, job, "verifying")

    async def _enter(self, board: BoardState, job: Job, phase: str) -> None:
        about = {"plan_id": job.plan_id, "task_id": job.task_id, "lease": job.lease, "phase": phase}
        await board.store.transact(lambda tx: tx.run(SET_PHASE, **about))
        self._state.announce(ended=False)


async def _wait_for_room(job: Job, work: Callable[[], Awaitable[T]], unwritten: Collection[AgentTalkError] = ()) -> T:
    """Do something that can be repeated. A full disk says nothing about the agent's work, so it is tried again then.

    Errors in `unwritten` are raised: their cause was waited for before.
    """
    logged = ""
    while True:
        try:
            return await work()
        except FullDiskError as error:
            if error in unwritten:
                raise
            if error.message != logged:
                LOG.warning("%s: %s", job.task_id, error.message, extra={"action": "dispatcher.room"})
            logged = error.message
        await asyncio.sleep(_PAUSE)
