"""What is not committed in a user's repository: told before a plan begins, and taken along if that is wanted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.main import call
from kits.provekit import CALC, FIXES, RUNS, SUITE, git, program, promise, repository

MORE = SUITE + "\n    def test_more(self):\n        self.assertEqual(add(2, 2), 4)\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a repository in which tests were changed and added, and not committed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    repo = repository(tmp_path / "repo", {"calc.py": CALC, "test_calc.py": SUITE, ".gitignore": "local\n"})
    (repo / "test_calc.py").write_text(MORE)
    (repo / "test_new.py").write_text(SUITE)
    (repo / "local").write_text("mine")
    return tmp_path


def written(place: Path, *, check: dict[str, Any] | None = None, **workspace: Any) -> str:
    asked = {"id": "tests-pass", "kind": "run", "run": RUNS, **(check or {})}
    fix = {"id": "fix", "agent": "dev", "prompt": "Fix it.", "workspace": "repo", "promise": promise(asked)}
    plan = {
        "plan_id": "p",
        "agents": {"dev": program(place, "dev", FIXES)},
        "workspace": {"repo": "./repo", **workspace},
        "tasks": [fix],
    }
    path = place / "plan.json"
    path.write_text(json.dumps(plan))
    return str(path)


@pytest.mark.mends("A5")
def test_what_is_not_committed_is_told_before_anything_begins(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = written(place)
    assert call(["plan", "check", plan]) == 0
    told = "".join(capsys.readouterr())
    assert "not committed, so no task sees it: test_calc.py, test_new.py" in " ".join(told.split())
    assert call(["plan", "check", plan, "--json"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert "UNCOMMITTED" in {each["code"] for each in warnings}
    assert call(["run", plan, "--root", str(place / "root")]) == 0
    assert "not committed, so no task sees it" in " ".join("".join(capsys.readouterr()).split())
    assert git(place / "repo", "show", "agenttalk/p:test_calc.py") == SUITE.strip()


@pytest.mark.rest_but("True")
@pytest.mark.mends("A5")
@pytest.mark.parametrize("by_option", [True, False])
def test_what_is_not_committed_is_taken_along_and_the_users_branch_and_index_stay(
    place: Path, capsys: pytest.CaptureFixture[str], *, by_option: bool
) -> None:
    repo = place / "repo"
    before = (git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain"), git(repo, "ls-files", "-s"))
    plan = written(place) if by_option else written(place, uncommitted="take")
    words = ["run", plan, "--root", str(place / "root"), *(["--take-uncommitted"] if by_option else [])]
    assert call(words) == 0
    assert "not committed" not in "".join(capsys.readouterr())
    assert git(repo, "show", "agenttalk/p:test_calc.py") == MORE.strip()
    assert git(repo, "show", "agenttalk/p:test_new.py") == SUITE.strip()
    assert "local" not in git(repo, "ls-tree", "--name-only", "agenttalk/p").split()
    assert before == (git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain"), git(repo, "ls-files", "-s"))


def test_another_base_has_nothing_that_could_be_taken_along(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repo = place / "repo"
    git(repo, "branch", "old")
    git(repo, "commit", "-qm", "more", "--allow-empty")
    assert call(["run", written(place, base="old", uncommitted="take"), "--root", str(place / "root")]) == 1
    assert "workspace.base" in "".join(capsys.readouterr())


def test_a_plan_without_a_repository_takes_nothing_along(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "plan.json"
    agents = {"dev": program(place, "dev", "pass")}
    path.write_text(
        json.dumps({"plan_id": "p", "agents": agents, "tasks": [{"id": "say", "agent": "dev", "prompt": "Say it."}]})
    )
    assert call(["run", str(path), "--root", str(place / "root"), "--take-uncommitted"]) == 2
    assert "--take-uncommitted" in "".join(capsys.readouterr())


@pytest.mark.mends("A3")
def test_what_a_plan_leaves_open_is_told_by_check_run_and_explain(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = written(place, check={"protected": [], "red_first": "off"})
    words = "the check 'tests-pass' protects nothing"
    root = ["--root", str(place / "root")]
    for said in (["plan", "check", plan], ["run", plan, *root], ["explain", "p/fix", *root]):
        assert call(said) == 0
        assert words in " ".join("".join(capsys.readouterr()).split()), said
    assert sys.executable
