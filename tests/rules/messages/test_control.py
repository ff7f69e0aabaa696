"""What a control file is, whose word it is, and what it adds to an earlier one. And the board's way of routing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code
from agenttalk.rules.messages.control_files import FOLDERS, ControlFile, advance, kind_of, read
from agenttalk.rules.messages.routes import (
    CommandOrder,
    OutboxMessage,
    Rejection,
    is_superseded,
    route_on_board,
    sort_newest_first,
    unpack,
)
from kits.samples import DIGEST, artifact, command, envelope

AT = "2026-01-08T10:30:00Z"
LATER = "2026-01-08T11:30:00Z"
ACK: dict[str, Any] = {
    "plan_id": "plan_shop",
    "message_id": "m1",
    "task_id": "build",
    "consumer_agent_id": "dev",
    "status": "CONSUMED",
    "consumed_at": AT,
}
STATE: dict[str, Any] = {
    "plan_id": "plan_shop",
    "task_id": "build",
    "agent_id": "dev",
    "state": "RUNNING",
    "updated_at": AT,
}
DISPUTE: dict[str, Any] = {
    "dispute_id": "d1",
    "plan_id": "plan_shop",
    "task_id": "build",
    "agent_id": "dev",
    "check": "works",
    "reason": "It counts the wrong lines.",
}
ALERT: dict[str, Any] = {"alert_id": "a1", "severity": "INFO", "type": "NOTE", "created_at": AT, "message": "Look."}
DECISION: dict[str, Any] = {
    "decision_id": "d1",
    "decision_type": "RELEASE",
    "decision": "APPROVE",
    "decided_by_agent_id": "dev",
    "subject": {"kind": "release", "ref_sha256": DIGEST},
}
RELEASE: dict[str, Any] = {
    "release_id": "r1",
    "artifacts": [],
    "evidence_required": [],
    "evidence_refs": [],
    "decision": "REJECT",
}
REQUEST: dict[str, Any] = {
    "request_id": "q1",
    "created_by": {"agent_id": "dev"},
    "severity": "HIGH",
    "type": "DECISION",
    "title": "Which?",
}
AGAIN: dict[str, Any] = {
    "plan_id": "plan_shop",
    "original_task_id": "build",
    "original_agent": "pm",
    "validation_result": {"validator": "dev", "score": 10, "reason": "no"},
}
VALIDATION: dict[str, Any] = {
    "validation_id": "v1",
    "validator_agent_id": "dev",
    "validated_at": AT,
    "subject": {"producer_agent_id": "pm", "task_id": "build", "artifact_name": "x", "artifact_sha256": DIGEST},
    "decision": "REJECT",
}
RESPONSE: dict[str, Any] = {
    "request_id": "q1",
    "responded_at": AT,
    "responder": {"name": "Ada"},
    "decision": "APPROVE",
}


def said(kind: str, document: dict[str, Any], owner: str = "dev") -> ControlFile:
    control = read(kind, wire.write(document), owner=owner, plan_id="plan_shop")
    assert isinstance(control, ControlFile), control
    return control


def step(new: ControlFile, old: ControlFile | None, now: str = "9000-01-01T00:00:00Z") -> str:
    at = datetime.fromisoformat(now)
    verdict = advance(new, old.document if old else None, old.sha256 if old else "", at)
    return str(verdict.code) if isinstance(verdict, Rejection) else verdict


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ack_m1.json", "ack"),
        ("task_state_build.json", "task_state"),
        ("alert_1.json", "alert"),
        ("decision_record_1.json", "decision_record"),
        ("release_manifest_1.json", "release_manifest"),
        ("human_intervention_request_1.json", "human_intervention_request"),
        ("human_intervention_response_1.json", "human_intervention_response"),
        ("cmd_reexecute_build.json", "cmd_reexecute"),
        ("cmd_reexecute_build_002.msg.json", None),
        ("artifact_validation_result_1.json", "artifact_validation_result"),
        ("check_dispute_1.json", "check_dispute"),
        ("ack_m1.msg.json", None),
        ("ack_m1.txt", None),
        ("ack.json", None),
        ("notes.json", None),
    ],
)
def test_a_control_file_is_known_by_its_name(name: str, kind: str | None) -> None:
    assert kind_of(name) == kind


def test_a_letter_is_a_control_file_on_its_own_board_alone() -> None:
    assert (kind_of("mail_m1.json", "_mail"), kind_of("mail_m1.json", "plan_shop")) == ("mail", None)
    letter = {"message_id": "m1", "from": "dev", "to": ["pm"], "kind": "inform", "subject": "Hello", "body": "x"}
    assert said("mail", letter).id == "m1"
    forged = read("mail", wire.write(letter), owner="pm", plan_id="_mail")
    assert isinstance(forged, Rejection)
    assert forged.code is Code.PRODUCER_MISMATCH


@pytest.mark.parametrize(
    ("kind", "document", "owner", "number", "archive"),
    [
        ("ack", ACK, "dev", "m1@dev", "ack_m1.json"),
        ("task_state", STATE, "dev", "build@dev", "task_state_build.json"),
        ("alert", ALERT, "anybody", "a1", "alert_a1.json"),
        ("alert", {**ALERT, "source": {"agent_id": "dev"}}, "dev", "a1", "alert_a1.json"),
        ("decision_record", DECISION, "dev", "d1", "decision_record_d1.json"),
        ("release_manifest", RELEASE, "anybody", "r1", "release_manifest_r1.json"),
        ("human_intervention_request", REQUEST, "dev", "q1", "human_intervention_request_q1.json"),
        ("human_intervention_response", RESPONSE, "agent_human_gateway", "q1", "human_intervention_response_q1.json"),
        ("cmd_reexecute", AGAIN, "dev", "build@dev", "cmd_reexecute_build.json"),
        ("artifact_validation_result", VALIDATION, "dev", "v1@dev", "artifact_validation_result_v1.json"),
        ("check_dispute", DISPUTE, "dev", "d1@dev", "check_dispute_d1.json"),
    ],
)
def test_each_kind_is_read_with_what_it_is_about(
    kind: str, document: dict[str, Any], owner: str, number: str, archive: str
) -> None:
    control = said(kind, document, owner)
    assert (control.kind, control.id, control.archive_name) == (kind, number, archive)
    assert kind in FOLDERS or kind == "alert"


@pytest.mark.parametrize(
    ("kind", "data", "owner", "code"),
    [
        ("ack", b"{", "dev", Code.ENVELOPE_PARSE_ERROR),
        ("ack", wire.write({**ACK, "status": "DONE"}), "dev", Code.SCHEMA_INVALID),
        ("ack", wire.write({**ACK, "schema_version": "2.0"}), "dev", Code.SCHEMA_VERSION_UNSUPPORTED),
        ("ack", wire.write(ACK), "tester", Code.PRODUCER_MISMATCH),
        ("task_state", wire.write(STATE), "tester", Code.PRODUCER_MISMATCH),
        ("alert", wire.write({**ALERT, "source": {"agent_id": "dev"}}), "tester", Code.PRODUCER_MISMATCH),
        ("decision_record", wire.write(DECISION), "tester", Code.PRODUCER_MISMATCH),
        ("human_intervention_request", wire.write(REQUEST), "tester", Code.PRODUCER_MISMATCH),
        ("human_intervention_response", wire.write(RESPONSE), "dev", Code.PRODUCER_MISMATCH),
        ("check_dispute", wire.write(DISPUTE), "tester", Code.PRODUCER_MISMATCH),
        ("ack", wire.write({**ACK, "plan_id": "other"}), "dev", Code.PLAN_MISMATCH),
    ],
    ids=range(11),
)
def test_what_is_no_control_file_or_not_ones_own_is_refused(kind: str, data: bytes, owner: str, code: Code) -> None:
    refused = read(kind, data, owner=owner, plan_id="plan_shop")
    assert isinstance(refused, Rejection)
    assert refused.code is code


def test_a_refusal_names_the_field() -> None:
    short = {key: value for key, value in ACK.items() if key != "consumer_agent_id"}
    refused = read("ack", wire.write(short), owner="dev", plan_id="plan_shop")
    assert isinstance(refused, Rejection)
    assert refused.message.startswith("consumer_agent_id: ")


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (None, ACK, "new"),
        (ACK, ACK, "same"),
        (ACK, {**ACK, "consumed_at": LATER}, "same"),
        (ACK, {**ACK, "status": "SUCCEEDED"}, "advance"),
        (ACK, {**ACK, "status": "FAILED"}, "advance"),
        ({**ACK, "status": "SUCCEEDED"}, ACK, "CONTROL_CHANGED"),
        ({**ACK, "status": "SUCCEEDED"}, {**ACK, "status": "FAILED"}, "CONTROL_CHANGED"),
        ({**ACK, "status": "FAILED"}, {**ACK, "status": "SUCCEEDED"}, "CONTROL_CHANGED"),
    ],
    ids=range(8),
)
def test_a_receipt_advances_once_and_never_back(old: dict[str, Any] | None, new: dict[str, Any], verdict: str) -> None:
    assert step(said("ack", new), said("ack", old) if old else None) == verdict


def test_a_state_is_replaced_by_a_later_one_only() -> None:
    first, later = said("task_state", STATE), said("task_state", {**STATE, "updated_at": LATER, "state": "FAILED"})
    assert step(later, first) == "advance"
    assert step(first, later) == "same"
    assert step(first, later, STATE["updated_at"]) == "advance", "its agent's clock was ahead"


def test_everything_else_stands() -> None:
    changed = {**DECISION, "decision": "REJECT"}
    assert step(said("decision_record", changed), said("decision_record", DECISION)) == "CONTROL_CHANGED"
    assert step(said("decision_record", DECISION), said("decision_record", DECISION)) == "same"


# On a virtual board.


def parcel(document: dict[str, Any], owner: str) -> OutboxMessage:
    found = unpack(wire.write({**document, "producer_agent_id": owner}), owner=owner, plan_id="_toolchain")
    assert isinstance(found, OutboxMessage), found
    return found


ORDER = envelope(plan_id="_toolchain", payload={"command": command(plan_id="_toolchain", dag_ref=...)})
RESULT = artifact(plan_id="_toolchain")


@pytest.mark.parametrize(
    ("document", "owner", "assignee", "expected"),
    [
        (ORDER, "engine", "dev", ("dev",)),
        (ORDER, "lead", "dev", Code.COMMAND_NOT_AUTHORISED),
        (ORDER, "engine", None, Code.TASK_NOT_FOUND),
        (RESULT, "dev", "dev", ()),
        (RESULT, "dev", "pm", Code.PRODUCER_MISMATCH),
        (RESULT, "dev", None, Code.TASK_NOT_FOUND),
    ],
    ids=range(6),
)
def test_on_a_board_the_assignee_decides(
    document: dict[str, Any], owner: str, assignee: str | None, expected: tuple[str, ...] | Code
) -> None:
    routed = route_on_board(parcel(document, owner), assignee)
    assert (routed.code if isinstance(routed, Rejection) else routed) == expected


# The order in which a pass judges.


def order(task: str, seq: int) -> CommandOrder:
    return CommandOrder(f"m_{task}_{seq}", task, f"cmd_{task}_{seq:03d}", seq)


def test_of_each_task_the_newest_order_is_judged_first_and_what_is_no_order_last() -> None:
    orders = {"x": None, "a1": order("a", 1), "b1": order("b", 1), "a3": order("a", 3), "y": None, "b2": order("b", 2)}
    assert sort_newest_first(list(orders), orders.get) == ["a3", "a1", "b2", "b1", "x", "y"]
    assert sort_newest_first([], orders.get) == []


@pytest.mark.parametrize(("newest", "late"), [(None, False), (1, False), (2, False), (3, True)])
def test_an_order_is_late_when_a_newer_one_was_accepted(newest: int | None, late: bool) -> None:
    assert is_superseded(order("a", 2), order("a", newest) if newest else None) is late


@pytest.mark.parametrize(
    ("document", "message_id"),
    [
        (envelope(type="broadcast", message_id="m7"), "m7"),
        (envelope(type="broadcast", message_id="a/b"), None),
        (envelope(type="broadcast", message_id=7), None),
        (envelope(type="broadcast", message_id=...), None),
        (envelope(producer_agent_id="dev", message_id="m7"), "m7"),
    ],
    ids=range(5),
)
def test_a_refusal_tells_the_messages_id_as_far_as_it_can_be_read(
    document: dict[str, Any], message_id: str | None
) -> None:
    refused = unpack(wire.write(document), owner="lead", plan_id="plan_shop")
    assert isinstance(refused, Rejection)
    assert refused.message_id == message_id


def test_a_refusal_of_what_is_no_object_has_no_id() -> None:
    refused = unpack(b"[]", owner="lead", plan_id="plan_shop")
    assert isinstance(refused, Rejection)
    assert refused.message_id is None


def test_the_same_may_be_refused_again_with_the_same_words() -> None:
    first = said("cmd_reexecute", AGAIN)
    assert (step(first, None), step(first, first)) == ("new", "advance")
