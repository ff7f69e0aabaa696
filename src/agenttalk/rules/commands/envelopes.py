"""Puts a command into its envelope, and validates both together."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import AgentId, MessageId, write_time
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import Code, ContractError, JsonError, Problem, UsageError
from agenttalk.contracts.generation import ValidateResult
from agenttalk.rules.commands import validation
from agenttalk.rules.commands.validation import NOTHING, Known

_INSIDE = "payload.command"


def wrap(command: Command, *, producer: AgentId, message_id: MessageId, now: datetime) -> CommandEnvelope:
    """Wrap a command in an envelope with the command's ids. Raises ContractError for bad ids."""
    if now.tzinfo is None:
        raise UsageError(Code.TIME_INVALID, "the time has no zone", hint="hand in an aware time in UTC")
    return CommandEnvelope.from_json(
        {
            "schema_version": "1.0",
            "message_id": message_id,
            "plan_id": command.plan_id,
            "producer_agent_id": producer,
            "type": "command",
            "created_at": write_time(now),
            "task_id": command.task_id,
            "command_id": command.command_id,
            "idempotency_key": command.idempotency_key,
            "payload": {"command": command.as_json()},
        }
    )


def extract_command(document: dict[str, Any]) -> object:
    """Return the unchecked command in an envelope; None if it has none."""
    payload = document.get("payload")
    return payload.get("command") if isinstance(payload, dict) else None


def validate(document: object, known: Known = NOTHING) -> ValidateResult:
    """Validate an envelope and its command. Reports all faults of both at once."""
    if not isinstance(document, dict):
        return ValidateResult(ok=False, command=None, errors=(Problem(Code.FIELD_TYPE, "", "must be an object"),))
    try:
        wire.require_json(document)
    except JsonError as error:
        return ValidateResult(ok=False, command=None, errors=(Problem(error.code, "", error.message),))
    errors = _envelope_problems(document)
    inside = extract_command(document)
    answer = ValidateResult(ok=False, command=None)
    if inside is not None:
        answer = validation.validate(inside, known)
        errors += [replace(error, field=f"{_INSIDE}.{error.field}".rstrip(".")) for error in answer.errors]
    return ValidateResult(
        ok=not errors,
        command=None if errors else answer.command,
        errors=tuple(errors),
        warnings=tuple(replace(problem, field=f"{_INSIDE}.{problem.field}") for problem in answer.warnings),
    )


def _envelope_problems(document: dict[str, Any]) -> list[Problem]:
    """Find the envelope's own faults. The rules of commands find those of the command."""
    try:
        CommandEnvelope.from_json(document)
    except ContractError as error:
        own = [problem for problem in error.problems if not problem.field.startswith(f"{_INSIDE}.")]
    else:
        return []
    inside = extract_command(document)
    if not isinstance(inside, dict) or any(problem.code is Code.COMMAND_ENVELOPE_MISMATCH for problem in own):
        return own
    # The model compares the ids only if the envelope is otherwise valid, so compare them here.
    return own + [
        Problem(
            Code.COMMAND_ENVELOPE_MISMATCH,
            name,
            "the envelope and its command have different values",
            "make the envelope again from the command",
        )
        for name in ("plan_id", "task_id", "command_id")
        if isinstance(document.get(name), str) and isinstance(inside.get(name), str)
        if document[name] != inside[name]
    ]
