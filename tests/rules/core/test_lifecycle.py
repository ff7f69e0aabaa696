"""The states of a task and the table of their changes."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.errors import Code, ConflictError
from agenttalk.rules.core.task_states import BLOCKED, FINAL, TRANSITIONS, Cause, Phase, State, board_status, move

STATES: tuple[State, ...] = get_args(State)
CAUSES: tuple[Cause, ...] = get_args(Cause)
REOPENS = {
    "COMPLETED": {"STALE", "REWORK", "REGRESSION", "REWORK_EXHAUSTED", "CHANGED", "REMOVED", "RUN_AGAIN"},
    "FAILED": {"OPERATOR_RETRY", "ACCEPTED", "CHANGED", "REMOVED", "RUN_AGAIN"},
    "SKIPPED": {"OPERATOR_RETRY", "DEPENDENCY_RETRIED", "CHANGED", "REMOVED", "RUN_AGAIN"},
}


def legal(state: State) -> dict[Cause, State]:
    return {cause: target for (source, cause), target in TRANSITIONS.items() if source == state}


def reached_from(state: State) -> set[State]:
    found, ahead = {state}, [state]
    while ahead:
        for target in legal(ahead.pop()).values():
            if target not in found:
                found.add(target)
                ahead.append(target)
    return found


def test_every_state_can_be_reached_and_every_cause_moves_something() -> None:
    assert reached_from("PENDING") == set(STATES)
    assert {cause for _, cause in TRANSITIONS} == set(CAUSES)


@pytest.mark.parametrize("state", STATES)
def test_from_every_state_a_final_one_can_be_reached(state: State) -> None:
    assert reached_from(state) & FINAL


def test_finished_tasks_reopen_only_for_the_reasons_that_are_listed() -> None:
    assert {state: set(legal(state)) for state in sorted(FINAL)} == REOPENS


def test_everything_that_is_not_finished_can_be_cancelled() -> None:
    assert {state: move(state, "CANCELLED") for state in STATES if state not in FINAL} == dict.fromkeys(
        [state for state in STATES if state not in FINAL], "FAILED"
    )


def test_every_task_can_begin_anew() -> None:
    assert {move(state, "RUN_AGAIN") for state in STATES} == {"PENDING"}


def test_a_new_plan_can_change_or_remove_every_task() -> None:
    assert {move(state, "CHANGED") for state in STATES} == {"PENDING"}
    assert {move(state, "REMOVED") for state in STATES} == {"SKIPPED"}


def test_whoever_waits_can_be_let_go_in_every_way() -> None:
    assert {state for state in STATES if state.startswith("BLOCKED")} == BLOCKED
    for state in BLOCKED:
        assert move(state, "WAIT_TIMEOUT") == "BLOCKED_WAITING_HUMAN"
        assert move(state, "GIVEN_UP") == move(state, "ABORTED") == "FAILED"
        assert move(state, "DEPENDENCY_RETRIED") == "PENDING"
        assert move(state, "DEPENDENCY_SKIP") == move(state, "RACE_LOST") == "SKIPPED"
        assert move(state, "DEPENDENCY_BLOCK") == "BLOCKED_WAITING_REVIEW"
        assert move(state, "DEPENDENCY_REPLAN") == "BLOCKED_WAITING_HUMAN"


@pytest.mark.parametrize("state", ["PENDING", "READY", "RUNNING"])
def test_what_has_not_ended_can_be_stopped(state: State) -> None:
    assert move(state, "ABORTED") == "FAILED"
    assert move(state, "RACE_LOST") == "SKIPPED"


@given(st.lists(st.sampled_from(CAUSES), max_size=30))
def test_a_task_moves_along_the_table_or_not_at_all(causes: list[Cause]) -> None:
    state: State = "PENDING"
    for cause in causes:
        if (state, cause) in TRANSITIONS:
            state = move(state, cause)
            assert state in STATES
        else:
            with pytest.raises(ConflictError, match=f"{state} .* {cause}") as caught:
                move(state, cause)
            assert caught.value.code is Code.ILLEGAL_TRANSITION


@given(st.data())
def test_work_counts_as_completed_only_out_of_a_fulfilled_run(data: st.DataObject) -> None:
    state: State = "PENDING"
    for _ in range(20):
        cause = data.draw(st.sampled_from(sorted(legal(state))))
        target = move(state, cause)
        if target == "COMPLETED":
            assert (state, cause) in {("RUNNING", "FULFILLED"), ("FAILED", "ACCEPTED")}
        if target == "RUNNING":
            assert (state, cause) == ("READY", "LEASED")
        state = target


def way(*causes: Cause) -> State:
    state: State = "PENDING"
    for cause in causes:
        state = move(state, cause)
    return state


@pytest.mark.parametrize(
    ("causes", "state"),
    [
        (["INPUTS_PICKED", "LEASED", "FULFILLED"], "COMPLETED"),
        (["INPUTS_PICKED", "LEASED", "NOT_FULFILLED", "LEASED", "REWORK_EXHAUSTED", "OPERATOR_RETRY"], "READY"),
        (["INPUTS_PICKED", "LEASED", "RETRY", "LEASED", "FAILED_FOR_GOOD"], "FAILED"),
        (["INPUTS_PICKED", "LEASED", "ENGINE_ENDED", "LEASED", "ENGINE_ENDED_TOO_OFTEN", "ANSWERED"], "READY"),
        (["INPUTS_PICKED", "LEASED", "INPUT_REJECTED", "INPUT_ARRIVED"], "READY"),
        (["INPUTS_PICKED", "LEASED", "GATE_UNMET", "DECIDED"], "READY"),
        (["INPUTS_PICKED", "LEASED", "FULFILLED", "REWORK_EXHAUSTED"], "FAILED"),
        (["INPUTS_MISSING", "WAIT_TIMEOUT", "INPUT_ARRIVED"], "READY"),
        (["INPUTS_MISSING", "WAIT_TIMEOUT", "GIVEN_UP"], "FAILED"),
        (["INPUTS_AMBIGUOUS", "ANSWERED", "INPUTS_LOST"], "PENDING"),
        (["DEPENDENCY_BLOCK", "DEPENDENCY_RETRIED"], "PENDING"),
        (["DEPENDENCY_REPLAN"], "BLOCKED_WAITING_HUMAN"),
        (["DEPENDENCY_SKIP", "DEPENDENCY_RETRIED"], "PENDING"),
        (["BRANCH_NOT_TAKEN"], "SKIPPED"),
        (["BRANCH_NOT_TAKEN", "OPERATOR_RETRY"], "PENDING"),
        (["INPUTS_PICKED", "INPUTS_AMBIGUOUS"], "BLOCKED_WAITING_HUMAN"),
        (["INPUTS_PICKED", "SUPERSEDED", "LEASED", "SUPERSEDED"], "READY"),
        (["INPUTS_PICKED", "SOFT_DENIED", "DECIDED", "LEASED", "SOFT_DENIED"], "BLOCKED_WAITING_REVIEW"),
        (["INPUTS_PICKED", "LEASED", "INPUTS_MISSING", "INPUTS_AMBIGUOUS"], "BLOCKED_WAITING_HUMAN"),
        (["INPUTS_PICKED", "LEASED", "CONFLICT"], "READY"),
        (["INPUTS_PICKED", "LEASED", "NEEDS_PERSON"], "BLOCKED_WAITING_HUMAN"),
        (["INPUTS_PICKED", "LEASED", "NEEDS_PERSON", "DECIDED"], "READY"),
        *((["INPUTS_PICKED", "LEASED", "FULFILLED", again], "READY") for again in ("STALE", "REWORK", "REGRESSION")),
        (["INPUTS_PICKED", "LEASED", "FAILED_FOR_GOOD", "ACCEPTED"], "COMPLETED"),
    ],
    ids=str,
)
def test_the_usual_ways_of_a_task(causes: list[Cause], state: State) -> None:
    assert way(*causes) == state


@pytest.mark.parametrize(
    ("state", "phase", "shown"),
    [
        ("PENDING", None, "pending"),
        ("READY", "verifying", "pending"),
        ("RUNNING", None, "working"),
        ("RUNNING", "validating", "working"),
        ("RUNNING", "executing", "working"),
        ("RUNNING", "verifying", "review"),
        ("COMPLETED", None, "done"),
        ("FAILED", None, "failed"),
        ("SKIPPED", None, "skipped"),
        *((state, None, "blocked") for state in sorted(BLOCKED)),
    ],
)
def test_people_see_seven_statuses(state: State, phase: Phase | None, shown: str) -> None:
    assert board_status(state, phase) == shown
