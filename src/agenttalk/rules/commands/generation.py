"""Makes commands: fills in fields, converts values, replaces what has a harmless default, then validates.

Each such step is reported as a repair. It never invents plan_id, task_id or prompt. It never replaces a value whose
loss would change the work or its proof: inputs, outputs, promise, criteria, re-execution, hashes. Such a value stays
as it is, and validation reports its faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from agenttalk.contracts.command import Command, make_command_id, parse_command_id
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import VERSION_PATTERN, Part, is_hash, same_hash
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.errors import Code, JsonError, Problem, UsageError
from agenttalk.contracts.generation import GenerateResult, Repair
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.commands import promises, validation
from agenttalk.rules.commands.validation import ENVELOPE_LEVELS, NOTHING, Known
from agenttalk.rules.text import task_words
from agenttalk.rules.text.message import LOCALES

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,16}\s*\Z")
_DECIMAL = re.compile(r"\s*[+-]?[0-9]{1,16}\.[0-9]{1,16}\s*\Z")
_VERSION = re.compile(VERSION_PATTERN.replace("$", r"\Z"), re.ASCII)
_REEXECUTE_ID = re.compile(r"cmd_reexecute_[0-9]+\Z")
_LIFTED: Final = ("original_task_id", "original_agent", "validation_result")
_KINDS: Final = ((str, "text"), (bool, "true or false"), ((int, float), "a number"), ((list, tuple), "an array"))
_PARTS: Final = (
    "dag_ref", "resolved_inputs", "produces", "may_produce", "validation_criteria", "reexecute", "promise",
    "payload_hash",
)  # fmt: skip
"""Fields that may look different once they are written in full."""
COMMAND_LIMIT: Final = wire.ENVELOPE_LIMIT * 3 // 4
"""The largest command in bytes, so that it fits into its envelope even when indented."""
_T = TypeVar("_T")


class _CommandDraft:
    """An unfinished command with the repairs so far."""

    def __init__(self, params: dict[str, Any]) -> None:
        # A null stands for absence, except in fields that we do not know.
        self.values = {
            key: value for key, value in params.items() if value is not None or key not in Command.model_fields
        }
        self.repairs: list[Repair] = []

    def get(self, field: str) -> Any:
        return self.values.get(field)

    def set_field(self, field: str, value: object, why: str) -> None:
        """Set a field (None removes it) and report it."""
        before = self.values.get(field)
        if value is None:
            del self.values[field]
        else:
            self.values[field] = value
        self.repairs.append(Repair(field=field, before=before, after=value, why=why))

    def settle(self, field: str, convert: Callable[[Any], _T | None], default: _T) -> _T:
        """Give a field with a harmless default a valid value: its own, a converted one, or the default."""
        given = self.values.get(field)
        if given is None:
            self.set_field(field, default, "missing: the default")
            return default
        value = convert(given)
        if value is None:
            self.set_field(field, default, "not a usable value: the default")
            return default
        if type(value) is not type(given) or value != given:
            self.set_field(field, value, f"converted from {_kind(given)}")
        return value

    def convert(self, field: str, convert: Callable[[Any], Any | None]) -> Any:
        """Convert a field without a default. A value that cannot be converted stays, and validation refuses it."""
        given = self.values.get(field)
        value = None if given is None else convert(given)
        if value is None or (type(value) is type(given) and value == given):
            return given
        self.set_field(field, value, f"converted from {_kind(given)}")
        return value


def read_identity(params: dict[str, Any]) -> tuple[object, object]:
    """Read the plan and the task of parameters, so that a caller can look up what is known about them."""
    draft = _CommandDraft(params)
    _lift_reexecution(draft, NOTHING)
    _settle_names(draft)
    return draft.get("plan_id"), draft.get("task_id")


def generate(
    params: object, known: Known | None = None, *, locale: Locale = "en", with_hash: bool = False
) -> GenerateResult:
    """Make a complete, valid command from parameters. Returns it with every repair, or every error."""
    known = known or NOTHING
    if locale not in LOCALES:
        raise UsageError(Code.OPTION_INVALID, f"there is no locale {locale!r}", hint="use 'en' or 'zh'")
    if not isinstance(params, dict):
        return _refused([Problem(code=Code.COMMAND_FIELD_TYPE, field="", message="parameters are a JSON object")])
    try:
        wire.require_json(params, depth=ENVELOPE_LEVELS)
    except JsonError as error:
        return _refused([Problem(code=error.code, field="", message=error.message)])
    draft = _CommandDraft(params)
    _lift_reexecution(draft, known)
    _settle_identity(draft, known)
    _settle_dag_ref(draft, known)
    _settle_inputs(draft)
    _settle_scoring(draft, locale)
    _settle_the_rest(draft, locale)
    errors = _order_problems(draft, params, known)
    _settle_hash(draft, params, with_hash=with_hash)
    return _validate_draft(draft, known, errors)


def _validate_draft(draft: _CommandDraft, known: Known, errors: list[Problem]) -> GenerateResult:
    verdict = validation.validate_json(draft.values, known)
    errors += verdict.errors
    errors = _without_consequences(errors)
    if not errors and verdict.command is not None:
        errors = _settle_form(draft, verdict.command)
    return GenerateResult(
        ok=not errors,
        command=None if errors else verdict.command,
        repairs=tuple(draft.repairs),
        errors=tuple(errors),
        warnings=verdict.warnings + _promise_warnings(verdict.command),
    )


def _promise_warnings(command: Command | None) -> tuple[Problem, ...]:
    return tuple(promises.find_near_misses(command.promise)) if command and command.promise else ()


def _without_consequences(errors: list[Problem]) -> list[Problem]:
    """Leave out errors of fields that were built from another wrong field."""
    wrong = {problem.field for problem in errors if problem.code is not Code.TASK_NOT_IN_DAG}
    if "task_id" in wrong:
        return [problem for problem in errors if problem.field not in {"command_id", "command_seq"}]
    built = "command_seq" in wrong
    return [p for p in errors if not (built and p.field == "command_id" and p.code is Code.COMMAND_FIELD_MISSING)]


def _settle_form(draft: _CommandDraft, command: Command) -> list[Problem]:
    """Report what writing the command in full changes (prefixes, defaults inside parts); refuse one too large."""
    for field in _PARTS:
        before = draft.values.get(field)
        if before is None:
            continue
        part = getattr(command, field)
        # A part with a default left out is written longer for certain; it is not worth writing it to see.
        short = isinstance(part, CompletionPromise) and len(part.model_fields_set) < len(CompletionPromise.model_fields)
        after = part if short else _written(part)
        if short or before != after:
            draft.repairs.append(Repair(field=field, before=before, after=after, why="written in full"))
    if not any(isinstance(value, str | list | dict) and len(value) > 10_000 for value in draft.values.values()):
        return []
    size = len(wire.write(command.as_json()))
    if size <= COMMAND_LIMIT:
        return []
    message = f"the command has {size:,} bytes; the limit is {COMMAND_LIMIT:,}"
    return [Problem(Code.JSON_TOO_LARGE, "", message, "hand large content over as an input file")]


def _written(value: Any) -> Any:
    if isinstance(value, Part):
        return value.as_json()
    return [part.as_json() for part in value] if isinstance(value, tuple) else value


def _lift_reexecution(draft: _CommandDraft, known: Known) -> None:
    """Move the fields of a re-execution from the top level, where its older form has them, into `reexecute`."""
    if "reexecute" not in draft.values and any(name in draft.values for name in _LIFTED):
        lifted = {name: draft.values[name] for name in _LIFTED if name in draft.values}
        for name in lifted:
            draft.set_field(name, None, "moved into reexecute")
        draft.set_field("reexecute", lifted, "a re-execution says so in reexecute")
    again = draft.get("reexecute")
    if not isinstance(again, dict):
        return
    if again.get("attempt") is None:
        again = {**again, "attempt": known.reexecutions + 1}
        draft.set_field("reexecute", again, "attempt was missing: the next round")
    result = again.get("validation_result")
    converted = {**again, "attempt": _or_itself(as_integer, again["attempt"])}
    if isinstance(result, dict):
        converted["validation_result"] = {**result, "score": _or_itself(_as_number, result.get("score"))}
    if converted != again:
        draft.set_field("reexecute", converted, "converted from text")


def _settle_names(draft: _CommandDraft) -> None:
    draft.convert("plan_id", _number_as_text)
    task_id = draft.convert("task_id", _number_as_text)
    again = draft.get("reexecute")
    if task_id is None and isinstance(again, dict) and isinstance(again.get("original_task_id"), str):
        draft.set_field("task_id", again["original_task_id"], "a re-execution is an order for the original task")


def _settle_identity(draft: _CommandDraft, known: Known) -> None:
    _settle_names(draft)
    task_id, again = draft.get("task_id"), draft.get("reexecute")
    seq = draft.convert("command_seq", as_integer)
    if not isinstance(task_id, str):
        return
    command_id = draft.get("command_id")
    parts = None
    if isinstance(command_id, str) and not _lacks_its_number(command_id, task_id, again):
        parts = parse_command_id(command_id)
    if seq is None:
        seq = parts.seq if parts else known.last_seq + 1
        draft.set_field(
            "command_seq", seq, "missing: that of command_id" if parts else "missing: the next for this task"
        )
    if parts is None and isinstance(seq, int) and 0 <= seq <= wire.MAX_INTEGER:
        why = "missing" if command_id is None else "not of the form cmd_<task_id>_<NNN>"
        draft.set_field("command_id", make_command_id(task_id, seq), f"{why}: built from task_id and command_seq")


def _lacks_its_number(command_id: str, task_id: str, again: object) -> bool:
    """Whether an id only looks valid because the task's name ends in digits, or because it names no task."""
    return command_id == f"cmd_{task_id}" or (again is not None and _REEXECUTE_ID.match(command_id) is not None)


def _settle_dag_ref(draft: _CommandDraft, known: Known) -> None:
    plan_id = draft.get("plan_id")
    draft.convert("dag_ref", _dag_ref_converted)
    on_a_plan = isinstance(plan_id, str) and not plan_id.startswith("_")
    if draft.get("dag_ref") is None and on_a_plan and known.dag_ref is not None:
        draft.set_field("dag_ref", known.dag_ref.as_json(), "missing: the plan's active DAG")


def _settle_inputs(draft: _CommandDraft) -> None:
    if draft.get("required_inputs") is None:
        draft.set_field("required_inputs", [], "missing: the default")
    required = draft.convert("required_inputs", lambda given: [given] if isinstance(given, str) else None)
    for field in ("resolved_inputs", "produces", "may_produce"):
        draft.convert(field, lambda given: [given] if isinstance(given, dict) else None)
    draft.convert("resolved_inputs", _resolved_converted)
    draft.convert("validation_criteria", _criteria_converted)
    draft.settle("wait_for_inputs", as_boolean, bool(required or draft.get("resolved_inputs")))


def _settle_scoring(draft: _CommandDraft, locale: Locale) -> None:
    criteria = draft.get("score_criteria")
    if draft.get("score_required") is None and isinstance(criteria, str) and criteria.strip():
        draft.set_field("score_required", True, "score_criteria is given, so a score is meant")
    if draft.settle("score_required", as_boolean, False):
        draft.settle("score_criteria", _as_text, task_words.RUBRIC.render(locale))
    elif criteria is not None:
        draft.set_field("score_criteria", None, "no score is required")


def _settle_the_rest(draft: _CommandDraft, locale: Locale) -> None:
    draft.settle("schema_version", _as_version, "1.0")
    draft.settle("timeout", lambda given: _in_range(as_integer(given), 1), 3600)
    draft.settle("retry_times", lambda given: _in_range(as_integer(given), 0), 0)
    draft.settle("priority", _as_priority, "MEDIUM")
    completed = task_words.COMPLETED_WITH_SCORE if draft.get("score_required") else task_words.COMPLETED
    _settle_notice(draft, "on_complete", completed.render(locale))
    _settle_notice(draft, "on_failure", task_words.FAILED.render(locale))
    ids = [draft.get(name) for name in ("plan_id", "task_id", "command_id")]
    if all(isinstance(part, str) for part in ids):
        draft.settle("idempotency_key", _as_text, ":".join(ids))


def _settle_notice(draft: _CommandDraft, field: str, template: str) -> None:
    given = draft.get(field)
    if isinstance(given, str) and given.strip():
        draft.set_field(field, {"message_template": given}, "a notice is an object with a message_template")
    elif not isinstance(given, dict):
        why = "missing: the default" if given is None else "not a usable value: the default"
        draft.set_field(field, {"message_template": template}, why)
    elif _as_text(given.get("message_template")) is None:
        draft.set_field(field, {**given, "message_template": template}, "message_template was missing: the default")


def _order_problems(draft: _CommandDraft, params: dict[str, Any], known: Known) -> list[Problem]:
    """Refuse a command number that is not above the last one. The router would only supersede such a command."""
    seq, command_id = draft.get("command_seq"), draft.get("command_id")
    if not known.last_seq or not isinstance(seq, int) or seq > known.last_seq:
        return []
    if isinstance(command_id, str) and command_id in known.command_ids:
        return []  # validation reports it
    return [
        Problem(
            code=Code.COMMAND_FIELD_VALUE,
            field="command_seq" if params.get("command_seq") is not None else "command_id",
            message=f"orders of a task only count up, and order {known.last_seq} exists already",
            hint=f"leave command_seq and command_id out; the next number is {known.last_seq + 1}",
        )
    ]


def _settle_hash(draft: _CommandDraft, params: dict[str, Any], *, with_hash: bool) -> None:
    """Compute the hash anew if the given one was right before the repairs. A wrong one stays, to be refused."""
    given = draft.get("payload_hash")
    if given is None and not with_hash:
        return
    fitted = isinstance(given, str) and is_hash(given) and same_hash(given, validation.payload_hash(params))
    if given is not None and not fitted:
        return
    draft.values.pop("payload_hash", None)
    written = validation.validate_json(draft.values).command
    if written is not None:
        draft.values = written.as_json()  # the hash is over what will be written, defaults inside parts included
    digest = validation.payload_hash(draft.values)
    if given is not None and same_hash(given, digest):
        draft.values["payload_hash"] = given
        return
    why = "asked for" if given is None else "the repairs changed the command"
    if given is not None:
        draft.values["payload_hash"] = given
    draft.set_field("payload_hash", digest, why)


def _dag_ref_converted(given: object) -> object:
    if isinstance(given, str):
        return {"sha256": given}
    if isinstance(given, dict) and "revision" in given:
        return {**given, "revision": _or_itself(as_integer, given["revision"])}
    return None


def _resolved_converted(given: object) -> object:
    if not isinstance(given, list):
        return None
    return [
        {
            **item,
            **{name: _or_itself(as_boolean, item[name]) for name in ("required",) if name in item},
            **{name: [item[name]] for name in ("paths",) if isinstance(item.get(name), str)},
        }
        if isinstance(item, dict)
        else item
        for item in given
    ]


def _criteria_converted(given: object) -> object:
    if not isinstance(given, dict):
        return None
    converted = dict(given)
    if isinstance(given.get("quality_threshold"), str):
        converted["quality_threshold"] = _or_itself(_as_number, given["quality_threshold"])
    if isinstance(given.get("required_fields"), str):
        converted["required_fields"] = [given["required_fields"]]
    return converted


def _or_itself(convert: Callable[[Any], Any], given: Any) -> Any:
    """Convert a value, or return it unchanged if it cannot be converted: validation refuses it then."""
    value = convert(given)
    return given if value is None else value


def _as_number(given: object) -> int | float | None:
    whole = as_integer(given)
    if whole is not None or not isinstance(given, str) or not _DECIMAL.match(given):
        return whole
    return float(given)


def as_boolean(given: object) -> bool | None:
    """Read a yes or no in one of its usual spellings, else return None."""
    if isinstance(given, bool):
        return given
    word = str(given).strip().lower() if isinstance(given, str | int) else ""
    return True if word in _TRUE else False if word in _FALSE else None


def as_integer(given: object) -> int | None:
    """Read a whole number, also from a text or a float without a fraction, else return None."""
    if isinstance(given, bool):
        return None
    if isinstance(given, int):
        return given
    if isinstance(given, float):
        return int(given) if given.is_integer() else None
    return int(given) if isinstance(given, str) and _INTEGER.match(given) else None


def _in_range(value: int | None, least: int) -> int | None:
    return value if value is not None and least <= value <= wire.MAX_INTEGER else None


def _number_as_text(given: object) -> str | None:
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else None


def _as_text(given: object) -> str | None:
    return given if isinstance(given, str) and given.strip() else None


def _as_version(given: object) -> str | None:
    if isinstance(given, str):
        return given if _VERSION.match(given) else None
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    text = f"{given}.0" if isinstance(given, int) else str(given)
    return text if _VERSION.match(text) else None


def _as_priority(given: object) -> str | None:
    word = given.strip().upper() if isinstance(given, str) else ""
    return word if word in {"HIGH", "MEDIUM", "LOW"} else None


def _kind(given: object) -> str:
    return next((word for kind, word in _KINDS if isinstance(given, kind)), "an object")


def _refused(errors: list[Problem]) -> GenerateResult:
    return GenerateResult(ok=False, command=None, errors=tuple(errors))
