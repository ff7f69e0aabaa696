"""`agenttalk promise check` of an agent at work: what it has forgotten is told to it, and proves nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.main import call

TREE = {"price.py": "def price(n):\n    return 0\n", "list.json": "{]", "note.txt": "a"}


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an attempt; its agent works in `tree`."""
    (tmp_path / "base/outputs").mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    for name, text in TREE.items():
        (tmp_path / "tree" / name).write_text(text)
    monkeypatch.setenv("AGENTTALK_COMMAND", str(tmp_path / "base/command.json"))
    monkeypatch.setenv("AGENTTALK_OUTPUTS", str(tmp_path / "base/outputs"))
    monkeypatch.chdir(tmp_path / "tree")
    return tmp_path


def promised(attempt: Path, *checks: dict[str, Any], produces: list[dict[str, Any]] | None = None) -> None:
    """Write the command of the attempt."""
    shown = [
        {"id": "c", "description": "It is right", "evidenceRequired": [each["id"] for each in checks] or ["result"]}
    ]
    promise = {"id": "cp-1-abcd", "objective": "It is done", "acceptance": shown, "checks": list(checks)}
    command: dict[str, Any] = {
        "schema_version": "1.1",
        "plan_id": "p",
        "task_id": "t",
        "command_id": "cmd_t_001",
        "command_seq": 1,
        "prompt": "Do it.",
        "required_inputs": [],
        "wait_for_inputs": False,
        "score_required": False,
        "timeout": 60,
        "retry_times": 0,
        "created_at": "2026-01-01T00:00:00Z",
        "created_by": "lead",
        "idempotency_key": "k",
        "promise": promise,
        "produces": produces or [],
    }
    (attempt / "base/command.json").write_text(json.dumps(command))


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert call(["promise", "check", *arguments]) == code
    return capsys.readouterr().out


def test_everything_that_can_be_seen_is_told(attempt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    promised(
        attempt,
        {"id": "right", "kind": "run", "run": "touch litter; echo it is wrong; exit 4"},
        {"id": "fine", "kind": "run", "run": "test -e price.py && test ! -e .git"},
        {"id": "slow", "kind": "run", "run": "sleep 60; echo late", "timeout": 1},
        {"id": "nowhere", "kind": "run", "run": "true", "cwd": "no/folder"},
        {"id": "suite", "kind": "tests", "run": "exit 1", "junit": "report.xml"},
        {"id": "there", "kind": "file", "path": "note.txt", "min_bytes": 5},
        {"id": "holds", "kind": "file", "path": "note.txt", "contains": "b"},
        {"id": "good", "kind": "file", "path": "note.txt", "contains": "a"},
        {"id": "list", "kind": "json", "path": "list.json"},
        {"id": "gone", "kind": "json", "path": "gone.json"},
        {"id": "ours", "kind": "run", "run": "exit 1", "files": ["check.sh"]},
        {"id": "said", "kind": "report"},
        produces=[
            {"output_name": "sheet", "files": []},
            {"output_name": "note.txt", "files": []},
            {"output_name": "x", "files": [{"path": "price.py"}]},
        ],
    )
    found = json.loads(told(capsys, "--json", code=1))["missing"]
    assert [each.partition(":")[0] for each in found] == [
        f"the output 'sheet' is not there; put it into {attempt / 'base/outputs'}",
        *(
            f"the check {name!r} does not pass"
            for name in ("right", "slow", "nowhere", "suite", "there", "holds", "list", "gone")
        ),
    ]
    assert "'touch litter; echo it is wrong; exit 4' ended with 4:\nit is wrong" in found[1]
    assert "longer than 1 seconds" in found[2]
    assert sorted(path.name for path in (attempt / "tree").iterdir()) == sorted(TREE)
    assert "the output 'sheet' is not there" in told(capsys, code=1)


def test_a_token_does_not_reach_what_is_run(
    attempt: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTTALK_TOKEN", "secret")
    promised(attempt, {"id": "env", "kind": "run", "run": 'test -z "$AGENTTALK_TOKEN$AGENTTALK_COMMAND"'})
    assert "nothing seems to be missing" in told(capsys)


def test_a_hook_keeps_an_agent_from_stopping_twice_and_no_more(
    attempt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promised(attempt, {"id": "right", "kind": "run", "run": "exit 1"})
    for _ in range(2):
        said = json.loads(told(capsys, "--hook"))
        assert said["decision"] == "block"
        assert "- the check 'right' does not pass" in said["reason"]
    assert told(capsys, "--hook") == ""


def test_a_hook_lets_go_who_has_done_it_and_who_cannot_be_counted(
    attempt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promised(attempt, {"id": "right", "kind": "run", "run": "true"})
    assert told(capsys, "--hook") == ""
    promised(attempt, {"id": "right", "kind": "run", "run": "false"})
    (attempt / "base/stops").mkdir()
    assert told(capsys, "--hook") == ""


@pytest.mark.mends("C7")
def test_a_hook_whose_own_look_fails_keeps_nobody_and_blames_nobody(
    attempt: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    promised(attempt, {"id": "right", "kind": "run", "run": "false"})
    monkeypatch.setattr("tempfile.tempdir", str(attempt / "nowhere"))
    capsys.readouterr()
    assert call(["promise", "check", "--hook"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "which is not your fault" in printed.err
    gone = attempt / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert call(["promise", "check", "--hook"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", [None, "{", '{"prompt": 3}'])
def test_who_is_at_no_attempt_is_told_so(
    attempt: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    if text is not None:
        (attempt / "base/command.json").write_text(text)
    told(capsys, code=2)
    assert told(capsys, "--hook") == ""
    monkeypatch.delenv("AGENTTALK_COMMAND")
    told(capsys, code=2)
