"""Putting a command into its envelope, and checking both together."""

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
    """The envelope that carries a command; its ids are the command's. Raises ContractError for bad ids."""
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
    """The command that an envelope carries, as it stands there; None when there is none."""
    payload = document.get("payload")
    return payload.get("command") if isinstance(payload, dict) else None


def validate(document: object, known: Known = NOTHING) -> ValidateResult:
    """Whether an envelope and the command inside are right. Every fault of both at once."""
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
        warnings=tuple(replace(each, field=f"{_INSIDE}.{each.field}") for each in answer.warnings),
    )


def _envelope_problems(document: dict[str, Any]) -> list[Problem]:
    """The envelope's own faults. What is wrong inside the command is told by the command's rules."""
    try:
        CommandEnvelope.from_json(document)
    except ContractError as error:
        own = [each for each in error.problems if not each.field.startswith(f"{_INSIDE}.")]
    else:
        return []
    inside = extract_command(document)
    if not isinstance(inside, dict) or any(each.code is Code.COMMAND_ENVELOPE_MISMATCH for each in own):
        return own
    # The contract compares ids only in an envelope that is otherwise right.
    return own + [
        Problem(
            Code.COMMAND_ENVELOPE_MISMATCH,
            name,
            "the envelope and the command inside differ in it",
            "make the envelope anew from the command",
        )
        for name in ("plan_id", "task_id", "command_id")
        if isinstance(document.get(name), str) and isinstance(inside.get(name), str)
        if document[name] != inside[name]
    ]
