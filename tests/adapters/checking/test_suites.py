"""Checks that run a test suite: the report decides, and the work cannot talk it into passing."""

from __future__ import annotations

from typing import Any, Self

import pytest

from adapters.checking.bench import GOOD, PYTEST, Bench, check
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.adapters.checking.command import CheckLimits
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.rules.proof import evidence
from agenttalk.rules.suites.outcomes import Outcomes

TWO = "def test_a(): pass\ndef test_b(): pass\n"
FAILING = "def test_a(): pass\ndef test_b(): assert False\n"
A, B = "test_it::test_a", "test_it::test_b"


def report(script: str = "") -> str:
    return f"cat > r.xml <<'END'\n{script or GOOD}\nEND\n"


def test_a_suite_that_passes_passes_and_its_tests_are_known(bench: Bench) -> None:
    bench.write(test__it_py="", r_xml="stale")
    (bench.checkout / "test_it.py").write_text(TWO)
    result = bench.suite(PYTEST)
    assert (result.passed, result.reason, result.trust, result.exit_code) == (True, "", "executed", 0)
    assert result.tests == Outcomes(passed=frozenset({A, B}))
    assert result.detail == "2 passed"
    assert result.isolated is bench.isolated


@pytest.mark.rest_but("boxed")
def test_a_suite_that_was_red_before_is_fully_worth_its_green(bench: Bench) -> None:
    (bench.checkout / "test_it.py").write_text(FAILING)
    base = bench.suite(PYTEST)
    assert (base.passed, base.reason, base.exit_code) == (False, "tests_failed", 1)
    (bench.checkout / "test_it.py").write_text(TWO)
    green = bench.suite(PYTEST, CheckFacts(tree="sha256:t", base=base.tests))
    assert green.passed
    required = check("tests", run="x", junit="r.xml", red_first="required")
    assert evidence.judge_baseline(required, base) == "fine"
    assert evidence.judge_baseline(required, green) == "refuse"


@pytest.mark.rest_but("tests_vanished", "tests_skipped")
@pytest.mark.parametrize(
    ("now", "reason"),
    [
        ("def test_a(): pass\n", "tests_vanished"),
        ("import pytest\ndef test_a(): pass\n@pytest.mark.skip\ndef test_b(): pass\n", "tests_skipped"),
        ("", "tests_none"),
        ("import pytest\n@pytest.mark.skip\ndef test_c(): pass\n", "tests_none"),
        ("def test_a(:", "tests_failed"),
    ],
)
def test_a_suite_that_got_smaller_does_not_pass(plain: Bench, now: str, reason: str) -> None:
    (plain.checkout / "test_it.py").write_text(now)
    base = Outcomes(passed=frozenset({A}), failed=frozenset({B}))
    result = plain.suite(PYTEST, CheckFacts(base=base if "none" not in reason else None))
    assert (result.passed, result.reason) == (False, reason)


def test_fewer_tests_than_are_asked_for_do_not_pass(plain: Bench) -> None:
    assert plain.suite(report(), min_tests=1).passed
    assert plain.suite(report(), min_tests=2).reason == "tests_none"


TRICKS: dict[str, tuple[str, str]] = {
    "ends before any test": ("import sys\nsys.exit(0)\n", "channel_cut"),
    "ends at once": ("import os\nos._exit(0)\n", "channel_cut"),
    "takes all tests away": ("def pytest_collection_modifyitems(items): items.clear()\n", "tests_none"),
    "calls failures successes": (
        """
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session):
    yield
    session.testsfailed = 0
    return True
""",
        "tests_failed",
    ),
}


@pytest.mark.rest_but("boxed")
@pytest.mark.parametrize("trick", TRICKS)
def test_tricks_of_a_configuration_that_the_work_brought_do_not_pass(bench: Bench, trick: str) -> None:
    conftest, reason = TRICKS[trick]
    (bench.checkout / "test_it.py").write_text(FAILING)
    (bench.checkout / "conftest.py").write_text(conftest)
    result = bench.suite(PYTEST)
    assert (result.passed, result.reason) == (False, reason)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (":", "report_missing"),
        (report() + "rm r.xml", "report_missing"),
        (report() + "exit 1", "report_contradicts"),
        (report(GOOD.replace("/></", "><failure/></testcase></")), "tests_failed"),
        (report(GOOD.replace("/></", "><failure/></testcase></")) + "exit 1", "tests_failed"),
        (report("<testsuite/>"), "tests_none"),
        (report("<testsuite>"), "report_unreadable"),
        (report('<!DOCTYPE a [<!ENTITY b "c">]><testsuite/>'), "report_unreadable"),
        ("mkfifo r.xml", "report_unreadable"),
        ("mkdir r.xml", "report_missing"),
        ("mkdir r.xml; cp good.xml r.xml; echo no > r.xml/b.xml", "report_unreadable"),
        ("cp good.xml /tmp/r.xml; ln -s /tmp/r.xml r.xml", "report_unreadable"),
        ("ln -s good.xml r.xml", "report_unreadable"),
        ("ln good.xml r.xml", "report_unreadable"),
        ("head -c 3000000 /dev/zero > r.xml", "report_unreadable"),
        ("exec sleep 1000", "timeout"),
        ("kill -9 $$", "killed"),
    ],
)
def test_a_report_that_is_not_there_or_not_true_does_not_pass(bench: Bench, script: str, reason: str) -> None:
    bench.write(good_xml=GOOD, r_xml=GOOD)
    made = check("tests", run=script, junit="r.xml", timeout=2 if reason == "timeout" else 60)
    result = bench.make(made, limits=CheckLimits(seconds=60, report_bytes=2_000_000))
    assert not result.passed
    # The sandbox ends as its program did, and by no signal of its own.
    assert result.reason == ("report_missing" if reason == "killed" and bench.tier == "bubblewrap" else reason)


@pytest.mark.rest_but("boxed")
def test_a_process_in_the_background_cannot_turn_red_into_green(bench: Bench) -> None:
    (bench.checkout / "test_it.py").write_text(FAILING)
    bench.write(good_xml=GOOD)
    result = bench.suite(f"setsid sh -c 'while :; do cp good.xml r.xml; done' & {PYTEST}")
    assert not result.passed
    assert bench.left_behind() == []
    report_file = bench.checkout / "r.xml"
    report_file.write_text("ours")
    assert report_file.read_text() == "ours"


@pytest.mark.parametrize("name", ["pytest.py", "pytest/__init__.py", "_pytest/__init__.py"])
def test_a_runner_that_the_work_brought_is_not_started(bench: Bench, name: str) -> None:
    fake = bench.checkout / name
    fake.parent.mkdir(exist_ok=True)
    fake.write_text(f"open('r.xml', 'w').write({GOOD!r})\n")
    result = bench.suite(PYTEST)
    assert (result.passed, result.reason) == (False, "runner_shadowed")
    assert not (bench.checkout / "r.xml").exists()


def test_a_report_that_lies_behind_a_symlink_is_refused_before_anything_runs(bench: Bench) -> None:
    elsewhere = bench.path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "r.xml").write_text("theirs")
    (bench.checkout / "out").symlink_to(elsewhere)
    result = bench.suite("touch ran", junit="out/r.xml")
    assert (result.passed, result.reason) == (False, "unsafe")
    assert (elsewhere / "r.xml").read_text() == "theirs"
    assert not (bench.checkout / "ran").exists()


# Running again


class Copies:
    """Fresh checkouts, each with the number of its run in it."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._made: list[SafeFolder] = []

    async def __call__(self) -> SafeFolder:
        folder = SafeFolder.open(self._bench.copy(f"run{len(self._made)}", "pristine"))
        self._made.append(folder)
        (folder.path / "run").write_text(str(len(self._made)))
        return folder

    def __enter__(self) -> Self:
        (self._bench.checkout / "run").write_text("0")
        self._bench.copy("pristine")
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._made:
            folder.close()

    def __len__(self) -> int:
        return len(self._made)


def reports(*runs: str) -> str:
    """A script that reports something else in each run."""
    cases = "".join(f"{at}) {text};;\n" for at, text in enumerate(runs))
    return f"case $(cat run) in\n{cases}esac"


def said(**outcomes: bool) -> str:
    tests = "".join(f'<testcase name="{name}">{"" if ok else "<failure/>"}</testcase>' for name, ok in outcomes.items())
    return f"echo '<testsuite>{tests}</testsuite>' > r.xml; exit {int(not all(outcomes.values()))}"


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((said(a=True, b=False), said(a=True, b=True)), (True, "", ("b",), 1)),
        ((said(a=False, b=False), said(a=True, b=False), said(a=False, b=True)), (True, "", ("a", "b"), 2)),
        ((said(a=True, b=False), said(a=True)), (False, "tests_failed", (), 3)),
        ((said(a=True, b=False),), (False, "report_missing", (), 1)),
        ((said(a=True, b=False), said(a=True, b=True) + "1"), (False, "report_contradicts", (), 1)),
        ((said(a=True, b=False), "kill -9 $$"), (False, "killed", (), 1)),
        ((said(b=False).replace("exit 1", "exit 0"), said(b=True)), (False, "tests_failed", (), 0)),
        ((said(a=True), said(a=True)), (True, "", (), 0)),
    ],
    ids=range(8),
)
def test_only_failures_are_run_again_and_what_passes_then_is_flaky(
    plain: Bench, runs: tuple[str, ...], expected: tuple[Any, ...]
) -> None:
    with Copies(plain) as again:
        result = plain.suite(
            reports(*runs, *runs[-1:] * 2) if len(runs) > 1 else reports(*runs), again=again, retries=3
        )
        assert (result.passed, result.reason, result.flaky, len(again)) == expected


@pytest.mark.rest
def test_a_run_cannot_prepare_its_checkout_for_the_next(plain: Bench) -> None:
    (plain.checkout / "test_it.py").write_text(
        "def test_b():\n    open('test_it.py', 'w').write('def test_b(): pass')\n    assert False\n"
    )
    with Copies(plain) as again:
        result = plain.suite(PYTEST, again=again, retries=2)
        assert (result.passed, result.reason, len(again)) == (False, "tests_failed", 2)


def test_a_folder_of_reports_is_read_as_a_whole(bench: Bench) -> None:
    (bench.checkout / "reports").mkdir()
    (bench.checkout / "reports" / "stale.xml").write_text("stale")
    one, other = (f'<testsuite><testcase classname="{name}" name="a"/></testsuite>' for name in ("one", "other"))
    script = f"echo '{one}' > reports/one.xml; echo '{other}' > reports/other.xml; echo note > reports/note.txt"
    result = bench.suite(script, junit="reports")
    assert (result.passed, result.source) == (True, "report")
    assert result.tests is not None
    assert result.tests.passed == {"one::a", "other::a"}
    base = CheckFacts(tree="sha256:t", base=result.tests, base_source="report")
    gone = bench.suite(f"echo '{one}' > reports/one.xml", base, junit="reports")
    assert (gone.passed, gone.reason) == (False, "tests_vanished")
