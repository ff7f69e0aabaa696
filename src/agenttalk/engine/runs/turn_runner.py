"""Carrying out a turn: its inputs are judged, its agent is asked, what it left is looked at and proven."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from agenttalk.contracts.agent import NAMED_TIERS, AgentProfile
from agenttalk.contracts.errors import AgentTalkError, InputError
from agenttalk.contracts.promise import HumanCheck
from agenttalk.engine.agents.input_review import InputReviewer
from agenttalk.engine.budgets.turn_monitor import merge_usage, start_counting
from agenttalk.engine.people import human_driver
from agenttalk.engine.plans import board_run, validator_verdicts
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.proof import evidence_store as kept
from agenttalk.engine.runs import resume, turn_outcome
from agenttalk.engine.runs.state import BoardState, DispatcherState
from agenttalk.ports.agents import Job, Performer
from agenttalk.ports.proof import NO_EXHIBIT, Exhibit, Prover
from agenttalk.ports.statements.plans import SET_PHASE
from agenttalk.ports.statements.runs import SET_AWAITING
from agenttalk.rules.core import media_types
from agenttalk.rules.people.attestation import list_exposed_agents
from agenttalk.rules.proof.check_results import Confirmation
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.performance import NO_PROOF, Performance, WorkProof
from agenttalk.rules.proof.rework import Judgement
from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.catalogue import to_columns
from agenttalk.rules.text.message import WHAT_IS, join

LOG = logging.getLogger(__name__)


class TurnRunner:
    """Runs turns, and has their work proven."""

    def __init__(self, state: DispatcherState) -> None:
        self._state = state

    async def run_watched(
        self, board: BoardState, granted: LeasedAttempt, known: Performance | None
    ) -> tuple[Performance, WorkProof]:
        """Have a job done; one that is stopped meanwhile, by whoever looks on or by a person, ends with the reason."""
        watch = granted.watch
        try:
            performance, proof = await self._run_job(board, granted) if known is None else (known, None)
            if proof is None:
                proof = await self._prove(board, granted, granted.job, performance)
                performance, proof = self._believe_failure(granted, performance, proof)
            if performance.strayed and performance.how == "finished":
                proof = WorkProof(breach=performance.strayed)
        except asyncio.CancelledError:
            if watch.abort is None:
                raise
            performance, proof = Performance("aborted"), NO_PROOF
        if watch.abort is None:
            return performance, proof
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # the cancellation may still be on its way
        task = asyncio.current_task()
        if task is not None and task.uncancel() > 0:
            raise asyncio.CancelledError  # somebody else wants us to end, too
        self._state.working.add(granted.job.lease)
        detail = self._state.deps.secret_guard.secrets.redact(watch.abort.detail)  # it may quote what the agent told
        abort = watch.abort._replace(detail=detail)
        return Performance("aborted", abort=abort, **merge_usage(watch.used, {})), NO_PROOF

    def _believe_failure(
        self, granted: LeasedAttempt, performance: Performance, proof: WorkProof
    ) -> tuple[Performance, WorkProof]:
        """Believe an agent that says it failed, unless its checks show that it did not."""
        failed = performance.ended_badly == "failed" and not proof.breach
        if not failed or turn_outcome.would_be_done(granted, performance, proof, at=self._state.deps.stamp()):
            return performance, proof
        return replace(performance, how="crashed", error=performance.remark, remark=""), NO_PROOF

    async def _run_job(self, board: BoardState, granted: LeasedAttempt) -> tuple[Performance, WorkProof | None]:
        """Have a job done. Without a proof, somebody else has to look at it."""
        job = granted.job
        prover = self._state.prover
        if prover is None and (job.needs_proof or job.criteria):
            return Performance("not_started", error="checks and repositories are not supported here"), NO_PROOF
        if why := _unconfinable(job.profile, self._state.performers.get(job.profile.driver)):
            return Performance("not_started", error=why), NO_PROOF
        try:
            judgements = await self._judge_inputs(board, granted, prover) if prover is not None and job.criteria else {}
        except InputError as error:  # whoever is to judge cannot be asked: that is no judgement of what it was given
            return Performance("not_started", error=error.message), NO_PROOF
        if not all(each.accepted for each in judgements.values()):
            return Performance("refused", judgements=judgements), NO_PROOF
        if prover is None or not job.needs_proof:
            performance = await self._perform_and_check(board, job)
            if granted.kind_task is not None and performance.how == "finished" and performance.code is None:
                await board.store.transact(lambda tx: resume.keep_performance(tx, job, performance))
                self._state.announce(ended=False)
                return performance, None
            return replace(performance, judgements=judgements) if judgements else performance, NO_PROOF
        try:
            job = await prover.begin(job)
        except AgentTalkError as error:
            return Performance("not_started", error=_describe_error(error)), NO_PROOF
        performance = replace(await self._perform_and_check(board, job), judgements=judgements)
        if performance.how != "finished" or performance.code is not None:
            return performance, NO_PROOF
        await board.store.transact(lambda tx: resume.keep_performance(tx, job, performance))
        self._state.announce(ended=False)
        return performance, None

    async def _prove(self, board: BoardState, granted: LeasedAttempt, job: Job, performance: Performance) -> WorkProof:
        """Have proven what came of a job."""
        if granted.kind_task is not None:
            return await self._gather_kind_evidence(board, granted, performance)
        if self._state.prover is None:
            return WorkProof(refused="checks and repositories are not supported here")
        if names := validator_verdicts.list_other_outputs(job):
            blobs = await self._state.deps.stores.blobs(job.board)
            job = replace(
                job, others=await validator_verdicts.read_stored_outputs(board.store, blobs, job.plan_id, names)
            )
        try:
            done = partial(turn_outcome.would_be_done, granted, performance, at=self._state.deps.stamp())
            proof = await self._state.prover.prove(job, performance, done, partial(self._confirm, board, granted))
            return self._state.deps.secret_guard.redact_proof(proof)
        except AgentTalkError as error:
            return WorkProof(refused=verdict_words.NOT_CHECKED(error=_describe_error(error)))

    async def _gather_kind_evidence(
        self, board: BoardState, granted: LeasedAttempt, performance: Performance
    ) -> WorkProof:
        """What the kind of a task finds of the work. What cannot be looked at is not there."""
        kind, task = self._state.deps.kinds.get(granted.job.board), granted.kind_task
        if kind is None or task is None or performance.how != "finished":
            return NO_PROOF
        try:
            confirm = partial(self._confirm, board, granted)
            wait = partial(self._await, board, granted)
            turn = await board_run.make_kind_turn(
                kind, board.store, granted, performance, at=self._state.deps.stamp(), confirm=confirm, wait=wait
            )
            found = tuple(await kind.evidence(task, turn))
        except Exception as error:  # also somebody else's code; whatever it is, nothing was found
            LOG.exception("%s: it could not be checked", granted.job.task_id, extra={"action": "dispatcher.evidence"})
            code = f"{error.code}: " if isinstance(error, AgentTalkError) else ""
            detail = f"verify_error: {code}{error}"
            found = (Evidence("read_back", False, True, "observed", "engine", self._state.deps.stamp(), detail),)
        moot = next((each.detail for each in found if each.id in board_run.MOOT), "")
        return self._state.deps.secret_guard.redact_proof(
            WorkProof(evidence=found, check_records=board_run.evidence_to_json(found), moot=moot)
        )

    async def _judge_inputs(self, board: BoardState, granted: LeasedAttempt, prover: Prover) -> dict[str, Judgement]:
        """Have inputs looked at before they are used."""
        await self._enter(board, granted.job, "validating")
        confirm = partial(self._confirm, board, granted)
        found = await InputReviewer(self._state.deps, board.store, self._state.performers, prover, confirm).judge(
            granted.job
        )
        await self._enter(board, granted.job, "executing")
        return found

    async def _confirm(
        self, board: BoardState, granted: LeasedAttempt, check: HumanCheck, shown: str, *, exhibit: Exhibit = NO_EXHIBIT
    ) -> Confirmation:
        """Ask a person about what a turn left. Meanwhile its agent can do something else."""
        await self._enter(board, granted.job, "asking")
        self._state.free(granted)
        self._state.working.discard(granted.job.lease)
        self._state.wake.set()
        self._state.announce(ended=False)
        try:
            return await human_driver.confirm(self._state.deps, granted.job, check, shown, exhibit)
        finally:
            self._state.working.add(granted.job.lease)
            await self._enter(board, granted.job, "verifying")

    async def _await(
        self, board: BoardState, granted: LeasedAttempt, why: str, longest: Coroutine[Any, Any, None]
    ) -> None:
        """Wait for what is not the agent's to do, until something is heard or the time is up. The agent is free."""
        job, heard = granted.job, asyncio.Event()
        about = {"plan_id": job.plan_id, "task_id": job.task_id, "lease": job.lease}
        self._state.free(granted)
        self._state.working.discard(job.lease)
        await board.store.transact(lambda tx: tx.run(SET_AWAITING, **about, **to_columns(why)))
        self._state.wake.set()
        self._state.announce(ended=False)
        self._state.awaiting.add(heard)
        waiting = [asyncio.ensure_future(longest), asyncio.ensure_future(heard.wait())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
            self._state.awaiting.discard(heard)
            self._state.working.add(job.lease)
            await self._enter(board, job, "verifying")

    async def _enter(self, board: BoardState, job: Job, phase: str) -> None:
        about = {"plan_id": job.plan_id, "task_id": job.task_id, "lease": job.lease, "phase": phase}
        await board.store.transact(lambda tx: tx.run(SET_PHASE, **about))
        self._state.announce(ended=False)

    async def _perform_and_check(self, board: BoardState, job: Job) -> Performance:
        """Have a job done, and look at what came: the types of its outputs, and what its agent claims elsewhere."""
        performance = await self._look_into(job, await self._perform(job))
        if job.command.promise is None:
            return performance
        return replace(
            performance, claims=(*performance.claims, *await kept.read_claims(self._state.deps, board.store, job))
        )

    async def _perform(self, job: Job) -> Performance:
        performer = self._state.performers.get(job.profile.driver)
        if performer is None:
            return Performance("not_started", error=f"the driver {job.profile.driver!r} is not supported here")
        try:
            watch = start_counting(job)
            self._state.deps.exposed.update(
                list_exposed_agents([job.profile])
            )  # before: what it says meanwhile could be anybody's
            try:
                performance = await performer.perform(job)
            finally:
                if watch is not None:
                    watch.end_program()
            self._state.deps.exposed.update([job.agent_id] if performance.sandbox == "plain" else [])
            if watch is None or not watch.has_usage:
                return performance
            return replace(
                performance, **merge_usage(watch.used._replace(seconds=performance.seconds), performance.usage)
            )
        except AgentTalkError as error:  # such as a disk that is full
            LOG.warning("%s: %s", job.task_id, error.message, extra={"action": "dispatcher.perform"})
            return Performance("crashed", error=_describe_error(error))
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
                    data = await (await self._state.deps.stores.blobs(job.board)).get(made.sha256)
                why = (
                    media_types.explain_mismatch(wanted, data)
                    if made.data is not None
                    else await asyncio.to_thread(media_types.explain_mismatch, wanted, data)
                )
                if why is not None:
                    misfits[made.output_name] = WHAT_IS(subject=f"({made.path})", what=why)
        return replace(performance, misfits=misfits) if misfits else performance


def _unconfinable(profile: AgentProfile, performer: Performer | None) -> str:
    """Why an agent that is not started as a program cannot be isolated as it must be; empty if nothing is wrong."""
    if getattr(performer, "confines", False):
        return ""
    if profile.sandbox in NAMED_TIERS or profile.network == "off":
        return f"the driver {profile.driver!r} knows no sandbox; leave out sandbox and network, or use script"
    if profile.isolation == "required" and getattr(performer, "inside", False):
        return f"isolation is required, and the driver {profile.driver!r} works inside of the engine; use script"
    return ""


def _describe_error(error: AgentTalkError) -> str:
    """What an error says, and what to do about it."""
    return join([error.message, error.hint]) if error.hint else error.message
