"""Large documents are validated in a quicker way, which accepts and makes exactly the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttalk.contracts.core import quick_validation
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import Code, ContractError
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.model import PlanFile
from agenttalk.contracts.planfile.yaml_text import YamlSource
from kits.samples import documents

ODD_IDS = ["a", "a.b", "a.b.", "a..b", ".a", "", "a/b", "é", "x" * 128, "x" * 129, "*", "a\n", " a", 3, None]
ODD_PATHS = [
    "a.md",
    ".",
    "..",
    "...",
    ".a",
    "a/b",
    "../a",
    "a/./b",
    "..a",
    "",
    "a\\b",
    "x" * 63,
    "x" * 64,
    "y" * 300,
    "é",
    "a b",
    "*.md",
]
ODD_TEXTS = ["x", " x ", "", " ", "\x1c", "\u3000", "写", "\u200b", 1, None]


def dag_of(**changes: Any) -> dict[str, Any]:
    node = {"task_id": "t", "assigned_agent_id": "a", "outputs": [{"name": "o", "deliver_to": ["a"]}], **changes}
    return {"schema_version": "1.1", "plan_id": "p", "nodes": [node, {"task_id": "u", "assigned_agent_id": "a"}]}


def outcome(data: Any) -> Any:
    try:
        return TaskDag.from_json(data)
    except ContractError as error:
        return error.problems


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What both ways make of a document."""

    def looked(data: Any) -> tuple[Any, Any]:
        monkeypatch.setattr(quick_validation, "MANY", 10**9)
        usual = outcome(data)
        monkeypatch.setattr(quick_validation, "MANY", 1)
        return usual, outcome(data)

    return looked


@pytest.mark.parametrize("text", ODD_IDS)
def test_ids_are_taken_and_refused_alike(both: Any, text: Any) -> None:
    usual, quicker = both(dag_of(task_id=text))
    assert usual == quicker
    usual, quicker = both(dag_of(outputs=[{"name": "o", "deliver_to": [text]}]))
    assert usual == quicker


@pytest.mark.parametrize("text", ODD_PATHS)
def test_paths_are_taken_and_refused_alike(both: Any, text: Any) -> None:
    selector = {"type": "by_file_name", "value": text}
    usual, quicker = both(dag_of(inputs=[{"name": "i", "selector": selector}]))
    assert usual == quicker


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_texts_are_taken_and_refused_alike(both: Any, text: Any) -> None:
    usual, quicker = both(dag_of(outputs=[{"name": text, "deliver_to": ["a"]}]))
    assert usual == quicker


@settings(suppress_health_check=list(HealthCheck))
@given(documents("task_dag"), st.sampled_from(["", "nodes", "plan_id"]))
def test_random_documents_are_taken_alike(raw: dict[str, Any], broken: str) -> None:
    data = {**raw, broken: 1} if broken else raw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick_validation, "MANY", 10**9)
        usual = outcome(data)
        patch.setattr(quick_validation, "MANY", 0)
        quicker = outcome(data)
    assert usual == quicker
    if isinstance(usual, TaskDag):
        assert usual.to_bytes() == quicker.to_bytes()
        assert [node.model_fields_set for node in usual.nodes] == [node.model_fields_set for node in quicker.nodes]


def test_the_quick_way_is_taken_for_large_plans_and_says_what_is_wrong_as_ever() -> None:
    tasks = [{"id": f"t{n}", "agent": "a", "prompt": "p"} for n in range(quick_validation.MANY)]
    data = {"plan_id": "p", "tasks": tasks}
    found = quick_validation.validate_quickly(PlanFile, data, "tasks")
    assert found == PlanFile.read(data)
    assert found is not None
    assert len(found.tasks) == quick_validation.MANY
    tasks[7]["agent"] = "not an id"
    assert quick_validation.validate_quickly(PlanFile, data, "tasks") is None
    with pytest.raises(ContractError) as caught:
        reader.plan_of(YamlSource(data))
    assert [(each.code, each.field) for each in caught.value.problems] == [(Code.ID_INVALID, "tasks[7].agent")]
