"""The plan file: one YAML or JSON file in which a person says who does what, from what, and what done means."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field

from agenttalk.contracts.agent import AcpUse, CliUse, Floor, Locale, ProgramLimits, Switch, Tier, normalize_cli
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
from agenttalk.contracts.dag import (
    Branch,
    DependencyFailure,
    Gates,
    PickPolicy,
    Receiver,
    ScoreCondition,
    Versioning,
)
from agenttalk.contracts.model_use import LlmUse, LocalUse, Prices
from agenttalk.contracts.plan import PhaseTimeout, PhaseTimeouts, PlanLimits, Policies, Workspace
from agenttalk.contracts.promise import (
    AnyCheck,
    CompletionPromise,
)

PLACEHOLDER_ID: Final = "cp-0-0000"
"""The id of a promise that was not submitted yet."""


class PlanFilePart(Part):
    """An object of the plan file. Keys that nobody knows are errors."""

    model_config = ConfigDict(extra="forbid", validate_by_name=False)


class InputSpec(PlanFilePart):
    """Something that a task needs. One of `from`, `glob`, `file` and `type` says what fills it."""

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
    """Which one is taken when several match."""
    allowed_hashes: Many[Sha256] | None = None
    """What `pick: by_sha256` chooses from."""
    min_count: Positive | None = None
    """Fewest matches."""
    required: bool = True
    """Whether the task can run without it."""
    external: bool = False
    """Whether a person or something outside brings it."""


class VersioningSpec(Versioning):
    """What happens to a second version of an output."""

    model_config = ConfigDict(extra="forbid")


class OutputSpec(PlanFilePart):
    """Something that a task makes."""

    name: Text
    """Name of the output; a file or folder of that name is it."""
    deliver_to: Many[Receiver] = ()
    """Agents that receive it; whoever has it as an input `from` receives it anyway."""
    deliverable: bool = False
    """Whether it is a result of the whole plan."""
    when: ScoreCondition | None = None
    """It is made only when the score meets this."""
    optional: bool = False
    """Whether it may be missing."""
    content_type: str | None = None
    """Media type."""
    versioning: VersioningSpec | None = None
    """What happens to a second version."""


class BranchSpec(Branch):
    """Tasks that run only for certain scores."""

    model_config = ConfigDict(extra="forbid")


class GatesSpec(Gates):
    """What must be met before a task counts as completed."""

    model_config = ConfigDict(extra="forbid")

    required: bool = True
    """Whether they must be met; whoever writes them into a plan means it."""
    branches: Many[BranchSpec] = ()
    """Where the score leads."""


class CriteriaSpec(ValidationCriteria):
    """What an input must meet before it is used."""

    model_config = ConfigDict(extra="forbid")


def _numbered(data: object) -> object:
    return {**data, "id": PLACEHOLDER_ID} if isinstance(data, dict) else data


class TaskSpec(PlanFilePart):
    """One task."""

    id: TaskIdText
    """Its id."""
    name: str | None = None
    """Its name, for people."""
    agent: AgentIdText
    """Who does it."""
    needs: Many[TaskIdText] = ()
    """Tasks that come before it."""
    inputs: Many[InputSpec] = ()
    """What it works from."""
    prompt: Text
    """What to do."""
    workspace: Literal["repo"] | None = None
    """`repo` for a private clone of the plan's repository."""
    outputs: Many[OutputSpec] = ()
    """What it makes."""
    promise: Annotated[CompletionPromise, BeforeValidator(_numbered)] | None = None
    """What done means, without an id."""
    criteria: Annotated[dict[str, CriteriaSpec] | None, Field(alias="validate")] = None
    """Name of an input → what it must meet before it is used."""
    score_required: bool | None = None
    """Whether its result carries a score."""
    score_criteria: Text | None = None
    """What the score measures."""
    gates: GatesSpec | None = None
    """What must be met before it counts as completed."""
    timeout: Positive | None = None
    """Limit in seconds."""
    retry_times: Count | None = None
    """Retries after a crash or timeout."""
    priority: Priority | None = None
    """HIGH before MEDIUM before LOW."""
    on_complete: Text | None = None
    """What the log says when it is done; {result} and {score} are filled in."""
    on_failure: Text | None = None
    """What the log says when it has failed; {error} is filled in."""
    on_dependency_failed: DependencyFailure | None = None
    """What it does when something it needs has failed."""
    fallback: TaskIdText | None = None
    """The task that takes the place of a failed one."""
    reexecute_target: AgentIdText | None = None
    """Who does it when its agent says that it is not fit for it."""
    max_reexecute_times: Count | None = None
    """Rounds of rework."""


class ProgramLimitsSpec(ProgramLimits):
    """What a program may use."""

    model_config = ConfigDict(extra="forbid")


class PricesSpec(Prices):
    """What a model costs."""

    model_config = ConfigDict(extra="forbid")


class CliUseSpec(CliUse):
    """Which coding agent an agent is."""

    model_config = ConfigDict(extra="forbid")
    prices: PricesSpec | None = None
    """What its model costs."""


class LlmUseSpec(LlmUse):
    """Which model an agent is, and where that is asked."""

    model_config = ConfigDict(extra="forbid")
    prices: PricesSpec | None = None
    """What it costs."""


class LocalUseSpec(LocalUse):
    """Which model an agent is, and where its file lies."""

    model_config = ConfigDict(extra="forbid")


class AcpUseSpec(AcpUse):
    """Which coding agent an agent is that speaks the Agent Client Protocol, and what it may do."""

    model_config = ConfigDict(extra="forbid")
    prices: PricesSpec | None = None
    """What its model costs."""


class AgentSpec(PlanFilePart):
    """An agent, as the plan file describes it."""

    name: str | None = None
    """What people call it."""
    email: Text | None = None
    """The address of its commits."""
    driver: Text | None = None
    """How it is driven."""
    argv: Many[str] | None = None
    """The program and its arguments."""
    cli: Annotated[CliUseSpec, BeforeValidator(normalize_cli)] | None = None
    """Which coding agent it is, with the driver `cli`: its name, or an object with more."""
    llm: LlmUseSpec | None = None
    """Which model it is, with the driver `llm`."""
    local: LocalUseSpec | None = None
    """Which model it is, with the driver `local`."""
    acp: Annotated[AcpUseSpec, BeforeValidator(normalize_cli)] | None = None
    """Which coding agent it is and what it may do, with the driver `acp`: its name, or an object with more."""
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
    """Names of variables that its program gets."""
    limits: ProgramLimitsSpec | None = None
    """What its program may use."""
    sandbox: Tier | None = None
    """How its program is confined."""
    isolation: Floor | None = None
    """The least isolation of its program and of the checks of its work."""
    network: Switch | None = None
    """Whether its program may use the network."""
    mcp: bool | None = None
    """Whether a coding agent is given our MCP server."""
    self_assessment: Any = None
    """Whether, and how, it is asked first if it is fit for a command."""


class WorkspaceSpec(Workspace):
    """The repository that tasks work on."""

    model_config = ConfigDict(extra="forbid")


class PhaseTimeoutSpec(PhaseTimeout):
    """How long a phase may take."""

    model_config = ConfigDict(extra="forbid")


class PhaseTimeoutsSpec(PhaseTimeouts):
    """Limits of the phases in which somebody must decide."""

    model_config = ConfigDict(extra="forbid")

    dag_review: PhaseTimeoutSpec | None = None
    artifact_validation: PhaseTimeoutSpec | None = None
    release_gate: PhaseTimeoutSpec | None = None


class PoliciesSpec(Policies):
    """Rules of the plan."""

    model_config = ConfigDict(extra="forbid")

    timeouts: PhaseTimeoutsSpec | None = None
    """Limits of deciding."""
    commanders: Many[AgentIdText] | None = None
    """Agents that may send commands; by default nobody but the engine and operators."""
    release: None = None
    """Stands at the top of the file."""
    review: None = None
    """Stands at the top of the file."""


class LimitsSpec(PlanLimits):
    """What the plan may use altogether."""

    model_config = ConfigDict(extra="forbid")


class GateSpec(PlanFilePart):
    """How a release gate gets its result: the keys of a check, or `validator`."""

    check: AnyCheck | None = None
    on: Literal["tip", "artifacts"] | None = None
    """Where the check is made; by default at the tip of the plan's branch if it has one."""
    validator: AgentIdText | None = None
    """The agent whose task delivers the result."""


def _named_gates(data: object) -> object:
    """Gates as their models read them: a check stands apart from where it is made, and is called like its gate."""
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
"""Keys of a gate that are none of its check's."""


def _gate_check(name: object, gate: dict[Any, Any]) -> dict[Any, Any]:
    return {"red_first": "off", **{key: gate[key] for key in gate if key not in BESIDE_CHECK}, "id": str(name)}


def _left(gate: dict[Any, Any]) -> dict[Any, Any]:
    """Keys that are none of a gate without a check; `check` itself is no key of the file."""
    return {f"{key} " if key == "check" else key: gate[key] for key in gate if key not in BESIDE_CHECK}


class ReleaseSpec(PlanFilePart):
    """What the plan ships, and what must be shown before."""

    gates: Annotated[dict[Text, GateSpec], BeforeValidator(_named_gates)] = {}
    """Gate → how it gets its result."""
    deliverables: Many[Text] = ()
    """Outputs that are shipped; by default those that are marked as deliverable."""
    accepted_by: Many[AgentIdText] = ()
    """Agents that must have accepted each of them."""


class ReviewSpec(PlanFilePart):
    """Who looks at the plan before it begins."""

    reviewers: Many[AgentIdText]
    """Agents that score it."""
    coordinator: AgentIdText | None = None
    """The agent that decides; without one a rule does."""
    min_score: Score = 70
    """The least that every reviewer must give."""
    criteria: str | None = None
    """What it is measured by."""


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
    """Its rules."""
    limits: LimitsSpec | None = None
    """What it may use altogether."""
    release: ReleaseSpec | None = None
    """What is shipped at the end."""
    review: ReviewSpec | None = None
    """Who has to approve the plan before it begins."""
    agents: dict[AgentIdText, AgentSpec] = {}
    """Who takes part; agents may also be described in agenttalk.toml."""
    tasks: Many[TaskSpec]
    """What is to be done."""

    @classmethod
    def read(cls, data: object) -> Self:
        """Read from JSON values, however many tasks there are."""
        return quick_validation.validate_quickly(cls, data, "tasks") or super().read(data)
