"""Every example command of the specification goes through generate; where it breaks the rules, they win."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.command import DagRef
from agenttalk.contracts.errors import Code
from agenttalk.rules.commands import validation
from agenttalk.rules.commands.generation import generate
from agenttalk.rules.commands.validation import Known
from kits.samples import DIGEST
from kits.seedkit import EXAMPLES, PROMPTS_ONLY, REEXECUTION, SMALLEST, USER_STORIES

ACTIVE = Known(dag_ref=DagRef(sha256=DIGEST))


@pytest.mark.shows("C01", "C04")
@pytest.mark.parametrize(("example", "command_id"), EXAMPLES, ids=range(8))
def test_generate_mends_the_example_and_says_so(example: dict[str, Any], command_id: str) -> None:
    answer = generate(example, ACTIVE, locale="zh")
    assert answer.ok, answer.errors
    assert answer.command is not None
    assert answer.command.command_id == command_id
    assert ("command_id", command_id) in {
        (repair.field, repair.after) for repair in answer.repairs if repair.field == "command_id"
    }
    kept = {
        key: value
        for key, value in example.items()
        if key in {"prompt", "required_inputs", "idempotency_key", "score_criteria"}
    }
    assert kept.items() <= answer.command.as_json().items()
    assert validation.validate(answer.command.as_json(), ACTIVE).ok


@pytest.mark.parametrize(("example", "_command_id"), EXAMPLES, ids=range(8))
def test_validate_refuses_the_example_as_it_stands(example: dict[str, Any], _command_id: str) -> None:
    assert not validation.validate(example, ACTIVE).ok


def test_the_examples_break_the_rules_where_we_think_they_do() -> None:
    def of(example: dict[str, Any]) -> dict[str, Code]:
        return {error.field: error.code for error in validation.validate(example, ACTIVE).errors}

    assert of(USER_STORIES)["command_id"] is Code.COMMAND_SEQ_INVALID_FORMAT
    assert of(SMALLEST)["command_id"] is Code.COMMAND_SEQ_INVALID_FORMAT
    assert of(REEXECUTION)["task_id"] is Code.COMMAND_FIELD_MISSING


@pytest.mark.shows("C03")
@pytest.mark.parametrize("example", PROMPTS_ONLY, ids=range(2))
def test_a_prompt_alone_is_no_command(example: dict[str, Any]) -> None:
    assert {error.field for error in generate(example, ACTIVE).errors} == {"plan_id", "task_id"}
