"""`agenttalk schedule`, without an engine and beside one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.cli.main import call
from api.enginekit import engine, until


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = tmp_path / "root"
    (found / "agents").mkdir(parents=True)
    (found / "plans").mkdir()
    (found / "plans" / "work.py").write_text("print('ok')\n", encoding="utf-8")
    agents = {"worker": {"driver": "script", "argv": [sys.executable, "work.py"]}}
    plan = {"plan_id": "any", "agents": agents, "tasks": [{"id": "one", "agent": "worker", "prompt": "Do it."}]}
    (found / "plans" / "week.json").write_text(json.dumps(plan), encoding="utf-8")
    (found / "agenttalk.toml").write_text(
        '[schedules.week]\ncron = "0 17 * * FRI"\ntimezone = "Europe/Berlin"\nplan = "plans/week.json"\n',
        encoding="utf-8",
    )
    return found


def run(capsys: pytest.CaptureFixture[str], root: Path, *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert call(["schedule", *words, "--json", "--root", str(root)]) == code
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_schedules_without_an_engine(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [week] = run(capsys, root, "list")["schedules"]
    assert (week["name"], week["from"], week["paused"]) == ("week", "settings", False)
    plan = root / "plans" / "week.json"
    added = run(capsys, root, "add", "night", "--cron", "@daily", "--plan", str(plan))
    assert added["next_at"].endswith("T00:00:00.000000Z")
    assert run(capsys, root, "pause", "night")["changed"]
    assert run(capsys, root, "resume", "night")["changed"]
    assert run(capsys, root, "run", "night")["plan_id"].startswith("night-")
    assert run(capsys, root, "remove", "night")["changed"]
    assert "stands in the settings" in run(capsys, root, "remove", "week", code=2)["error"]["message"]
    capsys.readouterr()
    assert call(["schedule", "list", "--root", str(root)]) == 0
    assert "week  0 17 * * FRI (Europe/Berlin), next at 2" in capsys.readouterr().out


def test_a_run_beside_an_engine_is_a_plan_that_ends(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with engine(root, quick=True):
        plan_id = run(capsys, root, "run", "week")["plan_id"]

        def ended() -> bool:
            capsys.readouterr()
            assert call(["status", plan_id, "--json", "--root", str(root)]) == 0
            [plan] = json.loads(capsys.readouterr().out)["plans"]
            return bool([each["state"] for each in plan["tasks"]] == ["COMPLETED"])

        until(ended, "the plan ends")
        assert run(capsys, root, "list")["schedules"][0]["last_plan_id"] == plan_id


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('cron = "0 17 * * FRI"\nplan = "a.yaml"\ntimezone = "Mars/Olympus"', "no time zone 'Mars/Olympus'"),
        ('cron = "0 17 * *"\nplan = "a.yaml"', "has 4 fields"),
        ('cron = "@daily"', "give a plan, or an agent and a prompt"),
        ('cron = "@daily"\nplan = "a.yaml"\ncatchup = true', "did you mean 'catch_up'?"),
    ],
)
def test_settings_that_are_wrong_say_so(root: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    (root / "agenttalk.toml").write_text(f"[schedules.week]\n{text}\n", encoding="utf-8")
    assert words in str(run(capsys, root, "list", code=2)["error"])
