"""Every error of AgentTalk, and every code that an error or a problem can have.

    AgentTalkError
    ├── InputError              the input is wrong; repeating it cannot help
    │   ├── JsonError           not JSON as we read it
    │   ├── ContractError       JSON, but not a valid document; lists every problem
    │   ├── UsageError          a name, file or option that does not exist
    │   └── ConflictError       it conflicts with what is stored already
    └── MachineError            the machine failed (disk, permissions); a retry can help
        ├── MissingError        nothing has the name
        ├── TakenError          something has the name already
        └── ForgeError          a forge refused, or did not answer; the code says whether a retry can help

Foreign errors (pydantic, json, OSError) are translated where they enter and never leave a door.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Code(StrEnum):
    """The stable, public name of an error. Programs match on it; the wording may change."""

    JSON_SYNTAX = "JSON_SYNTAX"
    JSON_TOO_LARGE = "JSON_TOO_LARGE"
    JSON_TOO_DEEP = "JSON_TOO_DEEP"
    JSON_DUPLICATE_KEY = "JSON_DUPLICATE_KEY"
    JSON_NUMBER = "JSON_NUMBER"
    JSON_TEXT = "JSON_TEXT"
    JSON_VALUE = "JSON_VALUE"
    YAML_SYNTAX = "YAML_SYNTAX"
    YAML_FEATURE = "YAML_FEATURE"

    FIELD_MISSING = "FIELD_MISSING"
    FIELD_TYPE = "FIELD_TYPE"
    FIELD_VALUE = "FIELD_VALUE"
    FIELD_UNKNOWN = "FIELD_UNKNOWN"
    FIELD_SPELLED_TWICE = "FIELD_SPELLED_TWICE"
    ID_INVALID = "ID_INVALID"
    HASH_INVALID = "HASH_INVALID"
    TIME_INVALID = "TIME_INVALID"
    PATH_OUTSIDE_FOLDER = "PATH_OUTSIDE_FOLDER"
    SCHEMA_VERSION_UNSUPPORTED = "SCHEMA_VERSION_UNSUPPORTED"
    UNSUPPORTED_MESSAGE_TYPE = "UNSUPPORTED_MESSAGE_TYPE"

    COMMAND_FIELD_MISSING = "COMMAND_FIELD_MISSING"
    COMMAND_FIELD_TYPE = "COMMAND_FIELD_TYPE"
    COMMAND_FIELD_VALUE = "COMMAND_FIELD_VALUE"
    COMMAND_SEQ_MISSING = "COMMAND_SEQ_MISSING"
    COMMAND_SEQ_INVALID_FORMAT = "COMMAND_SEQ_INVALID_FORMAT"
    COMMAND_SEQ_MISMATCH = "COMMAND_SEQ_MISMATCH"
    COMMAND_TASK_MISMATCH = "COMMAND_TASK_MISMATCH"
    COMMAND_ID_REUSED = "COMMAND_ID_REUSED"
    COMMAND_DAG_MISMATCH = "COMMAND_DAG_MISMATCH"
    COMMAND_ROUTES_ITSELF = "COMMAND_ROUTES_ITSELF"
    COMMAND_SCORE_CRITERIA_MISSING = "COMMAND_SCORE_CRITERIA_MISSING"
    COMMAND_PAYLOAD_HASH_MISMATCH = "COMMAND_PAYLOAD_HASH_MISMATCH"
    COMMAND_ENVELOPE_MISMATCH = "COMMAND_ENVELOPE_MISMATCH"
    COMMAND_NOT_AUTHORISED = "COMMAND_NOT_AUTHORISED"
    TASK_NOT_IN_DAG = "TASK_NOT_IN_DAG"

    TASK_NOT_FOUND = "TASK_NOT_FOUND"
    PRODUCER_MISMATCH = "PRODUCER_MISMATCH"
    PLAN_MISMATCH = "PLAN_MISMATCH"
    ENVELOPE_PARSE_ERROR = "ENVELOPE_PARSE_ERROR"
    SCHEMA_INVALID = "SCHEMA_INVALID"
    MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD = "MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD"
    ROUTING_NO_TARGET = "ROUTING_NO_TARGET"
    TARGET_AGENT_NOT_FOUND = "TARGET_AGENT_NOT_FOUND"
    MISSING_PAYLOAD = "MISSING_PAYLOAD"
    PAYLOAD_HASH_MISMATCH = "PAYLOAD_HASH_MISMATCH"
    OUTPUT_VERSION_CONFLICT = "OUTPUT_VERSION_CONFLICT"
    OUTPUT_MISFIT = "OUTPUT_MISFIT"

    DAG_CYCLE = "DAG_CYCLE"
    DAG_TASK_DUPLICATE = "DAG_TASK_DUPLICATE"
    DAG_TASK_UNKNOWN = "DAG_TASK_UNKNOWN"
    DAG_AGENT_UNKNOWN = "DAG_AGENT_UNKNOWN"
    DAG_OUTPUT_DUPLICATE = "DAG_OUTPUT_DUPLICATE"
    DAG_INPUT_UNREACHABLE = "DAG_INPUT_UNREACHABLE"
    DAG_OUTPUT_UNRECEIVED = "DAG_OUTPUT_UNRECEIVED"
    DAG_FALLBACK_INVALID = "DAG_FALLBACK_INVALID"
    DAG_BRANCH_INVALID = "DAG_BRANCH_INVALID"
    DAG_TOO_COMPLEX = "DAG_TOO_COMPLEX"

    PLAN_DERIVED = "PLAN_DERIVED"
    PLAN_DOUBTFUL = "PLAN_DOUBTFUL"
    UNCOMMITTED = "UNCOMMITTED"
    NAME_TAKEN = "NAME_TAKEN"
    SCORE_NOT_REQUIRED = "SCORE_NOT_REQUIRED"
    PROMISE_INVALID = "PROMISE_INVALID"
    CRITERION_UNPROVEN = "CRITERION_UNPROVEN"
    CHECK_CIRCULAR = "CHECK_CIRCULAR"
    SCOPE_PROTECTED_OVERLAP = "SCOPE_PROTECTED_OVERLAP"
    CHECK_ALREADY_GREEN = "CHECK_ALREADY_GREEN"
    CHECK_CANNOT_RUN = "CHECK_CANNOT_RUN"
    LINK_LEADS_AWAY = "LINK_LEADS_AWAY"
    JUDGE_NOT_TRUSTED = "JUDGE_NOT_TRUSTED"
    RELEASE_REJECTED = "RELEASE_REJECTED"
    RELEASE_REVOKED = "RELEASE_REVOKED"
    DAG_NOT_APPROVED = "DAG_NOT_APPROVED"
    REVIEWERS_MISSING = "REVIEWERS_MISSING"
    BRANCH_MOVED = "BRANCH_MOVED"
    CHECK_BROKEN = "CHECK_BROKEN"
    WORKER_MISSING = "WORKER_MISSING"
    CHECK_UNREPEATABLE = "CHECK_UNREPEATABLE"
    VERIFIER_DISTRUSTED = "VERIFIER_DISTRUSTED"

    NAME_UNKNOWN = "NAME_UNKNOWN"
    FILE_UNREADABLE = "FILE_UNREADABLE"
    FILE_UNWRITABLE = "FILE_UNWRITABLE"
    FILE_UNSAFE = "FILE_UNSAFE"
    FILE_TOO_LARGE = "FILE_TOO_LARGE"
    ACTIVE_DAG_REF_MISMATCH = "ACTIVE_DAG_REF_MISMATCH"
    OPTION_INVALID = "OPTION_INVALID"
    VIEW_EDITED = "VIEW_EDITED"
    VIEW_FOREIGN = "VIEW_FOREIGN"
    MESSAGE_LOST = "MESSAGE_LOST"
    MESSAGE_UNROUTED = "MESSAGE_UNROUTED"
    FORM_MENDED = "FORM_MENDED"
    DEADLETTERED_BY_RECEIVER = "DEADLETTERED_BY_RECEIVER"
    REPLAY_REFUSED = "REPLAY_REFUSED"
    ANSWER_REFUSED = "ANSWER_REFUSED"
    DISPUTE_REFUSED = "DISPUTE_REFUSED"
    CONTROL_CHANGED = "CONTROL_CHANGED"
    SUPERSEDED = "SUPERSEDED"
    INPUT_CONFLICT = "INPUT_CONFLICT"
    WAIT_FOR_INPUTS_TIMEOUT = "WAIT_FOR_INPUTS_TIMEOUT"
    LEASE_LOST = "LEASE_LOST"
    TIP_MOVED = "TIP_MOVED"
    FETCH_REFUSED = "FETCH_REFUSED"
    PACK_REFUSED = "PACK_REFUSED"
    COMMAND_FAILED = "COMMAND_FAILED"
    AGENT_UNFIT = "AGENT_UNFIT"
    AGENT_DENIED = "AGENT_DENIED"
    AGENT_SILENT = "AGENT_SILENT"
    ANSWER_INVALID = "ANSWER_INVALID"
    MODEL_REFUSED = "MODEL_REFUSED"
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE"
    MODEL_UNUSABLE = "MODEL_UNUSABLE"
    AGENT_PROTOCOL = "AGENT_PROTOCOL"
    OUTPUT_MISSING = "OUTPUT_MISSING"
    SECRET_EXPOSED = "SECRET_EXPOSED"  # noqa: S105 - a code
    SCORE_MISSING = "SCORE_MISSING"
    SCORE_INVALID = "SCORE_INVALID"
    PROCESS_STUCK = "PROCESS_STUCK"
    ILLEGAL_TRANSITION = "ILLEGAL_TRANSITION"

    STORE_CONFLICT = "STORE_CONFLICT"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    STORE_FULL = "STORE_FULL"
    STORE_IN_DOUBT = "STORE_IN_DOUBT"
    STORE_INCOMPATIBLE = "STORE_INCOMPATIBLE"
    STORE_DAMAGED = "STORE_DAMAGED"
    BLOB_MISSING = "BLOB_MISSING"
    ENGINE_RUNNING = "ENGINE_RUNNING"
    ENGINE_UNREACHABLE = "ENGINE_UNREACHABLE"
    TOKEN_REFUSED = "TOKEN_REFUSED"  # noqa: S105 - a code, not a token
    NOT_ALLOWED = "NOT_ALLOWED"
    PERSON_NEEDED = "PERSON_NEEDED"
    HOST_REFUSED = "HOST_REFUSED"
    KEY_REUSED = "KEY_REUSED"
    KEY_IN_USE = "KEY_IN_USE"
    KEY_IN_DOUBT = "KEY_IN_DOUBT"
    MAIL_HOPS_EXCEEDED = "MAIL_HOPS_EXCEEDED"
    MAIL_UNANSWERED = "MAIL_UNANSWERED"
    FORGE_SIGNATURE_REFUSED = "FORGE_SIGNATURE_REFUSED"
    FORGE_EVENT_UNREADABLE = "FORGE_EVENT_UNREADABLE"
    FORGE_ASSIGNEE_UNKNOWN = "FORGE_ASSIGNEE_UNKNOWN"
    FORGE_HOPS_EXCEEDED = "FORGE_HOPS_EXCEEDED"
    TASK_OVERDUE = "TASK_OVERDUE"
    FORGE_UNREACHABLE = "FORGE_UNREACHABLE"
    FORGE_IN_DOUBT = "FORGE_IN_DOUBT"
    FORGE_LIMITED = "FORGE_LIMITED"
    FORGE_NOT_READY = "FORGE_NOT_READY"
    FORGE_REFUSED = "FORGE_REFUSED"
    FORGE_MISSING = "FORGE_MISSING"
    FORGE_UNSEEN = "FORGE_UNSEEN"
    FORGE_CONFLICT = "FORGE_CONFLICT"
    FORGE_ANSWER_INVALID = "FORGE_ANSWER_INVALID"
    UNHANDLED_EXCEPTION = "UNHANDLED_EXCEPTION"


class Meaning(NamedTuple):
    """What a code means, and whether a retry can help."""

    text: str
    retriable: bool = False


MEANINGS: dict[Code, Meaning] = {
    Code.JSON_SYNTAX: Meaning("The bytes are not JSON in UTF-8."),
    Code.JSON_TOO_LARGE: Meaning("The document is over the size limit for its kind."),
    Code.JSON_TOO_DEEP: Meaning("Objects and arrays are nested deeper than 64 levels."),
    Code.JSON_DUPLICATE_KEY: Meaning("One object has the same key twice; readers would disagree on it."),
    Code.JSON_NUMBER: Meaning("A number is NaN, infinite or too long to be read."),
    Code.JSON_TEXT: Meaning("A text contains half a character (a lone surrogate) and cannot be written."),
    Code.JSON_VALUE: Meaning("A Python value cannot be written as JSON."),
    Code.YAML_SYNTAX: Meaning("The bytes are not YAML in UTF-8."),
    Code.YAML_FEATURE: Meaning("A plan file uses tags, merges, several documents, or endless aliases."),
    Code.FIELD_MISSING: Meaning("A required field is missing or null."),
    Code.FIELD_TYPE: Meaning("A field has the wrong type."),
    Code.FIELD_VALUE: Meaning("A field has the right type but a value that is not allowed."),
    Code.FIELD_UNKNOWN: Meaning("A field is unknown. Documents keep it, without effect."),
    Code.FIELD_SPELLED_TWICE: Meaning("A field is given in both of its spellings."),
    Code.ID_INVALID: Meaning("An id is not 1-128 letters, digits, _ - . without a leading or double dot."),
    Code.HASH_INVALID: Meaning("A hash is not sha256:<64 lowercase hex digits>."),
    Code.TIME_INVALID: Meaning("A time is not UTC in ISO 8601 with Z at the end."),
    Code.PATH_OUTSIDE_FOLDER: Meaning("A path is absolute, not normalised, or leaves its folder."),
    Code.SCHEMA_VERSION_UNSUPPORTED: Meaning("The document's MAJOR version is not one this release reads."),
    Code.UNSUPPORTED_MESSAGE_TYPE: Meaning("An envelope is neither a command nor an artifact."),
    Code.COMMAND_FIELD_MISSING: Meaning("A command lacks a required field that is never filled in."),
    Code.COMMAND_FIELD_TYPE: Meaning("A command's field has a type that cannot be converted."),
    Code.COMMAND_FIELD_VALUE: Meaning("A command's field has a value that is not allowed."),
    Code.COMMAND_SEQ_MISSING: Meaning("A command has no command_seq."),
    Code.COMMAND_SEQ_INVALID_FORMAT: Meaning("command_id does not end in _ and at least three digits."),
    Code.COMMAND_SEQ_MISMATCH: Meaning("command_seq differs from the number at the end of command_id."),
    Code.COMMAND_TASK_MISMATCH: Meaning("command_id names another task than task_id."),
    Code.COMMAND_ID_REUSED: Meaning("The plan already has a command with this command_id."),
    Code.COMMAND_DAG_MISMATCH: Meaning("dag_ref is not the plan's active DAG: the command is out of date."),
    Code.COMMAND_ROUTES_ITSELF: Meaning("A command says where it or its results go; only the DAG may."),
    Code.COMMAND_SCORE_CRITERIA_MISSING: Meaning("A score is required, but its criteria are missing."),
    Code.COMMAND_PAYLOAD_HASH_MISMATCH: Meaning("payload_hash is not the hash of this command."),
    Code.COMMAND_ENVELOPE_MISMATCH: Meaning("An envelope's ids differ from those of the command inside."),
    Code.COMMAND_NOT_AUTHORISED: Meaning("The sender may not command this task."),
    Code.TASK_NOT_IN_DAG: Meaning("The plan's DAG has no such task."),
    Code.TASK_NOT_FOUND: Meaning("The board has no such task, or it belongs to another agent."),
    Code.PRODUCER_MISMATCH: Meaning("producer_agent_id is not the owner of the outbox."),
    Code.PLAN_MISMATCH: Meaning("plan_id is not the plan of the outbox folder."),
    Code.ENVELOPE_PARSE_ERROR: Meaning("A message file is not JSON as we read it."),
    Code.SCHEMA_INVALID: Meaning("A message lacks a field or has one of a wrong type or value."),
    Code.MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD: Meaning("A message_id was used before for other content."),
    Code.ROUTING_NO_TARGET: Meaning("Neither the output nor a routing rule says who receives this."),
    Code.TARGET_AGENT_NOT_FOUND: Meaning("The receiver has no folder under agents/.", retriable=True),
    Code.MISSING_PAYLOAD: Meaning("A payload file that the envelope names is missing.", retriable=True),
    Code.PAYLOAD_HASH_MISMATCH: Meaning("A payload file has other content than the envelope says."),
    Code.OUTPUT_VERSION_CONFLICT: Meaning("An output that must not change came again with other content."),
    Code.OUTPUT_MISFIT: Meaning("An output is not of the media type that the plan declares."),
    Code.DAG_CYCLE: Meaning("Tasks depend on each other in a circle."),
    Code.DAG_TASK_DUPLICATE: Meaning("Two nodes of a DAG have the same task_id."),
    Code.DAG_TASK_UNKNOWN: Meaning("A node refers to a task that is not in the DAG."),
    Code.DAG_AGENT_UNKNOWN: Meaning("A node refers to an agent that the plan does not have."),
    Code.DAG_OUTPUT_DUPLICATE: Meaning("A node declares the same output twice."),
    Code.DAG_INPUT_UNREACHABLE: Meaning("A required input can never arrive."),
    Code.DAG_OUTPUT_UNRECEIVED: Meaning("An output has no receiver and is not a deliverable."),
    Code.DAG_FALLBACK_INVALID: Meaning(
        "A fallback is the task itself, or has other outputs than the task it replaces."
    ),
    Code.DAG_BRANCH_INVALID: Meaning("A task is activated only by a task that waits for it."),
    Code.DAG_TOO_COMPLEX: Meaning("The DAG's patterns would take too long to match."),
    Code.PLAN_DERIVED: Meaning("The plan file leaves something out that follows from the rest; it was added."),
    Code.PLAN_DOUBTFUL: Meaning("A plan file contains something that is allowed but probably a mistake."),
    Code.UNCOMMITTED: Meaning("The repository has uncommitted work, which no task of the plan sees."),
    Code.NAME_TAKEN: Meaning("Two things of one kind have the same name."),
    Code.SCORE_NOT_REQUIRED: Meaning("A condition uses the score of a task that has no score."),
    Code.PROMISE_INVALID: Meaning("A promise requires nothing, or refers to something that it does not define."),
    Code.CRITERION_UNPROVEN: Meaning("Only the agent's own word would prove a criterion of a promise."),
    Code.CHECK_CIRCULAR: Meaning("A task's promise waits until another agent accepts the task's own output."),
    Code.SCOPE_PROTECTED_OVERLAP: Meaning("A check protects every file that a glob allows to change."),
    Code.CHECK_ALREADY_GREEN: Meaning("A check that must fail before the work passes already."),
    Code.CHECK_CANNOT_RUN: Meaning("A check that must fail before the work cannot run there."),
    Code.LINK_LEADS_AWAY: Meaning("A link that checkouts use leads to another copy of their tree."),
    Code.JUDGE_NOT_TRUSTED: Meaning("An agent would judge its own work, or is not trusted to judge it."),
    Code.RELEASE_REJECTED: Meaning("A requirement of the release is missing or not met."),
    Code.RELEASE_REVOKED: Meaning("The evidence of a release no longer holds, so the release was revoked."),
    Code.DAG_NOT_APPROVED: Meaning("The DAG of a plan must be approved before its tasks start, and is not."),
    Code.REVIEWERS_MISSING: Meaning("A DAG was decided on without some of its reviewers."),
    Code.BRANCH_MOVED: Meaning("The plan's branch has commits that no task of the plan made."),
    Code.WORKER_MISSING: Meaning("No worker has taken a task for a long time."),
    Code.CHECK_BROKEN: Meaning("Something that was proven no longer holds."),
    Code.CHECK_UNREPEATABLE: Meaning("Something that was proven cannot be checked again.", retriable=True),
    Code.VERIFIER_DISTRUSTED: Meaning("A verifier answered wrongly what the engine knew, or signed for another."),
    Code.NAME_UNKNOWN: Meaning("Nothing has this name."),
    Code.FILE_UNREADABLE: Meaning("A file is missing or cannot be read.", retriable=True),
    Code.FILE_UNWRITABLE: Meaning("A file cannot be written.", retriable=True),
    Code.FILE_UNSAFE: Meaning("A file is a symlink, hard link, FIFO, socket or device, or lies behind a symlink."),
    Code.FILE_TOO_LARGE: Meaning("A file is over the size limit."),
    Code.ACTIVE_DAG_REF_MISMATCH: Meaning("active_dag_ref.json and task_dag.json disagree.", retriable=True),
    Code.OPTION_INVALID: Meaning("An argument or option of the command line is wrong."),
    Code.VIEW_EDITED: Meaning("A published file was edited; the store decides, so it was put back."),
    Code.VIEW_FOREIGN: Meaning("Another party published a newer status of a plan than ours; its file was kept."),
    Code.MESSAGE_LOST: Meaning("The messages of a plan do not add up: one of them has no state."),
    Code.MESSAGE_UNROUTED: Meaning("A message in an inbox was not delivered by a router; it waits."),
    Code.FORM_MENDED: Meaning("A file of another party has a different format than ours; it was read anyway."),
    Code.DEADLETTERED_BY_RECEIVER: Meaning("The receiver put a message into the dead letters of its inbox."),
    Code.REPLAY_REFUSED: Meaning("A dead letter cannot be replayed: too many replays, delivered already, or not kept."),
    Code.ANSWER_REFUSED: Meaning("An answer does not fit the question, or another person answered first."),
    Code.DISPUTE_REFUSED: Meaning("A check was disputed in this round already, or its task has no dispute left."),
    Code.CONTROL_CHANGED: Meaning("A control file has the id of an earlier one, but other content."),
    Code.SUPERSEDED: Meaning("A newer command for the task replaced this one."),
    Code.INPUT_CONFLICT: Meaning("An input came again with other content under the same path and number."),
    Code.WAIT_FOR_INPUTS_TIMEOUT: Meaning(
        "A command waited for its inputs longer than its time limit; people were asked."
    ),
    Code.LEASE_LOST: Meaning("A write has an old lease: another attempt has the task now."),
    Code.TIP_MOVED: Meaning("The plan's branch has another tip than the one that the work was checked on."),
    Code.FETCH_REFUSED: Meaning("An agent elsewhere asked git for something else than the base of its attempt."),
    Code.PACK_REFUSED: Meaning(
        "What an agent elsewhere handed in as its work is not one commit on the base, or its tree is refused."
    ),
    Code.COMMAND_FAILED: Meaning("An agent's program failed and no retry is left."),
    Code.AGENT_UNFIT: Meaning("An agent reported that it is not fit for a command, and returned it."),
    Code.AGENT_DENIED: Meaning("A coding agent tried something that it is not permitted to do."),
    Code.AGENT_SILENT: Meaning("A coding agent ended without any output or action, or a model's answer was empty."),
    Code.ANSWER_INVALID: Meaning("A model's answer does not have the required format."),
    Code.MODEL_REFUSED: Meaning("A model or its service refused to answer."),
    Code.MODEL_UNAVAILABLE: Meaning("A model's service does not answer, is busy or broken.", retriable=True),
    Code.MODEL_UNUSABLE: Meaning("A model cannot be used: its package, key, name, file or size is wrong."),
    Code.AGENT_PROTOCOL: Meaning("A coding agent violates the protocol of its driver.", retriable=True),
    Code.OUTPUT_MISSING: Meaning("A program ended without one of the outputs that its command declares."),
    Code.SECRET_EXPOSED: Meaning("Something that an agent handed in contains a known secret, so it was refused."),
    Code.SCORE_MISSING: Meaning("A required score is missing."),
    Code.SCORE_INVALID: Meaning("A score is not a number from 0 to 100."),
    Code.PROCESS_STUCK: Meaning(
        "Processes of an ended attempt cannot be killed; the task does not start again.", retriable=True
    ),
    Code.ILLEGAL_TRANSITION: Meaning("This change is not possible in the task's state; nothing was changed."),
    Code.STORE_CONFLICT: Meaning("This conflicts with what is stored already."),
    Code.STORE_UNAVAILABLE: Meaning("The database cannot be reached or written; nothing was stored.", retriable=True),
    Code.STORE_FULL: Meaning("The disk has no room for the database; nothing was stored.", retriable=True),
    Code.STORE_IN_DOUBT: Meaning("A commit got no answer; it may or may not be stored.", retriable=True),
    Code.STORE_INCOMPATIBLE: Meaning("This release does not support the version of the database or its library."),
    Code.STORE_DAMAGED: Meaning("A database or a stored file is damaged: it differs from what was written."),
    Code.BLOB_MISSING: Meaning("No content with this hash is stored."),
    Code.ENGINE_RUNNING: Meaning("Another engine or part works on this root.", retriable=True),
    Code.ENGINE_UNREACHABLE: Meaning("The engine of this root does not answer, or cannot listen.", retriable=True),
    Code.TOKEN_REFUSED: Meaning("The token is missing, unknown, revoked, or its attempt is over."),
    Code.NOT_ALLOWED: Meaning("The token is valid, but not for this action."),
    Code.PERSON_NEEDED: Meaning("Only a person may decide this, and nothing shows that a person asked for it."),
    Code.HOST_REFUSED: Meaning("A request used a host name, or came from a page, that is not ours."),
    Code.KEY_REUSED: Meaning("An Idempotency-Key was used before for another request."),
    Code.KEY_IN_USE: Meaning("The request with this Idempotency-Key is still being carried out.", retriable=True),
    Code.KEY_IN_DOUBT: Meaning("The engine ended while it carried out this request; its result is unknown."),
    Code.MAIL_HOPS_EXCEEDED: Meaning("Agents wrote to each other too often in a row; a person must continue."),
    Code.MAIL_UNANSWERED: Meaning("A request was not answered before its deadline, or its reminder was sent."),
    Code.FORGE_SIGNATURE_REFUSED: Meaning("A webhook's signature is missing, empty, doubled or wrong."),
    Code.FORGE_EVENT_UNREADABLE: Meaning("The body of a webhook lacks fields that its event must have."),
    Code.FORGE_ASSIGNEE_UNKNOWN: Meaning("A forge event is for an account that no agent has; no task was created."),
    Code.FORGE_HOPS_EXCEEDED: Meaning("Agents answered agents too often in one thread; a person decides."),
    Code.TASK_OVERDUE: Meaning("A task has had no report for too long; its agent is reminded."),
    Code.FORGE_UNREACHABLE: Meaning("The forge does not answer or is broken.", retriable=True),
    Code.FORGE_IN_DOUBT: Meaning(
        "The forge did not answer a request for a change: check its state before a retry.", retriable=True
    ),
    Code.FORGE_LIMITED: Meaning("The forge accepts no more requests for a while.", retriable=True),
    Code.FORGE_NOT_READY: Meaning("The forge is not ready yet; the request may succeed later.", retriable=True),
    Code.FORGE_REFUSED: Meaning("The forge refuses: not allowed, or not possible in this state."),
    Code.FORGE_MISSING: Meaning("The forge has no such object, or hides it from this token."),
    Code.FORGE_UNSEEN: Meaning("The engine's account cannot see the repository, so it cannot check anything there."),
    Code.FORGE_CONFLICT: Meaning("Something changed at the forge meanwhile, such as the head or the base."),
    Code.FORGE_ANSWER_INVALID: Meaning("The forge's answer cannot be read."),
    Code.UNHANDLED_EXCEPTION: Meaning("A bug in AgentTalk; please report it."),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a document."""

    code: Code
    """Stable name of the fault."""
    field: str
    """Where it is, e.g. `produces[0].files[1].path`; empty for the whole document."""
    message: str
    """What is wrong."""
    hint: str = ""
    """What to do about it."""


class AgentTalkError(Exception):
    """Base of all errors: what is wrong (`str`), its `code`, and what to do (`hint`)."""

    def __init__(self, code: Code, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    @property
    def retriable(self) -> bool:
        """Whether a retry can help."""
        return MEANINGS[self.code].retriable


class InputError(AgentTalkError):
    """The input is wrong."""


class JsonError(InputError):
    """Bytes or values that are not JSON as we read it."""


class ContractError(InputError):
    """JSON that is not a valid document. `problems` lists everything that is wrong."""

    def __init__(self, code: Code, message: str, problems: Sequence[Problem], *, hint: str = "") -> None:
        super().__init__(code, message, hint=hint)
        self.problems = tuple(problems)


class UsageError(InputError):
    """A name, file or option that does not exist."""


class ConflictError(InputError):
    """A write conflicts with what is stored already."""


class MachineError(AgentTalkError):
    """The machine failed, e.g. its disk or permissions."""


class MissingError(MachineError):
    """Nothing has the name."""


class TakenError(MachineError):
    """Something has the name already."""


class FullDiskError(MachineError):
    """There is no room left on a disk, or within a quota."""


class ForgeError(MachineError):
    """A forge refused a request, or did not answer it."""

    def __init__(self, code: Code, message: str, *, status: int = 0, retry_after: float = 0.0, hint: str = "") -> None:
        super().__init__(code, message, hint=hint)
        self.status = status
        """The HTTP status; 0 when there was no answer."""
        self.retry_after = retry_after
        """Seconds after which the forge allows a retry, if it says so."""
