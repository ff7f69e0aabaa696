"""One turn of an agent: inputs laid out, the prompt recorded, the program run, its outputs taken in."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import AgentTalkError, InputError, MissingError
from agenttalk.engine.agents import attempt_folders, prompt_record
from agenttalk.engine.agents.confinement import ConfinementBuilder
from agenttalk.engine.agents.environment import TurnEnvironment, argv_of, budget_of, limits_of, pick_variables
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.attempt_paths import TURNS, AttemptPaths, EngineAddress, open_attempt_socket
from agenttalk.engine.inbox import conclusion, leases
from agenttalk.engine.inbox.archive import show_file
from agenttalk.engine.inbox.conclusion import ConclusionKind
from agenttalk.engine.inbox.leases import Lease
from agenttalk.engine.inbox.ready_commands import ClaimedCommand, InputSource, ReadyCommand
from agenttalk.ports.agents import Job, ProgramTurn
from agenttalk.ports.statements.inbox import DELIVERY_STATE, HOLDS_LEASE, MARK_ARTIFACT_INJECTED, MARK_INJECTED
from agenttalk.ports.storage import Tx
from agenttalk.rules.agents import results
from agenttalk.rules.messages.leases import time_limit
from agenttalk.rules.people.attestation import list_exposed_agents
from agenttalk.rules.prompts.execute import Handover, InputText, render_execute_prompt, render_tools_note
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.text import reexecution
from agenttalk.rules.text.message import render

_TEXT: Final = 16 * 1024
"""Up to this size an input is shown in the prompt."""
_TEXTS: Final = 128 * 1024
"""Up to this size all of them are."""
FEEDBACK: Final = "validation_feedback.json"


class TurnExecutor(Protocol):
    """Carries out a turn that is laid out: the same code as for plans of the engine."""

    async def __call__(self, seat: AgentInPlan, job: Job, layout: AttemptPaths, turn: ProgramTurn) -> Performance:
        """Run the turn and take in what it left. Every process of it is dead when it returns."""


@dataclass(frozen=True, slots=True)
class TurnSetting:
    """What turns of an agent have in common."""

    profile: AgentProfile
    carry_out: TurnExecutor
    api: EngineAddress | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class LaidOutInput:
    """An input file where the agent finds it."""

    name: str
    path: str
    sha256: str
    text: str | None
    message_id: str | None


async def take_turn(seat: AgentInPlan, setting: TurnSetting, ready: ReadyCommand, lease: Lease) -> ConclusionKind:
    """Run an attempt from its lease to its end, and write down what came of it.

    Raises LEASE_LOST when the lease was lost meanwhile: then nothing is kept. Cancelling ends the program first.
    """
    seat.deps.exposed.update(list_exposed_agents([setting.profile]))
    with seat.deps.secret_guard.guard_token(lease.token):
        async with open_attempt_socket(setting.api, lease.token) as api:
            return await _take_turn(seat, replace(setting, api=api), ready, lease)


async def _take_turn(seat: AgentInPlan, setting: TurnSetting, ready: ReadyCommand, lease: Lease) -> ConclusionKind:
    order = ready.order
    try:
        layout, laid = await _lay_out(seat, ready, build_attempt_paths(seat, order, lease))
        turn = await _turn(seat, setting, ready, lease, layout, laid)
    except InputError as error:
        performance = Performance("not_started", code=error.code, error=error.message)
        return await conclusion.conclude(seat, order, lease, performance)
    if not await seat.store.transact(lambda tx: _inject(tx, seat, order, lease, turn.prompt, laid)):
        return "dropped"
    await asyncio.to_thread(prompt_record.save_prompt, seat.root, layout.base, turn.prompt)
    job = build_job(seat, setting, order, lease, turn)
    return await conclusion.conclude(seat, order, lease, await setting.carry_out(seat, job, layout, turn))


def build_job(seat: AgentInPlan, setting: TurnSetting, order: ClaimedCommand, lease: Lease, turn: ProgramTurn) -> Job:
    """The turn as a job, as those who carry out turns know it."""
    return Job(
        plan_id=seat.plan_id,
        task_id=order.task_id,
        agent_id=seat.agent_id,
        board=seat.store.name,
        lease=lease.id,
        epoch=lease.epoch,
        attempt=lease.attempt,
        token=lease.token,
        profile=setting.profile,
        command=order.command,
        prompt=turn.prompt,
        timeout=turn.timeout,
    )


def build_attempt_paths(seat: AgentInPlan, order: ClaimedCommand, lease: Lease) -> AttemptPaths:
    """Where the files of an attempt lie."""
    cwd = root_layout.task_folder(seat.agent_id, seat.plan_id, order.task_id)
    return AttemptPaths(cwd, f"{cwd}/{TURNS}/{order.command.command_id}-{lease.attempt}")


async def _lay_out(
    seat: AgentInPlan, ready: ReadyCommand, layout: AttemptPaths
) -> tuple[AttemptPaths, list[LaidOutInput]]:
    layout = await asyncio.to_thread(
        attempt_folders.make_folders, seat.root, seat.agent_id, layout, ready.order.command
    )
    laid: list[LaidOutInput] = []
    room = _TEXTS
    for name, paths in ready.resolution.found.items():
        taken: set[str] = set()
        for path in paths:
            source = ready.sources[path]
            short = source.short if source.short not in taken else path
            taken.add(short)
            target = f"{layout.inputs}/{root_layout.path_segment(name)}/{short}"
            sha256 = await _lay(seat, source, target)
            text = await asyncio.to_thread(_text, seat, target, min(_TEXT, room))
            room -= len(text.encode()) if text else 0
            laid.append(LaidOutInput(name, target, sha256, text, source.message_id))
    return layout, laid


async def _lay(seat: AgentInPlan, source: InputSource, target: str) -> str:
    """Copy a file to where the agent finds it. An archived one is what was archived, whatever lies there now."""
    folder, _, name = target.rpartition("/")

    def copy() -> str:
        with seat.root.open_folder(folder, create=True) as there:
            return seat.root.copy_to(source.path, there, name, seat.deps.limits.payload_bytes).sha256

    try:
        found = await asyncio.to_thread(copy)
    except (MissingError, InputError):
        if source.sha256 is None:
            raise
        found = None
    if source.sha256 is None or found == source.sha256:
        return found or ""
    await show_file(seat, source.path.removeprefix(f"{seat.inputs}/"), source.sha256)
    data = await seat.blobs.get(source.sha256)
    await asyncio.to_thread(seat.root.write, target, data, parents=True)
    return source.sha256


def _text(seat: AgentInPlan, path: str, limit: int) -> str | None:
    try:
        return seat.root.read(path, limit).decode()
    except (AgentTalkError, UnicodeDecodeError):
        return None


async def _turn(
    seat: AgentInPlan,
    setting: TurnSetting,
    ready: ReadyCommand,
    lease: Lease,
    layout: AttemptPaths,
    laid: list[LaidOutInput],
) -> ProgramTurn:
    root = seat.root.path.absolute()
    profile, command = setting.profile, ready.order.command
    prompt = render_execute_prompt(
        profile.prompt or "",
        reexecution.render_command(command, profile.locale),
        [InputText(each.name, str(root / each.path), each.sha256, each.text) for each in laid],
        ready.resolution.missing,
        Handover(
            str(root / layout.outputs),
            str(root / layout.result),
            tuple(results.list_required_outputs(command)),
            tuple(results.list_possible_outputs(command)),
            by=profile.result_by,
        ),
        fence=secrets.token_hex(12),
        locale=profile.locale,
        may_refuse=profile.self_assessment,
    )
    if profile.has_tools:
        prompt += render_tools_note(locale=profile.locale)
    if lease.sent_back:
        prompt = f"{prompt}\n# {render(lease.sent_back, profile.locale)}\n"
    feedback = next((each.path for each in laid if each.path.endswith(f"/{FEEDBACK}")), None)
    seat.deps.secret_guard.register(pick_variables(profile, setting.environ))
    argv = argv_of(seat, profile)
    return ProgramTurn(
        lease=lease.id,
        argv=argv,
        cwd=root / layout.cwd,
        prompt=seat.deps.secret_guard.secrets.redact(prompt),
        timeout=time_limit(command, lease.history),
        env=TurnEnvironment(root, layout, command, lease.attempt, lease.token, setting.api, feedback).variables(
            profile, setting.environ
        ),
        limits=limits_of(profile),
        budget=budget_of(profile, root, layout),
        confinement=await ConfinementBuilder(seat, profile, layout, command, setting.api).build(),
    )


def _inject(
    tx: Tx, seat: AgentInPlan, order: ClaimedCommand, lease: Lease, prompt: str, laid: list[LaidOutInput]
) -> bool:
    """Record which prompt is about to be started, and what stands in it; False when it must not start any more."""
    at = seat.deps.stamp()
    about = {"plan_id": seat.plan_id, "task_id": order.task_id}
    state = tx.run(DELIVERY_STATE, id=order.delivery)
    if state[0].state != "claimed" or not tx.run(HOLDS_LEASE, **about, epoch=lease.epoch, lease=lease.id):
        return False
    sha256 = wire.sha256(prompt.encode("utf-8", "replace"))
    tx.run(MARK_INJECTED, id=order.delivery, at=at, prompt_sha256=sha256)
    for message_id in dict.fromkeys(each.message_id for each in laid if each.message_id):
        tx.run(MARK_ARTIFACT_INJECTED, plan_id=seat.plan_id, message_id=message_id, receiver=seat.agent_id, at=at)
    files = [{"name": each.name, "sha256": each.sha256} for each in laid]
    body = {"lease": lease.id, "epoch": lease.epoch, "prompt_sha256": sha256, "inputs": files}
    tx.record("turn.injected", leases.build_turn_subject(seat.plan_id, order.message_id), body)
    return True
