"""Validating a command: it changes nothing, accepts nothing short, and names every fault at once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.command import DagRef
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import Code
from agenttalk.rules.commands import validation
from agenttalk.rules.commands.validation import Known, validate
from kits.samples import DIGEST, OTHER_DIGEST, command, json_values

REQUIRED = (
    "plan_id", "task_id", "command_id", "command_seq", "dag_ref", "prompt", "required_inputs",
    "wait_for_inputs", "score_required", "timeout",
)  # fmt: skip


def codes(document: object, known: Known = validation.NOTHING) -> list[tuple[Code, str]]:
    answer = validate(document, known)
    assert answer.ok is (not answer.errors)
    assert (answer.command is None) is (not answer.ok)
    return [(error.code, error.field) for error in answer.errors]


def test_a_good_command_is_accepted_and_left_as_it_is() -> None:
    document = command(x_own={"kept": None})
    before = copy.deepcopy(document)
    assert validate(document).ok
    assert document == before


@pytest.mark.shows("C04", "C05", "C06", "C08")
@pytest.mark.parametrize(
    ("number", "changes", "expected"),
    [
        # The eleven checks of the specification, in its order.
        (1, {"command_id": ...}, (Code.COMMAND_FIELD_MISSING, "command_id")),
        (1, {"command_id": "cmd_001"}, (Code.COMMAND_SEQ_INVALID_FORMAT, "command_id")),
        (1, {"command_id": "cmd_task_001"}, (Code.COMMAND_SEQ_INVALID_FORMAT, "command_id")),
        (1, {"command_id": "cmd_task_001_01"}, (Code.COMMAND_SEQ_INVALID_FORMAT, "command_id")),
        (1, {"command_id": "cmd_task_001_0x1"}, (Code.COMMAND_SEQ_INVALID_FORMAT, "command_id")),
        (1, {"command_id": "cmd_task_001_００１"}, (Code.COMMAND_SEQ_INVALID_FORMAT, "command_id")),
        (1, {"command_id": "cmd_reexecute_001"}, (Code.COMMAND_TASK_MISMATCH, "command_id")),
        (1, {"command_id": "cmd_task_002_001"}, (Code.COMMAND_TASK_MISMATCH, "command_id")),
        (1, {"command_id": 7}, (Code.COMMAND_FIELD_TYPE, "command_id")),
        (2, {"plan_id": ...}, (Code.COMMAND_FIELD_MISSING, "plan_id")),
        (2, {"plan_id": "../plan"}, (Code.ID_INVALID, "plan_id")),
        (3, {"task_id": ...}, (Code.COMMAND_FIELD_MISSING, "task_id")),
        (3, {"task_id": ""}, (Code.ID_INVALID, "task_id")),
        (4, {"command_seq": ...}, (Code.COMMAND_SEQ_MISSING, "command_seq")),
        (4, {"command_seq": "1"}, (Code.COMMAND_FIELD_TYPE, "command_seq")),
        (4, {"command_seq": True}, (Code.COMMAND_FIELD_TYPE, "command_seq")),
        (4, {"command_seq": -1}, (Code.COMMAND_FIELD_VALUE, "command_seq")),
        (4, {"command_seq": 2}, (Code.COMMAND_SEQ_MISMATCH, "command_seq")),
        (5, {"prompt": ...}, (Code.COMMAND_FIELD_MISSING, "prompt")),
        (5, {"prompt": " \n"}, (Code.COMMAND_FIELD_VALUE, "prompt")),
        (6, {"required_inputs": "a.md"}, (Code.COMMAND_FIELD_TYPE, "required_inputs")),
        (6, {"required_inputs": ["/etc/passwd"]}, (Code.PATH_OUTSIDE_FOLDER, "required_inputs[0]")),
        (6, {"required_inputs": ...}, (Code.COMMAND_FIELD_MISSING, "required_inputs")),
        (7, {"wait_for_inputs": "true"}, (Code.COMMAND_FIELD_TYPE, "wait_for_inputs")),
        (7, {"wait_for_inputs": 1}, (Code.COMMAND_FIELD_TYPE, "wait_for_inputs")),
        (8, {"score_required": "no"}, (Code.COMMAND_FIELD_TYPE, "score_required")),
        (9, {"on_complete": {"notes": "x"}}, (Code.COMMAND_FIELD_MISSING, "on_complete.message_template")),
        (10, {"on_failure": {"message_template": ""}}, (Code.COMMAND_FIELD_VALUE, "on_failure.message_template")),
        (11, {"timeout": ...}, (Code.COMMAND_FIELD_MISSING, "timeout")),
        (11, {"timeout": 0}, (Code.COMMAND_FIELD_VALUE, "timeout")),
        (11, {"timeout": -5}, (Code.COMMAND_FIELD_VALUE, "timeout")),
        (11, {"timeout": 1.5}, (Code.COMMAND_FIELD_TYPE, "timeout")),
        (11, {"timeout": 2**53}, (Code.COMMAND_FIELD_VALUE, "timeout")),
    ],
)
def test_each_check_of_the_specification_has_its_code(
    number: int, changes: dict[str, Any], expected: tuple[Code, str]
) -> None:
    assert 1 <= number <= 11
    assert expected in codes(command(**changes))


@pytest.mark.shows("C08", "C13")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"retry_times": -1}, (Code.COMMAND_FIELD_VALUE, "retry_times")),
        ({"priority": "URGENT"}, (Code.COMMAND_FIELD_VALUE, "priority")),
        ({"schema_version": "2.0"}, (Code.SCHEMA_VERSION_UNSUPPORTED, "schema_version")),
        ({"schema_version": 1}, (Code.COMMAND_FIELD_TYPE, "schema_version")),
        (
            {"resolved_inputs": [{"input_name": "a", "required": True, "paths": []}]},
            (Code.COMMAND_FIELD_VALUE, "resolved_inputs[0].paths"),
        ),
        (
            {"produces": [{"output_name": "a", "files": [{"path": "../a"}]}]},
            (Code.PATH_OUTSIDE_FOLDER, "produces[0].files[0].path"),
        ),
        ({"promise": {"id": "x"}}, (Code.COMMAND_FIELD_MISSING, "promise.objective")),
        ({"dag_ref": {"sha256": "..."}}, (Code.HASH_INVALID, "dag_ref.sha256")),
        ({"payload_hash": "abc"}, (Code.HASH_INVALID, "payload_hash")),
        ({"idempotency_key": ""}, (Code.COMMAND_FIELD_VALUE, "idempotency_key")),
    ],
    ids=range(10),
)
def test_other_fields_have_their_rules_too(changes: dict[str, Any], expected: tuple[Code, str]) -> None:
    assert expected in codes(command(**changes))


@pytest.mark.shows("C18")
def test_all_errors_come_at_once() -> None:
    found = codes(
        command(
            plan_id="a b",
            command_seq=9,
            prompt="",
            timeout="1h",
            score_required=True,
            deliver_to=["x"],
            wait_for_inputs=...,
        )
    )
    assert found == [
        (Code.ID_INVALID, "plan_id"),
        (Code.COMMAND_FIELD_VALUE, "prompt"),
        (Code.COMMAND_FIELD_MISSING, "wait_for_inputs"),
        (Code.COMMAND_FIELD_TYPE, "timeout"),
        (Code.COMMAND_SEQ_MISMATCH, "command_seq"),
        (Code.COMMAND_SCORE_CRITERIA_MISSING, "score_criteria"),
        (Code.COMMAND_ROUTES_ITSELF, "deliver_to"),
    ]
    assert all(error.message for error in validate(command(plan_id="a b")).errors)


@pytest.mark.shows("C07")
def test_a_command_id_is_used_once_in_its_plan() -> None:
    known = Known(command_ids={"cmd_task_001_001"}, last_seq=1)
    assert codes(command(), known) == [(Code.COMMAND_ID_REUSED, "command_id")]
    assert codes(command(command_id="cmd_task_001_002", command_seq=2), known) == []


@pytest.mark.shows("C11")
def test_the_dag_ref_is_required_and_must_be_the_active_one() -> None:
    assert codes(command(dag_ref=...)) == [(Code.COMMAND_FIELD_MISSING, "dag_ref")]
    assert codes(command(dag_ref=None)) == [(Code.COMMAND_FIELD_MISSING, "dag_ref")]
    assert codes(command(dag_ref={"sha256": OTHER_DIGEST}), Known(dag_ref=DagRef(sha256=DIGEST))) == [
        (Code.COMMAND_DAG_MISMATCH, "dag_ref.sha256")
    ]
    assert codes(command(), Known(dag_ref=DagRef(sha256=DIGEST))) == []
    bare = command(dag_ref={"sha256": DIGEST.removeprefix("sha256:")})
    assert codes(bare, Known(dag_ref=DagRef(sha256=DIGEST))) == []


@pytest.mark.shows("C11")
def test_virtual_boards_have_no_dag() -> None:
    assert codes(command(plan_id="_mail", dag_ref=...)) == []
    assert codes(command(dag_ref=5)) == [(Code.COMMAND_FIELD_TYPE, "dag_ref")]


def test_a_task_that_the_dag_does_not_have_is_refused_with_the_nearest() -> None:
    answer = validate(command(), Known(task_ids={"task_01", "other"}))
    assert [(error.code, error.hint) for error in answer.errors] == [(Code.TASK_NOT_IN_DAG, "did you mean 'task_01'?")]
    assert validate(command(), Known(task_ids={"zzz"})).errors[0].hint == "the DAG decides which tasks exist"
    assert codes(command(), Known(task_ids={"task_001"})) == []


@pytest.mark.shows("C09")
@pytest.mark.parametrize(
    ("required", "criteria", "expected"),
    [
        (True, "0-100 by coverage", []),
        (False, ..., []),
        (False, None, []),
        (True, ..., [(Code.COMMAND_SCORE_CRITERIA_MISSING, "score_criteria")]),
        (True, None, [(Code.COMMAND_SCORE_CRITERIA_MISSING, "score_criteria")]),
        (True, "  ", [(Code.COMMAND_SCORE_CRITERIA_MISSING, "score_criteria")]),
        (False, "x", [(Code.COMMAND_FIELD_VALUE, "score_criteria")]),
        (True, 5, [(Code.COMMAND_FIELD_TYPE, "score_criteria")]),
    ],
    ids=range(8),
)
def test_a_score_needs_criteria_and_criteria_a_score(
    required: bool, criteria: Any, expected: list[tuple[Code, str]]
) -> None:
    assert codes(command(score_required=required, score_criteria=criteria)) == expected


@pytest.mark.shows("C12")
def test_the_payload_hash_is_checked_when_it_is_there() -> None:
    good = command()
    good["payload_hash"] = validation.payload_hash(good)
    assert codes(good) == []
    assert codes({**good, "payload_hash": good["payload_hash"].removeprefix("sha256:")}) == []
    assert codes({**good, "prompt": "Something else."}) == [(Code.COMMAND_PAYLOAD_HASH_MISMATCH, "payload_hash")]
    assert codes({**good, "x_new": 1}) == [(Code.COMMAND_PAYLOAD_HASH_MISMATCH, "payload_hash")]
    assert codes(command(payload_hash=5)) == [(Code.COMMAND_FIELD_TYPE, "payload_hash")]


@pytest.mark.shows("C15")
@pytest.mark.parametrize(
    "name",
    [
        "to",
        "recipient_id",
        "send_results_to",
        "destination",
        "send_to",
        "deliver_to",
        "target",
        "target_agent",
        "target_agent_id",
        "targets",
        "sendTo",
        "Deliver-To",
        "recipients",
        "routing",
        "to_agent_id",
        "assigned_agent_id",
        "TARGET",
    ],
)
def test_a_command_that_routes_itself_is_refused(name: str) -> None:
    assert codes(command(**{name: "backend"})) == [(Code.COMMAND_ROUTES_ITSELF, name)]


@pytest.mark.shows("C15")
def test_routing_is_found_inside_notices_and_outputs_but_not_in_vocabularies_of_their_own() -> None:
    inside = command(
        on_complete={"message_template": "x", "send_to": "a"},
        on_failure={"message_template": "x", "more": {"deeper": [{"deliver_to": "a"}]}},
        produces=[{"output_name": "a", "files": [{"path": "a", "target": "b"}]}],
        dag_ref={"sha256": DIGEST, "deliver_to": "a"},
        validation_criteria={"send_to": "a"},
    )
    assert codes(inside) == [
        (Code.COMMAND_ROUTES_ITSELF, "dag_ref.deliver_to"),
        (Code.COMMAND_ROUTES_ITSELF, "on_complete.send_to"),
        (Code.COMMAND_ROUTES_ITSELF, "on_failure.more.deeper[0].deliver_to"),
        (Code.COMMAND_ROUTES_ITSELF, "produces[0].files[0].target"),
        (Code.COMMAND_ROUTES_ITSELF, "validation_criteria.send_to"),
    ]
    promise = {
        "id": "cp-1-abcd",
        "objective": "o",
        "acceptance": [{"id": "a", "description": "d"}],
        "doneWhen": [{"type": "acceptance-met", "target": "*"}],
    }
    schema: dict[str, Any] = {"properties": {"send_to": {}}}
    assert codes(command(promise=promise, validation_criteria={"json_schema": schema}, x_note={"target": 1})) == []


def test_a_re_execution_is_an_order_for_the_original_task() -> None:
    again = {
        "original_task_id": "task_001",
        "original_agent": "pm",
        "attempt": 1,
        "validation_result": {"validator": "backend", "score": 30, "reason": "incomplete", "issues": ["No API."]},
    }
    assert codes(command(reexecute=again)) == []
    other = {**again, "original_task_id": "task_002"}
    assert codes(command(reexecute=other)) == [(Code.COMMAND_TASK_MISMATCH, "reexecute.original_task_id")]


def test_a_misspelt_field_is_kept_and_pointed_at() -> None:
    answer = validate(command(time_out=5, x_own=1))
    assert answer.ok
    assert [(warning.code, warning.field, warning.hint) for warning in answer.warnings] == [
        (Code.FIELD_UNKNOWN, "time_out", "did you mean 'timeout'?")
    ]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (None, Code.COMMAND_FIELD_TYPE),
        ([], Code.COMMAND_FIELD_TYPE),
        ({"a": b""}, Code.JSON_VALUE),
        (command(x=float("nan")), Code.JSON_NUMBER),
        (command(x="\ud800"), Code.JSON_TEXT),
    ],
    ids=range(5),
)
def test_what_is_no_json_object_is_no_command(document: object, code: Code) -> None:
    assert codes(document) == [(code, "")]


def inside(path: str) -> bool:
    return not set(path.split("/")) & {"", ".", ".."} and "\\" not in path and path.isprintable()


@given(field=st.sampled_from(REQUIRED), value=json_values)
def test_no_mutation_of_a_required_field_that_makes_it_wrong_is_accepted(field: str, value: Any) -> None:
    """Whatever is put in place of a required field: it is accepted only if it is right by itself."""
    document = command(**{field: value})
    right: dict[str, Callable[[Any], bool]] = {
        "plan_id": lambda v: isinstance(v, str) and is_id(v),
        "task_id": lambda v: v == "task_001",
        "command_id": lambda v: isinstance(v, str) and v.startswith("cmd_task_001_") and int(v[13:]) == 1,
        "command_seq": lambda v: v == 1 and type(v) is int,
        "dag_ref": lambda v: isinstance(v, dict) and "sha256" in v,
        "prompt": lambda v: isinstance(v, str) and v.strip() != "",
        "required_inputs": lambda v: isinstance(v, list) and all(isinstance(each, str) and inside(each) for each in v),
        "wait_for_inputs": lambda v: isinstance(v, bool),
        "score_required": lambda v: v is False,
        "timeout": lambda v: type(v) is int and v > 0,
    }
    if not right[field](value):
        assert not validate(document).ok


@pytest.mark.parametrize("field", REQUIRED)
def test_no_required_field_can_be_left_out(field: str) -> None:
    assert field in {where for _, where in codes(command(**{field: ...}))}
    assert field in {where for _, where in codes(command(**{field: None}))}


@pytest.mark.mends("B8")
def test_a_wrong_number_is_not_hidden_beside_a_wrong_task() -> None:
    found = {code for code, _ in codes(command(command_id="cmd_other_004", command_seq=2))}
    assert {Code.COMMAND_TASK_MISMATCH, Code.COMMAND_SEQ_MISMATCH} <= found
