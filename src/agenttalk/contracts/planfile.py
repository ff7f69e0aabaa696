"""The plan file: one YAML or JSON file in which a person says who does what, from what, and what done means."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agenttalk.contracts import quick, wire, yamltext
from agenttalk.contracts.agent import Locale, ProgramLimits, Switch, Tier
from agenttalk.contracts.base import (
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
from agenttalk.contracts.command import Priority, ValidationCriteria
from agenttalk.contracts.dag import (
    Branch,
    DependencyFailure,
    Gates,
    PickPolicy,
    Receiver,
    ScoreCondition,
    Versioning,
)
from agenttalk.contracts.memory import collector_paused
from agenttalk.contracts.plan import PhaseTimeout, PhaseTimeouts, PlanLimits, Policies, Workspace
from agenttalk.contracts.problem import field_path, nearest, problems_of
from agenttalk.contracts.promise import (
    CHECK_KINDS,
    AbortCondition,
    AcceptanceCriterion,
    AnyCheck,
    ArtifactCheck,
    Budget,
    Check,
    CompletionPromise,
    DoneCondition,
    FileCheck,
    GitCheck,
    HttpCheck,
    HumanCheck,
    JsonCheck,
    ReportCheck,
    RunCheck,
    TestsCheck,
)
from agenttalk.contracts.yamltext import MAX_PROBLEMS, Source, refusal
from agenttalk.errors import Code, JsonError, Problem

PLACEHOLDER_ID: Final = "cp-0-0000"
"""The id of a promise that was not submitted yet."""


class Spec(Part):
    """An object of the plan file. Keys that nobody knows are errors."""

    model_config = ConfigDict(extra="forbid", validate_by_name=False)


class InputSpec(Spec):
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


class OutputSpec(Spec):
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


class TaskSpec(Spec):
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


class AgentSpec(Spec):
    """An agent, as the plan file describes it."""

    name: str | None = None
    """What people call it."""
    driver: Text | None = None
    """How it is driven."""
    argv: Many[str] | None = None
    """The program and its arguments."""
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
    network: Switch | None = None
    """Whether its program may use the network."""
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


class GateSpec(Spec):
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
        name: {key: gate[key] for key in _BESIDE_CHECK if key in gate}
        | ({"check": _gate_check(name, gate)} if "kind" in gate else _left(gate))
        if isinstance(gate, dict)
        else gate
        for name, gate in data.items()
    }


_BESIDE_CHECK: Final = ("on", "validator")


def _gate_check(name: object, gate: dict[Any, Any]) -> dict[Any, Any]:
    return {"red_first": "off", **{key: gate[key] for key in gate if key not in _BESIDE_CHECK}, "id": str(name)}


def _left(gate: dict[Any, Any]) -> dict[Any, Any]:
    """Keys that are none of a gate without a check; `check` itself is no key of the file."""
    return {f"{key} " if key == "check" else key: gate[key] for key in gate if key not in _BESIDE_CHECK}


class ReleaseSpec(Spec):
    """What the plan ships, and what must be shown before."""

    gates: Annotated[dict[Text, GateSpec], BeforeValidator(_named_gates)] = {}
    """Gate → how it gets its result."""
    deliverables: Many[Text] = ()
    """Outputs that are shipped; by default those that are marked as deliverable."""
    accepted_by: Many[AgentIdText] = ()
    """Agents that must have accepted each of them."""


class ReviewSpec(Spec):
    """Who looks at the plan before it begins."""

    reviewers: Many[AgentIdText]
    """Agents that score it."""
    coordinator: AgentIdText | None = None
    """The agent that decides; without one a rule does."""
    min_score: Score = 70
    """The least that every reviewer must give."""
    criteria: str | None = None
    """What it is measured by."""


class PlanFile(Spec):
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
        return quick.validated(cls, data, "tasks") or super().read(data)


def read(data: bytes, *, yaml: bool) -> PlanFile:
    """Read a plan file; raises ContractError with every problem that it has."""
    return plan_of(parse(data, yaml=yaml))


def parse(data: bytes, *, yaml: bool) -> Source:
    """What the file says, before it is held against what a plan is; raises ContractError."""
    if yaml:
        return yamltext.parse(data)
    try:
        return Source(wire.read(data, limit=wire.DOCUMENT_LIMIT))
    except JsonError as error:
        raise refusal([Problem(error.code, "", error.message, error.hint)]) from error


def plan_of(source: Source) -> PlanFile:
    """The plan that a source says; raises ContractError with every problem, in the order of the file's parts."""
    value, problems = source.value, list(source.problems)
    if not isinstance(value, dict):
        hint = "begin with plan_id:, agents: and tasks:"
        raise refusal([*problems, Problem(Code.FIELD_TYPE, "", "a plan file is a mapping of keys to values", hint)])
    plan = None
    try:
        with collector_paused():
            plan = PlanFile.read(value)
    except ValidationError as error:
        problems += source.located(islice(_problems(error), MAX_PROBLEMS))
    if plan is not None and not plan.tasks:
        problems += source.located([Problem(Code.FIELD_VALUE, "tasks", "there is no task", "add one")])
    problems += source.located(islice(_strange_promises(value.get("tasks")), MAX_PROBLEMS))
    problems += source.located(islice(_strange_gates(value.get("release")), MAX_PROBLEMS))
    if plan is None or problems:
        raise refusal(problems)
    return plan


def _problems(error: ValidationError) -> Iterator[Problem]:
    for fault, problem in zip(error.errors(include_url=False, include_context=False), problems_of(error), strict=True):
        loc = fault["loc"]
        if fault["type"] == "extra_forbidden":
            yield _unknown(loc, str(loc[-1]), _KEYS.get(_place(loc[:-1]), ()))
        elif loc and loc[-1] == "[key]":
            yield Problem(problem.code, field_path(loc[:-1]), problem.message, problem.hint)
        elif fault["type"] == "string_type" and isinstance(fault["input"], int | float):
            yield Problem(problem.code, problem.field, problem.message, f"{problem.hint}; put it in quotes")
        else:
            yield problem


def _unknown(loc: tuple[int | str, ...], key: str, known: tuple[str, ...]) -> Problem:
    return Problem(Code.FIELD_UNKNOWN, field_path(loc), f"there is no key {key[:80]!r} here", _key_hint(key, known))


@lru_cache(maxsize=256)
def _key_hint(key: str, known: tuple[str, ...]) -> str:
    near = nearest(key, known, cutoff=0.6)
    return f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"


@cache
def _keys(kind: type[BaseModel]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in kind.model_fields.items())


def _place(loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """Which kind of object stands at a place: its path without numbers and without the author's own names."""
    steps = [part for part in loc if isinstance(part, str)]
    return tuple(step for at, step in enumerate(steps) if tuple(steps[:at]) not in _OWN_NAMES)


_OWN_NAMES: Final = frozenset({("agents",), ("tasks", "validate"), ("release", "gates")})
"""Below these the author chooses the keys."""


_KEYS: Final = {
    (): _keys(PlanFile),
    ("workspace",): _keys(WorkspaceSpec),
    ("policies",): tuple(key for key in _keys(PoliciesSpec) if key not in {"release", "review"}),
    ("policies", "timeouts"): _keys(PhaseTimeoutsSpec),
    ("policies", "timeouts", "dag_review"): _keys(PhaseTimeoutSpec),
    ("policies", "timeouts", "artifact_validation"): _keys(PhaseTimeoutSpec),
    ("policies", "timeouts", "release_gate"): _keys(PhaseTimeoutSpec),
    ("limits",): _keys(LimitsSpec),
    ("release",): _keys(ReleaseSpec),
    ("release", "gates"): ("kind", *_BESIDE_CHECK),
    ("review",): _keys(ReviewSpec),
    ("agents",): _keys(AgentSpec),
    ("tasks",): _keys(TaskSpec),
    ("tasks", "inputs"): _keys(InputSpec),
    ("tasks", "outputs"): _keys(OutputSpec),
    ("tasks", "outputs", "versioning"): _keys(VersioningSpec),
    ("tasks", "gates"): _keys(GatesSpec),
    ("tasks", "gates", "branches"): _keys(BranchSpec),
    ("tasks", "validate"): _keys(CriteriaSpec),
}
"""Where an object stands → the keys that it can have."""
_CHECKS: Final[dict[str, type[Check]]] = {
    "run": RunCheck,
    "tests": TestsCheck,
    "file": FileCheck,
    "json": JsonCheck,
    "git": GitCheck,
    "http": HttpCheck,
    "artifact": ArtifactCheck,
    "report": ReportCheck,
    "human": HumanCheck,
}
"""Kinds of checks whose keys are all known. `forge` and those of extensions have keys of their own."""
_PROMISE_PARTS: Final[dict[str, type[Part]]] = {
    "acceptance": AcceptanceCriterion,
    "doneWhen": DoneCondition,
    "done_when": DoneCondition,
    "abortWhen": AbortCondition,
    "abort_when": AbortCondition,
}


def _strange_promises(tasks: object) -> Iterator[Problem]:
    """Unknown keys in promises. Their models keep such keys for other readers; in a plan file they are mistakes."""
    for at, task in enumerate(tasks if isinstance(tasks, list) else ()):
        promise = task.get("promise") if isinstance(task, dict) else None
        if isinstance(promise, dict):
            yield from _strange_promise(("tasks", at, "promise"), promise)


def _strange_promise(loc: tuple[int | str, ...], promise: dict[str, Any]) -> Iterator[Problem]:
    if "id" in promise:
        message = "a promise gets its id when the plan is submitted"
        yield Problem(Code.FIELD_UNKNOWN, field_path((*loc, "id")), message, "remove it")
    yield from _strange(loc, promise, CompletionPromise)
    yield from _strange((*loc, "budget"), promise.get("budget"), Budget)
    for name, kind in _PROMISE_PARTS.items():
        for at, part in _listed(promise.get(name)):
            yield from _strange((*loc, name, at), part, kind)
    for at, check in _listed(promise.get("checks")):
        yield from _strange_check((*loc, "checks", at), check)


def _strange_gates(release: object) -> Iterator[Problem]:
    """Unknown keys in the checks of gates."""
    gates = release.get("gates") if isinstance(release, dict) else None
    for name, gate in gates.items() if isinstance(gates, dict) else ():
        if isinstance(gate, dict):
            check = {key: value for key, value in gate.items() if key not in _BESIDE_CHECK}
            yield from _strange_check(("release", "gates", str(name)), check)


def _strange_check(loc: tuple[int | str, ...], check: object) -> Iterator[Problem]:
    kind_name = check.get("kind") if isinstance(check, dict) else None
    if not isinstance(kind_name, str):
        return
    if kind_name in _CHECKS:
        yield from _strange(loc, check, _CHECKS[kind_name])
    elif kind_name not in CHECK_KINDS and (near := nearest(kind_name, CHECK_KINDS)):
        message = f"there is no kind of check {kind_name[:80]!r}"
        yield Problem(Code.FIELD_VALUE, field_path((*loc, "kind")), message, f"did you mean {near!r}?")


def _strange(loc: tuple[int | str, ...], data: object, kind: type[Part]) -> Iterator[Problem]:
    if isinstance(data, dict):
        fields = kind.model_fields
        known = _keys(kind)
        for key in data:
            if key not in fields and key not in known:
                yield _unknown((*loc, key), key, known)


def _listed(value: object) -> Iterator[tuple[int, Any]]:
    return enumerate(value if isinstance(value, list) else ())
