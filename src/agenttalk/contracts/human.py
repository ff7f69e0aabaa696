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
    """How it has to be handled."""
    deliver_to_agent_id: AgentIdText | None = None
    """Who needs it."""


class DecisionOption(Part):
    """One way to decide."""

    key: Text
    """What to answer."""
    label: Text
    """What it means."""
    impact: str | None = None
    """What follows from it."""


class NeededDecision(Part):
    """A decision that a person is asked for."""

    question: Text
    """What is asked."""
    options: Many[DecisionOption] = ()
    """Ways to decide."""
    default: str | None = None
    """What holds without an answer."""


class Needed(Part):
    """What a person is asked for."""

    files: Many[NeededFile] = ()
    """Files."""
    decision: NeededDecision | None = None
    """A decision."""
    criteria: Any = None
    """What a good answer meets."""


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
    """The question in a line."""
    blocking: bool = True
    """Whether work waits for it."""
    needed: Needed = Needed.model_construct()
    """What is asked for."""
    deadline: Instant | None = None
    """Until when."""


class Responder(Part):
    """Who answered."""

    name: Text
    """Name."""
    role: str | None = None
    """Role."""


class ProvidedFile(Part):
    """A file that a person gave."""

    name: Text
    """Its name."""
    sha256: Sha256
    """Hash of its bytes."""
    deliver_to_agent_id: AgentIdText | None = None
    """Who gets it."""


class HumanInterventionResponse(Document):
    """A person's answer (`human_intervention_response_*.json`)."""

    request_id: IdText
    """The question."""
    responded_at: Instant
    """When."""
    responder: Responder
    """Who."""
    decision: Literal["PROVIDE", "APPROVE", "REJECT", "ABORT"]
    """What was answered."""
    provided_files: Many[ProvidedFile] = ()
    """Files given."""
    decision_answers: Many[Any] = ()
    """Answers given."""
    notes: str | None = None
    """Anything else."""


class CheckDispute(Document):
    """An agent's word that a check of its task is wrong (`check_dispute_*.json`). A person decides about it."""

    dispute_id: IdText
    """Its id, the agent's own."""
    plan_id: PlanIdText
    """The plan."""
    task_id: TaskIdText
    """The task."""
    agent_id: AgentIdText
    """Who says it."""
    check: Text
    """The check, as the promise names it."""
    reason: Text
    """Why it is wrong."""


class ReplanTrigger(Part):
    """Why a new plan is asked for."""

    type: Text
    """A code."""
    failed_task_id: TaskIdText | None = None
    """The task that failed."""
    downstream_task_id: TaskIdText | None = None
    """The task that cannot go on."""


class ReplanRequest(Document):
    """A request to plan anew."""

    request_id: IdText
    """Its id."""
    trigger: ReplanTrigger
    """What happened."""
    reason: Text
    """In words."""
    recommendation: str | None = None
    """What is proposed."""
    deliver_to_agent_id: AgentIdText
    """The planner or person asked."""
