"""Whether a change is proven, from the runs of its check."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agenttalk.contracts import promise
from agenttalk.rules.changes import change_proof
from agenttalk.rules.changes.change_proof import ChangePolicy, ChangeUnderProof, CheckRuns, count_tests, judge_change
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.checks.protection import FileTree
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint, Reason
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text import change_words

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUITE = promise.TestsCheck.model_validate({"id": "check", "kind": "tests", "run": "pytest -q", "junit": "r.xml"})
COMMAND = promise.RunCheck.model_validate({"id": "check", "kind": "run", "run": "python3 -m unittest"})
TREE = FileTree.from_paths(["price.py", "tests/test_price.py", "conftest.py", "pyproject.toml", "README.md"])
TEST = "def test_a():\n    assert 1\n"


def file(path: str, before: str | None, after: str | None, moved_from: str = "") -> ChangedFile:
    return ChangedFile(
        path, None if before is None else before.encode(), None if after is None else after.encode(), moved_from
    )


WORK = file("price.py", "a = 1\n", "a = 2\n")
NEW = file("tests/test_new.py", None, TEST)


def result(passed: str = "", failed: str = "", skipped: str = "", **keys: Any) -> CheckResult:
    """A run of the check; tests by their names."""
    green, red, spared = (frozenset(f"t::{name}" for name in names.split()) for names in (passed, failed, skipped))
    tests = Outcomes(green, red, spared)
    return plain(not failed, tests=tests, reason="tests_failed" if failed else "", exit_code=int(bool(failed)), **keys)


def plain(passed: bool, *, reason: Reason = "", **keys: Any) -> CheckResult:
    keys = {"exit_code": 0 if passed else 1, **keys}
    return CheckResult("x", passed, "executed", reason, "detail", NOW, NOW, Fingerprint(), **keys)


def change(*files: ChangedFile, check: Any = SUITE, **policy: Any) -> ChangeUnderProof:
    return ChangeUnderProof(files, check, TREE, ChangePolicy(**policy))


def failed(proof: change_proof.ChangeProof) -> list[str]:
    assert proof.proven is not bool(proof.steps)
    return [each.id for each in proof.evidence if not each.passed]


def detail(proof: change_proof.ChangeProof, name: str) -> str:
    [found] = [each.detail for each in proof.evidence if each.id == name]
    return found


def test_a_new_test_that_was_red_shows_the_change() -> None:
    proof = judge_change(change(WORK, NEW), CheckRuns(result("a b"), result("a"), red=result("a", "b")))
    assert proof.proven
    assert proof.verdict.trust == "observed"
    assert (proof.new_tests, proof.red_tests, proof.gone_tests) == (("t::b",), ("t::b",), ())
    assert next(str(each) for each in proof.unchecked).startswith("whether the new tests (1)")


def test_an_old_test_that_was_red_shows_it_too() -> None:
    proof = judge_change(change(WORK), CheckRuns(result("a b"), result("a", "b")))
    assert proof.proven
    assert proof.red_tests == ("t::b",)


def test_a_failing_check_is_not_proven() -> None:
    proof = judge_change(change(WORK), CheckRuns(result("a", "b"), result("a b")))
    assert failed(proof) == ["check", "shown"]
    assert proof.verdict.missing == ("check", "shown")


def test_without_a_red_run_nothing_shows_the_change() -> None:
    proof = judge_change(change(WORK), CheckRuns(result("a"), result("a")))
    assert failed(proof) == ["shown"]
    assert "no test is new" in detail(proof, "shown")
    proof = judge_change(change(WORK, NEW), CheckRuns(result("a b"), result("a"), red=result("a b")))
    assert "'t::b'" in detail(proof, "shown")
    proof = judge_change(change(WORK, already_green=True), CheckRuns(result("a"), result("a")))
    assert proof.proven
    assert change_words.UNCHECKED_EFFECT() in proof.unchecked


def test_a_base_that_is_red_for_other_reasons_shows_nothing() -> None:
    proof = judge_change(change(WORK), CheckRuns(result("a", "b"), result("a", "b")))
    assert "no test that passes now failed then" in detail(proof, "shown")
    gone = plain(False, reason="not_started")
    assert "could not run at the base: detail" in detail(
        judge_change(change(WORK), CheckRuns(result("a"), gone)), "shown"
    )
    broken = plain(False, reason="report_missing", exit_code=5)
    assert failed(judge_change(change(WORK), CheckRuns(result("a"), broken))) == ["shown"]


def test_a_check_that_misses_what_the_work_brings_was_red() -> None:
    missing = plain(False, reason="tests_failed", exit_code=2, output="E   No module named 'price2'")
    made = file("price2.py", None, "")
    assert judge_change(change(made, NEW), CheckRuns(result("a"), result("b a"), red=missing)).gone_tests == ("t::b",)
    assert judge_change(change(made, NEW), CheckRuns(result("a b"), result("a"), red=missing)).proven
    other = plain(False, reason="tests_failed", exit_code=2, output="E   No module named 'requests'")
    assert failed(judge_change(change(made, NEW), CheckRuns(result("a b"), result("a"), red=other))) == ["shown"]


def test_documentation_needs_no_test_and_says_what_is_not_checked() -> None:
    readme = file("README.md", "a\n", "b\n")
    proof = judge_change(change(readme), CheckRuns(result("a"), result("a")))
    assert proof.proven
    assert change_words.UNCHECKED_DOCUMENTS() in proof.unchecked
    assert failed(judge_change(change(readme, WORK), CheckRuns(result("a"), result("a")))) == ["shown"]
    assert failed(judge_change(change(readme, protect=("README.md",)), CheckRuns(result("a"), result("a")))) == [
        "protected",
        "shown",
    ]


def test_tests_that_are_gone_or_skipped_are_refused_unless_permitted() -> None:
    runs = CheckRuns(result("a", skipped="b"), result("a b c", "x"))
    proof = judge_change(change(WORK), runs)
    assert (proof.gone_tests, proof.skipped_tests) == (("t::c", "t::x"), ("t::b",))
    assert failed(proof) == ["tests-kept", "shown"]
    proof = judge_change(change(WORK, allow_tests=True, already_green=True), runs)
    assert proof.proven
    assert "permitted by --allow-tests" in detail(proof, "tests-kept")


def test_a_module_that_could_not_be_loaded_before_is_no_test_that_is_gone() -> None:
    base = plain(False, tests=Outcomes(failed=frozenset({"tests.test_price"})), reason="tests_failed")
    assert judge_change(change(WORK, NEW), CheckRuns(result("a"), base)).proven


def test_tests_that_only_the_old_files_have_are_missed() -> None:
    deleted = file("tests/test_price.py", TEST, None)
    runs = CheckRuns(result("a n"), plain(False, reason="report_missing"), held=result("a b"), red=result("a", "n"))
    proof = judge_change(change(WORK, NEW, deleted), runs)
    assert proof.gone_tests == ("t::b",)
    assert failed(proof) == ["tests-kept", "protected"]


def test_a_changed_test_is_refused_and_a_longer_one_is_not() -> None:
    runs = CheckRuns(result("a b"), result("a"), held=result("a"), red=result("a", "b"))
    longer = file("tests/test_price.py", TEST, f"{TEST}\ndef test_b():\n    pass\n")
    proof = judge_change(change(WORK, longer), runs)
    assert proof.proven
    assert "lost none: 'tests/test_price.py'" in detail(proof, "protected")
    weaker = file("tests/test_price.py", TEST, TEST.replace("assert 1", "assert True"))
    proof = judge_change(change(WORK, weaker), runs)
    assert failed(proof) == ["protected"]
    assert "tests/test_price.py:2: an assertion that always holds: assert True" in detail(proof, "protected")
    proof = judge_change(change(WORK, weaker, allow_tests=True), CheckRuns(result("a b"), result("a", "b")))
    assert proof.proven
    assert any("as --allow-tests permits" in each for each in proof.unchecked)
    assert failed(judge_change(change(WORK, longer, protect=("tests/",), allow_tests=True), runs)) == ["protected"]


def test_a_test_of_the_base_that_the_work_fails_is_named() -> None:
    weaker = file("tests/test_price.py", TEST, "")
    runs = CheckRuns(result("a"), result("a"), held=result("", "a"))
    assert failed(judge_change(change(WORK, weaker), runs)) == ["base-tests", "protected", "shown"]


def test_a_base_without_tests_has_none_to_hold() -> None:
    longer = file("conftest.py", "", "x = 1\n")
    none = plain(False, reason="report_missing", exit_code=5)
    runs = CheckRuns(result("a"), none, held=none, red=plain(False, exit_code=1))
    proof = judge_change(change(NEW, longer), runs)
    assert "the base has no test" in detail(proof, "base-tests")
    assert failed(proof) == ["protected"], "a conftest may not even get more lines"
    inner = file("tests/conftest.py", "", "x = 1\n")
    assert failed(judge_change(change(NEW, inner), runs)) == ["protected"], "not even one in a folder of tests"
    worse = CheckRuns(result("a"), none, held=result("", "a"), red=none)
    assert "base-tests" in failed(judge_change(change(NEW, longer), worse))


def test_a_report_that_names_tests_that_are_not_there_is_forged() -> None:
    runs = CheckRuns(result("a n"), result("a"), held=result("a n"), red=result("a", "n"))
    proof = judge_change(change(WORK, NEW), runs)
    assert failed(proof) == ["base-tests"]
    assert "names tests that are not there (1): 't::n'" in detail(proof, "base-tests")

    def run(*names: str, failed: tuple[str, ...] = ()) -> CheckResult:
        return plain(
            not failed, tests=Outcomes(frozenset(names), frozenset(failed)), reason="tests_failed" if failed else ""
        )

    unloaded = CheckRuns(run("a::x", "n::y"), run("a::x"), held=run("a::x", "n::y"), red=run(failed=("n",)))
    assert "base-tests" in failed_of(unloaded)
    honest = CheckRuns(run("a::x", "n::y"), run("a::x"), held=run("a::x"), red=run(failed=("n",)))
    assert failed_of(honest) == []
    silent = CheckRuns(run("a::x", "n::y"), plain(False), held=plain(True), red=run("a::x", failed=("n::y",)))
    assert failed_of(silent) == []
    beside = CheckRuns(run("a::x", "a::y"), run("a::x"), held=run("a::x"), red=run(failed=("a",)))
    assert failed_of(beside) == []
    partly = CheckRuns(run("a::x", "n::y"), run(failed=("a",)), held=run("a::x"), red=run("a::x", failed=("n::y",)))
    assert failed_of(partly) == []
    unread = CheckRuns(run("n::y"), plain(False, reason="report_missing"), held=run("a::x"), red=run(failed=("n",)))
    assert failed_of(unread) == ["tests-kept"]


def failed_of(runs: CheckRuns) -> list[str]:
    return failed(judge_change(change(WORK, NEW), runs))


def test_tests_may_move_with_all_they_have() -> None:
    moved = file("tests/unit/test_x.py", TEST, TEST, "tests/test_price.py")

    def run(*names: str) -> CheckResult:
        return plain(True, tests=Outcomes(frozenset(names)))

    old, new = "tests.test_price::test_a", "tests.unit.test_x::test_a"
    proof = judge_change(change(moved, already_green=True), CheckRuns(run(new), run(old), held=run(old)))
    assert proof.proven
    assert (proof.new_tests, proof.gone_tests) == ((), ())
    proof = judge_change(change(moved, already_green=True), CheckRuns(run("x::y"), run(old), held=run(old)))
    assert failed(proof) == ["tests-kept", "protected"]
    assert "was moved to tests/unit/test_x.py" in detail(proof, "tests-kept")
    skipped = plain(True, tests=Outcomes(frozenset({"x::y"}), skipped=frozenset({new})))
    assert "skipped now" in detail(
        judge_change(change(moved), CheckRuns(skipped, run(old), held=run(old))), "tests-kept"
    )
    proof = judge_change(change(moved, check=COMMAND, already_green=True), CheckRuns(plain(True), plain(True)))
    assert failed(proof) == ["protected"], "no report tells that its tests still run"


def test_settings_in_a_shared_file_are_held() -> None:
    settings = file("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = '--co'\n")
    assert change(settings).held == (settings,)
    assert change(file("pyproject.toml", "", "[project]\n")).held == ()
    assert change(settings, allow_tests=True).held == ()
    assert failed(judge_change(change(settings, already_green=True), CheckRuns(result("a"), result("a")))) == [
        "protected"
    ]
    allowed = judge_change(change(settings, allow_tests=True, already_green=True), CheckRuns(result("a"), result("a")))
    assert any("pyproject.toml" in each for each in allowed.unchecked)


def test_a_module_that_shadows_another_is_refused() -> None:
    shadow = file("json.py", None, "")
    proof = judge_change(change(shadow, already_green=True), CheckRuns(result("a"), result("a")))
    assert failed(proof) == ["protected"]
    assert "json.py would be taken for a module" in detail(proof, "protected")


def test_only_files_of_the_scope_may_change() -> None:
    moved = file("b.py", "x", "x", "a.py")
    runs = CheckRuns(result("a"), result("a"))
    proof = judge_change(change(WORK, moved, scope=("price.py", "b.py"), already_green=True), runs)
    assert failed(proof) == ["scope"]
    assert "1 outside the scope: 'a.py'" in detail(proof, "scope")
    assert judge_change(change(WORK, scope=("*.py",), already_green=True), runs).proven


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("Ran 3 tests in 0.1s\n\nOK", "Ran 4 tests in 0.1s\n\nOK", True),
        ("Ran 3 tests in 0.1s\n\nOK", "", False),
        ("Ran 3 tests in 0.1s\n\nOK", "Ran 2 tests in 0.1s\n\nOK", False),
        ("", "", True),
    ],
)
def test_a_check_without_a_report_is_held_by_what_it_prints(before: str, after: str, *, kept: bool) -> None:
    runs = CheckRuns(plain(True, output=after), plain(False, output=before), held=plain(True, output=before))
    proof = judge_change(change(WORK, NEW, check=COMMAND), runs)
    assert failed(proof) == ([] if kept else ["tests-kept"])
    assert change_words.UNCHECKED_SINGLE_TESTS() in proof.unchecked
    assert any("tests/test_new.py" in each for each in proof.unchecked)


def test_a_test_file_that_is_gone_is_missed_without_a_report_too() -> None:
    gone = file("tests/test_price.py", TEST, None)
    runs = CheckRuns(plain(True), plain(False), held=plain(True))
    proof = judge_change(change(gone, check=COMMAND), runs)
    assert failed(proof) == ["tests-kept", "protected"]
    assert "the test file tests/test_price.py is gone" in detail(proof, "protected")
    assert ":0:" not in detail(proof, "protected")
    assert judge_change(change(gone, check=COMMAND, allow_tests=True), CheckRuns(plain(True), plain(False))).proven


def test_a_check_that_cannot_run_says_how_to_make_it_run() -> None:
    missing = plain(False, reason="exit_code", exit_code=127)
    proof = judge_change(change(WORK, check=COMMAND), CheckRuns(missing, missing))
    assert "--prepare" in proof.steps[0]
    assert proof.unable
    proof = judge_change(change(WORK, check=COMMAND), CheckRuns(missing, plain(False)))
    assert ("--prepare" in proof.steps[0], proof.unable) == (True, "")


def test_a_suite_that_left_no_report_has_kept_nothing() -> None:
    proof = judge_change(change(WORK), CheckRuns(plain(False, reason="report_missing"), result("a")))
    assert failed(proof) == ["check", "tests-kept", "shown"]


def test_a_program_that_ends_early_has_to_be_seen() -> None:
    early = file("price.py", "a = 1\n", "import os\nos._exit(0)\n")
    runs = CheckRuns(plain(True), plain(False))
    assert failed(judge_change(change(early, check=COMMAND), runs)) == ["suspicions"]
    assert failed(judge_change(change(early), CheckRuns(result("a"), result("", "a")))) == ["suspicions"]
    assert judge_change(change(early, suspicion="note"), CheckRuns(result("a"), result("", "a"))).proven


def test_what_was_not_checked_is_always_said() -> None:
    large = ChangedFile("data.bin", b"\0", b"\1\0")
    loose = result("a", isolated=False)
    proof = judge_change(change(WORK, large), CheckRuns(loose, result("", "a")), [change_words.UNCHECKED_LFS()])
    told = [str(each) for each in proof.unchecked]
    assert any("did not run in a sandbox" in each for each in told)
    assert any("'data.bin'" in each for each in told)
    assert told[-1] == change_words.UNCHECKED_LFS()


def test_the_trees_have_the_tests_of_the_other() -> None:
    moved = file("tests/unit/test_x.py", TEST, TEST, "tests/test_price.py")
    conftest = file("conftest.py", None, "x")
    gone = file("tests/old.py", "x", None)
    assert change(WORK).list_for_held_tree() == ()
    assert change(WORK, NEW).list_for_held_tree() == ("tests/test_new.py",)
    assert change(WORK, NEW, allow_tests=True).list_for_held_tree() == ()
    kept = change(WORK, NEW, allow_tests=True, protect=("price.py",))
    assert kept.list_for_held_tree() == ("price.py", "tests/test_new.py")
    assert change(WORK, NEW).list_for_red_tree() == ("tests/test_new.py",)
    both = change(WORK, NEW, moved, conftest, gone)
    assert set(both.list_for_held_tree()) == {
        *("tests/test_price.py", "tests/unit/test_x.py", "conftest.py", "tests/test_new.py"),
    }
    assert set(both.list_for_red_tree()) == {
        *("tests/test_price.py", "tests/unit/test_x.py", "conftest.py", "tests/test_new.py"),
    }


@pytest.mark.parametrize(
    ("printed", "count"),
    [
        ("Ran 12 tests in 0.3s", 12),
        ("Ran 1 test in 0.3s\nRan 2 tests in 0.1s", 3),
        ("test result: ok. 3 passed; 1 failed; 0 ignored", 4),
        ("Tests:       2 failed, 5 passed, 7 total", 7),
        ("  9 passing (20ms)", 9),
        ("# tests 4\n# pass 4", 4),
        ("[INFO] Tests run: 8, Failures: 0, Errors: 0, Skipped: 1\n", 8),
        ("ok", None),
    ],
)
def test_runners_tell_how_many_tests_ran(printed: str, count: int | None) -> None:
    assert count_tests(printed) == count
