"""What a consumer's judgement is worth, and when work is not sent back once more."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.command import Command, Reexecution, ValidationCriteria
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.contracts.validation import Issue
from agenttalk.rules.proof import done, rework
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.evidence import Confirmation
from agenttalk.rules.proof.rework import RoundHistory
from kits.samples import command

ASKED = ValidationCriteria(quality_threshold=70)


@pytest.mark.parametrize(
    ("said", "accepted", "reason"),
    [
        ({"score": 90, "decision": "ACCEPT", "reason": "fine"}, True, "fine"),
        ({"score": 90, "decision": "ACCEPT"}, True, "it is as asked for"),
        ({"score": 60, "decision": "ACCEPT", "reason": "fine"}, False, "fine (score 60; at least 70 is required)"),
        ({"score": 90, "decision": "REJECT", "reason": " "}, False, "it is not good enough"),
        ({"score": 90, "decision": "accept"}, False, "it is not good enough"),
        ({"score": 90}, False, "it is not good enough"),
    ],
)
def test_only_a_plain_yes_with_enough_points_accepts(said: dict[str, Any], accepted: bool, reason: str) -> None:
    found = rework.read_judgement(ASKED, said)
    assert found is not None
    assert (found.accepted, found.reason) == (accepted, reason)


@pytest.mark.parametrize("said", [None, "fine", [], {}, {"score": 101}, {"score": True}, {"score": 5, "issues": [{}]}])
def test_what_cannot_be_read_is_no_judgement(said: object) -> None:
    assert rework.read_judgement(ASKED, said) is None


def test_without_a_threshold_the_decision_counts_and_issues_are_kept() -> None:
    found = rework.read_judgement(
        ValidationCriteria(completeness="all"), {"score": 1, "decision": "ACCEPT", "issues": ["a"]}
    )
    assert found is not None
    assert found.as_json() == {
        "decision": "ACCEPT",
        "score": 1,
        "reason": "it is as asked for",
        "reason_message": {"id": "verdict.as_asked", "params": {}},
        "issues": [{"severity": "MEDIUM", "description": "a"}],
    }


@pytest.mark.parametrize(
    ("wanted", "data", "faults"),
    [
        ("json", b"{", 1),
        ("JSON", b"{}", 0),
        ("text", b"\xff", 1),
        ("image/png", b"x", 1),
        ("poem", b"\xff", 0),
        (None, b"\xff", 0),
    ],
)
def test_a_format_is_looked_at_where_bytes_can_tell(wanted: str | None, data: bytes, faults: int) -> None:
    assert len(rework.find_format_faults(ValidationCriteria(format=wanted), {"a": data})) == faults


def test_what_a_machine_refuses_is_an_issue_each() -> None:
    found = rework.make_refusal(["a is no JSON", "b is missing"])
    assert (found.accepted, found.score, found.reason) == (False, 0, "a is no JSON")
    assert [(each.severity, each.description) for each in found.issues] == [
        ("HIGH", "a is no JSON"),
        ("HIGH", "b is missing"),
    ]


@pytest.mark.parametrize(
    ("criteria", "wanted"),
    [({"completeness": "all"}, True), ({"quality_threshold": 1}, True), ({"format": "json"}, False)],
)
def test_somebody_is_asked_only_for_what_a_machine_cannot_tell(criteria: dict[str, Any], *, wanted: bool) -> None:
    assert rework.wants_judgement(ValidationCriteria.model_validate(criteria)) == wanted


@given(st.lists(st.text(min_size=1).filter(str.strip), max_size=4))
def test_the_same_issues_in_another_order_are_the_same(texts: list[str]) -> None:
    issues = [Issue(description=text) for text in texts]
    assert rework.fingerprint_issues(issues) == rework.fingerprint_issues([*reversed(issues), *issues])
    assert rework.fingerprint_issues(issues) != rework.fingerprint_issues(
        [*issues, Issue(description="\x00 something else")]
    )


@pytest.mark.parametrize(
    ("earlier", "used", "answer"),
    [
        ([], 0, "yes"),
        (["ab"], 1, "yes"),
        (["abc", "ab"], 2, "yes"),
        (["a"], 1, "stuck"),
        (["a", "b"], 2, "stuck"),
        (["b"], 3, "limit"),
    ],
)
def test_another_round_is_worth_it_while_something_changes(earlier: list[str], used: int, answer: str) -> None:
    rounds = RoundHistory(used, 3, tuple(map(tuple, earlier)))
    assert rework.decide_another_round(rounds, "a") == answer
    assert rework.decide_another_round(rounds, "a", converges=False) == ("limit" if used == 3 else "yes")


@given(st.lists(st.frozensets(st.sampled_from("abcdef")), max_size=8), st.integers(0, 5))
def test_rework_always_ends_and_a_shrinking_set_may_use_all_rounds(sets: list[frozenset[str]], most: int) -> None:
    earlier: list[list[str]] = []
    for now in sets:
        rounds = RoundHistory(len(earlier), most, tuple(map(tuple, earlier)))
        answer = rework.decide_another_round(rounds, sorted(now))
        if answer != "yes":
            assert answer == ("stuck" if sorted(now) in earlier else "limit")
            break
        earlier.append(sorted(now))
    assert len(earlier) <= most
    shrinking = [["a", "b", "c"][number:] for number in range(3)]
    answers = {
        rework.decide_another_round(RoundHistory(used, 3, tuple(map(tuple, shrinking[:used]))), now)
        for used, now in enumerate(shrinking)
    }
    assert answers == {"yes"}


RESULT: dict[str, Any] = {"validator": "b", "score": 10, "reason": "no", "issues": []}


def again(**keys: Any) -> Reexecution:
    said = {"original_task_id": "t", "original_agent": "a", "attempt": 1, "validation_result": RESULT}
    return Reexecution.model_validate(said | keys)


def test_a_re_execution_gets_what_was_refused_and_why() -> None:
    assert [each.input_name for each in rework.list_extra_inputs(again())] == ["validation_feedback"]
    file = {"output_name": "a b", "path": "x/y.md", "sha256": f"sha256:{'0' * 64}"}
    previous, feedback = rework.list_extra_inputs(again(previous=[file]))
    assert (previous.input_name, previous.paths) == ("previous_output", ("previous_output/a%20%b/x/y.md",))
    assert feedback.paths == (rework.FEEDBACK,)


def test_feedback_says_when_and_what_is_expected() -> None:
    issues = [
        {"description": "no price", "category": "COMPLETENESS", "suggestion": "name it"},
        {"description": "too long"},
    ]
    told = rework.make_feedback(again(validation_result=RESULT | {"issues": issues}), at="2026-01-08T10:30:00Z")
    assert told.expectations is not None
    assert (told.expectations.additions, told.expectations.modifications) == (("name it",), ("too long",))
    assert told.as_json()["validation_time"] == "2026-01-08T10:30:00Z"
    wanted = {"additions": ["a"], "modifications": []}
    said = again(validation_result=RESULT | {"expectations": wanted}, validated_at="2026-01-09T00:00:00Z")
    told = rework.make_feedback(said, at="2026-01-08T10:30:00Z")
    assert told.expectations is not None
    assert told.expectations.additions == ("a",)
    assert told.as_json()["validation_time"] == "2026-01-09T00:00:00Z"


def test_inputs_of_its_own_are_those_that_the_plan_names() -> None:
    inputs = [{"input_name": name, "required": True, "paths": ["x"]} for name in ("text", "previous_output")]
    said = command(resolved_inputs=inputs)
    plain = Command.model_validate(said)
    assert [each.input_name for each in rework.list_own_inputs(plain)] == ["text", "previous_output"]
    reworked = plain.model_copy(update={"reexecute": again()})
    assert [each.input_name for each in rework.list_own_inputs(reworked)] == ["text"]
    assert rework.list_own_inputs(plain.model_copy(update={"resolved_inputs": None})) == ()


@pytest.mark.mends("B3", "B4")
@pytest.mark.parametrize("unusable", [0, 2])
@pytest.mark.parametrize("more", [{}, {"expectations": {"additions": ["a"]}, "prompt": " Name it. "}])
def test_a_judgement_survives_the_end_of_an_engine(more: dict[str, Any], unusable: int) -> None:
    found = rework.read_judgement(ASKED, {"score": 20, "decision": "REJECT", "reason": "no", "issues": ["x"], **more})
    assert found is not None
    found = replace(found, unusable=unusable)
    assert rework.Judgement.from_json(json.loads(json.dumps(found.as_json()))) == found
    assert found.prompt == ("Name it." if more else None)
    assert "unusable" not in found.as_result("b")
    assert found.as_result("b").get("prompt") == found.prompt


def test_a_validator_s_own_words_stand_in_the_feedback() -> None:
    told = rework.make_feedback(again(validation_result=RESULT | {"prompt": "Name it."}), at="2026-01-09T00:00:00Z")
    assert told.prompt == "Name it."


@pytest.mark.parametrize("expectations", [None, {"additions": ["a"]}])
def test_a_judgement_becomes_the_result_in_a_command(expectations: dict[str, Any] | None) -> None:
    said: dict[str, Any] = {"score": 10, "decision": "REJECT", "reason": "no", "issues": ["x"]}
    found = rework.read_judgement(ASKED, said | ({"expectations": expectations} if expectations else {}))
    assert found is not None
    result = found.as_result("b")
    assert (result["validator"], "decision" in result, "expectations" in result) == ("b", False, bool(expectations))
    assert rework.read_judgement(ASKED, said | {"expectations": "all"}) is None


def test_what_a_person_accepts_is_evidence_for_what_did_not_pass() -> None:
    promise = CompletionPromise.model_validate(
        {
            "id": "cp-1-abcd",
            "objective": "It works",
            "acceptance": [{"id": "c", "description": "It works", "evidenceRequired": ["tests", "seen"]}],
            "requiredEvidence": ["lint"],
            "doneWhen": [
                {"type": "evidence-present", "target": "docs"},
                {"type": "evidence-present"},
                {"type": "user-confirmed"},
            ],
        }
    )
    failed = Evidence("tests", False, True, "executed", "engine", "")
    stale = Evidence("lint", True, False, "executed", "engine", "")
    fine = Evidence("seen", True, True, "observed", "engine", "")
    found = rework.make_confirmations(
        promise, [failed, stale, fine], by="ada", at="", shown="sha256:1", trust="confirmed"
    )
    assert [(each.id, each.trust, each.passed) for each in found] == [
        ("lint", "confirmed", True),
        ("tests", "confirmed", True),
        ("docs", "confirmed", True),
    ]
    assert all("sha256:1" in each.detail for each in found)


def test_who_takes_work_as_it_is_overrules_what_was_found_and_the_record_says_what_that_is_worth() -> None:
    promise = CompletionPromise.read(
        {
            "id": "cp-1-abcd",
            "objective": "It works",
            "acceptance": [{"id": "c", "description": "It works", "evidenceRequired": ["tests"]}],
            "checks": [{"id": "tests", "kind": "run", "run": "make test"}],
            "doneWhen": [{"type": "acceptance-met"}, {"type": "user-confirmed"}],
        }
    )
    failed = Evidence("tests", False, True, "executed", "engine", "")
    found = rework.make_confirmations(promise, [failed], by="ada", at="", shown="sha256:1", trust="attested")
    verdict = done.decide(promise, [failed, *found], (), confirmed=True, word="attested")
    assert (verdict.fulfilled, verdict.trust) == (True, "attested")


@pytest.mark.parametrize(
    ("said", "answers", "meant"),
    [
        ("PROVIDE", ["grant 2"], "grant 2"),
        ("PROVIDE", ["Grant"], "grant 1"),
        ("PROVIDE", ["accept", "ACCEPT "], "accept"),
        ("PROVIDE", ["abort"], "abort"),
        ("ABORT", ["accept"], "abort"),
        ("REJECT", [], "abort"),
        ("APPROVE", [], "None"),
        ("PROVIDE", ["accept", "abort"], "None"),
        ("PROVIDE", ["grant 0"], "None"),
        ("PROVIDE", ["grant 101"], "None"),
        ("PROVIDE", ["grant -1"], "None"),
        ("PROVIDE", ["accept it"], "None"),
    ],
)
def test_an_answer_that_is_not_clear_decides_nothing(said: str, answers: list[object], meant: str) -> None:
    assert str(rework.read_decision(said, answers)) == meant


def test_what_a_person_says_of_an_input_counts_as_it_is_said() -> None:
    yes, no = (rework.read_person_judgement(Confirmation("ada", approved, "")) for approved in (True, False))
    assert (yes.accepted, no.accepted) == (True, False)
    assert "ada" in no.issues[0].description


@pytest.mark.parametrize(
    ("issues", "conflicted"),
    [(None, False), ([], False), (["quality"], False), (["quality", "conflict"], True)],
)
def test_a_command_tells_whether_others_had_changed_the_same(issues: list[str] | None, conflicted: bool) -> None:
    found = [{"severity": "HIGH", "category": each, "description": "?"} for each in issues or ()]
    result = {"validator": "qa", "score": 1, "reason": "?", "issues": found}
    again = {"original_task_id": "a", "original_agent": "dev", "attempt": 1, "validation_result": result}
    asked = command(**({} if issues is None else {"reexecute": again}))
    assert rework.is_after_conflict(Command.from_json(asked)) is conflicted
