"""What reviewers of a DAG say, and what holds when some say nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.plan import ReviewPolicy
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.rules.planfile.compiler import compile_plan
from agenttalk.rules.prompts.dag_review import render_coordination_prompt, render_review_prompt
from agenttalk.rules.proof import dag_review
from agenttalk.rules.proof.dag_review import VERDICTS, DagReview

DAG = wire.sha256(b"dag")
POLICY = ReviewPolicy.read({"reviewers": ["r1", "r2"]})
LED = POLICY.model_copy(update={"coordinator": "lead"})
FINE = DagReview("r1", 90, "APPROVE")


def fine(name: str, score: float = 90, decision: Any = "APPROVE") -> DagReview:
    return DagReview(name, score, decision)


def test_all_content_means_approved() -> None:
    ruling = dag_review.decide(POLICY, {"r1": fine("r1"), "r2": fine("r2")}, None)
    assert (ruling.decision, ruling.by, ruling.reasons, ruling.missing) == ("APPROVE", "engine", (), ())


@pytest.mark.parametrize(
    ("second", "decision"),
    [(fine("r2", 69), "REVISE"), (fine("r2", 90, "REVISE"), "REVISE"), (fine("r2", 90, "REJECT"), "REJECT")],
)
def test_one_who_is_not_content_is_enough(second: DagReview, decision: str) -> None:
    ruling = dag_review.decide(POLICY, {"r1": fine("r1"), "r2": second}, None)
    assert ruling.decision == decision
    assert "r2" in ruling.reasons[0]


@pytest.mark.parametrize(
    ("default", "said", "decision"),
    [
        (None, "APPROVE", "REVISE"),
        ("nonsense", "APPROVE", "REVISE"),
        ("APPROVE", "APPROVE", "APPROVE"),
        ("APPROVE", "REJECT", "REJECT"),
        ("REJECT", "APPROVE", "REJECT"),
    ],
)
def test_without_all_of_them_the_default_holds_but_is_not_milder(default: str | None, said: Any, decision: str) -> None:
    ruling = dag_review.decide(
        POLICY, {"r1": fine("r1", decision=said), "r2": "its task is FAILED"}, None, default=default
    )
    assert (ruling.decision, ruling.missing, ruling.by) == (decision, ("r2",), "engine")
    assert any("r2 gave no review: its task is FAILED" in each for each in ruling.reasons)


def test_nobody_heard_at_all() -> None:
    ruling = dag_review.decide(LED, {}, None, default="REJECT")
    assert (ruling.decision, ruling.missing) == ("REJECT", ("r1", "r2", "lead"))
    assert any("it said nothing" in each for each in ruling.reasons)


def test_a_coordinator_decides_among_those_who_gave_enough() -> None:
    said = {"r1": fine("r1"), "r2": fine("r2", 80, "REVISE")}
    assert dag_review.decide(LED, said, ("APPROVE", "good")).decision == "APPROVE"
    assert dag_review.decide(LED, said, ("REJECT", "")).by == "lead"
    low = {"r1": fine("r1"), "r2": fine("r2", 10)}
    assert dag_review.decide(LED, low, ("APPROVE", "good")).decision == "REVISE"
    assert dag_review.decide(LED, low, ("REJECT", "bad")).decision == "REJECT"
    assert dag_review.decide(LED, said, "it is silent").missing == ("lead",)


REVIEWS = st.builds(DagReview, st.just("x"), st.integers(0, 100).map(float), st.sampled_from(VERDICTS))


@given(
    st.fixed_dictionaries({"r1": REVIEWS | st.just("silent"), "r2": REVIEWS | st.just("silent")}),
    st.none() | st.just("silent") | st.tuples(st.sampled_from(VERDICTS), st.just("why")),
    st.none() | st.sampled_from([*VERDICTS, "other"]),
    st.booleans(),
)
def test_approval_needs_everybody_or_a_default_and_never_less_than_the_least_score(
    said: dict[str, Any], coordinator: Any, default: str | None, led: bool
) -> None:
    policy = LED if led else POLICY
    ruling = dag_review.decide(policy, said, coordinator if led else None, default=default)
    heard = [each for each in said.values() if isinstance(each, DagReview)]
    if ruling.decision == "APPROVE":
        assert not ruling.missing or default == "APPROVE"
        assert all(each.score >= policy.min_score for each in heard)
        if ruling.by == "engine":
            assert all(each.decision == "APPROVE" for each in heard)
    assert (len(heard) < 2) <= bool(ruling.missing)


def said(**keys: Any) -> bytes:
    return json.dumps({"score": 80, "decision": "APPROVE", **keys}).encode()


def test_a_review_needs_only_a_score_and_a_decision() -> None:
    found = dag_review.read_review(said(issues=["too long"]), "r1", DAG)
    assert isinstance(found, DagReview)
    assert (found.score, found.decision, found.issues[0].description) == (80, "APPROVE", "too long")
    assert found.as_json()["reviewer"] == "r1"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[]", "not a JSON object"),
        (b"{", ""),
        (b'{"score": 200, "decision": "APPROVE"}', "score"),
        (said(dag={"file_name": "x", "sha256": wire.sha256(b"x")}), "another DAG"),
        (said(reviewer_agent_id="r2"), "written for r2"),
    ],
)
def test_what_is_no_review_says_why(data: bytes, why: str) -> None:
    found = dag_review.read_review(data, "r1", DAG)
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"decision": "REVISE", "reason": " more tests "}', ("REVISE", "more tests")),
        (b'{"decision": "APPROVE"}', ("APPROVE", "")),
        (b'{"decision": "PASS"}', "its decision is not one of APPROVE, REVISE, REJECT"),
        (b"[]", "its decision is not one of APPROVE, REVISE, REJECT"),
    ],
)
def test_a_coordinators_decision_is_read(data: bytes, found: Any) -> None:
    assert dag_review.read_decision(data) == found


def test_a_decision_that_is_no_json_says_so() -> None:
    assert isinstance(dag_review.read_decision(b"{"), str)


@pytest.mark.parametrize("policy", [POLICY, LED])
@pytest.mark.parametrize("locale", ["en", "zh"])
def test_a_review_is_a_plan_that_can_be_submitted(policy: ReviewPolicy, locale: Any) -> None:
    plan_id = dag_review.review_plan_id("p" * 128, 3, DAG)
    assert is_id(plan_id)
    assert plan_id != dag_review.review_plan_id("p" * 128, 3, wire.sha256(b"other"))
    agents = {name: {"driver": "python"} for name in ("r1", "r2", "lead")}
    ask, weigh = render_review_prompt("be strict", 70, locale=locale), render_coordination_prompt(locale=locale)
    document = dag_review.make_review_plan(plan_id, policy, agents, ask=ask, weigh=weigh, timeout=60)
    compiled = compile_plan(reader.plan_of(YamlSource(document)))
    assert compiled.problems == ()
    tasks = [node.task_id for node in compiled.dag.nodes]
    assert tasks == ["review_1", "review_2", *(["decide"] if policy.coordinator else [])]
    names = [node.needs[0].selector.value for node in compiled.dag.nodes]  # type: ignore[union-attr]
    assert names == [dag_review.make_dag_file_name(each) for each in tasks]
    assert "be strict" in ask
    assert "be strict" not in render_review_prompt(None, 70, locale=locale)
