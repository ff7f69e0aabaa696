"""Outputs as messages: the message, its lines in the journal, and a delivery for each receiver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.dag import Output
from agenttalk.engine.core import records
from agenttalk.engine.plans import validator_verdicts
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.core import PUT_BLOB
from agenttalk.ports.statements.messages import ADD_DELIVERY, PUT_MESSAGE
from agenttalk.ports.storage import Tx, Value
from agenttalk.rules.plans.input_selection import InputCandidate
from agenttalk.rules.proof.performance import OutputContent
from agenttalk.rules.proof.release import VALIDATION

FOLDER = "folder"


class OutputProducer(Protocol):
    """The task and command that made outputs."""

    @property
    def plan_id(self) -> str:
        """The plan."""

    @property
    def task_id(self) -> str:
        """The task."""

    @property
    def agent_id(self) -> str:
        """The agent that made them."""

    @property
    def command(self) -> Command:
        """The command that they were made for."""


@dataclass(frozen=True, slots=True)
class OutgoingArtifact:
    """An output that was packed, and is in no table yet."""

    output: Output
    files: Sequence[OutputContent]
    message_id: str
    sha256: str
    envelope: bytes
    deliveries: dict[str, str]
    """The agents that get it at once, and the ids of these deliveries."""
    in_folders: tuple[str, ...]
    """The agents whose inboxes the router brings it to."""
    lines: tuple[str, ...]
    """The lines of the journal about it, in their canonical form."""
    score: float | None
    """The score that its agent gave it."""

    def to_candidate(self, job: OutputProducer, at: str) -> InputCandidate:
        """Return the same as a candidate for the inputs of other tasks."""
        files = tuple((each.path, each.sha256) for each in self.files)
        seq, command_id = job.command.command_seq, job.command.command_id
        name = self.output.name
        return InputCandidate(self.message_id, job.task_id, name, None, files, at, self.score, seq, command_id)

    def send(self, moves: PlanTransaction, plan: PlanDefinition, job: OutputProducer) -> None:
        """Write the message and its deliveries. Agents that work in folders get it from the router."""
        tx, plan_id = moves.tx, job.plan_id
        for each in self.files:
            if each.data is not None:
                moves.contents[each.sha256] = each.data
                tx.run_later(PUT_BLOB, {"hash": each.sha256, "content": each.data})
        number = tx.next_id("messages")
        tx.run_later(
            PUT_MESSAGE,
            {
                "id": number,
                "plan_id": plan_id,
                "message_id": self.message_id,
                "sha256": self.sha256,
                "type": "artifact",
                "task_id": job.task_id,
                "command_id": job.command.command_id,
                "seq": job.command.command_seq,
                "output_name": self.output.name,
                "producer": job.agent_id,
                "name": root_layout.artifact_name(job.task_id, self.output.name, self.message_id),
                "envelope": self.envelope,
                "dag_sha256": plan.dag_sha256,
                "at": moves.now,
                "state": "stored" if self.in_folders else "delivered",
            },
        )
        about: dict[str, Value] = {"plan_id": plan_id, "message": number}
        for receiver in self.in_folders:
            delivery_id = records.derive_id("dlv", f"{self.message_id}/{receiver}")
            tx.run(ADD_DELIVERY, **about, receiver=receiver, delivery_id=delivery_id, priority=1)
            moves.note_inbox_change()
        for receiver, delivery_id in self.deliveries.items():
            moves.record_arrival(self.message_id, receiver, _arrived(tx, about, receiver, delivery_id, moves.now))
        moves.count(plan_id, "sent", *(() if self.in_folders else ("delivered",)))
        if self.output.deliverable and not validator_verdicts.needs_acceptance(plan, job.task_id, self.output.name):
            folder = validator_verdicts.folder_of(plan_id, job.task_id, self.output.name)
            for each in self.files:
                records.publish_file(tx, f"{folder}/{each.path}", None, content=each.sha256)
        if self.output.name.startswith(VALIDATION):
            validator = validator_verdicts.Validator(plan_id, job.task_id, job.agent_id)
            validator_verdicts.record_results(tx, validator, [each.sha256 for each in self.files], at=moves.now)


def _arrived(tx: Tx, about: dict[str, Value], receiver: str, delivery_id: str, at: str) -> dict[str, Value]:
    """Make the row of a delivery that has arrived when it is written."""
    return {
        **about,
        "id": tx.next_id("deliveries"),
        "receiver": receiver,
        "delivery_id": delivery_id,
        "state": "processed",
        "priority": 1,
        "at": at,
        "ack": "SUCCEEDED",
        "taken_at": at,
        "injected_at": None,
        "finished_at": at,
        "prompt_sha256": None,
    }


def pack(
    plan: PlanDefinition,
    job: OutputProducer,
    output: Output,
    files: Sequence[OutputContent],
    score: float | None,
    *,
    at: str,
    key: str,
) -> OutgoingArtifact:
    """Make the message of an output; the same `key` gives it the same id."""
    message_id = records.derive_id("msg", f"{job.plan_id}/{key}/{output.name}")
    quoted, command = wire.quoted, job.command
    listed = [f'{{"path":{quoted(each.path)},"sha256":"{each.sha256}","size_bytes":{each.size}}}' for each in files]
    again, rework = "", command.reexecute
    if rework is not None:
        again = f'"reexecution":{{"command_id":"{command.command_id}","count":{rework.attempt}}},'
    scored = f',"score":{{"value":{wire.to_text(score)}}}' if score is not None else ""
    envelope = wire.encode(
        f'{{"command_id":"{command.command_id}",{plan.correlation(job.task_id)}"created_at":"{records.format_time(at)}",'
        f'"idempotency_key":{quoted(f"{command.command_id}/{output.name}")},"message_id":"{message_id}",'
        f'"output_name":{quoted(output.name)},"payload":{{"files":[{",".join(listed)}]}},'
        f'"plan_id":"{job.plan_id}","producer_agent_id":"{job.agent_id}",{again}'
        f'"schema_version":"1.0"{scored},"task_id":"{job.task_id}","type":"artifact"}}'
    )
    sha256 = wire.sha256(envelope)
    letter = records.JournalMessage(
        job.plan_id, message_id, sha256, job.agent_id, job.task_id, command.command_id, output.name
    )
    receivers = plan.receivers(output)
    by_hand = tuple(each for each in receivers if plan.profile(each).driver == FOLDER)
    direct = {each: records.derive_id("dlv", f"{message_id}/{each}") for each in receivers if each not in by_hand}
    lines = [
        records.make_delivered_line(letter, at=at, delivery_id=known, to=to, files=listed)
        for to, known in direct.items()
    ]
    if not receivers:
        lines.append(
            records.make_delivered_line(letter, at=at, delivery_id=records.derive_id("dlv", message_id), files=listed)
        )
    return OutgoingArtifact(output, files, message_id, sha256, envelope, direct, by_hand, tuple(lines), score)
