"""`agenttalk bench`: it measures, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agenttalk.doors.cli.main import call


def test_it_measures_steps_and_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["bench", "--steps", "16", "--dir", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["steps"] == 16
    assert min(told["chain"].values()) > 0
    assert min(told["side_by_side"].values()) > 0
    assert list(tmp_path.iterdir()) == []
    assert call(["bench", "--dir", str(tmp_path / "missing")]) == 2
