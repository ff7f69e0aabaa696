"""What coding agents used: told turn by turn, task by task, plan by plan and agent by agent, and kept in bounds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import preloaded
from agenttalk.doors.cli.main import call

USES = """import json, sys
tokens, cost, calls, fails = (json.loads(each) for each in sys.argv[1:])
print(json.dumps({"agenttalk": {"usage": {"tokens": tokens, "cost_usd": cost, "tool_calls": calls}}}), flush=True)
if fails and cost > 1:
    sys.stdin.read()
    import time
    time.sleep(600)
print("I did it.")
sys.exit(fails)
"""


def agent(folder: Path, tokens: int, cost: float, calls: int = 0, *, fails: int = 0) -> dict[str, Any]:
    """An agent that tells what it used."""
    argv = [str(folder / "uses.py"), *map(str, (tokens, cost, calls, fails))]
    cli = {"agent": "custom", "program": sys.executable, "argv": argv, "model": "m1"}
    return {"driver": "cli", "cli": cli, "sandbox": "plain"}


def run(folder: Path, agents: dict[str, Any], tasks: list[dict[str, Any]], code: int, **keys: Any) -> Path:
    """Run a plan to its end; its root."""
    (folder / "uses.py").write_text(USES)
    document = {"plan_id": "p", "agents": agents, "tasks": tasks, **keys}
    (folder / "plan.json").write_text(json.dumps(document))
    assert call(["run", str(folder / "plan.json"), "--root", str(folder / "root")]) == code
    return folder / "root"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a command says, as JSON and in words."""
    capsys.readouterr()
    assert call([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert call([*arguments]) == 0
    return found, " ".join(capsys.readouterr().out.split())


def test_what_was_used_is_told_by_turn_task_plan_and_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agents = {
        "dev": agent(tmp_path, 1200, 0.5, 3),
        "pm": agent(tmp_path, 300, 0.25),
        "odd": agent(tmp_path, 7, 0.125, fails=1),
    }
    tasks: list[dict[str, Any]] = [
        {"id": "a", "agent": "dev", "prompt": "Do a."},
        {"id": "b", "agent": "dev", "prompt": "Do b."},
        {"id": "c", "agent": "pm", "prompt": "Do c."},
        {"id": "d", "agent": "odd", "prompt": "Do d.", "retry_times": 1},
    ]
    root = str(run(tmp_path, agents, tasks, 1))
    found, words = told(capsys, "status", "--root", root)
    [plan] = found["plans"]
    used = {
        name: (each["tokens"], each["cost_usd"], each["tool_calls"]) for name, each in plan["usage_by_agent"].items()
    }
    assert used == {"dev": (2400, 1.0, 6), "odd": (14, 0.25, 0), "pm": (300, 0.25, 0)}
    assert (plan["usage"]["tokens"], plan["usage"]["cost_usd"]) == (2714, 1.5)
    assert {each["task_id"]: each["usage"]["tokens"] for each in plan["tasks"]} == {
        "a": 1200,
        "b": 1200,
        "c": 300,
        "d": 14,
    }
    assert "2,400 tokens, $1.00, 6 tool calls" in words
    found, words = told(capsys, "explain", "p/d", "--root", root)
    assert [each["usage"]["tokens"] for each in found["attempts"]] == [7, 7]
    assert (found["usage"]["tokens"], found["usage"]["cost_usd"]) == (14, 0.25)
    assert "(7 tokens, $0.1250, m1)" in words
    assert "in all attempts: 14 tokens, $0.2500" in words


@pytest.mark.shows("P12")
def test_who_spends_more_than_its_plan_may_is_ended_in_its_turn_and_nobody_begins_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = {"dev": agent(tmp_path, 10, 2.5, fails=1), "pm": agent(tmp_path, 10, 0.1)}
    tasks: list[dict[str, Any]] = [
        {"id": "a", "agent": "dev", "prompt": "Do a.", "max_reexecute_times": 0},
        {"id": "b", "agent": "pm", "prompt": "Do b.", "needs": ["a"], "on_dependency_failed": "SKIP"},
        {"id": "c", "agent": "dev", "prompt": "Do c."},
    ]
    root = str(run(tmp_path, agents, tasks, 1, limits={"cost_usd": 2, "max_running": 1}))
    found, _ = told(capsys, "status", "--root", root)
    stand = {each["task_id"]: (each["state"], each["reason"]) for each in found["plans"][0]["tasks"]}
    assert stand["a"] == ("FAILED", "budget-exhausted: $2.5 of the plan's budget of $2")
    assert stand["c"][0] != "COMPLETED"
    assert "the plan's budget of $2 is used up" in json.dumps(found["plans"][0]["gates"]) + str(stand["c"][1])
    assert found["plans"][0]["usage_by_agent"].keys() == {"dev"}


DIES = """import json, pathlib, sys, time
def tell(**said):
    print(json.dumps(said), flush=True)
tell(type="system", subtype="init", session_id="ses-1", model="claude-sonnet-4-5")
tell(type="assistant", message={"id": "m1", "content": [{"type": "text", "text": "I begin."}],
    "usage": {"input_tokens": 100_000, "output_tokens": 0}})
first = pathlib.Path(__file__).with_suffix(".began")
if not first.exists():
    first.touch()
    time.sleep(600)
tell(type="result", subtype="success", is_error=False, result="Done.", usage={"input_tokens": 100_000})
"""


@pytest.mark.mends("C2")
def test_what_a_turn_cost_whose_engine_was_killed_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dies.py").write_text(DIES)
    cli = {"agent": "claude", "program": sys.executable, "argv": [str(tmp_path / "dies.py")]}
    plan = {
        "plan_id": "p",
        "agents": {"dev": {"driver": "cli", "cli": cli, "sandbox": "plain"}},
        "tasks": [{"id": "a", "agent": "dev", "prompt": "Do a."}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    root = tmp_path / "root"
    arguments = [preloaded.program(), "run", str(tmp_path / "plan.json"), "--root", str(root)]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as engine:
        turns = root / "agents/dev/workspace/p/a/.agenttalk"
        while not any('"usage"' in path.read_text() for path in turns.glob("*.events.jsonl")):
            assert engine.poll() is None
            time.sleep(0.01)
        engine.kill()
    assert call(["run", str(tmp_path / "plan.json"), "--root", str(root)]) == 0
    found, _ = told(capsys, "status", "--root", str(root))
    [plan_] = found["plans"]
    assert (plan_["usage"]["tokens"], plan_["usage"]["cost_usd"]) == (200_000, pytest.approx(0.6))
