"""Cases: what is wrong with them, how their answers are read and compared, and what is said of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.promise import Case, CasesCheck
from agenttalk.rules.checks import case_results
from agenttalk.rules.checks.case_results import CaseAnswer
from agenttalk.rules.checks.check_results import ProgramExit

GOOD = ProgramExit("finished", 0)


def calls(*cases: dict[str, Any], **fields: Any) -> CasesCheck:
    return CasesCheck.model_validate({"id": "c", "kind": "cases", "call": "m:f", "cases": list(cases), **fields})


def runs(*cases: dict[str, Any]) -> CasesCheck:
    return CasesCheck.model_validate({"id": "c", "kind": "cases", "run": "./p", "cases": list(cases)})


FAULTS: tuple[tuple[CasesCheck, str], ...] = (
    (calls(), "cases"),
    (calls({}, run="p"), "run"),
    (calls({}, call=None), "run"),
    (calls({}, call="m.f"), "call"),
    (calls({}, call="m:f()"), "call"),
    (calls({"name": "#2"}, {}), "cases[1].name"),
    (calls({"stdin": "x"}), "cases[0].stdin"),
    (calls({"json": 1}), "cases[0].json"),
    (calls({"returns": 1, "raises": "E"}), "cases[0]"),
    (runs({"stdout": "", "kwargs": {}}), "cases[0].kwargs"),
    (runs({"stdout": "", "args": [1]}), "cases[0].args"),
    (runs({"stdin": ""}), "cases[0]"),
)


@pytest.mark.parametrize(("check", "field"), FAULTS)
def test_what_is_wrong_with_cases_is_named(check: CasesCheck, field: str) -> None:
    assert field in [name for name, _ in case_results.find_faults(check)]


def test_good_cases_have_no_faults() -> None:
    check = calls({"args": [1], "returns": 2}, {"raises": "ValueError"}, {})
    assert not list(case_results.find_faults(check))
    assert not list(case_results.find_faults(runs({"exit": 1}, {"json": [], "args": ["a"]}, {"writes": {"a": ""}})))
    assert not list(case_results.find_faults(calls(cases_file="c.yaml")))


def judged(check: CasesCheck, *answers: dict[str, Any]) -> str:
    """Judge answers as the program notes them; what is said of those that are not as asked."""
    data = b"\n".join(json.dumps(each).encode() for each in answers)
    finding, outcomes = case_results.judge_cases(check, GOOD, case_results.read_answers(check, data))
    assert outcomes is not None
    assert finding.passed is not bool(outcomes.failed)
    return "" if finding.passed else finding.detail.partition("; ")[2]


CALLS: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({"returns": 3}, {"value": 3}, ""),
    ({}, {"value": None}, ""),
    ({"returns": 3}, {"value": 3.0}, "it returned 3.0, and 3 is asked for"),
    ({"returns": 1}, {"value": True}, "it returned True, and 1 is asked for"),
    ({"returns": 0.3}, {"value": 0.1 + 0.2}, "it returned 0.30000000000000004, and 0.3 is asked for"),
    ({"returns": 0.3, "within": 1e-9}, {"value": 0.1 + 0.2}, ""),
    ({"returns": [1]}, {"value": {"$tuple": [1]}}, "it returned tuple([1]), and [1] is asked for"),
    ({"returns": {"$set": [2, 1]}}, {"value": {"$set": [1, 2]}}, ""),
    ({"returns": {"$dict": [[1, 2], [0, 1]]}}, {"value": {"$dict": [[0, 1], [1, 2]]}}, ""),
    ({"returns": {"$bytes": "00"}}, {"value": {"$bytes": "00"}}, ""),
    ({"returns": {"a": 1}}, {"value": {"a": 1, "b": 2}}, "it returned {'a': 1, 'b': 2}, and {'a': 1} is asked for"),
    ({"returns": {"a": 1}}, {"value": {"a": 1}}, ""),
    ({"returns": {"$object": "x"}}, {"value": {"$object": "x"}}, "it returned object('x')"),
    ({"returns": {"$bytes": 1}}, {"value": {"$bytes": 1}}, "it returned bytes(1)"),
    ({"returns": {"$set": 1}}, {"value": {"$set": 1}}, "it returned set(1)"),
    ({"returns": 1}, {"raised": ["ValueError", "Exception"]}, "it raised ValueError, and 1 is asked for"),
    ({"returns": 1}, {"raised": []}, "it raised ?, and 1 is asked for"),
    ({"raises": "Exception"}, {"raised": ["ValueError", "Exception"]}, ""),
    ({"raises": "KeyError"}, {"raised": ["ValueError"]}, "it raised ValueError, and KeyError is asked for"),
    ({"raises": "KeyError"}, {"value": 1}, "it returned 1, and KeyError is asked for"),
    ({"returns": 1}, {"late": True}, "it took longer than a case may"),
    ({"returns": 1}, {"large": True}, "it printed or returned more than 1 MiB"),
    ({"returns": 1}, {"ended": 0}, "its process ended with 0 before there was a result"),
    ({"returns": 1}, {"unloaded": "x"}, "the function cannot be loaded: x"),
    ({"returns": 1}, {"passed": True}, "it was not tried"),
)


@pytest.mark.parametrize(("case", "answer", "why"), CALLS)
def test_what_a_function_returns_is_compared_with_its_type(
    case: dict[str, Any], answer: dict[str, Any], why: str
) -> None:
    told = judged(calls(case), answer)
    assert why in told
    assert bool(told) is bool(why)


def ended(stdout: str = "", code: int = 0, **written: str | None) -> dict[str, Any]:
    return {"code": code, "stdout": stdout, "written": written}


RUNS: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({"stdout": "é"}, ended("Ã©"), ""),
    ({"stdout": "a"}, ended("a\n"), "it printed 'a\\n', and 'a' is asked for"),
    ({"json": {"a": 1}}, ended(' {"a": 1}\n'), ""),
    ({"json": {"a": 1}}, ended('{"a": 1.0}'), "it printed"),
    ({"json": {"a": 1}}, ended("a"), "it printed 'a', and {'a': 1} is asked for"),
    ({"exit": 3}, ended(code=3), ""),
    ({"exit": 3}, ended(), "it ended with 0, and 3 is asked for"),
    ({"stdout": ""}, ended(code=1), "it ended with 1, and 0 is asked for"),
    ({"writes": {"o": "x"}}, ended(o="x"), ""),
    ({"writes": {"o": "x"}}, ended(o="y"), "o contains 'y', and 'x' is asked for"),
    ({"writes": {"o": "x"}}, ended(o=None), "it did not write o"),
    ({"writes": {"o": "x"}}, ended(), "it did not write o"),
    ({"stdout": ""}, {"value": ""}, "it ended with None, and 0 is asked for"),
)


@pytest.mark.parametrize(("case", "answer", "why"), RUNS)
def test_what_a_command_does_is_compared(case: dict[str, Any], answer: dict[str, Any], why: str) -> None:
    told = judged(runs(case), answer)
    assert why in told
    assert bool(told) is bool(why)


def test_a_failed_case_is_shown_with_its_input() -> None:
    check = calls({"args": [[1], "a"], "kwargs": {"key": None}, "returns": 1}, {"name": "other", "returns": None})
    assert judged(check, {"value": 2}, {"value": None}) == (
        "#1 f([1], 'a', key=None): it returned 2, and 1 is asked for"
    )
    check = runs({"args": ["a b"], "stdin": "in", "stdout": "x"})
    assert judged(check, ended("y")).startswith("#1 ./p \"a b\" < 'in': it printed")


def test_what_is_asked_for_is_described_in_one_line() -> None:
    check = runs({"stdout": "a", "json": [1], "writes": {"o": "t"}, "exit": 2}, {"stdout": "a"})
    assert [case_results.describe_wish(check, case) for case in check.cases] == ["'a', [1], o: 't', exit 2", "'a'"]
    check = calls({"returns": {"$tuple": []}}, {"raises": "E"})
    assert [case_results.describe_wish(check, case) for case in check.cases] == ["tuple([])", "E"]


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_answer_proves_nothing(data: bytes) -> None:
    check = calls({"returns": None}, {"returns": None})
    answers = case_results.read_answers(check, b'{"value": null}\n' + data)
    finding, outcomes = case_results.judge_cases(check, GOOD, answers)
    assert outcomes is not None
    assert (finding.passed, finding.reason, set(outcomes.failed)) == (False, "cases_failed", {"#2"})


def test_more_answers_than_cases_count_for_nothing() -> None:
    check = calls({"returns": 1})
    assert case_results.read_answers(check, b'{"value": 1}\n{"value": 2}') == (CaseAnswer(value=1),)


def test_a_run_that_did_not_end_well_proves_nothing() -> None:
    check = calls({"returns": 1})
    answers = (CaseAnswer(value=1),)
    for ran in (ProgramExit("timeout", None), ProgramExit("finished", 1)):
        assert case_results.judge_cases(check, ran, answers)[0].passed is False
    assert case_results.judge_cases(calls(), GOOD, ())[0].reason == "facts_missing"


def test_values_of_any_depth_are_compared_and_shown() -> None:
    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    check = calls({})
    answer = CaseAnswer(value=deep)
    assert case_results.judge_cases(check, GOOD, (answer,))[0].passed is False
    assert not case_results.is_same(case_results.normalize(deep), case_results.normalize(deep), 0)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(PLAIN, PLAIN)
def test_values_are_the_same_only_if_python_writes_them_alike(one: Any, other: Any) -> None:
    assert case_results.is_same(one, one, 0)
    if case_results.is_same(one, other, 0):
        assert json.dumps(one, sort_keys=True).replace("-0.0", "0.0") == json.dumps(other, sort_keys=True).replace(
            "-0.0", "0.0"
        )


def test_a_name_is_the_number_where_there_is_none() -> None:
    assert case_results.name_case(Case.model_validate({"name": "n"}), 3) == "n"
    assert case_results.name_case(Case.model_validate({}), 3) == "#4"
