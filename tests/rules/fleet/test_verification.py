"""What verifiers sign, and what the engine makes of their results."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts import promise
from agenttalk.contracts.core import wire
from agenttalk.contracts.worker import CheckGround, CheckOrder, OrderedTree, Verification, VerifiedResult
from agenttalk.rules.fleet.verification import (
    hash_order,
    hash_seals,
    hash_subject,
    make_question,
    make_statement,
    read_crossed,
    read_outcomes,
    read_result,
    refuse_result,
    review_result,
    settle_double,
    write_crossed,
    write_outcomes,
    write_result,
)
from agenttalk.rules.fleet.verify_policy import VerifyPolicy
from agenttalk.rules.proof.evidence import (
    CheckResult,
    Fingerprint,
    Screenshot,
    VerifierSeal,
    is_about_work,
    is_cacheable,
)
from agenttalk.rules.suites.crossing import CrossedTests
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text import check_words

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = promise.RunCheck(id="c", kind="run", run="make test")
SUITE = promise.TestsCheck(id="c", kind="tests", run="pytest", min_tests=1)
GREEN = CheckResult("c", True, "executed", "", "2 tests passed", NOW, NOW, Fingerprint(tree="t"), exit_code=0, by="one")
NAMES = st.sampled_from(["a", "b", "c"])
OUTCOMES = st.builds(
    Outcomes,
    *(st.frozensets(NAMES),) * 4,
    st.booleans(),
    st.frozensets(st.tuples(NAMES, NAMES), max_size=2),
)


def order(**keys: Any) -> CheckOrder:
    about: dict[str, Any] = {
        "subject": hash_subject("default", "p", "t", 1),
        "check": RUN,
        "ground": CheckGround(tree="tree"),
        "tree": OrderedTree(ref="refs/heads/x", commit="c" * 40, tree="tree"),
    }
    return CheckOrder(**{**about, **keys})


def found(**keys: Any) -> Verification:
    about: dict[str, Any] = {
        "result": VerifiedResult(passed=True), "machine": "m", "sandbox": "landlock", "signature": "s"
    }  # fmt: skip
    return Verification(**{**about, **keys})


def test_a_signature_is_about_the_lease_the_attempt_the_question_the_tree_and_the_answer() -> None:
    statement = make_statement("l", "w", order(), found())
    assert statement == make_statement("l", "w", CheckOrder.from_json(order().as_json()), found(signature="other"))
    others = [
        make_statement("l2", "w", order(), found()),
        make_statement("l", "w2", order(), found()),
        make_statement("l", "w", order(subject=hash_subject("default", "p", "t", 2)), found()),
        make_statement("l", "w", order(check=SUITE), found()),
        make_statement("l", "w", order(tree=OrderedTree(ref="refs/heads/x", commit="c" * 40, tree="u")), found()),
        make_statement("l", "w", order(tree=None), found()),
        make_statement("l", "w", order(ground=CheckGround(tree="tree", protected=("x",))), found()),
        make_statement("l", "w", order(network=True), found()),
        make_statement("l", "w", order(), found(result=VerifiedResult(passed=False))),
        make_statement("l", "w", order(), found(machine="m2")),
        make_statement("l", "w", order(), found(sandbox="bubblewrap")),
    ]

    assert len({statement, *others}) == len(others) + 1
    assert hash_order(order()) != hash_order(order(tree=None))


@given(st.none() | OUTCOMES)
def test_the_ends_of_tests_arrive_as_they_were(tests: Outcomes | None) -> None:
    assert read_outcomes(write_outcomes(tests)) == tests


def test_results_arrive_as_they_were() -> None:
    crossed = CrossedTests(frozenset({"a"}), frozenset({"b"}), {"b": "no"})
    assert read_crossed(write_crossed(crossed)) == crossed
    assert read_crossed(write_crossed(None)) is None
    result = replace(
        GREEN,
        detail=check_words.HIDDEN_CHECK(),
        tests=Outcomes(frozenset({"a"})),
        crossed=crossed,
        isolated=True,
        source="channel",
        flaky=("a",),
        pictures=(Screenshot("p", wire.sha256(b"png"), 3, b"png"),),
    )
    blank = replace(GREEN, passed=False, reason="fault", detail="", exit_code=None)
    told = VerifiedResult.read(write_result(result).as_json())
    assert read_result(blank, told) == result
    [picture] = told.pictures
    for keys in ({"content": "!"}, {"content": "cG5n", "size": 4}):
        other = told.model_copy(update={"pictures": (picture.model_copy(update=keys),)})
        assert read_result(blank, other).pictures == ()


def test_words_that_the_engine_does_not_know_prove_nothing() -> None:
    for told in (VerifiedResult(passed=True, source="rumour"), VerifiedResult(passed=True, reason="splendid")):
        read = read_result(GREEN, told)
        assert (read.passed, read.reason, read.source) == (False, "fault", "")


@pytest.mark.parametrize(
    ("check", "keys", "base", "reason"),
    [
        (RUN, {"exit_code": 1}, None, "exit_code"),
        (RUN, {"exit_code": None}, None, "exit_code"),
        (RUN, {"reason": "timeout"}, None, "timeout"),
        (RUN, {"tests": Outcomes(failed=frozenset({"a"})), "source": "channel"}, None, "tests_failed"),
        (SUITE, {"tests": None}, None, "tests_none"),
        (SUITE, {"tests": Outcomes()}, None, "tests_none"),
        (SUITE, {"tests": Outcomes(frozenset({"a"})), "exit_code": 3}, None, "report_contradicts"),
        (SUITE, {"tests": Outcomes(frozenset({"a"}))}, Outcomes(frozenset({"a", "b"})), "tests_vanished"),
        (SUITE, {"tests": Outcomes(frozenset({"a"}), skipped=frozenset({"b"}))}, Outcomes(frozenset({"b"})),
         "tests_skipped"),
        (SUITE.model_copy(update={"min_tests": None}), {"exit_code": 2}, None, "tests_none"),
    ],
)  # fmt: skip
def test_a_result_that_contradicts_itself_has_not_passed(
    check: Any, keys: dict[str, Any], base: Outcomes | None, reason: str
) -> None:
    reviewed = review_result(check, replace(GREEN, **keys), base, isolated_only=False)
    assert (reviewed.passed, reviewed.reason) == (False, reason)


def test_a_result_without_the_sandbox_that_was_asked_for_has_not_passed() -> None:
    assert review_result(RUN, replace(GREEN, isolated=False), None, isolated_only=True).reason == "not_isolated"
    assert review_result(RUN, replace(GREEN, isolated=True), None, isolated_only=True).passed
    assert review_result(RUN, replace(GREEN, isolated=False), None, isolated_only=False).passed


def test_an_honest_result_stays_as_it_is() -> None:
    tests, red = Outcomes(frozenset({"a"})), Outcomes(failed=frozenset({"a"}))
    honest: list[tuple[Any, CheckResult]] = [
        (RUN, GREEN),
        (RUN, replace(GREEN, tests=red, source="exit-code only")),  # its command says that this does not matter
        (SUITE, replace(GREEN, tests=tests)),
        (SUITE, replace(GREEN, tests=tests, flaky=("a",), exit_code=1)),
        (SUITE.model_copy(update={"min_tests": None}), replace(GREEN, source="exit-code only")),
        (promise.CasesCheck(id="c", kind="cases", run="./add"), replace(GREEN, exit_code=None)),
    ]
    for check, result in honest:
        assert review_result(check, result, None, isolated_only=False) is result
    failed = replace(GREEN, passed=False, reason="exit_code", exit_code=1)
    assert review_result(RUN, failed, None, isolated_only=True) is failed


def test_two_verifiers_have_to_end_alike() -> None:
    seals = [VerifierSeal(name, name, "m", "landlock", "k", "st", "si") for name in ("one", "two")]
    first, second = replace(GREEN, seals=(seals[0],)), replace(GREEN, by="two", seals=(seals[1],))
    agreed = settle_double(first, second)
    assert (agreed.passed, agreed.seals) == (True, tuple(seals))
    red = replace(second, passed=False, reason="exit_code", detail="exit code 1")
    for one, other in ((first, red), (red, first)):
        differs = settle_double(one, other)
        assert (differs.passed, differs.reason, len(differs.seals)) == (False, "verifiers_differ", 2)
        assert "one saw it pass" in differs.detail
        assert "two saw it fail (exit code 1)" in differs.detail
        assert not is_cacheable(differs)
        assert not is_about_work(differs)
        question = make_question(differs)
        assert question is not None
        assert (question.id, "two saw it fail" in question.question) == ("verifiers-c", True)
        assert hash_seals(differs) != hash_seals(agreed) or one is first
    assert settle_double(red, red).reason == "exit_code"
    assert make_question(agreed) is None
    assert not refuse_result(agreed).passed


def test_who_makes_the_checks_is_part_of_what_a_result_rests_on() -> None:
    assert VerifyPolicy().place == ""
    assert len({VerifyPolicy("a").place, VerifyPolicy("b").place, VerifyPolicy("a", double=True).place, ""}) == 4


def test_people_read_who_made_a_check() -> None:
    seal = VerifierSeal("w1", "one", "m1", "bubblewrap", "abcdefghijklmnop", "st", "si")
    told = replace(GREEN, seals=(seal,)).to_evidence(fresh=True).detail
    assert "made by the verifier one on the machine m1 (bubblewrap), signed with the key abcdefghijkl" in told
