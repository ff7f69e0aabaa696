"""Gates of a task: scores, thresholds, branches, and the outputs that a score makes due."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.dag import Node
from agenttalk.rules.proof.score_gates import ScoreGateResult, due_outputs, holds, judge_gates, possible_outputs


def node(**fields: Any) -> Node:
    return Node.read({"task_id": "t", "assigned_agent_id": "x", **fields})


@pytest.mark.parametrize(
    ("condition", "score", "expected"),
    [
        ("score < 70", 69.9, True),
        ("score < 70", 70, False),
        ("score <= 70", 70, True),
        (" score>=99.5 ", 99.5, True),
        ("score > 70", 70, False),
        ("score == 0", 0, True),
        ("score != 70", 71, True),
        ("score != 70", None, False),
        ("score != 70", math.nan, False),
        ("score > 70", math.inf, False),
        ("score < 70", -math.inf, False),
        ("score >= -5", 3, False),
        ("score is high", 99, False),
        ("score < 70\n70", 3, False),
        ("", 3, False),
    ],
)
def test_a_condition_compares_the_score_with_a_number(condition: str, score: float | None, expected: bool) -> None:
    assert holds(condition, score) is expected


@given(st.text(max_size=20), st.none() | st.floats())
def test_any_text_is_a_condition_that_holds_or_not(condition: str, score: float | None) -> None:
    assert holds(condition, score) in {True, False}


@given(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(0, 100), st.floats(0, 100))
def test_of_a_condition_and_its_opposite_one_holds(sign: str, bound: int, score: float) -> None:
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}[sign]
    assert holds(f"score {sign} {bound}", score) is not holds(f"score {opposite} {bound}", score)


BRANCHES = [{"when": "score < 50", "activate": ["rescue"]}, {"when": "score < 70", "activate": ["polish", "ask"]}]
GATES = {
    "required": True,
    "thresholds": {"t_min_score": 80, "other_min_score": 60.5},
    "evidence_required": ["report.json"],
    "branches": BRANCHES,
}


def test_a_task_without_gates_meets_them() -> None:
    assert judge_gates(node(), scores={}, evidence=()) == ScoreGateResult(met=True)
    assert judge_gates(node(gates={}), scores={}, evidence=()) == ScoreGateResult(met=True)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (49, ScoreGateResult(met=True, branch=0, activate=("rescue",))),
        (69.5, ScoreGateResult(met=True, branch=1, activate=("polish", "ask"))),
    ],
)
def test_the_first_branch_that_holds_answers_the_gate(score: float, expected: ScoreGateResult) -> None:
    assert judge_gates(node(gates=GATES), scores={"t": score}, evidence=()) == expected


def test_without_a_branch_thresholds_and_documents_count() -> None:
    task = node(gates=GATES)
    assert judge_gates(task, scores={"t": 80, "other": 60.5}, evidence={"report.json"}) == ScoreGateResult(met=True)
    gate = judge_gates(task, scores={"t": 79, "other": 90}, evidence={"report.json"})
    assert (gate.met, gate.unmet) == (False, ("'t' has the score 79; at least 80 is required",))
    gate = judge_gates(task, scores={"t": 80, "other": math.nan}, evidence=())
    assert gate.unmet == (
        "'other' has no score; at least 60.5 is required",
        "the document 'report.json' is not there",
    )
    assert not judge_gates(task, scores={}, evidence={"report.json"}).met


@pytest.mark.parametrize("name", ["quality", "_min_score", "t_max_score", "t"])
def test_a_threshold_that_nobody_knows_is_unmet(name: str) -> None:
    gate = judge_gates(node(gates={"required": True, "thresholds": {name: 0}}), scores={"t": 100, "": 100}, evidence=())
    assert not gate.met
    assert repr(name) in gate.unmet[0]


def test_a_threshold_that_nobody_knows_hides_no_other() -> None:
    gate = judge_gates(
        node(gates={"required": True, "thresholds": {"quality": 0, "t_min_score": 80}}), scores={"t": 10}, evidence=()
    )
    assert gate.unmet == (
        "the threshold 'quality' is unknown; a threshold is named <task_id>_min_score",
        "'t' has the score 10; at least 80 is required",
    )


def test_a_gate_that_need_not_be_met_only_says_what_is_unmet() -> None:
    gate = judge_gates(node(gates={**GATES, "required": False}), scores={"t": 75}, evidence=())
    assert gate.met
    assert len(gate.unmet) == 3


maybe_scores = st.dictionaries(st.sampled_from(["t", "other", "third"]), st.none() | st.floats(0, 100))


@given(maybe_scores, st.sets(st.sampled_from(["report.json", "x"])))
def test_a_required_gate_is_met_only_by_a_branch_or_by_everything(
    scores: dict[str, float | None], evidence: set[str]
) -> None:
    gate = judge_gates(node(gates=GATES), scores=scores, evidence=evidence)
    own, other = scores.get("t"), scores.get("other")
    everything = own is not None and own >= 80 and other is not None and other >= 60.5 and "report.json" in evidence
    branch = own is not None and own < 70
    assert gate.met is (branch or everything)
    assert (gate.branch is not None) is bool(gate.activate) is branch
    assert gate.met is not bool(gate.unmet)


OUTPUTS = [
    {"name": "always"},
    {"name": "maybe", "optional": True},
    {"name": "good", "when": "score >= 70"},
    {"name": "bad", "when": "score < 70"},
    {"name": "extra", "when": "score >= 70", "optional": True},
]


@pytest.mark.parametrize(("score", "due"), [(None, ["always"]), (70, ["always", "good"]), (69, ["always", "bad"])])
def test_the_score_chooses_among_the_outputs(score: float | None, due: list[str]) -> None:
    assert [output.name for output in due_outputs(node(outputs=OUTPUTS), score)] == due


@pytest.mark.mends("B2")
def test_what_may_be_made_is_optional_or_has_a_condition() -> None:
    outputs = [{"name": "a"}, {"name": "b", "when": "score > 0"}, {"name": "c", "optional": True}]
    assert [output.name for output in possible_outputs(node(outputs=outputs))] == ["b", "c"]
