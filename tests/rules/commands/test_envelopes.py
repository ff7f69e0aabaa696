"""Wrapping a command, and checking an envelope with what is inside."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agenttalk.contracts.command import Command
from agenttalk.contracts.core.base import AgentId, MessageId
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import Code, ContractError, UsageError
from agenttalk.rules.commands import envelopes, validation
from kits.samples import command

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def wrapped(**changes: Any) -> CommandEnvelope:
    order = Command.from_json(command(**changes))
    return envelopes.wrap(order, producer=AgentId("pm"), message_id=MessageId("m1"), now=NOW)


def codes(document: dict[str, Any]) -> list[tuple[Code, str]]:
    answer = envelopes.validate(document)
    assert answer.ok is (not answer.errors) is (answer.command is not None)
    return [(error.code, error.field) for error in answer.errors]


@pytest.mark.shows("M01")
def test_a_wrapped_command_is_a_valid_envelope() -> None:
    document = wrapped(idempotency_key="k").as_json()
    assert CommandEnvelope.from_json(document).idempotency_key == "k"
    assert document["created_at"] == "2026-01-31T09:30:00Z"
    assert codes(document) == []


def test_a_hash_stays_right_when_a_command_is_wrapped() -> None:
    document = command()
    document["payload_hash"] = validation.payload_hash(document)
    answer = validation.validate(document)
    assert answer.command is not None
    assert validation.validate(answer.command.as_json()).ok
    packed = envelopes.wrap(answer.command, producer=AgentId("pm"), message_id=MessageId("m1"), now=NOW)
    assert codes(packed.as_json()) == []


def test_only_good_ids_and_aware_times_are_wrapped() -> None:
    order = Command.from_json(command())
    with pytest.raises(ContractError):
        envelopes.wrap(order, producer=AgentId("a b"), message_id=MessageId("m1"), now=NOW)
    with pytest.raises(UsageError):
        envelopes.wrap(order, producer=AgentId("pm"), message_id=MessageId("m1"), now=NOW.replace(tzinfo=None))


def test_what_is_no_object_is_no_envelope() -> None:
    assert [error.code for error in envelopes.validate([]).errors] == [Code.FIELD_TYPE]


def test_the_file_of_a_re_execution_is_named_so() -> None:
    again = {
        "original_task_id": "task_001",
        "original_agent": "pm",
        "attempt": 1,
        "validation_result": {"validator": "backend", "score": 30, "reason": "incomplete"},
    }
    assert wrapped(reexecute=again).file_name == "cmd_reexecute_task_001_001.msg.json"
    assert wrapped().file_name == "cmd_task_001_001.msg.json"


def test_faults_of_the_envelope_and_of_the_command_come_together() -> None:
    document = {
        **wrapped().as_json(),
        "message_id": "a/b",
        "plan_id": "other",
        "payload": {"command": command(timeout="3", send_to="x", time_out=1)},
    }
    assert codes(document) == [
        (Code.ID_INVALID, "message_id"),
        (Code.COMMAND_ENVELOPE_MISMATCH, "plan_id"),
        (Code.COMMAND_FIELD_TYPE, "payload.command.timeout"),
        (Code.COMMAND_ROUTES_ITSELF, "payload.command.send_to"),
    ]
    assert [each.field for each in envelopes.validate(document).warnings] == ["payload.command.time_out"]


def test_an_envelope_that_is_right_but_for_its_ids_is_refused_once() -> None:
    assert codes({**wrapped().as_json(), "plan_id": "other"}) == [(Code.COMMAND_ENVELOPE_MISMATCH, "")]


@pytest.mark.parametrize("payload", [None, 5, {}, {"command": None}])
def test_an_envelope_without_a_command_is_refused(payload: Any) -> None:
    assert codes({**wrapped().as_json(), "payload": payload})


def test_an_envelope_that_json_cannot_hold_is_refused() -> None:
    assert codes({**wrapped().as_json(), "x": b""}) == [(Code.JSON_VALUE, "")]


def test_a_command_that_is_no_object_is_refused() -> None:
    found = codes({**wrapped().as_json(), "payload": {"command": 5}})
    assert (Code.COMMAND_FIELD_TYPE, "payload.command") in found
