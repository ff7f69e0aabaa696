"""Documents that tests start from, and random ones made from the schemas."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from hypothesis import strategies as st

from agenttalk.contracts.command import COMMAND_ID_PATTERN
from agenttalk.contracts.core import catalogue
from agenttalk.contracts.core.base import HASH_PATTERN, ID_PATTERN, PATH_PATTERN, READABLE_VERSION_PATTERN, TIME_PATTERN
from agenttalk.contracts.dag import CONDITION_PATTERN

DIGEST = "sha256:" + "ab" * 32
OTHER_DIGEST = "sha256:" + "cd" * 32


def command(**changes: Any) -> dict[str, Any]:
    """A valid command; a change to `...` removes the field."""
    document = {
        "schema_version": "1.0",
        "plan_id": "plan_shop",
        "task_id": "task_001",
        "command_id": "cmd_task_001_001",
        "command_seq": 1,
        "dag_ref": {"sha256": DIGEST},
        "prompt": "Write the user stories.",
        "required_inputs": ["requirements.md"],
        "wait_for_inputs": True,
        "score_required": False,
        "timeout": 3600,
    }
    return {key: value for key, value in {**document, **changes}.items() if value is not ...}


def envelope(**changes: Any) -> dict[str, Any]:
    """A valid envelope with a command; a change to `...` removes the field."""
    document = {
        "schema_version": "1.0",
        "message_id": "m1",
        "plan_id": "plan_shop",
        "producer_agent_id": "lead",
        "type": "command",
        "created_at": "2026-01-08T10:30:00Z",
        "task_id": "task_001",
        "command_id": "cmd_task_001_001",
        "payload": {"command": command()},
    }
    return {key: value for key, value in {**document, **changes}.items() if value is not ...}


def artifact(output: str = "stories.md", **changes: Any) -> dict[str, Any]:
    """A valid envelope with an artifact."""
    files = [{"path": "a.md", "sha256": DIGEST, "content_type": changes.pop("content_type", None)}]
    fields = {"type": "artifact", "producer_agent_id": "pm", "output_name": output, "payload": {"files": files}}
    return envelope(**{"command_id": ..., **fields, **changes})


ids = st.from_regex(r"[A-Za-z0-9_-]{1,12}(\.[A-Za-z0-9]{1,3})?", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
full_texts = texts.filter(lambda text: bool(text.strip()))
paths = st.lists(st.from_regex(r"[a-z*?é文]{1,6}(\.md)?", fullmatch=True), min_size=1, max_size=3).map("/".join)
hashes = st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True)
times = st.datetimes().map(lambda moment: moment.isoformat() + "Z")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
unknown_fields = st.dictionaries(st.from_regex(r"x_[a-z]{1,4}", fullmatch=True), json_values, max_size=1)
_BY_PATTERN: dict[str, st.SearchStrategy[str]] = {
    ID_PATTERN: ids,
    PATH_PATTERN: paths,
    HASH_PATTERN: hashes,
    TIME_PATTERN: times,
    READABLE_VERSION_PATTERN: st.integers(0, 99).map(lambda minor: f"1.{minor}"),
    COMMAND_ID_PATTERN: st.from_regex(r"cmd_[a-z]{1,8}_[0-9]{3}", fullmatch=True),
    CONDITION_PATTERN: st.sampled_from(["score < 70", "score>=99.5"]),
    r"\S": full_texts,
}


@cache
def documents(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Random valid documents of a kind, with fields that we do not know among them."""
    schema = catalogue.schema(name)
    return _values(schema, schema.get("$defs", {}), depth=0)


def _values(schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return _values(definitions[schema["$ref"].rpartition("/")[2]], definitions, depth)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return st.one_of([_values(each, definitions, depth) for each in schema[choice]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "string":
            return _BY_PATTERN[schema["pattern"]] if "pattern" in schema else texts
        case "integer":
            return st.integers(schema.get("minimum", -100), schema.get("maximum", 2**53 - 1))
        case "number":
            above = schema.get("exclusiveMinimum")
            least, most = schema.get("minimum", -1e9 if above is None else above), schema.get("maximum", 1e9)
            first = max(0, math.ceil(least)) if above is None else max(0, math.floor(above) + 1)
            whole = st.integers(first, min(100, math.floor(most)))
            return whole | st.floats(least, most, exclude_min=above is not None)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            items = _values(schema.get("items", {}), definitions, depth + 1)
            least = schema.get("minItems", 0)
            return st.lists(items, min_size=least, max_size=max(least, 2 if depth < 4 else 0))
        case "object":
            return _objects(schema, definitions, depth)
    return json_values


def _objects(schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> st.SearchStrategy[dict[str, Any]]:
    if "properties" not in schema:
        extra = schema.get("additionalProperties")
        inner = _values(extra, definitions, depth + 1) if isinstance(extra, dict) else json_values
        return st.dictionaries(texts, inner, max_size=2)
    required = schema.get("required", [])
    known = {key: _values(each, definitions, depth + 1) for key, each in schema["properties"].items()}
    return st.builds(
        lambda fields, unknown: {**unknown, **fields},
        st.fixed_dictionaries(
            {key: known[key] for key in required},
            optional={key: value for key, value in known.items() if key not in required},
        ),
        unknown_fields,
    )
