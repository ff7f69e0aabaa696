"""The files of a plan: its manifest, its status, and the active DAG."""

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
from agenttalk.contracts.core.vocabulary import BoardStatus, Freshness, TaskState
from agenttalk.contracts.promise import AnyCheck


class ActiveDagRef(Document):
    """Which DAG of a plan is in force (`active_dag_ref.json`)."""

    plan_id: PlanIdText
    """The plan."""
    dag_kind: Literal["meta", "business"] = "business"
    """Whether the DAG plans the work or is the work."""
    task_dag_sha256: Sha256
    """Hash of task_dag.json."""
    task_dag_revision: Count | None = None
    """Its revision."""
    updated_at: Instant | None = None
    """When it became active."""


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
    """When it is acceptable, in any form. The engine stores it, and does not enforce it."""


class PhaseTimeout(Part):
    """How long a phase may take, and the decision after that."""

    timeout_seconds: Positive
    """Limit."""
    default_decision: str | None = None
    """The decision when none was made in time."""


class PhaseTimeouts(Part):
    """Time limits of the phases that need a decision."""

    dag_review: PhaseTimeout | None = None
    """Review of the DAG."""
    artifact_validation: PhaseTimeout | None = None
    """Validation of artifacts."""
    release_gate: PhaseTimeout | None = None
    """Release; never defaults to approve."""


class GatePolicy(Part):
    """How a release gate gets its result: by a check that the engine runs, or from a trusted validator."""

    check: AnyCheck | None = None
    """The check that the engine runs."""
    on: Literal["tip", "artifacts"] | None = None
    """Where the check runs: at the tip of the plan's branch, or on the shipped files."""
    validator: AgentIdText | None = None
    """The agent whose task delivers the result."""


class ReleasePolicy(Part):
    """What a plan ships, and the gates before that."""

    gates: dict[str, GatePolicy] = {}
    """Gate → how it gets its result."""
    deliverables: Many[Deliverable] = ()
    """What is shipped."""
    accepted_by: Many[AgentIdText] = ()
    """Agents that must have accepted every one of them."""


class ReviewPolicy(Part):
    """The review of the DAG, before any of its tasks starts."""

    reviewers: Many[AgentIdText]
    """Agents that score it."""
    coordinator: AgentIdText | None = None
    """The agent that decides. Without one, a rule decides."""
    min_score: Score = 70
    """The least score that every reviewer must give."""
    criteria: str | None = None
    """The criteria of the score."""


class Policies(Part):
    """Rules of a plan."""

    max_reexecute_times: Count = 3
    """Rounds of rework per task."""
    timeout_default_seconds: Positive = 3600
    """Time limit of tasks that set none."""
    timeouts: PhaseTimeouts | None = None
    """Time limits of decisions."""
    release_gates_required: Many[str] = ()
    """Gates that a release needs."""
    planner: AgentIdText | None = None
    """The agent that is asked for a new plan. People are always asked, too."""
    release: ReleasePolicy | None = None
    """What is shipped at the end, if anything."""
    review: ReviewPolicy | None = None
    """The review that must approve the DAG before work starts, if there is one."""


class Workspace(Part):
    """The repository that tasks of a plan work on."""

    repo: Text
    """Its folder or address. A relative path starts at the folder of the plan file."""
    base: Text | None = None
    """The branch that the plan starts from. Default: the one that is checked out."""
    uncommitted: Literal["leave", "take"] = "leave"
    """Whether uncommitted changes are included: then the plan starts from a commit of the work tree as it is, and
    neither the branch nor the index changes. Otherwise the plan does not see them."""
    prepare: Text | None = None
    """Command line that prepares a fresh clone."""
    link: Many[RelativePath] = ()
    """Folders that all clones share."""


class PlanLimits(Part):
    """The budget of a whole plan."""

    max_running: Annotated[int, Field(ge=1, le=1000)] | None = None
    """How many of its tasks run at the same time."""
    tokens: Positive | None = None
    """Input and output tokens."""
    cost_usd: Number | None = None
    """Money."""
    seconds: Positive | None = None
    """Wall time."""
    tool_calls: Positive | None = None
    """Tool calls."""


class PlanManifest(Document):
    """The agents, deliverables and policies of a plan (`plan_manifest.json`)."""

    plan_id: PlanIdText
    """The plan."""
    plan_name: str | None = None
    """Its name."""
    commanders: Many[AgentIdText] | None = None
    """Agents that may send commands. If absent, the default of the plan's origin applies; if empty, no agent may."""
    agents: Many[ManifestAgent] = ()
    """Its agents."""
    deliverables: Many[Deliverable] = ()
    """Its deliverables."""
    policies: Policies = Policies.model_construct()
    """Its policies."""
    project: IdText | None = None
    """The project that it belongs to."""
    workspace: Workspace | None = None
    """The repository that its tasks work on."""
    limits: PlanLimits | None = None
    """Its budget."""


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
    """Its agent."""
    state: TaskState
    """Its state."""
    updated_at: Instant | None = None
    """Since when."""
    attempts: Attempts = Attempts.model_construct()
    """How often it was tried."""
    blocking: Blocking | None = None
    """Why it waits."""
    origin: Literal["engine", "foreign"] | None = None
    """`foreign` where the engine does not run the plan, and knows only what agents say."""
    board: BoardStatus | None = None
    """Its state in a word, as people see it."""
    proven: bool | None = None
    """Whether it is completed by more than its agent's word. Only of a completed task."""
    freshness: Freshness | None = None
    """Whether the evidence of a completed task still holds. Only where the engine has seen evidence."""
    isolated: bool | None = None
    """Whether all that it rests on ran in a sandbox. Only where it rests on anything yet."""
    cause: str | None = None
    """Why its state last changed, in a plan that the engine runs."""


class BlockedSummary(Part):
    """How many tasks wait, and for what."""

    waiting_input: Annotated[Count, Field(alias="INPUT")] = 0
    """For an input."""
    waiting_review: Annotated[Count, Field(alias="REVIEW")] = 0
    """For a review."""
    waiting_human: Annotated[Count, Field(alias="HUMAN")] = 0
    """For a person."""


class PlanStatus(Document):
    """The status of every task of a plan (`plan_status.json`)."""

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
    """Gates with their states."""
