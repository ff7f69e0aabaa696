"""The plan file: one YAML or JSON file with the tasks, agents, inputs, outputs and promises of a plan."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field

from agenttalk.contracts.agent import (
    AcpUseSpec,
    CliUseSpec,
    Floor,
    ProgramLimitsSpec,
    Switch,
    Tier,
    normalize_cli,
)
from agenttalk.contracts.command import Priority, ValidationCriteria
from agenttalk.contracts.core import quick_validation
from agenttalk.contracts.core.base import (
    AgentIdText,
    Count,
    IdText,
    InputPattern,
    Many,
    Part,
    PlanIdText,
    Positive,
    Score,
    Sha256,
    TaskIdText,
    Text,
)
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.dag import (
    Branch,
    DependencyFailure,
    Gates,
    PickPolicy,
    Receiver,
    ScoreCondition,
    Versioning,
)
from agenttalk.contracts.model_use import LlmUseSpec, LocalUseSpec
from agenttalk.contracts.plan import PhaseTimeout, PhaseTimeouts, PlanLimits, Policies, Workspace
from agenttalk.contracts.promise import (
    AnyCheck,
    CompletionPromise,
)

PLACEHOLDER_ID: Final = "cp-0-0000"
"""The id of a promise that is not submitted yet."""


class PlanFilePart(Part, extra="forbid", validate_by_name=False):
    """An object of the plan file. Unknown keys are errors."""


class InputSpec(PlanFilePart):
    """An input of a task. Exactly one of `from`, `glob`, `file` and `type` selects its files."""

    name: Text
    """Name of the input inside the task."""
    source: Annotated[InputPattern | None, Field(alias="from")] = None
    """Name of an output."""
    glob: InputPattern | None = None
    """Glob over names of outputs and files."""
    file: InputPattern | None = None
    """Name of a file."""
    type: Text | None = None
    """Type of a message."""
    subtype: Text | None = None
    """Its subtype; only with `type`."""
    pick: PickPolicy | None = None
    """Which file is taken when several match."""
    allowed_hashes: Many[Sha256] | None = None
    """What `pick: by_sha256` chooses from."""
    min_count: Positive | None = None
    """Fewest matches."""
    required: bool = True
    """Whether the task can run without it."""
    external: bool = False
    """Whether it comes from a person or from outside."""


class VersioningSpec(Versioning, extra="forbid"):
    """What happens to a second version of an output."""


class OutputSpec(PlanFilePart):
    """An output of a task."""

    name: Text
    """Name of the output. The task makes a file or folder of that name."""
    deliver_to: Many[Receiver] = ()
    """Agents that receive it, besides the tasks that use it with `from`."""
    deliverable: bool = False
    """Whether it is a result of the whole plan."""
    when: ScoreCondition | None = None
    """A condition on the score: the output is made only if it holds."""
    optional: bool = False
    """Whether it may be missing."""
    content_type: str | None = None
    """Media type."""
    versioning: VersioningSpec | None = None
    """What happens to a second version."""


class BranchSpec(Branch, extra="forbid"):
    """Tasks that run only for certain scores."""


class GatesSpec(Gates, extra="forbid"):
    """What must be met before a task counts as completed."""

    required: bool = True
    """Whether they must be met. In a plan file they must."""
    branches: Many[BranchSpec] = ()
    """The branches by score."""


class CriteriaSpec(ValidationCriteria, extra="forbid"):
    """What an input must meet before it is used."""


def _numbered(data: object) -> object:
    return {**data, "id": PLACEHOLDER_ID} if isinstance(data, dict) else data


class TaskSpec(PlanFilePart):
    """One task."""

    id: TaskIdText
    """Its id."""
    name: str | None = None
    """Its name, for people."""
    agent: AgentIdText
    """Its agent."""
    race: Many[AgentIdText] = ()
    """Agents that do it at the same time as its own agent, each in a clone of its own. The first proven work counts."""
    needs: Many[TaskIdText] = ()
    """Tasks that must be done before it."""
    inputs: Many[InputSpec] = ()
    """Its inputs."""
    prompt: Text
    """Its instructions."""
    workspace: Literal["repo"] | None = None
    """`repo` for a private clone of the plan's repository."""
    outputs: Many[OutputSpec] = ()
    """Its outputs."""
    promise: Annotated[CompletionPromise, BeforeValidator(_numbered)] | None = None
    """Its promise, without an id."""
    criteria: Annotated[dict[str, CriteriaSpec] | None, Field(alias="validate")] = None
    """Name of an input → what the input must meet before it is used."""
    score_required: bool | None = None
    """Whether its result carries a score."""
    score_criteria: Text | None = None
    """The criteria of the score."""
    gates: GatesSpec | None = None
    """What must be met before it counts as completed."""
    timeout: Positive | None = None
    """Time limit in seconds."""
    retry_times: Count | None = None
    """Retries after a crash or timeout."""
    priority: Priority | None = None
    """HIGH before MEDIUM before LOW."""
    on_complete: Text | None = None
    """Log text on completion; {result} and {score} are filled in."""
    on_failure: Text | None = None
    """Log text on failure; {error} is filled in."""
    on_dependency_failed: DependencyFailure | None = None
    """What happens when a task that it needs has failed."""
    fallback: TaskIdText | None = None
    """The task that replaces a failed one."""
    reexecute_target: AgentIdText | None = None
    """The agent that gets it when its own agent reports that it is not fit for it."""
    max_reexecute_times: Count | None = None
    """Rounds of rework."""


class AgentSpec(PlanFilePart):
    """An agent, as the plan file describes it."""

    name: str | None = None
    """Its name, for people."""
    email: Text | None = None
    """The author's address of its commits."""
    driver: Text | None = None
    """Its driver."""
    argv: Many[str] | None = None
    """The program and its arguments."""
    cli: Annotated[CliUseSpec, BeforeValidator(normalize_cli)] | None = None
    """The coding agent of the driver `cli`: its name, or an object with more settings."""
    llm: LlmUseSpec | None = None
    """The model of the driver `llm`."""
    local: LocalUseSpec | None = None
    """The model of the driver `local`."""
    acp: Annotated[AcpUseSpec, BeforeValidator(normalize_cli)] | None = None
    """The coding agent and permissions of the driver `acp`: its name, or an object with more settings."""
    fallback: AgentIdText | None = None
    """The agent that does its tasks while its account waits, because a limit of its provider is reached."""
    prompt: str | None = None
    """Its role, in words."""
    skills: Many[str] | None = None
    """What it can do."""
    inputs: Many[str] | None = None
    """Inputs that it handles."""
    outputs: Many[str] | None = None
    """Outputs that it makes."""
    locale: Locale | None = None
    """The language of its prompts."""
    env: Annotated[Many[Text], Field(max_length=100)] | None = None
    """Names of environment variables that its program gets."""
    limits: ProgramLimitsSpec | None = None
    """Resource limits of its program."""
    sandbox: Tier | None = None
    """The sandbox of its program."""
    isolation: Floor | None = None
    """The least isolation of its program and of the checks of its work."""
    network: Switch | None = None
    """Whether its program may use the network."""
    mcp: bool | None = None
    """Whether a coding agent gets our MCP server."""
    self_assessment: Any = None
    """Whether, and how, it first judges its fitness for a command."""
    pool: IdText | None = None
    """The pool of workers whose machines run it."""
    needs: Many[IdText] | None = None
    """Labels that a worker has to have to run it."""
    worker_ttl_seconds: Positive | None = None
    """Seconds for which its attempt goes on while its worker does not reach the engine."""


class WorkspaceSpec(Workspace, extra="forbid"):
    """The repository that tasks work on."""


class PhaseTimeoutSpec(PhaseTimeout, extra="forbid"):
    """How long a phase may take."""


class PhaseTimeoutsSpec(PhaseTimeouts, extra="forbid"):
    """Time limits of the phases that need a decision."""

    dag_review: PhaseTimeoutSpec | None = None
    artifact_validation: PhaseTimeoutSpec | None = None
    release_gate: PhaseTimeoutSpec | None = None


class PoliciesSpec(Policies, extra="forbid"):
    """Policies of the plan."""

    timeouts: PhaseTimeoutsSpec | None = None
    """Time limits of decisions."""
    commanders: Many[AgentIdText] | None = None
    """Agents that may send commands. Default: only the engine and operators."""
    release: None = None
    """Is a key at the top of the file."""
    review: None = None
    """Is a key at the top of the file."""


class LimitsSpec(PlanLimits, extra="forbid"):
    """The budget of the whole plan."""


class GateSpec(PlanFilePart):
    """How a release gate gets its result: the keys of a check, or `validator`."""

    check: AnyCheck | None = None
    on: Literal["tip", "artifacts"] | None = None
    """Where the check runs. Default: at the tip of the plan's branch, if it has one."""
    validator: AgentIdText | None = None
    """The agent whose task delivers the result."""


def _named_gates(data: object) -> object:
    """Convert gates to the form of their models: the check apart from its place, with the gate's name as its id."""
    if not isinstance(data, dict):
        return data
    return {
        name: {key: gate[key] for key in BESIDE_CHECK if key in gate}
        | ({"check": _gate_check(name, gate)} if "kind" in gate else _left(gate))
        if isinstance(gate, dict)
        else gate
        for name, gate in data.items()
    }


BESIDE_CHECK: Final = ("on", "validator")
"""Keys of a gate that do not belong to its check."""


def _gate_check(name: object, gate: dict[Any, Any]) -> dict[Any, Any]:
    return {"red_first": "off", **{key: gate[key] for key in gate if key not in BESIDE_CHECK}, "id": str(name)}


def _left(gate: dict[Any, Any]) -> dict[Any, Any]:
    """Keys that a gate without a check does not have. The file has no key `check`."""
    return {f"{key} " if key == "check" else key: gate[key] for key in gate if key not in BESIDE_CHECK}


class ReleaseSpec(PlanFilePart):
    """What the plan ships, and the gates before that."""

    gates: Annotated[dict[Text, GateSpec], BeforeValidator(_named_gates)] = {}
    """Gate → how it gets its result."""
    deliverables: Many[Text] = ()
    """Outputs that are shipped. Default: those that are marked as deliverable."""
    accepted_by: Many[AgentIdText] = ()
    """Agents that must have accepted each of them."""


class ReviewSpec(PlanFilePart):
    """The review of the plan before it starts."""

    reviewers: Many[AgentIdText]
    """Agents that score it."""
    coordinator: AgentIdText | None = None
    """The agent that decides. Without one, a rule decides."""
    min_score: Score = 70
    """The least score that every reviewer must give."""
    criteria: str | None = None
    """The criteria of the score."""


class PlanFile(PlanFilePart):
    """A whole plan."""

    plan_id: PlanIdText
    """Its id."""
    name: str | None = None
    """Its name, for people."""
    project: IdText = "default"
    """The project that it belongs to."""
    workspace: WorkspaceSpec | None = None
    """The repository that tasks with `workspace: repo` work on."""
    policies: PoliciesSpec = PoliciesSpec.model_construct()
    """Its policies."""
    limits: LimitsSpec | None = None
    """The budget of the whole plan."""
    release: ReleaseSpec | None = None
    """What is shipped at the end."""
    review: ReviewSpec | None = None
    """The review that must approve the plan before it starts."""
    agents: dict[AgentIdText, AgentSpec] = {}
    """Its agents. Agents may also be described in agenttalk.toml."""
    tasks: Many[TaskSpec]
    """Its tasks."""

    @classmethod
    def read(cls, data: object) -> Self:
        """Read a plan file from JSON values, without copying its tasks."""
        return quick_validation.validate_quickly(cls, data, "tasks") or super().read(data)
