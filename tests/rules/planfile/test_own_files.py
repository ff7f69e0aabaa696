"""The files that checks bring along."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.contracts.promise import CasesCheck
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.core import scope
from agenttalk.rules.planfile import check_files
from agenttalk.rules.planfile.compiler import CompiledPlan, compile_plan


def compiled(*checks: dict[str, Any], **promise: Any) -> CompiledPlan:
    said = {
        "objective": "o",
        "acceptance": [{"id": "c", "description": "d", "evidenceRequired": [each["id"] for each in checks]}],
        "checks": list(checks),
        **promise,
    }
    tasks = [{"id": "plain", "agent": "a", "prompt": "p"}, {"id": "one", "agent": "a", "prompt": "p", "promise": said}]
    return compile_plan(
        reader.plan_of(YamlSource({"plan_id": "p", "agents": {"a": {"driver": "python"}}, "tasks": tasks}))
    )


def run(**keys: Any) -> dict[str, Any]:
    return {"id": "t", "kind": "run", "run": "sh t.sh", **keys}


def test_files_are_known_by_hash_and_come_along() -> None:
    plan = compiled(run(files=["t.sh", "u.sh"]), run(id="other"))
    assert check_files.list_files(plan.dag) == ["t.sh", "u.sh"]
    found = check_files.pin_files(plan, {"t.sh": b"1", "u.sh": b"2"})
    promise = found.dag.nodes[1].promise
    assert promise is not None
    hashes = {"t.sh": wire.sha256(b"1"), "u.sh": wire.sha256(b"2")}
    assert [check.files_sha256 for check in promise.checks] == [hashes, None]
    assert (found.problems, set(found.files.values())) == ((), {b"1", b"2"})
    assert found.dag.nodes[0] == plan.dag.nodes[0]
    assert wire.write(found.dag.as_json()) != wire.write(plan.dag.as_json())


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ({}, Code.FILE_UNREADABLE),
        ({"t.sh": "it is too large"}, Code.FILE_UNREADABLE),
        ({"t.sh": b"other"}, Code.PAYLOAD_HASH_MISMATCH),
    ],
)
def test_what_is_wrong_with_a_file_is_said_where_it_is_named(found: dict[str, bytes | str], code: Code) -> None:
    plan = compiled(run(files=["t.sh"], files_sha256={"t.sh": wire.sha256(b"1")}))
    [problem] = check_files.pin_files(plan, found).problems
    assert (problem.code, problem.field) == (code, "tasks[1].promise.checks[0].files[0]")


def test_a_hash_that_is_given_and_right_is_fine() -> None:
    plan = compiled(run(files=["t.sh"], files_sha256={"t.sh": wire.sha256(b"1")}))
    assert check_files.pin_files(plan, {"t.sh": b"1"}).problems == ()


def test_who_may_change_nothing_but_a_checks_file_may_change_nothing() -> None:
    found = compiled(run(files=["t.sh"]), allowedScope=["/t.sh"])
    assert [problem.code for problem in found.problems] == [Code.SCOPE_PROTECTED_OVERLAP]


PATH = st.lists(st.text(st.sampled_from("ab*?[]! #\\"), min_size=1, max_size=4), min_size=1, max_size=3).map("/".join)


@given(PATH, PATH)
def test_a_glob_for_one_path_matches_that_one_alone(path: str, other: str) -> None:
    found = scope.read_globs([scope.quote_path(path)])
    assert found.covers(path)
    assert found.covers(other) is (other == path or other.startswith(f"{path}/"))


HIDDEN = {"id": "s", "kind": "run", "run": "sh t.sh", "files": ["t.sh"], "hidden": True}


def test_hidden_checks_know_where_they_lie() -> None:
    plan = check_files.note_places(compiled(HIDDEN, run(id="v")), "/plans/p.yaml", "/plans")
    hidden, seen = plan.dag.nodes[1].promise.checks  # type: ignore[union-attr]
    assert hidden.as_json()["hidden_paths"] == ["/plans/p.yaml", "/plans/t.sh"]
    assert "hidden_paths" not in seen.as_json()
    assert check_files.note_places(compiled(run()), "/plans/p.yaml", "/plans").dag == compiled(run()).dag


def test_a_check_is_hidden_from_no_agent_that_would_see_it() -> None:
    told = [problem.message for problem in compiled(HIDDEN).problems]
    assert any("gets its whole command" in each for each in told)
    assert not any("whole command" in problem.message for problem in compiled(run()).problems)


def test_a_check_is_hidden_from_no_agent_that_reviews_the_plan() -> None:
    agents = {
        "a": {"driver": "script", "argv": ["a"], "fallback": "b"},
        "b": {"driver": "folder"},
        "c": {"driver": "script", "argv": ["c"]},
    }
    criteria = [{"id": "c", "description": "d", "evidenceRequired": ["s"]}]
    promise = {"objective": "o", "acceptance": criteria, "checks": [HIDDEN]}
    task = {"id": "one", "agent": "a", "prompt": "p", "promise": promise}
    plan = {"plan_id": "p", "agents": agents, "tasks": [task], "review": {"reviewers": ["a", "c"]}}
    told = [problem.message for problem in compile_plan(reader.plan_of(YamlSource(plan))).problems]
    assert "'a' reviews the plan, and would see its hidden checks" in told
    assert "'b' gets its whole command, with every check of it" in told


def test_mutants_name_a_check_that_could_notice_them() -> None:
    mutants, tests = {"id": "m", "kind": "mutants", "of": "tests-pass"}, run(id="tests-pass")
    assert not [problem for problem in compiled(tests, mutants).problems if "notice the faults" in problem.message]
    [problem] = [each for each in compiled(tests, {**mutants, "of": "tests-pas"}).problems if "notice" in each.message]
    assert "did you mean 'tests-pass'" in problem.hint
    [problem] = [each for each in compiled(tests, {**mutants, "of": "zzzz"}).problems if "notice" in each.message]
    assert "kind run or tests" in problem.hint


CASES: dict[str, Any] = {"id": "c", "kind": "cases", "call": "m:f", "cases_file": "c.yaml"}


def test_cases_in_a_file_become_part_of_the_check() -> None:
    plan = compiled(CASES, run(files=["t.sh"]))
    assert check_files.list_files(plan.dag) == ["c.yaml", "t.sh"]
    found = check_files.pin_files(plan, {"c.yaml": b"- {args: [1], returns: 2}\n- {returns: 1.0}\n", "t.sh": b"1"})
    promise = found.dag.nodes[1].promise
    assert promise is not None
    [check, _] = promise.checks
    assert isinstance(check, CasesCheck)
    assert [case.returns for case in check.cases] == [2, 1.0]
    assert (found.problems, set(found.files.values())) == ((), {b"1"})
    alone = check_files.pin_files(compiled(CASES), {"c.yaml": b'[{"returns": 1}]'})
    assert (alone.problems, alone.files) == ((), {})


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({}, "it is not there"),
        ({"c.yaml": "it is too large"}, "it is too large"),
        ({"c.yaml": b"[]"}, "it has no case"),
        ({"c.yaml": b"a: 1"}, "it must be a list"),
        ({"c.yaml": b"- {retunrs: 1}"}, "[0].retunrs: unknown key"),
        ({"c.yaml": b"- 1"}, "[0]: "),
        ({"c.yaml": b"- {args: 1}"}, "[0].args: "),
        ({"c.yaml": b"- {args: [1], args: [2]}"}, "args"),
        ({"c.yaml": b"["}, "not YAML"),
        ({"c.yaml": b"- {stdout: x}"}, "stdout belongs to a command"),
    ],
)
def test_what_is_wrong_with_a_file_of_cases_is_said(found: dict[str, bytes | str], why: str) -> None:
    [problem] = check_files.pin_files(compiled(CASES), found).problems
    assert problem.field == "tasks[1].promise.checks[0].cases_file"
    assert why in problem.message


def test_cases_stand_in_one_place() -> None:
    plan = compiled({**CASES, "cases": [{"returns": 1}]})
    [problem] = check_files.pin_files(plan, {"c.yaml": b"- {returns: 1}"}).problems
    assert "and a file with cases" in problem.message


def test_a_hidden_file_of_cases_is_shown_to_no_agent() -> None:
    placed = check_files.note_places(compiled({**CASES, "hidden": True}), "/p/plan.yaml", "/p")
    promise = placed.dag.nodes[1].promise
    assert hidden_checks.list_hidden_paths(promise) == ("/p/plan.yaml", "/p/c.yaml")


@pytest.mark.parametrize(
    ("check", "why"),
    [
        ({"kind": "cases", "call": "m", "cases": [{}]}, "is not module:function"),
        ({"kind": "http", "serve": "s", "requests": [{"path": "x"}]}, "does not begin with /"),
        ({"kind": "forge", "repo": "a/b"}, ""),
    ],
)
def test_what_a_check_would_refuse_by_itself_is_said_at_once(check: dict[str, Any], why: str) -> None:
    problems = [each for each in compiled({"id": "c", **check}).problems if "checks[0]" in each.field]
    assert problems
    assert why in problems[0].message
