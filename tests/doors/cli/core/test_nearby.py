"""Commands find the root of the folder in which somebody works."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agenttalk.doors.cli.main import call

PLAN = """\
plan_id: small
agents:
  writer: {driver: script, argv: [sh, -c, 'echo 9 > "$AGENTTALK_OUTPUTS/note.txt"']}
tasks:
  - {id: draft, agent: writer, prompt: Say when we open., outputs: [{name: note.txt, deliverable: true}]}
"""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("AGENTTALK_ROOT", raising=False)


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder within a repository that was set up; it is worked in."""
    folder = tmp_path / "repository" / "src" / "deep"
    folder.mkdir(parents=True)
    assert call(["init", "--dir", str(tmp_path / "repository"), "--for", "claude", "--json"]) == 0
    monkeypatch.chdir(folder)
    return folder


def test_a_command_in_a_repository_is_about_its_root(deep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (deep / "plan.yaml").write_text(PLAN)
    capsys.readouterr()
    assert call(["run", "plan.yaml", "--json"]) == 0
    capsys.readouterr()
    assert call(["status", "--json"]) == 0
    assert [each["plan_id"] for each in json.loads(capsys.readouterr().out)["plans"]] == ["small"]
    root = deep.parent.parent / ".agenttalk"
    assert call(["status", "--root", str(root), "--json"]) == 0
    assert [each["plan_id"] for each in json.loads(capsys.readouterr().out)["plans"]] == ["small"]


@pytest.mark.usefixtures("deep")
def test_an_agent_at_work_finds_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTTALK_TOKEN", "at_attempt")
    assert call(["status"]) == 2
    assert "no root found here" in capsys.readouterr().err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
def test_the_root_of_somebody_else_is_passed_over(deep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.chown(deep.parent.parent / ".agenttalk", 12345, -1)
    assert call(["status"]) == 2
    assert "agenttalk init" in capsys.readouterr().err
