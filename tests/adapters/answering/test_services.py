"""What comes of a service that does not answer as it should: always an answer, or a code and a reason."""

from __future__ import annotations

import asyncio
import json
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import pytest

from agenttalk.adapters.answering import service
from agenttalk.adapters.answering.exchange import UnansweredError
from agenttalk.contracts.errors import Code
from agenttalk.rules.agents.model_answers import AnswerSpec, ModelAnswer
from agenttalk.rules.agents.model_protocol import ModelRequest
from agenttalk.testing import ScriptedModel
from agenttalk.testing.model_apis import TokenCounts
from agenttalk.testing.model_script import CallStep, GarbageAnswer, RefuseStep, SayStep, ScriptStep
from effort import DEEP

GOOD = CallStep("answer", {"result": "fine"})
TOO_MUCH = CallStep("answer", {"result": "fine", "score": 101})
ALL = DEEP
"""Whether Anthropic's library is loaded here, too, which takes longer than everything else. In turns it always is."""
PROVIDERS = ("openai", "google", "ollama", *(["anthropic"] if ALL else []))
GIVEN_UP: list[tuple[str, ScriptStep, Code, int]] = [
    ("openai", RefuseStep(503, retry_after=0), Code.MODEL_UNAVAILABLE, 2),
    ("google", RefuseStep(500, retry_after=0), Code.MODEL_UNAVAILABLE, 2),
    ("openai", RefuseStep(429, retry_after=3600), Code.MODEL_UNAVAILABLE, 1),
    ("openai", RefuseStep(401), Code.MODEL_UNUSABLE, 1),
    ("google", RefuseStep(400), Code.MODEL_UNUSABLE, 1),
    ("openai", SayStep("I would rather talk."), Code.ANSWER_INVALID, 2),
    ("openai", SayStep(""), Code.AGENT_SILENT, 2),
    ("openai", CallStep("answer", {}), Code.AGENT_SILENT, 2),
]
if ALL:
    GIVEN_UP += [
        ("anthropic", RefuseStep(529, retry_after=0), Code.MODEL_UNAVAILABLE, 2),
        ("anthropic", RefuseStep(404), Code.MODEL_UNUSABLE, 1),
        ("anthropic", SayStep("I would rather talk."), Code.ANSWER_INVALID, 2),
        ("google", SayStep("I would rather talk."), Code.ANSWER_INVALID, 2),
    ]


class Heard:
    """Everything that was told."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def __call__(self, line: bytes) -> None:
        self.lines.append(json.loads(line))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.lines if each["kind"] == kind]


def ask(
    url: str, tell: Heard | None = None, *, asked: AnswerSpec | None = None, seconds: float = 60, **use: Any
) -> ModelAnswer:
    """Ask a model of a service."""
    known = {"provider": "openai", "model": "m", "base_url": url, "retries": 1, **use}
    request = ModelRequest("llm", known, "Say something.", asked or AnswerSpec(), seconds)
    return asyncio.run(service.ask(request, tell or Heard(), "sk-x"))


def fault(model: ScriptedModel, provider: str = "openai", **more: Any) -> tuple[Code, str]:
    """Why there is no answer."""
    url = model.url if provider in {"anthropic", "google"} else f"{model.url}/v1"
    with pytest.raises(UnansweredError) as caught:
        ask(url, provider=provider, **more)
    return caught.value.code, caught.value.why


def chat(**choice: Any) -> GarbageAnswer:
    """An answer of a chat, said word by word."""
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [{"index": 0, **choice}]}
    return GarbageAnswer(json.dumps(body).encode())


@pytest.mark.rest_but("openai", "ollama")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_who_is_busy_is_asked_again_when_it_says_and_the_script_goes_on(provider: str) -> None:
    tell = Heard()
    with ScriptedModel([GOOD], faults=[RefuseStep(429, retry_after=0)]) as model:
        url = model.url if provider in {"anthropic", "google"} else f"{model.url}/v1"
        answer = ask(url, tell, provider=provider)
    assert answer.result == {"result": "fine"}
    assert len(model.requests) == 2
    [waited] = tell.of("waiting")
    assert "429" in waited["text"]
    assert "next try is in 0 s" in waited["text"]


@pytest.mark.parametrize(("provider", "step", "code", "asked"), GIVEN_UP)
def test_a_service_that_goes_on_like_that_is_given_up(provider: str, step: ScriptStep, code: Code, asked: int) -> None:
    with ScriptedModel([step]) as model:
        found, why = fault(model, provider)
    assert (found, len(model.requests)) == (code, asked), why
    assert why


def test_a_score_that_is_none_is_sent_back_and_then_told() -> None:
    tell = Heard()
    with ScriptedModel([GOOD, TOO_MUCH]) as model, pytest.raises(UnansweredError) as caught:
        ask(
            f"{model.url}/v1",
            tell,
            asked=AnswerSpec(score=True),
            prices={"input_per_million": 10, "output_per_million": 0},
        )
    assert caught.value.code is Code.SCORE_INVALID
    assert [each["input_tokens"] for each in tell.of("usage")] == [100, 200]
    assert tell.of("usage")[-1]["cost_usd"] == pytest.approx(0.002)
    assert "none was given" in json.dumps(model.requests[1].body)


def test_a_refusal_is_no_answer_and_is_not_asked_about_again() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    with ScriptedModel([GOOD], faults=[chat(message=message, finish_reason="stop")]) as model:
        code, why = fault(model)
    assert (code, len(model.requests)) == (Code.MODEL_REFUSED, 1)
    assert "I cannot help with that." in why


def test_what_is_cut_off_is_no_answer() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "answer", "arguments": '{"result": "fi'}}
    cut = chat(message={"role": "assistant", "content": None, "tool_calls": [call]}, finish_reason="length")
    with ScriptedModel([GOOD], faults=[cut, cut]) as model:
        code, why = fault(model, max_tokens=5)
    assert (code, "cut off" in why) == (Code.ANSWER_INVALID, True), why


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_none_of_its_answers_is_no_answer(provider: str) -> None:
    with ScriptedModel([GOOD], faults=[GarbageAnswer()] * 4) as model:
        code, why = fault(model, provider)
    assert code is Code.MODEL_UNAVAILABLE, why


def test_nobody_there_is_told_as_it_is() -> None:
    with socket(AF_INET, SOCK_STREAM) as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        with pytest.raises(UnansweredError) as caught:
            ask(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", retries=0)
    assert caught.value.code is Code.MODEL_UNAVAILABLE


def test_what_a_service_does_not_count_is_estimated() -> None:
    tell = Heard()
    with ScriptedModel([GOOD], tokens=TokenCounts(0, 0)) as model:
        ask(f"{model.url}/v1", tell)
    [used] = tell.of("usage")
    assert used["estimated"] is True
    assert used["input_tokens"] == 4
    assert used["output_tokens"] > 0


def test_an_input_is_judged_in_the_form_of_a_judgement() -> None:
    said = {"score": 40, "decision": "REJECT", "reason": "It is short.", "issues": [{"description": "No date."}]}
    with ScriptedModel([CallStep("answer", {**said, "decision": "MAYBE"}), CallStep("answer", said)]) as model:
        assert ask(f"{model.url}/v1", asked=AnswerSpec(judges=True)).result == said
