"""Admits messages: decides in one transaction whether a message is delivered, skipped or refused, and writes that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from agenttalk.contracts.command import PRIORITIES, parse_command_id
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.dag import Output
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope
from agenttalk.contracts.errors import Code
from agenttalk.engine.core import plan_settings, records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.records import JournalMessage, RefusedMessage
from agenttalk.engine.messages import recall, refusals
from agenttalk.engine.messages.incoming_file import IncomingFile, output_of
from agenttalk.engine.messages.outbox_reader import OutboxFile
from agenttalk.engine.messages.plan_registry import RoutedPlan
from agenttalk.engine.plans import validator_verdicts
from agenttalk.ports.statements.messages import (
    ADD_DELIVERY,
    ADD_LEAVING,
    ADD_MESSAGE,
    COUNT_ROUND,
    MESSAGE_BY_ID,
    NEWEST_ORDER,
    NEWEST_VERSIONS,
    ORDER_BY_COMMAND,
    SET_MESSAGE_STATE,
    TASK,
)
from agenttalk.ports.statements.plans import ADD_ARRIVED_ARTIFACT
from agenttalk.ports.storage import Tx, Value
from agenttalk.rules.messages import artifact_versions, routes
from agenttalk.rules.messages.artifact_versions import ArtifactVersion
from agenttalk.rules.messages.routes import CommandOrder, OutboxMessage, Rejection
from agenttalk.rules.proof.release import VALIDATION

_LONGEST_NAME: Final = 255
_PEERS: Final = 64
"""The most earlier versions of an output that are compared."""
AdmissionOutcome = Literal["accepted", "superseded", "duplicate", "dead"]


@dataclass(frozen=True, slots=True)
class SkipDecision:
    """A message that is logged and not delivered."""

    status: Literal["SKIPPED_DUPLICATE", "SKIPPED_SUPERSEDED"]
    why: str
    newest: CommandOrder | None = None
    """The command that superseded it."""


@dataclass(frozen=True, slots=True)
class AcceptDecision:
    """A message that is delivered."""

    targets: tuple[str, ...]
    order: CommandOrder | None = None
    output: Output | None = None


def judge_message(tx: Tx, arrival: IncomingFile, plan: RoutedPlan) -> AcceptDecision | SkipDecision | Rejection:
    """Decide whether a message is delivered, skipped or refused. Writes nothing."""
    parcel = arrival.parcel
    if isinstance(parcel, Rejection):
        return parcel
    message_id = parcel.envelope.message_id
    rows = tx.run(MESSAGE_BY_ID, plan_id=plan.plan_id, message_id=message_id)
    seen = routes.check_duplicate(parcel, rows[0].sha256 if rows else None)
    if isinstance(seen, Rejection):
        return seen
    if seen == "duplicate":
        return SkipDecision("SKIPPED_DUPLICATE", "the same message came before")
    if arrival.refusal:
        return arrival.refusal
    targets = _targets(tx, parcel, plan)
    if isinstance(targets, Rejection):
        return targets
    if arrival.order:
        return _judge_order(tx, arrival.order, targets, plan)
    return _judge_artifact(tx, parcel.envelope, targets, plan)


def _judge_order(
    tx: Tx, order: CommandOrder, targets: tuple[str, ...], plan: RoutedPlan
) -> AcceptDecision | SkipDecision | Rejection:
    about = {"plan_id": plan.plan_id, "task_id": order.task_id}
    if tx.run(ORDER_BY_COMMAND, **about, command_id=order.command_id):
        return Rejection(Code.COMMAND_ID_REUSED, f"the plan has a command {order.command_id!r} already")
    rows = tx.run(NEWEST_ORDER, **about, dag_sha256=plan.dag_sha256)
    newest = CommandOrder(rows[0].message_id, order.task_id, rows[0].command_id, rows[0].seq) if rows else None
    if routes.is_superseded(order, newest):
        return SkipDecision("SKIPPED_SUPERSEDED", "a newer command of the task was accepted", newest)
    return AcceptDecision(targets, order=order)


def _judge_artifact(
    tx: Tx, envelope: ArtifactEnvelope | CommandEnvelope, targets: tuple[str, ...], plan: RoutedPlan
) -> AcceptDecision | SkipDecision | Rejection:
    if not isinstance(envelope, ArtifactEnvelope):
        raise TypeError(type(envelope).__name__)  # an order is judged as one
    output = output_of(plan, envelope)
    new = _version(envelope, output)
    verdict = artifact_versions.judge(new, _earlier(tx, plan.plan_id, envelope), output.versioning)
    if verdict == "conflict":
        why = f"output {envelope.output_name!r} of this order was handed over before with other content"
        return Rejection(Code.OUTPUT_VERSION_CONFLICT, why)
    if verdict == "duplicate":
        return SkipDecision("SKIPPED_DUPLICATE", "the same content came before")
    if verdict == "outdated":
        return SkipDecision("SKIPPED_SUPERSEDED", "the output of a later order was accepted")
    return AcceptDecision(targets, output=output)


def admit_message(tx: Tx, arrival: IncomingFile, plan: RoutedPlan, deps: Deps, at: str) -> AdmissionOutcome:
    """Judge a message, and write the decision together with everything that follows from it."""
    if isinstance(arrival.parcel, Rejection):
        return bury(tx, arrival, arrival.parcel, at)
    verdict = judge_message(tx, arrival, plan)
    if isinstance(verdict, Rejection):
        return bury(tx, arrival, verdict, at)
    letter = _letter(arrival.parcel)
    if (
        isinstance(verdict, AcceptDecision)
        and plan.origin == "engine"
        and (again := refusals.find_refusal(arrival.parcel))
    ):
        refusal = refusals.accept_refusal(tx, plan, arrival.parcel.owner, again, at=at)
        if refusal is not None:
            return bury(tx, arrival, refusal, at)
        schedule_removal(tx, arrival.found, root_layout.SENT)
        return "accepted"
    if isinstance(verdict, SkipDecision):
        return _skip(tx, arrival, letter, verdict, plan, deps, at)
    return _accept(tx, arrival, letter, verdict, plan, deps, at)


def _letter(parcel: OutboxMessage) -> JournalMessage:
    envelope = parcel.envelope
    artifact = envelope if isinstance(envelope, ArtifactEnvelope) else None
    return JournalMessage(
        plan_id=envelope.plan_id,
        message_id=envelope.message_id,
        sha256=parcel.sha256,
        sender=envelope.producer_agent_id,
        task_id=envelope.task_id,
        command_id=envelope.command_id,
        output_name=artifact.output_name if artifact else None,
        files=records.list_files(artifact.payload.files) if artifact else (),
    )


def _unread(arrival: IncomingFile, why: Rejection) -> JournalMessage | None:
    """Describe a message of which only the id could be read. The folder names the sender."""
    if why.message_id is None:
        return None
    return JournalMessage(arrival.found.plan_id, why.message_id, wire.sha256(arrival.data), arrival.found.agent_id)


def _targets(tx: Tx, parcel: OutboxMessage, plan: RoutedPlan) -> tuple[str, ...] | Rejection:
    if plan.facts is not None:
        own = not plan.facts.foreign and isinstance(parcel.envelope, ArtifactEnvelope)
        driven = plan_settings.driven_agents(tx, plan.plan_id) if own else frozenset()
        return routes.route(parcel, plan.facts, driven)
    rows = tx.run(TASK, plan_id=plan.plan_id, task_id=parcel.envelope.task_id)
    return routes.route_on_board(parcel, rows[0].agent_id if rows else None)


def _accept(
    tx: Tx, arrival: IncomingFile, letter: JournalMessage, accept: AcceptDecision, plan: RoutedPlan, deps: Deps, at: str
) -> AdmissionOutcome:
    priority = PRIORITIES["MEDIUM"]
    parcel = arrival.parcel
    if accept.order and isinstance(parcel, OutboxMessage) and isinstance(parcel.envelope, CommandEnvelope):
        command = parcel.envelope.payload.command
        priority = PRIORITIES[command.priority]
        recall.recall(tx, accept.order, plan.plan_id, plan.dag_sha256, deps, at)
        rounds = int(command.reexecute is not None)
        tx.run(COUNT_ROUND, plan_id=plan.plan_id, task_id=command.task_id, rounds=rounds)
        records.publish_file(tx, f"plans/{plan.plan_id}/commands/{parcel.envelope.file_name}", arrival.data)
    for content in arrival.contents:
        records.store_content(tx, content)
    output, task_id = accept.output, letter.task_id or ""
    if (
        output
        and output.deliverable
        and not validator_verdicts.needs_acceptance_in_plan(tx, plan.plan_id, task_id, output.name)
    ):
        folder = validator_verdicts.folder_of(plan.plan_id, task_id, output.name)
        for file in letter.files:
            path = file["path"].removeprefix(f"{letter.message_id}/")
            records.publish_file(tx, f"{folder}/{path}", None, content=file["sha256"])
    message = _add(tx, arrival, letter, plan, "stored", at)
    if output and output.name.startswith(VALIDATION):
        validator = validator_verdicts.Validator(plan.plan_id, task_id, letter.sender)
        validator_verdicts.record_results(tx, validator, [file["sha256"] for file in letter.files], at=at)
    return _send(tx, arrival, letter, message, accept.targets, priority, deps, at)


def _seq(command_id: str | None) -> int:
    parts = parse_command_id(command_id) if command_id else None
    return parts.seq if parts else 0


def _version(envelope: ArtifactEnvelope, output: Output) -> ArtifactVersion:
    digests = frozenset((file.path, file.sha256) for file in envelope.payload.files)
    return ArtifactVersion(envelope.message_id, _seq(envelope.command_id), digests, output.versioning.tag)


def _earlier(tx: Tx, plan_id: str, envelope: ArtifactEnvelope) -> list[ArtifactVersion]:
    """Read the accepted versions of the output, oldest first; of the same command only those with the same key."""
    rows = tx.run(
        NEWEST_VERSIONS, plan_id=plan_id, task_id=envelope.task_id, output_name=envelope.output_name, limit=_PEERS
    )
    found = []
    for _, seq, data in reversed(rows):
        earlier = ArtifactEnvelope.from_bytes(bytes(data))
        if earlier.idempotency_key == envelope.idempotency_key or seq != _seq(envelope.command_id):
            found.append(_version(earlier, Output(name=envelope.output_name)))
    return found


def _add(tx: Tx, arrival: IncomingFile, letter: JournalMessage, plan: RoutedPlan, state: str, at: str) -> int:
    [(message,)] = tx.run(
        ADD_MESSAGE,
        plan_id=letter.plan_id,
        message_id=letter.message_id,
        sha256=letter.sha256,
        type="artifact" if letter.output_name is not None else "command",
        task_id=letter.task_id,
        command_id=letter.command_id,
        seq=_seq(letter.command_id),
        output_name=letter.output_name,
        producer=letter.sender,
        name=_inbox_name(arrival.found.name, letter),
        envelope=arrival.data,
        dag_sha256=plan.dag_sha256,
        at=at,
        state=state,
    )
    number: int = message
    return number


def _inbox_name(name: str, letter: JournalMessage) -> str:
    """Keep the sender's name of the file, if it is short enough for the receiver to add the id and a number."""
    if len(root_layout.claimed_name(letter.message_id, name, copy=10**6).encode()) <= _LONGEST_NAME:
        return name
    return (
        records.derive_id("artifact" if letter.output_name is not None else "cmd", letter.message_id)
        + root_layout.MESSAGE
    )


def _send(
    tx: Tx,
    arrival: IncomingFile,
    letter: JournalMessage,
    message: int,
    targets: tuple[str, ...],
    priority: int,
    deps: Deps,
    at: str,
) -> AdmissionOutcome:
    tx.record("message.accepted", letter.message_id, {"sha256": letter.sha256, "to": list(targets)})
    driven = plan_settings.driven_agents(tx, letter.plan_id) if letter.output_name is not None else frozenset()
    for receiver in targets:
        delivery_id = deps.ids.new("dlv")
        about: dict[str, Value] = {"plan_id": letter.plan_id, "message": message, "receiver": receiver}
        about |= {"delivery_id": delivery_id}
        if receiver in driven:  # the engine passes it to the agent's turn, without a folder
            tx.run(ADD_ARRIVED_ARTIFACT, **about, at=at)
            records.write_journal_line(tx, letter, "DELIVERED", at=at, delivery_id=delivery_id, to=receiver)
        else:
            tx.run(ADD_DELIVERY, **about, priority=priority)
    arrived = driven.issuperset(targets)  # also a result of the whole plan, or an output on a virtual board
    if arrived:
        tx.run(SET_MESSAGE_STATE, id=message, state="delivered")
        if not targets:
            records.write_journal_line(tx, letter, "DELIVERED", at=at, delivery_id=deps.ids.new("dlv"))
    records.count_messages(tx, letter.plan_id, sent=1, delivered=int(arrived))
    schedule_removal(tx, arrival.found, root_layout.SENT, payloads=[file["path"] for file in letter.files])
    return "accepted"


def _skip(
    tx: Tx, arrival: IncomingFile, letter: JournalMessage, skip: SkipDecision, plan: RoutedPlan, deps: Deps, at: str
) -> AdmissionOutcome:
    """Log a message that is not delivered, and queue the removal of its file."""
    duplicate = skip.status == "SKIPPED_DUPLICATE"
    if not duplicate:
        _add(tx, arrival, letter, plan, "superseded", at)
    newest = recall.describe_newer_command(skip.newest) if skip.newest else {}
    delivery_id = deps.ids.new("dlv")
    records.write_journal_line(tx, letter, skip.status, at=at, delivery_id=delivery_id, skip_reason=skip.why, **newest)
    records.count_messages(tx, letter.plan_id, sent=1, duplicate=int(duplicate), superseded=int(not duplicate))
    schedule_removal(tx, arrival.found, root_layout.SENT, payloads=[file["path"] for file in letter.files])
    return "duplicate" if duplicate else "superseded"


def bury(tx: Tx, arrival: IncomingFile, why: Rejection, at: str) -> AdmissionOutcome:
    """Dead-letter a message, and queue the removal of its file with the reason beside it."""
    found = arrival.found
    letter = _letter(arrival.parcel) if isinstance(arrival.parcel, OutboxMessage) else _unread(arrival, why)
    message_id = letter.message_id if letter else None
    sha256 = wire.sha256(arrival.data) if arrival.data else None
    refused = build_refused_file(found, why, arrival.original, message_id=message_id, sha256=sha256)
    if records.write_dead_letter(tx, refused, at=at):
        records.count_messages(tx, found.plan_id, sent=1, dead=1)
        journal_refused(tx, found, why, sha256, at, letter)
        for content in arrival.contents:
            records.store_content(tx, content)
    schedule_rejected_removal(tx, found, why, at)
    return "dead"


def journal_refused(
    tx: Tx, found: OutboxFile, why: Rejection, sha256: str | None, at: str, letter: JournalMessage | None = None
) -> None:
    """Write a line for a refused file. The id of one that could not be read is derived from the file."""
    unread = JournalMessage(
        found.plan_id, records.derive_id("unread", found.key), sha256 or wire.sha256(b""), found.agent_id
    )
    delivery_id, code = records.derive_id("dlv", found.key), str(why.code)
    more = {"skip_reason": code, "file_name": found.name}
    records.write_journal_line(tx, letter or unread, "DEADLETTERED", at=at, delivery_id=delivery_id, **more)


def build_refused_file(
    found: OutboxFile, why: Rejection, original: bytes | str | None, *, message_id: str | None, sha256: str | None
) -> RefusedMessage:
    """Make the dead letter of a file in an outbox."""
    return RefusedMessage(
        plan_id=found.plan_id,
        agent_id=found.agent_id,
        box="outbox",
        name=found.name,
        key=found.key,
        code=why.code,
        reason=why.message,
        original=original,
        message_id=message_id,
        sha256=sha256,
        problems=why.problems,
    )


def schedule_rejected_removal(tx: Tx, found: OutboxFile, why: Rejection, at: str) -> None:
    """Queue the removal of a refused file from the outbox, with the reason beside it."""
    reason: wire.JsonValue = {"code": str(why.code), "message": why.message, "at": at}
    schedule_removal(tx, found, root_layout.REJECTED, reason=reason)


def schedule_removal(
    tx: Tx, found: OutboxFile, target: str, *, reason: wire.JsonValue = None, payloads: Sequence[str] = ()
) -> None:
    """Queue the removal of a file from the outbox after the commit. A replayed message has no file there."""
    if not found.entry.inode:
        return
    tx.run(
        ADD_LEAVING,
        plan_id=found.plan_id,
        agent_id=found.agent_id,
        name=found.name,
        inode=found.entry.inode,
        mtime_ns=found.entry.mtime_ns,
        target=target,
        reason=wire.write(reason) + b"\n" if reason is not None else None,
        payloads=wire.write(list(payloads)),
    )
