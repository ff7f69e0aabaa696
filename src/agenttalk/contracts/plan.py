"""The plan as files show it: its manifest, its status, and which DAG is active."""

from typing import Annotated, Any, Literal

from pydantic import Field

from agenttalk.contracts.core.base import (
    AgentIdText,
    Count,
    Document,
    IdText,
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
from agenttalk.contracts.core.vocabulary import TaskState
from agenttalk.contracts.promise import AnyCheck


class ActiveDagRef(Document):
    """Which DAG of a plan is in force (`active_dag_ref.json`)."""

    plan_id: PlanIdText
    """The plan."""
    dag_kind: Literal["meta", "business"] = "business"
    """Whether it plans the work or is the work."""
    task_dag_sha256: Sha256
    """Hash of task_dag.json."""
    task_dag_revision: Count | None = None
    """Its revision."""
    updated_at: Instant | None = None
    """When it was switched to."""


class ManifestAgent(Part):
    """An agent of the plan."""

    agent_id: AgentIdText
    """Its id."""
    required: bool = True
    """Whether the plan can do without it."""


class Deliverable(Part):
    """A result of the whole plan."""

    name: Text
    """Name of the output."""
    from_task_id: TaskIdText | None = None
    """The task that makes it."""
    accept_if: str | dict[str, Any] | None = None
    """When it is acceptable, in words or as another party writes it. It is kept, and nothing here enforces it."""


class PhaseTimeout(Part):
    """How long a phase may take and what then holds."""

    timeout_seconds: Positive
    """Limit."""
    default_decision: str | None = None
    """What holds when nobody decided."""


class PhaseTimeouts(Part):
    """Limits of the phases in which somebody must decide."""

    dag_review: PhaseTimeout | None = None
    """Review of the DAG."""
    artifact_validation: PhaseTimeout | None = None
    """Validation of artifacts."""
    release_gate: PhaseTimeout | None = None
    """Release; never defaults to approve."""


class GatePolicy(Part):
    """How a release gate gets its result: by a check of the engine's own, or from a trusted validator."""

    check: AnyCheck | None = None
    """What the engine does itself."""
    on: Literal["tip", "artifacts"] | None = None
    """Where it does so: at the tip of the plan's branch, or on what is shipped."""
    validator: AgentIdText | None = None
    """The agent whose task delivers the result."""


class ReleasePolicy(Part):
    """What a plan ships, and what must be shown before."""

    gates: dict[str, GatePolicy] = {}
    """Gate → how it gets its result."""
    deliverables: Many[Deliverable] = ()
    """What is shipped."""
    accepted_by: Many[AgentIdText] = ()
    """Agents that must have accepted every one of them."""


class ReviewPolicy(Part):
    """Who looks at the DAG before any of its tasks begins."""

    reviewers: Many[AgentIdText]
    """Agents that score it."""
    coordinator: AgentIdText | None = None
    """The agent that decides; without one a rule does."""
    min_score: Score = 70
    """The least that every reviewer must give."""
    criteria: str | None = None
    """What it is measured by."""


class Policies(Part):
    """Rules of a plan."""

    max_reexecute_times: Count = 3
    """Rounds of rework per task."""
    timeout_default_seconds: Positive = 3600
    """Limit of a task that names none."""
    timeouts: PhaseTimeouts | None = None
    """Limits of deciding."""
    release_gates_required: Many[str] = ()
    """Gates that a release needs."""
    planner: AgentIdText | None = None
    """The agent that is asked for a new plan; people are asked in any case."""
    release: ReleasePolicy | None = None
    """What is shipped at the end, if anything is."""
    review: ReviewPolicy | None = None
    """Who has to approve the DAG before it is worked on, if anybody has."""


class Workspace(Part):
    """The repository that tasks of a plan work on."""

    repo: Text
    """Its folder or address; a relative one is meant from beside the plan file."""
    base: Text | None = None
    """The branch that the plan starts from; by default the one that is checked out."""
    uncommitted: Literal["leave", "take"] = "leave"
    """Whether what is not committed there is taken along: then the plan starts from a commit of the work tree as it is,
    and neither the branch nor the index moves. Else the plan does not see it."""
    prepare: Text | None = None
    """Command line that makes a fresh clone ready."""
    link: Many[RelativePath] = ()
    """Folders that clones share instead of having their own."""


class PlanLimits(Part):
    """What a plan may use altogether."""

    max_running: Annotated[int, Field(ge=1, le=1000)] | None = None
    """How many of its tasks run at the same time."""
    tokens: Positive | None = None
    """Tokens in and out."""
    cost_usd: Number | None = None
    """Money."""
    seconds: Positive | None = None
    """Wall time."""
    tool_calls: Positive | None = None
    """Calls of tools."""


class PlanManifest(Document):
    """Who takes part in a plan, what it delivers and by which rules (`plan_manifest.json`)."""

    plan_id: PlanIdText
    """The plan."""
    plan_name: str | None = None
    """Its name."""
    commanders: Many[AgentIdText] | None = None
    """Agents that may send commands; absent means the default of the plan's origin, empty means nobody."""
    agents: Many[ManifestAgent] = ()
    """Who takes part."""
    deliverables: Many[Deliverable] = ()
    """What it delivers."""
    policies: Policies = Policies.model_construct()
    """Its rules."""
    project: IdText | None = None
    """The project that it belongs to."""
    workspace: Workspace | None = None
    """The repository that its tasks work on."""
    limits: PlanLimits | None = None
    """What it may use altogether."""


class Attempts(Part):
    """How often a task was tried."""

    reexecute_count: Count = 0
    """Rounds of rework."""
    retry_count: Count = 0
    """Retries after crashes and timeouts."""


class Blocking(Part):
    """Why a task waits."""

    reason: Text
    """What it waits for."""
    missing: Many[str] | None = None
    """Inputs that are missing."""
    started_at: Instant | None = None
    """Since when."""
    request_id: str | None = None
    """The human request about it."""


class TaskStatus(Part):
    """A task in the plan's status."""

    task_id: TaskIdText
    """The task."""
    assigned_agent_id: AgentIdText
    """Who does it."""
    state: TaskState
    """Where it stands."""
    updated_at: Instant | None = None
    """Since when."""
    attempts: Attempts = Attempts.model_construct()
    """How often it was tried."""
    blocking: Blocking | None = None
    """Why it waits."""


class BlockedSummary(Part):
    """How many tasks wait, and for what."""

    waiting_input: Annotated[Count, Field(alias="INPUT")] = 0
    """For an input."""
    waiting_review: Annotated[Count, Field(alias="REVIEW")] = 0
    """For a review."""
    waiting_human: Annotated[Count, Field(alias="HUMAN")] = 0
    """For a person."""


class PlanStatus(Document):
    """Where every task of a plan stands (`plan_status.json`)."""

    plan_id: PlanIdText
    """The plan."""
    active_task_dag_sha256: Sha256
    """The DAG in force."""
    updated_at: Instant
    """When this was written."""
    tasks: Many[TaskStatus]
    """Each task."""
    blocked_summary: BlockedSummary = BlockedSummary.model_construct()
    """How many wait."""
    gates_summary: dict[str, Any] = {}
    """Gates and where they stand."""
