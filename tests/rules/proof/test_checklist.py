"""A promise as a list that people can read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.promise import AcceptanceCriterion
from agenttalk.rules.proof import checklist
from agenttalk.rules.proof.checklist import ChecklistItem, CheckSummary
from agenttalk.rules.text import verdict_words

TESTS = AcceptanceCriterion.model_validate(
    {"id": "tests", "description": "The tests pass", "evidenceRequired": ["run"]}
)
DONE = {"fulfilled": True, "trust": "observed", "unverified": [], "blockers": []}


def one(seen: list[CheckSummary], verdict: dict[str, Any] | None, *, stale: bool = False) -> ChecklistItem:
    [item] = checklist.build_checklist([TESTS], seen, verdict, stale=stale, ended_at="then")
    return item


def result(*, passed: bool = True, fresh: bool = True, trust: str = "executed", check: str = "run") -> CheckSummary:
    return CheckSummary(check, passed, fresh, trust, "engine", "now", "it ended with 1")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([result()], "proven"),
        ([result(fresh=False)], "stale"),
        ([result(passed=False)], "failed"),
        ([result(trust="claimed")], "claimed"),
        ([result(passed=False), result()], "proven"),
        ([result(fresh=False), result()], "proven"),
        ([result(trust="claimed"), result()], "proven"),
    ],
)
def test_a_line_stands_as_the_best_that_was_seen(seen: list[CheckSummary], expected: str) -> None:
    item = one(seen, DONE)
    assert item.standing == expected
    assert (item.by, item.at) == ("engine", "now")


@pytest.mark.parametrize(
    ("verdict", "stale", "expected"),
    [
        (None, False, ("open", None)),
        (DONE, False, ("proven", "observed")),
        (DONE, True, ("stale", "observed")),
        ({**DONE, "trust": "claimed"}, False, ("claimed", "claimed")),
        ({**DONE, "trust": None}, False, ("claimed", "claimed")),
        ({**DONE, "unverified": ["criterion:tests"]}, False, ("claimed", "claimed")),
        ({**DONE, "unverified": ["run"]}, False, ("claimed", "claimed")),
        ({"fulfilled": False, "blockers": [verdict_words.NOT_SHOWN(name="tests", whys="")]}, False, ("failed", None)),
        ({"fulfilled": False, "blockers": [verdict_words.NOT_SHOWN(name="other", whys="")]}, False, ("open", None)),
        ({"fulfilled": False}, False, ("open", None)),
    ],
)
def test_without_a_result_of_its_own_a_line_stands_as_the_verdict_says(
    verdict: dict[str, Any] | None, stale: bool, expected: tuple[str, str | None]
) -> None:
    item = one([result(check="another")], verdict, stale=stale)
    assert (item.standing, item.trust) == expected
    assert (item.at == "then") == (item.standing in {"proven", "stale"})


def test_what_a_person_accepted_is_by_that_person() -> None:
    assert one([], {**DONE, "accepted_by": "ada"}).by == "ada"


seen_ones = st.builds(
    CheckSummary,
    st.sampled_from(["run", "another"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["claimed", "attested", "observed", "executed", "confirmed"]),
    st.just("engine"),
    st.just("now"),
)


@given(st.lists(seen_ones, max_size=4), st.booleans(), st.sampled_from([None, "claimed", "observed", "executed"]))
def test_nothing_is_shown_as_proven_that_only_somebody_claimed(
    seen: list[CheckSummary], stale: bool, trust: str | None
) -> None:
    verdict = {"fulfilled": trust is not None, "trust": trust}
    item = one(seen, verdict, stale=stale)
    own = [each for each in seen if each.id == "run"]
    if item.standing == "proven" and own:
        assert any(each.passed and each.fresh and each.trust != "claimed" for each in own)
    elif item.standing == "proven":
        assert trust not in {None, "claimed"}
        assert not stale


CRITERION = AcceptanceCriterion.model_validate(
    {"id": "AC-1", "description": "the tests pass", "evidenceRequired": ["tests"]}
)


def seen(*, passed: bool = True, fresh: bool = True, trust: str = "executed", at: str = "2026") -> CheckSummary:
    return CheckSummary("tests", passed, fresh, trust, "engine", at, "ran")


def line_of(found: list[CheckSummary], verdict: dict[str, Any] | None = None, *, stale: bool = False) -> ChecklistItem:
    [item] = checklist.build_checklist([CRITERION], found, verdict, stale=stale, ended_at="2027")
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
    item = line_of([found])
    assert (item.standing, item.by, item.at, item.detail) == (standing, "engine", "2026", "ran")
    assert item.trust == found.trust


def test_the_best_evidence_counts_and_that_of_others_does_not() -> None:
    other = CheckSummary("lint", True, True, "executed", "engine", "2030")
    assert line_of([seen(passed=False, at="2029"), seen(), seen(trust="claimed"), other]).standing == "proven"
    assert line_of([other]).standing == "open"


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
        ({"fulfilled": False, "blockers": [verdict_words.NOT_SHOWN(name="AC-1", whys="")]}, False, "failed", None),
        ({"fulfilled": False, "blockers": [verdict_words.NOT_SHOWN(name="AC-2", whys="")]}, False, "open", None),
        ({"fulfilled": False}, False, "open", None),
    ],
)
def test_without_evidence_of_its_own_a_line_says_what_the_verdict_says(
    verdict: dict[str, Any] | None, stale: bool, standing: str, trust: str | None
) -> None:
    item = line_of([], verdict, stale=stale)
    assert (item.standing, item.trust) == (standing, trust)
    assert (item.by, item.at) == (("engine", "2027") if standing in {"proven", "stale"} else (None, None))


def test_who_accepted_it_is_named() -> None:
    assert line_of([], {"fulfilled": True, "trust": "confirmed", "accepted_by": "ada"}).by == "ada"


def test_a_criterion_without_evidence_failed_where_a_reason_is_that_it_is_not_shown() -> None:
    def standing(blocker: str) -> str:
        return one([], {"fulfilled": False, "trust": None, "unverified": [], "blockers": [blocker]}).standing

    assert standing(verdict_words.NOT_SHOWN(name="tests", whys=["no evidence"])) == "failed"
    assert standing(verdict_words.NOT_SHOWN(name="other", whys=["no evidence"])) == "open"
    assert standing(verdict_words.UNKNOWN_CRITERION(name="tests")) == "open"
    assert standing("criterion 'tests' is not shown: the words of an agent") == "open"
