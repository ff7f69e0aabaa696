"""`agenttalk config reload`: a running engine reads its settings again, as far as that is safe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agenttalk.doors.cli.core import engine_client
from agenttalk.doors.cli.main import call
from doors.api.enginekit import engine

FIRST = "[server]\nport = 0\n[limits]\nmax_running = 1\n"
SECOND = """
[server]
port = 0
public = false
names = ["later.example"]
[limits]
max_running = 3
cost_usd_per_day = 5.0
[schedules.weekly]
plan = "plan.yaml"
cron = "0 9 * * 1"
[agents.dev]
driver = "script"
argv = ["true"]
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "root" / "agents").mkdir(parents=True)
    monkeypatch.setenv("AGENTTALK_ROOT", str(tmp_path / "root"))
    (tmp_path / "root" / "agenttalk.toml").write_text(FIRST)
    return tmp_path / "root"


def test_what_is_safe_holds_at_once_and_the_rest_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with engine(root, quick=True):
        client = engine_client.connect_to_running_engine(root)
        assert client is not None
        assert client.get("/api/spending")["limit_usd"] is None
        (root / "agenttalk.toml").write_text(SECOND)
        assert client.get("/api/schedules")["schedules"] == [], "nobody has said that it is to be read"
        assert call(["config", "reload", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert {"limits.max_running", "limits.cost_usd_per_day", "agents.dev.argv"} <= set(told["changed"])
        assert told["needs_restart"] == ["server.names"]
        assert [each["name"] for each in client.get("/api/schedules")["schedules"]] == ["weekly"]
        assert client.get("/api/spending")["limit_usd"] == 5.0
        (root / "agenttalk.toml").write_text(SECOND.replace("max_running = 3", "max_runing = 4"))
        assert call(["config", "reload"]) == 2
        told = capsys.readouterr().err
        assert "max_running" in told
        assert told.count("there is no such setting") == 1, "one fault is told once"
        assert client.get("/api/spending")["limit_usd"] == 5.0
        (root / "agenttalk.toml").write_text(SECOND)
        assert call(["config", "reload", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["changed"], told["needs_restart"]) == ([], ["server.names"])


def test_without_an_engine_there_is_nothing_to_read_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["config", "reload", "--root", str(root)]) == 2
    assert "no engine runs" in capsys.readouterr().err
