"""What a model must answer, and what is wrong with an answer that cannot be used."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.errors import Code
from agenttalk.rules.agents.model_answers import AnswerSpec, ModelAnswer, build_schema, check_answer, read_answer
from agenttalk.rules.agents.results import TurnFault

ASKED = AnswerSpec(score=True, outputs=("a.md", "b.md"))
BOTH = [{"name": "a.md", "text": "A"}, {"name": "b.md", "text": "B"}]
WHOLE: dict[str, Any] = {"result": "done", "score": 70, "score_explanation": "why", "outputs": BOTH}
JUDGED: dict[str, Any] = {"score": 20, "decision": "REJECT", "reason": "short", "issues": [{"description": "x"}]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
NAMES = st.sampled_from([(), ("a.md",), ("a.md", "b.md")])
ASKS = st.builds(AnswerSpec, st.booleans(), NAMES, st.sampled_from([(), ("c.md",)]), st.booleans(), st.booleans())


def code(asked: AnswerSpec, said: object) -> Code | None:
    found = check_answer(asked, said)
    return found.code if isinstance(found, TurnFault) else None


def test_a_whole_answer_is_a_result_and_its_outputs() -> None:
    found = check_answer(ASKED, WHOLE)
    assert found == ModelAnswer({"result": "done", "score": 70, "score_explanation": "why"}, {"a.md": "A", "b.md": "B"})
    assert read_answer(ASKED, f" {json.dumps(WHOLE)}\n") == found


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"result": " "}, Code.AGENT_SILENT),
        ({"result": 7}, Code.AGENT_SILENT),
        ({"result": "\ud800"}, Code.ANSWER_INVALID),
        ({"score": None}, Code.SCORE_MISSING),
        ({"score": 101}, Code.SCORE_INVALID),
        ({"score": "70"}, Code.SCORE_INVALID),
        ({"score": float("nan")}, Code.ANSWER_INVALID),
        ({"outputs": None}, Code.OUTPUT_MISSING),
        ({"outputs": BOTH[:1]}, Code.OUTPUT_MISSING),
        ({"outputs": [*BOTH[:1], {"name": "b.md", "text": " "}]}, Code.OUTPUT_MISSING),
        ({"outputs": [*BOTH, BOTH[0]]}, Code.ANSWER_INVALID),
        ({"outputs": [*BOTH, {"name": "../c", "text": ""}]}, Code.ANSWER_INVALID),
        ({"outputs": ["a.md"]}, Code.ANSWER_INVALID),
        ({"outputs": [{"name": "a.md"}]}, Code.ANSWER_INVALID),
    ],
)
def test_what_is_wrong_with_an_answer_is_told_by_a_code(change: dict[str, Any], wrong: Code) -> None:
    assert code(ASKED, {**WHOLE, **change}) is wrong


def test_a_score_that_nobody_asked_for_and_is_none_is_left_out() -> None:
    assert check_answer(AnswerSpec(), {"result": "done", "score": 900}) == ModelAnswer({"result": "done"})


@pytest.mark.parametrize(
    ("text", "wrong"), [("", Code.AGENT_SILENT), ("Well", Code.ANSWER_INVALID), ("[1]", Code.ANSWER_INVALID)]
)
def test_a_text_that_is_no_object_is_no_answer(text: str, wrong: Code) -> None:
    found = read_answer(AnswerSpec(), text)
    assert isinstance(found, TurnFault)
    assert found.code is wrong


def test_a_long_text_is_not_quoted_in_full() -> None:
    found = read_answer(AnswerSpec(), "word " * 500)
    assert isinstance(found, TurnFault)
    assert found.message.endswith("…'")
    assert len(found.message) < 400


def test_who_may_refuse_says_so_and_brings_nothing() -> None:
    unfit = {"self_assessment": {"score": 20, "reason": "no Greek"}, "result": ""}
    asked = AnswerSpec(outputs=("a.md",), may_refuse=True)
    assert check_answer(asked, unfit) == ModelAnswer({"self_assessment": unfit["self_assessment"]})
    assert code(AnswerSpec(), unfit) is Code.AGENT_SILENT
    assert code(asked, {**unfit, "self_assessment": {"score": 90, "reason": "Greek"}}) is Code.AGENT_SILENT


def test_a_judgement_is_a_score_a_decision_and_why() -> None:
    asked = AnswerSpec(judges=True)
    assert check_answer(asked, {**JUDGED, "more": 1}) == ModelAnswer(JUDGED)
    assert code(asked, {**JUDGED, "decision": "accept"}) is Code.ANSWER_INVALID
    assert code(asked, {**JUDGED, "score": -1}) is Code.SCORE_INVALID


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ASKED, WHOLE),
        (AnswerSpec(judges=True), JUDGED),
        (AnswerSpec(may_refuse=True), {"result": "", "self_assessment": {"score": 1, "reason": "x"}}),
        (AnswerSpec(), {"result": "x"}),
    ],
)
def test_what_can_be_used_meets_the_schema(asked: AnswerSpec, said: dict[str, Any]) -> None:
    jsonschema.validate(said, build_schema(asked))
    assert isinstance(check_answer(asked, said), ModelAnswer)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**said, "more": 1}, build_schema(asked))


@given(ASKS)
def test_what_is_asked_for_survives_the_way_to_the_program(asked: AnswerSpec) -> None:
    assert AnswerSpec.from_json(json.loads(json.dumps(asked.as_json()))) == asked


@given(ASKS, JSON)
def test_whatever_is_said_is_an_answer_or_has_a_fault(asked: AnswerSpec, said: object) -> None:
    found = check_answer(asked, said)
    if isinstance(found, ModelAnswer) and not asked.judges and "result" in found.result:
        assert found.result["result"].strip()
        assert set(found.outputs) == set(asked.outputs)
        assert not asked.score or 0 <= found.result["score"] <= 100
    assert isinstance(found, ModelAnswer) or found.message


@pytest.mark.mends("B2")
def test_an_answer_may_bring_what_is_due_for_some_scores() -> None:
    asked = AnswerSpec(score=True, possible=("questions.md",))
    said = {"result": "ok", "score": 1, "score_explanation": "one"}
    brought = {**said, "outputs": [{"name": "questions.md", "text": "1. When?"}]}
    assert check_answer(asked, said) == ModelAnswer({**said})
    assert check_answer(asked, brought) == ModelAnswer({**said}, {"questions.md": "1. When?"})
    assert build_schema(asked)["properties"]["outputs"]["items"]["properties"]["name"]["enum"] == ["questions.md"]
    assert AnswerSpec.from_json(asked.as_json()) == asked
