"""One turn of a command in an inbox: its inputs are read, its prompt is recorded, its job runs, its end is written.

The job runs as jobs of plans do (`engine.runs.job_runner`). Only where its inputs come from is special: from the
folders of its agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import InputError
from agenttalk.engine.agents.environment import pick_variables
from agenttalk.engine.core import records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.inbox import conclusion
from agenttalk.engine.inbox.archive import show_file
from agenttalk.engine.inbox.ready_commands import InputSource, ReadyCommand
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.runs.attempt import AttemptBuilder
from agenttalk.engine.runs.command_leases import ClaimedCommand
from agenttalk.engine.runs.job_runner import JobRunner
from agenttalk.ports.agents import InputContent
from agenttalk.ports.statements.inbox import DELIVERY_STATE, MARK_ARTIFACT_INJECTED, MARK_INJECTED
from agenttalk.ports.statements.runs import HOLDS_LEASE
from agenttalk.ports.storage import Tx
from agenttalk.rules.core.task_states import State
from agenttalk.rules.proof.performance import NO_PROOF, Performance, WorkProof

_TEXTS: Final = 128 * 1024
"""Up to this size all inputs together have their text in the prompt."""


@dataclass(frozen=True, slots=True)
class TurnSetting:
    """The state that the turns of an agent share."""

    runner: JobRunner
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of which the profile of the agent may hand some over to its program."""


@dataclass(frozen=True, slots=True)
class CommandInputs:
    """The inputs of a command, read from the folders of its agent."""

    files: tuple[InputContent, ...] = ()
    message_ids: tuple[str, ...] = ()
    """Messages that brought them."""


async def take_turn(
    seat: AgentInPlan, setting: TurnSetting, ready: ReadyCommand, attempt: AttemptBuilder
) -> State | None:
    """Run an attempt from its lease to its end, and write its end down.

    Returns the state of the task, or None if the command was replaced meanwhile. Raises LEASE_LOST when the lease was
    lost: then nothing of the turn is kept. Cancelling ends the program first.
    """
    order = ready.order
    try:
        inputs = await read_inputs(seat, ready)
    except InputError as error:
        performance = Performance("not_started", code=error.code, error=error.message)
        return await conclusion.conclude(seat, order, _lease_to(attempt, order, ""), performance)
    attempt.inputs = inputs.files
    # The prompt is recorded as the agent gets it, so secrets that the profile hands over must be known before.
    guard = seat.deps.secret_guard
    guard.register(pick_variables(attempt.profile, setting.environ))
    granted = _lease_to(attempt, order, guard.secrets.redact(attempt.render_prompt()))
    # The commit comes before the program: after a crash in between, the fact says what was about to start.
    if not await seat.store.transact(lambda tx: _inject(tx, seat, order, granted, inputs)):
        return None
    performance = await run_job(seat, setting.runner, granted)
    return await conclusion.conclude(seat, order, granted, performance)


def _lease_to(attempt: AttemptBuilder, order: ClaimedCommand, prompt: str) -> LeasedAttempt:
    no_ticket = 0  # the heartbeat holds the slot of the agent
    return attempt.lease_to(prompt, order.delivery, order.message_id, no_ticket, order.consumed_at)


async def run_job(seat: AgentInPlan, runner: JobRunner, granted: LeasedAttempt) -> Performance:
    """Run the job of an attempt under its monitor."""

    async def work() -> tuple[Performance, WorkProof]:
        return await runner.perform(seat.store, granted.job), NO_PROOF

    task = asyncio.current_task()
    if task is not None:
        granted.watch.attach(task.cancel)
    try:
        if why := runner.find_missing_isolation(granted.job.profile):
            return Performance("not_started", error=why)
        performance, _ = await runner.run_watched(granted.watch, work())
        return performance
    finally:
        granted.watch.close()


async def read_inputs(seat: AgentInPlan, ready: ReadyCommand) -> CommandInputs:
    """Read the inputs of a command. Raises InputError for a file that cannot be read safely."""
    files: list[InputContent] = []
    message_ids: dict[str, None] = {}
    room = _TEXTS
    for name, paths in ready.resolution.found.items():
        used: set[str] = set()
        for path in paths:
            source = ready.sources[path]
            short = source.short if source.short not in used else path
            used.add(short)
            file = await _read_input(seat, name, short, source)
            if file.data is not None and file.size > room:  # then its text would not fit into the prompt any more
                sha256 = await seat.blobs.put(file.data)
                file = file._replace(sha256=sha256, data=None)
            room -= file.size if file.data is not None else 0
            files.append(file)
            if source.message_id is not None:
                message_ids[source.message_id] = None
    return CommandInputs(tuple(files), tuple(message_ids))


async def _read_input(seat: AgentInPlan, name: str, short: str, source: InputSource) -> InputContent:
    """Read one input. An archived one is read as it was archived, also if its file in the folder was changed."""
    if source.sha256 is not None:
        await show_file(seat, source.path.removeprefix(f"{seat.inputs}/"), source.sha256)
        size = await seat.blobs.size(source.sha256)
        data = await seat.blobs.get(source.sha256) if size <= records.SMALL else None
        return InputContent(name, short, source.sha256, size, data)
    limit = seat.deps.limits.payload_bytes
    entry = await asyncio.to_thread(seat.root.entry, source.path)
    if entry is not None and entry.kind == "regular" and entry.size > records.SMALL:
        with seat.root.stream(source.path, limit) as stream:
            return InputContent(name, short, await seat.blobs.put(stream), entry.size, None)
    data = await asyncio.to_thread(seat.root.read, source.path, limit)
    return InputContent(name, short, wire.sha256(data), len(data), data)


def _inject(tx: Tx, seat: AgentInPlan, order: ClaimedCommand, granted: LeasedAttempt, inputs: CommandInputs) -> bool:
    """Record which prompt is about to be started, and its inputs; False when it must not start any more."""
    at, job = seat.deps.stamp(), granted.job
    about = {"plan_id": seat.plan_id, "task_id": order.task_id}
    state = tx.run(DELIVERY_STATE, id=order.delivery)
    if state[0].state != "claimed" or not tx.run(HOLDS_LEASE, **about, epoch=job.epoch, lease=job.lease):
        return False
    sha256 = wire.sha256(job.prompt.encode("utf-8", "replace"))
    tx.run(MARK_INJECTED, id=order.delivery, at=at, prompt_sha256=sha256)
    for message_id in inputs.message_ids:
        tx.run(MARK_ARTIFACT_INJECTED, plan_id=seat.plan_id, message_id=message_id, receiver=seat.agent_id, at=at)
    files = [{"name": file.input_name, "sha256": file.sha256} for file in inputs.files]
    body = {"lease": job.lease, "epoch": job.epoch, "prompt_sha256": sha256, "inputs": files}
    tx.record("turn.injected", records.build_turn_subject(seat.plan_id, order.message_id), body)
    return True
