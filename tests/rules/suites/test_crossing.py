"""Which tests are judged in another process than the work."""

from __future__ import annotations

import pytest

from agenttalk.rules.suites import crossing
from agenttalk.rules.suites.crossing import CrossedTests
from agenttalk.rules.suites.outcomes import Outcomes

FILE = "tests/test_it.py"
A, B, C = (f"{FILE}::test_{name}" for name in "abc")


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
    before = CrossedTests(frozenset({A, B, f"{A}[1]"}))
    assert crossing.explain_failure({A}, before, None)
    assert not crossing.explain_failure({A}, before, CrossedTests(frozenset({f"{A}[1]", f"{A}[2]"})))
    assert not crossing.explain_failure({f"{A}[1]"}, before, CrossedTests(frozenset({f"{A}[1]"})))
    assert "test_b" in crossing.explain_failure({A, B}, before, CrossedTests(frozenset({A})))
    why = crossing.explain_failure({A}, before, CrossedTests(frozenset({A}), frozenset({B}), {B: "too deep"}))
    assert "too deep" in why
    assert "1 " in why


def test_a_test_that_the_command_does_not_ask_for_is_not_missed_unless_its_file_is_not_loaded() -> None:
    seen = CrossedTests(frozenset({A}))
    assert not crossing.explain_failure({A, C}, CrossedTests(frozenset({A})), seen)
    assert "test_c" in crossing.explain_failure({A, C}, None, CrossedTests(frozenset({A}), unloaded=frozenset({FILE})))
    assert not crossing.explain_failure({A, C}, None, CrossedTests(unloaded=frozenset({"tests/other.py"})))
    assert "test_c" in crossing.explain_failure({C}, None, CrossedTests(unloaded=frozenset({"test_it.py"})))


def test_tests_of_unittest_are_known_by_their_file_class_and_method() -> None:
    before = CrossedTests(frozenset({"tests.test_it.Sums.test_a"}), frozenset({"test_it.Sums.test_b", "test_c"}))
    base = Outcomes(passed=frozenset({"tests.test_it.Sums::test_a", "test_it.Sums::test_b"}))
    allowed = {f"{FILE}::Sums::test_{name}" for name in "abc"}
    assert crossing.choose_tests(before, allowed, base) == before.passed | {f"{FILE}::Sums::test_c"}


def test_the_hash_depends_on_what_crossed() -> None:
    hashes = {crossing.hash_crossed(each) for each in (None, CrossedTests(), CrossedTests(frozenset({A})))}
    assert len(hashes) == 3


HEAD = b'"""Tests."""\nimport math\nimport pytest\nimport unittest\nimport prices\nfrom prices import total, Price\n\n'


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        (b"def test_it():\n    assert total([1, 2]) == 3\n", True),
        (b"def test_it():\n    for a, b in [(1, 2)]:\n        assert total([a]) + 1 == b and not len([])\n", True),
        (b"def test_it():\n    value = total(1)\n    assert value[0] == -1\n", True),
        (b"def test_it():\n    assert prices.total([1]) == 1 and math.isclose(total(1), 1)\n", True),
        (b"def test_it():\n    with pytest.raises(ValueError, match='no'):\n        total(-1)\n", True),
        (b"def test_it():\n    assert total(1) == pytest.approx(1.0, abs=0.1)\n", True),
        (b"@pytest.mark.parametrize('a, b', [(1, 2)])\ndef test_it(a, b):\n    assert total(a) == b\n", True),
        (b"KNOWN = {'a': [1]}\ndef test_it():\n    assert [total(each) for each in KNOWN['a']] == [1]\n", True),
        (
            b"class Other:\n    pass\n\ndef test_it():\n    assert total(1) == 1\n\nif __name__ == '__main__':\n    x()\n",
            True,
        ),
        (b"def test_it():\n    with pytest.raises(Price):\n        total(-1)\n", False),
        (b"def test_it():\n    with pytest.raises(ValueError) as caught:\n        total(-1)\n", False),
        (b"def test_it():\n    with total:\n        pass\n", False),
        (b"def test_it():\n    with prices.raises(ValueError):\n        total(-1)\n", False),
        (b"def test_it():\n    assert total(1) == pytest.approx(total(1))\n", False),
        (b"def test_it():\n    assert prices.Price(1) == 1\n", False),
        (b"def test_it():\n    assert prices.total == 1\n", False),
        (b"def test_it():\n    assert total(prices) == 1\n", False),
        (b"def test_it():\n    pytest.skip('no')\n", False),
        (b"@pytest.mark.parametrize('a', total(1))\ndef test_it(a):\n    assert total(a) == a\n", False),
        (b"@pytest.mark.parametrize('a', [1], ids=['x'])\ndef test_it(a):\n    assert total(a) == a\n", False),
        (b"def test_it(*more):\n    assert total(1) == 1\n", False),
        (b"if prices.X:\n    pass\ndef test_it():\n    assert total(1) == 1\n", False),
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


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        ("self.assertEqual(total(1), 1)", True),
        ("self.assertAlmostEqual(total(1), 1.5, places=2)", True),
        ("self.assertRaises(ValueError, total, -1)", True),
        ("with self.assertRaises(ValueError):\n            prices.total(-1)", True),
        ("self.assertRaises(Price, total, -1)", False),
        ("self.assertRaises(ValueError)", False),
        ("self.assertIs(total(1), None)", False),
        ("self.skipTest('no')", False),
    ],
)
def test_a_test_of_unittest_is_allowed_likewise(body: str, plain: bool) -> None:
    text = f"class Sums(unittest.TestCase):\n    def test_it(self):\n        {body}\n"
    found = crossing.find_plain_tests(FILE, HEAD + text.encode())
    assert found == ({f"{FILE}::Sums::test_it"} if plain else frozenset())


@pytest.mark.parametrize(
    "head",
    [
        "class Sums(Base):\n",
        "@total\nclass Sums(unittest.TestCase):\n",
        "class Sums(unittest.TestCase, metaclass=Price):\n",
        "class Sums(unittest.TestCase):\n    def setUp(self):\n        total(1)\n\n",
        "class Sums(unittest.TestCase):\n    value = total(1)\n\n",
        "class Sums(unittest.TestCase):\n    class Inner:\n        pass\n\n",
    ],
)
def test_a_class_that_does_more_than_hold_tests_is_not_allowed(head: str) -> None:
    text = f"{head}    def test_it(self):\n        self.assertEqual(total(1), 1)\n"
    assert not crossing.find_plain_tests(FILE, HEAD + text.encode())
