"""The Agent Skill: valid by the specification's own validator, and it works where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from skills_ref import validate

from agenttalk.cli.main import call
from agenttalk.contracts import catalogue


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert call(["skill", "install", "--dir", str(tmp_path)]) == 0
    assert "generate-command" in capsys.readouterr().out
    return tmp_path


@pytest.mark.shows("C01")
@pytest.mark.parametrize("base", [".agents/skills", ".claude/skills"])
def test_the_installed_skill_is_valid(project: Path, base: str) -> None:
    folder = project / base / "generate-command"
    assert validate(folder) == []
    assert json.loads((folder / "references/command.schema.json").read_bytes()) == catalogue.schema("command")


@pytest.mark.shows("C01")
def test_the_skills_script_makes_commands_and_refuses(project: Path) -> None:
    script = project / ".claude/skills/generate-command/scripts/generate_command.py"

    def run(*arguments: str, **environment: str) -> tuple[int, dict[str, object]]:
        done = subprocess.run(
            [sys.executable, str(script), *arguments],
            env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, json.loads(done.stdout)

    code, body = run("plan_id=_mail", "task_id=hello", "prompt=Say hello.")
    assert (code, body["ok"]) == (0, True)
    code, body = run("plan_id=_mail", "prompt=Say hello.")
    assert (code, body["ok"]) == (2, False)
    code, body = run(
        "plan_id=_mail", "task_id=a", "prompt=x", AGENTTALK_BIN=str(Path(sys.executable).parent / "agenttalk")
    )
    assert code == 0


def test_without_agenttalk_the_script_says_what_to_do(project: Path) -> None:
    script = project / ".agents/skills/generate-command/scripts/generate_command.py"
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(script), "a=b"],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "AGENTTALK_BIN" in json.loads(done.stdout)["error"]["hint"]


def test_installing_again_renews_the_skill(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = project / ".claude/skills/generate-command/SKILL.md"
    before = file.read_bytes()
    file.write_text("changed", encoding="utf-8")
    assert call(["skill", "install", "generate-command", "--dir", str(project), "--json"]) == 0
    assert str(file) in json.loads(capsys.readouterr().out)["files"]
    assert file.read_bytes() == before


def test_skills_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["skill", "list"]) == 0
    assert capsys.readouterr().out == "generate-command\n"
    assert call(["skill", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["generate-command"]
