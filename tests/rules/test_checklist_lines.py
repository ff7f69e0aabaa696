"""A promise as a list: what is proven, claimed, stale, failed or open, and by whom."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.promise import AcceptanceCriterion
from agenttalk.rules.proof import checklist
from agenttalk.rules.proof.checklist import ChecklistItem, CheckSummary

TESTS = AcceptanceCriterion.model_validate(
    {"id": "AC-1", "description": "the tests pass", "evidenceRequired": ["tests"]}
)


def seen(*, passed: bool = True, fresh: bool = True, trust: str = "executed", at: str = "2026") -> CheckSummary:
    return CheckSummary("tests", passed, fresh, trust, "engine", at, "ran")


def one(found: list[CheckSummary], verdict: dict[str, Any] | None = None, *, stale: bool = False) -> ChecklistItem:
    [item] = checklist.build_checklist([TESTS], found, verdict, stale=stale, ended_at="2027")
    assert (item.id, item.description, item.wants) == ("AC-1", "the tests pass", ("tests",))
    return item


@pytest.mark.parametrize(
    ("found", "standing"),
    [
        (seen(), "proven"),
        (seen(fresh=False), "stale"),
        (seen(trust="claimed"), "claimed"),
        (seen(passed=False), "failed"),
        (seen(passed=False, fresh=False), "failed"),
    ],
)
def test_a_line_says_what_its_evidence_is_worth(found: CheckSummary, standing: str) -> None:
    item = one([found])
    assert (item.standing, item.by, item.at, item.detail) == (standing, "engine", "2026", "ran")
    assert item.trust == found.trust


def test_the_best_evidence_counts_and_that_of_others_does_not() -> None:
    other = CheckSummary("lint", True, True, "executed", "engine", "2030")
    assert one([seen(passed=False, at="2029"), seen(), seen(trust="claimed"), other]).standing == "proven"
    assert one([other]).standing == "open"


@pytest.mark.parametrize(
    ("verdict", "stale", "standing", "trust"),
    [
        (None, False, "open", None),
        ({"fulfilled": True, "trust": "observed"}, False, "proven", "observed"),
        ({"fulfilled": True, "trust": "observed"}, True, "stale", "observed"),
        ({"fulfilled": True, "trust": "claimed"}, False, "claimed", "claimed"),
        ({"fulfilled": True, "trust": None}, False, "claimed", "claimed"),
        ({"fulfilled": True, "trust": "observed", "unverified": ["criterion:AC-1"]}, False, "claimed", "claimed"),
        ({"fulfilled": True, "trust": "observed", "unverified": ["tests"]}, False, "claimed", "claimed"),
        ({"fulfilled": False, "blockers": ["criterion 'AC-1' is not met"]}, False, "failed", None),
        ({"fulfilled": False, "blockers": ["criterion 'AC-2' is not met"]}, False, "open", None),
        ({"fulfilled": False}, False, "open", None),
    ],
)
def test_without_evidence_of_its_own_a_line_says_what_the_verdict_says(
    verdict: dict[str, Any] | None, stale: bool, standing: str, trust: str | None
) -> None:
    item = one([], verdict, stale=stale)
    assert (item.standing, item.trust) == (standing, trust)
    assert (item.by, item.at) == (("engine", "2027") if standing in {"proven", "stale"} else (None, None))


def test_who_accepted_it_is_named() -> None:
    assert one([], {"fulfilled": True, "trust": "confirmed", "accepted_by": "ada"}).by == "ada"
