"""Which report of a suite counts, and what follows from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from agenttalk.contracts import promise
from agenttalk.rules.checks import suite_results
from agenttalk.rules.checks.check_results import ProgramExit
from agenttalk.rules.checks.suite_results import SuiteFacts, SuiteJudgement
from agenttalk.rules.proof.evidence import CheckFinding, CheckResult, Fingerprint, ResultSource
from agenttalk.rules.suites.channel import SuiteSession
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text import check_words

AnySuite = promise.RunCheck | promise.TestsCheck
GREEN, RED = ProgramExit("finished", 0), ProgramExit("finished", 1)
PLAIN, INSIDE = "pytest -q", "make test"


def run(command: str = PLAIN) -> promise.RunCheck:
    return promise.RunCheck.model_validate({"id": "c", "kind": "run", "run": command})


def suite(command: str = PLAIN, **fields: Any) -> promise.TestsCheck:
    return promise.TestsCheck.model_validate({"id": "c", "kind": "tests", "run": command, **fields})


def outcomes(passed: str = "", failed: str = "", skipped: str = "", **fields: Any) -> Outcomes:
    return Outcomes(frozenset(passed), frozenset(failed), frozenset(skipped), **fields)


def session(
    passed: str = "a", failed: str = "", skipped: str = "", code: int | None = 0, **fields: Any
) -> SuiteSession:
    return SuiteSession("pytest", outcomes(passed, failed, skipped), code=code, **fields)


CUT = session(code=None)
PRINTED = SuiteSession("cargo", outcomes("a"), code=0)
SOURCES: tuple[tuple[AnySuite, SuiteFacts, ResultSource], ...] = (
    (suite(), SuiteFacts(GREEN), "channel"),
    (run(), SuiteFacts(GREEN), "channel"),
    (suite(), SuiteFacts(GREEN, (CUT,)), "channel"),
    (run(), SuiteFacts(GREEN, base_source="exit-code only"), "exit-code only"),
    # A runner that cannot report even before the work
    (suite(), SuiteFacts(GREEN, before_work=True), "report"),
    (suite(junit="r.xml"), SuiteFacts(GREEN, (CUT,), before_work=True), "report"),
    (suite(), SuiteFacts(GREEN, (CUT,), before_work=True), "exit-code only"),
    (run(), SuiteFacts(GREEN, before_work=True), "exit-code only"),
    (run(), SuiteFacts(GREEN, (session(),), before_work=True), "channel"),
    # A runner somewhere inside a command
    (run(INSIDE), SuiteFacts(GREEN), "exit-code only"),
    (run(INSIDE), SuiteFacts(GREEN, (session(),)), "channel"),
    (run(INSIDE), SuiteFacts(GREEN, (session(), session("", "b", code=1))), "exit-code only"),
    (run(INSIDE), SuiteFacts(RED, (session(), session("", "b", code=1))), "channel"),
    (run(INSIDE), SuiteFacts(GREEN, (session(), CUT)), "exit-code only"),
    (run(INSIDE), SuiteFacts(GREEN, (), base_source="channel"), "channel"),
    (suite(INSIDE), SuiteFacts(GREEN), "report"),
    # Tests that are seen only by what is printed
    (run("cargo test"), SuiteFacts(GREEN, (PRINTED,)), "output"),
    (run(INSIDE), SuiteFacts(GREEN, (PRINTED, session())), "output"),
)


@pytest.mark.parametrize(("check", "facts", "source"), SOURCES)
def test_the_best_report_that_there_may_be_counts(check: AnySuite, facts: SuiteFacts, source: ResultSource) -> None:
    assert suite_results.choose_source(check, facts) == source


FAULTS: tuple[tuple[AnySuite, SuiteFacts, str], ...] = (
    (suite(), SuiteFacts(GREEN), "channel_silent"),
    (run(INSIDE), SuiteFacts(GREEN, base_source="channel"), "channel_silent"),
    (suite(INSIDE), SuiteFacts(GREEN), "report_missing"),
    (run("cargo test"), SuiteFacts(GREEN, base_source="output"), "channel_silent"),
    (run(), SuiteFacts(RED, (session(),)), "exit_code"),
    (run(), SuiteFacts(ProgramExit("timeout", None), (CUT,)), "timeout"),
    (suite(), SuiteFacts(GREEN, (CUT,)), "channel_cut"),
    (run(), SuiteFacts(GREEN, (session(code=None, pending=frozenset("b")),)), "channel_cut"),
    (suite(), SuiteFacts(GREEN, (session(pending=frozenset("b")),)), "tests_unreported"),
    (suite(), SuiteFacts(GREEN, (session(unrun=frozenset("b")),)), "tests_unreported"),
    (suite(), SuiteFacts(RED, (session("a", "b", code=1, unrun=frozenset("c")),)), "tests_failed"),
    (suite(), SuiteFacts(GREEN, (session("a", "b", hidden=frozenset("b")),)), "harness_tampered"),
    (
        suite(),
        SuiteFacts(GREEN, (session(fault=check_words.CHANNEL_GARBLED(why="it is too long")),)),
        "channel_garbled",
    ),
    (suite(), SuiteFacts(GREEN, (session(code=1),)), "report_contradicts"),
    (run(), SuiteFacts(GREEN, (session("a", "b", code=1),)), "tests_failed"),
    (suite(), SuiteFacts(GREEN, (session("", "", "a"),)), "tests_none"),
    (suite(min_tests=2), SuiteFacts(GREEN, (session(),)), "tests_none"),
    (run(), SuiteFacts(GREEN, (session(""),)), "tests_none"),
    (suite(INSIDE, min_tests=2), SuiteFacts(GREEN, base_source="exit-code only"), "report_missing"),
    (run(), SuiteFacts(GREEN, (session(),), base=outcomes("ab")), "tests_vanished"),
    (run(), SuiteFacts(GREEN, (session("b", "", "a"),), base=outcomes("a")), "tests_skipped"),
)


@pytest.mark.parametrize(("check", "facts", "reason"), FAULTS)
def test_each_fault_of_a_report_has_its_reason(check: AnySuite, facts: SuiteFacts, reason: str) -> None:
    judged = suite_results.judge_suite(check, facts)
    assert (judged.finding.passed, judged.finding.reason) == (False, reason)
    assert judged.finding.detail


def test_whole_reports_pass() -> None:
    assert suite_results.judge_suite(suite(), SuiteFacts(GREEN, (session("ab"),))).finding.detail == "2 passed"
    only_skipped = suite_results.judge_suite(run(), SuiteFacts(GREEN, (session("", "", "a"),)))
    assert (only_skipped.finding.passed, only_skipped.source) == (True, "channel")
    alone = suite_results.judge_suite(run(INSIDE), SuiteFacts(GREEN))
    assert (alone.finding.passed, alone.source, alone.tests) == (True, "exit-code only", None)
    ended = suite_results.judge_suite(run(), SuiteFacts(GREEN, (CUT,), before_work=True))
    assert (ended.finding.passed, ended.source, ended.tests) == (True, "exit-code only", outcomes("a"))
    cut = session(code=None, pending=frozenset("b"))
    assert suite_results.judge_suite(run(), SuiteFacts(GREEN, (cut,), before_work=True)).tests is None


def test_a_report_beside_a_runner_inside_a_command_adds_what_that_does_not_know() -> None:
    check = suite(INSIDE, junit="r.xml")
    judged = suite_results.judge_suite(check, SuiteFacts(GREEN, (session("a"),), outcomes("b")))
    assert judged.tests == outcomes("ab")
    judged = suite_results.judge_suite(check, SuiteFacts(GREEN, (session("a"),), outcomes("", "a")))
    assert judged.finding.reason == "tests_failed"
    plain = suite_results.judge_suite(suite(junit="r.xml"), SuiteFacts(GREEN, (session("a"),), outcomes("b")))
    assert plain.tests == outcomes("a")


def test_a_skip_for_another_reason_than_before_does_not_pass() -> None:
    base = outcomes("b", skipped="a", whys=frozenset({("a", "needs port 80")}))
    for why, passed in (("needs port 81", True), ("the work has no time", False)):
        now = SuiteSession("pytest", outcomes("b", skipped="a", whys=frozenset({("a", why)})), code=0)
        finding = suite_results.judge_suite(suite(), SuiteFacts(GREEN, (now,), base=base)).finding
        assert (finding.passed, finding.reason) == (passed, "" if passed else "tests_skipped")


def test_a_result_before_the_work_shows_how_results_come() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    silent = CheckResult("c", False, "executed", "exit_code", "", at, at, Fingerprint(), source="exit-code only")
    assert suite_results.find_settled_source(None) == ""
    assert suite_results.find_settled_source(silent) == ""
    assert suite_results.find_settled_source(replace(silent, passed=True)) == "exit-code only"
    assert suite_results.find_settled_source(replace(silent, source="channel", tests=outcomes("a"))) == "channel"


def test_two_runs_that_pass_must_have_ended_alike() -> None:
    passed, failed = CheckFinding(True, "", "2 passed"), CheckFinding(False, "tests_failed", "1 failed")
    both, one = Outcomes(passed=frozenset("ab")), Outcomes(passed=frozenset("a"), skipped=frozenset("b"))

    def judge(second: CheckFinding, tests: Outcomes | None) -> CheckFinding:
        return suite_results.judge_difference(passed, both, SuiteJudgement(second, "channel", tests))

    assert judge(passed, both) == judge(passed, None) == passed
    assert (judge(passed, one).reason, "'b'" in judge(passed, one).detail) == ("differs", True)
    assert "the check ended differently" in judge(failed, None).detail
    assert "1 failed" in judge(failed, one).detail
    assert not judge(CheckFinding(False, "timeout"), both).passed


def test_a_runner_that_crashed_before_the_work_settles_nothing() -> None:
    judged = suite_results.judge_suite(suite(), SuiteFacts(RED, (session(code=None),), before_work=True))
    assert (judged.finding.passed, judged.tests) == (False, None)
