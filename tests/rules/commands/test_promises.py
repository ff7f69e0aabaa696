"""Whether a promise is worth being made."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agenttalk
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import Code, ContractError
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.commands import new_promise, promises, validation
from kits.samples import command

GOOD: dict[str, Any] = {
    "id": "cp-1717980000000-a3f1",
    "objective": "The price function works",
    "acceptance": [{"id": "tests", "description": "The suite passes", "evidenceRequired": ["tests-pass"]}],
}


def issues(**changes: Any) -> list[tuple[str, str]]:
    validity = promises.validate(CompletionPromise.read({**GOOD, **changes}))
    assert all(issue.checkpoint == "pre-plan" and issue.message for issue in validity.issues)
    assert validity.valid is all(issue.severity != "hard-deny" for issue in validity.issues)
    return [(issue.severity, issue.field) for issue in validity.issues]


@pytest.mark.shows("P04", "P05")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"id": "cp-1-ABCD"}, [("hard-deny", "id")]),
        ({"id": ""}, [("hard-deny", "id")]),
        ({"objective": " "}, [("hard-deny", "objective")]),
        ({"acceptance": []}, [("hard-deny", "acceptance")]),
        ({"acceptance": [{"id": "", "description": "d"}]}, [("hard-deny", "acceptance[0].id")]),
        ({"acceptance": [{"id": "a", "description": ""}]}, [("hard-deny", "acceptance[0].description")]),
        ({"acceptance": [{"id": "a", "description": "d"}] * 2}, [("soft-deny", "acceptance")]),
        ({"allowedScope": ["src/**", "a"], "disallowedScope": ["src/**"]}, [("soft-deny", "disallowedScope")]),
        ({"doneWhen": []}, [("warning", "doneWhen")]),
        ({"abortWhen": []}, [("warning", "abortWhen")]),
    ],
    ids=range(11),
)
def test_each_fault_of_a_promise_has_its_severity(changes: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert issues(**changes) == expected


def test_a_command_with_a_promise_that_shows_nothing_is_refused() -> None:
    answer = validation.validate(command(promise={**GOOD, "acceptance": []}))
    assert [(error.code, error.field) for error in answer.errors] == [(Code.COMMAND_FIELD_VALUE, "promise.acceptance")]
    assert validation.validate(command(promise={**GOOD, "abortWhen": []})).ok


def test_a_guard_that_is_misspelt_is_pointed_at() -> None:
    promise = {
        **GOOD,
        "allowedscope": ["src/**"],
        "x_own": 1,
        "checks": [
            {"id": "a", "kind": "tests", "run": "x", "junit": "r.xml", "redFirst": "required", "minTests": 3},
            {"id": "b", "kind": "test", "run": "x"},
            {"id": "c", "kind": "eslint", "runn": "x"},
        ],
        "budget": {"token": 5},
    }
    answer = agenttalk.generate_command({"plan_id": "_m", "task_id": "t", "prompt": "p", "promise": promise})
    assert answer.ok
    assert {warning.field: warning.hint for warning in answer.warnings} == {
        "promise.allowedscope": "did you mean 'allowed_scope'?",
        "promise.checks[0].redFirst": "did you mean 'red_first'?",
        "promise.checks[0].minTests": "did you mean 'min_tests'?",
        "promise.checks[1].kind": "did you mean 'tests'?",
        "promise.budget.token": "did you mean 'tokens'?",
    }
    assert agenttalk.generate_command({"plan_id": "_m", "task_id": "t", "prompt": "p", "promise": GOOD}).warnings == ()


@pytest.mark.shows("P01", "P03")
@given(st.integers(0, 2**50), st.integers(0, 2**40))
def test_a_promise_that_is_made_has_an_id_and_the_usual_conditions(ms: int, chance: int) -> None:
    made = new_promise.make({"objective": "It works", "checks": [{"kind": "run", "run": "true"}]}, ms=ms, random=chance)
    assert re.fullmatch(rf"cp-{ms}-[0-9a-f]{{4}}", made.id)
    assert [(each.type, each.target) for each in made.done_when] == [("acceptance-met", "*")]
    assert [each.type for each in made.abort_when] == [
        "budget-exhausted",
        "unsafe",
        "scope-drift",
        "stuck",
        "user-aborted",
    ]
    assert promises.validate(made).valid


@pytest.mark.shows("P02")
def test_an_empty_promise_is_not_made() -> None:
    with pytest.raises(ContractError) as refused:
        new_promise.make({"objective": " ", "criteria": []}, ms=1, random=1)
    assert {"objective", "acceptance", "checks"} <= {each.field for each in refused.value.problems}
    own = {"id": "cp-1-0001", "objective": "o", "acceptance": [{"id": "a", "description": "d"}], "abort_when": []}
    own |= {"doneWhen": [{"type": "gate-passed", "target": "post-act"}], "allowedScope": ["src/**"]}
    made = CompletionPromise.read(own)
    assert (made.done_when[0].type, made.abort_when, made.allowed_scope) == ("gate-passed", (), ("src/**",))


@pytest.mark.mends("A11")
def test_the_promises_of_a_plan_get_their_ids_when_it_is_submitted() -> None:
    promise = {"id": "cp-0-0000", "objective": "o", "acceptance": [{"id": "a", "description": "d"}]}
    nodes = [
        {"task_id": "one", "assigned_agent_id": "a", "promise": promise},
        {"task_id": "two", "assigned_agent_id": "a", "promise": {**promise, "id": "cp-7-abcd"}},
        {"task_id": "three", "assigned_agent_id": "a"},
    ]
    dag = TaskDag.from_json({"schema_version": "1.1", "plan_id": "p", "nodes": nodes})
    named = promises.assign_promise_ids(dag, 1_700_000_000_000)
    ids = [node.promise.id if node.promise else None for node in named.nodes]
    assert ids == [promises.make_plan_promise_id("p", "one", 1_700_000_000_000), "cp-7-abcd", None]
    assert [promises.is_unnamed(node) for node in dag.nodes] == [True, False, False]
    assert promises.assign_promise_ids(named, 5) is named
