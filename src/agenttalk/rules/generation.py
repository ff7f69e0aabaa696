"""Making a command: fill in, convert, replace what has a harmless default; report each; then validate.

What is never invented: plan_id, task_id, prompt. What is never replaced: anything whose loss would
change what is asked for or how it is proven (inputs, outputs, promise, criteria, re-execution, hashes).
Such a value is left as it is, and validating names what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from agenttalk.contracts import wire
from agenttalk.contracts.base import MAX_INTEGER, VERSION_PATTERN, is_hash
from agenttalk.contracts.command import make_command_id, parse_command_id
from agenttalk.contracts.generation import GenerateResult, Repair
from agenttalk.errors import Code, JsonError, Problem
from agenttalk.rules import commands
from agenttalk.rules.commands import NOTHING, Known
from agenttalk.rules.wording import COMMANDS, CommandWording, Locale

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,16}\s*\Z")
_VERSION = re.compile(VERSION_PATTERN.replace("$", r"\Z"), re.ASCII)
_REEXECUTE_ID = re.compile(r"cmd_reexecute_[0-9]+\Z")
_LIFTED: Final = ("original_task_id", "original_agent", "validation_result")
_KINDS: Final[dict[type, str]] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "an array",
    tuple: "an array",
    dict: "an object",
}
_T = TypeVar("_T")


class _Draft:
    """A command in the making, and what was done to it."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.values = {key: value for key, value in params.items() if value is not None}
        self.repairs: list[Repair] = []

    def get(self, field: str) -> Any:
        return self.values.get(field)

    def put(self, field: str, value: object, why: str) -> None:
        """Set a field (None removes it) and report it."""
        before = self.values.get(field)
        if value is None:
            del self.values[field]
        else:
            self.values[field] = value
        self.repairs.append(Repair(field=field, before=before, after=value, why=why))

    def settle(self, field: str, convert: Callable[[Any], _T | None], default: _T) -> _T:
        """Give a field with a harmless default a good value: its own, a converted one, or the default."""
        given = self.values.get(field)
        if given is None:
            self.put(field, default, "missing: the default")
            return default
        value = convert(given)
        if value is None:
            self.put(field, default, "not a usable value: the default")
            return default
        if type(value) is not type(given) or value != given:
            self.put(field, value, f"converted from {_KINDS[type(given)]}")
        return value

    def convert(self, field: str, convert: Callable[[Any], Any | None]) -> Any:
        """Convert a field without a default; what cannot be converted stays for validating to refuse."""
        given = self.values.get(field)
        value = None if given is None else convert(given)
        if value is None or (type(value) is type(given) and value == given):
            return given
        self.put(field, value, f"converted from {_KINDS[type(given)]}")
        return value


def generate(
    params: object, known: Known = NOTHING, *, locale: Locale = "en", with_hash: bool = False
) -> GenerateResult:
    """A complete, valid command from whatever is given, with every repair reported; or every error."""
    if not isinstance(params, dict):
        return _refused([Problem(code=Code.COMMAND_FIELD_TYPE, field="", message="parameters are a JSON object")])
    try:
        wire.require_json(params)
    except JsonError as error:
        return _refused([Problem(code=error.code, field="", message=error.message)])
    draft = _Draft(params)
    wording = COMMANDS[locale]
    _lift_reexecution(draft, known)
    _settle_identity(draft, known)
    _settle_dag_ref(draft, known)
    _settle_inputs(draft)
    _settle_scoring(draft, wording)
    _settle_the_rest(draft, wording)
    errors = _order_problems(draft, params, known)
    _settle_hash(draft, params, with_hash=with_hash)
    return _judged(draft, known, errors)


def _judged(draft: _Draft, known: Known, errors: list[Problem]) -> GenerateResult:
    verdict = commands.validate_json(draft.values, known)
    errors += verdict.errors
    if any(problem.field == "task_id" and problem.code is not Code.TASK_NOT_IN_DAG for problem in errors):
        # Both are built from task_id; that one error says it all.
        errors = [problem for problem in errors if problem.field not in {"command_id", "command_seq"}]
    return GenerateResult(
        ok=not errors,
        command=None if errors else verdict.command,
        repairs=tuple(draft.repairs),
        errors=tuple(errors),
        warnings=verdict.warnings,
    )


def _lift_reexecution(draft: _Draft, known: Known) -> None:
    """The older shape of a re-execution has its fields at the top level."""
    if "reexecute" not in draft.values and any(name in draft.values for name in _LIFTED):
        lifted = {name: draft.values[name] for name in _LIFTED if name in draft.values}
        for name in lifted:
            draft.put(name, None, "moved into reexecute")
        draft.put("reexecute", lifted, "a re-execution says so in reexecute")
    again = draft.get("reexecute")
    if not isinstance(again, dict):
        return
    if again.get("attempt") is None:
        again = {**again, "attempt": known.reexecutions + 1}
        draft.put("reexecute", again, "attempt was missing: the next round")
    result = again.get("validation_result")
    if isinstance(result, dict) and isinstance(result.get("score"), str):
        score = as_integer(result["score"])
        if score is not None:
            draft.put("reexecute", {**again, "validation_result": {**result, "score": score}}, "score was text")


def _settle_identity(draft: _Draft, known: Known) -> None:
    draft.convert("plan_id", _number_as_text)
    task_id = draft.convert("task_id", _number_as_text)
    again = draft.get("reexecute")
    if task_id is None and isinstance(again, dict) and isinstance(again.get("original_task_id"), str):
        task_id = again["original_task_id"]
        draft.put("task_id", task_id, "a re-execution is an order for the original task")
    seq = draft.convert("command_seq", as_integer)
    if not isinstance(task_id, str):
        return
    command_id = draft.get("command_id")
    parts = None
    if isinstance(command_id, str) and not _lacks_its_number(command_id, task_id, again):
        parts = parse_command_id(command_id)
    if seq is None:
        seq = parts.seq if parts else known.last_seq + 1
        draft.put("command_seq", seq, "missing: that of command_id" if parts else "missing: the next for this task")
    if parts is None and isinstance(seq, int) and 0 <= seq <= MAX_INTEGER:
        why = "missing" if command_id is None else "not of the form cmd_<task_id>_<NNN>"
        draft.put("command_id", make_command_id(task_id, seq), f"{why}: built from task_id and command_seq")


def _lacks_its_number(command_id: str, task_id: str, again: object) -> bool:
    """Ids that look well-formed only because a task's name ends in digits, or that name no task at all."""
    return command_id == f"cmd_{task_id}" or (again is not None and _REEXECUTE_ID.match(command_id) is not None)


def _settle_dag_ref(draft: _Draft, known: Known) -> None:
    plan_id = draft.get("plan_id")
    draft.convert("dag_ref", lambda given: {"sha256": given} if isinstance(given, str) else None)
    on_a_plan = isinstance(plan_id, str) and not plan_id.startswith("_")
    if draft.get("dag_ref") is None and on_a_plan and known.dag_ref is not None:
        draft.put("dag_ref", known.dag_ref.as_json(), "missing: the plan's active DAG")


def _settle_inputs(draft: _Draft) -> None:
    if draft.get("required_inputs") is None:
        draft.put("required_inputs", [], "missing: the default")
    required = draft.convert("required_inputs", lambda given: [given] if isinstance(given, str) else None)
    for field in ("resolved_inputs", "produces"):
        draft.convert(field, lambda given: [given] if isinstance(given, dict) else None)
    draft.settle("wait_for_inputs", as_boolean, bool(required or draft.get("resolved_inputs")))


def _settle_scoring(draft: _Draft, wording: CommandWording) -> None:
    criteria = draft.get("score_criteria")
    if draft.get("score_required") is None and isinstance(criteria, str) and criteria.strip():
        draft.put("score_required", True, "score_criteria is given, so a score is meant")
    if draft.settle("score_required", as_boolean, False):
        draft.settle("score_criteria", _as_text, wording.rubric)
    elif criteria is not None:
        draft.put("score_criteria", None, "no score is required")


def _settle_the_rest(draft: _Draft, wording: CommandWording) -> None:
    draft.settle("schema_version", _as_version, "1.0")
    draft.settle("timeout", lambda given: _in_range(as_integer(given), 1), 3600)
    draft.settle("retry_times", lambda given: _in_range(as_integer(given), 0), 0)
    draft.settle("priority", _as_priority, "MEDIUM")
    completed = wording.completed_with_score if draft.get("score_required") else wording.completed
    _settle_notice(draft, "on_complete", completed)
    _settle_notice(draft, "on_failure", wording.failed)
    ids = [draft.get(name) for name in ("plan_id", "task_id", "command_id")]
    if all(isinstance(part, str) for part in ids):
        draft.settle("idempotency_key", _as_text, ":".join(ids))


def _settle_notice(draft: _Draft, field: str, template: str) -> None:
    given = draft.get(field)
    if isinstance(given, str) and given.strip():
        draft.put(field, {"message_template": given}, "a notice is an object with a message_template")
    elif not isinstance(given, dict):
        why = "missing: the default" if given is None else "not a usable value: the default"
        draft.put(field, {"message_template": template}, why)
    elif _as_text(given.get("message_template")) is None:
        draft.put(field, {**given, "message_template": template}, "message_template was missing: the default")


def _order_problems(draft: _Draft, params: dict[str, Any], known: Known) -> list[Problem]:
    """Orders of a task only count up. The router merely passes over an older one; making one is a mistake."""
    seq, command_id = draft.get("command_seq"), draft.get("command_id")
    if not known.command_ids or not isinstance(seq, int) or seq > known.last_seq:
        return []
    if isinstance(command_id, str) and command_id in known.command_ids:
        return []  # validating says so
    return [
        Problem(
            code=Code.COMMAND_FIELD_VALUE,
            field="command_seq" if params.get("command_seq") is not None else "command_id",
            message=f"orders of a task only count up, and order {known.last_seq} exists already",
            hint=f"leave command_seq and command_id out; the next number is {known.last_seq + 1}",
        )
    ]


def _settle_hash(draft: _Draft, params: dict[str, Any], *, with_hash: bool) -> None:
    """Repairs change the hash. One that fitted what was given is made anew; a wrong one stays, to be refused."""
    given = draft.get("payload_hash")
    if given is None and not with_hash:
        return
    fitted = isinstance(given, str) and is_hash(given) and _same(given, commands.payload_hash(params))
    if given is not None and not fitted:
        return
    draft.values.pop("payload_hash", None)
    written = commands.validate_json(draft.values).command
    if written is not None:
        draft.values = written.as_json()  # the hash is over what will be written, defaults inside parts included
    digest = commands.payload_hash(draft.values)
    if given is not None and _same(given, digest):
        draft.values["payload_hash"] = given
        return
    why = "asked for" if given is None else "the repairs changed the command"
    if given is not None:
        draft.values["payload_hash"] = given
    draft.put("payload_hash", digest, why)


def _same(left: str, right: str) -> bool:
    return left.removeprefix("sha256:") == right.removeprefix("sha256:")


def as_boolean(given: object) -> bool | None:
    """A yes or no in one of its usual spellings, else None."""
    if isinstance(given, bool):
        return given
    word = str(given).strip().lower() if isinstance(given, str | int) else ""
    return True if word in _TRUE else False if word in _FALSE else None


def as_integer(given: object) -> int | None:
    """A whole number, also as text or as a float without a fraction, else None."""
    if isinstance(given, bool):
        return None
    if isinstance(given, int):
        return given
    if isinstance(given, float):
        return int(given) if given.is_integer() else None
    return int(given) if isinstance(given, str) and _INTEGER.match(given) else None


def _in_range(value: int | None, least: int) -> int | None:
    return value if value is not None and least <= value <= MAX_INTEGER else None


def _number_as_text(given: object) -> str | None:
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else None


def _as_text(given: object) -> str | None:
    return given if isinstance(given, str) and given.strip() else None


def _as_version(given: object) -> str | None:
    if isinstance(given, str):
        return given if _VERSION.match(given) else "1.0" if given.strip() == "1" else None
    return "1.0" if not isinstance(given, bool) and given == 1 else None


def _as_priority(given: object) -> str | None:
    word = given.strip().upper() if isinstance(given, str) else ""
    return word if word in {"HIGH", "MEDIUM", "LOW"} else None


def _refused(errors: list[Problem]) -> GenerateResult:
    return GenerateResult(ok=False, command=None, errors=tuple(errors))
