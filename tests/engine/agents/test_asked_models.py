"""Turns of agents that are models, asked over real HTTP by real processes: what they say is worth what it is."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import pytest

from agenttalk.testing import ScriptedModel
from agenttalk.testing.model_script import CallStep, Script
from agenttalk.testing.scripted_model import ReceivedRequest
from kits.plankit import Engine, plan, play, states, task
from kits.standingkit import PlanStanding

KEY = "sk-canary-7f3a91c2e5"
SCORED = {"score_required": True, "score_criteria": "How good it is"}
WHOLE = {"result": "It reads well.", "score": 82, "score_explanation": "One comma is missing."}
TEXT = {"name": "review.md", "deliverable": True}
PRICES = {"input_per_million": 1000.0, "output_per_million": 5000.0}


def answers(*said: dict[str, Any]) -> Script:
    """A model that gives these answers, one after the other."""
    return [CallStep("answer", each) for each in said]


def asks(model: ScriptedModel, provider: str = "openai", **use: Any) -> dict[str, Any]:
    """An agent that is the scripted model, behind a provider's interface."""
    url = model.url if provider in {"anthropic", "google"} else f"{model.url}/v1"
    name = {"anthropic": "claude-x", "google": "gemini-x"}.get(provider, "gpt-x")
    known = {"provider": provider, "model": name, "base_url": url, "key_env": "CANARY_KEY", "prices": PRICES}
    return {"driver": "llm", "llm": {**known, **use}}


def ended(folder: Path, *tasks: dict[str, Any], agents: dict[str, Any], **keys: Any) -> PlanStanding:
    """What became of a plan."""

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(*tasks, agents=agents, **keys))
        return await engine.ended()

    found: PlanStanding = play(folder / "root", use)
    return found


def stored(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Every byte that lies under a root."""
    return ((path, path.read_bytes()) for path in root.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_KEY", KEY)
    monkeypatch.setattr("kits.plankit.PATIENCE", 300.0)  # starting a program that asks takes long on a busy machine


@pytest.mark.rest
def test_a_model_is_told_what_is_wrong_with_its_answer_whichever_interface_it_has(tmp_path: Path) -> None:
    made = {"outputs": [{"name": "review.md", "text": f"# Review\nBetter than {KEY}.\n"}]}
    good = {"outputs": [{"name": "review.md", "text": "# Review\nFine.\n"}]}
    providers = ("openai", "anthropic", "google")
    with ScriptedModel(answers({**WHOLE, "score": 820} | made, WHOLE | good)) as model:
        agents = {name: asks(model, name) for name in providers}
        tasks = [task(f"by-{name}", name, outputs=[TEXT], **SCORED) for name in providers]
        found = ended(tmp_path, *tasks, agents=agents)
        asked = [json.dumps(each.body) for each in model.requests]
    assert set(states(found).values()) == {"COMPLETED"}
    for each in found.tasks:
        used = each["usage"]
        assert used is not None
        assert (each["score"], used["tokens"]) == (82, 240), each
        assert used["cost_usd"] == pytest.approx(0.4)  # 200 tokens read, 40 written
    assert len(asked) == 6
    assert sum("a score is a number from 0 to 100, not 820" in each for each in asked) == 3
    assert not any(str(tmp_path) in each for each in asked), "a model has no use for paths"
    told = [path for path, data in stored(tmp_path / "root") if KEY.encode() in data]
    assert told == []
    shown = [data for path, data in stored(tmp_path / "root") if path.name.endswith(".events.jsonl")]
    assert len(shown) == 3
    assert all(b"[redacted CANARY_KEY]" in data for data in shown)


@pytest.mark.rest
@pytest.mark.shows("X08")
def test_who_gives_no_score_is_asked_again_and_fails_in_the_end(tmp_path: Path) -> None:
    with ScriptedModel(answers({"result": "It reads well."})) as model:
        found = ended(tmp_path, task("t", "m", **SCORED), agents={"m": asks(model, retries=0)})
        prompts = [each.body["messages"][0]["content"] for each in model.requests]
    [done] = found.tasks
    assert (found.result, done["state"], len(prompts)) == ("failed", "FAILED", 3)
    assert (done["reason"] or "").startswith("SCORE_MISSING: a score from 0 to 100 is required")
    assert "SCORE_MISSING" in prompts[1]
    assert "SCORE_MISSING" not in prompts[0]


class Stalling(ScriptedModel):
    """Answers three times, and then no more."""

    def _answer(self, path: str, body: Any, door: Any) -> None:
        if len(self.requests) >= 3:
            self.requests.append(ReceivedRequest(path, body))
            threading.Event().wait(60)
        super()._answer(path, body, door)


def test_a_budget_stops_it_while_it_runs_and_keeps_others_from_being_asked(tmp_path: Path) -> None:
    with Stalling(answers({"result": ""})) as model:
        tasks, agents = (task("a", "m"), task("b", "m")), {"m": asks(model, retries=10)}
        found = ended(tmp_path, *tasks, agents=agents, limits={"tokens": 300})
        asked = len(model.requests)
    first, other = sorted(found.tasks, key=lambda each: each["usage"]["tokens"] if each["usage"] else 0, reverse=True)
    assert "budget-exhausted" in (first["reason"] or "")
    assert first["usage"] is not None
    assert first["usage"]["tokens"] == 360
    assert asked in {3, 4}  # one more may have been on its way
    assert other["state"] != "COMPLETED"
    assert "budget" in str(other["reason"])


class Silent:
    """A service that takes requests and never answers."""

    def __init__(self) -> None:
        self._socket = socket(AF_INET, SOCK_STREAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self.asked, self.left = threading.Event(), threading.Event()
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        connection, _ = self._socket.accept()
        with connection, self._socket:
            connection.recv(1 << 20)
            self.asked.set()
            while connection.recv(1 << 20):
                pass
            self.left.set()


@pytest.mark.rest
def test_a_call_that_hangs_ends_with_its_task_and_blocks_nobody(tmp_path: Path) -> None:
    silent = Silent()
    use = {"provider": "openai", "model": "m", "base_url": silent.url}

    async def hang(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("t", "m"), task("free", "a"), agents={"m": {"driver": "llm", "llm": use}}))
        assert await asyncio.to_thread(silent.asked.wait, 60)
        await engine.until(lambda now: states(now)["free"] == "COMPLETED")
        await engine.dispatcher.operator.cancel("p", by="ada")
        return await engine.until(lambda now: now.state == "ENDED")

    found: PlanStanding = play(tmp_path / "root", hang)
    [hung] = [each for each in found.tasks if each["task_id"] == "t"]
    assert (hung["state"], "ada" in (hung["reason"] or "")) == ("FAILED", True), hung
    assert silent.left.wait(300), "its program is still there"


def test_a_model_that_cannot_be_asked_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CANARY_KEY")
    (tmp_path / "path/pydantic_ai").mkdir(parents=True)
    (tmp_path / "path/pydantic_ai/__init__.py").write_text("raise ModuleNotFoundError(name='pydantic_ai')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    url = "http://127.0.0.1:1/v1"
    use = {"provider": "openai", "model": "m"}
    agents = {
        "keyless": {"driver": "llm", "llm": {**use, "key_env": "CANARY_KEY"}},
        "bare": {"driver": "llm", "llm": {**use, "base_url": url}, "env": ["PYTHONPATH"]},
    }
    found = ended(tmp_path, task("k", "keyless"), task("b", "bare"), agents=agents)
    reasons = {each["task_id"]: each["reason"] or "" for each in found.tasks}
    assert set(states(found).values()) == {"FAILED"}
    assert reasons["k"].startswith("MODEL_UNUSABLE: the variable CANARY_KEY")
    assert "pip install 'agenttalk[llm]'" in reasons["b"]
