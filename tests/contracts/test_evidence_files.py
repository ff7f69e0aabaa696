"""Evidence and gate results from files: read strictly, every problem named."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.errors import ContractError
from agenttalk.contracts.evidence import EvidenceEntry, read_evidence, read_gates, read_promise

ENTRY = {"id": "b", "passed": True, "fresh": True, "trust": "executed"}


def test_ids_and_objects_may_stand_side_by_side() -> None:
    assert read_evidence(["a", {**ENTRY, "by": None, "ours": 1}]) == ("a", EvidenceEntry.read({**ENTRY, "ours": 1}))
    assert read_evidence([]) == ()


def test_gates_are_read_in_their_order_and_in_both_spellings() -> None:
    gates = read_gates(
        [
            {"allowed": False, "checkpoint": "pre-ship", "traceId": "t1"},
            {"allowed": True, "checkpoint": "pre-ship", "trace_id": "t2"},
        ]
    )
    assert [(gate.allowed, gate.trace_id) for gate in gates] == [(False, "t1"), (True, "t2")]


@pytest.mark.parametrize(
    ("document", "fields"),
    [
        ({}, [""]),
        ("a", [""]),
        (None, [""]),
        ([""], ["[0]"]),
        ([1], ["[0]"]),
        ([None], ["[0]"]),
        ([["a"]], ["[0]"]),
        ([{"id": "a"}], ["[0].passed", "[0].fresh", "[0].trust"]),
        ([{**ENTRY, "passed": "yes"}, {**ENTRY, "trust": "sure"}], ["[0].passed", "[1].trust"]),
        ([{**ENTRY, "fresh": None}], ["[0].fresh"]),
    ],
)
def test_evidence_that_is_not_plain_is_refused_and_every_problem_named(document: Any, fields: list[str]) -> None:
    with pytest.raises(ContractError) as caught:
        read_evidence(document)
    assert [problem.field for problem in caught.value.problems] == fields


@pytest.mark.parametrize(
    ("gate", "fields"),
    [
        ({"allowed": 1, "checkpoint": "pre-ship", "traceId": "t"}, ["[0].allowed"]),
        ({"allowed": True, "checkpoint": "pre-lunch", "traceId": "t"}, ["[0].checkpoint"]),
        ({"allowed": True, "checkpoint": "pre-ship"}, ["[0].traceId"]),
        ({"allowed": True, "checkpoint": "pre-ship", "traceId": "a", "trace_id": "b"}, ["[0]"]),
    ],
)
def test_a_gate_that_is_not_plain_is_refused(gate: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(ContractError) as caught:
        read_gates([gate])
    assert [problem.field for problem in caught.value.problems] == fields


def test_a_promise_is_read_in_both_spellings_and_refused_with_every_problem() -> None:
    body = {"id": "x", "objective": "", "acceptance": [], "doneWhen": [], "required_evidence": ["a"]}
    assert read_promise(body).required_evidence == ("a",)
    with pytest.raises(ContractError) as caught:
        read_promise({"id": 1, "acceptance": []})
    assert {problem.field for problem in caught.value.problems} == {"id", "objective"}
