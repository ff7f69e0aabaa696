"""Giving a task to its agent: the lease, the prompt and the inputs of an attempt, in the transaction that queued it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agenttalk.contracts import places, wire
from agenttalk.contracts.command import Command
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope
from agenttalk.engine.moves import Moves
from agenttalk.engine.sheets import Sheet
from agenttalk.engine.slots import Slots
from agenttalk.ports import Handed, Job, Tx
from agenttalk.prompts.execute import Handover, InputText, execute
from agenttalk.rules.leases import History, time_limit
from agenttalk.rules.readiness import Candidate
from agenttalk.rules.tokens import attempt_token, token_hash

_TEXT: Final = 32 * 1024
"""Up to this size the text of an input stands in the prompt."""
_TEXTS: Final = 128 * 1024
"""All of them together."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease, and the job that it is for."""

    job: Job
    delivery: int
    message_id: str
    retries: int
    sent_back: int
    ticket: int
    """For the agent's place."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What is the same for all leases of this process."""

    owner: str
    """This process, as leases name it."""
    root: str
    """Where the root lies, for paths in prompts."""
    slots: Slots


def grant(moves: Moves, desk: Desk, agents: Iterable[str]) -> list[Granted]:
    """Lease the first task in the queue of each agent that is free."""
    granted = []
    for agent_id in agents:
        ticket = desk.slots.take(agent_id)
        if ticket is None:
            continue
        given = None
        try:
            given = _next(moves, desk, agent_id, ticket)
        finally:
            if given is None:
                desk.slots.free(agent_id, ticket)
        if given is not None:
            granted.append(given)
    return granted


def _next(moves: Moves, desk: Desk, agent_id: str, ticket: int) -> Granted | None:
    tx = moves.tx
    rows = tx.run("next_task", agent_id=agent_id)
    if not rows:
        return None
    plan_id, task_id, delivery, epoch, _, retries, sent_back, _, reason = rows[0]
    sheet = moves.sheets.of(tx, plan_id)
    lease, secret = f"lease_{secrets.token_hex(12)}", secrets.token_urlsafe(24)
    message_id, command, sources = _ordered(moves, delivery)
    profile = sheet.profile(agent_id)
    token = attempt_token(tx.board, plan_id, task_id, epoch + 1, secret)
    [(epoch, attempt)] = tx.run(
        "lease_task",
        plan_id=plan_id,
        task_id=task_id,
        lease=lease,
        owner=desk.owner,
        token=token_hash(token),
        phase="asking" if profile.driver == "human" else "executing",
        at=moves.at,
    )
    inputs, used = _picked(tx, command, sources) if sources is not None else _inputs(tx, sheet, command)
    base = f"{desk.root}/{places.task(agent_id, plan_id, task_id)}/.agenttalk/{command.command_id}-{attempt}"
    prompt = execute(
        profile.prompt or "",
        command,
        [InputText(each.input_name, f"{base}/inputs/{_shown(each)}", each.sha256, _text(each)) for each in inputs],
        (),
        Handover(f"{base}/outputs", f"{base}/result.json", tuple(each.output_name for each in command.produces or ())),
        fence=secrets.token_hex(12),
        locale=profile.locale,
    )
    if sent_back and reason:
        prompt = f"{prompt}\n# {reason}\n"
    sha256 = wire.sha256(prompt.encode("utf-8", "replace"))
    tx.run("take_delivery", id=delivery, at=moves.at, prompt_sha256=sha256)
    for each in used:
        tx.run("mark_artifact_injected", plan_id=plan_id, message_id=each, receiver=agent_id, at=moves.at)
    body = {"lease": lease, "epoch": epoch, "attempt": attempt, "prompt_sha256": sha256, "inputs": used}
    tx.record("turn.started", f"turns/{plan_id}/{message_id}", body)
    history = History(crashes=retries, bad_scores=sent_back)
    job = Job(
        plan_id,
        task_id,
        agent_id,
        tx.board,
        lease,
        epoch,
        attempt,
        token,
        profile,
        command,
        prompt,
        time_limit(command, history),
        inputs,
    )
    return Granted(job, delivery, message_id, retries, sent_back, ticket)


def _ordered(moves: Moves, delivery: int) -> tuple[str, Command, Mapping[str, tuple[Candidate, ...]] | None]:
    """The command of a delivery; what was picked for it is known only if it was just made."""
    made = moves.made.get(delivery)
    if made is not None:
        ordered, picked = made
        return ordered.message_id, ordered.command, picked.sources if picked.sources or not picked.inputs else None
    [(message_id, envelope)] = moves.tx.run("command_of_delivery", id=delivery)
    return message_id, CommandEnvelope.model_validate_json(bytes(envelope)).payload.command, None


def _picked(
    tx: Tx, command: Command, sources: Mapping[str, tuple[Candidate, ...]]
) -> tuple[tuple[Handed, ...], list[str]]:
    """The files of inputs that were just picked, and the messages that brought them."""
    found: list[Handed] = []
    used: dict[str, None] = {}
    for each in command.resolved_inputs or ():
        for source in sources[each.input_name]:
            used[source.message_id] = None
            folder = f"{source.task_id}/{places.segment(source.output_name)}"
            for path, sha256 in source.paths:
                if f"{folder}/{path}" in each.paths:
                    rows = tx.run("get_blob", hash=sha256)
                    data = bytes(rows[0][0]) if rows and rows[0][0] is not None else None
                    found.append(Handed(each.input_name, path, sha256, len(data) if data is not None else 0, data))
    return tuple(found), list(used)


def _inputs(tx: Tx, sheet: Sheet, command: Command) -> tuple[tuple[Handed, ...], list[str]]:
    """The files of a command's inputs, and the messages that brought them."""
    found: list[Handed] = []
    used: dict[str, None] = {}
    room = _TEXTS
    for each in command.resolved_inputs or ():
        for path in each.paths:
            task_id, output_name, inside = path.split("/", 2)
            version = _version(tx, sheet.plan_id, task_id, output_name)
            if version is None:
                continue
            message_id, files = version
            used[message_id] = None
            sha256, size = files[inside]
            rows = tx.run("get_blob", hash=sha256) if size <= room else []
            data = bytes(rows[0][0]) if rows and rows[0][0] is not None else None
            room -= len(data) if data else 0
            found.append(Handed(each.input_name, inside, sha256, size, data))
    return tuple(found), list(used)


def _version(tx: Tx, plan_id: str, task_id: str, segment: str) -> tuple[str, dict[str, tuple[str, int]]] | None:
    """The newest version of an output, which paths name as a folder is named after it."""
    rows = tx.run("versions_from", plan_id=plan_id, task_id=task_id)
    envelope = next((row[5] for row in rows if places.segment(row[0]) == segment), None)
    if envelope is None:
        return None
    artifact = ArtifactEnvelope.model_validate_json(bytes(envelope))
    files = {
        (file.path.partition("/")[2] or file.path): (file.sha256, file.size_bytes or 0)
        for file in artifact.payload.files
    }
    return artifact.message_id, files


def _shown(file: Handed) -> str:
    return f"{places.segment(file.input_name)}/{file.path}"


def _text(file: Handed) -> str | None:
    if file.data is None or len(file.data) > _TEXT:
        return None
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        return None
