"""What a consumer's judgement is worth, and when work is not sent back once more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.command import ValidationCriteria
from agenttalk.contracts.validation import Issue
from agenttalk.rules import rework
from agenttalk.rules.checks import Confirmation

ASKED = ValidationCriteria(quality_threshold=70)


@pytest.mark.parametrize(
    ("said", "accepted", "reason"),
    [
        ({"score": 90, "decision": "ACCEPT", "reason": "fine"}, True, "fine"),
        ({"score": 90, "decision": "ACCEPT"}, True, "it is as asked for"),
        ({"score": 60, "decision": "ACCEPT", "reason": "fine"}, False, "fine (it scores 60, and 70 is asked for)"),
        ({"score": 90, "decision": "REJECT", "reason": " "}, False, "it is not good enough"),
        ({"score": 90, "decision": "accept"}, False, "it is not good enough"),
        ({"score": 90}, False, "it is not good enough"),
    ],
)
def test_only_a_plain_yes_with_enough_points_accepts(said: dict[str, Any], accepted: bool, reason: str) -> None:
    found = rework.judged(ASKED, said)
    assert found is not None
    assert (found.accepted, found.reason) == (accepted, reason)


@pytest.mark.parametrize("said", [None, "fine", [], {}, {"score": 101}, {"score": True}, {"score": 5, "issues": [{}]}])
def test_what_cannot_be_read_is_no_judgement(said: object) -> None:
    assert rework.judged(ASKED, said) is None


def test_without_a_threshold_the_decision_counts_and_issues_are_kept() -> None:
    found = rework.judged(ValidationCriteria(completeness="all"), {"score": 1, "decision": "ACCEPT", "issues": ["a"]})
    assert found is not None
    assert found.as_json() == {
        "decision": "ACCEPT",
        "score": 1,
        "reason": "it is as asked for",
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
    assert len(rework.format_faults(ValidationCriteria(format=wanted), {"a": data})) == faults


def test_what_a_machine_refuses_is_an_issue_each() -> None:
    found = rework.refused(["a is no JSON", "b is missing"])
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
    assert rework.fingerprint(issues) == rework.fingerprint([*reversed(issues), *issues])
    assert rework.fingerprint(issues) != rework.fingerprint([*issues, Issue(description="\x00 something else")])


@pytest.mark.parametrize(
    ("earlier", "used", "answer"),
    [
        ([], 0, "yes"),
        (["other"], 1, "yes"),
        (["now"], 1, "stuck"),
        (["now", "other"], 2, "yes"),
        (["other"], 3, "limit"),
    ],
)
def test_another_round_is_worth_it_while_something_changes(earlier: list[str], used: int, answer: str) -> None:
    assert rework.another_round(earlier, "now", used=used, most=3) == answer


def test_what_a_person_says_of_an_input_counts_as_it_is_said() -> None:
    yes, no = (rework.by_person(Confirmation("ada", approved, "")) for approved in (True, False))
    assert (yes.accepted, no.accepted) == (True, False)
    assert "ada" in no.issues[0].description
