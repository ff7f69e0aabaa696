"""The command: an order for one task. Agents get no other instructions."""

import re
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import (
    AgentIdText,
    CommandId,
    Count,
    Document,
    InputPattern,
    Instant,
    Many,
    Number,
    Part,
    PlanIdText,
    Positive,
    RelativePath,
    Score,
    Sha256,
    TaskIdText,
    Text,
)
from agenttalk.contracts.errors import Code
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.contracts.validation import Expectations, Issue

COMMAND_ID_PATTERN: Final = r"^cmd_[A-Za-z0-9_.-]{1,128}_[0-9]{3,16}$"
_COMMAND_ID = re.compile(r"cmd_([A-Za-z0-9_.-]{1,128})_([0-9]{3,16})\Z")

Priority = Literal["HIGH", "MEDIUM", "LOW"]


class CommandIdParts(NamedTuple):
    """The parts of a command_id."""

    task_id: str
    seq: int


def parse_command_id(text: str) -> CommandIdParts | None:
    """Split `cmd_<task_id>_<NNN>` from the right; None when it is not of that form."""
    match = _COMMAND_ID.match(text)
    return CommandIdParts(match[1], int(match[2])) if match else None


def make_command_id(task_id: str, seq: int) -> CommandId:
    """Return the command_id of a task's order number `seq`."""
    return CommandId(f"cmd_{task_id}_{seq:03d}")


def _check_command_id(text: str) -> str:
    if not _COMMAND_ID.match(text):
        raise PydanticCustomError(
            Code.COMMAND_SEQ_INVALID_FORMAT, "not of the form cmd_<task_id>_<NNN>: {text}", {"text": repr(text[:160])}
        )
    return text


CommandIdText = Annotated[
    CommandId,
    AfterValidator(_check_command_id),
    WithJsonSchema({"type": "string", "pattern": COMMAND_ID_PATTERN, "maxLength": 149}),
]


PRIORITIES: Final = {"HIGH": 0, "MEDIUM": 1, "LOW": 2}
"""The priorities, highest first."""


class DagRef(Part):
    """The DAG that a command was made for."""

    sha256: Sha256
    """Hash of the plan's task_dag.json."""
    revision: Count | None = None
    """Its revision, for people."""


class ResolvedInput(Part):
    """An input that the engine has picked."""

    input_name: Text
    """Name of the input as the DAG has it."""
    required: bool
    """Whether the command can run without it."""
    paths: Annotated[Many[RelativePath], Field(min_length=1)]
    """Files that make up the input."""
    description: str | None = None
    """A description, for people."""
    sensitivity: str | None = None
    """How to handle it, e.g. `secret`."""


class ProducedFile(Part):
    """A file that the command must make."""

    path: RelativePath
    """Its path, relative to the working directory."""
    content_type: str | None = None
    """Its media type."""


class Produces(Part):
    """An output that the command must make."""

    output_name: Text
    """Name of the output as the DAG has it."""
    files: Many[ProducedFile]
    """The files that make it up."""


class Possible(Part):
    """An output that the command may make."""

    output_name: Text
    """Name of the output as the DAG has it."""
    when: Text | None = None
    """The score for which it is due, e.g. `score >= 70`; absent if it is optional."""


class Notice(Part):
    """A text for the local notice and log. It has no effect on routing."""

    message_template: Text
    """May contain {result} and {score} on completion, {error} on failure."""


class ValidationCriteria(Part):
    """What the inputs must meet before they are used."""

    format: str | None = None
    """Expected format, e.g. `json` or `text`."""
    required_fields: Many[str] | None = None
    """Fields that a JSON input must have."""
    json_schema: dict[str, Any] | None = None
    """JSON Schema that a JSON input must meet."""
    quality_threshold: Number | None = None
    """Lowest acceptable score of the consumer's judgement."""
    completeness: str | None = None
    """What a complete input covers, judged by the consumer."""


class ValidationResult(Part):
    """Why an output was sent back."""

    validator: AgentIdText
    """The agent that refused it."""
    score: Score
    """Its score, 0 to 100."""
    reason: Text
    """The reason in one sentence."""
    reason_message: dict[str, Any] | None = None
    """The reason as a message of AgentTalk, `{"id": …, "params": …}`, if it is one: to show it in Chinese."""
    issues: Many[Issue] = ()
    """Each thing that is wrong."""
    expectations: Expectations | None = None
    """What the next version should contain."""
    prompt: Text | None = None
    """The validator's instructions for the maker, in its own words."""


class PreviousFile(Part):
    """A file of the version that was refused."""

    output_name: Text
    """The output that it belongs to."""
    path: RelativePath
    """Its path inside the output."""
    sha256: Sha256
    """Hash of its bytes."""
    size_bytes: Count = 0
    """Its size in bytes."""


class Reexecution(Part):
    """Marks a command as the re-execution of refused work."""

    original_task_id: TaskIdText
    """The task whose output was refused."""
    original_agent: AgentIdText
    """The agent that made that output."""
    attempt: Positive
    """The number of the round, from 1."""
    validation_result: ValidationResult
    """Why it was refused."""
    validated_at: Instant | None = None
    """When it was refused."""
    previous: Many[PreviousFile] = ()
    """The refused files, which the agent gets as the input `previous_output`."""


class ReexecuteRequest(Document):
    """A receiver's refusal of an output, as an order to make it again (`cmd_reexecute_<task_id>.json`)."""

    plan_id: PlanIdText
    """The plan."""
    original_task_id: TaskIdText
    """The task whose output is refused."""
    original_agent: AgentIdText
    """The agent that made it."""
    validation_result: ValidationResult
    """Why it is refused."""
    prompt: Text | None = None
    """Instructions for its maker."""
    command_id: str | None = None
    """The sender's id for it. The engine gives the order its own id."""


class Command(Document):
    """An order for a task: its instructions, inputs and limits, but never its receivers."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"score_required": {"const": True}}, "required": ["score_required"]},
            "then": {"properties": {"score_criteria": {"type": "string"}}, "required": ["score_criteria"]},
            "else": {"properties": {"score_criteria": {"type": "null"}}},
        }
    )
    size_limit: ClassVar[int] = wire.ENVELOPE_LIMIT

    plan_id: PlanIdText
    """The plan, or a board whose name begins with `_`."""
    task_id: TaskIdText
    """The DAG node (or board task) that this command is for."""
    command_id: CommandIdText
    """`cmd_<task_id>_<NNN>`, at least three digits."""
    command_seq: Count
    """The number at the end of command_id; grows with each order for the task."""
    dag_ref: DagRef | None = None
    """The DAG it was made for; required in plans, absent on virtual boards."""
    prompt: Text
    """The instructions."""
    required_inputs: Many[InputPattern]
    """File names or globs that are needed; may be empty."""
    resolved_inputs: Many[ResolvedInput] | None = None
    """Inputs picked by the engine; when present they decide."""
    produces: Many[Produces] | None = None
    """Outputs that are expected."""
    may_produce: Many[Possible] | None = None
    """Outputs that are due for some scores only, or optional."""
    wait_for_inputs: bool
    """Whether to wait until the inputs are there."""
    score_required: bool
    """Whether the result must carry a score."""
    score_criteria: Text | None = None
    """What the score measures; present exactly when a score is required."""
    timeout: Positive
    """Time limit in seconds, for waiting and for running separately."""
    retry_times: Count = 0
    """Retries after a crash or timeout. Each one gets 1.5 times the time of the previous one."""
    idempotency_key: Text | None = None
    """For people and audit; never used to find duplicates."""
    payload_hash: Sha256 | None = None
    """Hash of the command's canonical JSON without this field; checked when present."""
    on_complete: Notice | None = None
    """Local notice on completion."""
    on_failure: Notice | None = None
    """Local notice on failure."""
    promise: CompletionPromise | None = None
    """The promise. The engine derives one if it is absent."""
    validation_criteria: ValidationCriteria | None = None
    """What the inputs must meet."""
    reexecute: Reexecution | None = None
    """Only on a re-execution: what was refused and why."""
    priority: Priority = "MEDIUM"
    """HIGH before MEDIUM before LOW."""

    @property
    def virtual(self) -> bool:
        """Whether the command belongs to a virtual board, which has no DAG."""
        return self.plan_id.startswith("_")
