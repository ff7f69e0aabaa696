"""What a reviewer should see in a change, each by its rule."""

from __future__ import annotations

import pytest

from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.changes.suspicions import MOST, Suspicion, find_suspicions
from agenttalk.rules.core.scope import Globs, read_globs

NONE = Globs()


def file(path: str, before: str | None, after: str | None) -> ChangedFile:
    return ChangedFile(path, None if before is None else before.encode(), None if after is None else after.encode())


def rules(*files: ChangedFile, held: Globs = NONE) -> list[tuple[str, int]]:
    return [(each.id, each.line) for each in find_suspicions(files, held)]


@pytest.mark.parametrize(
    ("rule", "path", "line"),
    [
        ("test-skipped", "tests/test_a.py", "@pytest.mark.skip(reason='slow')"),
        ("test-skipped", "tests/test_a.py", "@pytest.mark.xfail"),
        ("test-skipped", "tests/test_a.py", "    self.skipTest('later')"),
        ("test-skipped", "src/a.test.ts", "it.skip('adds', () => {})"),
        ("test-skipped", "src/a.test.ts", "xdescribe('all', () => {"),
        ("test-skipped", "pkg/a_test.go", "\tt.Skip()"),
        ("test-skipped", "tests/a.rs", "#[ignore]"),
        ("test-skipped", "src/test/ATest.java", "@Disabled"),
        ("test-skipped", "conftest.py", "collect_ignore = ['test_a.py']"),
        ("test-only", "src/a.test.ts", "describe.only('all', () => {"),
        ("assert-true", "tests/test_a.py", "    assert True"),
        ("assert-true", "tests/test_a.py", "    self.assertTrue(True)"),
        ("assert-true", "src/a.test.ts", "  expect(true).toBe(true)"),
        ("check-silenced", "a.py", "import os  # noqa: F401"),
        ("check-silenced", "a.py", "x = 1  # type: ignore[attr-defined]"),
        ("check-silenced", "a.ts", "// eslint-disable-next-line"),
        ("check-silenced", "a.ts", "// @ts-ignore"),
        ("check-silenced", "a.go", "x() //nolint"),
        ("check-silenced", "a.rs", "#[allow(dead_code)]"),
        ("early-exit", "a.py", "    os._exit(0)"),
        ("early-exit", "a.py", "sys.exit(0)"),
        ("early-exit", "a.py", "raise SystemExit"),
        ("early-exit", "a.js", "process.exit(0)"),
        ("runner-touched", "a.py", "import _pytest.python"),
        ("runner-touched", "a.py", "TestCase.assertEqual = lambda *a: None"),
        ("test-skipped", "src/lib.rs", "    #[ignore]"),
        ("report-forged", "a.py", "open('.agenttalk-tests.xml', 'w')"),
        ("test-detected", "a.py", "if 'pytest' in sys.modules:"),
        ("test-detected", "a.js", "if (process.env.NODE_ENV === 'test') {"),
        ("failure-ignored", "Makefile", "\tpytest || true"),
        ("failure-ignored", ".github/workflows/ci.yml", "    continue-on-error: true"),
        ("failure-ignored", "package.json", '  "test": "jest --passWithNoTests"'),
        ("failure-ignored", "run.sh", "exit 0"),
        ("job-disabled", ".gitea/workflows/ci.yml", "    if: false"),
        ("job-disabled", ".forgejo/workflows/ci.yaml", "    if: ${{ false }}"),
        ("job-disabled", ".gitlab-ci.yml", "  when: never"),
        ("tests-deselected", "tox.ini", "addopts = --deselect tests/test_a.py"),
        ("tests-deselected", "Makefile", "\tpytest -k 'not slow'"),
    ],
)
def test_each_rule_names_its_line(rule: str, path: str, line: str) -> None:
    assert (rule, 2) in rules(file(path, "# first\n", f"# first\n{line}\n"))
    assert rule not in {each for each, _ in rules(file(path, f"{line}\n", f"{line}\n# more\n"))}, "it was there before"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "@pytest.mark.skip"),
        ("a.py", "    sys.exit(main())"),
        ("a.py", "assert Trueish"),
        ("tests/test_a.py", "    assert True is flag()"),
        ("src/run.py", "if: false"),
        ("docs/a.md", "run it with || true"),
        (".github/workflows/ci.yml", "    if: github.ref == 'refs/heads/main'"),
    ],
)
def test_honest_lines_are_not_suspicious(path: str, line: str) -> None:
    assert rules(file(path, "first\n", f"first\n{line}\n")) == []


def test_files_that_decide_how_tests_run_are_named() -> None:
    assert rules(file("pkg/conftest.py", None, "")) == [("read-by-runner", 0)]
    assert rules(file("sitecustomize.py", None, "")) == [("read-by-runner", 0)]
    assert rules(file("pytest.ini", None, "[pytest]\n")) == [("tests-configured", 0)]
    assert rules(file("conftest.py", "", "x = 1\n")) == [("tests-configured", 0)]
    before, after = "[tool.pytest.ini_options]\n", "[tool.pytest.ini_options]\naddopts = '-q'\n"
    assert rules(file("pyproject.toml", before, after)) == [("tests-configured", 0)]
    assert rules(file("pyproject.toml", "[project]\n", "[project]\nname = 'x'\n")) == []
    assert rules(file("tests/test_a.py", "", None)) == [("test-file-removed", 0)]
    assert rules(file(".github/workflows/ci.yml", "on: push\n", None)) == [("job-disabled", 0)]
    assert rules(ChangedFile("tests/b/conftest.py", b"# noqa", b"# noqa", "tests/conftest.py")) == []
    assert rules(ChangedFile("tests/a.bin", b"\0", b"\0assert True")) == []


def test_assertions_that_are_gone_and_tests_that_are_there_twice_are_named() -> None:
    before = "def test_a():\n    assert total() == 3\n    x = 1\n"
    assert rules(file("tests/test_a.py", before, before.replace("== 3", "> 0"))) == [("assertion-changed", 2)]
    again = f"{before}\n\ndef test_a():\n    pass\n"
    assert rules(file("tests/test_a.py", before, again)) == [("test-redefined", 6)]
    assert rules(file("tests/test_a.py", before, before.replace("test_a()", "test_a( )"))) == []
    assert rules(file("tests/test_a.py", None, before)) == []


def test_steps_that_run_tests_and_are_gone_from_a_workflow_are_named() -> None:
    before = "jobs:\n  test:\n    steps:\n      - uses: a/test@v1\n      - run: pytest\n      - run: |\n          make test\n"
    after = "jobs:\n  test:\n    steps:\n      - run: echo\n"
    assert rules(file(".github/workflows/ci.yml", before, after)) == [("job-disabled", 5), ("job-disabled", 7)]
    assert rules(file(".github/workflows/ci.yml", None, before)) == []


def test_thresholds_that_are_lower_are_named() -> None:
    config = "[report]\nfail_under = {}\n"
    assert rules(file("cov.toml", config.format(90), config.format(80))) == [("threshold-lowered", 2)]
    assert rules(file("cov.toml", config.format(80), config.format(90))) == []
    assert rules(file("cov.toml", "", config.format(80))) == []


def test_what_is_about_a_held_file_stands_in_the_way_and_comes_first() -> None:
    held = read_globs(["tests/"])
    found = find_suspicions(
        [file("a.py", "", "# noqa\n"), file("tests/test_a.py", "", "assert True\n")], held, reports_tests=False
    )
    assert [(each.id, each.refuses) for each in found] == [("assert-true", True), ("check-silenced", False)]
    early = [file("a.py", "", "os._exit(0)\n")]
    assert [each.refuses for each in find_suspicions(early, held, reports_tests=False)] == [True]
    assert [each.refuses for each in find_suspicions(early, held)] == [False]
    forged = [file("a.py", "", "write('.agenttalk-tests.xml')\n")]
    assert [each.refuses for each in find_suspicions(forged, NONE)] == [True]
    assert rules(file("tests/test_a.py", "", "os.environ['PYTEST_CURRENT_TEST']\n")) == []


def test_a_comparison_that_always_holds_is_named() -> None:
    always = file("a.py", "", "class A:\n    def __eq__(self, other):\n\n        return True\n")
    assert rules(always) == [("always-equal", 2)]
    assert [each.refuses for each in find_suspicions([always], NONE)] == [True]
    assert [each.refuses for each in find_suspicions([always], NONE, reviewed=True)] == [False]
    assert rules(file("a.py", "", "def __eq__(self, other):\n    return self.x == other.x\n")) == []


def test_no_change_drowns_the_page() -> None:
    found = find_suspicions([file("a.py", "", "# noqa \x1b[31m\n" * 999)], NONE)
    assert len(found) == MOST
    assert isinstance(found[0], Suspicion)
    assert "\x1b" not in found[0].message
