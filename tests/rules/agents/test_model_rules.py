"""Services of models: keys, prices, patience; and what the program that asks them tells."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.errors import Code, ContractError
from agenttalk.contracts.model_use import LlmUse, LocalUse, Prices
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.rules.agents import model_services
from agenttalk.rules.agents.model_answers import AnswerSpec
from agenttalk.rules.agents.model_protocol import ModelRequest, ModelRun, format_line
from agenttalk.rules.core.usage import UsageTotals
from agenttalk.rules.planfile.compiler import compile_plan


def llm(**said: Any) -> LlmUse:
    return LlmUse(**{"provider": "openai", "model": "m", **said})


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (llm(), "OPENAI_API_KEY"),
        (llm(provider="anthropic"), "ANTHROPIC_API_KEY"),
        (llm(provider="google"), "GEMINI_API_KEY"),
        (llm(provider="ollama"), None),
        (llm(base_url="http://127.0.0.1:8000/v1"), None),
        (llm(base_url="http://127.0.0.1:8000/v1", key_env="MINE"), "MINE"),
    ],
)
def test_a_key_is_named_or_follows_from_the_provider(use: LlmUse, name: str | None) -> None:
    assert model_services.key_of(use) == name


@pytest.mark.parametrize("url", ["https://x.example", "http://127.0.0.1:11434/v1", "http://[::1]:80/a/b"])
def test_a_plain_address_is_taken(url: str) -> None:
    use = llm(base_url=url)
    assert model_services.check_model_use(use, "llm") is use


@pytest.mark.parametrize(
    ("use", "driver", "words"),
    [
        (None, "llm", "add llm with provider and model"),
        (None, "local", "add local with model_file"),
        (llm(key_env="agenttalk_token"), "llm", "name another in key_env"),
        (llm(base_url="ftp://x"), "llm", "write https://"),
        (llm(base_url="http://me:secret@x/"), "llm", "without name, password"),
        (llm(base_url="http://x/?key=1"), "llm", "and query"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_to_do(use: LlmUse | None, driver: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model_services.check_model_use(use, driver)


def test_a_model_on_this_machine_needs_its_file_alone() -> None:
    use = LocalUse(model_file="m.gguf")
    assert model_services.check_model_use(use, "local") is use


def test_what_it_costs_follows_from_its_prices() -> None:
    assert model_services.compute_price(Prices(input_per_million=2.0, output_per_million=10), 500_000, 100_000) == 2.0


@given(st.integers(0, 10**9))
def test_an_estimate_is_never_too_low_for_four_characters_a_token(characters: int) -> None:
    assert 0 <= model_services.estimate_tokens(characters) * 4 - characters < 4


@given(st.integers(1, 20), st.integers(0, 10), st.none() | st.floats(0, 1000), st.floats(-10, 1000))
def test_nobody_is_asked_sooner_than_it_says_nor_after_the_time_is_up(
    times: int, retries: int, asked: float | None, left: float
) -> None:
    wait = model_services.compute_pause(times, retries=retries, asked=asked, left=left)
    if wait is None:
        assert times > retries or (asked if asked is not None else 0.5 * 4 ** (times - 1)) >= left or left <= 60
    else:
        assert times <= retries
        assert (asked or 0) <= wait < left


def test_pauses_grow() -> None:
    assert [model_services.compute_pause(n, retries=9, asked=None, left=1e9) for n in (1, 2, 3, 4, 5)] == [
        0.5,
        2,
        8,
        32,
        60,
    ]


def test_a_request_survives_the_way_to_the_program() -> None:
    request = ModelRequest("llm", {"model": "m"}, "Häh?\n", AnswerSpec(score=True), 12.5, "zh")
    assert ModelRequest.read(request.write().encode()) == request
    assert ModelRequest.read(ModelRequest("llm", {}, "\ud800", AnswerSpec(), 1).write().encode()).prompt == "?"
    assert "Häh" not in repr(request)


def heard(*lines: bytes) -> tuple[ModelRun, list[tuple[str, str]]]:
    talk = ModelRun()
    events = [talk.add_line(each) for each in lines]
    return talk, [(each.kind, each.text) for each in events if each is not None]


def test_what_is_told_is_counted() -> None:
    talk, events = heard(
        format_line("model", name="gpt-x"),
        format_line("text", text="Hello"),
        format_line("usage", input_tokens=10, output_tokens=5, requests=1, cost_usd=0.5, estimated=False),
        format_line("waiting", text="busy"),
        format_line("usage", input_tokens=30, output_tokens=8, requests=2, estimated=True),
        format_line("end"),
    )
    assert (talk.model, talk.used, talk.requests, talk.read, talk.written) == ("gpt-x", UsageTotals(38, 0.5), 2, 30, 8)
    assert (talk.ended, talk.fault, talk.estimated) == (True, None, True)
    assert [kind for kind, _ in events] == ["session", "text", "usage", "warning", "usage", "end"]


def test_a_fault_has_a_code_and_a_reason() -> None:
    talk, _ = heard(format_line("fault", code=Code.SCORE_MISSING, text="none"))
    assert talk.fault == (Code.SCORE_MISSING, "none")
    talk, _ = heard(format_line("fault", code="NONSENSE"))
    assert talk.fault == (Code.COMMAND_FAILED, "it does not say why")
    talk, _ = heard(format_line("fault", code=7, text=7))
    assert talk.fault == (Code.COMMAND_FAILED, "it does not say why")


@given(st.binary() | st.builds(lambda said: json.dumps(said).encode(), st.dictionaries(st.text(), st.integers())))
def test_other_lines_mean_nothing(said: bytes) -> None:
    assert heard(said, b'{"kind": 7}', b"[1]", format_line("other")) == (ModelRun(), [])


def compiled(agent: dict[str, Any], **keys: Any) -> Any:
    task = {"id": "t", "agent": "dev", "prompt": "Do it.", **keys}
    document = {"plan_id": "p", "workspace": {"repo": "."}, "agents": {"dev": agent}, "tasks": [task]}
    return compile_plan(reader.plan_of(YamlSource(document)))


MODEL = {"driver": "llm", "llm": {"provider": "openai", "model": "m"}}


@pytest.mark.parametrize(
    ("agent", "keys", "field", "code"),
    [
        ({"driver": "llm"}, {}, "agents.dev.llm", "FIELD_MISSING"),
        ({"driver": "local"}, {}, "agents.dev.local", "FIELD_MISSING"),
        (MODEL | {"llm": MODEL["llm"] | {"base_url": "here"}}, {}, "agents.dev.llm", "FIELD_VALUE"),  # type: ignore[operator]
        (MODEL, {"workspace": "repo"}, "tasks[0].workspace", "FIELD_VALUE"),
    ],
)
def test_a_plan_whose_model_cannot_be_asked_is_refused(
    agent: dict[str, Any], keys: dict[str, Any], field: str, code: str
) -> None:
    [problem] = compiled(agent, **keys).problems
    assert (problem.field, problem.code) == (field, code)
    assert problem.hint


def test_a_plan_whose_agent_is_a_model_is_fine() -> None:
    found = compiled(MODEL)
    assert found.problems == ()
    assert found.profiles["dev"].llm == LlmUse(provider="openai", model="m")
    assert compiled({"driver": "local", "local": {"model_file": "m.gguf", "threads": 2}}).problems == ()


@pytest.mark.parametrize(
    ("use", "field", "hint"),
    [
        ({"modell": "m"}, "agents.dev.llm.modell", "did you mean 'model'?"),
        ({"prices": {"input": 1}}, "agents.dev.llm.prices.input", "there are: input_per_million, output_per_million"),
    ],
)
def test_a_key_of_a_model_that_nobody_knows_is_named_with_the_nearest(
    use: dict[str, Any], field: str, hint: str
) -> None:
    with pytest.raises(ContractError) as refused:
        compiled({"driver": "llm", "llm": {"provider": "openai", "model": "m", **use}})
    assert (field, hint) in {(each.field, each.hint) for each in refused.value.problems}
