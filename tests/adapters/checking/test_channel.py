"""Test runners report to the engine while they run, so code under test that ends or rewrites them gains nothing."""

from __future__ import annotations

import sys

import pytest

from adapters.checking.bench import Bench, check
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.suites.outcomes import Outcomes
from kits.provekit import PYTEST_ALONE

SUITE = "from work import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n\ndef test_none():\n    assert total([]) == 0\n"
HONEST = "def total(prices):\n    return sum(prices)\n"
TOTAL, NONE = "test_work::test_total", "test_work::test_none"
BASE = Outcomes(passed=frozenset({NONE}), failed=frozenset({TOTAL}))
WRONG = "def total(prices):\n    return 0\n"
FORGED = f"""
import atexit, glob, os
def forge():
    cases = "".join(f'<testcase classname="test_work" name="{{name}}"/>' for name in ("test_total", "test_none"))
    open("r.xml", "w").write("<testsuite>" + cases + "</testsuite>")
    os._exit(0)
atexit.register(forge)
{WRONG}"""
CHEATS: dict[str, tuple[str, str]] = {
    "exits while it is imported": ("import os\nos._exit(0)\n", "channel_cut"),
    "raises SystemExit while it is imported": ("import sys\nsys.exit(0)\n", "tests_none"),
    "exits in a thread": (
        (
            "import os, threading, time\nthreading.Timer(0.05, os._exit, [0]).start()\n"
            "def total(prices):\n    time.sleep(60)\n"
        ),
        "channel_cut",
    ),
    "exits in the function under test": ("import os\ndef total(prices):\n    os._exit(0)\n", "channel_cut"),
    "forges the report when the runner ends": (FORGED, "tests_failed"),
    "ends with another code": (f"import atexit, os\natexit.register(os._exit, 0)\n{WRONG}", "tests_failed"),
    "rewrites what reports say": (
        f"import _pytest.reports as r\nr.TestReport.outcome = property(lambda s: 'passed', lambda s, v: None)\n{WRONG}",
        "harness_tampered",
    ),
    "hides what was raised": (
        (
            "import _pytest.runner as r\nfirst = r.CallInfo.from_call.__func__\ndef call(cls, *args, **keys):\n"
            "    info = first(cls, *args, **keys)\n    info.excinfo = None\n    return info\n"
            f"r.CallInfo.from_call = classmethod(call)\n{WRONG}"
        ),
        "harness_tampered",
    ),
    "skips from the function under test": (
        "import pytest\ndef total(prices):\n    pytest.skip('slow')\n",
        "tests_none",
    ),
    "takes tests away while it is imported": (
        (
            "import _pytest.python as p\nfirst = p.PyCollector.collect\n"
            "p.PyCollector.collect = lambda self: [each for each in first(self) if each.name != 'test_total']\n" + WRONG
        ),
        "tests_vanished",
    ),
    "takes tests away before they run": (
        (
            "import gc, _pytest.main as m\nfirst = m.Session.perform_collect\n"
            "import _pytest.runner as r\nrun = r.runtestprotocol\n"
            "def once(item, **keys):\n    item.session.items[:] = item.session.items[:1]\n    return run(item, **keys)\n"
            f"r.runtestprotocol = once\n{WRONG.replace('0', 'sum(prices)')}"
        ),
        "tests_unreported",
    ),
    "writes to the channel itself": (
        (
            "import os\nfor name in os.listdir('/proc/self/fd'):\n    if int(name) >= 400:\n"
            "        os.write(int(name), b'\\0\\0\\0\\4[[[[')\n" + HONEST
        ),
        "channel_garbled",
    ),
}
ENOUGH = ("exits while it is imported", "forges the report when the runner ends", "rewrites what reports say")


def judged(
    bench: Bench, work: str, *, run: str = PYTEST_ALONE, kind: str = "tests", base: Outcomes | None = BASE
) -> CheckResult:
    (bench.checkout / "test_work.py").write_text(SUITE)
    (bench.checkout / "work.py").write_text(work)
    facts = CheckFacts(tree="sha256:t", base=base, base_source="channel" if base is not None else "")
    return bench.make(check(kind, run=run), facts)


@pytest.mark.rest_but("plain", "boxed")
def test_a_suite_needs_no_report_where_its_runner_reports_to_the_engine(bench: Bench) -> None:
    result = judged(bench, HONEST)
    assert (result.passed, result.source, result.detail) == (True, "channel", "2 passed")
    assert result.tests == Outcomes(passed=frozenset({TOTAL, NONE}))
    assert sorted(path.name for path in bench.checkout.iterdir() if path.name != "__pycache__") == [
        "test_work.py",
        "work.py",
    ]


@pytest.mark.rest_but(*ENOUGH)
@pytest.mark.parametrize("cheat", CHEATS)
def test_code_that_ends_or_rewrites_its_runner_does_not_pass(boxed: Bench, cheat: str) -> None:
    work, reason = CHEATS[cheat]
    result = judged(boxed, work)
    assert (result.passed, result.reason, result.source) == (False, reason, "channel")


@pytest.mark.rest_but("exits while it is imported")
@pytest.mark.parametrize(
    "cheat", ["exits while it is imported", "ends with another code", "skips from the function under test"]
)
def test_a_command_that_only_has_to_succeed_is_judged_by_its_tests_too(boxed: Bench, cheat: str) -> None:
    result = judged(boxed, CHEATS[cheat][0], kind="run")
    assert (result.passed, result.exit_code, result.source) == (False, 0, "channel")
    assert judged(boxed, HONEST, kind="run").passed


def test_a_runner_inside_a_command_reports_too(boxed: Bench) -> None:
    (boxed.checkout / "Makefile").write_text(f"test:\n\t{PYTEST_ALONE}\n")
    result = judged(boxed, HONEST, run="make -s test", kind="run", base=None)
    assert (result.passed, result.source, result.tests) == (True, "channel", Outcomes(passed=frozenset({TOTAL, NONE})))
    assert (
        judged(boxed, CHEATS["exits while it is imported"][0], run="make -s test", kind="run").reason == "channel_cut"
    )


@pytest.mark.rest
@pytest.mark.parametrize(
    ("run", "source"),
    [
        (PYTEST_ALONE.replace(" -m", " -I -m").replace("-p", "--rootdir=. -p", 1), "exit-code only"),
        (f"PYTHONPATH=. {PYTEST_ALONE}", "channel"),
        (f"env -i PATH=$PATH {PYTEST_ALONE}", "exit-code only"),
        (f"PYTEST_PLUGINS= {PYTEST_ALONE}", "channel"),
        (f"cd . && {PYTEST_ALONE} -x", "channel"),
    ],
)
def test_honest_commands_in_odd_shapes_pass(plain: Bench, run: str, source: str) -> None:
    (plain.checkout / "conftest.py").write_text("import sys\nsys.path.insert(0, '.')\n")
    result = judged(plain, HONEST, run=run, kind="run", base=None)
    assert (result.passed, result.source) == (True, source)


ODD = """
import os, subprocess, sys, unittest
import pytest

@pytest.mark.parametrize("text", ["a::b", "[", "]", "é", "\\ud800", "\\0", " x ", "/"])
def test_text(text): pass

@pytest.mark.xfail(reason="not yet")
def test_later(): assert False

class TestCase(unittest.TestCase):
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertEqual(number, number)

    @unittest.skip("no")
    def test_skipped(self): pass

def test_fork():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)

def test_runs_pytest_itself(tmp_path):
    (tmp_path / "test_bad.py").write_text("def test_bad(): assert False")
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", str(tmp_path)], capture_output=True)
    assert ran.returncode == 1

def test_closes_descriptors():
    child = os.fork()
    if not child:
        os.closerange(3, 4096)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.rest
def test_an_honest_suite_with_odd_tests_passes(boxed: Bench) -> None:
    (boxed.checkout / "test_work.py").write_text(ODD)
    result = boxed.make(check("tests", run=PYTEST_ALONE, junit="r.xml"))
    assert (result.passed, result.reason, result.detail) == (True, "", "12 passed, 2 skipped")
    assert result.tests is not None
    reported = boxed.make(check("tests", run=f"cd . && {PYTEST_ALONE} --junitxml=r.xml", junit="r.xml"))
    assert reported.tests == result.tests  # the names of both are the same


@pytest.mark.rest
@pytest.mark.parametrize("options", ["-n 2", "-p random_order", "--maxfail=1", "-k total"])
def test_plugins_and_options_of_a_project_leave_the_report_whole(plain: Bench, options: str) -> None:
    if options == "-p random_order":
        (plain.checkout / "random_order.py").write_text(
            "def pytest_collection_modifyitems(items):\n    items.reverse()\n"
        )
    run = PYTEST_ALONE if "-n" not in options else PYTEST_ALONE.partition(" -p no:anyio")[0]
    result = judged(plain, HONEST, run=f"PYTHONPATH=. {run} {options}", base=None)
    assert (result.passed, result.source) == (True, "channel")
    assert TOTAL in (result.tests or Outcomes()).passed


def test_a_run_that_stops_at_the_first_failure_knows_what_it_was_going_to_run(plain: Bench) -> None:
    result = judged(plain, WRONG, run=f"{PYTEST_ALONE} -x", base=None)
    assert (result.passed, result.reason) == (False, "tests_failed")


def test_what_the_engine_brings_is_gone_when_a_check_is_over(plain: Bench) -> None:
    result = judged(
        plain,
        "import os, sys\nprint('seen', os.environ.get('PYTHONPATH'), os.environ.get('PYTEST_PLUGINS'))\n" + HONEST,
        run=f"{PYTEST_ALONE} -s",
    )
    assert result.passed
    assert "seen None None" in result.output


UNITTEST = f"{sys.executable} -m unittest -q"
CASES = """
import unittest
from work import total

class PriceTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)

    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertEqual(number, number)

    @unittest.skip("needs port 80")
    def test_port(self): pass

    @unittest.expectedFailure
    def test_later(self): self.fail()

class DatabaseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise unittest.SkipTest("no database")
    def test_rows(self): pass

class LoopTest(unittest.IsolatedAsyncioTestCase):
    async def test_loop(self): self.assertEqual(total([2]), 2)
"""
UNITTEST_CHEATS: dict[str, tuple[str, str]] = {
    "exits while it is imported": (CHEATS["exits while it is imported"][0], "channel_cut"),
    "forges the end": (f"import atexit, os\natexit.register(os._exit, 0)\n{WRONG}", "tests_failed"),
    "forgets failures": (
        f"import unittest as u\nu.TestResult.addFailure = u.TextTestResult.addFailure = lambda *a: None\n{WRONG}",
        "tests_failed",
    ),
    "runs nothing": (
        f"import unittest.suite as s\ns.TestSuite.run = lambda self, result, debug=False: result\n{WRONG}",
        "tests_unreported",
    ),
    "patches an assertion": (
        f"import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n{WRONG}",
        "harness_tampered",
    ),
}
PYTEST_PATCHES = {
    "runs no function": f"import _pytest.python as p\np.Function.runtest = lambda self: None\n{WRONG}",
    "registers a plugin": f"""
import gc, pytest
from _pytest.config import PytestPluginManager
class Patch:
    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem): return True
[manager] = [each for each in gc.get_objects() if isinstance(each, PytestPluginManager)][:1]
manager.register(Patch())
{WRONG}""",
}
TOUCHED = CheckFacts(tree="sha256:t", changed=("work.py",))


def test_unittest_reports_to_the_engine_too(plain: Bench) -> None:
    (plain.checkout / "test_work.py").write_text(CASES)
    (plain.checkout / "work.py").write_text(HONEST)
    result = plain.make(check("tests", run=UNITTEST), TOUCHED)
    assert (result.passed, result.source, result.detail) == (True, "channel", "3 passed, 3 skipped, canaries held")
    assert result.tests is not None
    assert "test_work.PriceTest::test_total" in result.tests.passed
    assert dict(result.tests.whys)["test_work.DatabaseTest::test_rows"] == "no database"


@pytest.mark.rest_but("patches an assertion")
@pytest.mark.parametrize("cheat", UNITTEST_CHEATS)
def test_code_that_ends_or_patches_unittest_does_not_pass(boxed: Bench, cheat: str) -> None:
    work, reason = UNITTEST_CHEATS[cheat]
    (boxed.checkout / "test_work.py").write_text(CASES)
    (boxed.checkout / "work.py").write_text(work)
    result = boxed.make(check("run", run=UNITTEST), TOUCHED)
    assert (result.passed, result.reason, result.source) == (False, reason, "channel")


@pytest.mark.rest_but("runs no function")
@pytest.mark.parametrize("patch", PYTEST_PATCHES)
def test_canaries_show_that_a_runner_was_patched(boxed: Bench, patch: str) -> None:
    (boxed.checkout / "test_work.py").write_text(SUITE)
    (boxed.checkout / "work.py").write_text(PYTEST_PATCHES[patch])
    result = boxed.make(check("tests", run=PYTEST_ALONE), TOUCHED)
    assert (result.passed, result.reason) == (False, "harness_tampered")
    (boxed.checkout / "work.py").write_text(HONEST)
    assert boxed.make(check("tests", run=PYTEST_ALONE), TOUCHED).detail == "2 passed, canaries held"


@pytest.mark.rest
def test_canaries_that_cannot_run_at_all_refuse_nothing(plain: Bench) -> None:
    (plain.checkout / "test_work.py").write_text(SUITE)
    (plain.checkout / "work.py").write_text(HONEST)
    plugin = "import pytest\ndef pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'total' in i.name]\n"
    (plain.checkout / "odd.py").write_text(plugin)
    result = plain.make(check("tests", run=f"PYTEST_PLUGINS=odd {PYTEST_ALONE}"), TOUCHED)
    assert result.passed
    assert "without canaries" in result.detail
