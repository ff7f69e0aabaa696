"""What follows when a dependency or an attempt fails."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.dag import Node
from agenttalk.rules.core.task_states import FINAL, Cause, State
from agenttalk.rules.plans.failure import (
    DAYS,
    LOST,
    BlockConsequence,
    Consequence,
    Ending,
    FallbackConsequence,
    ReplanConsequence,
    SkipConsequence,
    decide_after_attempt,
    decide_after_day_limit,
    decide_consequence,
    decide_consequences,
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


@given(st.sampled_from(get_args(State)), st.none() | st.sampled_from(get_args(Cause)))
def test_only_finished_dependencies_let_anything_go_on(state: State, cause: Cause | None) -> None:
    assert (judge_dependency(state, cause) == "open") is (state not in FINAL)


endings = st.sampled_from(get_args(Ending))


@pytest.mark.parametrize(
    ("how", "used", "deaths", "cause"),
    [
        ("crash", 0, 0, "RETRY"),
        ("timeout", 1, 9, "RETRY"),
        ("driver_error", 2, 0, "FAILED_FOR_GOOD"),
        ("engine_died", 9, 1, "ENGINE_ENDED"),
        ("engine_died", 9, 2, "ENGINE_ENDED"),
        ("engine_died", 0, 3, "ENGINE_ENDED_TOO_OFTEN"),
        ("engine_stopped", 9, 9, "ENGINE_ENDED"),
        ("lost", 2, 9, "RETRY"),
        ("lost", 3, 0, "FAILED_FOR_GOOD"),
    ],
)
def test_how_an_attempt_ended_decides_what_follows(how: Ending, used: int, deaths: int, cause: Cause) -> None:
    assert decide_after_attempt(how, retries_used=used, retry_times=2, engine_deaths=deaths) == cause


@given(endings, st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_only_the_agents_own_failures_use_up_retries(how: Ending, used: int, times: int, deaths: int) -> None:
    cause = decide_after_attempt(how, retries_used=used, retry_times=times, engine_deaths=deaths)
    if how in {"engine_died", "engine_stopped"}:
        assert cause == decide_after_attempt(how, retries_used=0, retry_times=0, engine_deaths=deaths)
    else:
        most = max(times, LOST) if how == "lost" else times
        assert cause == ("RETRY" if used < most else "FAILED_FOR_GOOD")


def test_a_day_that_stops_an_attempt_counts_for_nothing_until_it_does_so_again_and_again() -> None:
    found = [decide_after_day_limit(before) for before in range(DAYS + 1)]
    assert found == [*["DAY_SPENT"] * (DAYS - 1), "NEEDS_PERSON", "NEEDS_PERSON"]
