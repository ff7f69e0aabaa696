"""Gates: what the five checkpoints decide, and that nothing found later makes a denial an allowance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.plan import PlanLimits
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.budgets.aborts import Abort, find_conditions, stops_run
from agenttalk.rules.budgets.budgets import BudgetLimit
from agenttalk.rules.proof import checkpoints, done
from agenttalk.rules.proof.checkpoints import CHECKPOINTS, CheckpointDecision, decide, latest_results

SEVERITIES: tuple[Any, ...] = ("warning", "soft-deny", "hard-deny")
findings = st.lists(st.tuples(st.sampled_from(SEVERITIES), st.sampled_from("abcd")), max_size=6)
words = st.frozensets(st.sampled_from("abcd"))


def promise(**more: Any) -> CompletionPromise:
    said = {
        "id": "cp-1-00ff",
        "objective": "It works",
        "acceptance": [{"id": "a", "description": "d", "evidenceRequired": ["e"]}],
        **more,
    }
    return CompletionPromise.read(said)


@given(findings, words)
def test_what_is_found_besides_never_turns_a_denial_into_an_allowance(
    found: list[Any], overridden: frozenset[str]
) -> None:
    before = decide("pre-act", found, overridden=overridden)
    for more in SEVERITIES:
        after = decide("pre-act", [*found, (more, "e")], overridden=overridden)
        assert before.allowed or not after.allowed
        assert after.allowed == (before.allowed and more == "warning")


@given(findings, words)
def test_an_override_holds_for_exactly_the_reasons_that_it_names(found: list[Any], overridden: frozenset[str]) -> None:
    decision = decide("pre-act", found, overridden=overridden)
    hard = any(severity == "hard-deny" for severity, _ in found)
    soft = any(severity == "soft-deny" and reason not in overridden for severity, reason in found)
    assert decision.allowed == (not hard and not soft)
    assert decision.severity == ("hard-deny" if hard else "soft-deny" if soft else "warning" if found else "")
    assert bool(decision.reasons) == bool(found)


@pytest.mark.shows("P08")
@given(st.lists(st.tuples(st.sampled_from(CHECKPOINTS), st.sampled_from(("", *SEVERITIES))), max_size=8))
def test_the_latest_decision_of_a_checkpoint_counts(history: list[Any]) -> None:
    decisions = [
        CheckpointDecision(checkpoint, severity, ("r",), f"t{at}") for at, (checkpoint, severity) in enumerate(history)
    ]
    last = {each.checkpoint: each for each in decisions}
    found = latest_results(decisions)
    assert {each.checkpoint: each.trace_id for each in found} == {name: each.trace_id for name, each in last.items()}
    for checkpoint in CHECKPOINTS:
        asked = promise(doneWhen=[{"type": "gate-passed", "target": checkpoint}])
        seen = [done.Evidence("e", True, True, "observed", "engine", "")]
        allowed = checkpoint in last and last[checkpoint].allowed
        assert done.decide(asked, seen, found).fulfilled == allowed


def test_a_decision_is_told_with_its_trace() -> None:
    told = decide("pre-verify", [("soft-deny", "why"), ("warning", "hm")], trace_id="lease_1:pre-verify").as_json()
    assert told == {
        "checkpoint": "pre-verify",
        "allowed": False,
        "severity": "soft-deny",
        "reasons": ["why"],
        "trace_id": "lease_1:pre-verify",
    }
    again = decide("pre-act", [("soft-deny", "why")], overridden={"why"})
    assert (again.allowed, again.severity, again.reasons) == (True, "warning", ("overridden: why",))


@pytest.mark.shows("P04", "P05")
@pytest.mark.parametrize(
    ("said", "severity", "words"),
    [
        ({}, "", ""),
        ({"abortWhen": []}, "warning", "abortWhen"),
        ({"allowedScope": ["a"], "disallowedScope": ["a"]}, "soft-deny", "disallowedScope"),
        ({"objective": " "}, "hard-deny", "objective"),
        ({"budget": {"cost_usd": 0}}, "hard-deny", "budget.cost_usd"),
        ({"budget": {"tokens": 500}}, "warning", "more than the plan's budget of 100 tokens"),
        ({"budget": {"seconds": 500}}, "", ""),
    ],
)
def test_a_promise_is_looked_at_before_the_plan(said: dict[str, Any], severity: str, words: str) -> None:
    limits = PlanLimits(tokens=100)
    decision = decide("pre-plan", checkpoints.check_promise(promise(**said), limits))
    assert (decision.severity, decision.allowed) == (severity, severity in {"", "warning"})
    assert words in "; ".join(decision.reasons)


def test_a_plan_is_looked_at_as_a_whole() -> None:
    assert decide("pre-plan", checkpoints.check_plan()).severity == ""
    found = decide("pre-plan", checkpoints.check_plan(faults=["a cycle"], plan=PlanLimits(cost_usd=0)))
    assert (found.severity, len(found.reasons)) == ("hard-deny", 2)


FINE: dict[str, Any] = {"current": True, "lost_inputs": (), "used_up": (), "lease_free": True}


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        ({}, ""),
        ({"current": False}, "hard-deny"),
        ({"lease_free": False}, "hard-deny"),
        ({"lost_inputs": ["text"]}, "soft-deny"),
        ({"used_up": [BudgetLimit("plan", "tokens", 5)]}, "soft-deny"),
        ({"used_up": [BudgetLimit("day", "cost_usd", 5)]}, "soft-deny"),
        ({"used_up": [BudgetLimit("task", "tokens", 5)]}, "hard-deny"),
    ],
)
def test_a_turn_begins_only_when_everything_is_fine(facts: dict[str, Any], severity: str) -> None:
    assert decide("pre-act", checkpoints.check_start(**{**FINE, **facts})).severity == severity


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        ({}, ""),
        ({"missing": ["x.md"]}, "soft-deny"),
        ({"breach": ["a"]}, "hard-deny"),
        ({"breach": ["a"], "breach_stops": False}, "soft-deny"),
        ({"abort": Abort("stuck", "")}, "hard-deny"),
        ({"abort": Abort("budget-exhausted", "", pauses=True)}, "soft-deny"),
    ],
)
def test_what_a_turn_did_is_looked_at(facts: dict[str, Any], severity: str) -> None:
    assert decide("post-act", checkpoints.check_turn(**facts)).severity == severity


@pytest.mark.parametrize(
    ("dead", "refused", "severity"), [(True, "", ""), (False, "", "hard-deny"), (True, "a device", "soft-deny")]
)
def test_nothing_is_verified_that_somebody_may_still_change(dead: bool, refused: str, severity: str) -> None:
    assert decide("pre-verify", checkpoints.check_verifiable(tree_dead=dead, refused=refused)).severity == severity


def test_nothing_is_shipped_that_anything_speaks_against() -> None:
    assert decide("pre-ship", checkpoints.check_shippable([])).allowed
    assert decide("pre-ship", checkpoints.check_shippable(["no smoke test"])).severity == "hard-deny"


@pytest.mark.shows("P12")
@pytest.mark.parametrize(
    ("named_ones", "kind", "budget", "stops"),
    [
        (None, "unsafe", None, True),
        ([], "unsafe", None, True),
        ([{"type": "stuck"}], "unsafe", None, False),
        ([{"type": "stuck"}], "stuck", None, True),
        ([{"type": "stuck"}], "user-aborted", None, True),
        ([{"type": "budget-exhausted"}], "budget-exhausted", "tokens", True),
        ([{"type": "budget-exhausted", "target": "*"}], "budget-exhausted", "tokens", True),
        ([{"type": "budget-exhausted", "target": "cost"}], "budget-exhausted", "tokens", False),
        ([{"type": "budget-exhausted", "target": "cost"}], "budget-exhausted", "cost_usd", True),
    ],
)
def test_only_what_a_promise_names_stops_it_and_a_person_always_can(
    named_ones: Any,
    kind: Any,
    budget: str | None,
    stops: bool,
) -> None:
    asked = None if named_ones is None else promise(abortWhen=named_ones)
    assert stops_run(asked, kind, budget=budget) is stops


def test_why_something_stops_is_said_in_words() -> None:
    assert (str(Abort("stuck", "20 times")), str(Abort("user-aborted", ""))) == ("stuck: 20 times", "user-aborted")
    assert find_conditions(None, "stuck") == ()
    assert (
        str(checkpoints.make_drift_abort(["a", "b"])) == "scope-drift: it changed a, b, which its scope does not allow"
    )


@pytest.mark.mends("A7")
@pytest.mark.parametrize(
    ("acts", "before", "hidden", "ends"),
    [
        (True, False, False, False),
        (True, True, False, True),
        (True, False, True, True),
        (False, True, True, False),
    ],
)
def test_leaving_the_scope_ends_a_task_only_again_or_unseen(acts: bool, before: bool, hidden: bool, ends: bool) -> None:
    assert checkpoints.is_final_breach(acts=acts, before=before, hidden=hidden) is ends
