"""A promise has one id from the plan to the release, and the audit finds it, commands and tasks by their names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doors.cli.plans.test_run import Desk, desk, task

__all__ = ["desk"]
PROGRAM = """
import os, pathlib
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "a.txt").write_text("a")
print("ok")
"""
PROMISE = {
    "objective": "It is there",
    "acceptance": [{"id": "there", "description": "It is there", "evidenceRequired": ["there"]}],
    "checks": [{"id": "there", "kind": "file", "path": "a.txt"}],
}


def kinds(desk: Desk, name: str) -> set[str]:
    return {each["kind"] for each in desk.json("audit", "find", name)["entries"]}


def document(desk: Desk, pattern: str) -> dict[str, Any]:
    path, *_ = (desk.root / "system_runtime").glob(pattern)
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


@pytest.mark.mends("A11")
def test_a_promise_has_one_id_from_the_plan_to_the_release(desk: Desk) -> None:
    (desk.folder / "work.py").write_text(PROGRAM, encoding="utf-8")
    outputs = [{"name": "a.txt", "deliverable": True}]
    plan = desk.plan(task("one", outputs=outputs, promise=PROMISE), release={"deliverables": ["a.txt"]})
    desk("run", plan)
    planned = document(desk, "plans/shop/task_dag.json")["nodes"][0]["promise"]["id"]
    assert planned != "cp-0-0000"
    assert desk.json("explain", "shop/one")["verdict"]["promise_id"] == planned
    assert document(desk, "**/release_manifest.json")["artifacts"][0]["promise_id"] == planned
    assert kinds(desk, planned) >= {"plan.submitted", "turn.started", "turn.ended", "release.decided"}
    assert desk.json("run", plan)["result"] == "done", "the same plan is the same"
    assert desk.json("plan", "apply", plan)["changed"] == []
    assert document(desk, "plans/shop/task_dag.json")["nodes"][0]["promise"]["id"] == planned


@pytest.mark.rest_but("shop/one")
@pytest.mark.mends("B8")
@pytest.mark.parametrize("name", ["cmd_one_001", "shop/cmd_one_001", "shop/one"])
def test_the_audit_finds_commands_and_tasks(desk: Desk, name: str) -> None:
    desk("run", desk.plan(task("one"), task("two", needs=["one"])))
    assert kinds(desk, name) >= {"turn.started", "turn.ended"}
    entries = desk.json("audit", "find", name)["entries"]
    assert all("cmd_one_001" in json.dumps(each) or "one" in each["subject"].split("/") for each in entries)
    assert "no entry names shop/cmd_one_009" in desk("audit", "find", "shop/cmd_one_009", code=1)
    assert desk.json("audit", "find", "other/cmd_one_001", code=1)["entries"] == []
