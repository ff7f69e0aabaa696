"""Answers that bring only some of what was asked for, through the command line."""

from __future__ import annotations

import pytest

from doors.cli.plans.test_run import Desk, desk, states, task

__all__ = ["desk"]
TWO = [{"name": "list.csv", "external": True}, {"name": "prices", "file": "prices.csv", "external": True}]


def asked(desk: Desk) -> dict[str, str]:
    """The names that are asked for, and in which question; there is one question."""
    [request] = desk.json("inbox")["requests"]
    files = [each["name"] for each in request["request"]["needed"]["files"]]
    return {"id": request["request"]["request_id"], "files": " ".join(files), "title": request["request"]["title"]}


def given(desk: Desk, name: str) -> str:
    (desk.folder / "given").write_text(f"{name}\n", encoding="utf-8")
    return f"{name}={desk.folder}/given"


@pytest.mark.rest_but("in time-prices")
@pytest.mark.mends("B1")
@pytest.mark.parametrize("first", ["list.csv", "prices"])
@pytest.mark.parametrize("late", [False, True], ids=["in time", "after the timeout"])
def test_one_of_two_files_leaves_a_question_for_the_other(desk: Desk, first: str, *, late: bool) -> None:
    other = {"list.csv": "prices", "prices": "list.csv"}[first]
    plan = desk.plan(task("count", inputs=TWO, timeout=1 if late else 900))
    desk("run", plan, code=3)
    if late:
        until_alerted(desk, plan)
    question = asked(desk)
    assert question["files"] == "list.csv prices"
    said = desk("answer", question["id"], "--file", given(desk, first))
    assert f"still missing: {other}" in said
    assert "the task continues" not in said
    rest = asked(desk)
    assert (rest["files"], rest["title"]) == (other, f"count needs {other}")
    for _ in range(2):
        assert states(desk.json("run", plan, code=3))["count"].startswith("BLOCKED")
    assert desk.ran == []
    assert "the task continues" in desk("answer", rest["id"], "--file", given(desk, other))
    assert states(desk.json("run", plan)) == {"count": "COMPLETED"}
    assert desk.json("inbox")["requests"] == []
    [inputs] = desk.root.glob("agents/worker/workspace/shop/count/.agenttalk/cmd_count_001-1/inputs")
    assert {path.name: path.read_text() for path in inputs.glob("*/*")} == {
        "list.csv": "list.csv\n",
        "prices": "prices\n",
    }


def until_alerted(desk: Desk, plan: str) -> None:
    """Run until the wait is told as too long."""
    for _ in range(60):
        desk("run", plan, code=3)
        alerts = "".join(path.read_text() for path in desk.root.glob("system_runtime/alerts/**/*") if path.is_file())
        if "WAIT_FOR_INPUTS_TIMEOUT" in alerts:
            return
    raise AssertionError("nobody was alerted")


@pytest.mark.mends("B1")
@pytest.mark.parametrize("word", [["--decision", "APPROVE"], ["--note", "do without"]], ids=["yes", "a note"])
def test_no_word_takes_the_place_of_a_file_that_is_required(desk: Desk, word: list[str]) -> None:
    plan = desk.plan(task("count", inputs=TWO))
    desk("run", plan, code=3)
    question = asked(desk)
    refused = desk.refused("answer", question["id"], *word)
    assert "list.csv, prices" in refused
    assert "--decision REJECT" in refused
    assert asked(desk) == question


@pytest.mark.rest
@pytest.mark.mends("B1")
def test_a_person_who_lets_a_task_run_after_a_failure_is_asked_for_its_files_all_the_same(desk: Desk) -> None:
    inputs = [{"name": "list.csv", "external": True}, {"name": "text", "from": "text.md"}]
    plan = desk.plan(task("bad", outputs=[{"name": "text.md"}]), task("count", needs=["bad"], inputs=inputs))
    desk("run", plan, code=1)
    [request] = desk.json("inbox")["requests"]
    desk("answer", request["request"]["request_id"], "--answer", "run")
    desk("run", plan, code=1)
    assert desk.ran == ["bad cmd_bad_001 1"]
    rest = asked(desk)
    assert rest["files"] == "list.csv"
    desk("answer", rest["id"], "--file", given(desk, "list.csv"))
    desk("run", plan, code=1)
    assert desk.ran == ["bad cmd_bad_001 1", "count cmd_count_001 1"]


@pytest.mark.rest
@pytest.mark.mends("B1")
def test_a_person_may_bring_one_output_after_the_other(desk: Desk) -> None:
    people = {"agent_human_gateway": {"driver": "human"}}
    outputs = [{"name": name, "deliverable": True} for name in ("a.md", "b.md")]
    plan = desk.plan(task("write", "agent_human_gateway", outputs=outputs), agents=people)
    desk("run", plan, code=3)
    first = asked(desk)
    assert "still missing: b.md" in desk("answer", first["id"], "--file", given(desk, "a.md"))
    desk("run", plan, code=3)
    rest = asked(desk)
    assert (rest["files"], rest["title"]) == ("b.md", "write needs b.md")
    desk("answer", rest["id"], "--file", given(desk, "b.md"))
    [done] = desk.json("run", plan)["tasks"]
    assert (done["state"], done["rounds"]) == ("COMPLETED", 0)


SCORED = """
import json, os, pathlib
here = pathlib.Path(__file__).parent
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "spec.md").write_text(os.environ["AGENTTALK_TASK_ID"])
if os.environ["AGENTTALK_TASK_ID"] == "use":
    (here / "used").write_text("".join(p.read_text() for p in pathlib.Path(os.environ["AGENTTALK_INPUTS"]).glob("*/*")))
pathlib.Path(os.environ["AGENTTALK_RESULT"]).write_text(
    json.dumps({"result": "ok", "score": 80, "score_explanation": "equal"}))
"""


@pytest.mark.rest_but("1")
@pytest.mark.mends("B8")
@pytest.mark.parametrize("said", ["1", "left", "left/spec.md"])
def test_a_tie_is_answered_by_number_or_by_a_short_name(desk: Desk, said: str) -> None:
    (desk.folder / "work.py").write_text(SCORED, encoding="utf-8")
    outputs = [{"name": "spec.md"}]
    inputs = [{"name": "spec", "from": "spec.md", "pick": "highest_score"}]
    plan = desk.plan(
        *(task(each, outputs=outputs, score_required=True, score_criteria="how good") for each in ("left", "right")),
        task("use", needs=["left", "right"], inputs=inputs),
    )
    desk("run", plan, code=3)
    shown = desk("inbox")
    assert "1  left/spec.md (" in shown
    [request] = desk.json("inbox")["requests"]
    assert "neither/spec.md" in desk.refused("answer", request["request"]["request_id"], "--answer", "neither/spec.md")
    desk("answer", request["request"]["request_id"], "--answer", said)
    desk("run", plan)
    assert (desk.folder / "used").read_text() == "left"
