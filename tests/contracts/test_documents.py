"""What holds for every document: round trips, unknown fields, schemas, versions, nulls."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import catalogue
from agenttalk.contracts.core.base import Document, Part
from agenttalk.contracts.dag import Input, Node, TaskDag
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope, read_envelope
from agenttalk.contracts.errors import Code, ContractError, JsonError, UsageError
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.contracts.validation import DecisionRecord, ValidationFeedback
from effort import cases
from kits.samples import DIGEST, artifact, command, documents, envelope

GOLDEN = Path(__file__).parent / "golden"
UNSHRUNK = (Phase.explicit, Phase.generate)
"""Shrinking a whole document takes minutes and says little more."""
NAMES = sorted(catalogue.DOCUMENTS)
FEEDBACK: dict[str, Any] = {
    "validator": "backend",
    "original_agent": "pm",
    "original_task_id": "task_001",
    "validation_time": "2026-01-08T10:30:00Z",
    "score": 30,
    "decision": "REJECT",
    "reason": "No API is defined.",
    "issues": [{"severity": "HIGH", "category": "COMPLETENESS", "description": "No login API.", "location": "a.md#3"}],
}


def refusal(kind: type[Document], data: object) -> ContractError:
    with pytest.raises(ContractError) as caught:
        kind.from_json(data)
    return caught.value


def read(name: str, data: dict[str, Any]) -> Part:
    kind = catalogue.DOCUMENTS[name]
    assert issubclass(kind, Part)
    if name == "command_envelope":  # its ids must agree, which no schema can say
        inside = data["payload"]["command"]
        data.update({key: inside[key] for key in ("plan_id", "task_id", "command_id")})
    return kind.from_json(data) if issubclass(kind, Document) else kind.read(data)


@pytest.mark.no_cover
@pytest.mark.shows("C17")
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=cases(24), phases=UNSHRUNK, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_document_survives_a_round_trip_with_what_it_does_not_know(name: str, data: st.DataObject) -> None:
    raw = data.draw(documents(name))
    document = read(name, raw)
    written = document.as_json()
    assert type(document).read(written) == document
    unknown = {key: value for key, value in raw.items() if key.startswith("x_")}
    assert {key: written[key] for key in unknown} == unknown
    if isinstance(document, Document):
        assert type(document).from_bytes(document.to_bytes()) == document


@pytest.mark.no_cover
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=cases(10), phases=UNSHRUNK, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_we_write_meets_the_schema_that_we_publish(name: str, data: st.DataObject) -> None:
    document = read(name, data.draw(documents(name)))
    assume(name != "command" or scores_agree(document.as_json()))
    assume(name != "command_envelope" or scores_agree(document.as_json()["payload"]["command"]))
    Draft202012Validator(catalogue.schema(name)).validate(document.as_json())


def scores_agree(document: dict[str, Any]) -> bool:
    return document["score_required"] is ("score_criteria" in document)


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_as_they_were_last_agreed(name: str) -> None:
    """A failure here is a change of a public contract. Look at the difference; AGENTTALK_UPDATE_GOLDEN=1 accepts it."""
    Draft202012Validator.check_schema(catalogue.schema(name))
    now = json.dumps(catalogue.schema(name), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    file = GOLDEN / f"{name}.schema.json"
    if os.environ.get("AGENTTALK_UPDATE_GOLDEN"):
        file.write_text(now, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == now


def test_every_golden_schema_belongs_to_a_document() -> None:
    assert sorted(file.name.removesuffix(".schema.json") for file in GOLDEN.iterdir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_field_says_what_it_is(name: str) -> None:
    schema = catalogue.schema(name)
    objects = [schema, *schema.get("$defs", {}).values()]
    silent = [
        f"{each['title']}.{key}"
        for each in objects
        for key, field in each.get("properties", {}).items()
        if "description" not in field and "const" not in field
    ]
    assert silent == []
    assert all(each["description"] for each in objects)
    assert catalogue.summary(name)


def test_an_unknown_document_is_named_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="no document called 'comand'") as caught:
        catalogue.schema("comand")
    assert caught.value.hint == "did you mean 'command'?"
    with pytest.raises(UsageError) as caught:
        catalogue.schema("zzz")
    assert "agenttalk schema" in caught.value.hint


def test_documents_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Command.from_json(command()).prompt = "x"  # type: ignore[misc]


def test_every_problem_of_a_document_is_named_at_once() -> None:
    error = refusal(ValidationFeedback, {**FEEDBACK, "validator": "a/b", "score": 101, "reason": None, "issues": [{}]})
    assert [(problem.code, problem.field) for problem in error.problems] == [
        (Code.ID_INVALID, "validator"),
        (Code.FIELD_VALUE, "score"),
        (Code.FIELD_MISSING, "reason"),
        (Code.FIELD_MISSING, "issues[0].description"),
    ]
    assert "(and 3 more)" in error.message
    assert not error.retriable


def test_a_misspelt_field_is_pointed_at() -> None:
    document = {("reasn" if key == "reason" else key): value for key, value in FEEDBACK.items()}
    (problem,) = refusal(ValidationFeedback, document).problems
    assert problem.hint == "'reasn' is given: did you mean 'reason'?"


def test_what_is_no_object_is_no_document() -> None:
    assert refusal(Command, [1]).code is Code.FIELD_TYPE
    with pytest.raises(ContractError):
        Command.from_bytes(b"null")


def test_of_a_document_in_an_unknown_version_nothing_else_is_said() -> None:
    error = refusal(Command, {"schema_version": "2.0", "plan_id": "a/b"})
    assert [problem.code for problem in error.problems] == [Code.SCHEMA_VERSION_UNSUPPORTED]
    assert "2.0" in error.message
    assert "upgrade" in error.hint


def test_a_newer_minor_keeps_what_it_brings() -> None:
    written = Command.from_json(command(schema_version="1.9", brand_new={"a": None})).as_json()
    assert written["schema_version"] == "1.9"
    assert written["brand_new"] == {"a": None}


def test_a_null_counts_as_absence_and_an_unknown_null_survives() -> None:
    record = {
        "decision_id": "d1",
        "decision_type": "RELEASE",
        "decision": "APPROVE",
        "decided_by_agent_id": "lead",
        "subject": {"kind": "release", "ref_sha256": DIGEST},
        "missing_participants": None,
        "plan_id": None,
        "x_note": None,
    }
    written = DecisionRecord.from_json(record).as_json()
    assert written["missing_participants"] == []
    assert written["x_note"] is None
    assert "plan_id" not in written


def test_values_that_json_cannot_hold_are_no_document() -> None:
    with pytest.raises(JsonError):
        Command.from_json({**command(), "x": float("nan")})


def test_a_long_wrong_value_is_shown_shortened_and_a_container_by_its_kind() -> None:
    error = refusal(
        Command, command(timeout="9" * 100, wait_for_inputs={}, score_required=[], priority=None, retry_times=True)
    )
    hints = {problem.field: problem.hint for problem in error.problems}
    assert hints["timeout"].endswith("...")
    assert hints["wait_for_inputs"] == "it is an object"
    assert hints["score_required"] == "it is an array"
    assert hints["retry_times"] == "it is true"


def test_nulls_in_arrays_are_no_absence() -> None:
    error = refusal(Command, command(required_inputs=["a", None]))
    assert [(problem.code, problem.field) for problem in error.problems] == [(Code.FIELD_TYPE, "required_inputs[1]")]


def test_reading_very_large_documents_leaves_the_collector_as_it_was() -> None:
    Command.from_json(command())
    assert gc.isenabled()
    gc.disable()
    try:
        Command.from_json(command())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_unknown_fields_that_nearly_are_known_are_found() -> None:
    assert Command.unknown_fields({"timout": 1, "x_own": 2, "prompt": "p"}) == {"timout": "timeout"}


# Envelopes


@pytest.mark.shows("M01")
def test_a_command_envelope_carries_a_command_with_the_same_ids() -> None:
    read_back = read_envelope(envelope())
    assert isinstance(read_back, CommandEnvelope)
    assert read_back.file_name == "cmd_task_001_001.msg.json"


@pytest.mark.shows("M01")
@pytest.mark.parametrize("name", ["plan_id", "task_id", "command_id"])
def test_an_envelope_that_differs_from_its_command_is_refused(name: str) -> None:
    other = "cmd_task_001_002" if name == "command_id" else "other"
    with pytest.raises(ContractError) as caught:
        read_envelope(envelope(**{name: other}))
    assert caught.value.code is Code.COMMAND_ENVELOPE_MISMATCH
    assert name in caught.value.message


def test_an_artifact_envelope_needs_its_output_and_files() -> None:
    assert isinstance(read_envelope(artifact()), ArtifactEnvelope)
    with pytest.raises(ContractError) as caught:
        read_envelope(artifact(output_name=..., payload={"files": []}))
    assert [problem.field for problem in caught.value.problems] == ["output_name", "payload.files"]


def test_other_types_of_messages_do_not_exist() -> None:
    with pytest.raises(ContractError) as caught:
        read_envelope(envelope(type="broadcast"))
    assert caught.value.code is Code.UNSUPPORTED_MESSAGE_TYPE
    with pytest.raises(ContractError) as caught:
        read_envelope(envelope(type=...))
    assert "type" in {problem.field for problem in caught.value.problems}
    with pytest.raises(ContractError):
        read_envelope("text")


# DAGs


def test_a_1_0_dag_is_lifted() -> None:
    old = {
        "plan_id": "p",
        "nodes": [
            {
                "task_id": "a",
                "assigned_agent_id": "x",
                "required_inputs": ["spec.md", "feedback_*.json"],
                "outputs": ["report.md", {"name": "b.md"}],
            },
            {"task_id": "b", "assigned_agent_id": "x", "inputs": [], "required_inputs": ["lifted.md"]},
        ],
    }
    before = json.dumps(old)
    dag = TaskDag.from_json(old)
    assert json.dumps(old) == before
    assert dag.schema_version == "1.1"
    assert [(need.selector.type, need.policy) for need in dag.nodes[0].inputs] == [
        ("by_file_name", "latest_by_delivered_at"),
        ("by_glob", "all"),
    ]
    assert [output.name for output in dag.nodes[0].outputs] == ["report.md", "b.md"]
    assert [need.name for need in dag.nodes[1].inputs] == ["lifted.md"]
    assert dag.nodes[0].outputs[0].versioning.mode == "reject_on_change"


def test_lifting_leaves_nonsense_for_reading_to_refuse() -> None:
    for nodes in (None, 3, [3], [{"required_inputs": [1], "outputs": 3}]):
        with pytest.raises(ContractError):
            TaskDag.from_json({"plan_id": "p", "nodes": nodes})


def test_a_null_inside_a_selector_is_told_at_its_place() -> None:
    for selector, field in (
        ({"type": "by_glob", "value": None}, "value"),
        ({"type": "by_glob", "value": "*", "allowed_hashes": [None]}, "allowed_hashes[0]"),
    ):
        node = {"task_id": "a", "assigned_agent_id": "x", "inputs": [{"name": "n", "selector": selector}]}
        error = refusal(TaskDag, {"schema_version": "1.1", "plan_id": "p", "nodes": [node]})
        assert [each.field for each in error.problems] == [f"nodes[0].inputs[0].selector.{field}"]


def test_a_null_in_a_map_of_names_is_a_wrong_value() -> None:
    node = {"task_id": "a", "assigned_agent_id": "x", "gates": {"thresholds": {"a_min_score": None}}}
    error = refusal(TaskDag, {"schema_version": "1.1", "plan_id": "p", "nodes": [node]})
    assert [each.field for each in error.problems] == ["nodes[0].gates.thresholds.a_min_score"]


@pytest.mark.parametrize("number", [10**400, -(10**400), 2**53, float("1e300")])
def test_numbers_of_an_absurd_size_are_refused(number: float) -> None:
    error = refusal(Command, command(validation_criteria={"quality_threshold": number}))
    assert [each.field for each in error.problems] == ["validation_criteria.quality_threshold"]


def test_a_pick_policy_that_is_given_is_kept() -> None:
    need = Input.read({"name": "n", "selector": {"type": "by_glob", "value": "*.md"}, "pick_policy": "first_seen"})
    assert need.policy == "first_seen"


def test_an_unknown_selector_is_refused() -> None:
    node = {"task_id": "a", "assigned_agent_id": "x", "inputs": [{"name": "n", "selector": {"type": "by_magic"}}]}
    error = refusal(TaskDag, {"schema_version": "1.1", "plan_id": "p", "nodes": [node]})
    assert error.problems[0].field == "nodes[0].inputs[0].selector"


# Promises

PROMISE: dict[str, Any] = {
    "id": "cp-1717980000000-a3f1",
    "objective": "The price function works",
    "acceptance": [{"id": "tests", "description": "The suite passes", "evidenceRequired": ["tests-pass"]}],
    "checks": [{"id": "tests-pass", "kind": "tests", "run": "pytest -q", "junit": "report.xml"}],
}


def test_a_promise_has_its_defaults_and_is_written_in_camel_case() -> None:
    written = CompletionPromise.read(PROMISE).as_json()
    assert written["doneWhen"] == [{"type": "acceptance-met", "target": "*"}]
    assert [each["type"] for each in written["abortWhen"]] == [
        "budget-exhausted",
        "unsafe",
        "scope-drift",
        "stuck",
        "user-aborted",
    ]
    assert written["acceptance"][0]["evidenceRequired"] == ["tests-pass"]


def test_a_promise_is_read_in_both_spellings_but_not_in_both_at_once() -> None:
    snake = {**PROMISE, "allowed_scope": ["src/**"], "done_when": []}
    assert CompletionPromise.read(snake).as_json()["allowedScope"] == ["src/**"]
    node = {"task_id": "a", "assigned_agent_id": "x", "promise": {**snake, "allowedScope": ["**"]}}
    error = refusal(TaskDag, {"schema_version": "1.1", "plan_id": "p", "nodes": [node]})
    assert [(each.code, each.field) for each in error.problems] == [(Code.FIELD_SPELLED_TWICE, "nodes[0].promise")]


def test_a_check_lacks_what_its_kind_needs() -> None:
    broken = {
        **PROMISE,
        "checks": [{"id": "a", "kind": "run"}, {"id": "b", "kind": "file"}, {"id": "c"}, 5],
    }
    node = {"task_id": "a", "assigned_agent_id": "x", "promise": broken}
    error = refusal(TaskDag, {"schema_version": "1.1", "plan_id": "p", "nodes": [node]})
    assert [(problem.code, problem.field) for problem in error.problems] == [
        (Code.FIELD_MISSING, "nodes[0].promise.checks[0].run"),
        (Code.FIELD_MISSING, "nodes[0].promise.checks[1].path"),
        (Code.FIELD_MISSING, "nodes[0].promise.checks[2].kind"),
        (Code.FIELD_TYPE, "nodes[0].promise.checks[3]"),
    ]


def test_a_check_of_a_kind_that_an_extension_brings_keeps_its_keys() -> None:
    own = {"id": "lint", "kind": "eslint", "config": {"a": 1}, "minTrust": "executed"}
    written = CompletionPromise.read({**PROMISE, "checks": [own]}).as_json()["checks"][0]
    assert own.items() <= written.items()
    assert CompletionPromise.model_validate(CompletionPromise.read(PROMISE)).checks[0].id == "tests-pass"


def test_a_promise_built_from_checks_that_are_models_is_the_same() -> None:
    promise = CompletionPromise.read(PROMISE)
    again = CompletionPromise(
        id=promise.id, objective=promise.objective, acceptance=promise.acceptance, checks=promise.checks
    )
    assert again == promise


def test_a_null_inside_a_check_counts_as_absence_too() -> None:
    checks = [{"id": "a", "kind": "tests", "run": "x", "junit": "r.xml", "red_first": None, "retries": None}]
    assert CompletionPromise.read({**PROMISE, "checks": checks}).checks[0].red_first == "record"


# Others


def test_an_issue_may_be_a_plain_text() -> None:
    feedback = ValidationFeedback.from_json({**FEEDBACK, "issues": ["No login API."]})
    assert feedback.issues[0].severity == "MEDIUM"
    assert feedback.issues[0].description == "No login API."


def test_naming_no_commanders_is_not_the_same_as_naming_nobody() -> None:
    assert "commanders" not in PlanManifest.from_json({"plan_id": "p"}).as_json()
    assert PlanManifest.from_json({"plan_id": "p", "commanders": []}).as_json()["commanders"] == []


def test_a_manifest_has_its_defaults() -> None:
    manifest = PlanManifest.from_json({"plan_id": "p"})
    assert manifest.policies.max_reexecute_times == 3
    assert manifest.policies.timeout_default_seconds == 3600


def test_a_command_knows_whether_its_board_is_virtual() -> None:
    assert not Command.from_json(command()).virtual
    assert Command.from_json(command(plan_id="_mail")).virtual


def test_nodes_need_an_agent() -> None:
    with pytest.raises(ValueError, match="assigned_agent_id"):
        Node.model_validate({"task_id": "a"})
