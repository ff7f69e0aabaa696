"""Whether a check passed, from what was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts import promise as contracts
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.checks import check_results, suite_results
from agenttalk.rules.checks.check_results import (
    ExitKind,
    FileFacts,
    GitFacts,
    HttpAnswer,
    ProgramExit,
    StoredOutput,
)
from agenttalk.rules.checks.suite_results import SuiteFacts
from agenttalk.rules.proof.evidence import CheckFinding, Confirmation
from agenttalk.rules.suites.outcomes import Outcomes, UnreadableReport

GREEN = ProgramExit("finished", 0)
RED = ProgramExit("finished", 1)
DIGEST = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32


def check(kind: str, **fields: Any) -> Any:
    body = {"id": "cp-1-abcd", "objective": "o", "acceptance": [], "checks": [{"id": "c", "kind": kind, **fields}]}
    return CompletionPromise.read(body).checks[0]


def suite(**fields: Any) -> contracts.TestsCheck:
    found = check("tests", **{"run": "./suite", "junit": "r.xml", **fields})
    assert isinstance(found, contracts.TestsCheck)
    return found


def outcomes(passed: str = "", failed: str = "", skipped: str = "", **fields: Any) -> Outcomes:
    return Outcomes(frozenset(passed), frozenset(failed), frozenset(skipped), **fields)


def judge_tests(
    suite: contracts.TestsCheck, ran: ProgramExit, report: Outcomes | UnreadableReport | None, base: Outcomes | None
) -> CheckFinding:
    return suite_results.judge_suite(suite, SuiteFacts(ran, report=report, base=base)).finding


# Programs


def test_only_ending_with_0_of_its_own_accord_passes() -> None:
    assert check_results.judge_run(GREEN) == CheckFinding(True)
    assert check_results.judge_run(ProgramExit("finished", 3)) == CheckFinding(False, "exit_code", "it ended with 3")
    for how in set(get_args(ExitKind)) - {"finished"}:
        finding = check_results.judge_run(ProgramExit(how, 0))
        assert not finding.passed
        assert finding.reason
        assert how in finding.detail
        assert check_results.judge_run(ProgramExit(how, None, "because")).detail == "because"


# Suites


def test_a_suite_whose_tests_ran_and_passed_passes() -> None:
    assert judge_tests(suite(), GREEN, outcomes("ab", skipped="c"), outcomes("a", skipped="c")) == CheckFinding(
        True, "", "2 passed, 1 skipped"
    )


@pytest.mark.parametrize(
    ("fields", "ran", "report", "base", "reason"),
    [
        ({}, ProgramExit("timeout", None), outcomes("a"), None, "timeout"),
        ({}, GREEN, None, None, "report_missing"),
        ({}, GREEN, UnreadableReport("it is not XML"), None, "report_unreadable"),
        ({}, RED, outcomes("a", "b"), None, "tests_failed"),
        ({}, GREEN, outcomes("a", "b"), None, "tests_failed"),
        ({}, GREEN, outcomes("a", beyond=True), None, "tests_failed"),
        ({}, GREEN, outcomes(), None, "tests_none"),
        ({}, GREEN, outcomes(skipped="ab"), None, "tests_none"),
        ({"min_tests": 2}, GREEN, outcomes("a", skipped="b"), None, "tests_none"),
        ({}, RED, outcomes("a"), None, "report_contradicts"),
        ({}, GREEN, outcomes("a"), outcomes("ab"), "tests_vanished"),
        ({}, GREEN, outcomes("a"), outcomes("a", "b"), "tests_vanished"),
        ({}, GREEN, outcomes("a"), outcomes("a", skipped="b"), "tests_vanished"),
        ({}, GREEN, outcomes("a", skipped="b"), outcomes("ab"), "tests_skipped"),
        ({}, GREEN, outcomes("a", skipped="b"), outcomes("a", "b"), "tests_skipped"),
    ],
)
def test_each_way_of_not_passing_has_its_reason(
    fields: dict[str, Any],
    ran: ProgramExit,
    report: Outcomes | UnreadableReport | None,
    base: Outcomes | None,
    reason: str,
) -> None:
    finding = judge_tests(suite(**fields), ran, report, base)
    assert (finding.passed, finding.reason) == (False, reason)
    assert finding.detail


def test_everything_that_is_wrong_with_a_suite_is_told_at_once() -> None:
    report = outcomes("a", "b", "c", repeated=frozenset("a"))
    detail = judge_tests(suite(min_tests=9), GREEN, report, outcomes("acde")).detail
    for words in (
        "1 failed: 'b'",
        "at least 9 are required",
        "shows failures",
        "2 tests of the baseline are gone",
        "are skipped",
    ):
        assert words in detail
    assert detail.endswith("1 passed, 1 failed, 1 skipped, 1 listed more than once")


ids = st.frozensets(st.sampled_from("abcdef"))
reports = st.builds(Outcomes, ids, ids, ids, st.just(frozenset()), st.booleans())


@pytest.mark.shows("E09")
@given(reports, st.sampled_from([0, 1, 5, None]), reports, st.integers(1, 4))
def test_a_suite_passes_only_when_all_rules_hold(
    report: Outcomes, code: int | None, base: Outcomes, least: int
) -> None:
    passed = judge_tests(suite(min_tests=least), ProgramExit("finished", code), report, base).passed
    green = code == 0 and not report.failed and not report.beyond and len(report.ran) >= least
    assert passed is (green and base.known <= report.known and not base.ran & report.skipped)


@pytest.mark.parametrize(
    ("finding", "ran", "again"),
    [
        (CheckFinding(False, "exit_code"), RED, True),
        (CheckFinding(False, "tests_failed"), RED, True),
        (CheckFinding(False, "tests_failed"), GREEN, False),
        (CheckFinding(False, "tests_vanished"), GREEN, False),
        (CheckFinding(False, "timeout"), ProgramExit("timeout", None), False),
        (CheckFinding(True), GREEN, False),
    ],
)
def test_only_failures_are_tried_again(finding: CheckFinding, ran: ProgramExit, again: bool) -> None:
    assert check_results.is_worth_another_run(finding, ran) is again


@given(reports, reports)
def test_running_again_looks_only_at_what_had_failed(before: Outcomes, again: Outcomes) -> None:
    merged, recovered = suite_results.merge_rerun(before, again)
    assert merged.failed | recovered == before.failed
    assert not merged.failed & recovered
    assert recovered <= again.passed
    assert merged.known == before.known
    assert merged.beyond is (before.beyond or again.beyond)


@pytest.mark.parametrize(
    ("run", "fields", "expected"),
    [
        (
            "python3 -m pytest -q",
            {},
            tuple(
                path
                for name in ("_pytest", "iniconfig", "pluggy", "pytest")
                for path in (f"{name}.py", f"{name}/__init__.py")
            ),
        ),
        *(
            (f"python3 -m{name}", {}, (f"{name}.py", f"{name}/__init__.py"))
            for name in ("unittest", "nose2", "tox", "nox")
        ),
        ("python3 -m shop.tests", {}, ()),
        ("make -m x test", {}, ()),
        ("pytest -q", {}, ()),
        ("python3 -m pytest", {"protect_config": False}, ()),
    ],
)
def test_files_that_would_pass_for_the_runner_are_known(
    run: str, fields: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert check_results.list_shadowing_files(suite(run=run, **fields)) == expected


# Environment


def test_the_environment_is_what_programs_need_and_what_the_check_names() -> None:
    made = check_results.make_environment({"A": "1"}, path="/bin", checkout="/c", outside={"LANG": "C"})
    assert made == {"PATH": "/bin", "LANG": "C", "A": "1"}
    assert "A" not in check_results.make_environment(None, path="/bin", checkout="/c", outside={"LANG": "C"})


@pytest.mark.parametrize("given", [{"": "a"}, {"A=B": "a"}, {"A B": "a"}, {"A": "a\0b"}, {"1A": ""}])
def test_a_variable_that_cannot_be_set_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be set"):
        check_results.make_environment(given, path="/bin", checkout="/c", outside={"LANG": "C"})


parts = st.sampled_from(["", ".", "bin", "/usr/bin", "/c", "/c/", "/c/bin", "/cc/bin", "/x/../c/bin", "./c", "//c"])


@given(st.lists(parts, max_size=6))
def test_no_program_of_the_work_is_on_the_path(path: list[str]) -> None:
    kept = check_results.safe_path(":".join(path), "/c").split(":")
    assert set(kept) <= {"/usr/bin", "/cc/bin", "//c", ""}
    assert [part for part in kept if part == "/usr/bin"] == [part for part in path if part == "/usr/bin"]


# Files


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"min_bytes": 4, "sha256": DIGEST, "contains": "ab"}, ""),
        ({"min_bytes": 5}, "at least 5 are required"),
        ({"sha256": OTHER}, "its hash is"),
        ({"contains": "x"}, "does not contain 'x'"),
    ],
)
def test_a_file_has_what_is_asked_for(fields: dict[str, Any], words: str) -> None:
    finding = check_results.judge_file(check("file", path="a", **fields), FileFacts(4, DIGEST, b"abcd"))
    assert (finding.passed, finding.reason) == ((False, "content") if words else (True, ""))
    assert words in finding.detail


def test_a_text_that_was_not_looked_for_is_not_there() -> None:
    assert not check_results.judge_file(check("file", path="a", contains="a"), FileFacts(4, DIGEST)).passed


@pytest.mark.parametrize(
    ("document", "lacks"),
    [
        ({"a": 1, "b": {"c": 0}}, []),
        ({"a": 1, "b.c": False}, []),
        ({"a": None, "b": {"c": 1}}, ["a"]),
        ({"a": 1, "b": [1]}, ["b.c"]),
        ([], ["a", "b.c"]),
        ("a", ["a", "b.c"]),
    ],
)
def test_a_document_has_its_fields(document: Any, lacks: list[str]) -> None:
    finding = check_results.judge_json(check("json", path="a", required_fields=["a", "b.c"]), document, [])
    assert finding.passed is (not lacks)
    assert all(repr(name) in finding.detail for name in lacks)


def test_a_document_that_breaks_its_schema_does_not_pass() -> None:
    assert check_results.judge_json(check("json", path="a"), {}, ["$: no"]) == CheckFinding(
        False, "content", "a: $: no"
    )


# Git


FACTS = GitFacts(changed={"src/a.py", "README.md"})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"changed": ["src/**", "*.md", "/README.md"]}, ""),
        ({"changed": ["docs/**"]}, "'docs/**'"),
        ({"changed": ["[src"]}, "'[src'"),
        ({"changed": ["!src/**"]}, "'!src/**'"),
    ],
)
def test_a_change_is_where_it_is_asked_for(fields: dict[str, Any], words: str) -> None:
    finding = check_results.judge_git(check("git", **fields), FACTS)
    assert (finding.passed, finding.reason) == ((False, "content") if words else (True, ""))
    assert words in finding.detail


def test_no_change_or_one_of_protected_paths_never_passes() -> None:
    assert check_results.judge_git(check("git"), GitFacts()) == CheckFinding(
        False, "content", "nothing that matches '**' was changed"
    )
    assert "protected paths" in check_results.judge_git(check("git"), replace(FACTS, protected={"b"})).detail
    assert check_results.judge_git(check("git"), None).reason == "facts_missing"


# Addresses


@pytest.mark.parametrize(
    ("fields", "answer", "words"),
    [
        ({}, HttpAnswer(200, b"", True, "u"), ""),
        ({"status": 404, "contains": "no"}, HttpAnswer(404, b"none", True, "u"), ""),
        ({}, HttpAnswer(500, b"", True, "u"), "the status is 500, not 200"),
        ({"contains": "x"}, HttpAnswer(200, b"abc", True, "u"), "the answer does not contain"),
        ({"contains": "x"}, HttpAnswer(200, b"abc", False, "u"), "what could be read"),
    ],
)
def test_an_answer_has_its_status_and_text(fields: dict[str, Any], answer: HttpAnswer, words: str) -> None:
    finding = check_results.judge_http(check("http", url="http://a", **fields), answer)
    assert (finding.passed, finding.reason) == ((False, "answer") if words else (True, ""))
    assert words in finding.detail


# What the engine knows


STORED = StoredOutput("maker", DIGEST, DIGEST, {"taker": DIGEST, "late": OTHER})


@pytest.mark.parametrize(
    ("accepted_by", "stored", "reason"),
    [
        (None, STORED, ""),
        ("taker", STORED, ""),
        (None, None, "missing"),
        (None, replace(STORED, found=""), "missing"),
        (None, replace(STORED, found=OTHER), "content"),
        ("late", STORED, "not_accepted"),
        ("nobody", STORED, "not_accepted"),
        ("maker", replace(STORED, accepted={"maker": DIGEST}), "not_accepted"),
    ],
)
def test_an_output_is_stored_as_declared_and_accepted_just_so(
    accepted_by: str | None, stored: StoredOutput | None, reason: str
) -> None:
    finding = check_results.judge_artifact(check("artifact", output="o", accepted_by=accepted_by), stored)
    assert (finding.passed, finding.reason) == (not reason, reason)


def test_a_report_is_there_or_not() -> None:
    assert check_results.judge_report("done") == CheckFinding(True)
    for nothing in (" ", None):
        assert check_results.judge_report(nothing) == CheckFinding(
            False, "missing", "the agent has submitted no report"
        )


SHOWN = check_results.hash_shown("Good?", {"a.png": DIGEST})


@pytest.mark.shows("E10")
@pytest.mark.parametrize(
    ("confirmation", "shown", "words"),
    [
        (Confirmation("ann", True, SHOWN), SHOWN, ""),
        (None, SHOWN, "not answered yet"),
        (Confirmation(" ", True, SHOWN), SHOWN, "who"),
        (Confirmation("ann", False, SHOWN), SHOWN, "ann said no"),
        (Confirmation("ann", True, OTHER), SHOWN, "another version"),
        (Confirmation("ann", True, ""), "", "another version"),
    ],
)
def test_a_persons_yes_is_to_exactly_what_was_shown(confirmation: Confirmation | None, shown: str, words: str) -> None:
    finding = check_results.judge_human(confirmation, shown)
    assert (finding.passed, finding.reason) == ((False, "not_confirmed") if words else (True, ""))
    assert words in finding.detail


def test_what_is_shown_has_another_hash_when_anything_of_it_changes() -> None:
    others = [check_results.hash_shown("Good", {"a.png": DIGEST}), check_results.hash_shown("Good?", {"a.png": OTHER})]
    assert len({SHOWN, *others, check_results.hash_shown("Good?", {})}) == 4
