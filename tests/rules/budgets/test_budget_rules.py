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
from agenttalk.rules.agents.results import AgentResult, read_result
from agenttalk.rules.budgets import budgets
from agenttalk.rules.budgets.budgets import BudgetLimit
from agenttalk.rules.budgets.stuck import OFF, REPEATS, ActivityTrail, StuckRule, explain_stuck, extend_trail, rule_of
from agenttalk.rules.core.usage import UsageTotals
from agenttalk.rules.text import turn_words


def promise(**more: Any) -> CompletionPromise:
    said = {"id": "cp-1-00ff", "objective": "o", "acceptance": [{"id": "a", "description": "d"}], **more}
    return CompletionPromise.read(said)


def test_a_task_is_limited_by_itself_its_plan_and_the_day() -> None:
    own = promise(budget={"tokens": 5, "seconds": 60})
    found = budgets.collect_limits(own, PlanLimits(tokens=50, max_running=2), 2.5)
    assert found == (
        BudgetLimit("task", "tokens", 5),
        BudgetLimit("task", "seconds", 60),
        BudgetLimit("plan", "tokens", 50),
        BudgetLimit("day", "cost_usd", 2.5),
    )
    assert budgets.collect_limits(None, None, None) == ()
    deaf = promise(budget={"tokens": 5}, abortWhen=[{"type": "stuck"}])
    assert budgets.collect_limits(deaf, None, None) == ()


counts = st.builds(UsageTotals, st.integers(0, 20), st.floats(0, 20), st.floats(0, 20), st.integers(0, 20))


@given(counts, counts, st.sampled_from(budgets.KINDS), st.integers(1, 20))
def test_using_more_never_brings_back_what_is_used_up(
    one: UsageTotals, more: UsageTotals, kind: Any, most: int
) -> None:
    limit = BudgetLimit("plan", kind, most)
    before, after = {"plan": one}, {"plan": one.plus(more)}
    assert set(budgets.find_exhausted([limit], before)) <= set(budgets.find_exhausted([limit], after))  # type: ignore[arg-type]
    assert budgets.find_overrun([limit], before) is None or budgets.find_overrun([limit], after)  # type: ignore[arg-type]
    passed = budgets.find_overrun([limit], before)  # type: ignore[arg-type]
    assert (passed is not None) == (getattr(one, kind) > most)
    left = budgets.compute_seconds_left([BudgetLimit("plan", "seconds", most)], before)  # type: ignore[arg-type]
    assert left == max(0.0, most - one.seconds)


def test_what_is_used_up_is_said_in_the_same_words_however_much_it_is() -> None:
    limit = BudgetLimit("task", "tokens", 1000)
    assert limit.exhausted_message == "budget-exhausted: the task's budget of 1,000 tokens is used up"
    assert budgets.find_exhausted([limit], {"task": UsageTotals(1000)}) == (limit,)
    assert budgets.find_exhausted([limit], {}) == ()
    assert budgets.find_overrun([limit], {"task": UsageTotals(1000)}) is None
    passed = budgets.find_overrun([limit], {"task": UsageTotals(1204)})
    assert passed == (limit, "1,204 tokens of the task's budget of 1,000 tokens")
    assert budgets.compute_seconds_left([limit], {}) is None


def test_who_passes_the_limit_of_a_day_and_no_other_waits_for_another_day() -> None:
    day, own = BudgetLimit("day", "cost_usd", 1), BudgetLimit("task", "cost_usd", 1)
    used: Any = {"day": UsageTotals(cost_usd=2), "task": UsageTotals(cost_usd=2)}
    passed, worse = budgets.find_overrun([day], used), budgets.find_overrun([own, day], used)
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
    assert read_result(None, b"one\n" + note + b"\ntwo\n", score_required=False) == AgentResult("one\ntwo\n")
    assert read_result(None, b"one\n", score_required=False) == AgentResult("one\n")
    assert progress_notes.strip_notes(b'says "agenttalk"\n') == b'says "agenttalk"\n'


def trail_of(steps: list[str]) -> ActivityTrail:
    trail = ActivityTrail()
    for at, step in enumerate(steps):
        trail = extend_trail(trail, step, float(at))
    return trail


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True), st.integers(2, 6))
def test_a_circle_is_seen_when_it_was_gone_round_often_enough(circle: list[str], repeats: int) -> None:
    rule = StuckRule(repeats)
    assert explain_stuck(trail_of(circle * repeats), rule, 0.0) is not None
    assert explain_stuck(trail_of([*circle * (repeats - 1), "x", *circle]), rule, 0.0) is None


@given(st.lists(st.integers(), unique=True, max_size=60))
def test_who_always_does_something_else_is_not_stuck(steps: list[int]) -> None:
    assert explain_stuck(trail_of([str(each) for each in steps]), StuckRule(2), 0.0) is None


def test_the_same_twenty_times_is_stuck_and_nineteen_times_is_not() -> None:
    assert explain_stuck(trail_of(["a"] * (REPEATS - 1)), StuckRule(), 0.0) is None
    assert explain_stuck(trail_of(["b", *["a"] * REPEATS]), StuckRule(), 0.0) == "the same 20 times: 'a'"
    assert explain_stuck(trail_of(["a"] * 100), OFF, 1e9) is None


def test_silence_counts_only_where_it_is_asked_for() -> None:
    trail = extend_trail(ActivityTrail(at=0.0), "a", 5.0)
    assert explain_stuck(trail, StuckRule(), 1e9) is None
    assert explain_stuck(trail, StuckRule(seconds=10), 14.9) is None
    assert explain_stuck(trail, StuckRule(seconds=10), 15.0) == "no news for 10 seconds"


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        (None, StuckRule()),
        ([], StuckRule()),
        ([{"type": "stuck"}], StuckRule()),
        ([{"type": "stuck", "target": "it repeats itself"}], StuckRule()),
        ([{"type": "stuck", "target": "300s"}], StuckRule(REPEATS, 300)),
        ([{"type": "stuck", "target": "5m"}, {"type": "stuck", "target": "7x"}], StuckRule(7, 300)),
        ([{"type": "stuck", "target": "3"}], StuckRule(3)),
        ([{"type": "unsafe"}], OFF),
    ],
)
def test_a_promise_says_when_it_is_stuck(said: Any, rule: StuckRule) -> None:
    assert rule_of(None if said is None else promise(abortWhen=said)) == rule


def test_doubtful_budgets_are_told() -> None:
    assert budgets.find_impossible_limits(None) == ()
    assert list(budgets.find_doubts(None, PlanLimits(tokens=5))) == []


def test_a_reason_names_the_day_by_its_message_and_not_by_its_words() -> None:
    limit = BudgetLimit("day", "tokens", 5)
    assert str(limit) == limit.describe() == "the day's budget of 5 tokens"
    assert budgets.names_day(turn_words.USED_UP(limit=limit.describe()))
    assert not budgets.names_day(f"{limit} is used up")
    assert not budgets.names_day(turn_words.USED_UP(limit=BudgetLimit("plan", "tokens", 5).describe()))
    assert not budgets.names_day(None)
