"""Records of messages and tasks: deliveries, acks, states, results, alerts, dead letters."""

from typing import Any, Literal

from agenttalk.contracts.command import CommandIdText
from agenttalk.contracts.core.base import (
    AgentIdText,
    Count,
    Document,
    IdText,
    Instant,
    Many,
    MessageIdText,
    Number,
    Part,
    PlanIdText,
    RelativePath,
    Score,
    Sha256,
    TaskIdText,
    Text,
)
from agenttalk.contracts.core.vocabulary import TaskState
from agenttalk.contracts.envelope import PayloadFile, ReexecutionMark
from agenttalk.contracts.plan import Blocking

DeliveryStatus = Literal["DELIVERED", "SKIPPED_DUPLICATE", "SKIPPED_SUPERSEDED", "FAILED", "DEADLETTERED"]


class DeliveredPayload(Part):
    """The files of a delivered artifact."""

    files: Many[PayloadFile] = ()
    """Each file."""


class DeliveryEntry(Document):
    """One line of `deliveries.jsonl`: the fate of a message for one receiver."""

    delivery_id: IdText
    """Its id."""
    plan_id: PlanIdText
    """The plan."""
    message_id: MessageIdText
    """The message."""
    envelope_sha256: Sha256
    """Hash of the envelope file."""
    task_id: TaskIdText | None = None
    """The task."""
    command_id: CommandIdText | None = None
    """The command."""
    output_name: str | None = None
    """The output, for artifacts."""
    from_agent_id: AgentIdText
    """Who sent it."""
    to_agent_id: AgentIdText | None = None
    """The receiver, if there is one."""
    delivered_at: Instant
    """When."""
    status: DeliveryStatus
    """Its fate."""
    skip_reason: str | None = None
    """Why it was not delivered."""
    superseded_by_message_id: MessageIdText | None = None
    """The newer message."""
    superseded_by_command_id: CommandIdText | None = None
    """The newer command."""
    superseded_by_command_seq: Count | None = None
    """Its number."""
    payload: DeliveredPayload | None = None
    """Its files."""
    file_name: str | None = None
    """The file that was refused. The message_id of one that could not be read begins with `unread_`."""


class AckResult(Part):
    """How it went."""

    ok: bool
    """Whether it succeeded."""
    details: str | None = None
    """What happened."""


class Ack(Document):
    """A consumer's receipt (`ack_<message_id>.json`): CONSUMED, then SUCCEEDED or FAILED, never back."""

    plan_id: PlanIdText
    """The plan."""
    message_id: MessageIdText
    """The message."""
    task_id: TaskIdText | None = None
    """The task."""
    command_id: CommandIdText | None = None
    """The command."""
    command_seq: Count | None = None
    """Its number."""
    consumer_agent_id: AgentIdText
    """Who consumed it."""
    status: Literal["CONSUMED", "SUCCEEDED", "FAILED"]
    """How far it got."""
    consumed_at: Instant
    """When it was taken."""
    finished_at: Instant | None = None
    """When it ended."""
    result: AckResult | None = None
    """How it went."""


class Progress(Part):
    """The progress of a task."""

    percent: Score | None = None
    """0 to 100."""
    note: str | None = None
    """In words."""


class TaskStateReport(Document):
    """The state of a task as its agent reports it (`task_state_<task_id>.json`)."""

    plan_id: PlanIdText
    """The plan."""
    task_id: TaskIdText
    """The task."""
    agent_id: AgentIdText
    """Who reports."""
    state: TaskState
    """Its state."""
    updated_at: Instant
    """Since when."""
    message_id: MessageIdText | None = None
    """The command's message."""
    command_id: CommandIdText | None = None
    """The command."""
    blocking: Blocking | None = None
    """Why it waits."""
    progress: Progress | None = None
    """How far it is."""


class StoredFile(Part):
    """A file that was put into the workspace."""

    path: RelativePath
    """Path inside the message."""
    sha256: Sha256
    """Hash of its bytes."""
    stored_at: RelativePath
    """Path inside the workspace."""


class InputIndexEntry(Part):
    """One artifact in the workspace."""

    message_id: MessageIdText
    """The message that brought it."""
    task_id: TaskIdText
    """The task that made it."""
    output_name: Text
    """The output."""
    received_at: Instant
    """When."""
    files: Many[StoredFile]
    """Its files."""


class InputIndex(Document):
    """The artifacts in an agent's inputs (`input_index.json`)."""

    plan_id: PlanIdText
    """The plan."""
    agent_id: AgentIdText
    """The agent."""
    entries: Many[InputIndexEntry]
    """Each artifact."""


class StatusHeartbeat(Document):
    """An agent's sign of life (`status_heartbeat.json`)."""

    agent_id: AgentIdText
    """The agent."""
    last_heartbeat: Instant
    """When it was written."""
    health: Literal["HEALTHY", "WARNING", "CRITICAL"]
    """Its health."""
    status: Text
    """What it is doing."""
    current_plan_ids: Many[PlanIdText] = ()
    """Plans that it works on."""
    current_task_ids: Many[TaskIdText] = ()
    """Tasks that it works on."""
    uptime_seconds: Count | None = None
    """Whole seconds since its start, if it counts them."""
    last_error: str | None = None
    """The last error."""


class Usage(Part):
    """What a run used."""

    input_tokens: Count | None = None
    """Tokens in."""
    output_tokens: Count | None = None
    """Tokens out."""
    cost_usd: Number | None = None
    """Money."""
    duration_s: Number | None = None
    """Seconds."""
    model: str | None = None
    """Model."""


class CommandResult(Document):
    """The result of a command as its agent reports it: a claim until it is verified."""

    plan_id: PlanIdText
    """The plan."""
    task_id: TaskIdText
    """The task."""
    command_id: CommandIdText
    """The command."""
    agent_id: AgentIdText
    """Who did it."""
    result: Any
    """What came out."""
    score: Score | None = None
    """0 to 100, when one was asked for."""
    score_explanation: str | None = None
    """Why that score."""
    usage: Usage | None = None
    """What it used."""
    reexecution: ReexecutionMark | None = None
    """Present when it was a re-execution."""


class AlertSource(Part):
    """Where an alert comes from."""

    agent_id: AgentIdText | None = None
    """The agent."""
    task_id: TaskIdText | None = None
    """The task."""
    command_id: str | None = None
    """The command."""


class Alert(Document):
    """Something that a person should know."""

    alert_id: IdText
    """Its id."""
    plan_id: PlanIdText | None = None
    """The plan."""
    severity: Text
    """How urgent."""
    type: Text
    """A code."""
    created_at: Instant
    """When."""
    source: AlertSource | None = None
    """Where it comes from."""
    message: Text
    """What happened."""
    details: dict[str, Any] = {}
    """More."""


class DeadletterReason(Part):
    """Why a message was refused."""

    code: Text
    """A code."""
    message: Text
    """In words."""


class DeadletterOriginal(Part):
    """What was refused."""

    file_name: str
    """Its file."""
    message_id: str | None = None
    """Its message id, as far as it could be read."""
    producer_agent_id: AgentIdText | None = None
    """Whose outbox it lay in."""
    sha256: Sha256 | None = None
    """Hash of its bytes."""


class DeadletterActions(Part):
    """What can be done."""

    retriable: bool
    """Whether a replay can help."""
    suggested_next: str | None = None
    """What to do."""


class DeadletterEntry(Document):
    """A message that was refused, with its reason. The original is kept beside it."""

    deadletter_id: IdText
    """Its id."""
    reason: DeadletterReason
    """Why."""
    original: DeadletterOriginal
    """What."""
    actions: DeadletterActions
    """How it can go on."""
