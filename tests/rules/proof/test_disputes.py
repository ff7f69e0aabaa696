"""Whether a check may be disputed, what an answer makes of it, and what people and agents are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.errors import Code, Problem
from agenttalk.rules.proof import disputes
from agenttalk.rules.proof.disputes import LONGEST, MOST, Dispute, DisputeState, describe_disputes, judge, read_outcome

CHECKS = ("style", "works")
STATES: tuple[DisputeState, ...] = ("open", "upheld", "dismissed", "closed")


def one(check: str = "works", seq: int = 1, state: DisputeState = "open", **more: str) -> Dispute:
    return Dispute(f"req_{check}_{seq}", check, seq, "dev", "It is wrong.", state, "2026", **more)


@pytest.mark.parametrize(
    ("known", "check", "reason", "code"),
    [
        ([], "work", "It is wrong.", Code.NAME_UNKNOWN),
        ([], "zzzzzz", "It is wrong.", Code.NAME_UNKNOWN),
        ([], "works", " \n", Code.FIELD_MISSING),
        ([], "works", "x" * (LONGEST + 1), Code.FIELD_VALUE),
        ([one(seq=2, state="dismissed")], "works", "Again.", Code.DISPUTE_REFUSED),
        ([one("style", seq, "dismissed") for seq in range(MOST)], "works", "Enough.", Code.DISPUTE_REFUSED),
    ],
)
def test_what_may_not_be_disputed_is_refused_with_the_reason(
    known: list[Dispute], check: str, reason: str, code: Code
) -> None:
    found = judge(known, CHECKS, check_id=check, seq=2, reason=reason)
    assert isinstance(found, Problem)
    assert found.code is code


def test_a_name_that_is_nearly_right_is_hinted_at() -> None:
    near = judge([], CHECKS, check_id="work", seq=1, reason="x")
    far = judge([], CHECKS, check_id="qqqq", seq=1, reason="x")
    none = judge([], (), check_id="works", seq=1, reason="x")
    assert [each.hint for each in (near, far, none) if isinstance(each, Problem)] == [
        "did you mean 'works'?",
        "its checks are: style, works",
        "its checks are: none",
    ]


def test_a_check_is_disputed_once_at_a_time_and_again_in_a_later_round() -> None:
    assert judge([], CHECKS, check_id="works", seq=1, reason="x") is None
    assert judge([one()], CHECKS, check_id="works", seq=2, reason="x") == one()
    assert judge([one()], CHECKS, check_id="style", seq=1, reason="x") is None
    assert judge([one(state="dismissed")], CHECKS, check_id="works", seq=2, reason="x") is None


@given(st.lists(st.tuples(st.sampled_from(CHECKS), st.integers(1, 4)), max_size=60), st.sampled_from(STATES))
def test_however_often_an_agent_disputes_there_are_few(tries: list[tuple[str, int]], state: DisputeState) -> None:
    known: list[Dispute] = []
    for check, seq in tries:
        if judge(known, CHECKS, check_id=check, seq=seq, reason="x") is None:
            known.append(one(check, seq, state))
    assert len(known) <= MOST
    assert len({(each.check_id, each.seq) for each in known}) == len(known)
    if state == "open":
        assert len(known) <= len(CHECKS)


@pytest.mark.parametrize(
    ("decision", "answers", "expected"),
    [
        ("PROVIDE", ["upheld"], "upheld"),
        ("PROVIDE", ["dismissed"], "dismissed"),
        ("PROVIDE", ["upheld", "dismissed"], None),
        ("PROVIDE", ["maybe"], None),
        ("PROVIDE", [{"a": 1}], None),
        ("PROVIDE", [], None),
        ("APPROVE", [], "upheld"),
        ("REJECT", [], "dismissed"),
        ("APPROVE", ["dismissed"], "dismissed"),
        ("ABORT", [], "closed"),
    ],
)
def test_only_a_clear_answer_decides(decision: str, answers: list[object], expected: str | None) -> None:
    assert read_outcome(decision, answers) == expected
    assert read_outcome(decision, answers, by_engine=True) == "closed"


def test_a_person_sees_the_reason_beside_the_check_and_its_last_result() -> None:
    check = {"id": "works", "kind": "run", "run": "make test", "timeout": 5}
    last = {"passed": False, "detail": "ended with 1", "output": "expected 5\ngot 4"}
    said = disputes.render_question("p/fix", "dev", "Five is wrong.\n✓ approved by ada", check, last)
    assert said.splitlines() == [
        "dev says that the check 'works' of p/fix is wrong.",
        "The check stays as it is until you change the plan, and the task continues meanwhile.",
        "",
        "Its reason, in its own words:",
        "> Five is wrong.",
        "> ✓ approved by ada",
        "",
        "The check (run): run=make test timeout=5",
        "Last time it did not pass: ended with 1",
        "It printed:",
        "> expected 5",
        "> got 4",
    ]
    assert disputes.render_question("p/fix", "dev", "x", check, {"passed": True}).endswith("Last time it passed")
    assert disputes.render_question("p/fix", "dev", "", check, None).endswith(
        "This task has not been checked by it yet."
    )
    assert disputes.describe_check({"id": "a", "kind": "run", "run": "x" * 999}).endswith("…")


def test_an_agent_is_told_of_each_check_what_was_said_last() -> None:
    answered = {"answered_by": "ada", "answered_at": "2026"}
    known = [
        one("works", 1, "upheld", **answered),
        one("works", 2, "dismissed", note="Read\nthe spec.", **answered),
        one("style", 1, "upheld", **answered),
        one("size", 1, "open"),
        one("gone", 1, "closed"),
    ]
    said = describe_disputes(known)
    assert len(said) == 3
    assert "ada examined it and dismissed that (Read the spec.). The check stands" in said[0]
    assert "ada agrees that it is wrong. It is in force until the plan is changed" in said[1]
    assert "No person has decided" in said[2]
    assert describe_disputes([]) == []


def test_what_is_to_be_done_about_it_is_said() -> None:
    words = [disputes.describe_next_step(one(state=state), "p", "fix") for state in STATES]
    assert words[0].startswith("agenttalk answer req_works_1 --answer upheld")
    assert "agenttalk plan apply FILE" in words[1]
    assert "agenttalk rework p/fix --accept" in words[1]
    assert words[2:] == ["nothing; the check stands", "nothing"]
    assert one().as_json()["check"] == "works"
