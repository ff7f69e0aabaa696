"""Whatever is thrown at the doors of the contracts, they answer with our own errors or not at all.

Hypothesis looks for small clever cases elsewhere; this looks at very many, made from valid documents by bending, cutting,
swapping and flipping: 10,000 by `make test-rest`, and 100,000 by `make fuzz`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from agenttalk.contracts.command import DagRef
from agenttalk.contracts.core import catalogue, wire
from agenttalk.contracts.core.base import Document
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.envelope import read_envelope
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.rules.commands import envelopes, validation
from agenttalk.rules.commands.generation import generate
from agenttalk.rules.commands.validation import Known
from agenttalk.rules.plans import dag_checks
from effort import DEEP, EFFORT, cases
from kits.samples import DIGEST, command

INPUTS = cases(10_000)
EACH = 1 if DEEP else round(3 / EFFORT)
"""Of what is made with odd values everywhere, so many are passed over for each that is tried."""
KNOWN = Known(dag_ref=DagRef(sha256=DIGEST), task_ids={"task_001"}, command_ids={"cmd_task_001_001"}, last_seq=1)
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**53, 2**63, 10**40, 0.5, -0.0, 1e308, "", " ", "\0", "\u202e", "😀", "../x", "/etc/passwd",
    "a" * 200, "cmd_task_001_001", "cmd_reexecute_001", DIGEST, "1.0", "2.0", "2026-01-31T09:30:00Z", [], {}, [[]], [None],
    {"": ""}, {"kind": "tests"}, ["a", "a"], {"target": "x"}, "true", "3600",
]  # fmt: skip
NOT_JSON: list[Any] = [
    float("nan"),
    float("inf"),
    "\ud800",
    b"bytes",
    {1: 2},
    {"\udfff": 1},
    (1, (2,)),
    {1, 2},
    object(),
    10**5000,
]
SEEDS: list[dict[str, Any]] = [
    command(),
    command(
        score_required=True,
        score_criteria="c",
        produces=[{"output_name": "a", "files": [{"path": "a.md"}]}],
        resolved_inputs=[{"input_name": "a", "required": True, "paths": ["a.md"]}],
        promise={
            "id": "cp-1-abcd",
            "objective": "o",
            "acceptance": [{"id": "a", "description": "d", "evidenceRequired": ["e"]}],
            "checks": [{"id": "e", "kind": "run", "run": "true"}],
        },
        reexecute={
            "original_task_id": "task_001",
            "original_agent": "a",
            "attempt": 1,
            "validation_result": {"validator": "b", "score": 3, "reason": "r", "issues": ["i"]},
        },
        on_complete={"message_template": "m"},
    ),
    {
        "schema_version": "1.0",
        "message_id": "m",
        "plan_id": "plan_shop",
        "producer_agent_id": "p",
        "type": "command",
        "created_at": "2026-01-31T09:30:00Z",
        "task_id": "task_001",
        "command_id": "cmd_task_001_001",
        "payload": {"command": command()},
    },
    {
        "schema_version": "1.1",
        "plan_id": "p",
        "nodes": [
            {
                "task_id": "a",
                "assigned_agent_id": "x",
                "depends_on": ["b"],
                "inputs": [{"name": "n", "selector": {"type": "by_glob", "value": "*"}}],
                "outputs": [{"name": "o", "deliver_to": ["*"], "when": "score < 5"}],
                "gates": {"branches": [{"when": "score > 3", "activate": ["b"]}], "thresholds": {"a_min_score": 3}},
                "failure_policy": {"on_dependency_failed": "FALLBACK", "fallback_task_id": "b"},
            },
            {"task_id": "b", "assigned_agent_id": "y", "outputs": [{"name": "o"}]},
        ],
        "routing_rules": [{"match": {"tag": "t"}, "deliver_to": ["x"]}],
    },
    {
        "plan_id": "p",
        "nodes": [{"task_id": "a", "assigned_agent_id": "x", "required_inputs": ["a.md"], "outputs": ["b"]}],
    },
]
KINDS = [kind for kind in catalogue.DOCUMENTS.values() if issubclass(kind, Document)]


def bent(value: Any, rng: random.Random) -> Any:
    """A copy with one place changed: removed, replaced, doubled, moved, renamed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        copy = dict(value)
        match rng.randrange(5):
            case 0:
                del copy[key]
            case 1:
                copy[key] = rng.choice(NOT_JSON if rng.random() < 0.1 else ODD)
            case 2:
                copy[key[:-1] + rng.choice("_xS") if isinstance(key, str) else key] = copy.pop(key)
            case _:
                copy[key] = bent(copy[key], rng)
        return copy
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], bent(value[at], rng), *value[at + rng.randrange(2) :]]
    return rng.choice(ODD)


def broken(data: bytes, rng: random.Random) -> bytes:
    """Bytes with a flip, a cut, a repetition or an insertion."""
    at = rng.randrange(len(data))
    match rng.randrange(4):
        case 0:
            return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at : at + 20] * 2 + data[at + 20 :]
    return (
        data[:at]
        + rng.choice([b"\xff", b"\xef\xbb\xbf", b'"', b"{", b"\\ud800", b"NaN", b"[" * 70, b"\0", b"1e999"])
        + data[at:]
    )


def everywhere(value: Any, odd: Any) -> Iterator[Any]:
    """Copies of a document with each of its places in turn replaced."""
    yield odd
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            for changed in everywhere(value[key], odd):
                copy: Any = value.copy()
                copy[key] = changed
                yield copy


def offer(value: Any) -> None:
    """Everything that takes values of unknown origin. Only our own errors may come back."""
    made = generate(value, KNOWN)
    assert made.ok is (made.command is not None) is (not made.errors)
    checked = validation.validate(value, KNOWN)
    assert checked.ok is (checked.command is not None) is (not checked.errors)
    if isinstance(value, dict):
        assert envelopes.validate(value, KNOWN).ok in {True, False}
    for read in (read_envelope, TaskDag.from_json):
        try:
            document = read(value)
        except AgentTalkError:
            continue
        if isinstance(document, TaskDag):
            dag_checks.check(document, agents={"x"})


@pytest.mark.random
def test_no_bent_document_raises_anything_but_our_own_errors() -> None:
    rng = random.Random(20260131)
    for number in range(INPUTS // 2):
        value = bent(SEEDS[number % len(SEEDS)], rng)
        for _ in range(rng.randrange(3)):
            value = bent(value, rng)
        offer(value)


@pytest.mark.random
def test_no_odd_value_in_any_place_raises_anything_but_our_own_errors() -> None:
    count = 0
    for seed in SEEDS:
        for odd in [*ODD, 10**400, -(10**400), [None], {"type": None}]:
            for value in everywhere(seed, odd):
                count += 1
                if count % EACH == 0:
                    offer(value)
    assert count > 5000


@pytest.mark.random
def test_no_broken_bytes_raise_anything_but_our_own_errors() -> None:
    rng = random.Random(20260201)
    encoded = [json.dumps(seed, ensure_ascii=False).encode() for seed in SEEDS]
    read = 0
    for number in range(INPUTS // 2):
        data = broken(encoded[number % len(encoded)], rng)
        try:
            value = wire.read(data)
        except AgentTalkError:
            continue
        read += 1
        wire.require_json(value)
        assert wire.read(wire.write(value)) == value
        if number % 4 == 0:
            offer(value)
    assert read > INPUTS // 20


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_kind_of_document_raises_anything_else_for_odd_values(kind: type[Document]) -> None:
    refused = 0
    for value in [*ODD, *NOT_JSON, *SEEDS]:
        try:
            kind.from_json(value)
        except AgentTalkError:
            refused += 1
    assert refused >= len(ODD)
