"""Commands: one set of rules, two modes.

`validate` changes nothing and accepts nothing short; the router uses it. `generate` repairs what can
be repaired without guessing anybody's intent, reports each repair, and then asks `validate`. So
whatever generate lets through is valid by construction, and both speak with the same error codes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from agenttalk.contracts.command import Command, CommandIdParts, DagRef, make_command_id, parse_command_id
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import is_hash, same_hash
from agenttalk.contracts.core.problems import find_nearest, problems_of
from agenttalk.contracts.errors import Code, JsonError, Problem
from agenttalk.contracts.generation import ValidateResult
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.commands import promises


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the plan that a command is for. The default knows nothing, which is fine."""

    dag_ref: DagRef | None = None
    """The plan's active DAG."""
    task_ids: Collection[str] | None = None
    """The tasks of that DAG."""
    command_ids: Collection[str] = frozenset()
    """Commands that the task has had, with three digits or as many as needed; others cannot clash."""
    last_seq: int = 0
    """Largest command_seq that the task has had."""
    reexecutions: int = 0
    """How often the task was re-executed."""


NOTHING: Final = Known()
ENVELOPE_LEVELS: Final = 2
"""A command may be nested this much less than a document, so that its envelope still fits."""

_COMMAND_CODES: Final = {
    Code.FIELD_MISSING: Code.COMMAND_FIELD_MISSING,
    Code.FIELD_TYPE: Code.COMMAND_FIELD_TYPE,
    Code.FIELD_VALUE: Code.COMMAND_FIELD_VALUE,
}
_ROUTING_NAMES: Final = frozenset(
    {"to", "deliver", "delivery", "forward", "routing", "routingrules", "route", "routes", "toagent", "toagents",
     "toagentid", "assignedagentid", "assignedagent", "assignee", "nextagent", "nextagentid", "intendedrecipients"}
)  # fmt: skip
_ROUTING_PREFIXES: Final = ("sendto", "deliverto", "target", "recipient", "receiver", "destination")
_FIELDS: Final = frozenset(Command.model_fields)
_SEARCHED: Final = (
    "on_complete", "on_failure", "produces", "may_produce", "resolved_inputs", "dag_ref", "reexecute",
    "validation_criteria",
)  # fmt: skip
"""Parts in which an unknown field may try to route. A promise has a vocabulary of its own."""
_NOT_SEARCHED: Final = frozenset({"json_schema"})


def validate(document: object, known: Known = NOTHING) -> ValidateResult:
    """Whether a command is complete and right as it stands. Finds everything that is wrong at once."""
    if not isinstance(document, dict):
        return _refused([_problem(Code.COMMAND_FIELD_TYPE, "", "a command is a JSON object")])
    try:
        wire.require_json(document, depth=ENVELOPE_LEVELS)
    except JsonError as error:
        return _refused([_problem(error.code, "", error.message)])
    return validate_json(document, known)


def validate_json(document: dict[str, Any], known: Known = NOTHING) -> ValidateResult:
    """`validate` for what is known to be JSON, such as what `wire.read` returned."""
    command: Command | None = None
    errors: list[Problem] = []
    try:
        command = Command.read(document)
    except ValidationError as error:
        errors = [_as_command_problem(problem) for problem in problems_of(error)]
        unsupported = [problem for problem in errors if problem.code is Code.SCHEMA_VERSION_UNSUPPORTED]
        if unsupported:
            return _refused(unsupported)
    errors += _consistency(document, known)
    if command is not None and command.promise is not None:
        errors += _promise_problems(command.promise)
    if command is None or errors:
        return _refused(_one_per_fault(errors), _warnings(document))
    return ValidateResult(ok=True, command=_rehashed(command), warnings=_warnings(document))


def _rehashed(command: Command) -> Command:
    """A hash that was right stays right when the command is written again, with its defaults in full."""
    if command.payload_hash is None:
        return command
    return command.model_copy(update={"payload_hash": payload_hash(command.as_json())})


def payload_hash(document: Mapping[str, Any]) -> str:
    """The hash of a command's canonical JSON without its `payload_hash`."""
    return wire.sha256(wire.write({key: value for key, value in document.items() if key != "payload_hash"}))


def _consistency(document: dict[str, Any], known: Known) -> list[Problem]:
    """What a field's own type cannot see. Fields of a wrong type are passed over: they were named already."""
    return [
        *_task_problems(document, known),
        *_command_id_problems(document, known),
        *_dag_problems(document, known),
        *_score_problems(document),
        *_routing_problems(document),
        *_hash_problems(document),
    ]


def _task_problems(document: dict[str, Any], known: Known) -> list[Problem]:
    task_id = document.get("task_id")
    problems: list[Problem] = []
    if not isinstance(task_id, str):
        return problems
    if known.task_ids is not None and task_id not in known.task_ids:
        near = find_nearest(task_id, known.task_ids)
        hint = f"did you mean {near!r}?" if near else "the DAG decides which tasks exist"
        problems.append(_problem(Code.TASK_NOT_IN_DAG, "task_id", f"the plan has no task {task_id!r}", hint))
    original = _dig(document, "reexecute", "original_task_id")
    if isinstance(original, str) and original != task_id:
        problems.append(
            _problem(
                Code.COMMAND_TASK_MISMATCH,
                "reexecute.original_task_id",
                f"it re-executes {original!r} but is an order for {task_id!r}",
                "a re-execution is an order for the task that is done again",
            )
        )
    return problems


def _command_id_problems(document: dict[str, Any], known: Known) -> list[Problem]:
    command_id = document.get("command_id")
    parts = parse_command_id(command_id) if isinstance(command_id, str) else None
    if parts is None:
        return []
    problems = _disagreements(document, parts)
    if make_command_id(parts.task_id, parts.seq) in known.command_ids:
        problems.append(
            _problem(
                Code.COMMAND_ID_REUSED,
                "command_id",
                f"the plan already has a command {command_id}",
                f"the next free number is {known.last_seq + 1}",
            )
        )
    return problems


def _disagreements(document: dict[str, Any], parts: CommandIdParts) -> list[Problem]:
    """Where task and number are not those that the command's id names."""
    task_id, command_id, seq = document.get("task_id"), document.get("command_id"), document.get("command_seq")
    if command_id == f"cmd_{task_id}":
        return [
            _problem(
                Code.COMMAND_SEQ_INVALID_FORMAT,
                "command_id",
                "it is cmd_ and the task_id: the number at the end is missing",
                f"write {command_id}_001",
            )
        ]
    problems = []
    if isinstance(task_id, str) and parts.task_id != task_id:
        problems.append(
            _problem(
                Code.COMMAND_TASK_MISMATCH,
                "command_id",
                f"it names the task {parts.task_id!r}, but task_id is {task_id!r}",
                f"write cmd_{task_id}_<NNN>",
            )
        )
    if isinstance(seq, int) and not isinstance(seq, bool) and seq != parts.seq:
        problems.append(
            _problem(
                Code.COMMAND_SEQ_MISMATCH,
                "command_seq",
                f"it is {seq}, but command_id ends in {parts.seq}",
                "make both the same number",
            )
        )
    return problems


def _dag_problems(document: dict[str, Any], known: Known) -> list[Problem]:
    plan_id, dag_ref = document.get("plan_id"), document.get("dag_ref")
    if not isinstance(plan_id, str) or plan_id.startswith("_"):
        return []
    if dag_ref is None:
        return [
            _problem(
                Code.COMMAND_FIELD_MISSING,
                "dag_ref",
                "a command names the DAG that it was made for",
                "give --root so that it is looked up, or dag_ref with the sha256 of the plan's task_dag.json",
            )
        ]
    given = _dig(document, "dag_ref", "sha256")
    if known.dag_ref is None or not isinstance(given, str) or not is_hash(given):
        return []
    if same_hash(given, known.dag_ref.sha256):
        return []
    return [
        _problem(
            Code.COMMAND_DAG_MISMATCH,
            "dag_ref.sha256",
            f"it was made for the DAG {_short(given)}, but {_short(known.dag_ref.sha256)} is active",
            "look at the task again and make the command anew, without dag_ref",
        )
    ]


def _score_problems(document: dict[str, Any]) -> list[Problem]:
    required, criteria = document.get("score_required"), document.get("score_criteria")
    if required is True and (criteria is None or (isinstance(criteria, str) and not criteria.strip())):
        return [
            _problem(
                Code.COMMAND_SCORE_CRITERIA_MISSING,
                "score_criteria",
                "a score is required, so it must be said what it measures",
                "add score_criteria, or set score_required to false",
            )
        ]
    if required is False and criteria is not None:
        return [
            _problem(
                Code.COMMAND_FIELD_VALUE,
                "score_criteria",
                "no score is required, so there is nothing to measure",
                "remove score_criteria, or set score_required to true",
            )
        ]
    return []


def _routing_problems(document: dict[str, Any]) -> list[Problem]:
    # Of a field that we do not know only the name counts: nobody reads what is inside.
    found = [key for key in document.keys() - _FIELDS if _is_routing_name(key)]
    for key in _SEARCHED:
        if isinstance(value := document.get(key), dict | list):
            found += _routing_fields_inside(value, key)
    return [
        _problem(
            Code.COMMAND_ROUTES_ITSELF,
            path,
            "a command does not say where it or its results go",
            "remove it: the DAG's assigned_agent_id and deliver_to decide",
        )
        for path in sorted(found)
    ]


def _routing_fields_inside(value: dict[str, Any] | list[Any], path: str) -> list[str]:
    found = []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        here = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key}]"
        if isinstance(key, str) and _is_routing_name(key):
            found.append(here)
        elif key in _NOT_SEARCHED:
            continue
        elif isinstance(item, dict | list):
            found += _routing_fields_inside(item, here)
    return found


@lru_cache(maxsize=1024)
def _is_routing_name(name: str) -> bool:
    plain = "".join(filter(str.isalnum, name)).lower()
    sends = plain.startswith(("send", "deliver", "forward", "route")) and plain.endswith("to")
    return sends or plain in _ROUTING_NAMES or plain.startswith(_ROUTING_PREFIXES)


def _hash_problems(document: dict[str, Any]) -> list[Problem]:
    given = document.get("payload_hash")
    if not isinstance(given, str) or not is_hash(given):
        return []
    actual = payload_hash(document)
    if same_hash(given, actual):
        return []
    return [
        _problem(
            Code.COMMAND_PAYLOAD_HASH_MISMATCH,
            "payload_hash",
            f"the command's hash is {_short(actual)}, not {_short(given)}: it was changed after it was made",
            "make the command anew",
        )
    ]


def _promise_problems(promise: CompletionPromise) -> list[Problem]:
    return [
        _problem(Code.COMMAND_FIELD_VALUE, f"promise.{issue.field}", issue.message, "say what will be shown, and how")
        for issue in promises.validate(promise).issues
        if issue.severity == "hard-deny"
    ]


def _as_command_problem(problem: Problem) -> Problem:
    if problem.field == "command_seq" and problem.code is Code.FIELD_MISSING:
        return replace(problem, code=Code.COMMAND_SEQ_MISSING)
    return replace(problem, code=_COMMAND_CODES.get(problem.code, problem.code))


def _one_per_fault(problems: list[Problem]) -> list[Problem]:
    """Two rules may see the same fault (an empty score_criteria is both); the later, closer one speaks."""
    closer = {problem.field for problem in problems if problem.code is Code.COMMAND_SCORE_CRITERIA_MISSING}
    return [p for p in problems if p.field not in closer or p.code is Code.COMMAND_SCORE_CRITERIA_MISSING]


def _warnings(document: dict[str, Any]) -> tuple[Problem, ...]:
    if document.keys() <= _FIELDS:
        return ()
    return tuple(
        _problem(
            Code.FIELD_UNKNOWN, key, f"{key!r} is no field of a command and does nothing", f"did you mean {near!r}?"
        )
        for key, near in Command.unknown_fields(document).items()
    )


def _refused(errors: list[Problem], warnings: tuple[Problem, ...] = ()) -> ValidateResult:
    return ValidateResult(ok=False, command=None, errors=tuple(errors), warnings=warnings)


def _problem(code: Code, where: str, message: str, hint: str = "") -> Problem:
    return Problem(code=code, field=where, message=message, hint=hint)


def _dig(document: dict[str, Any], outer: str, inner: str) -> object:
    value = document.get(outer)
    return value.get(inner) if isinstance(value, dict) else None


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
