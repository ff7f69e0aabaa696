"""Whether a check could run at all before the work."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agenttalk.contracts.promise import AnyCheck, CompletionPromise
from agenttalk.rules.checks import runnable_checks
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint, Reason

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def check(kind: str, **fields: Any) -> AnyCheck:
    body = {"id": "cp-1-abcd", "objective": "o", "acceptance": [], "checks": [{"id": "c", "kind": kind, **fields}]}
    return CompletionPromise.read(body).checks[0]


def result(code: int | None, output: str = "", reason: Reason = "exit_code", detail: str = "") -> CheckResult:
    passed = code == 0
    reason = "" if passed else reason
    return CheckResult("c", passed, "executed", reason, detail, NOW, NOW, Fingerprint(), exit_code=code, output=output)


@pytest.mark.mends("A4")
@pytest.mark.parametrize(
    ("run", "code", "output", "why"),
    [
        ("node_modules/.bin/jest", 127, "sh: 1: node_modules/.bin/jest: not found", "not found or cannot be started"),
        ("./run", 126, "Permission denied", "not found or cannot be started"),
        ("python -m pytest -q", 2, "ModuleNotFoundError: No module named 'requests'", "could not load the tests"),
        ("python -m pytest -q", 2, "ModuleNotFoundError: No module named 'shop.prices'", ""),
        ("python -m pytest -q", 2, "ImportError: cannot import name 'mul' from 'calc' (/c/calc.py)", ""),
        (".venv/bin/pytest tests", 4, "ERROR: file or directory not found: tests", "called with wrong arguments"),
        ("pytest", 5, "no tests ran", "no test was found"),
        ("python -m pytest", 1, "/usr/bin/python: No module named pytest\n", "the module 'pytest'"),
        ("python -m unittest.main x", 1, "No module named 'unittest.main'", "the module 'unittest.main'"),
        ("python check.py", 2, "can't open file '/c/check.py': [Errno 2] No such file or directory", "does not exist"),
        ("sh check.sh", 2, "sh: 0: cannot open check.sh: No such file or directory", "does not exist"),
        ("node test.js", 1, "Error: Cannot find module '/c/test.js'\n  requireStack: []\n}", "does not exist"),
        ("npm test", 1, 'npm error Missing script: "test"', "does not exist"),
        ("npm test", 1, "Error: no test specified", "does not exist"),
        ("pnpm test", 1, "ERR_PNPM_NO_SCRIPT  Missing script: test", "does not exist"),
        ("yarn test", 1, 'error Command "test" not found.', "does not exist"),
        ("make test", 2, "make: *** No rule to make target 'test'.  Stop.", "does not exist"),
        ("cargo test", 101, "error: could not find `Cargo.toml` in `/c`", "does not exist"),
        ("go test ./...", 1, "go: go.mod file not found in current directory", "does not exist"),
        ("npx jest", 1, "No tests found, exiting with code 1", "no test was found"),
        ("npx vitest run", 1, "No test files found, exiting with code 1", "no test was found"),
        ("python -m unittest", 5, "\nNO TESTS RAN\n", "no test was found"),
        ("phpunit", 1, "", ""),
        ("pytest", 1, "1 failed", ""),
        ("make test", 2, "1 failed", ""),
        ("my-pytest-like", 2, "1 failed", ""),
        ("python -m unittest test_calc", 1, "ImportError: cannot import name 'mul'", ""),
        ("go test ./...", 1, "undefined: Mul\nFAIL shop [build failed]", ""),
        ("cargo test", 101, "error[E0425]: cannot find function `mul`", ""),
        ("pytest", 0, "1 passed", ""),
    ],
)
def test_what_did_not_get_as_far_as_to_test_anything_was_not_red(run: str, code: int, output: str, why: str) -> None:
    told = runnable_checks.explain_unable(check("run", run=run), result(code, output))
    assert bool(told) is bool(why)
    assert why in told


def test_a_suite_that_reports_nothing_or_no_test_did_not_run() -> None:
    suite = check("tests", run="run-tests", junit="r.xml")
    for reason in ("report_missing", "tests_none"):
        assert "no test was found (exit code 0)" in runnable_checks.explain_unable(
            suite,
            CheckResult("c", False, "executed", reason, "", NOW, NOW, Fingerprint(), exit_code=0),
        )
    assert runnable_checks.explain_unable(suite, result(1, "1 failed", "tests_failed")) == ""
    assert runnable_checks.explain_unable(suite, result(None, "", "timeout")) == ""


def test_what_the_work_makes_need_not_be_there_before() -> None:
    assert runnable_checks.explain_unable(check("run", run="./cli", made_by_work=True), result(127)) == ""


def test_a_sandbox_that_is_required_and_missing_is_told_as_it_is() -> None:
    told = runnable_checks.explain_unable(check("run", run="true"), result(None, "", "not_isolated", "install it"))
    assert told == "install it"


def test_other_kinds_have_nothing_to_run() -> None:
    assert runnable_checks.explain_unable(check("file", path="a"), result(None, "", "missing")) == ""
