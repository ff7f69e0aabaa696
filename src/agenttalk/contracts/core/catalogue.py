"""Every document under its public name, and its JSON Schema."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import Command, ReexecuteRequest
from agenttalk.contracts.core.field_docs import DocumentedJsonSchema
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.human import CheckDispute, HumanInterventionRequest, HumanInterventionResponse, ReplanRequest
from agenttalk.contracts.mail import Mail
from agenttalk.contracts.plan import ActiveDagRef, PlanManifest, PlanStatus
from agenttalk.contracts.policy import AuditPolicy
from agenttalk.contracts.promise import CompletionPromise, GateResult
from agenttalk.contracts.record import (
    Ack,
    Alert,
    CommandResult,
    DeadletterEntry,
    DeliveryEntry,
    InputIndex,
    StatusHeartbeat,
    TaskStateReport,
)
from agenttalk.contracts.validation import (
    ArtifactValidationResult,
    DagReviewResult,
    DecisionRecord,
    ReleaseGateResult,
    ReleaseManifest,
    ValidationFeedback,
)

DOCUMENTS: dict[str, type[BaseModel]] = {
    "ack": Ack,
    "active_dag_ref": ActiveDagRef,
    "agent_profile": AgentProfile,
    "alert": Alert,
    "artifact_envelope": ArtifactEnvelope,
    "artifact_validation_result": ArtifactValidationResult,
    "audit_policy": AuditPolicy,
    "check_dispute": CheckDispute,
    "command": Command,
    "command_envelope": CommandEnvelope,
    "command_result": CommandResult,
    "completion_promise": CompletionPromise,
    "dag_review_result": DagReviewResult,
    "deadletter_entry": DeadletterEntry,
    "decision_record": DecisionRecord,
    "delivery_entry": DeliveryEntry,
    "gate_result": GateResult,
    "human_intervention_request": HumanInterventionRequest,
    "human_intervention_response": HumanInterventionResponse,
    "input_index": InputIndex,
    "mail": Mail,
    "plan_manifest": PlanManifest,
    "plan_status": PlanStatus,
    "reexecute_request": ReexecuteRequest,
    "release_gate_result": ReleaseGateResult,
    "release_manifest": ReleaseManifest,
    "replan_request": ReplanRequest,
    "status_heartbeat": StatusHeartbeat,
    "task_dag": TaskDag,
    "task_state": TaskStateReport,
    "validation_feedback": ValidationFeedback,
}
"""Public name → model. The names are those of the files where there is one."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document; raises UsageError for an unknown name."""
    if name not in DOCUMENTS:
        near = find_nearest(name, DOCUMENTS)
        raise UsageError(
            Code.NAME_UNKNOWN,
            f"there is no document called {name!r}",
            hint=f"did you mean {near!r}?" if near else "run 'agenttalk schema' for the list",
        )
    body = TypeAdapter(DOCUMENTS[name]).json_schema(mode="validation", schema_generator=DocumentedJsonSchema)
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": f"urn:agenttalk:schema:{name}", **body}


def summary(name: str) -> str:
    """Return the summary of a document, in one line."""
    return (DOCUMENTS[name].__doc__ or "").partition("\n")[0]
