"""What commands print in odd situations is so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doors.cli.plans.test_run import Desk, desk, task, waited
from doors.cli.plans.test_validators import PROGRAM as JUDGING

pytestmark = pytest.mark.rest

__all__ = ["desk"]
ASKS = """
import json, os, urllib.request
address = f"{os.environ['AGENTTALK_API']}/api/projects/default/tasks/shop:one/questions"
request = urllib.request.Request(address, json.dumps({"question": "Is it right?"}).encode())
request.add_header("Authorization", f"Bearer {os.environ['AGENTTALK_TOKEN']}")
request.add_header("Content-Type", "application/json")
urllib.request.urlopen(request).read()
print("ok")
"""


def refusing(desk: Desk, *issues: str, **keys: Any) -> str:
    """A plan whose second task refuses what the first one made, each time with the next of these issues."""
    (desk.folder / "work.py").write_text(JUDGING, encoding="utf-8")
    said = [json.dumps({"score": 10, "decision": "REJECT", "reason": "no", "issues": [each]}) for each in issues]
    (desk.folder / "judgements.json").write_text(json.dumps(said), encoding="utf-8")
    agents = json.loads(Path(desk.plan(task("x"))).read_text())["agents"]
    inputs = [{"name": "text", "from": "text.md"}]
    return desk.plan(
        task("write", outputs=[{"name": "text.md"}], **keys),
        task("use", "user", needs=["write"], inputs=inputs, validate={"text": {"quality_threshold": 70}}),
        agents={**agents, "user": agents["worker"]},
    )


@pytest.mark.mends("B7")
def test_a_task_that_failed_after_all_is_not_called_fulfilled(desk: Desk) -> None:
    desk("run", refusing(desk, "no price", max_reexecute_times=0), code=1)
    shown = desk("explain", "shop/write")
    assert "write is FAILED" in shown
    assert "the engine's verdict: fulfilled (not isolated) of cmd_write_001, which no longer counts" in shown
    assert desk.json("explain", "shop/write")["verdict"]["counts"] is False


@pytest.mark.mends("B7")
def test_the_same_issues_again_are_not_called_a_lack_of_rounds(desk: Desk) -> None:
    desk("run", refusing(desk, "no price", max_reexecute_times=3), code=1)
    shown = desk("explain", "shop/write")
    assert "no round" not in shown
    assert "the next version was refused for the same issues, unchanged" in shown
    assert "the same issues again: refused by user" in shown
    titles = [each["request"]["title"] for each in desk.json("inbox")["requests"]]
    assert "write came back with the same issues unchanged. Grant more rounds, accept it as it is, or abort?" in titles


@pytest.mark.mends("B7")
def test_a_promise_with_a_budget_is_not_said_to_run_on(desk: Desk) -> None:
    promise = {
        "objective": "o",
        "acceptance": [{"id": "a", "description": "d", "evidenceRequired": ["r"]}],
        "checks": [{"id": "r", "kind": "run", "run": "true", "red_first": "off"}],
        "abortWhen": [],
    }
    said = "abortWhen is empty"
    for budget, warned in (({"seconds": 60}, False), (None, True)):
        plan = desk.plan(task("one", promise=promise | ({"budget": budget} if budget else {})))
        shown = desk("plan", "check", plan)
        assert (said in shown) is warned
        assert "nothing stops" not in shown


@pytest.mark.mends("B7")
def test_what_is_done_with_an_open_question_says_so(desk: Desk) -> None:
    (desk.folder / "work.py").write_text(ASKS, encoding="utf-8")
    plan = desk.plan(task("one"))
    assert "1 question is not answered: see 'agenttalk inbox'" in desk("run", plan)
    assert "1 question is not answered" in desk("status", "shop")
    assert len(desk.json("run", plan)["questions"]) == 1


@pytest.mark.mends("B7")
def test_what_nobody_runs_is_not_said_to_run(desk: Desk) -> None:
    plan = desk.plan(task("slow"))
    child = desk.start("run", plan)
    waited(lambda: desk.ran == ["slow cmd_slow_001 1"])
    assert "no engine runs here" not in desk("status", "shop")
    assert "no engine runs here" not in desk("explain", "shop/slow")
    child.kill()
    child.communicate()
    waited(lambda: desk.alive() == [])
    assert "no engine runs here, so no work continues" in desk("status", "shop")
    assert desk.json("status", "shop")["served"] is False
    assert "no engine runs here, so no work continues" in desk("explain", "shop/slow")
    desk.let("go")
    desk("run", plan)


@pytest.mark.mends("B7")
def test_a_root_made_anew_names_the_file_that_remembers_the_old_one(desk: Desk) -> None:
    desk("run", desk.plan(task("one")))
    desk.root.rename(desk.folder / "old")
    shown = desk("run", desk.plan(task("two")))
    [path] = {Path(word) for word in shown.split() if word.endswith("heads.json")}
    assert path.exists()
    assert "move that file away" in shown
    path.unlink()
    assert "not what" not in desk("run", desk.plan(task("two")))


@pytest.mark.mends("B7")
def test_an_mcp_server_without_an_engine_says_what_is_missing(desk: Desk) -> None:
    for name in ("agents", "system_runtime"):
        (desk.root / name).mkdir(parents=True)
    shown = desk.refused("mcp", "--operator")
    assert "no engine has run in" in shown
    assert "agenttalk serve --root" in shown
    assert "give --root" not in shown


@pytest.mark.mends("B7")
def test_one_of_a_thing_is_said_as_one(desk: Desk) -> None:
    desk("run", refusing(desk, "a", "b", max_reexecute_times=1), code=1)
    assert "1 rework round" in desk("honesty")
    assert "1 rounds" not in desk("honesty") + desk("status") + desk("explain", "shop/write")
