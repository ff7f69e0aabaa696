"""`agenttalk budget`: what a day may cost, seen and changed where no engine runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.cli.main import call


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
    assert "nothing limits what a day may cost" in capsys.readouterr().out
    assert told(root, capsys, "budget", "reset")["limit_usd"] == 20.0
    for wrong in ("much", "nan", "0", "inf"):
        assert told(root, capsys, "budget", "set", wrong, code=2)["ok"] is False
    assert told(root, capsys, "budget", "show")["limit_usd"] == 20.0
