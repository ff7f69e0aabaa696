"""The router's decisions: what a file in an outbox is, whether it may be sent, and who receives it.

The engine passes in the bytes and the facts of the plan, and carries out the result. Only the plan's DAG decides who
receives a message, never a field of the message.
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
"""Codes of an envelope's faults that the rejection keeps; all other faults become SCHEMA_INVALID."""


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
    """A message that could be read, with the owner of its outbox."""

    owner: str
    """The agent whose outbox has it; a reserved name for messages of the engine or an operator."""
    envelope: CommandEnvelope | ArtifactEnvelope
    sha256: str
    """Hash of the envelope file: with the message_id it finds duplicates."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The facts of a plan that routing needs."""

    dag: TaskDag
    dag_sha256: str
    agents: Collection[str]
    """Agents that have a folder."""
    foreign: bool = False
    """Whether the plan's files were found in its folder, instead of submitted to the engine."""
    commanders: Collection[str] = ()
    """Agents that the manifest allows to command."""
    nodes: dict[str, Node] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", {node.task_id: node for node in self.dag.nodes})


def unpack(data: bytes, *, owner: str | None, plan_id: str) -> OutboxMessage | Rejection:
    """Read a message file from the outbox of `owner` for `plan_id`: strict JSON, schema, then its producer.

    `owner` is None for a message in an inbox, which any agent may have sent.
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
    message_id = document.get("message_id") if isinstance(document, dict) else None
    return message_id if isinstance(message_id, str) and is_id(message_id) else None


def _read_envelope(document: wire.JsonValue) -> CommandEnvelope | ArtifactEnvelope | tuple[Problem, ...]:
    """Read the envelope, or find its faults. The rules of commands check a command, so that its codes stay."""
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
    """Make a rejection with all problems. Its code and message are those of the first problem with a specific code."""
    specific = next((problem for problem in problems if _is_specific(problem.code)), None)
    first = specific or problems[0]
    where = f"{first.field}: " if first.field else ""
    code = specific.code if specific else Code.SCHEMA_INVALID
    return Rejection(code, where + first.message, problems)


def _is_specific(code: Code) -> bool:
    return code in _OWN_CODES or code.startswith("COMMAND_")


def check_duplicate(parcel: OutboxMessage, earlier_sha256: str | None) -> Literal["new", "duplicate"] | Rejection:
    """Check whether a message came before, by its id and the hash of its envelope. Time does not matter."""
    if earlier_sha256 is None:
        return "new"
    if earlier_sha256 == parcel.sha256:
        return "duplicate"
    return Rejection(
        Code.MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD,
        f"message_id {parcel.envelope.message_id!r} was used before for other content",
    )


def route(parcel: OutboxMessage, plan: PlanFacts, driven: Collection[str] = ()) -> tuple[str, ...] | Rejection:
    """Decide who receives a message: a command goes to the task's agent, an artifact to the receivers of its output.

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
    """Explain why a message that another party's router delivered to `receiver` is rejected; None if it is accepted.

    That router decided by the same DAG, so its choice counts where the DAG leaves one. A command for an earlier DAG is
    accepted, too, and then superseded.
    """
    envelope = parcel.envelope
    if isinstance(envelope, ArtifactEnvelope) and envelope.producer_agent_id == root_layout.GATEWAY:
        return None  # a person delivered it, after the engine asked for it
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
    """Explain why a message without a known router can never be accepted; None if it may be accepted later."""
    if isinstance(parcel.envelope, CommandEnvelope) and not _is_of(parcel.envelope, plan):
        return Rejection(
            Code.COMMAND_DAG_MISMATCH,
            "it was made for another DAG than the one that is active, and nothing shows that a router brought it",
        )
    return None


def _is_of(envelope: CommandEnvelope, plan: PlanFacts) -> bool:
    """Whether a command was made for the active DAG."""
    dag_ref = envelope.payload.command.dag_ref
    return dag_ref is not None and dag_ref.sha256 == plan.dag_sha256


def may_command(sender: str, node: Node, plan: PlanFacts, *, reexecution: bool) -> bool:
    """Whether a sender may command a task.

    The engine and operators, which have no folder, always may. The plan's commanders may. If the plan names no
    commander, every agent except the task's own may in a foreign plan, and no agent may in the engine's own plan.
    An agent that receives an output may order its re-execution.
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


def reject_reexecution(sender: str, node: Node, maker: str, order: Reexecution, plan: PlanFacts) -> Rejection | None:
    """Explain why a sender may not order the re-execution of a task; None if it may.

    Only a receiver of an output may, in its own name, and never its maker. `maker` is the agent that works on the task
    now.
    """
    result = order.validation_result
    if order.original_task_id != node.task_id:
        return Rejection(Code.COMMAND_ENVELOPE_MISMATCH, f"it is for {node.task_id!r} and names another task")
    if result.validator != sender:
        return Rejection(Code.PRODUCER_MISMATCH, f"it speaks for {result.validator!r}, but {sender!r} owns the outbox")
    if sender in {maker, node.assigned_agent_id}:
        return Rejection(Code.COMMAND_NOT_AUTHORISED, f"{sender!r} cannot judge its own work")
    if not any(_reaches(output, sender, plan) for output in node.outputs):
        return Rejection(Code.COMMAND_NOT_AUTHORISED, f"{sender!r} receives nothing that {node.task_id!r} makes")
    if order.original_agent != maker:
        return Rejection(
            Code.PRODUCER_MISMATCH, f"{node.task_id!r} is the work of {maker!r}, not of {order.original_agent!r}"
        )
    return None


def _reaches(output: Output, agent_id: str, plan: PlanFacts) -> bool:
    to = find_receivers(output, plan.dag)
    return agent_id in to or EVERYONE in to


def _not_theirs(envelope: ArtifactEnvelope, node: Node, plan: PlanFacts, driven: Collection[str]) -> Rejection | None:
    """Explain why an agent may not deliver an output of a task; None if it may.

    Only the task's agent may, and in a foreign plan the agent that does its rework. Any agent may deliver an external
    input of a foreign plan. The engine takes outputs of agents that it drives from their turns, after it checked them.
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
    """Whether an artifact is an external input of a task of the plan."""
    selectors = [need.selector for node in plan.dag.nodes for need in node.needs if need.external]
    names = [envelope.output_name, *(file.path.rpartition("/")[2] for file in envelope.payload.files)]
    return any(isinstance(selector, ByValue) and match_names(selector.value, names) for selector in selectors)


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
    """Decide who receives a message on a virtual board, where tasks have an assignee and no DAG.

    Only the engine and operators command there. An artifact of the assignee stays on the task.
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
    """The fields of a command that decide about supersession."""

    message_id: str
    task_id: str
    command_id: str
    seq: int


def sort_newest_first(items: Sequence[T], order_of: Callable[[T], CommandOrder | None]) -> list[T]:
    """Sort the messages of a pass: the newest command of each task first, and messages that are not commands last.

    Then an older command is superseded in the same pass, so the result does not depend on the order of the files.
    """
    place: dict[str, int] = {}
    for item in items:
        if order := order_of(item):
            place.setdefault(order.task_id, len(place))

    def rank(item: T) -> tuple[int, int, str]:
        order = order_of(item)
        return (place[order.task_id], -order.seq, order.message_id) if order else (len(place), 0, "")

    return sorted(items, key=rank)


def is_superseded(order: CommandOrder, newest: CommandOrder | None) -> bool:
    """Whether a newer command of the task was accepted under the same DAG."""
    return newest is not None and newest.seq > order.seq


@dataclass(frozen=True, slots=True)
class MessageTally:
    """The number of a plan's messages in each place. Every message is in exactly one."""

    sent: int
    delivered: int = 0
    superseded: int = 0
    duplicate: int = 0
    dead: int = 0
    in_flight: int = 0

    @property
    def lost(self) -> int:
        """The number of messages that are in no place. Any number but 0 raises an alert."""
        return self.sent - self.delivered - self.superseded - self.duplicate - self.dead - self.in_flight
