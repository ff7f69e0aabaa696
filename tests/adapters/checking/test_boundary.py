"""Suites whose tests are judged in another process than the work: what crosses passes, and cheats do not."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from adapters.checking.bench import PYTEST, Bench, check
from adapters.checking.boundary_cheats import CHEATS
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.contracts.core import wire
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.suites.crossing import CrossedTests
from agenttalk.rules.suites.outcomes import Outcomes

CALC = """
import asyncio
import io
import logging
from typing import NamedTuple

class CalcError(ValueError):
    pass

class Point:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return isinstance(other, Point) and self.x == other.x
    def __hash__(self):
        return hash(self.x)
    def __str__(self):
        return f"at {self.x}"
    def moved(self, by=1):
        return Point(self.x + by)

def add(a, b):
    return a + b
def fail(what):
    raise CalcError("no " + what)
def apply(function, value):
    return function(value)
def count(end):
    yield from range(end)
def append(values):
    values.append(5)

async def later(value):
    await asyncio.sleep(0)
    return value
async def await_it(function):
    return await function()
async def count_later(end):
    for number in range(end):
        yield number
class Door:
    async def __aenter__(self):
        return self
    async def __aexit__(self, *args):
        return False
def note(name):
    logging.getLogger("calc").debug("got %s", name, extra={"size": 3})

class Pair(NamedTuple):
    left: int
    right: int

class Size(NamedTuple):
    width: int
    height: int

WIDE = Size(9, 1)
def read(stream):
    if isinstance(stream, (io.TextIOBase, io.BufferedIOBase)):
        return stream.read()
def find_wide():
    return WIDE
"""
PYTHON = sys.executable
SUITE = """
import pytest
import calc
from calc import *

def test_values():
    assert add(1, 2) == 3 and add([1], [2]) == [1, 2] and add("a", "b") == "ab"
def test_errors():
    with pytest.raises(CalcError, match="no luck"):
        fail("luck")
def test_objects():
    assert Point(2) == Point(1).moved() and Point(2) != Point(3) and isinstance(Point(1), Point)
def test_named_tuples_of_two_classes():
    assert WIDE is find_wide() and WIDE is not Size(9, 1)
    assert Pair(1, 2) == Size(1, 2) == (1, 2) and Pair(1, 2) != Size(2, 1)
def test_callbacks():
    assert apply(lambda value: value * 2, 4) == 8
def test_generators():
    assert list(count(3)) == [0, 1, 2]
def test_changed_arguments():
    values = [1]
    append(values)
    assert values == [1, 5]
def test_subclasses():
    class Far(Point):
        def __init__(self, x):
            super().__init__(x + 1)
        def moved(self, by=1):
            return super().moved(by + 1)
        def __str__(self):
            return "far " + super().__str__()
        def __repr__(self):
            return "far " + super().__repr__()
    assert Far(1).moved().x == 4
    assert str(Far(1)) == "far at 2" and repr(Far(1)).startswith("far <")
@pytest.mark.parametrize("point", [Point(1), Point(2)])
def test_objects_of_the_collection(point):
    assert point.moved().x == point.x + 1
def test_replaced(monkeypatch):
    monkeypatch.setattr(calc, "add", lambda a, b: 7)
    assert calc.add(1, 2) == 7
def test_coroutines():
    import asyncio
    async def own():
        return 4
    async def all_of_them():
        async with Door():
            return [await later(3), await await_it(own), [number async for number in count_later(2)]]
    assert asyncio.run(all_of_them()) == [3, 4, [0, 1]]
    assert asyncio.run(later(2)) == 2
def test_logged(caplog):
    note("nothing")
    caplog.set_level("DEBUG", logger="calc")
    note("it")
    assert caplog.record_tuples == [("calc", 10, "got it")] and caplog.records[0].size == 3
def test_streams():
    import io
    assert [read(io.StringIO("a\\nb")), read(io.BytesIO(b"a")), read(5)] == ["a\\nb", b"a", None]
def test_printed(capsys):
    calc.__builtins__["print"]("hello")
    assert capsys.readouterr().out == "hello\\n"
"""
ADDS = "from calc import add\n\ndef test_adds():\n    assert add(2, 3) == 5\n"
LOADS = """
def test_{name}():
    import cheat_{name} as work
    for key in dir(work):
        if not key.startswith("__"): globals()[key] = getattr(work, key)
"""


def facts(**more: Any) -> CheckFacts:
    return CheckFacts(tree="sha256:t", protected=("tests/test_calc.py",), **more)


def put(boxed: Bench, files: dict[str, str]) -> None:
    for path, text in files.items():
        (boxed.checkout / path).parent.mkdir(exist_ok=True)
        (boxed.checkout / path).write_text(text)


def judge(boxed: Bench, work: str, suite: str = ADDS, **fields: Any) -> CheckResult:
    (boxed.checkout / "tests").mkdir(exist_ok=True)
    (boxed.checkout / "calc.py").write_text(work)
    (boxed.checkout / "tests/test_calc.py").write_text(suite)
    known = fields.pop("facts", None) or facts()
    return boxed.suite(f"{PYTEST} -p no:cacheprovider", known, **{"boundary": "process", **fields})


def test_a_suite_of_many_kinds_of_tests_passes_over_the_boundary(boxed: Bench) -> None:
    result = judge(boxed, CALC, SUITE)
    assert result.passed, (result.reason, result.detail, result.output)
    assert "15 of 15 tests were judged in another process" in result.detail


def test_cheats_do_not_pass_over_the_boundary(boxed: Bench) -> None:
    lines = ["def test_honest():\n    from honest import add\n    assert add(2, 3) == 5\n"]
    (boxed.checkout / "honest.py").write_text("def add(a, b): return a + b\n")
    for name, (work, body) in CHEATS.items():
        (boxed.checkout / f"cheat_{name}.py").write_text(work)
        lines.append(LOADS.format(name=name) + indent(body, "    ") + "\n")
    for name in ("conftest.py", "_boundary.py", "sitecustomize.py", "tests/conftest.py"):
        (boxed.checkout / name).parent.mkdir(exist_ok=True)
        (boxed.checkout / name).write_text("import os\nos._exit(0)\n")
    result = judge(boxed, "", "\n".join(lines))
    assert result.crossed is not None
    assert len(CHEATS) > 50
    known = result.crossed.passed | result.crossed.other
    assert {name.rpartition("test_")[2] for name in result.crossed.passed} == {"honest"}, result.output
    assert len(known) == len(CHEATS) + 1


LIE = "class Equal:\n    def __eq__(self, other): return True\ndef add(a, b): return Equal()\n"


def test_tests_that_the_work_is_asked_for_are_judged_beside_it(boxed: Bench) -> None:
    put(boxed, {"calc.py": CALC, "tests/test_calc.py": ADDS, "tests/test_new.py": ADDS})
    known = facts(crossed=CrossedTests(), base=Outcomes())
    result = boxed.suite(f"{PYTEST} -p no:cacheprovider tests/test_new.py", known, boundary="auto", made_by_work=True)
    assert result.passed, (result.reason, result.detail)
    refused = boxed.suite(f"{PYTEST} -p no:cacheprovider tests/test_new.py", known, boundary="auto")
    assert refused.reason == "boundary", "a protected test was to be judged, and was not"


def test_only_tests_that_crossed_before_are_judged_so_and_no_honest_suite_is_refused(boxed: Bench) -> None:
    version = "class Version:\n    def __init__(self, text): self.parts = text.split('.')\n"
    version += "    def __eq__(self, other): return str(other) in ('.'.join(self.parts), 'any')\n"
    suite = "from calc import *\ndef test_own():\n    assert Version('1.2') == 'any'\ndef test_adds(tmp_path):\n    assert add(2, 3) == 5\n"
    honest = version + "def add(a, b): return a + b\n"
    base = judge(boxed, honest, suite, boundary="auto", facts=facts(before_work=True))
    assert base.passed
    assert base.crossed is not None
    assert base.crossed.passed == {"tests/test_calc.py::test_adds"}
    known = facts(base=base.tests, base_source=base.source, crossed=base.crossed)
    again = judge(boxed, honest, suite, boundary="auto", facts=known)
    assert again.passed, again.detail
    assert "1 of 2 tests were judged in another process" in again.detail
    cheat = judge(boxed, version + LIE, suite, boundary="auto", facts=known)
    assert (cheat.passed, cheat.reason) == (False, "boundary")
    assert "test_adds" in cheat.detail
    assert judge(boxed, version + LIE, suite, boundary="off", facts=known).passed


@pytest.mark.rest
def test_tests_that_must_turn_green_are_judged_so_if_their_source_allows_it(boxed: Bench) -> None:
    base = judge(boxed, "def add(a, b): return 0\n", boundary="auto", facts=facts(before_work=True))
    assert not base.passed
    known = facts(base=base.tests, base_source=base.source, crossed=base.crossed)
    good = judge(boxed, "def add(a, b): return a + b\n", boundary="auto", facts=known)
    assert good.passed, good.detail
    assert "1 of 1 tests were judged in another process" in good.detail
    assert judge(boxed, LIE, boundary="auto", facts=known).reason == "boundary"


@pytest.mark.rest
def test_the_program_pytest_finds_the_work_at_the_top_of_the_repository(boxed: Bench) -> None:
    """It puts the folder of a test on the path only while it collects, long after the worker was first asked."""
    put(boxed, {"test_calc.py": ADDS, "calc.py": "def add(a, b): return 0\n"})
    command = f"{Path(PYTHON).with_name('pytest')} -p no:cacheprovider"
    early = CheckFacts(tree="sha256:t", protected=("test_calc.py",), before_work=True)
    base = boxed.suite(command, early, boundary="auto")
    assert not base.passed
    put(boxed, {"calc.py": "def add(a, b): return a + b\n"})
    known = CheckFacts(
        tree="sha256:t", protected=("test_calc.py",), base=base.tests, base_source=base.source, crossed=base.crossed
    )
    result = boxed.suite(command, known, boundary="auto")
    assert result.passed, result.detail
    assert "1 of 1 tests were judged in another process" in result.detail


OTHER = "from calc import sub\n\ndef test_subtracts():\n    assert sub(2, 3) == -1\n"


@pytest.mark.rest
def test_a_test_that_the_command_leaves_out_is_not_asked_for(boxed: Bench) -> None:
    put(boxed, {"tests/test_other.py": OTHER, "calc.py": "def add(a, b): return 0\n", "tests/test_calc.py": ADDS})
    protected = ("tests/test_calc.py", "tests/test_other.py")
    command = f"{PYTEST} -p no:cacheprovider tests/test_calc.py"
    base = boxed.suite(command, CheckFacts(tree="sha256:t", protected=protected, before_work=True), boundary="auto")
    put(boxed, {"calc.py": "def add(a, b): return a + b\n"})
    known = CheckFacts(
        tree="sha256:t", protected=protected, base=base.tests, base_source=base.source, crossed=base.crossed
    )
    result = boxed.suite(command, known, boundary="auto")
    assert result.passed, result.detail
    assert "1 of 1 tests were judged in another process" in result.detail


@pytest.mark.rest
def test_a_file_of_the_check_is_a_test_under_any_name(boxed: Bench) -> None:
    put(boxed, {"calc.py": "def add(a, b): return 0\n", "tests/test_calc.py": ADDS, "unseen_checks.py": ADDS})
    files = {"unseen_checks.py": wire.sha256(ADDS.encode())}
    command = f"{PYTEST} -p no:cacheprovider unseen_checks.py"
    fields: dict[str, Any] = {"boundary": "auto", "files": [*files]}
    base = boxed.suite(command, facts(before_work=True, files=files), **fields)
    put(boxed, {"calc.py": "def add(a, b): return a + b\n"})
    known = facts(base=base.tests, base_source=base.source, crossed=base.crossed, files=files)
    result = boxed.suite(command, known, **fields)
    assert result.passed, result.detail
    reading = "import pathlib\nassert not pathlib.Path('unseen_checks.py').read_text()\ndef add(a, b): return a + b\n"
    put(boxed, {"calc.py": reading})
    across = boxed.suite(command, known, **{**fields, "boundary": "process"})
    assert across.passed, across.detail


@pytest.mark.rest_but("in a file")
@pytest.mark.parametrize(
    ("more", "why"),
    [({}, "test_adds"), ({"tests/conftest.py": "import calc\n"}, "did not report any")],
    ids=["in a file", "in the settings of all"],
)
def test_work_that_cannot_be_loaded_over_the_boundary_does_not_pass(
    boxed: Bench, more: dict[str, str], why: str
) -> None:
    """The work sees that its tests are not in its process, and breaks what loads it, so that no test is judged."""
    put(boxed, more)
    protected = ("tests/test_calc.py", *more)
    base = judge(
        boxed,
        "def add(a, b): return 0\n",
        boundary="auto",
        facts=CheckFacts(tree="sha256:t", protected=protected, before_work=True),
    )
    known = CheckFacts(
        tree="sha256:t", protected=protected, base=base.tests, base_source=base.source, crossed=base.crossed
    )
    cheat = "import sys\nif not any(name.startswith('_pytest') for name in sys.modules):\n    raise OSError\n" + LIE
    result = judge(boxed, cheat, boundary="auto", facts=known)
    assert (result.passed, result.reason) == (False, "boundary")
    assert why in result.detail, result.detail


@pytest.mark.rest
def test_red_tests_of_unittest_are_judged_so_as_well(boxed: Bench) -> None:
    suite = "import unittest\nfrom calc import add\nclass AddTest(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(2, 3), 5)\n"
    put(boxed, {"tests/test_calc.py": suite, "calc.py": "def add(a, b): return 0\n"})
    made = check("run", run=f"{PYTHON} -m unittest discover -s tests", boundary="auto")
    base = boxed.make(made, facts(before_work=True))
    known = facts(base=base.tests, base_source=base.source, crossed=base.crossed)
    for work, passed in (
        (CALC, True),
        (LIE, False),
        (f"import sys\nif '_boundary' in repr(sys.modules): exit(0)\n{LIE}", False),
    ):
        put(boxed, {"calc.py": work})
        result = boxed.make(made, known)
        assert result.passed is passed, (work, result.detail, result.output)
        if passed:
            assert "1 of 1 tests were judged in another process" in result.detail


def test_a_folder_with_an_odd_name_and_a_python_below_tmp_are_as_good_as_any(boxed: Bench, tmp_path: Path) -> None:
    odd = Bench(tmp_path / 'it\'s "odd" & $HOME', boxed.tier)
    odd.checkout.mkdir(parents=True)
    temporary, programs = odd.path / "for a while", tmp_path / "env/bin"
    temporary.mkdir()
    programs.mkdir(parents=True)
    (programs / "python3").symlink_to(os.path.realpath(PYTHON))
    path = f"{programs}:{odd.context.path}"
    odd = replace(odd, context=replace(odd.context, temporary=temporary, path=path, readable=()))
    suite = "import unittest\nfrom calc import add\nclass AddTest(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(2, 3), 5)\n"
    put(odd, {"tests/test_calc.py": suite, "calc.py": "def add(a, b): return 0\n"})
    made = check("run", run="python3 -m unittest discover -s tests", boundary="auto")
    base = odd.make(made, facts(before_work=True))
    put(odd, {"calc.py": CALC})
    result = odd.make(made, facts(base=base.tests, base_source=base.source, crossed=base.crossed))
    assert result.passed, (result.detail, result.output)
    assert "1 of 1 tests were judged in another process" in result.detail
    own_path = check("run", run="PYTHONPATH=. python3 -m unittest discover -s tests")
    assert odd.make(own_path, facts()).passed
    assert list(temporary.iterdir()) == []


@pytest.mark.rest
def test_suites_of_unittest_cross_the_boundary(boxed: Bench) -> None:
    suite = "import unittest\nfrom calc import add\nclass AddTest(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(2, 3), 5)\n"
    (boxed.checkout / "tests").mkdir()
    (boxed.checkout / "tests/test_calc.py").write_text(suite)
    for work, passed in ((CALC, True), (LIE, False)):
        (boxed.checkout / "calc.py").write_text(work)
        command = f"{PYTHON} -m unittest discover -s tests"
        result = boxed.make(check("run", run=command, boundary="process"), facts())
        assert result.passed is passed, result.output
        assert result.crossed is not None
        assert len(result.crossed.passed) == passed


@pytest.mark.rest
def test_a_worker_that_cannot_start_says_why_at_once(boxed: Bench) -> None:
    """The judge's interpreter lies among the tests, which the worker does not see."""
    put(boxed, {"calc.py": "def add(a, b): return a + b\n", "tests/test_calc.py": ADDS})
    shutil.copy(os.path.realpath(PYTHON), boxed.checkout / "tests/python3")
    env = {"PYTHONHOME": sys.base_prefix, "PYTHONPATH": str(Path(pytest.__file__).parents[1])}
    run = "tests/python3 -m pytest -q -p no:cacheprovider"
    known = CheckFacts(tree="sha256:t", protected=("tests/test_calc.py", "tests/python3"))
    result = boxed.make(check("run", run=run, env=env, boundary="process", timeout=50), known)
    assert (result.passed, result.reason) == (False, "boundary")
    assert "the process that runs the work has ended" in result.detail
    assert "not found" in result.detail


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"run": "make test", "junit": "r.xml"}, "plain call of pytest or unittest"),
        ({"run": f"{PYTEST} -q"}, "no test is protected"),
    ],
)
def test_a_suite_that_cannot_cross_does_not_pass_where_it_must(boxed: Bench, fields: Any, why: str) -> None:
    result = boxed.make(check("tests", **fields, boundary="process"), CheckFacts(tree="sha256:t"))
    assert (result.passed, result.reason) == (False, "boundary")
    assert why in result.detail


def test_without_a_sandbox_nothing_crosses(plain: Bench) -> None:
    result = judge(plain, CALC)
    assert (result.passed, result.reason) == (False, "boundary")
    assert "bubblewrap" in result.detail
    assert judge(plain, CALC, boundary="auto").passed
