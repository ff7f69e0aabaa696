"""Which tests are judged in another process than the work."""

from __future__ import annotations

import pytest

from agenttalk.rules.suites import crossing
from agenttalk.rules.suites.crossing import CandidateTests, CrossedTests
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
    assert crossing.choose_tests(before, {B, C}, base) == CandidateTests(frozenset({A}), frozenset({C})), (
        "b passed and did not cross"
    )
    assert crossing.choose_tests(before, {B}, None) == CandidateTests(frozenset({A}), frozenset({B}))
    assert crossing.choose_tests(None, {A}, base) == CandidateTests(), "it was not seen whether tests cross here at all"


def test_a_test_that_did_not_cross_is_known_by_the_name_that_its_runner_gives_it() -> None:
    names = {"src.tests.test_it.Case.test_b", "src.tests.test_it.Case.test_c"}
    before = CrossedTests(frozenset(), frozenset({"test_it.Case.test_b", "test_it.Case.test_c"}))
    base = Outcomes(passed=frozenset({"test_it.Case::test_b"}), failed=frozenset({"test_it.Case::test_c"}))
    assert crossing.choose_tests(before, names, base).allowed == {"src.tests.test_it.Case.test_c"}


def test_a_failure_names_the_tests_and_the_reason() -> None:
    assert crossing.explain_failure(CandidateTests(frozenset({A})), None)
    assert crossing.explain_failure(CandidateTests(), CrossedTests(whole=False)), "its runner did not come to its end"
    assert not crossing.explain_failure(CandidateTests(frozenset({f"{A}[1]"})), CrossedTests(frozenset({f"{A}[1]"})))
    assert "test_b" in crossing.explain_failure(CandidateTests(frozenset({A, B})), CrossedTests(frozenset({A})))
    why = crossing.explain_failure(
        CandidateTests(frozenset({A})), CrossedTests(frozenset({A}), frozenset({B}), {B: "too deep"})
    )
    assert "too deep" in why
    assert "1 " in why


@pytest.mark.parametrize(
    ("allowed", "broken", "refused"),
    [
        (A, "", False),
        (A, "tests/test_it.py", True),
        (A, "test_it.py", True),
        (A, "st_it.py", False),
        (A, "tests/test_other.py", False),
        ("tests.test_it.Case.test_a", "test_it", True),
        ("tests.test_it.Case.test_a", "tests.test_it", True),
        ("tests.test_it.Case.test_a", "it", False),
    ],
)
def test_an_allowed_test_need_not_run_unless_its_file_cannot_be_loaded(
    allowed: str, broken: str, refused: bool
) -> None:
    seen = CrossedTests(broken=frozenset({broken} - {""}))
    assert bool(crossing.explain_failure(CandidateTests(allowed=frozenset({allowed})), seen)) is refused


def test_the_hash_depends_on_what_crossed() -> None:
    hashes = {crossing.hash_crossed(each) for each in (None, CrossedTests(), CrossedTests(frozenset({A})))}
    assert len(hashes) == 3


HEAD = b'"""Tests."""\nimport math\nimport os\nimport pytest\nimport shop\nfrom prices import total, Price\n'
HEAD += b"from subprocess import run\nLIMITS = [1, -2]\n\n"


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        (b"def test_it():\n    assert total([1, 2]) == 3\n", True),
        (b"def test_it():\n    for a, b in [(1, 2)]:\n        assert total([a]) + 1 == b and not len([])\n", True),
        (b"def test_it():\n    value = total(1)\n    assert value[0] == -1\n", True),
        (b"def test_it():\n    assert shop.total(1) == math.floor(1.5)\n", True),
        (b"def test_it():\n    with pytest.raises(ValueError):\n        total(1)\n", True),
        (b'@pytest.mark.parametrize("a, b", [(1, 2)])\ndef test_it(a, b):\n    assert total(a) == b\n', True),
        (b"def test_it():\n    assert total(1) == 1\nif __name__ == '__main__':\n    pytest.main()\n", True),
        (b"def test_it(tmp_path):\n    assert total(1) == 1\n", False),
        (b"def test_it(a=1):\n    assert total(1) == 1\n", False),
        (b'@pytest.mark.parametrize("a", [total(1)])\ndef test_it(a):\n    assert total(a) == 1\n', False),
        (b'@pytest.mark.parametrize("a", [1])\ndef test_it(a, tmp_path):\n    assert total(a) == 1\n', False),
        (b"def test_it():\n    with pytest.raises(Price):\n        total(1)\n", False),
        (b"def test_it():\n    assert Price(1) == Price(1)\n", False),
        (b"def test_it():\n    assert total(1).amount == 1\n", False),
        (b"def test_it():\n    assert other(1) == 1\n", False),
        (b"def test_it():\n    assert os.getpid() == 1\n", False),
        (b"def test_it():\n    assert run(['x']) == 1\n", False),
        (b"def test_it():\n    assert total(1)(2) == 1\n", False),
        (b"def test_it():\n    with total(1):\n        pass\n", False),
        (b"def test_it():\n    assert total(lambda: 1) == 1\n", False),
        (b"@pytest.mark.skip\ndef test_it():\n    assert total(1) == 1\n", False),
        (b"X = total(1)\ndef test_it():\n    assert total(1) == 1\n", False),
        (b"def helper():\n    pass\n", False),
        (b"def test_it(:\n", False),
    ],
)
def test_a_test_is_allowed_that_only_calls_functions_with_plain_values(body: bytes, plain: bool) -> None:
    found = crossing.find_plain_tests("tests/test_it.py", HEAD + body, "pytest")
    assert found == ({"tests/test_it.py::test_it"} if plain else frozenset())


@pytest.mark.parametrize(
    ("head", "body", "plain"),
    [
        ("(unittest.TestCase)", "self.assertEqual(total(2), 80)", True),
        ("(TestCase)", "with self.assertRaises(ValueError):\n            total(2)", True),
        ("(TestCase)", "self.prices = total(2)", False),
        ("(TestCase)", "self.fail(total(2))", False),
        ("(TestCase)", "print(self)", False),
        ("(Base)", "self.assertEqual(total(2), 80)", False),
        ("", "assert total(2) == 80", False),
    ],
)
def test_tests_of_unittest_are_allowed_as_well(head: str, body: str, plain: bool) -> None:
    text = f"import unittest\nfrom unittest import TestCase\nfrom prices import total, Base\n\nclass TestIt{head}:\n"
    source = f'{text}    """Tests."""\n    def test_it(self):\n        {body}\n'.encode()
    found = crossing.find_plain_tests("tests/test_it.py", source, "unittest")
    assert found == ({"tests.test_it.TestIt.test_it"} if plain else frozenset())
    by_pytest = crossing.find_plain_tests("tests/test_it.py", source, "pytest")
    assert by_pytest == ({"tests/test_it.py::TestIt::test_it"} if plain or not head else frozenset())
    prepared = source + b"    def setUp(self):\n        total(1)\n"
    assert not crossing.find_plain_tests("tests/test_it.py", prepared, "unittest"), "what is prepared is not looked at"
    assert not crossing.find_plain_tests("t.py", source.replace(b"(self)", b"()"), "unittest")
    forged = source.replace(b"from unittest import TestCase", b"from prices import TestCase")
    assert not crossing.find_plain_tests("tests/test_it.py", forged, "unittest")
