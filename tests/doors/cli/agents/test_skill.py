"""The Agent Skill: valid by the specification's own validator, and it works where it is installed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from skills_ref import validate

from agenttalk.contracts.core import catalogue
from agenttalk.doors.cli.main import call


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
            timeout=600,
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
        timeout=600,
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
    assert capsys.readouterr().out == "generate-command\nreport-action\nvalidate-artifact\n"
    assert call(["skill", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["generate-command", "report-action", "validate-artifact"]


@pytest.mark.parametrize("name", ["report-action", "validate-artifact"])
def test_the_other_skills_are_valid_too(project: Path, name: str) -> None:
    assert validate(project / ".agents/skills" / name) == []
    assert [each.stat().st_mode & 0o100 for each in (project / ".agents/skills" / name / "scripts").iterdir()] == [
        0o100
    ]


def test_a_report_needs_an_engine_and_says_so(project: Path, tmp_path: Path) -> None:
    (tmp_path / "root" / "agents").mkdir(parents=True)
    script = project / ".agents/skills/report-action/scripts/report_action.py"
    done = _run(script, "shop/build", "Pushed it.", "--root", str(tmp_path / "root"))
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "ENGINE_UNREACHABLE")


@pytest.mark.rest
def test_an_artifact_is_held_against_its_envelope(project: Path, tmp_path: Path) -> None:
    script = project / ".agents/skills/validate-artifact/scripts/validate_artifact.py"
    note = b"We open at nine."
    envelope = {
        "schema_version": "1.0",
        "message_id": "msg_1",
        "type": "artifact",
        "plan_id": "shop",
        "task_id": "draft",
        "producer_agent_id": "writer",
        "created_at": "2026-01-01T00:00:00Z",
        "idempotency_key": "shop:draft",
        "output_name": "note.txt",
        "payload": {"files": [{"path": "note.txt", "sha256": f"sha256:{hashlib.sha256(note).hexdigest()}"}]},
    }
    file = tmp_path / "artifact_1.msg.json"
    file.write_text(json.dumps(envelope), encoding="utf-8")

    def said() -> tuple[int, list[str]]:
        done = _run(script, str(file))
        return done.returncode, [each["code"] for each in json.loads(done.stdout)["errors"]]

    assert said() == (2, ["MISSING_PAYLOAD"])
    (tmp_path / "note.txt").write_bytes(note)
    assert said() == (0, [])
    (tmp_path / "note.txt").write_bytes(b"We never open.")
    assert said() == (2, ["PAYLOAD_HASH_MISMATCH"])
    file.write_text(json.dumps({**envelope, "producer_agent_id": "../x"}), encoding="utf-8")
    assert said()[0] == 2


def _run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(script.parent)}
    return subprocess.run(
        [sys.executable, str(script), *arguments], env=env, capture_output=True, text=True, timeout=600, check=False
    )
