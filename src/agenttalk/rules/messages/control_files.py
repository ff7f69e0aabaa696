"""Control files: receipts, states, alerts, decisions, questions. They are collected and archived, never routed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from agenttalk.contracts.command import ReexecuteRequest
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import Document
from agenttalk.contracts.errors import Code, ContractError, JsonError, Problem
from agenttalk.contracts.generation import Repair
from agenttalk.contracts.human import CheckDispute, HumanInterventionRequest, HumanInterventionResponse
from agenttalk.contracts.mail import Mail
from agenttalk.contracts.record import Ack, Alert, TaskStateReport
from agenttalk.contracts.validation import ArtifactValidationResult, DecisionRecord, ReleaseManifest
from agenttalk.rules.messages import foreign_forms
from agenttalk.rules.messages.routes import Rejection

_MODELS: Final[dict[str, type[Document]]] = {
    "human_intervention_request": HumanInterventionRequest,
    "human_intervention_response": HumanInterventionResponse,
    "release_manifest": ReleaseManifest,
    "decision_record": DecisionRecord,
    "task_state": TaskStateReport,
    "alert": Alert,
    "ack": Ack,
    "cmd_reexecute": ReexecuteRequest,
    "artifact_validation_result": ArtifactValidationResult,
    "check_dispute": CheckDispute,
    "mail": Mail,
}
"""The beginning of a control file's name → its model."""
_MAIL: Final = "_mail"
"""The only board with letters. On other boards `mail_….json` is an ordinary file."""
FOLDERS: Final = {
    "ack": "acks",
    "decision_record": "decisions",
    "release_manifest": "releases",
    "human_intervention_request": "human_requests",
    "human_intervention_response": "human_responses",
    "task_state": "task_states",
    "cmd_reexecute": "refusals",
    "artifact_validation_result": "validations",
    "check_dispute": "disputes",
}
"""Kind → folder of the archived file in the plan's folder. Alerts have another place."""

_NAMED: Final[dict[type[Document], str]] = {
    Ack: "message_id",
    TaskStateReport: "task_id",
    HumanInterventionRequest: "request_id",
    HumanInterventionResponse: "request_id",
    DecisionRecord: "decision_id",
    ReexecuteRequest: "original_task_id",
    ArtifactValidationResult: "validation_id",
    CheckDispute: "dispute_id",
    ReleaseManifest: "release_id",
    Alert: "alert_id",
    Mail: "message_id",
}
_OF_OWNER: Final = frozenset({Ack, TaskStateReport, ReexecuteRequest, ArtifactValidationResult, CheckDispute})

Step = Literal["new", "same", "advance"]


@dataclass(frozen=True, slots=True)
class ControlFile:
    """A control file that could be read."""

    kind: str
    id: str
    """The id of its subject. Another file with this id must have the same content, or advance it."""
    owner: str
    document: Document
    sha256: str
    repairs: tuple[Repair, ...] = ()
    """Changes that brought another party's form into ours."""

    @property
    def archive_name(self) -> str:
        """The name of the archived file."""
        return f"{self.kind}_{self.id.partition('@')[0]}.json"


def kind_of(name: str, plan_id: str = "") -> str | None:
    """Return the kind of a control file by its name in the folder of a plan; None for other files."""
    if not name.endswith(".json") or name.endswith(root_layout.MESSAGE):
        return None
    kind = next((kind for kind in _MODELS if name.startswith(f"{kind}_")), None)
    return None if kind == "mail" and plan_id != _MAIL else kind


def read(kind: str, data: bytes, *, owner: str, plan_id: str) -> ControlFile | Rejection:
    """Read a control file from the outbox of `owner` for `plan_id`."""
    model = _MODELS[kind]
    try:
        normalized, repairs = foreign_forms.normalize_document(model, wire.read(data, limit=model.size_limit))
        document = model.from_json(normalized)
    except JsonError as error:
        problem = Problem(error.code, "", error.message, error.hint)
        return Rejection(Code.ENVELOPE_PARSE_ERROR, error.message, (problem,))
    except ContractError as error:
        unsupported = any(problem.code is Code.SCHEMA_VERSION_UNSUPPORTED for problem in error.problems)
        code = Code.SCHEMA_VERSION_UNSUPPORTED if unsupported else Code.SCHEMA_INVALID
        first = next((problem for problem in error.problems if problem.code is code), error.problems[0])
        where = f"{first.field}: " if first.field else ""
        return Rejection(code, where + first.message, error.problems)
    author, about_plan = _author(document), getattr(document, "plan_id", None)
    if author is not None and author != owner:
        return Rejection(Code.PRODUCER_MISMATCH, f"it speaks for {author!r}, but {owner!r} owns the outbox")
    if about_plan is not None and about_plan != plan_id:
        return Rejection(Code.PLAN_MISMATCH, f"it is for plan {about_plan!r} but lies in the folder of {plan_id!r}")
    return ControlFile(kind, _id(document, owner), owner, document, wire.sha256(data), repairs)


def _author(document: Document) -> str | None:
    """Return the agent that a document names as its author. Only the gateway may write answers of people."""
    match document:
        case Ack():
            return document.consumer_agent_id
        case TaskStateReport() | CheckDispute():
            return document.agent_id
        case HumanInterventionRequest():
            return document.created_by.agent_id
        case HumanInterventionResponse():
            return root_layout.GATEWAY
        case DecisionRecord():
            return document.decided_by_agent_id
        case ReexecuteRequest():
            return document.validation_result.validator
        case ArtifactValidationResult():
            return document.validator_agent_id
        case Alert():
            return document.source.agent_id if document.source else None
        case Mail():
            return document.sender
    return None


def _id(document: Document, owner: str) -> str:
    """Return the id of a file's subject. Several agents may use the same id for some kinds, so the owner is added."""
    kind = type(document)
    name = str(getattr(document, _NAMED[kind]))
    return f"{name}@{owner}" if kind in _OF_OWNER else name


def advance(control: ControlFile, earlier: Document | None, earlier_sha256: str, now: datetime) -> Step | Rejection:
    """Decide what a control file changes about an earlier one with its id.

    A receipt may go from CONSUMED to a final status, once. A later state of a task replaces an earlier one. Any state
    replaces one from the future, because its agent's clock was wrong. A refusal may be repeated. Nothing else changes.
    """
    if earlier is None:
        return "new"
    if isinstance(control.document, ReexecuteRequest):
        return "advance"
    if control.sha256 == earlier_sha256:
        return "same"
    match control.document, earlier:
        case Ack() as new, Ack() as old:
            if new.status == old.status:
                return "same"
            if old.status == "CONSUMED":
                return "advance"
        case TaskStateReport() as new, TaskStateReport() as old:
            return "advance" if new.updated_at >= old.updated_at or old.updated_at > now else "same"
    return Rejection(Code.CONTROL_CHANGED, f"{control.kind} {control.id!r} was collected before and says otherwise")
