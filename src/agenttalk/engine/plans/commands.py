"""The engine's own commands: made of a node and the inputs that were picked for it, and put into the agent's queue.

A command of the engine is a message like any other. For an agent that works in folders the router brings it to
the inbox; for all others it has arrived as soon as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from agenttalk.contracts.command import (
    PRIORITIES,
    Command,
    DagRef,
    Possible,
    ProducedFile,
    Produces,
    Reexecution,
    ResolvedInput,
)
from agenttalk.contracts.core import canonical, root_layout, wire
from agenttalk.contracts.core.base import is_path
from agenttalk.contracts.dag import Node, Output
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.engine.core import records
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.rework_rounds import ReexecutionOrder
from agenttalk.ports.statements.messages import ADD_DELIVERY, PUT_MESSAGE
from agenttalk.ports.statements.plans import COMMAND_OF_DELIVERY, LAST_SEQ, PUT_DELIVERY
from agenttalk.ports.storage import Tx, Value
from agenttalk.rules.proof import rework as reworks
from agenttalk.rules.proof import score_gates

ENGINE: Final = "engine"
FOLDER: Final = "folder"
"""The driver of agents that work in folders."""


@dataclass(frozen=True, slots=True)
class PreparedCommand:
    """A command that was made, and the agent that it is for."""

    plan_id: str
    agent_id: str
    command: Command
    message: int
    message_id: str
    delivery_id: str
    priority: int
    line: str
    """The line of the journal about its delivery, in its canonical form."""
    first: bool
    """Whether it is the first one of its task."""
    in_folder: bool
    """Whether the router has to bring it to an inbox."""


def prepare_command(
    tx: Tx,
    plan: PlanDefinition,
    node: Node,
    inputs: Sequence[ResolvedInput],
    *,
    at: str,
    first: bool = False,
    rework: ReexecutionOrder | None = None,
) -> PreparedCommand:
    """Make the next command of a task, which may be its `first`. The caller puts it into a queue."""
    last = 0 if first else tx.run(LAST_SEQ, plan_id=plan.plan_id, task_id=node.task_id)[0].seq
    document, command = compose(plan, node, inputs, last + 1, rework)
    agent_id = node.assigned_agent_id
    in_folder = plan.profile(agent_id).driver == FOLDER
    message_id = records.derive_id("msg", f"{plan.plan_id}/{command.command_id}/{plan.dag_sha256}")
    envelope = wire.encode(
        f'{{"command_id":"{command.command_id}",{plan.correlation(node.task_id)}"created_at":"{records.format_time(at)}",'
        f'"idempotency_key":"{command.idempotency_key}","message_id":"{message_id}",'
        f'"payload":{{"command":{document}}},"plan_id":"{plan.plan_id}","producer_agent_id":"{ENGINE}",'
        f'"schema_version":"1.0","task_id":"{node.task_id}","type":"command"}}'
    )
    sha256 = wire.sha256(envelope)
    number = _keep(
        tx, plan, command, (message_id, sha256, envelope), at=at, state="stored" if in_folder else "delivered"
    )
    delivery_id = records.derive_id("dlv", message_id)
    letter = records.JournalMessage(plan.plan_id, message_id, sha256, ENGINE, node.task_id, command.command_id)
    line = records.make_delivered_line(letter, at=at, delivery_id=delivery_id, to=agent_id)
    priority = PRIORITIES[command.priority]
    return PreparedCommand(
        plan.plan_id, agent_id, command, number, message_id, delivery_id, priority, line, first, in_folder
    )


def post_to_inbox(tx: Tx, order: PreparedCommand, *, at: str) -> int:
    """Have the router bring a command to an inbox. Return its delivery."""
    [(delivery,)] = tx.run(ADD_DELIVERY, **_about(order))
    records.count_messages(tx, order.plan_id, sent=1)
    if order.command.reexecute is not None:
        _lay_beside(tx, order, order.command.reexecute, at)
    return int(delivery)


def _lay_beside(tx: Tx, order: PreparedCommand, again: Reexecution, at: str) -> None:
    """Put refused work, and the reasons, into a folder beside the command, for agents that work in folders."""
    folder = f"{root_layout.agent_folder(order.agent_id)}/inbox/{order.plan_id}/{order.command.command_id}"
    records.publish_file(
        tx, f"{folder}/{reworks.FEEDBACK}", reworks.make_feedback(again, at=records.format_time(at)).as_json()
    )
    for each in again.previous:
        path = f"{folder}/{reworks.PREVIOUS_INPUT}/{root_layout.path_segment(each.output_name)}/{each.path}"
        records.publish_file(tx, path, None, content=each.sha256)


def enqueue(tx: Tx, order: PreparedCommand, *, at: str) -> int:
    """Put a command into its agent's queue. Return its delivery."""
    return _arrived(tx, order, at=at, state="delivered")


def deliver_at_once(tx: Tx, order: PreparedCommand, *, at: str, prompt_sha256: str) -> int:
    """Deliver a command that its agent gets at once. Return its delivery."""
    return _arrived(tx, order, at=at, state="claimed", ack="CONSUMED", taken_at=at, prompt_sha256=prompt_sha256)


def _arrived(
    tx: Tx,
    order: PreparedCommand,
    *,
    at: str,
    state: str,
    ack: str | None = None,
    taken_at: str | None = None,
    prompt_sha256: str | None = None,
) -> int:
    number = tx.next_id("deliveries")
    tx.run_later(
        PUT_DELIVERY,
        {
            **_about(order),
            "id": number,
            "state": state,
            "at": at,
            "ack": ack,
            "taken_at": taken_at,
            "injected_at": taken_at,
            "finished_at": None,
            "prompt_sha256": prompt_sha256,
        },
    )
    return number


def _about(order: PreparedCommand) -> dict[str, Value]:
    return {
        "plan_id": order.plan_id,
        "message": order.message,
        "receiver": order.agent_id,
        "delivery_id": order.delivery_id,
        "priority": order.priority,
    }


def inputs_of(tx: Tx, delivery: int) -> tuple[ResolvedInput, ...]:
    """Return the inputs that were picked for an earlier command."""
    [(_, envelope)] = tx.run(COMMAND_OF_DELIVERY, id=delivery)
    return reworks.list_own_inputs(CommandEnvelope.model_validate_json(bytes(envelope)).payload.command)


def compose(
    plan: PlanDefinition, node: Node, inputs: Sequence[ResolvedInput], seq: int, rework: ReexecutionOrder | None = None
) -> tuple[str, Command]:
    """Make a command, in its canonical form and as a model. It is not validated again: all of its parts were."""
    again = Reexecution.model_validate(rework) if rework is not None else None
    if again is not None:
        inputs = (*inputs, *reworks.list_extra_inputs(again))
    command_id = f"cmd_{node.task_id}_{seq:03d}"
    dag_ref = _dag_ref(plan.dag_sha256, plan.revision)
    fields: dict[str, object] = {
        "schema_version": "1.0",
        "plan_id": plan.plan_id,
        "task_id": node.task_id,
        "command_id": command_id,
        "command_seq": seq,
        "prompt": node.prompt or node.name or node.task_id,
        "required_inputs": tuple([path for each in inputs for path in each.paths]),
        "wait_for_inputs": False,
        "score_required": bool(node.score_required),
        "timeout": node.timeout or plan.policies.timeout_default_seconds,
        "retry_times": node.retry_times or 0,
        "priority": node.priority or "MEDIUM",
        "idempotency_key": f"{plan.plan_id}:{node.task_id}:{command_id}",
        "dag_ref": dag_ref[0],
        "resolved_inputs": tuple(inputs),
    }
    outputs = score_gates.due_outputs(node, None)
    produces = _produces(tuple([each.name for each in outputs]))
    if outputs:
        fields["produces"] = produces[0]
    special = _special(plan, node)
    if again is not None:
        document = {
            **Command.from_values(**fields, **special).as_json(),
            "reexecute": rework,
        }  # exactly as it was ordered
        return wire.to_text(document), Command.from_values(**fields, **special, reexecute=again)
    command = Command.from_values(**fields, **special)
    return canonical.to_text(command) if special else _plain_text(command, dag_ref[1], produces[1]), command


def _special(plan: PlanDefinition, node: Node) -> dict[str, object]:
    """Return the fields that only some commands have."""
    found: dict[str, object] = {}
    if node.score_required:
        found["score_criteria"] = node.score_criteria or "0-100"
    if node.promise is not None or node.task_id in plan.joined_checks:
        found["promise"] = plan.promise(node)
    possible = score_gates.possible_outputs(node)
    if possible:
        found["may_produce"] = tuple([_possible(each) for each in possible])
    if node.on_complete is not None:
        found["on_complete"] = node.on_complete
    if node.on_failure is not None:
        found["on_failure"] = node.on_failure
    return found


def _possible(output: Output) -> Possible:
    when = {"when": output.when} if output.when is not None else {}
    return Possible.from_values(output_name=output.name, **when)


def _plain_text(command: Command, dag_ref: str, produces: str) -> str:
    """Write a command without special fields in its canonical form: the same as `canonical` writes, only quicker."""
    paths = ",".join([wire.quoted(path) for path in command.required_inputs])
    inputs = ",".join([canonical.to_text(each) for each in command.resolved_inputs or ()])
    return (
        f'{{"command_id":"{command.command_id}","command_seq":{command.command_seq},"dag_ref":{dag_ref},'
        f'"idempotency_key":"{command.idempotency_key}","plan_id":"{command.plan_id}","priority":"{command.priority}",'
        f'{produces}"prompt":{wire.quoted(command.prompt)},"required_inputs":[{paths}],"resolved_inputs":[{inputs}],'
        f'"retry_times":{command.retry_times},"schema_version":"1.0","score_required":false,'
        f'"task_id":"{command.task_id}","timeout":{command.timeout},"wait_for_inputs":false}}'
    )


@lru_cache(maxsize=64)
def _dag_ref(sha256: str, revision: int) -> tuple[DagRef, str]:
    """Make the reference to a DAG, and its text."""
    part = DagRef.from_values(sha256=sha256, revision=revision)
    return part, canonical.to_text(part)


@lru_cache(maxsize=256)
def _produces(names: tuple[str, ...]) -> tuple[tuple[Produces, ...], str]:
    """Make the part of a command that lists its outputs, and the text of that part."""
    parts = tuple(
        Produces.from_values(output_name=name, files=(ProducedFile.from_values(path=_file_of(name)),)) for name in names
    )
    return parts, f'"produces":[{",".join([canonical.to_text(each) for each in parts])}],' if parts else ""


def _file_of(name: str) -> str:
    """Return the file that is expected for an output: one of its name, if a file can have that name."""
    return name if is_path(name) and root_layout.is_safe_payload(name) else root_layout.path_segment(name)


def _keep(
    tx: Tx, plan: PlanDefinition, command: Command, message: tuple[str, str, bytes], *, at: str, state: str
) -> int:
    message_id, sha256, envelope = message
    again = "reexecute_" if command.reexecute else ""
    number = tx.next_id("messages")
    tx.run_later(
        PUT_MESSAGE,
        {
            "id": number,
            "plan_id": plan.plan_id,
            "message_id": message_id,
            "sha256": sha256,
            "type": "command",
            "task_id": command.task_id,
            "command_id": command.command_id,
            "seq": command.command_seq,
            "output_name": None,
            "producer": ENGINE,
            "name": f"cmd_{again}{command.task_id}_{command.command_seq:03d}{root_layout.MESSAGE}",
            "envelope": envelope,
            "dag_sha256": plan.dag_sha256,
            "at": at,
            "state": state,
        },
    )
    return number
