"""Runs the job of a leased attempt: the one runner of turns, for plans of the engine and for commands in inboxes.

The caller decides what the job is and what follows from its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agenttalk.contracts.agent import NAMED_TIERS, AgentProfile
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.engine.budgets.turn_monitor import TurnMonitor, merge_usage, start_counting
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.proof import evidence_store as kept
from agenttalk.ports.agents import Job, Performer
from agenttalk.ports.storage import Store
from agenttalk.rules.core import media_types
from agenttalk.rules.people.attestation import is_confined
from agenttalk.rules.proof.performance import NO_PROOF, Performance, WorkProof
from agenttalk.rules.text import turn_words
from agenttalk.rules.text.message import WHAT_IS, join

LOG = logging.getLogger(__name__)


class JobRunner:
    """Has jobs performed by the performer of their driver."""

    def __init__(self, deps: Deps, performers: Mapping[str, Performer]) -> None:
        self._deps = deps
        self.performers = performers

    async def run_watched(
        self, watch: TurnMonitor, work: Coroutine[Any, Any, tuple[Performance, WorkProof]]
    ) -> tuple[Performance, WorkProof]:
        """Run the work of a turn. If its monitor stops it, the turn ends as aborted, with the reason of the monitor."""
        try:
            performance, proof = await work
        except asyncio.CancelledError:
            if watch.abort is None:
                raise
            performance, proof = Performance("aborted"), NO_PROOF
        if watch.abort is None:
            return performance, proof
        # The monitor stops a turn by cancelling its task. If the work ended in the same moment, that cancellation is
        # still to be delivered: give it a chance now, or it would hit the commit that writes the end down.
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        # `uncancel` takes back the cancellation of the monitor. If another one is left, the engine stops or an operator
        # ended the turn as well, and that one must not be swallowed.
        if task is not None and task.uncancel() > 0:
            raise asyncio.CancelledError
        detail = self._deps.secret_guard.secrets.redact(watch.abort.detail)  # it may quote the agent
        abort = watch.abort._replace(detail=detail)
        return Performance("aborted", abort=abort, **merge_usage(watch.used, {})), NO_PROOF

    def find_missing_isolation(self, profile: AgentProfile) -> str:
        """Say why an agent that is not a program cannot be isolated as its profile asks; empty if it can."""
        if profile.pool is not None:  # its worker confines it, or refuses it
            return ""
        performer = self.performers.get(profile.driver)
        if getattr(performer, "confines", False):
            return ""
        if profile.sandbox in NAMED_TIERS or profile.network == "off":
            return turn_words.UNSUPPORTED["sandbox"](driver=profile.driver)
        if profile.isolation == "required" and getattr(performer, "inside", False):
            return turn_words.UNSUPPORTED["isolation"](driver=profile.driver)
        return ""

    async def perform(self, store: Store, job: Job) -> Performance:
        """Have a job performed, check the types of its outputs and add what its agent claimed over HTTP."""
        performance = await self._check_types(job, await self._perform(job))
        if job.command.promise is None:
            return performance
        return replace(performance, claims=(*performance.claims, *await kept.read_claims(self._deps, store, job)))

    async def _perform(self, job: Job) -> Performance:
        name = job.profile.performer
        performer = self.performers.get(name)
        if performer is None:
            return Performance("not_started", error=turn_words.UNSUPPORTED["driver"](driver=job.profile.driver))
        if name in {"human", "remote"}:
            job.enter("asking" if name == "human" else "offered")
        try:
            watch = start_counting(job)
            # Noted before the program starts: from then on any answer of a person could be written by the program.
            if not is_confined(job.profile):
                self._deps.exposed.add(job.agent_id)
            try:
                performance = await performer.perform(job)
            finally:
                if watch is not None:
                    watch.end_program()
            if performance.sandbox == "plain":
                self._deps.exposed.add(job.agent_id)
            if watch is None or not watch.has_usage:
                return performance
            return replace(
                performance, **merge_usage(watch.used._replace(seconds=performance.seconds), performance.usage)
            )
        except AgentTalkError as error:  # such as a full disk
            LOG.warning("%s: %s", job.task_id, error.message, extra={"action": "dispatcher.perform"})
            return Performance("crashed", error=describe_error(error))
        except Exception as error:  # a performer that fails is a fault of ours or of the machine, not of the agent
            LOG.exception("%s: its driver failed", job.task_id, extra={"action": "dispatcher.perform"})
            return Performance("crashed", error=f"{type(error).__name__}: {error}")

    async def _check_types(self, job: Job, performance: Performance) -> Performance:
        """Compare the outputs with the media types that they must have."""
        misfits = {}
        for output in performance.outputs:
            expected = job.types.get(output.output_name)
            if expected is None:
                continue
            if output.data is not None:
                reason = media_types.explain_mismatch(expected, output.data)
            else:  # a large one, which takes time to read
                data = await (await self._deps.stores.blobs(job.board)).get(output.sha256)
                reason = await asyncio.to_thread(media_types.explain_mismatch, expected, data)
            if reason is not None:
                misfits[output.output_name] = WHAT_IS(subject=f"({output.path})", what=reason)
        return replace(performance, misfits=misfits) if misfits else performance


def describe_error(error: AgentTalkError) -> str:
    """Describe an error with its hint."""
    return join([error.message, error.hint]) if error.hint else error.message
