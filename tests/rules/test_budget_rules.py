"""Budgets, notes of programs, and being stuck: what is counted, and when it is too much."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.plan import PlanLimits
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.agents import progress_notes
from agenttalk.rules.agents.progress_notes import Note
from agenttalk.rules.agents.results import Result, read_result
from agenttalk.rules.budgets import budgets
from agenttalk.rules.budgets.budgets import Limit
from agenttalk.rules.budgets.stuck import OFF, REPEATS, Rule, Trail, followed, rule_of, why
from agenttalk.rules.core.usage import Used


def promise(**more: Any) -> CompletionPromise:
    said = {"id": "cp-1-00ff", "objective": "o", "acceptance": [{"id": "a", "description": "d"}], **more}
    return CompletionPromise.read(said)


def test_a_task_is_limited_by_itself_its_plan_and_the_day() -> None:
    own = promise(budget={"tokens": 5, "seconds": 60})
    found = budgets.limits(own, PlanLimits(tokens=50, max_running=2), 2.5)
    assert found == (
        Limit("task", "tokens", 5),
        Limit("task", "seconds", 60),
        Limit("plan", "tokens", 50),
        Limit("day", "cost_usd", 2.5),
    )
    assert budgets.limits(None, None, None) == ()
    deaf = promise(budget={"tokens": 5}, abortWhen=[{"type": "stuck"}])
    assert budgets.limits(deaf, None, None) == ()


counts = st.builds(Used, st.integers(0, 20), st.floats(0, 20), st.floats(0, 20), st.integers(0, 20))


@given(counts, counts, st.sampled_from(budgets.KINDS), st.integers(1, 20))
def test_using_more_never_brings_back_what_is_used_up(one: Used, more: Used, kind: Any, most: int) -> None:
    limit = Limit("plan", kind, most)
    before, after = {"plan": one}, {"plan": one.plus(more)}
    assert set(budgets.used_up([limit], before)) <= set(budgets.used_up([limit], after))  # type: ignore[arg-type]
    assert budgets.overrun([limit], before) is None or budgets.overrun([limit], after)  # type: ignore[arg-type]
    passed = budgets.overrun([limit], before)  # type: ignore[arg-type]
    assert (passed is not None) == (getattr(one, kind) > most)
    left = budgets.seconds_left([Limit("plan", "seconds", most)], before)  # type: ignore[arg-type]
    assert left == max(0.0, most - one.seconds)


def test_what_is_used_up_is_said_in_the_same_words_however_much_it_is() -> None:
    limit = Limit("task", "tokens", 1000)
    assert limit.spent == "budget-exhausted: the task's budget of 1,000 tokens is used up"
    assert budgets.used_up([limit], {"task": Used(1000)}) == (limit,)
    assert budgets.used_up([limit], {}) == ()
    assert budgets.overrun([limit], {"task": Used(1000)}) is None
    passed = budgets.overrun([limit], {"task": Used(1204)})
    assert passed == (limit, "1,204 tokens of the task's budget of 1,000 tokens")
    assert budgets.seconds_left([limit], {}) is None


def test_who_passes_the_limit_of_a_day_and_no_other_waits_for_another_day() -> None:
    day, own = Limit("day", "cost_usd", 1), Limit("task", "cost_usd", 1)
    used: Any = {"day": Used(cost_usd=2), "task": Used(cost_usd=2)}
    passed, worse = budgets.overrun([day], used), budgets.overrun([own, day], used)
    assert passed is not None
    assert worse is not None
    assert (passed.abort.pauses, str(passed.abort)) == (True, "budget-exhausted: $2 of the day's budget of $1")
    assert (worse.abort.pauses, str(worse.abort)) == (False, "budget-exhausted: $2 of the task's budget of $1")


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (b'{"agenttalk": {"usage": {"tokens": 5}, "progress": "reads"}}', Note({"tokens": 5}, "reads")),
        (b'  {"agenttalk": {}}\r', Note(counts_only=True)),
        (b'{"agenttalk": {"usage": 5, "progress": ["x"]}}', Note(counts_only=True)),
        (b'{"agenttalk": 5}', None),
        (b'{"agenttalk": {', None),
        (b'["agenttalk"]', None),
        (b"agenttalk", None),
        (b'{"result": "x", "more": "and then", "agenttalk": {}}', None),
        (b'{"agenttalk": {"progress": "' + b"x" * progress_notes.LONGEST + b'"}}', None),
    ],
)
def test_a_note_is_a_line_of_its_own(line: bytes, note: Note | None) -> None:
    assert progress_notes.read_note(line) == note


def test_notes_are_no_part_of_what_a_program_says() -> None:
    note = json.dumps({"agenttalk": {"progress": "reads"}}).encode()
    assert read_result(None, b"one\n" + note + b"\ntwo\n", score_required=False) == Result("one\ntwo\n")
    assert read_result(None, b"one\n", score_required=False) == Result("one\n")
    assert progress_notes.without_notes(b'says "agenttalk"\n') == b'says "agenttalk"\n'


def trail_of(steps: list[str]) -> Trail:
    trail = Trail()
    for at, step in enumerate(steps):
        trail = followed(trail, step, float(at))
    return trail


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True), st.integers(2, 6))
def test_a_circle_is_seen_when_it_was_gone_round_often_enough(circle: list[str], repeats: int) -> None:
    rule = Rule(repeats)
    assert why(trail_of(circle * repeats), rule, 0.0) is not None
    assert why(trail_of([*circle * (repeats - 1), "x", *circle]), rule, 0.0) is None


@given(st.lists(st.integers(), unique=True, max_size=60))
def test_who_always_does_something_else_is_not_stuck(steps: list[int]) -> None:
    assert why(trail_of([str(each) for each in steps]), Rule(2), 0.0) is None


def test_the_same_twenty_times_is_stuck_and_nineteen_times_is_not() -> None:
    assert why(trail_of(["a"] * (REPEATS - 1)), Rule(), 0.0) is None
    assert why(trail_of(["b", *["a"] * REPEATS]), Rule(), 0.0) == "the same 20 times: 'a'"
    assert why(trail_of(["a"] * 100), OFF, 1e9) is None


def test_silence_counts_only_where_it_is_asked_for() -> None:
    trail = followed(Trail(at=0.0), "a", 5.0)
    assert why(trail, Rule(), 1e9) is None
    assert why(trail, Rule(seconds=10), 14.9) is None
    assert why(trail, Rule(seconds=10), 15.0) == "no news for 10 seconds"


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        (None, Rule()),
        ([], Rule()),
        ([{"type": "stuck"}], Rule()),
        ([{"type": "stuck", "target": "it repeats itself"}], Rule()),
        ([{"type": "stuck", "target": "300s"}], Rule(REPEATS, 300)),
        ([{"type": "stuck", "target": "5m"}, {"type": "stuck", "target": "7x"}], Rule(7, 300)),
        ([{"type": "stuck", "target": "3"}], Rule(3)),
        ([{"type": "unsafe"}], OFF),
    ],
)
def test_a_promise_says_when_it_is_stuck(said: Any, rule: Rule) -> None:
    assert rule_of(None if said is None else promise(abortWhen=said)) == rule


def test_doubtful_budgets_are_told() -> None:
    assert budgets.senseless(None) == ()
    assert list(budgets.doubts(None, PlanLimits(tokens=5))) == []
