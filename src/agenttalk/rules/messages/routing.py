"""The router's decisions: what a file in an outbox is, whether it may be sent, and to whom it goes.

Nothing here reads a folder or a database. The engine hands in the bytes and what is known, and carries
out what comes back. A message is routed by the plan's DAG alone, never by what it says of receivers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeVar

from agenttalk.contracts.command import Reexecution
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.dag import EVERYONE, ByValue, Node, Output, TaskDag
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope, lift_reexecution, read_envelope
from agenttalk.contracts.errors import Code, ContractError, JsonError, Problem
from agenttalk.rules.commands import envelopes, validation
from agenttalk.rules.core.globs import match_names
from agenttalk.rules.plans.dag_graph import find_receivers
from agenttalk.rules.proof.release import is_for_engine

T = TypeVar("T")
RESERVED: Final = frozenset({"engine", "operator", "system"})
"""Producers that have no folder: a folder of that name under agents/ is ignored."""
_OWN_CODES: Final = frozenset(
    {
        Code.SCHEMA_VERSION_UNSUPPORTED,
        Code.UNSUPPORTED_MESSAGE_TYPE,
        Code.PATH_OUTSIDE_FOLDER,
        Code.COMMAND_ENVELOPE_MISMATCH,
    }
)
"""Faults of an envelope that have a code of their own; all others are SCHEMA_INVALID."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a message is dead-lettered."""

    code: Code
    message: str
    problems: tuple[Problem, ...] = ()
    message_id: str | None = None
    """Its id, as far as it could be read."""


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message that could be read, with where it lay."""

    owner: str
    """Agent whose outbox it lay in; a reserved name for what the engine or an operator sends."""
    envelope: CommandEnvelope | ArtifactEnvelope
    sha256: str
    """Hash of the envelope file: with the message_id it finds duplicates."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What routing needs to know of a plan."""

    dag: TaskDag
    dag_sha256: str
    agents: Collection[str]
    """Agents that have a folder."""
    foreign: bool = False
    """Whether the plan's files were found lying there, rather than submitted to us."""
    commanders: Collection[str] = ()
    """Agents that the manifest lets command."""
    nodes: dict[str, Node] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", {node.task_id: node for node in self.dag.nodes})


def unpack(data: bytes, *, owner: str | None, plan_id: str) -> OutboxMessage | Rejection:
    """Read a message file from the outbox of `owner` for `plan_id`: strict JSON, schema, then whose it is.

    In an inbox it may be anybody's: then `owner` is None.
    """
    try:
        document = wire.read(data)
    except JsonError as error:
        return Rejection(
            Code.ENVELOPE_PARSE_ERROR, error.message, (Problem(error.code, "", error.message, error.hint),)
        )
    envelope = _read_envelope(lift_reexecution(document))
    if isinstance(envelope, tuple):
        return replace(_rejected(envelope), message_id=_message_id(document))
    if owner is not None and envelope.producer_agent_id != owner:
        return Rejection(
            Code.PRODUCER_MISMATCH,
            f"it says that {envelope.producer_agent_id!r} sends it, but {owner!r} owns the outbox",
            message_id=envelope.message_id,
        )
    if envelope.plan_id != plan_id:
        return Rejection(
            Code.PLAN_MISMATCH,
            f"it is for plan {envelope.plan_id!r} but lies in the folder of {plan_id!r}",
            message_id=envelope.message_id,
        )
    return OutboxMessage(owner or envelope.producer_agent_id, envelope, wire.sha256(data))


def _message_id(document: wire.JsonValue) -> str | None:
    found = document.get("message_id") if isinstance(document, dict) else None
    return found if isinstance(found, str) and is_id(found) else None


def _read_envelope(document: wire.JsonValue) -> CommandEnvelope | ArtifactEnvelope | tuple[Problem, ...]:
    """The envelope, or its faults. Those of a command are told by its own rules, so that they keep their codes."""
    problems: tuple[Problem, ...] = ()
    try:
        envelope = read_envelope(document)
    except ContractError as error:
        problems = error.problems
    else:
        if not isinstance(document, dict) or isinstance(envelope, ArtifactEnvelope):
            return envelope
        if validation.validate_json(document["payload"]["command"]).ok:
            return envelope
    if isinstance(document, dict) and document.get("type") == "command":
        return envelopes.validate(document).errors or problems
    return problems


def _rejected(problems: tuple[Problem, ...]) -> Rejection:
    """The first fault that has a code of its own speaks for all; they are all kept beside it."""
    telling = next((each for each in problems if each.code in _OWN_CODES or each.code.startswith("COMMAND_")), None)
    first = telling or problems[0]
    where = f"{first.field}: " if first.field else ""
    code = telling.code if telling else Code.SCHEMA_INVALID
    return Rejection(code, where + first.message, problems)


def check_duplicate(parcel: OutboxMessage, earlier_sha256: str | None) -> Literal["new", "duplicate"] | Rejection:
    """Whether a message came before: by its id and the hash of its envelope, whatever the time between."""
    if earlier_sha256 is None:
        return "new"
    if earlier_sha256 == parcel.sha256:
        return "duplicate"
    return Rejection(
        Code.MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD,
        f"message_id {parcel.envelope.message_id!r} was used before for other content",
    )


def route(parcel: OutboxMessage, plan: PlanFacts, driven: Collection[str] = ()) -> tuple[str, ...] | Rejection:
    """Who receives a message. A command goes to the task's agent, an artifact to where its output goes.

    `driven` are the agents whose turns the engine runs itself.
    """
    node = plan.nodes.get(parcel.envelope.task_id)
    if node is None:
        return Rejection(Code.TASK_NOT_IN_DAG, f"the plan's DAG has no task {parcel.envelope.task_id!r}")
    if isinstance(parcel.envelope, CommandEnvelope):
        targets = _command_target(parcel.owner, parcel.envelope, node, plan)
    else:
        targets = _not_theirs(parcel.envelope, node, plan, driven) or _artifact_targets(parcel.envelope, node, plan)
    if isinstance(targets, Rejection):
        return targets
    missing = [target for target in targets if target not in plan.agents]
    if missing:
        return Rejection(Code.TARGET_AGENT_NOT_FOUND, f"no folder agents/{missing[0]}: {', '.join(missing)}")
    return targets


def _command_target(owner: str, envelope: CommandEnvelope, node: Node, plan: PlanFacts) -> tuple[str, ...] | Rejection:
    command = envelope.payload.command
    if not _is_of(envelope, plan):
        return Rejection(Code.COMMAND_DAG_MISMATCH, "it was made for another DAG than the one that is active")
    if not may_command(owner, node, plan, reexecution=command.reexecute is not None):
        return Rejection(Code.COMMAND_NOT_AUTHORISED, f"{owner!r} may not command task {node.task_id!r}")
    return (node.assigned_agent_id,)


def reject_arrival(parcel: OutboxMessage, plan: PlanFacts, receiver: str) -> Rejection | None:
    """Why a message that another party's router brought to `receiver` is not taken; None if it is.

    That router decided by the same DAG, and is believed where the DAG leaves something open. A command that was made
    for an earlier DAG is taken, too, and then superseded.
    """
    envelope = parcel.envelope
    if isinstance(envelope, ArtifactEnvelope) and envelope.producer_agent_id == root_layout.GATEWAY:
        return None  # a person was asked for it
    if isinstance(envelope, CommandEnvelope) and not _is_of(envelope, plan):
        return None
    node = plan.nodes.get(envelope.task_id)
    if node is None:
        return Rejection(Code.TASK_NOT_IN_DAG, f"the plan's DAG has no task {envelope.task_id!r}")
    if isinstance(envelope, ArtifactEnvelope):
        return _not_theirs(envelope, node, plan, ())
    if receiver != node.assigned_agent_id:
        why = f"task {node.task_id!r} is {node.assigned_agent_id!r}'s, not {receiver!r}'s"
        return Rejection(Code.COMMAND_NOT_AUTHORISED, why)
    if not may_command(parcel.owner, node, plan, reexecution=envelope.payload.command.reexecute is not None):
        return Rejection(Code.COMMAND_NOT_AUTHORISED, f"{parcel.owner!r} may not command task {node.task_id!r}")
    return None


def reject_unrouted(parcel: OutboxMessage, plan: PlanFacts) -> Rejection | None:
    """Why a message that no router is known to have brought can never be taken; None if it may yet."""
    if isinstance(parcel.envelope, CommandEnvelope) and not _is_of(parcel.envelope, plan):
        return Rejection(
            Code.COMMAND_DAG_MISMATCH,
            "it was made for another DAG than the one that is active, and nothing shows that a router brought it",
        )
    return None


def _is_of(envelope: CommandEnvelope, plan: PlanFacts) -> bool:
    """Whether a command was made for the DAG that is in force."""
    dag_ref = envelope.payload.command.dag_ref
    return dag_ref is not None and dag_ref.sha256 == plan.dag_sha256


def may_command(sender: str, node: Node, plan: PlanFacts, *, reexecution: bool) -> bool:
    """Whether somebody may order work on a task.

    The engine and operators always may; they have no folder. The plan's commanders may. Without any named,
    in a foreign plan everybody may but the one who does the work, in an engine's own plan nobody. Whoever
    receives an output may have it made again.
    """
    if sender in RESERVED:
        return True
    if sender == node.assigned_agent_id:
        return False
    if plan.commanders:
        allowed = sender in plan.commanders
    else:
        allowed = plan.foreign
    return allowed or (reexecution and any(_reaches(output, sender, plan) for output in node.outputs))


def reject_reexecution(sender: str, node: Node, maker: str, said: Reexecution, plan: PlanFacts) -> Rejection | None:
    """Why somebody may not have a task's work done again; None if it may.

    Only who receives an output may, in its own name, and never who made it. `maker` is who works on the task by now.
    """
    result = said.validation_result
    if said.original_task_id != node.task_id:
        return Rejection(Code.COMMAND_ENVELOPE_MISMATCH, f"it is for {node.task_id!r} and names another task")
    if result.validator != sender:
        return Rejection(Code.PRODUCER_MISMATCH, f"it speaks for {result.validator!r}, but {sender!r} owns the outbox")
    if sender in {maker, node.assigned_agent_id}:
        return Rejection(Code.COMMAND_NOT_AUTHORISED, f"{sender!r} cannot judge its own work")
    if not any(_reaches(output, sender, plan) for output in node.outputs):
        return Rejection(Code.COMMAND_NOT_AUTHORISED, f"{sender!r} receives nothing that {node.task_id!r} makes")
    if said.original_agent != maker:
        return Rejection(
            Code.PRODUCER_MISMATCH, f"{node.task_id!r} is the work of {maker!r}, not of {said.original_agent!r}"
        )
    return None


def _reaches(output: Output, agent_id: str, plan: PlanFacts) -> bool:
    to = find_receivers(output, plan.dag)
    return agent_id in to or EVERYONE in to


def _not_theirs(envelope: ArtifactEnvelope, node: Node, plan: PlanFacts, driven: Collection[str]) -> Rejection | None:
    """Why somebody cannot hand in an output of a task: the DAG says whose work it is.

    Only the task's agent can, and in a foreign plan who does its rework. What a task has from outside anybody may
    bring. Of an agent that the engine drives, nothing counts but what its turns left, once that was looked at.
    """
    owner = envelope.producer_agent_id
    if owner in RESERVED:
        return None
    if owner not in _makers(node, plan) and not (plan.foreign and _is_external(envelope, plan)):
        why = f"task {node.task_id!r} is {node.assigned_agent_id!r}'s, not {owner!r}'s"
    elif owner in driven:
        why = f"outputs of task {node.task_id!r} are taken from the turns of {owner!r}, not from its outbox"
    else:
        return None
    return Rejection(Code.PRODUCER_MISMATCH, why)


def _makers(node: Node, plan: PlanFacts) -> set[str]:
    again = node.failure_policy.reexecute_target_agent_id if plan.foreign and node.failure_policy else None
    return {node.assigned_agent_id, *([again] if again else [])}


def _is_external(envelope: ArtifactEnvelope, plan: PlanFacts) -> bool:
    """Whether an artifact is what a task of the plan has from outside."""
    wanted = [need.selector for node in plan.dag.nodes for need in node.needs if need.external]
    names = [envelope.output_name, *(file.path.rpartition("/")[2] for file in envelope.payload.files)]
    return any(isinstance(each, ByValue) and match_names(each.value, names) for each in wanted)


def _artifact_targets(envelope: ArtifactEnvelope, node: Node, plan: PlanFacts) -> tuple[str, ...] | Rejection:
    declared = next((output for output in node.outputs if output.name == envelope.output_name), None)
    types = [file.content_type for file in envelope.payload.files if file.content_type]
    output = declared or Output(name=envelope.output_name, content_type=types[0] if types else None)
    targets = find_receivers(output, plan.dag)
    if EVERYONE in targets:
        everyone = {node.assigned_agent_id for node in plan.dag.nodes}
        return tuple(sorted(everyone | {target for target in targets if target != EVERYONE}))
    if targets or output.deliverable or (declared and is_for_engine(output.name)):
        return tuple(dict.fromkeys(targets))
    return Rejection(
        Code.ROUTING_NO_TARGET,
        f"nothing says who receives the output {envelope.output_name!r} of task {node.task_id!r}",
    )


def route_on_board(parcel: OutboxMessage, assignee: str | None) -> tuple[str, ...] | Rejection:
    """Who receives a message on a virtual board, where tasks have an assignee and no DAG.

    Only the engine and operators command there. What the assignee hands over stays on the task.
    """
    if assignee is None:
        return Rejection(Code.TASK_NOT_FOUND, f"the board has no task {parcel.envelope.task_id!r}")
    if isinstance(parcel.envelope, CommandEnvelope):
        if parcel.owner in RESERVED:
            return (assignee,)
        return Rejection(Code.COMMAND_NOT_AUTHORISED, f"{parcel.owner!r} may not command tasks of this board")
    if parcel.owner != assignee:
        return Rejection(Code.PRODUCER_MISMATCH, f"the task is {assignee!r}'s, not {parcel.owner!r}'s")
    return ()


@dataclass(frozen=True, slots=True)
class CommandOrder:
    """A command as far as supersession is concerned."""

    message_id: str
    task_id: str
    command_id: str
    seq: int


def sort_newest_first(found: Sequence[T], order_of: Callable[[T], CommandOrder | None]) -> list[T]:
    """What a pass found, as it is to be judged: of each task the newest order first, and no orders last.

    Tasks stay as they were found. So what is delivered does not depend on the order of the files.
    """
    place: dict[str, int] = {}
    for each in found:
        if order := order_of(each):
            place.setdefault(order.task_id, len(place))

    def rank(each: T) -> tuple[int, int, str]:
        order = order_of(each)
        return (place[order.task_id], -order.seq, order.message_id) if order else (len(place), 0, "")

    return sorted(found, key=rank)


def is_superseded(order: CommandOrder, newest: CommandOrder | None) -> bool:
    """Whether an order comes too late: a newer one of its task was accepted under the same DAG."""
    return newest is not None and newest.seq > order.seq


@dataclass(frozen=True, slots=True)
class MessageTally:
    """What became of a plan's messages. Every message is in exactly one place."""

    sent: int
    delivered: int = 0
    superseded: int = 0
    duplicate: int = 0
    dead: int = 0
    in_flight: int = 0

    @property
    def lost(self) -> int:
        """How many messages nobody can account for; anything but 0 is an alarm."""
        return self.sent - self.delivered - self.superseded - self.duplicate - self.dead - self.in_flight
