"""Suites whose tests are judged in another process than the work: what crosses passes, and cheats do not."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.checking.bench import PYTEST, Bench
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.rules.proof.evidence import CheckResult

CALC = """
class CalcError(ValueError):
    pass

class Point:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return isinstance(other, Point) and self.x == other.x
    def __hash__(self):
        return hash(self.x)
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
"""
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
    assert Far(1).moved().x == 4
@pytest.mark.parametrize("point", [Point(1), Point(2)])
def test_objects_of_the_collection(point):
    assert point.moved().x == point.x + 1
def test_replaced(monkeypatch):
    monkeypatch.setattr(calc, "add", lambda a, b: 7)
    assert calc.add(1, 2) == 7
def test_printed(capsys):
    calc.__builtins__["print"]("hello")
    assert capsys.readouterr().out == "hello\\n"
"""
ADDS = "from calc import add\n\ndef test_adds():\n    assert add(2, 3) == 5\n"


def facts(**more: Any) -> CheckFacts:
    return CheckFacts(tree="sha256:t", protected=("tests/test_calc.py",), **more)


def judge(boxed: Bench, work: str, suite: str = ADDS, **fields: Any) -> CheckResult:
    (boxed.checkout / "tests").mkdir(exist_ok=True)
    (boxed.checkout / "calc.py").write_text(work)
    (boxed.checkout / "tests/test_calc.py").write_text(suite)
    known = fields.pop("facts", None) or facts()
    return boxed.suite(f"{PYTEST} -p no:cacheprovider", known, **{"boundary": "process", **fields})


def test_a_suite_of_many_kinds_of_tests_passes_over_the_boundary(boxed: Bench) -> None:
    result = judge(boxed, CALC, SUITE)
    assert result.passed, (result.reason, result.detail, result.output)
    assert "11 of 11 tests were judged in another process" in result.detail
