"""Questions to people and their answers, and requests for a new plan."""

from typing import Any, Literal

from agenttalk.contracts.core.base import (
    AgentIdText,
    Document,
    IdText,
    Instant,
    Many,
    Part,
    PlanIdText,
    Sha256,
    TaskIdText,
    Text,
)

RequestType = Literal["MISSING_FILE", "DECISION", "APPROVAL", "CLARIFY", "REEXECUTE_LIMIT"]


class RequestOrigin(Part):
    """Who asks, and about what."""

    agent_id: AgentIdText
    """The agent."""
    task_id: TaskIdText | None = None
    """The task."""
    command_id: str | None = None
    """The command."""


class NeededFile(Part):
    """A file that a person is asked for."""

    name: Text
    """Its name."""
    description: str | None = None
    """What it is."""
    sensitivity: str | None = None
    """How to handle it."""
    deliver_to_agent_id: AgentIdText | None = None
    """Who needs it."""


class DecisionOption(Part):
    """One way to decide."""

    key: Text
    """The key to answer with."""
    label: Text
    """What it means."""
    impact: str | None = None
    """Its consequence."""


class NeededDecision(Part):
    """A decision that a person is asked for."""

    question: Text
    """The question."""
    options: Many[DecisionOption] = ()
    """Ways to decide."""
    default: str | None = None
    """The decision without an answer."""


class Needed(Part):
    """What a person is asked for."""

    files: Many[NeededFile] = ()
    """Files."""
    decision: NeededDecision | None = None
    """A decision."""
    criteria: Any = None
    """What a good answer must meet."""


class HumanInterventionRequest(Document):
    """A question to a person (`human_intervention_request_*.json`)."""

    request_id: IdText
    """Its id."""
    created_by: RequestOrigin
    """Who asks."""
    severity: Text
    """How urgent."""
    type: RequestType
    """What kind of answer is needed."""
    title: Text
    """The question, in one line."""
    blocking: bool = True
    """Whether work waits for the answer."""
    needed: Needed = Needed.model_construct()
    """What the answer must contain."""
    deadline: Instant | None = None
    """The deadline."""


class Responder(Part):
    """Who answered."""

    name: Text
    """Name."""
    role: str | None = None
    """Role."""


class ProvidedFile(Part):
    """A file from a person."""

    name: Text
    """Its name."""
    sha256: Sha256
    """Hash of its bytes."""
    deliver_to_agent_id: AgentIdText | None = None
    """Its receiver."""


class HumanInterventionResponse(Document):
    """A person's answer (`human_intervention_response_*.json`)."""

    request_id: IdText
    """The question."""
    responded_at: Instant
    """When."""
    responder: Responder
    """Who."""
    decision: Literal["PROVIDE", "APPROVE", "REJECT", "ABORT"]
    """The decision."""
    provided_files: Many[ProvidedFile] = ()
    """The files."""
    decision_answers: Many[Any] = ()
    """The answers."""
    notes: str | None = None
    """A note."""


class CheckDispute(Document):
    """An agent's dispute of a check of its task (`check_dispute_*.json`). A person decides about it."""

    dispute_id: IdText
    """Its id, which the agent chooses."""
    plan_id: PlanIdText
    """The plan."""
    task_id: TaskIdText
    """The task."""
    agent_id: AgentIdText
    """The agent that disputes the check."""
    check: Text
    """The check, as the promise names it."""
    reason: Text
    """Why it is wrong."""


class ReplanTrigger(Part):
    """Why a new plan is needed."""

    type: Text
    """A code."""
    failed_task_id: TaskIdText | None = None
    """The task that failed."""
    downstream_task_id: TaskIdText | None = None
    """The task that cannot continue."""


class ReplanRequest(Document):
    """A request for a new plan."""

    request_id: IdText
    """Its id."""
    trigger: ReplanTrigger
    """What happened."""
    reason: Text
    """In words."""
    recommendation: str | None = None
    """What is proposed."""
    deliver_to_agent_id: AgentIdText
    """The planner or person that is asked."""
