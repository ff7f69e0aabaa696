"""Validates commands.

`validate` changes nothing and accepts only complete commands; the router uses it. `generate` first repairs what has a
harmless default and then calls `validate`. So a generated command is valid, and both report the same error codes.
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
    """The facts that are known about the plan of a command. The default has none, and then fewer rules apply."""

    dag_ref: DagRef | None = None
    """The plan's active DAG."""
    task_ids: Collection[str] | None = None
    """The tasks of that DAG."""
    command_ids: Collection[str] = frozenset()
    """Ids of the task's commands, written with at least three digits."""
    last_seq: int = 0
    """The largest command_seq of the task."""
    reexecutions: int = 0
    """How often the task was re-executed."""


NOTHING: Final = Known()
ENVELOPE_LEVELS: Final = 2
"""Levels of nesting that an envelope adds to its command."""

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
"""Parts that are searched for fields that route. A promise is not, because its own words may look like them."""
_NOT_SEARCHED: Final = frozenset({"json_schema"})


def validate(document: object, known: Known = NOTHING) -> ValidateResult:
    """Validate a command as it is. Reports all faults at once."""
    if not isinstance(document, dict):
        return _refused([_problem(Code.COMMAND_FIELD_TYPE, "", "a command is a JSON object")])
    try:
        wire.require_json(document, depth=ENVELOPE_LEVELS)
    except JsonError as error:
        return _refused([_problem(error.code, "", error.message)])
    return validate_json(document, known)


def validate_json(document: dict[str, Any], known: Known = NOTHING) -> ValidateResult:
    """Validate a command that is known to be JSON, such as a result of `wire.read`."""
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
    """Compute the hash anew, because the model writes defaults in full and so changes it."""
    if command.payload_hash is None:
        return command
    return command.model_copy(update={"payload_hash": payload_hash(command.as_json())})


def payload_hash(document: Mapping[str, Any]) -> str:
    """Compute the hash of a command's canonical JSON without its `payload_hash`."""
    return wire.sha256(wire.write({key: value for key, value in document.items() if key != "payload_hash"}))


def _consistency(document: dict[str, Any], known: Known) -> list[Problem]:
    """Check rules between fields. Fields of a wrong type are skipped, since they were reported already."""
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
    """Find differences between the command's id and its task and number."""
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
            "check the task again and make the command again, without dag_ref",
        )
    ]


def _score_problems(document: dict[str, Any]) -> list[Problem]:
    required, criteria = document.get("score_required"), document.get("score_criteria")
    if required is True and (criteria is None or (isinstance(criteria, str) and not criteria.strip())):
        return [
            _problem(
                Code.COMMAND_SCORE_CRITERIA_MISSING,
                "score_criteria",
                "a score is required, but its criteria are missing",
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
    # Of an unknown field only the name is checked, since no code reads its value.
    paths = [key for key in document.keys() - _FIELDS if _is_routing_name(key)]
    for key in _SEARCHED:
        if isinstance(value := document.get(key), dict | list):
            paths += _routing_fields_inside(value, key)
    return [
        _problem(
            Code.COMMAND_ROUTES_ITSELF,
            path,
            "a command does not say where it or its results go",
            "remove it: the DAG's assigned_agent_id and deliver_to decide",
        )
        for path in sorted(paths)
    ]


def _routing_fields_inside(value: dict[str, Any] | list[Any], path: str) -> list[str]:
    paths = []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        here = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key}]"
        if isinstance(key, str) and _is_routing_name(key):
            paths.append(here)
        elif key in _NOT_SEARCHED:
            continue
        elif isinstance(item, dict | list):
            paths += _routing_fields_inside(item, here)
    return paths


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
            "make the command again",
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
    """Keep one problem where two rules report the same fault: an empty score_criteria breaks both."""
    closer = {problem.field for problem in problems if problem.code is Code.COMMAND_SCORE_CRITERIA_MISSING}
    return [p for p in problems if p.field not in closer or p.code is Code.COMMAND_SCORE_CRITERIA_MISSING]


def _warnings(document: dict[str, Any]) -> tuple[Problem, ...]:
    if document.keys() <= _FIELDS:
        return ()
    return tuple(
        _problem(
            Code.FIELD_UNKNOWN, key, f"{key!r} is not a field of a command and does nothing", f"did you mean {near!r}?"
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
