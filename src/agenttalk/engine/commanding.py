"""The engine's own commands: made of a node and the inputs that were picked for it, and put into the agent's queue.

A command of the engine is a message like any other. For an agent that works in folders the router brings it to
the inbox; for all others it has arrived as soon as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts import places, wire
from agenttalk.contracts.base import moment, write_time
from agenttalk.contracts.command import PRIORITIES, Command, ResolvedInput
from agenttalk.contracts.dag import Node
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.engine import records
from agenttalk.engine.sheets import Sheet
from agenttalk.ports import Tx
from agenttalk.rules import gates

ENGINE: Final = "engine"
FOLDER: Final = "folder"
"""The driver of agents that are worked by hand."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """A command that was made."""

    delivery: int
    message_id: str
    command: Command
    in_folder: bool
    """Whether it still has to be brought to an inbox."""


def order(
    tx: Tx,
    sheet: Sheet,
    node: Node,
    inputs: Sequence[ResolvedInput],
    *,
    at: str,
    first: bool = False,
    rework: dict[str, Any] | None = None,
) -> Ordered:
    """Make the next command of a task, which may be its `first`, and send it to its agent."""
    last = 0 if first else tx.run("last_seq", plan_id=sheet.plan_id, task_id=node.task_id)[0][0]
    document = compose(sheet, node, inputs, last + 1, rework)
    command = Command.model_validate(document)
    message_id = records.named("msg", f"{sheet.plan_id}/{command.command_id}/{sheet.dag_sha256}")
    envelope = wire.write(
        {
            "schema_version": "1.0",
            "message_id": message_id,
            "plan_id": sheet.plan_id,
            "producer_agent_id": ENGINE,
            "type": "command",
            "created_at": write_time(moment(at)),
            "task_id": node.task_id,
            "command_id": command.command_id,
            "idempotency_key": document["idempotency_key"],
            "payload": {"command": document},
        }
    )
    in_folder = sheet.profile(node.assigned_agent_id).driver == FOLDER
    delivery = _send(tx, sheet, node, command, (message_id, envelope), at=at, in_folder=in_folder)
    return Ordered(delivery, message_id, command, in_folder)


def inputs_of(tx: Tx, delivery: int) -> tuple[ResolvedInput, ...]:
    """The inputs that were picked for an earlier command."""
    [(_, envelope)] = tx.run("command_of_delivery", id=delivery)
    return tuple(CommandEnvelope.model_validate_json(bytes(envelope)).payload.command.resolved_inputs or ())


def compose(
    sheet: Sheet, node: Node, inputs: Sequence[ResolvedInput], seq: int, rework: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The command itself, as JSON."""
    command_id = f"cmd_{node.task_id}_{seq:03d}"
    fields: dict[str, Any] = {
        "schema_version": "1.0",
        "plan_id": sheet.plan_id,
        "task_id": node.task_id,
        "command_id": command_id,
        "command_seq": seq,
        "dag_ref": {"sha256": sheet.dag_sha256, "revision": sheet.revision},
        "prompt": node.prompt or node.name or node.task_id,
        "required_inputs": [path for each in inputs for path in each.paths],
        "resolved_inputs": [each.as_json() for each in inputs],
        "wait_for_inputs": False,
        "score_required": bool(node.score_required),
        "timeout": node.timeout or sheet.policies.timeout_default_seconds,
        "retry_times": node.retry_times or 0,
        "idempotency_key": f"{sheet.plan_id}:{node.task_id}:{command_id}",
        "priority": node.priority or "MEDIUM",
    }
    outputs = gates.due_outputs(node, None)
    if outputs:
        fields["produces"] = [{"output_name": each.name, "files": []} for each in outputs]
    if node.score_required:
        fields["score_criteria"] = node.score_criteria or "0-100"
    if node.promise is not None:
        fields["promise"] = sheet.promise(node).as_json()
    if rework is not None:
        fields["reexecute"] = rework
    return fields


def _send(
    tx: Tx, sheet: Sheet, node: Node, command: Command, message: tuple[str, bytes], *, at: str, in_folder: bool
) -> int:
    message_id, envelope = message
    sha256 = wire.sha256(envelope)
    name = f"cmd_{'reexecute_' if command.reexecute else ''}{node.task_id}_{command.command_seq:03d}{places.MESSAGE}"
    [(number,)] = tx.run(
        "add_message",
        plan_id=sheet.plan_id,
        message_id=message_id,
        sha256=sha256,
        type="command",
        task_id=node.task_id,
        command_id=command.command_id,
        seq=command.command_seq,
        output_name=None,
        producer=ENGINE,
        name=name,
        envelope=envelope,
        dag_sha256=sheet.dag_sha256,
        at=at,
        state="stored" if in_folder else "delivered",
    )
    delivery_id = records.named("dlv", message_id)
    about: dict[str, Any] = {
        "plan_id": sheet.plan_id,
        "message": number,
        "receiver": node.assigned_agent_id,
        "delivery_id": delivery_id,
        "priority": PRIORITIES[command.priority],
    }
    if in_folder:
        [(delivery,)] = tx.run("add_delivery", **about)
        records.tally(tx, sheet.plan_id, sent=1)
        return int(delivery)
    [(delivery,)] = tx.run(
        "add_direct_delivery", **about, state="delivered", at=at, ack=None, consumed_at=None, finished_at=None
    )
    letter = records.Letter(sheet.plan_id, message_id, sha256, ENGINE, node.task_id, command.command_id)
    records.journal(tx, letter, "DELIVERED", at=at, delivery_id=delivery_id, to=node.assigned_agent_id)
    records.tally(tx, sheet.plan_id, sent=1, delivered=1)
    return int(delivery)
