"""Done that was proven before and no longer holds is not called done, not merged and not released."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import preloaded
from doors.api.enginekit import engine
from kits.provekit import CALC, RUNS, SUITE, git, repository

BROKEN = "def add(a, b):\n    return a - b\n"
WORK = """
import os, pathlib
with open({ran!r}, "a") as ran:
    ran.write("ran\\n")
pathlib.Path("calc.py").write_text("def add(a, b):\\n    return a + b\\n")
print("mended")
"""


class Desk:
    """A plan with a check on a repository, and its root."""

    def __init__(self, folder: Path) -> None:
        self.root, self.repo, self.ran = folder / "root", repository(folder / "repo", TREE), folder / "ran"
        self.root.mkdir()  # its program notes beside itself that it ran, which no sandbox lets it
        (self.root / "agenttalk.toml").write_text('sandbox = "plain"\n')
        (folder / "dev.py").write_text(WORK.format(ran=str(self.ran)))
        check = {"id": "tests-pass", "kind": "run", "run": RUNS, "protected": ["test_calc.py"]}
        shown = [{"id": "works", "description": "It works", "evidenceRequired": ["tests-pass"]}]
        promise = {"objective": "It adds", "acceptance": shown, "checks": [check]}
        agent = {"driver": "script", "argv": [sys.executable, str(folder / "dev.py")], "sandbox": "plain"}
        said = {
            "plan_id": "shop",
            "workspace": {"repo": str(self.repo)},
            "agents": {"dev": agent},
            "tasks": [{"id": "fix", "agent": "dev", "prompt": "Mend it.", "workspace": "repo", "promise": promise}],
        }
        self.plan = folder / "plan.json"
        self.plan.write_text(json.dumps(said))
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTALK")}

    def agenttalk(self, *words: str, code: int = 0) -> Any:
        command = [preloaded.program(), *words, "--root", str(self.root), "--json"]
        done = subprocess.run(command, check=False, env=self.env, capture_output=True, text=True, timeout=600)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    def ships(self) -> None:
        """Have its agent deliver something, too."""
        program = self.plan.parent / "dev.py"
        program.write_text(
            program.read_text() + "pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'app.txt').write_text('1')\n"
        )

    def spoil(self) -> None:
        """Commit something to the plan's branch that breaks what was proven, as a person can."""
        git(self.repo, "checkout", "-q", "agenttalk/shop")
        (self.repo / "calc.py").write_text(BROKEN)
        git(self.repo, "commit", "-q", "-am", "spoil")
        git(self.repo, "checkout", "-q", "main")

    def runs(self) -> int:
        return len(self.ran.read_text().splitlines())

    def tip(self, path: str = "calc.py") -> str:
        return git(self.repo, "show", f"agenttalk/shop:{path}")


TREE = {"calc.py": CALC, "test_calc.py": SUITE}


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    found = Desk(tmp_path)
    found.agenttalk("run", str(found.plan))
    return found


@pytest.mark.mends("A2")
def test_what_does_not_hold_any_more_is_seen_and_not_merged_unless_it_is_asked_for_as_it_is(desk: Desk) -> None:
    main = git(desk.repo, "rev-parse", "main")
    desk.spoil()
    [plan] = desk.agenttalk("status", "shop")["plans"]
    assert [task["freshness"] for task in plan["tasks"]] == ["stale"]
    told = desk.agenttalk("merge", "shop", code=1)
    assert (told["why"], [each["check_id"] for each in told["checks"]]) == ("stale", ["tests-pass"])
    assert git(desk.repo, "rev-parse", "main") == main
    assert desk.agenttalk("merge", "shop", "--stale")["stale"] is True
    assert "a - b" in (desk.repo / "calc.py").read_text()
    entries = desk.agenttalk("audit", "find", "shop")["entries"]
    [fact] = [each["body"] for each in entries if each["kind"] == "plan.merged"]
    assert fact["stale"] is True


@pytest.mark.rest
@pytest.mark.mends("A2")
def test_who_asks_why_a_task_is_done_is_told_that_it_may_not_hold_any_more(desk: Desk) -> None:
    assert desk.agenttalk("explain", "shop/fix")["freshness"] == "fresh"
    desk.spoil()
    assert desk.agenttalk("explain", "shop/fix")["freshness"] == "stale"


@pytest.mark.mends("A2")
def test_a_release_is_approved_no_more_when_what_it_rests_on_is_broken(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    said = json.loads(desk.plan.read_text()) | {"release": {"gates": {}}}
    said["tasks"][0]["outputs"] = [{"name": "app.txt", "deliverable": True}]
    desk.plan.write_text(json.dumps(said))
    desk.ships()
    desk.agenttalk("run", str(desk.plan))
    assert desk.agenttalk("release", "shop")["state"] == "approved"
    desk.spoil()
    told = desk.agenttalk("release", "shop", code=1)
    assert (told["ok"], told["state"], told["decision"]) == (False, "revoked", "REJECT")
    assert told["reasons"] == ["revoked: what was proven no longer holds: tests-pass"]


@pytest.mark.mends("A2")
def test_a_run_again_looks_first_and_has_it_mended(desk: Desk) -> None:
    desk.spoil()
    desk.agenttalk("run", str(desk.plan))
    assert desk.runs() == 2
    assert "a + b" in desk.tip()
    assert desk.agenttalk("merge", "shop")["stale"] is False
    assert "a + b" in (desk.repo / "calc.py").read_text()


@pytest.mark.rest
@pytest.mark.mends("A2")
def test_a_commit_that_harms_nothing_is_verified_and_nothing_is_run_while_nothing_moves(desk: Desk) -> None:
    assert [each["state"] for each in desk.agenttalk("verify", "shop")["checks"]] == ["fresh"]
    git(desk.repo, "checkout", "-q", "agenttalk/shop")
    (desk.repo / "README").write_text("hello\n")
    git(desk.repo, "add", ".")
    git(desk.repo, "commit", "-q", "-m", "a page")
    git(desk.repo, "checkout", "-q", "main")
    desk.agenttalk("run", str(desk.plan))
    assert desk.runs() == 1
    assert desk.agenttalk("merge", "shop")["ok"] is True
    assert (desk.repo / "README").exists()


@pytest.mark.rest
@pytest.mark.mends("A2")
def test_an_engine_watches_the_branches_of_plans_that_have_ended(desk: Desk) -> None:
    with engine(desk.root):
        desk.spoil()
        until(lambda: desk.runs() == 2)
        until(lambda: "a + b" in desk.tip())
