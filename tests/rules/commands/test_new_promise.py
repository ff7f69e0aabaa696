"""A promise of a few fields is valid by construction, or refused with everything that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.errors import Code, ContractError
from agenttalk.rules.commands import promises
from agenttalk.rules.commands.new_promise import make


def made(**said: Any) -> Any:
    return make(said, ms=17, random=255)


@pytest.mark.mends("B9")
def test_each_check_has_an_id_and_a_criterion_and_the_scope_is_kept() -> None:
    checks = [
        {"kind": "run", "run": "make test", "protected": ["tests/**"]},
        {"kind": "run", "run": "make lint", "id": "lint"},
        {"kind": "human", "question": "Is it good?"},
        {"kind": "report"},
    ]
    promise = made(
        objective="It works",
        checks=checks,
        allowed_scope=["src/**"],
        disallowed_scope=["tests/**"],
        budget={"tokens": 5},
    )
    assert promise.id == "cp-17-00ff"
    assert [each.id for each in promise.checks] == ["run-1", "lint", "human-1", "report-1"]
    assert [(each.id, each.description) for each in promise.acceptance] == [
        ("c-run-1", "make test succeeds"),
        ("c-lint", "make lint succeeds"),
        ("c-human-1", "A person says yes: Is it good?"),
        ("c-report-1", "The check report-1 passes"),
    ]
    assert (promise.allowed_scope, promise.disallowed_scope) == (("src/**",), ("tests/**",))
    assert promise.budget.tokens == 5
    assert promises.validate(promise).valid


def test_criteria_of_ones_own_are_taken_as_they_are() -> None:
    own = [{"id": "works", "description": "It works", "evidenceRequired": ["run-1"]}]
    promise = made(objective="It works", checks=[{"kind": "run", "run": "true"}], criteria=own)
    assert [each.id for each in promise.acceptance] == ["works"]


@pytest.mark.mends("B9")
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"objective": "It works"}, Code.FIELD_VALUE),
        ({"objective": " ", "checks": [{"kind": "run", "run": "true"}]}, Code.FIELD_VALUE),
        ({"objective": "It works", "checks": "true"}, Code.FIELD_VALUE),
        ({"objective": "It works", "checks": ["true"]}, Code.FIELD_TYPE),
        ({"objective": "It works", "checks": [{"kind": "run"}]}, Code.FIELD_MISSING),
        ({"objective": "It works", "checks": [{"kind": "run", "run": "true"}], "chekcs": []}, Code.FIELD_UNKNOWN),
        ({"objective": "It works", "checks": [{"kind": "runs", "run": "true"}]}, Code.FIELD_UNKNOWN),
        ({"objective": "It works", "criteria": [{"id": "c", "description": "d"}]}, Code.FIELD_MISSING),
    ],
)
def test_what_would_not_be_a_promise_is_refused(said: dict[str, Any], code: Code) -> None:
    with pytest.raises(ContractError) as refused:
        made(**said)
    assert refused.value.code is code
