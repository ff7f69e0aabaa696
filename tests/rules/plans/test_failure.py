"""What follows when a dependency fails."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.dag import Node
from agenttalk.rules.core.task_states import FINAL, Cause, State
from agenttalk.rules.plans.failure import (
    BlockConsequence,
    Consequence,
    FallbackConsequence,
    ReplanConsequence,
    SkipConsequence,
    decide_consequence,
    decide_consequences,
    is_race_lost,
    judge_dependency,
)

POLICIES = ["SKIP", "BLOCK", "REPLAN_REQUEST", "FALLBACK"]


def node(task_id: str, *depends_on: str, policy: dict[str, Any] | None = None) -> Node:
    return Node.read(
        {"task_id": task_id, "assigned_agent_id": "x", "depends_on": list(depends_on), "failure_policy": policy}
    )


def fallback(task_id: str) -> dict[str, Any]:
    return {"on_dependency_failed": "FALLBACK", "fallback_task_id": task_id}


@pytest.mark.parametrize(
    ("policy", "consequence"),
    [
        (None, BlockConsequence()),
        ({}, BlockConsequence()),
        ({"on_dependency_failed": "BLOCK"}, BlockConsequence()),
        ({"on_dependency_failed": "SKIP"}, SkipConsequence()),
        ({"on_dependency_failed": "SKIP", "fallback_task_id": "spare"}, SkipConsequence()),
        ({"on_dependency_failed": "REPLAN_REQUEST"}, ReplanConsequence()),
        (fallback("spare"), FallbackConsequence("spare")),
        ({"on_dependency_failed": "FALLBACK"}, BlockConsequence()),
        (fallback("a"), BlockConsequence()),
        (fallback("b"), BlockConsequence()),
    ],
)
def test_the_policy_of_a_task_says_what_a_failed_dependency_means(
    policy: dict[str, Any] | None, consequence: Consequence
) -> None:
    assert decide_consequence(node("b", "a", policy=policy), "a") == consequence


def test_a_fallback_serves_all_that_depend_on_the_failed_task() -> None:
    nodes = [
        node("skips", "a", policy={"on_dependency_failed": "SKIP"}),
        node("first", "a", policy=fallback("spare")),
        node("own", "a", "c", policy=fallback("other")),
        node("elsewhere", "c"),
    ]
    assert decide_consequences(nodes, "a") == {
        "skips": FallbackConsequence("spare"),
        "first": FallbackConsequence("spare"),
        "own": FallbackConsequence("other"),
    }


def test_without_a_fallback_each_follows_its_own_policy() -> None:
    nodes = [node("blocks", "a"), node("skips", "a", policy={"on_dependency_failed": "SKIP"})]
    assert decide_consequences(nodes, "a") == {"blocks": BlockConsequence(), "skips": SkipConsequence()}


def test_a_fallback_never_waits_for_itself() -> None:
    nodes = [node("b", "a", policy=fallback("spare")), node("spare", "a")]
    assert decide_consequences(nodes, "a") == {"b": FallbackConsequence("spare"), "spare": BlockConsequence()}


names = st.sampled_from("abcde")
policies = st.none() | st.fixed_dictionaries(
    {"on_dependency_failed": st.sampled_from(POLICIES)}, optional={"fallback_task_id": names}
)


@given(st.lists(st.tuples(names, st.lists(names, max_size=3), policies), max_size=5), names)
def test_every_dependant_gets_a_consequence_and_nobody_else(
    parts: list[tuple[str, list[str], dict[str, Any] | None]], failed: str
) -> None:
    nodes = [node(task_id, *before, policy=policy) for task_id, before, policy in parts]
    consequences = decide_consequences(nodes, failed)
    assert set(consequences) == {each.task_id for each in nodes if failed in each.depends_on}
    for task_id, each in consequences.items():
        assert each not in {FallbackConsequence(task_id), FallbackConsequence(failed)}


@pytest.mark.parametrize(
    ("state", "cause", "means"),
    [
        ("PENDING", None, "open"),
        ("RUNNING", "LEASED", "open"),
        ("BLOCKED_WAITING_HUMAN", None, "open"),
        ("COMPLETED", "FULFILLED", "fine"),
        ("SKIPPED", "BRANCH_NOT_TAKEN", "fine"),
        ("SKIPPED", "REMOVED", "fine"),
        ("SKIPPED", "DEPENDENCY_SKIP", "failed"),
        ("FAILED", "ABORTED", "failed"),
        ("FAILED", None, "failed"),
    ],
)
def test_what_a_dependency_means_to_those_that_wait(state: State, cause: Cause | None, means: str) -> None:
    assert judge_dependency(state, cause) == means


@pytest.mark.parametrize(
    ("state", "others", "lost"),
    [
        ("COMPLETED", ["RUNNING", "READY"], False),
        ("COMPLETED", ["SKIPPED", "COMPLETED"], True),
        ("READY", ["COMPLETED"], True),
        ("READY", ["RUNNING"], False),
        ("FAILED", ["BLOCKED_WAITING_HUMAN", "SKIPPED"], True),
        ("FAILED", ["SKIPPED", "FAILED"], False),
        ("FAILED", [], False),
    ],
)
def test_a_race_is_lost_to_a_winner_or_by_failing_before_the_others(
    state: State, others: list[State], lost: bool
) -> None:
    assert is_race_lost(state, others) is lost


@given(st.sampled_from(get_args(State)), st.none() | st.sampled_from(get_args(Cause)))
def test_only_finished_dependencies_let_anything_go_on(state: State, cause: Cause | None) -> None:
    assert (judge_dependency(state, cause) == "open") is (state not in FINAL)
