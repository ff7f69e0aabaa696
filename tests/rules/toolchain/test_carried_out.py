"""Which evidence decides about a forge event, and what an agent's own words are worth."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.toolchain import ACTION_TYPES
from agenttalk.rules.toolchain.demands import Verify, decide_demand, make_claims

AT = "2026-05-01T10:00:00Z"
KINDS = ("comment", "output")
TYPES = ("general", "action_report", "text")


def ids(*said: tuple[str, str, str, str]) -> list[str]:
    return [each.id for each in make_claims(said, AT)]


@pytest.mark.parametrize("verify", get_args(Verify))
def test_only_notices_and_outages_need_no_work(verify: Verify) -> None:
    for action in ACTION_TYPES:
        found = decide_demand(action, verify)
        if action == "review_merged":
            assert found == (("delivered",), "observed")
        elif action == "infrastructure_failure":
            assert found == (("turn_ended",), "observed")
        else:
            assert found.evidence[0] == "read_back"
            assert found.least == ("observed" if verify == "observed" else "claimed")


def test_each_setting_takes_what_the_stricter_one_takes_and_more() -> None:
    observed, report, transition = (decide_demand("ci_failure", each).evidence for each in get_args(Verify))
    assert observed == ("read_back",)
    assert report == (*observed, "has_action_report")
    assert transition == (*report, "has_output", "has_comment")


def test_reports_outputs_and_comments_are_told_apart() -> None:
    assert ids(("comment", "dev", "action_report", "short")) == ["has_action_report"]
    assert ids(("comment", "dev", "general", "x" * 20)) == ["has_comment"]
    assert ids(("comment", "dev", "general", "x" * 19)) == []
    assert ids(("output", "dev", "text", "the log")) == ["has_output"]
    assert ids(("comment", "dev", "action_report", "x" * 20)) == ["has_action_report", "has_comment"]


def test_what_the_system_says_and_what_is_blank_counts_for_nothing() -> None:
    assert ids(("comment", "system", "action_report", "x" * 50), ("output", "system", "text", "x")) == []
    assert ids(("comment", "dev", "action_report", " \n"), ("output", "dev", "text", " ")) == []


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(["dev", "system"]), st.sampled_from(TYPES), st.text()))
)
def test_words_are_never_more_than_claims_and_each_is_told_once(said: list[tuple[str, str, str, str]]) -> None:
    found = make_claims(said, AT)
    assert len(found) == len(set(found))
    assert {each.trust for each in found} <= {"claimed"}
    assert all(each.by != "system" for each in found)
