"""What facts say about how far agents could be believed, and how numbers are written for Prometheus."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.operation import metrics
from agenttalk.rules.operation.metrics import Metric, Sample
from agenttalk.rules.proof import honesty
from agenttalk.rules.proof.honesty import NOTHING, HonestySubject, HonestyTally

numbers = st.integers(min_value=0, max_value=10**6)
tallies = st.builds(
    HonestyTally,
    *[numbers] * 12,
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    disputed=numbers,
    upheld=numbers,
    dismissed=numbers,
    unjudged=numbers,
    unisolated=numbers,
)


def turn(cause: str, **more: Any) -> dict[str, Any]:
    """A turn that dev took."""
    return {"cause": cause, "ack": {"consumer_agent_id": "dev"}, **more}


def said(kind: str, body: dict[str, Any], **more: Any) -> list[tuple[HonestySubject, HonestyTally]]:
    return list(honesty.count_fact(kind, body, **more))


def test_disputes_count_for_whoever_raised_them() -> None:
    about = {"agent_id": "dev", "check": "works"}
    assert list(honesty.count_fact("check.disputed", about)) == [(HonestySubject("dev"), HonestyTally(disputed=1))]
    for state, expected in (("upheld", HonestyTally(upheld=1)), ("dismissed", HonestyTally(dismissed=1))):
        assert list(honesty.count_fact("dispute.answered", {**about, "state": state})) == [
            (HonestySubject("dev"), expected)
        ]
    assert list(honesty.count_fact("dispute.answered", {**about, "state": "closed"})) == []


@pytest.mark.mends("F15")
@pytest.mark.parametrize(
    ("seen", "hidden", "expected"), [(True, False, 1), (False, False, 0), (True, True, 0), (None, False, 0)]
)
def test_what_passed_only_the_checks_that_its_agent_knew_is_counted(seen: Any, hidden: bool, expected: int) -> None:
    checks = [
        {"id": "s", "passed": hidden, "hidden": True},
        *([{"id": "v", "passed": seen}] if seen is not None else []),
    ]
    [(_, tally)] = said("turn.ended", turn("NOT_FULFILLED", checks=checks))
    assert tally.gamed == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"sandbox": "plain"}, 1),
        ({"sandbox": "bubblewrap", "checks": [{"isolated": True}, {"isolated": False}]}, 1),
        ({"sandbox": "landlock", "checks": [{"isolated": True}, {"isolated": None}]}, 0),
        ({}, 0),
    ],
)
def test_what_is_done_and_ran_without_a_sandbox_is_counted(more: dict[str, Any], expected: int) -> None:
    [(_, tally)] = said("turn.ended", turn("FULFILLED", **more))
    assert tally.unisolated == expected
    [(_, tally)] = said("turn.ended", turn("NOT_FULFILLED", **more))
    assert tally.unisolated == 0


@pytest.mark.parametrize(
    ("cause", "trust", "expected"),
    [
        ("FULFILLED", "executed", HonestyTally(turns=1, claims=1, proven=1)),
        ("FULFILLED", "observed", HonestyTally(turns=1, claims=1, proven=1)),
        ("FULFILLED", "claimed", HonestyTally(turns=1, claims=1, unproven=1)),
        ("FULFILLED", None, HonestyTally(turns=1, claims=1, unproven=1)),
        ("NOT_FULFILLED", None, HonestyTally(turns=1, claims=1, refuted=1, rounds=1)),
        ("REWORK_EXHAUSTED", None, HonestyTally(turns=1, claims=1, refuted=1)),
        ("GATE_UNMET", None, HonestyTally(turns=1)),
        ("CONFLICT", None, HonestyTally(turns=1)),
        ("FAILED_FOR_GOOD", None, HonestyTally(turns=1)),
        ("ABORTED", None, HonestyTally(turns=1)),
    ],
)
def test_a_turn_is_a_claim_when_it_was_decided_whether_it_is_done(
    cause: str, trust: str | None, expected: HonestyTally
) -> None:
    assert said("turn.ended", turn(cause, verdict={"trust": trust})) == [(HonestySubject("dev"), expected)]


def test_what_a_turn_took_counts_for_its_agent_and_its_model() -> None:
    usage = {"model": "m-1", "tokens": 7, "cost_usd": 0.5, "duration_s": 2.5}
    [(who, tally)] = said("turn.ended", turn("FULFILLED", usage=usage, verdict={"trust": "observed"}))
    assert who == HonestySubject("dev", "m-1")
    assert (tally.tokens, tally.cost_usd, tally.seconds) == (7, 0.5, 2.5)


@pytest.mark.parametrize("usage", [None, [], "much", {"model": 7, "cost_usd": -1, "duration_s": "long"}])
def test_nonsense_that_a_turn_tells_of_itself_counts_as_nothing(usage: Any) -> None:
    assert said("turn.ended", turn("ABORTED", usage=usage)) == [(HonestySubject("dev"), HonestyTally(turns=1))]


def test_a_turn_without_a_receipt_is_that_of_whoever_is_named() -> None:
    assert said("turn.ended", {"cause": "RETRY"}) == []
    assert said("turn.ended", {"cause": "RETRY"}, agent_id="dev") == [(HonestySubject("dev"), HonestyTally(turns=1))]


def test_what_is_refused_later_counts_against_its_maker() -> None:
    body = {"maker": "dev", "by": "reader"}
    assert said("rework.ordered", body, model="m") == [
        (HonestySubject("dev", "m"), HonestyTally(overturned=1, rounds=1))
    ]
    assert said("rework.exhausted", body) == [(HonestySubject("dev"), HonestyTally(overturned=1))]
    assert said("rework.ordered", {"by": "engine"}) == [], "the turn itself counted"
    assert said("evidence.stale", {"maker": "dev"}) == [(HonestySubject("dev"), HonestyTally(stale=1))]
    assert said("evidence.stale", {}) == []


def test_judgements_count_for_whoever_judged() -> None:
    body = {"validator": "reader", "inputs": {"a": {"accepted": True}, "b": {"accepted": False}}}
    assert said("inputs.judged", body) == [(HonestySubject("reader"), HonestyTally(judged=2))]
    assert said("inputs.judged", {**body, "model": "m"}) == [(HonestySubject("reader", "m"), HonestyTally(judged=2))]
    assert list(honesty.count_misled("engine", [("reader", "m"), ("other", ""), ("reader", "m")])) == [
        (HonestySubject("other"), HonestyTally(misled=1)),
        (HonestySubject("reader", "m"), HonestyTally(misled=1)),
    ]
    assert list(honesty.count_misled("reader", [("reader", "m")])) == [], "who refuses now has seen it itself"


@pytest.mark.mends("B3")
def test_who_gives_no_judgement_has_it_counted_against_it() -> None:
    inputs = {"a": {"accepted": True}, "b": {"accepted": True, "unusable": 2}}
    body = {"validator": "reader", "inputs": inputs}
    assert said("inputs.judged", body) == [(HonestySubject("reader"), HonestyTally(judged=1, unjudged=1))]
    assert HonestyTally(judged=1, unjudged=1).reliability == 0.5


def test_a_person_who_accepts_what_was_refused_overrules_whoever_refused_it() -> None:
    overruled = {"overrules": {"by": "reader", "consumer": "use"}}
    assert said("rework.accepted", overruled) == [(HonestySubject("reader"), HonestyTally(overruled=1))]
    overruled["overrules"]["model"] = "m"
    assert said("rework.accepted", overruled) == [(HonestySubject("reader", "m"), HonestyTally(overruled=1))]
    assert said("rework.accepted", {"overrules": {"by": "engine", "consumer": None}}) == []
    assert said("rework.accepted", {}) == []


@given(tallies, tallies, tallies)
def test_adding_up_in_any_order_gives_the_same(one: HonestyTally, two: HonestyTally, three: HonestyTally) -> None:
    left, right = one.plus(two).plus(three), three.plus(one).plus(two)
    assert left[:12] == right[:12]
    assert left == pytest.approx(right)
    assert one.plus(NOTHING) == one


@given(tallies)
def test_parts_are_parts_and_nothing_is_made_up_where_there_is_nothing(tally: HonestyTally) -> None:
    for part, of in ((tally.held, tally.claims), (tally.reliability, tally.judged + tally.unjudged)):
        assert (part is None) == (of == 0)
        assert part is None or 0 <= part <= 1
    assert (tally.cost_per_proven is None) == (tally.proven <= tally.overturned)
    told = tally.as_json()
    assert told["false_done"] == tally.refuted + tally.overturned


def test_what_held_is_what_was_neither_refuted_nor_overturned() -> None:
    tally = HonestyTally(claims=8, proven=6, refuted=2, overturned=2, cost_usd=2.0, judged=4, misled=1, overruled=1)
    assert (tally.held, tally.cost_per_proven, tally.reliability) == (0.5, 0.5, 0.5)


def test_numbers_are_written_as_prometheus_reads_them() -> None:
    text = metrics.render_metrics(
        [
            Metric("tasks", "Tasks.", "gauge", (Sample((("state", 'a "b"\\\n'), ("x", "\ud800")), 3),)),
            Metric("cost_total", "Cost.", "counter", (Sample((), 0.25), Sample((), 2.0))),
            Metric("none", "Nothing.", "gauge", ()),
        ]
    )
    assert text.splitlines() == [
        "# HELP agenttalk_tasks Tasks.",
        "# TYPE agenttalk_tasks gauge",
        r'agenttalk_tasks{state="a \"b\"\\\n",x="\\ud800"} 3',
        "# HELP agenttalk_cost_total Cost.",
        "# TYPE agenttalk_cost_total counter",
        "agenttalk_cost_total 0.25",
        "agenttalk_cost_total 2",
        "# HELP agenttalk_none Nothing.",
        "# TYPE agenttalk_none gauge",
    ]
