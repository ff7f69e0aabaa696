"""`agenttalk budget`: what a day may cost, seen and changed where no engine runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.doors.cli.main import call
from kits.plankit import Engine, plan, play, task


def told(root: Path, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert call([*words, "--root", str(root), "--json"]) == code
    found = capsys.readouterr()
    return json.loads(found.out or found.err)


def test_a_limit_is_set_taken_away_and_reset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path / "root"
    (root / "agents").mkdir(parents=True)
    (root / "agenttalk.toml").write_text("[limits]\ncost_usd_per_day = 20\n")
    first = told(root, capsys, "budget", "show")
    assert (first["limit_usd"], first["spent_usd"], first["paused"], first["set_by"]) == (20.0, 0.0, False, None)
    assert told(root, capsys, "budget", "set", "$7.50")["limit_usd"] == 7.5
    assert told(root, capsys, "status")["day"]["limit_usd"] == 7.5
    assert call(["status", "--root", str(root)]) == 0
    assert "today (UTC): $0 of $7.5 spent (set by " in capsys.readouterr().out
    assert told(root, capsys, "budget", "set", "none")["limit_usd"] is None
    assert call(["budget", "show", "--root", str(root)]) == 0
    assert "no spending limit is set" in capsys.readouterr().out
    assert told(root, capsys, "budget", "reset")["limit_usd"] == 20.0
    for wrong in ("much", "nan", "0", "inf"):
        assert told(root, capsys, "budget", "set", wrong, code=2)["ok"] is False
    assert told(root, capsys, "budget", "show")["limit_usd"] == 20.0


def test_turns_that_the_day_stopped_in_their_middle_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path / "root"

    async def spends(turn: Turn) -> str:
        turn.report(cost_usd=0.4)
        await asyncio.Event().wait()
        return "never"

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one"), task("other", "a")))
        await engine.ended()

    play(root, use, a=spends, day_cost_usd=0.3)
    (root / "agenttalk.toml").write_text("[limits]\ncost_usd_per_day = 0.3\n")
    found = told(root, capsys, "budget", "show")
    assert (found["paused"], found["waiting"], len(found["stopped"])) == (True, 2, 1)
    assert call(["budget", "show", "--root", str(root)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "waiting tasks: 2" in said
    assert f"does not count against their agents: {found['stopped'][0]}" in said
    assert call(["explain", found["stopped"][0], "--root", str(root)]) == 0
    assert "the day's limit stopped its turn" in " ".join(capsys.readouterr().out.split())
