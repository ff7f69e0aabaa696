"""The envelope: a command or an artifact in transit."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from agenttalk.contracts.command import Command, CommandIdText
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import (
    AgentIdText,
    Count,
    Document,
    Instant,
    Many,
    MessageIdText,
    Part,
    PlanIdText,
    RelativePath,
    Score,
    Sha256,
    TaskIdText,
    Text,
    Version,
)
from agenttalk.contracts.errors import Code, ContractError, Problem


class Correlation(Part):
    """Links a message to a trace, to the command that it comes from, or to both."""

    trace_id: str | None = None
    """Id of the trace."""
    parent_command_id: str | None = None
    """The command that it comes from."""


class ReexecutionMark(Part):
    """Says that an artifact comes from a re-execution."""

    count: Count
    """The number of the round."""
    command_id: CommandIdText
    """The command that asked for it."""
    feedback_sha256: Sha256 | None = None
    """Hash of the feedback it answers."""


class RoutingHint(Part):
    """A hint of the producer, which has no effect on routing."""

    intended_recipients: Many[str] = ()
    """Agents that the producer suggests."""


class ScoreMark(Part):
    """A score that goes with an artifact."""

    value: Score
    """0 to 100."""
    explanation: str | None = None
    """Why."""


class Envelope(Document):
    """The common fields of command and artifact envelopes."""

    size_limit: ClassVar[int] = wire.ENVELOPE_LIMIT

    schema_version: Version
    """Version of the envelope's format."""
    message_id: MessageIdText
    """Id of the message; with the hash of this file it identifies duplicates."""
    plan_id: PlanIdText
    """The plan it belongs to."""
    producer_agent_id: AgentIdText
    """Who sends it: the owner of the outbox."""
    created_at: Instant
    """For people; never used for order or duplicates."""
    task_id: TaskIdText
    """The task that it is for, or that made it."""
    subtype: str | None = None
    """Finer kind, matched by `by_message_type`."""
    idempotency_key: str | None = None
    """For people and audit."""
    correlation: Correlation | None = None
    """Trace that it belongs to."""
    reexecution: ReexecutionMark | None = None
    """Present on what a re-execution made."""
    routing: RoutingHint | None = None
    """A hint without effect on routing."""
    score: ScoreMark | None = None
    """Score of the artifact."""


class CommandPayload(Part):
    """The payload of a command envelope."""

    command: Command
    """The command."""


class CommandEnvelope(Envelope):
    """A command in transit (`cmd_*.msg.json`)."""

    type: Literal["command"]
    """Always `command`."""
    command_id: CommandIdText
    """Equal to that of the command inside."""
    payload: CommandPayload
    """The command."""

    @model_validator(mode="after")
    def _ids_agree(self) -> Self:
        inside = self.payload.command
        differing = [
            name for name in ("plan_id", "task_id", "command_id") if getattr(self, name) != getattr(inside, name)
        ]
        if differing:
            raise PydanticCustomError(
                Code.COMMAND_ENVELOPE_MISMATCH,
                "{names} of the envelope and of the command inside differ",
                {"names": ", ".join(differing)},
            )
        return self

    @classmethod
    def lift(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Copy the refusal of a re-execution to the top of its command."""
        found: dict[str, Any] = lift_reexecution(data)
        return found

    @property
    def file_name(self) -> str:
        """The name under which the agent gets it."""
        seq = self.command_id.rpartition("_")[2]
        again = "reexecute_" if self.payload.command.reexecute else ""
        return f"cmd_{again}{self.task_id}_{seq}.msg.json"


_REFUSED: Final = ("original_task_id", "original_agent", "validation_result")


def lift_reexecution(document: Any) -> Any:
    """Move a refusal from the top of a command into `reexecute`. Other values are returned unchanged."""
    payload = document.get("payload") if isinstance(document, dict) else None
    command = payload.get("command") if isinstance(payload, dict) else None
    if not isinstance(command, dict) or "reexecute" in command or "original_task_id" not in command:
        return document
    again = {"attempt": 1, **{name: command[name] for name in _REFUSED if name in command}}
    inside = {key: value for key, value in command.items() if key not in _REFUSED}
    return {**document, "payload": {"command": {**inside, "reexecute": again}}}


class PayloadFile(Part):
    """A file that an artifact consists of."""

    path: RelativePath
    """Its path, relative to the envelope."""
    sha256: Sha256
    """Hash of its bytes."""
    content_type: str | None = None
    """Media type."""
    size_bytes: Count | None = None
    """Size."""


class ArtifactPayload(Part):
    """The payload of an artifact envelope."""

    files: Annotated[Many[PayloadFile], Field(min_length=1)]
    """The files."""


class ArtifactEnvelope(Envelope):
    """An output in transit (`artifact_*.msg.json`)."""

    type: Literal["artifact"]
    """Always `artifact`."""
    command_id: CommandIdText | None = None
    """The command that asked for it."""
    output_name: Text
    """Name of the output as the DAG has it."""
    payload: ArtifactPayload
    """Its files."""


def read_envelope(data: object) -> CommandEnvelope | ArtifactEnvelope:
    """Read an envelope of either type from JSON values; raises ContractError."""
    kind = data.get("type") if isinstance(data, dict) else None
    if kind == "command":
        return CommandEnvelope.from_json(data)
    if kind == "artifact" or not isinstance(kind, str):
        return ArtifactEnvelope.from_json(data)
    problem = Problem(
        code=Code.UNSUPPORTED_MESSAGE_TYPE,
        field="type",
        message=f"there is no message type {kind[:40]!r}",
        hint="use 'command' or 'artifact'",
    )
    raise ContractError(problem.code, problem.message, (problem,), hint=problem.hint)
