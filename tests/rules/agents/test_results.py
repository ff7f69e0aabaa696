"""What a program says came out: from its result file, else from its output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agenttalk.contracts.command import Command
from agenttalk.contracts.errors import Code
from agenttalk.rules.agents.results import (
    TAIL,
    AgentResult,
    TurnFault,
    describe_error,
    explain_unfitness,
    fill_notice,
    find_missing_outputs,
    find_reported_object,
    find_unsafe_path,
    list_possible_outputs,
    list_required_outputs,
    map_declared_outputs,
    read_result,
)
from kits.samples import command


def read(
    file: Any, stdout: bytes = b"", *, required: bool = False, may_refuse: bool = False
) -> AgentResult | TurnFault:
    data = file if isinstance(file, bytes) or file is None else json.dumps(file).encode()
    return read_result(data, stdout, score_required=required, may_refuse=may_refuse)


def test_the_result_file_decides() -> None:
    assert read({"result": [1], "score": 5}, b'{"result": 2}') == AgentResult([1], 5)


@pytest.mark.parametrize("file", [b"{", b"", b"[]", b"\xff"])
def test_a_result_file_that_is_none_fails(file: bytes) -> None:
    found = read(file)
    assert isinstance(found, TurnFault)
    assert found.code is Code.COMMAND_FAILED


@pytest.mark.parametrize(
    ("stdout", "value"),
    [
        (b'noise\n{"result": 1}\n{"result": 2}\nmore', 2),
        (b'{"result": 1}\n{"other": 2}\n{broken', 1),
        (b"just words\n", "just words\n"),
        (b"", ""),
        (b"\xff\0", "\ufffd\ufffd"),
        (b'  {"result": {"deep": true}}  ', {"deep": True}),
    ],
)
def test_without_a_file_the_last_object_of_the_output_counts_else_all_of_it(stdout: bytes, value: Any) -> None:
    assert read(None, stdout) == AgentResult(value)


@pytest.mark.parametrize(
    ("score", "code"),
    [
        (None, Code.SCORE_MISSING),
        (101, Code.SCORE_INVALID),
        (-1, Code.SCORE_INVALID),
        ("80", Code.SCORE_INVALID),
        (True, Code.SCORE_INVALID),
    ],
)
def test_a_required_score_is_a_number_from_0_to_100(score: Any, code: Code) -> None:
    found = read({"result": 1, "score": score}, required=True)
    assert isinstance(found, TurnFault)
    assert found.code is code
    assert read({"result": 1, "score": score}) == AgentResult(1)


@pytest.mark.parametrize("score", [0, 100, 71.5])
def test_a_score_and_its_explanation_are_kept(score: float) -> None:
    said = {"result": 1, "score": score, "score_explanation": "so so"}
    assert read(said, required=True) == AgentResult(1, score, "so so")
    assert read({**said, "score_explanation": 5}) == AgentResult(1, score, None)


def test_an_error_is_what_the_driver_and_the_end_of_the_program_said() -> None:
    assert describe_error("exit code 1", b"  bad\n") == "exit code 1: bad"
    assert describe_error("exit code 1", b"bad\nworse\n") == "exit code 1\nbad\nworse"
    assert describe_error("exit code 1", b" ") == "exit code 1"
    assert len(describe_error("e" * 9_000, b"x" * 9_000)) == TAIL
    assert describe_error("", b"") == "it said nothing"
    assert len(describe_error("", b"x" * 9_000)) == TAIL - 2


def test_declared_outputs_are_known_by_name_and_as_parts_of_paths() -> None:
    produces = [{"output_name": "a/b", "files": []}, {"output_name": "c.md", "files": []}]
    order = Command.from_json(command(produces=produces))
    assert map_declared_outputs(order) == {"a/b": "a/b", "a%2f%b": "a/b", "c.md": "c.md"}
    assert find_missing_outputs(order, {"a/b", "c.md", "more"}) is None
    missing = find_missing_outputs(order, {"c.md"})
    assert missing is not None
    assert missing.message.endswith(": a/b")
    free = Command.from_json(command())
    assert (map_declared_outputs(free), find_missing_outputs(free, ())) == ({}, None)


def test_paths_that_cannot_lie_in_an_inbox_are_found() -> None:
    assert find_unsafe_path(["a", "b/c.msg.json"]) == "b/c.msg.json"
    assert find_unsafe_path(["a/.b"]) == "a/.b"
    assert find_unsafe_path(["a", "b"]) is None


def test_notices_are_filled_once_and_only_when_they_are_asked_for() -> None:
    wanted = {
        "on_complete": {"message_template": "{result} {score} {error}|{x}"},
        "on_failure": {"message_template": "no: {error}"},
    }
    order = Command.from_json(command(**wanted))
    assert fill_notice(order, AgentResult("{score}", 7)) == "{score} 7 |{x}"
    assert fill_notice(order, AgentResult(None)) == "None  |{x}"
    assert fill_notice(order, TurnFault(Code.COMMAND_FAILED, "bad")) == "no: bad"
    assert fill_notice(Command.from_json(command()), AgentResult(1)) is None


UNFIT = {"self_assessment": {"score": 40, "reason": "I know no Rust."}}


def test_an_agent_returns_a_command_by_saying_how_unfit_it_is() -> None:
    unfit = TurnFault(Code.AGENT_UNFIT, "I know no Rust. (40 of 100)")
    assert read(UNFIT, required=True, may_refuse=True) == unfit
    assert read(None, b"noise\n" + json.dumps(UNFIT).encode(), may_refuse=True) == unfit


def test_whoever_was_not_asked_how_fit_it_is_cannot_refuse() -> None:
    assert read({"result": "done", **UNFIT}) == AgentResult("done")
    assert read(UNFIT) == AgentResult(None)
    assert read(None, json.dumps(UNFIT).encode()) == AgentResult(json.dumps(UNFIT))


@pytest.mark.parametrize("score", [70, 100, 101, -1, True, False, "40", None, [], float("inf")])
def test_only_a_score_below_what_is_fit_is_a_refusal(score: Any) -> None:
    assert explain_unfitness({"score": score, "reason": "why"}) is None


@pytest.mark.parametrize("assessment", [None, 40, "40", [40], {}, {"reason": "no"}])
def test_what_is_no_judgement_is_none(assessment: Any) -> None:
    assert explain_unfitness(assessment) is None


@pytest.mark.parametrize(
    ("reason", "told"),
    [(None, "it does not say why"), (" ", "it does not say why"), (7, "it does not say why"), ("a\0b", "a\ufffdb")],
)
def test_a_refusal_has_a_reason_that_can_be_told(reason: Any, told: str) -> None:
    assert explain_unfitness({"score": 0, "reason": reason}) == f"{told} (0 of 100)"
    assert len(explain_unfitness({"score": 69.5, "reason": "x" * 10 * TAIL}) or "") < TAIL + 100


@pytest.mark.parametrize(
    ("file", "stdout", "said"),
    [
        (b'{"score": 1}', b'{"score": 2}', {"score": 1}),
        (None, b'talk\n{"score": 2}\n', {"score": 2}),
        (None, b"talk", None),
        (b"{", b'{"score": 2}', None),
        (b"[]", b'{"score": 2}', None),
        (b'{"other": 1}', b'{"score": 2}', None),
    ],
)
def test_a_judgement_is_what_the_file_says_else_what_was_printed_last(
    file: bytes | None, stdout: bytes, said: object
) -> None:
    assert find_reported_object(file, stdout, ("score",)) == said


@pytest.mark.mends("B2")
def test_what_a_command_may_make_is_declared_and_never_missing() -> None:
    order = Command.from_json(
        command(may_produce=[{"output_name": "good.md", "when": "score >= 70"}, {"output_name": "more.md"}])
    )
    assert list_possible_outputs(order) == [("good.md", "score >= 70"), ("more.md", None)]
    assert {"good.md", "more.md"} <= map_declared_outputs(order).keys()
    assert "good.md" not in list_required_outputs(order)
