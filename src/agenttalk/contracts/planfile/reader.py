"""Reads a plan file, or reports every problem in it, with its place and a hint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from agenttalk.contracts.agent import AcpUseSpec, CliUseSpec
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import Part
from agenttalk.contracts.core.large_documents import pause_collector
from agenttalk.contracts.core.problems import field_path, find_nearest, problems_of
from agenttalk.contracts.errors import Code, JsonError, Problem
from agenttalk.contracts.model_use import LlmUseSpec, LocalUseSpec, PricesSpec
from agenttalk.contracts.planfile import yaml_text
from agenttalk.contracts.planfile.model import (
    BESIDE_CHECK,
    AgentSpec,
    BranchSpec,
    CriteriaSpec,
    GatesSpec,
    InputSpec,
    LimitsSpec,
    OutputSpec,
    PhaseTimeoutSpec,
    PhaseTimeoutsSpec,
    PlanFile,
    PoliciesSpec,
    ReleaseSpec,
    ReviewSpec,
    TaskSpec,
    VersioningSpec,
    WorkspaceSpec,
)
from agenttalk.contracts.planfile.yaml_text import MAX_PROBLEMS, YamlSource, plan_file_error
from agenttalk.contracts.promise import (
    CHECK_KINDS,
    AbortCondition,
    AcceptanceCriterion,
    ArtifactCheck,
    BrowserCheck,
    BrowserStep,
    Budget,
    Case,
    CasesCheck,
    Check,
    CompletionPromise,
    DoneCondition,
    FileCheck,
    ForgeCheck,
    GitCheck,
    HttpCheck,
    HumanCheck,
    JsonCheck,
    MutantsCheck,
    ReportCheck,
    RunCheck,
    ServiceCheck,
    ServiceRequest,
    TestsCheck,
)


def read_plan_file(data: bytes, *, yaml: bool) -> PlanFile:
    """Read a plan file. Raises ContractError with every problem."""
    return plan_of(parse_source(data, yaml=yaml))


def parse_source(data: bytes, *, yaml: bool) -> YamlSource:
    """Parse the file, without validating it as a plan. Raises ContractError."""
    if yaml:
        return yaml_text.parse_yaml(data)
    try:
        return YamlSource(wire.read(data, limit=wire.DOCUMENT_LIMIT))
    except JsonError as error:
        raise plan_file_error([Problem(error.code, "", error.message, error.hint)]) from error


def plan_of(source: YamlSource) -> PlanFile:
    """Read the plan of a source. Raises ContractError with every problem, in the order of the file."""
    value, problems = source.value, list(source.problems)
    if not isinstance(value, dict):
        hint = "begin with plan_id:, agents: and tasks:"
        raise plan_file_error(
            [*problems, Problem(Code.FIELD_TYPE, "", "a plan file must be a mapping of keys to values", hint)]
        )
    plan = None
    try:
        with pause_collector():
            plan = PlanFile.read(value)
    except ValidationError as error:
        problems += source.located(islice(_problems(error), MAX_PROBLEMS))
    if plan is not None and not plan.tasks:
        problems += source.located([Problem(Code.FIELD_VALUE, "tasks", "there is no task", "add one")])
    problems += source.located(islice(_strange_promises(value.get("tasks")), MAX_PROBLEMS))
    problems += source.located(islice(_strange_gates(value.get("release")), MAX_PROBLEMS))
    if plan is None or problems:
        raise plan_file_error(problems)
    return plan


def read_cases(data: bytes) -> tuple[Case, ...]:
    """Read a file of cases, in YAML or JSON. Raises ContractError with every problem."""
    source = yaml_text.parse_yaml(data)
    problems = list(source.problems)
    if not isinstance(source.value, list):
        raise plan_file_error([*problems, Problem(Code.FIELD_TYPE, "", "it must be a list of cases")])
    cases = []
    for at, value in enumerate(source.value):
        problems += source.located(_strange((at,), value, Case))
        try:
            cases.append(Case.read(value))
        except ValidationError as error:
            found = [replace(each, field=f"[{at}].{each.field}".rstrip(".")) for each in problems_of(error)]
            problems += source.located(found)
    if problems:
        raise plan_file_error(problems)
    return tuple(cases)


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
    return Problem(Code.FIELD_UNKNOWN, field_path(loc), f"unknown key {key[:80]!r}", _key_hint(key, known))


@lru_cache(maxsize=256)
def _key_hint(key: str, known: tuple[str, ...]) -> str:
    near = find_nearest(key, known, cutoff=0.6)
    return f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"


@cache
def _keys(kind: type[BaseModel]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in kind.model_fields.items())


def _place(loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return the kind of object at a place: its path without numbers and without names of the author."""
    steps = [part for part in loc if isinstance(part, str)]
    return tuple(step for at, step in enumerate(steps) if tuple(steps[:at]) not in _OWN_NAMES)


_OWN_NAMES: Final = frozenset({("agents",), ("tasks", "validate"), ("release", "gates")})
"""In these objects, the author chooses the keys."""


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
    ("release", "gates"): ("kind", *BESIDE_CHECK),
    ("review",): _keys(ReviewSpec),
    ("agents",): _keys(AgentSpec),
    ("agents", "cli"): _keys(CliUseSpec),
    ("agents", "llm"): _keys(LlmUseSpec),
    ("agents", "llm", "prices"): _keys(PricesSpec),
    ("agents", "local"): _keys(LocalUseSpec),
    ("agents", "acp"): _keys(AcpUseSpec),
    ("tasks",): _keys(TaskSpec),
    ("tasks", "inputs"): _keys(InputSpec),
    ("tasks", "outputs"): _keys(OutputSpec),
    ("tasks", "outputs", "versioning"): _keys(VersioningSpec),
    ("tasks", "gates"): _keys(GatesSpec),
    ("tasks", "gates", "branches"): _keys(BranchSpec),
    ("tasks", "validate"): _keys(CriteriaSpec),
}
"""Place of an object → its possible keys."""
_CHECKS: Final[dict[str, type[Check]]] = {
    "run": RunCheck,
    "tests": TestsCheck,
    "cases": CasesCheck,
    "mutants": MutantsCheck,
    "file": FileCheck,
    "json": JsonCheck,
    "git": GitCheck,
    "http": HttpCheck,
    "browser": BrowserCheck,
    "artifact": ArtifactCheck,
    "report": ReportCheck,
    "human": HumanCheck,
    "forge": ForgeCheck,
}
"""Kinds of checks with known keys. Those of extensions have their own keys."""
_CHECK_PARTS: Final[dict[str, type[Part]]] = {"requests": ServiceRequest, "steps": BrowserStep, "cases": Case}
_PROMISE_PARTS: Final[dict[str, type[Part]]] = {
    "acceptance": AcceptanceCriterion,
    "doneWhen": DoneCondition,
    "done_when": DoneCondition,
    "abortWhen": AbortCondition,
    "abort_when": AbortCondition,
}


def _strange_promises(tasks: object) -> Iterator[Problem]:
    """Yield unknown keys in promises. The models keep them for other readers; in a plan file they are mistakes."""
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
    """Yield unknown keys in the checks of gates."""
    gates = release.get("gates") if isinstance(release, dict) else None
    for name, gate in gates.items() if isinstance(gates, dict) else ():
        if isinstance(gate, dict):
            check = {key: value for key, value in gate.items() if key not in BESIDE_CHECK}
            yield from _strange_check(("release", "gates", str(name)), check)


def _strange_check(loc: tuple[int | str, ...], check: object) -> Iterator[Problem]:
    kind_name = check.get("kind") if isinstance(check, dict) else None
    if not isinstance(check, dict) or not isinstance(kind_name, str):
        return
    if kind_name in _CHECKS:
        served = kind_name == "http" and "serve" in check
        yield from _strange(loc, check, ServiceCheck if served else _CHECKS[kind_name])
        for name, part in _CHECK_PARTS.items():
            for at, inner in _listed(check.get(name)):
                yield from _strange((*loc, name, at), inner, part)
    elif kind_name not in CHECK_KINDS and (near := find_nearest(kind_name, CHECK_KINDS)):
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
