"""What an action report says besides its words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.toolchain.report_claims import Claim, InapplicableStep, read_reports


@pytest.mark.parametrize(
    ("document", "claim"),
    [
        ({"merged": True}, Claim("merged")),
        ({"merged": 5}, Claim("merged", number=5)),
        ({"merged": {"pull_request": 5, "repo": "a/b"}}, Claim("merged", "a/b", 5)),
        ({"type": "merged", "number": 5}, Claim("merged", number=5)),
        ([{"push": " abc\n"}], Claim("push", sha="abc")),
        ({"push": {"commit": "abc"}}, Claim("push", sha="abc")),
        ({"review": {"id": 3, "event": "approve"}}, Claim("review", id=3, verdict="APPROVED")),
        ({"review": {"state": "CHANGES_REQUESTED"}}, Claim("review", verdict="REQUEST_CHANGES")),
        ({"comment": {"id": 3, "issue": 4}}, Claim("comment", number=4, id=3)),
        ({"issue": {"number": 4, "state": "Closed"}}, Claim("issue", number=4, state="closed")),
        ({"deploy": {"context": "prod", "sha": "abc"}}, Claim("deploy", sha="abc", context="prod")),
    ],
)
def test_claims_are_read_in_many_spellings(document: Any, claim: Claim) -> None:
    assert read_reports([document], 2) == ((claim,), (), ())


def test_a_claim_is_told_in_words() -> None:
    assert Claim("merged").as_text() == "merged"
    assert Claim("review", "a/b", 5, 3, "APPROVED").as_text() == "review (number 5, id 3, verdict APPROVED, repo a/b)"


def test_a_list_is_many_claims_each_once() -> None:
    assert read_reports([{"merged": [1, 2, 1]}, {"merged": 2}], 2).claims == (
        Claim("merged", number=1),
        Claim("merged", number=2),
    )


@pytest.mark.parametrize(
    "document", [{"merged": False}, {"else": 1}, "text", None, [], [3], {"id": "x", "passed": True}]
)
def test_what_says_nothing_is_nothing(document: Any) -> None:
    assert read_reports([document], 2) == ((), (), ())


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"merged": None}, "the claim 'merged' cannot be read"),
        ({"merged": " "}, "the claim 'merged' cannot be read"),
        ({"merged": -1}, "the claim 'merged' cannot be read"),
        ({"not_applicable": "all"}, 'not_applicable needs {"step": N, "reason": "…"}'),
        ({"not_applicable": [{"step": 1}]}, 'not_applicable needs {"step": N, "reason": "…"}'),
        ({"not_applicable": [{"step": True, "reason": "x"}]}, 'not_applicable needs {"step": N, "reason": "…"}'),
        ({"not_applicable": [{"step": 1, "reason": " "}]}, 'not_applicable needs {"step": N, "reason": "…"}'),
        ({"not_applicable": [{"step": 3, "reason": "x"}]}, "there is no step 3: there are 2"),
    ],
)
def test_what_cannot_be_read_is_a_fault(document: Any, fault: str) -> None:
    assert read_reports([document], 2) == ((), (), (fault,))


def test_steps_that_do_not_apply() -> None:
    said = {"not_applicable": [{"step": 1, "reason": " no\nneed "}, {"step": 2, "reason": "x"}]}
    assert read_reports([said], 2).declared == (InapplicableStep(1, "no need"), InapplicableStep(2, "x"))
    assert read_reports([{"not_applicable": {"step": 2, "reason": "x"}}], 2).declared == (InapplicableStep(2, "x"),)


def test_too_many_claims_are_a_fault() -> None:
    said = read_reports([{"comment": list(range(1, 80))}], 2)
    assert len(said.claims) == 50
    assert said.faults == ("there are more than 50 claims",)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(("merged", "push", "not_applicable", "step", "reason", "number", "type")), x
            )
        ),
        max_leaves=10,
    )
)
def test_anything_can_be_read(document: Any) -> None:
    said = read_reports([document], 3)
    assert all(1 <= each.step <= 3 for each in said.declared)
    assert all("\n" not in each.as_text() for each in said.claims)
