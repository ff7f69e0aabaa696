"""Generating a command: fill in, convert, replace what is harmless, report all of it, refuse the rest."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agenttalk
from agenttalk.contracts.command import DagRef
from agenttalk.contracts.errors import Code
from agenttalk.contracts.generation import GenerateResult
from agenttalk.rules.commands import validation
from agenttalk.rules.commands.generation import generate, read_identity
from agenttalk.rules.commands.validation import Known
from agenttalk.rules.text import task_words
from kits.samples import DIGEST, OTHER_DIGEST, command, documents, json_values

ACTIVE = Known(dag_ref=DagRef(sha256=DIGEST, revision=4))
LEAST = {"plan_id": "plan_shop", "task_id": "task_001", "prompt": "Write the stories."}


def made(params: dict[str, Any], known: Known = ACTIVE, **options: Any) -> dict[str, Any]:
    answer = generate(params, known, **options)
    assert answer.ok, answer.errors
    assert answer.command is not None
    assert validation.validate(answer.command.as_json(), known).ok
    return answer.command.as_json()


def codes(answer: GenerateResult) -> list[tuple[Code, str]]:
    assert not answer.ok
    assert answer.command is None
    return [(error.code, error.field) for error in answer.errors]


def repairs(answer: GenerateResult) -> dict[str, tuple[Any, Any]]:
    return {repair.field: (repair.before, repair.after) for repair in answer.repairs}


@pytest.mark.shows("C01", "C02", "C10")
def test_three_fields_become_a_whole_command_with_the_table_of_defaults() -> None:
    answer = agenttalk.generate_command(LEAST, known=ACTIVE)
    assert answer.command is not None
    assert answer.command.as_json() == {
        **LEAST,
        "schema_version": "1.0",
        "command_id": "cmd_task_001_001",
        "command_seq": 1,
        "dag_ref": {"sha256": DIGEST, "revision": 4},
        "required_inputs": [],
        "wait_for_inputs": False,
        "score_required": False,
        "timeout": 3600,
        "retry_times": 0,
        "priority": "MEDIUM",
        "idempotency_key": "plan_shop:task_001:cmd_task_001_001",
        "on_complete": {"message_template": "Completed: {result}"},
        "on_failure": {"message_template": "Failed: {error}"},
    }
    assert repairs(answer).keys() == answer.command.as_json().keys() - LEAST.keys()
    assert all(before is None for before, _ in repairs(answer).values())


@pytest.mark.shows("C02")
@pytest.mark.parametrize(
    ("field", "given", "expected"),
    [
        ("timeout", "60", 60),
        ("timeout", 60.0, 60),
        ("timeout", " 60 ", 60),
        ("timeout", "1h", 3600),
        ("timeout", 0, 3600),
        ("timeout", True, 3600),
        ("timeout", 1.5, 3600),
        ("timeout", 2**60, 3600),
        ("timeout", [], 3600),
        ("retry_times", "2", 2),
        ("retry_times", -1, 0),
        ("required_inputs", "a.md", ["a.md"]),
        ("wait_for_inputs", "true", True),
        ("wait_for_inputs", "No", False),
        ("wait_for_inputs", 1, True),
        ("wait_for_inputs", 0, False),
        ("wait_for_inputs", "perhaps", False),
        ("wait_for_inputs", 2, False),
        ("wait_for_inputs", {}, False),
        ("score_required", "off", False),
        ("score_required", "?", False),
        ("priority", "high", "HIGH"),
        ("priority", "asap", "MEDIUM"),
        ("priority", 3, "MEDIUM"),
        ("schema_version", 1, "1.0"),
        ("schema_version", 1.0, "1.0"),
        ("schema_version", 1.7, "1.7"),
        ("schema_version", "1", "1.0"),
        ("schema_version", [], "1.0"),
        ("schema_version", 1e300, "1.0"),
        ("schema_version", "latest", "1.0"),
        ("schema_version", True, "1.0"),
        ("command_seq", "7", 7),
        ("command_seq", 7.0, 7),
        ("idempotency_key", " ", "plan_shop:task_001:cmd_task_001_001"),
        ("on_complete", "Ready: {result}", {"message_template": "Ready: {result}"}),
        ("on_complete", " ", {"message_template": "Completed: {result}"}),
        ("on_complete", 5, {"message_template": "Completed: {result}"}),
        ("on_failure", {"notes": "n"}, {"notes": "n", "message_template": "Failed: {error}"}),
        ("produces", {"output_name": "a", "files": []}, [{"output_name": "a", "files": []}]),
        ("dag_ref", DIGEST, {"sha256": DIGEST}),
    ],
)
def test_types_are_converted_and_useless_values_replaced_and_both_told(field: str, given: Any, expected: Any) -> None:
    answer = generate({**LEAST, field: given}, ACTIVE)
    assert made({**LEAST, field: given})[field] == expected
    before, after = repairs(answer)[field]
    assert before == given
    assert after == expected


def test_inputs_are_waited_for_unless_it_is_said_otherwise() -> None:
    assert made({**LEAST, "required_inputs": ["a.md"]})["wait_for_inputs"] is True
    assert made({**LEAST, "required_inputs": ["a.md"], "wait_for_inputs": False})["wait_for_inputs"] is False
    resolved = [{"input_name": "a", "required": True, "paths": ["a.md"]}]
    assert made({**LEAST, "resolved_inputs": resolved})["wait_for_inputs"] is True


@pytest.mark.shows("C03")
@pytest.mark.parametrize("field", ["plan_id", "task_id", "prompt"])
@pytest.mark.parametrize("value", [..., None, "", "  ", [], {}])
def test_identity_and_intent_are_never_invented(field: str, value: Any) -> None:
    params = {key: each for key, each in {**LEAST, field: value}.items() if each is not ...}
    answer = generate(params, ACTIVE)
    assert field in {where for _, where in codes(answer)}
    assert field not in repairs(answer)


def test_without_a_task_nothing_is_said_of_what_is_built_from_it() -> None:
    assert codes(generate({"plan_id": "plan_shop", "prompt": "x"}, ACTIVE)) == [(Code.COMMAND_FIELD_MISSING, "task_id")]


def test_numbers_may_name_plans_and_tasks() -> None:
    answer = generate({"plan_id": 7, "task_id": 8, "prompt": "x"}, ACTIVE)
    assert answer.command is not None
    assert (answer.command.plan_id, answer.command.command_id) == ("7", "cmd_8_001")


@pytest.mark.shows("C04", "C05")
@pytest.mark.parametrize(
    ("given", "command_id", "seq"),
    [
        ({"command_id": "cmd_task_001"}, "cmd_task_001_001", 1),
        ({"command_id": "cmd_task_001", "command_seq": 4}, "cmd_task_001_004", 4),
        ({"command_id": "cmd_001"}, "cmd_task_001_001", 1),
        ({"command_id": "review consensus!"}, "cmd_task_001_001", 1),
        ({"command_id": "cmd_task_001_02"}, "cmd_task_001_001", 1),
        ({"command_id": 12}, "cmd_task_001_001", 1),
        ({"command_id": "cmd_task_001_007"}, "cmd_task_001_007", 7),
        ({"command_seq": 1234}, "cmd_task_001_1234", 1234),
        ({"command_seq": 0}, "cmd_task_001_000", 0),
    ],
    ids=range(9),
)
def test_ids_are_built_from_task_and_number(given: dict[str, Any], command_id: str, seq: int) -> None:
    document = made({**LEAST, **given})
    assert (document["command_id"], document["command_seq"]) == (command_id, seq)


@pytest.mark.shows("C06")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"command_id": "cmd_task_002_001"}, (Code.COMMAND_TASK_MISMATCH, "command_id")),
        ({"command_id": "cmd_reexecute_001"}, (Code.COMMAND_TASK_MISMATCH, "command_id")),
        ({"command_id": "cmd_task_001_003", "command_seq": 4}, (Code.COMMAND_SEQ_MISMATCH, "command_seq")),
        ({"command_seq": "many"}, (Code.COMMAND_FIELD_TYPE, "command_seq")),
        ({"command_seq": -1}, (Code.COMMAND_FIELD_VALUE, "command_seq")),
        ({"command_seq": True}, (Code.COMMAND_FIELD_TYPE, "command_seq")),
        ({"required_inputs": 5}, (Code.COMMAND_FIELD_TYPE, "required_inputs")),
        ({"required_inputs": ["../a"]}, (Code.PATH_OUTSIDE_FOLDER, "required_inputs[0]")),
        ({"prompt": 5}, (Code.COMMAND_FIELD_TYPE, "prompt")),
        ({"promise": {}}, (Code.COMMAND_FIELD_MISSING, "promise.id")),
        ({"dag_ref": {"sha256": OTHER_DIGEST}}, (Code.COMMAND_DAG_MISMATCH, "dag_ref.sha256")),
        ({"dag_ref": "..."}, (Code.HASH_INVALID, "dag_ref.sha256")),
        ({"schema_version": "2.0"}, (Code.SCHEMA_VERSION_UNSUPPORTED, "schema_version")),
        ({"send_to": "backend"}, (Code.COMMAND_ROUTES_ITSELF, "send_to")),
        ({"on_complete": {"send_to": "x"}}, (Code.COMMAND_ROUTES_ITSELF, "on_complete.send_to")),
        ({"validation_criteria": []}, (Code.COMMAND_FIELD_TYPE, "validation_criteria")),
    ],
    ids=range(16),
)
def test_what_only_the_author_can_mend_is_an_error_and_no_repair(
    given: dict[str, Any], expected: tuple[Code, str]
) -> None:
    assert expected in codes(generate({**LEAST, **given}, ACTIVE))


@pytest.mark.shows("C07")
def test_the_next_number_follows_what_is_known() -> None:
    known = Known(dag_ref=ACTIVE.dag_ref, command_ids={"cmd_task_001_001", "cmd_task_001_002"}, last_seq=2)
    assert made(LEAST, known)["command_id"] == "cmd_task_001_003"
    assert codes(generate({**LEAST, "command_seq": 2}, known)) == [(Code.COMMAND_ID_REUSED, "command_id")]
    gap = Known(dag_ref=ACTIVE.dag_ref, command_ids={"cmd_task_001_005"}, last_seq=5)
    assert codes(generate({**LEAST, "command_seq": 3}, gap)) == [(Code.COMMAND_FIELD_VALUE, "command_seq")]
    assert codes(generate({**LEAST, "command_id": "cmd_task_001_003"}, gap)) == [
        (Code.COMMAND_FIELD_VALUE, "command_id")
    ]


@pytest.mark.shows("C11")
def test_a_plan_needs_its_dag_and_a_board_does_not() -> None:
    assert codes(generate(LEAST)) == [(Code.COMMAND_FIELD_MISSING, "dag_ref")]
    assert "dag_ref" not in made({**LEAST, "plan_id": "_toolchain"})


@pytest.mark.shows("C09")
def test_scoring_gets_criteria_in_the_language_asked_for() -> None:
    english = made({**LEAST, "score_required": True})
    chinese = made({**LEAST, "score_required": True}, locale="zh")
    assert english["score_criteria"] == task_words.RUBRIC.render("en")
    assert chinese["score_criteria"] == task_words.RUBRIC.render("zh")
    assert english["on_complete"] == {"message_template": "Completed with score {score}: {result}"}
    assert "{score}" in chinese["on_complete"]["message_template"]


def test_criteria_mean_that_a_score_is_wanted_unless_it_is_denied() -> None:
    assert made({**LEAST, "score_criteria": "coverage"})["score_required"] is True
    assert "score_criteria" not in made({**LEAST, "score_criteria": "coverage", "score_required": "no"})
    assert "score_criteria" not in made({**LEAST, "score_criteria": []})
    assert made({**LEAST, "score_criteria": [], "score_required": True})["score_criteria"] == task_words.RUBRIC.render(
        "en"
    )


@pytest.mark.shows("C12")
def test_a_payload_hash_is_made_when_asked_for_and_kept_true() -> None:
    assert "payload_hash" not in made(LEAST)
    document = made(LEAST, with_hash=True)
    assert document["payload_hash"] == validation.payload_hash(document)
    assert made(document, with_hash=True) == document
    assert made(document) == document


def test_a_hash_that_fitted_what_was_given_is_renewed_after_repairs() -> None:
    given: dict[str, Any] = {**LEAST, "timeout": "60"}
    given["payload_hash"] = validation.payload_hash(given)
    document = made(given)
    assert document["payload_hash"] == validation.payload_hash(document)
    assert repairs(generate(given, ACTIVE))["payload_hash"] == (given["payload_hash"], document["payload_hash"])


@pytest.mark.shows("C12")
@pytest.mark.parametrize("bad", [OTHER_DIGEST, "nonsense", 5])
def test_a_hash_that_never_fitted_is_refused(bad: Any) -> None:
    answer = generate({**LEAST, "payload_hash": bad}, ACTIVE, with_hash=True)
    assert "payload_hash" in {where for _, where in codes(answer)}


def test_a_hash_cannot_be_made_for_what_is_refused() -> None:
    assert codes(generate({"plan_id": "plan_shop", "task_id": "t"}, ACTIVE, with_hash=True)) == [
        (Code.COMMAND_FIELD_MISSING, "prompt")
    ]


REEXECUTION: dict[str, Any] = {
    "plan_id": "plan_shop",
    "command_id": "cmd_reexecute_001",
    "original_task_id": "task_001",
    "original_agent": "pm",
    "validation_result": {"validator": "backend", "score": 30, "reason": "No API.", "issues": ["No login."]},
    "prompt": "Complete the requirements.",
    "required_inputs": ["previous_output.json", "validation_feedback.json"],
}


def test_a_re_execution_in_the_older_shape_is_lifted() -> None:
    answer = generate(REEXECUTION, Known(dag_ref=ACTIVE.dag_ref, last_seq=1, reexecutions=1))
    assert answer.command is not None
    assert answer.command.task_id == "task_001"
    assert answer.command.command_id == "cmd_task_001_002"
    assert answer.command.reexecute is not None
    assert answer.command.reexecute.attempt == 2
    assert answer.command.reexecute.validation_result.issues[0].description == "No login."
    assert not {"original_task_id", "original_agent", "validation_result"} & answer.command.as_json().keys()
    assert {"original_task_id", "reexecute", "task_id", "command_id"} <= repairs(answer).keys()


@pytest.mark.parametrize(("given", "expected"), [("40", 40), (" 7 ", 7)])
def test_a_score_that_is_text_becomes_a_number(given: str, expected: int) -> None:
    result = {**REEXECUTION["validation_result"], "score": given}
    answer = generate({**REEXECUTION, "validation_result": result}, ACTIVE)
    assert answer.command is not None
    assert answer.command.as_json()["reexecute"]["validation_result"]["score"] == expected
    bad = {**result, "score": "many"}
    assert (Code.COMMAND_FIELD_TYPE, "reexecute.validation_result.score") in codes(
        generate({**REEXECUTION, "validation_result": bad}, ACTIVE)
    )


@pytest.mark.parametrize(
    "extra",
    [
        {"dag_ref": DIGEST[7:]},
        {
            "reexecute": {
                "original_task_id": "task_001",
                "original_agent": "a",
                "validation_result": {"validator": "b", "score": 3, "reason": "r", "issues": ["i"]},
            }
        },
    ],
)
def test_a_hash_is_over_what_is_written_also_when_parts_bring_defaults(extra: dict[str, Any]) -> None:
    document = made({**LEAST, **extra}, with_hash=True)
    assert document["payload_hash"] == validation.payload_hash(document)


def test_a_round_that_is_given_is_kept() -> None:
    again = {
        "original_task_id": "task_001",
        "original_agent": "pm",
        "attempt": 2,
        "validation_result": REEXECUTION["validation_result"],
    }
    assert made({**LEAST, "reexecute": again})["reexecute"]["attempt"] == 2


def test_a_re_execution_that_lacks_its_reason_is_refused() -> None:
    broken = {key: value for key, value in REEXECUTION.items() if key != "validation_result"}
    assert codes(generate(broken, ACTIVE)) == [(Code.COMMAND_FIELD_MISSING, "reexecute.validation_result")]
    assert (Code.COMMAND_FIELD_TYPE, "reexecute") in codes(generate({**LEAST, "reexecute": 3}, ACTIVE))
    assert (Code.COMMAND_FIELD_MISSING, "task_id") in codes(generate({**REEXECUTION, "original_task_id": 5}, ACTIVE))


@pytest.mark.parametrize(
    ("params", "code"), [(None, Code.COMMAND_FIELD_TYPE), ("x", Code.COMMAND_FIELD_TYPE), ({"a": {1}}, Code.JSON_VALUE)]
)
def test_what_is_no_json_object_is_refused(params: object, code: Code) -> None:
    assert codes(generate(params)) == [(code, "")]


@pytest.mark.parametrize(
    ("field", "given", "expected"),
    [
        (
            "resolved_inputs",
            [{"input_name": "a", "required": "yes", "paths": "a.md"}],
            [{"input_name": "a", "required": True, "paths": ["a.md"]}],
        ),
        (
            "validation_criteria",
            {"quality_threshold": "80", "required_fields": "a"},
            {"quality_threshold": 80, "required_fields": ["a"]},
        ),
        ("validation_criteria", {"quality_threshold": "80.5"}, {"quality_threshold": 80.5}),
        ("validation_criteria", {"required_fields": "a"}, {"required_fields": ["a"]}),
        ("dag_ref", {"sha256": DIGEST, "revision": "4"}, {"sha256": DIGEST, "revision": 4}),
    ],
    ids=range(5),
)
def test_types_inside_parts_are_converted_too(field: str, given: Any, expected: Any) -> None:
    assert made({**LEAST, field: given})[field] == expected
    assert field in repairs(generate({**LEAST, field: given}, ACTIVE))


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("resolved_inputs", 5),
        ("resolved_inputs", [5]),
        ("validation_criteria", {"quality_threshold": "high"}),
        ("dag_ref", {"revision": "x"}),
    ],
)
def test_what_cannot_be_converted_inside_parts_is_refused(field: str, given: Any) -> None:
    assert field in {where.split(".")[0].split("[")[0] for _, where in codes(generate({**LEAST, field: given}, ACTIVE))}


def test_a_version_of_another_major_is_refused_also_as_a_number() -> None:
    assert codes(generate({**LEAST, "schema_version": 2}, ACTIVE)) == [
        (Code.SCHEMA_VERSION_UNSUPPORTED, "schema_version")
    ]


def test_orders_only_count_up_even_when_only_the_last_is_known() -> None:
    known = Known(dag_ref=ACTIVE.dag_ref, last_seq=4)
    assert codes(generate({**LEAST, "command_seq": 2}, known)) == [(Code.COMMAND_FIELD_VALUE, "command_seq")]


def test_ids_with_more_zeros_are_the_same_order() -> None:
    known = Known(command_ids={"cmd_task_001_001"}, last_seq=1)
    assert [e.code for e in validation.validate(command(command_id="cmd_task_001_0001"), known).errors] == [
        Code.COMMAND_ID_REUSED
    ]


def test_a_command_too_large_for_its_envelope_is_refused() -> None:
    assert made({**LEAST, "prompt": "x" * 700_000})
    assert codes(generate({**LEAST, "prompt": "x" * 800_000}, ACTIVE)) == [(Code.JSON_TOO_LARGE, "")]


def test_a_command_too_deep_for_its_envelope_is_refused() -> None:
    value: Any = 1
    for _ in range(62):
        value = [value]
    assert codes(generate({**LEAST, "x_deep": value}, ACTIVE)) == [(Code.JSON_TOO_DEEP, "")]


def test_a_null_in_a_field_that_we_do_not_know_is_kept() -> None:
    assert made({**LEAST, "x_note": None})["x_note"] is None


def test_a_wrong_number_is_told_once() -> None:
    assert codes(generate({**LEAST, "command_seq": "abc"}, ACTIVE)) == [(Code.COMMAND_FIELD_TYPE, "command_seq")]


class Word(str):
    __slots__ = ()


def test_texts_of_a_class_of_their_own_are_texts() -> None:
    assert made({**LEAST, "timeout": Word("5"), "priority": Word("high")})["timeout"] == 5


def test_a_locale_that_does_not_exist_is_refused() -> None:
    with pytest.raises(agenttalk.InputError):
        generate(LEAST, ACTIVE, locale="fr")  # type: ignore[arg-type]


def test_whom_parameters_mean_is_known_before_they_are_settled() -> None:
    assert read_identity({"plan_id": 7, "task_id": 8}) == ("7", "8")
    assert read_identity(REEXECUTION) == ("plan_shop", "task_001")
    assert read_identity({}) == (None, None)


def test_knowing_nothing_may_be_said_as_none() -> None:
    assert generate({**LEAST, "plan_id": "_mail"}, None).ok


def test_what_writing_in_full_changes_is_told() -> None:
    answer = generate({**LEAST, "dag_ref": {"sha256": DIGEST[7:]}}, ACTIVE)
    assert repairs(answer)["dag_ref"] == ({"sha256": DIGEST[7:]}, {"sha256": DIGEST})


def test_what_is_given_is_not_changed() -> None:
    params = {**REEXECUTION, "timeout": "5", "on_complete": {"notes": "n"}}
    before = copy.deepcopy(params)
    generate(params, ACTIVE)
    assert params == before


@pytest.mark.shows("C17")
def test_fields_that_we_do_not_know_are_kept_and_near_misses_pointed_at() -> None:
    answer = generate({**LEAST, "x_team": ["a"], "retry_time": 3}, ACTIVE)
    assert answer.command is not None
    assert answer.command.as_json()["x_team"] == ["a"]
    assert [warning.hint for warning in answer.warnings] == ["did you mean 'retry_times'?"]


def test_the_answer_has_the_agreed_shape() -> None:
    answer = generate({**LEAST, "timeout": "5"}, ACTIVE).as_json()
    assert answer.keys() == {"ok", "command", "repairs", "errors", "warnings"}
    assert {"field": "timeout", "from": "5", "to": 5, "why": "converted from text"} in answer["repairs"]
    refused = generate({}, ACTIVE).as_json()
    assert refused["command"] is None
    assert all(error.keys() == {"code", "field", "message", "hint"} for error in refused["errors"])


# Properties

loose = st.fixed_dictionaries(
    {"plan_id": st.just("plan_shop"), "task_id": st.just("task_001"), "prompt": st.just("Do it.")},
    optional=dict.fromkeys(("command_id", "command_seq", "dag_ref", "required_inputs", "wait_for_inputs", "score_required", "score_criteria", "timeout", "retry_times", "priority", "idempotency_key", "on_complete", "on_failure", "schema_version", "payload_hash", "produces", "resolved_inputs", "reexecute", "promise", "x_own"), json_values),
)  # fmt: skip


@given(loose | documents("command"), st.booleans(), st.sampled_from(["en", "zh"]))
def test_what_generate_makes_always_passes_validate(params: dict[str, Any], with_hash: bool, locale: Any) -> None:
    answer = generate(params, ACTIVE, with_hash=with_hash, locale=locale)
    assert answer.ok is (answer.command is not None) is (not answer.errors)
    if answer.command is not None:
        document = answer.command.as_json()
        assert validation.validate(document, ACTIVE).ok
        again = generate(document, ACTIVE, with_hash=with_hash, locale=locale)
        assert again.repairs == ()
        assert again.command == answer.command


@given(loose)
def test_every_difference_between_what_was_given_and_made_is_told(params: dict[str, Any]) -> None:
    answer = generate(params, ACTIVE)
    if answer.command is not None:
        document = answer.command.as_json()
        told = {repair.field for repair in answer.repairs}
        given_fields = {key: value for key, value in params.items() if value is not None}
        changed = {key for key in given_fields.keys() | document.keys() if given_fields.get(key) != document.get(key)}
        assert changed <= told


@given(json_values | loose | st.dictionaries(st.text(), json_values))
def test_nothing_that_is_given_raises(params: Any) -> None:
    assert generate(params, ACTIVE).ok in {True, False}
    assert validation.validate(params, ACTIVE).ok in {True, False}


def test_a_valid_command_needs_no_repair_of_what_it_says() -> None:
    answer = generate(command(), ACTIVE)
    assert answer.ok
    assert not {"plan_id", "command_id", "command_seq", "prompt", "timeout", "required_inputs"} & repairs(answer).keys()
