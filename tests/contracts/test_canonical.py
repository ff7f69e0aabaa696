"""The quick way to write documents writes what the slow way does, byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agenttalk.contracts.core import canonical, catalogue, wire
from agenttalk.contracts.core.base import Document, Instant, Part
from agenttalk.contracts.dag import Node, TaskDag
from agenttalk.contracts.errors import Code, JsonError
from effort import cases
from kits.samples import documents

NAMES = sorted(catalogue.DOCUMENTS)


def known_only(value: Any) -> Any:
    """The same without the fields that we do not know."""
    if isinstance(value, dict):
        return {key: known_only(each) for key, each in value.items() if not key.startswith("x_")}
    return [known_only(each) for each in value] if isinstance(value, list) else value


def written(part: Part) -> bytes:
    return wire.write(part.as_json())


@pytest.mark.no_cover
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=cases(40), phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
@given(data=st.data(), strange=st.booleans())
def test_random_documents_have_the_bytes_that_their_json_values_have(
    name: str, data: st.DataObject, strange: bool
) -> None:
    raw = data.draw(documents(name))
    kind = catalogue.DOCUMENTS[name]
    assert issubclass(kind, Part)
    part = kind.model_construct(**kind.read(_agreed(name, raw if strange else known_only(raw))).__dict__)
    read = kind.read(_agreed(name, raw if strange else known_only(raw)))
    assert canonical.to_text(read).encode() == written(read)
    assert canonical.to_text(part).encode() == written(part)
    if isinstance(read, Document):
        assert read.to_bytes() == written(read)


def _agreed(name: str, raw: dict[str, Any]) -> dict[str, Any]:
    if name == "command_envelope":  # its ids must agree, which no schema can say
        inside = raw["payload"]["command"]
        return {**raw, **{key: inside[key] for key in ("plan_id", "task_id", "command_id")}}
    return raw


class Odd(Part):
    """A part of everything that a part can hold."""

    percent: str = "100 % {x} %s"
    number: float | None = None
    table: dict[Any, Any] = {}  # noqa: RUF012 - pydantic copies it
    at: Instant | None = None
    anything: Any = 1
    held: Any
    list: Any = ()


@pytest.mark.parametrize(
    "fields",
    [
        {"held": None},
        {"held": 1, "anything": None},
        {"held": [None, True, {"b": 1, "a": (None, 1.5)}]},
        {"held": {"é": '"\\\n\x7f\u2028', "a": {}}},
        {"held": 1, "table": {"x": Node.read({"task_id": "t", "assigned_agent_id": "a", "name": None})}},
        {"held": 1, "number": None, "at": datetime(2026, 1, 31, tzinfo=UTC)},
        {"held": Code.FIELD_TYPE},
        {"held": {Code.FIELD_TYPE: 2}},
        {"held": float("nan")},
        {"held": 1, "x_strange": None},
        {},
    ],
    ids=range(11),
)
def test_what_is_unusual_is_written_as_ever(fields: dict[str, Any]) -> None:
    part = Odd.model_construct(**fields)
    assert canonical.to_text(part).encode() == written(part)


def test_fields_that_are_given_and_absent_are_left_out() -> None:
    node = Node.read({"task_id": "t", "assigned_agent_id": "a", "name": None, "prompt": "p", "gates": None})
    assert canonical.to_text(node).encode() == written(node)
    assert '"name"' not in canonical.to_text(node)


def test_more_shapes_than_are_remembered_are_written_correctly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "_shape", lru_cache(maxsize=1)(canonical._shape.__wrapped__))
    for part in [Odd.model_construct(held="x"), Node.read({"task_id": "t", "assigned_agent_id": "a"})] * 2:
        assert canonical.to_text(part).encode() == written(part)


def test_half_a_character_is_told_as_ever() -> None:
    half: Any = "\ud800"
    dag = TaskDag.model_construct(plan_id=half, nodes=(), routing_rules=())
    with pytest.raises(JsonError):
        dag.to_bytes()


@given(documents("task_dag"))
def test_a_dag_is_the_same_from_the_texts_of_its_nodes(raw: dict[str, Any]) -> None:
    dag = TaskDag.from_json({**raw, "a_first": 1, "z_last": [None]})
    assert dag.to_bytes_with([node.as_text() for node in dag.nodes]) == dag.to_bytes() == written(dag)
    plain = TaskDag.from_json({"plan_id": "p", "nodes": []})
    assert plain.to_bytes_with([]) == plain.to_bytes()


def test_usual_dags_take_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "_slow", lambda _: "slow")
    need = {"name": "i", "selector": {"type": "by_output_name", "value": "o"}}
    gates = {"thresholds": {"t_min_score": 7.5}}
    node = {"task_id": "t", "assigned_agent_id": "a", "inputs": [need], "outputs": [{"name": "o"}], "gates": gates}
    assert (
        "slow" not in TaskDag.from_json({"plan_id": "p", "nodes": [node, {**node, "name": None}]}).to_bytes().decode()
    )
