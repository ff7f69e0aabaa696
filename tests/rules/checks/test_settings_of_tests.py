"""What work may not do to the runner of its tests, and what it may."""

from __future__ import annotations

import pytest

from agenttalk.contracts import promise
from agenttalk.rules.checks import check_results, suite_results, test_runners
from agenttalk.rules.checks.check_results import ProgramExit
from agenttalk.rules.core import scope
from agenttalk.rules.suites.outcomes import Outcomes

SUITE = promise.TestsCheck.model_validate({"id": "t", "kind": "tests", "run": "./suite", "junit": "r.xml"})
TABLE = b'[project]\nname = "shop"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n'


def found(base: Outcomes, now: Outcomes) -> str:
    return suite_results.judge_merged(SUITE, ProgramExit("finished", 0), now, base).reason


def test_a_module_that_could_not_be_loaded_is_no_test_that_vanished() -> None:
    base = Outcomes(failed=frozenset({"tests.test_slugs"}))
    assert found(base, Outcomes(passed=frozenset({"tests.test_slugs.SlugTest::test_ends"}))) == ""
    assert found(base, Outcomes(passed=frozenset({"tests.test_slugs::test_ends"}))) == ""


@pytest.mark.parametrize(
    ("base", "now"),
    [
        (Outcomes(failed=frozenset({"tests.test_slugs"})), "tests.test_other::test_a"),
        (Outcomes(failed=frozenset({"tests.test_slugs::test_a"})), "tests.test_slugs::test_a::easy"),
        (Outcomes(passed=frozenset({"test_a"})), "test_a.easy"),
    ],
)
def test_a_test_that_is_gone_has_vanished(base: Outcomes, now: str) -> None:
    assert found(base, Outcomes(passed=frozenset({now}))) == "tests_vanished"


@pytest.mark.mends("F14")
def test_tests_that_a_plan_lets_go_may_be_renamed_or_moved() -> None:
    base = Outcomes(passed=frozenset({"tests.test_old::test_a", "tests.test_old::test_b"}))
    now = Outcomes(passed=frozenset({"tests.test_new::test_a"}))
    renaming = SUITE.model_copy(update={"may_vanish": ("tests.test_old::*",)})
    found = suite_results.judge_merged(renaming, ProgramExit("finished", 0), now, base)
    assert found.passed
    assert "gone, as the plan permits: 'tests.test_old::test_a', 'tests.test_old::test_b'" in found.detail
    partly = SUITE.model_copy(update={"may_vanish": ("tests.test_old::test_a",)})
    refused = suite_results.judge_merged(partly, ProgramExit("finished", 0), now, base)
    assert (refused.reason, "may_vanish" in refused.detail) == ("tests_vanished", True)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (TABLE, TABLE.replace(b"shop", b"store"), False),
        (TABLE, TABLE + b'[tool.ruff]\nselect = ["ALL"]\n', False),
        (None, b'[project]\nname = "shop"\n', False),
        (TABLE, TABLE.replace(b"-q", b"-p helper"), True),
        *((TABLE, TABLE + b"[tool." + name + b".a]\nb = 1\n", True) for name in (b"tox", b"nox", b"coverage")),
        (TABLE, None, True),
        (None, TABLE, True),
        (TABLE, b"[tool", True),
        (TABLE, b"\xff", True),
        (TABLE, b"tool = 3\n", True),
        (b"[tool", b"[tool", False),
    ],
)
def test_only_the_tables_of_tests_must_stay(before: bytes | None, after: bytes | None, changed: bool) -> None:
    assert test_runners.has_changed_settings("pyproject.toml", before, after) is changed


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "a/b/conftest.py",
        ".pytest.ini",
        "pytest.toml",
        "usercustomize.py",
        "x.dist-info/entry_points.txt",
    ],
)
def test_what_the_runner_reads_is_protected(path: str) -> None:
    assert scope.read_globs(test_runners.list_configuration("./check")).covers(path)


def test_a_command_that_is_only_run_has_a_runner_too() -> None:
    check = promise.RunCheck.model_validate({"id": "r", "kind": "run", "run": "python3 -m unittest -q"})
    assert check_results.list_shadowing_files(check) == ("unittest.py", "unittest/__init__.py")
