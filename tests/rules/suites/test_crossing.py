"""Which tests are judged in another process than the work."""

from __future__ import annotations

import pytest

from agenttalk.rules.suites import crossing
from agenttalk.rules.suites.crossing import CrossedTests
from agenttalk.rules.suites.outcomes import Outcomes

A, B, C = (f"tests/test_it.py::test_{name}" for name in "abc")


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("python -m pytest -q", True),
        ("pytest", True),
        ("PYTHONPATH=src /usr/bin/python3.12 -m unittest discover", True),
        ("python -m unittest", True),
        ("python -m coverage run -m pytest", False),
        ("python tests/run.py", False),
        ("make test", False),
        ("pytest; true", False),
        ("", False),
    ],
)
def test_only_plain_calls_of_a_runner_can_cross(command: str, runs: bool) -> None:
    assert crossing.runs_over_boundary(command) is runs


def test_tests_are_chosen_that_crossed_before_or_that_are_allowed() -> None:
    before = CrossedTests(frozenset({A}), frozenset({B, C}))
    base = Outcomes(passed=frozenset({"tests.test_it::test_a", "tests.test_it::test_b"}))
    assert crossing.choose_tests(before, {B, C}, base) == {A, C}, "b passed and did not cross"
    assert crossing.choose_tests(before, {B}, None) == {A, B}
    assert crossing.choose_tests(None, {A}, base) == frozenset(), "it was not seen whether tests cross here at all"


def test_a_failure_names_the_tests_and_the_reason() -> None:
    assert crossing.explain_failure({A}, None)
    assert not crossing.explain_failure({A}, CrossedTests(frozenset({f"{A}[1]", f"{A}[2]"})))
    assert not crossing.explain_failure({f"{A}[1]"}, CrossedTests(frozenset({f"{A}[1]"})))
    assert "test_b" in crossing.explain_failure({A, B}, CrossedTests(frozenset({A})))
    why = crossing.explain_failure({A}, CrossedTests(frozenset({A}), frozenset({B}), {B: "too deep"}))
    assert "too deep" in why
    assert "1 " in why


def test_the_hash_depends_on_what_crossed() -> None:
    hashes = {crossing.hash_crossed(each) for each in (None, CrossedTests(), CrossedTests(frozenset({A})))}
    assert len(hashes) == 3


HEAD = b'"""Tests."""\nimport pytest\nfrom prices import total, Price\n\n'


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        (b"def test_it():\n    assert total([1, 2]) == 3\n", True),
        (b"def test_it():\n    for a, b in [(1, 2)]:\n        assert total([a]) + 1 == b and not len([])\n", True),
        (b"def test_it():\n    value = total(1)\n    assert value[0] == -1\n", True),
        (b"def test_it(tmp_path):\n    assert total(1) == 1\n", False),
        (b"def test_it():\n    assert Price(1) == Price(1)\n", False),
        (b"def test_it():\n    assert total(1).amount == 1\n", False),
        (b"def test_it():\n    assert other(1) == 1\n", False),
        (b"def test_it():\n    with total(1):\n        pass\n", False),
        (b"def test_it():\n    assert total(lambda: 1) == 1\n", False),
        (b"@pytest.mark.skip\ndef test_it():\n    assert total(1) == 1\n", False),
        (b"X = total(1)\ndef test_it():\n    assert total(1) == 1\n", False),
        (b"def helper():\n    pass\n", False),
        (b"def test_it(:\n", False),
    ],
)
def test_a_test_is_allowed_that_only_calls_functions_with_plain_values(body: bytes, plain: bool) -> None:
    found = crossing.find_plain_tests("tests/test_it.py", HEAD + body)
    assert found == ({"tests/test_it.py::test_it"} if plain else frozenset())
