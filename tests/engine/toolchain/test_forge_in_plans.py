"""Checks of kind forge in a plan: `agenttalk run` asks the forge itself, and `plan check` refuses what shows nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from doors.api.enginekit import agenttalk
from engine.toolchain.kits.forgekit import REPO, configured, world

MERGES = f"""
import json, os, urllib.request
body = json.dumps({{"Do": "merge"}}).encode()
url = os.environ["FORGE_URL"] + "/api/v1/repos/{REPO}/pulls/1/merge"
headers = {{"Authorization": "token " + os.environ["DEV_TOKEN"], "Content-Type": "application/json"}}
urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
print("merged")
"""


def plan(folder: Path, **check: Any) -> Path:
    agent = {"driver": "script", "argv": [sys.executable, "work.py"], "env": ["FORGE_URL", "DEV_TOKEN"]}
    promise = {
        "objective": "It is merged",
        "acceptance": [{"id": "merged", "description": "The pull request is merged", "evidenceRequired": ["merged"]}],
        "checks": [{"id": "merged", "kind": "forge", **check}],
    }
    task = {"id": "ship", "agent": "shipper", "prompt": "Merge it.", "promise": promise, "max_reexecute_times": 0}
    path = folder / "plan.json"
    path.write_text(json.dumps({"plan_id": "ship", "agents": {"shipper": agent}, "tasks": [task]}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [(MERGES, 0, "acme/widgets#1 was merged by agent-dev"), ("print('merged')", 1, "is not merged: it is open")],
)
def test_a_task_is_done_when_the_forge_shows_it(tmp_path: Path, program: str, code: int, words: str) -> None:
    with world(tmp_path / "forge") as here:
        assert here.pull() == 1
        root = configured(tmp_path / "root", here, {})
        (tmp_path / "work.py").write_text(program, encoding="utf-8")
        path = plan(tmp_path, repo=REPO, pull_request=1, pr_merged=True)
        done = agenttalk("run", str(path), "--root", str(root))
        explained = agenttalk("explain", "ship/ship", "--root", str(root)).stdout
    assert done.returncode == code, done.stdout + done.stderr
    assert words in " ".join(explained.split())


def test_a_plan_whose_check_asks_for_nothing_is_refused(tmp_path: Path) -> None:
    done = agenttalk("plan", "check", str(plan(tmp_path, repo="acme/widgets", pr_merged=True)))
    assert done.returncode == 2
    assert "tasks[0].promise.checks[0].pr_merged: it needs pull_request" in " ".join(
        (done.stdout + done.stderr).split()
    )
