"""Gates, budgets and stopping as a person and a program meet them: on the command line and over HTTP."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.main import call
from doors.cli.plans.test_run import Desk, task, waited
from kits.sandboxkit import PLAIN_VARIABLE

PROGRAM = """
import http.client, json, os, pathlib, socket, sys, time
here = pathlib.Path(__file__).parent
name = os.environ["AGENTTALK_TASK_ID"]
with open(here / "ran", "a") as ran:
    ran.write(name + "\\n")

class Over(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["AGENTTALK_SOCKET"])

def post(path, body):
    connection = Over("agenttalk")
    headers = {"Authorization": "Bearer " + os.environ["AGENTTALK_TOKEN"]}
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())

own = "/api/projects/default/tasks/%(AGENTTALK_PLAN_ID)s:%(AGENTTALK_TASK_ID)s/progress" % os.environ
if name == "posts":
    spent = 0
    while True:
        spent += 40
        status, told = post(own, {"usage": {"tokens": spent}, "progress": f"step {spent}"})
        (here / "telling").write_text(json.dumps([status, told]))
        os.replace(here / "telling", here / "told")  # it may be killed at any time
        time.sleep(0.01)
if name == "forges":
    tried = [
        post("/api/plans/shop/override", {"task": "held", "checkpoint": "pre-plan", "why": "I say so"}),
        post("/api/plans/shop/abort", {"task": "held"}),
        post("/api/human-requests/" + (here / "request").read_text() + "/answer",
             {"decision": "APPROVE", "answers": ["override"], "seen_sha256": "x"}),
    ]
    (here / "tried").write_text(json.dumps([[status, told.get("code")] for status, told in tried]))
while name.startswith("slow"):
    time.sleep(0.02)
print("ok")
"""
OVERLAP = {"allowedScope": ["src/**"], "disallowedScope": ["src/**"]}


def promise(**keys: Any) -> dict[str, Any]:
    shown = [{"id": "said", "description": "It says something", "evidenceRequired": ["result"]}]
    return {"objective": "It is done", "acceptance": shown, **keys}


def said(desk: Desk, *arguments: str, code: int = 0) -> str:
    """What a command prints that starts nothing, so that it need not be a process."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(out), redirect_stderr(out):
        ended = call([*arguments, "--root", str(desk.root)])
    printed = out.buffer.getvalue().decode()
    assert ended == code, printed
    return str(printed)


def told(desk: Desk, *arguments: str) -> Any:
    """The same for programs."""
    return json.loads(said(desk, *arguments, "--json"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_")) and name != PLAIN_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "work.py").write_text(PROGRAM, encoding="utf-8")
    desk = Desk(tmp_path)
    yield desk
    assert desk.alive() == []


@pytest.mark.rest
def test_a_task_that_runs_is_stopped_from_another_terminal_and_the_plan_goes_on(desk: Desk) -> None:
    plan = desk.plan(task("slow"), task("next"), task("after", needs=["slow"], on_dependency_failed="SKIP"))
    child = desk.start("run", plan)
    waited(lambda: "slow" in desk.ran)
    assert "slow is stopped" in said(desk, "abort", "shop/slow", "--reason", "wrong file")
    out, err = child.communicate(timeout=300)
    assert child.returncode == 1, out + err
    assert desk.states() == {"slow": "FAILED", "next": "COMPLETED", "after": "SKIPPED"}
    assert desk.alive() == []
    assert "user-aborted: stopped by" in said(desk, "explain", "shop/slow")
    assert "wrong file" in said(desk, "status", "shop")


@pytest.mark.rest_but("alone")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an engine"])
def test_a_task_that_is_held_up_is_let_go_by_its_operator(desk: Desk, *, beside: bool) -> None:
    plan = desk.plan(task("held", promise=promise(**OVERLAP)), task("next", needs=["held"]))
    with desk.serving() if beside else nullcontext():
        run = desk.json("run", plan, code=3)
        [held] = [each for each in run["tasks"] if each["task_id"] == "held"]
        assert (held["state"], held["cause"]) == ("BLOCKED_WAITING_REVIEW", "SOFT_DENIED")
        assert "disallowedScope" in said(desk, "inbox")
        assert "agenttalk override shop/held" in said(desk, "explain", "shop/held")
        assert "pre-plan" in desk.refused("override", "shop/held", "--checkpoint", "pre-act", "--reason", "fine")
        assert "no checkpoint" in desk.refused("override", "shop/held", "--checkpoint", "never", "--reason", "fine")
        assert "is empty" in desk.refused("override", "shop/held", "--checkpoint", "pre-plan", "--reason", " ")
        answer = told(desk, "override", "shop/held", "--checkpoint", "pre-plan", "--reason", "only docs there")
        assert answer["reasons"] == ["disallowedScope: allowed and disallowed at once: src/**"]
        assert desk.json("run", plan)["result"] == "done"
        assert "overridden by" in said(desk, "status", "shop")
        assert "only docs there" in said(desk, "explain", "shop/held")
        assert told(desk, "inbox")["requests"] == []
    assert told(desk, "fsck")["faults"] == []
    found = told(desk, "audit", "find", answer["trace_id"])
    assert "gate.overridden" in [each["kind"] for each in found["entries"]]
    why = told(desk, "explain", "shop/held")
    [turn] = why["attempts"]
    trace = turn["gates"][1]["trace_id"]
    assert trace.endswith(":pre-act")
    assert "pre-act: allowed" in said(desk, "audit", "find", trace)
    [ended] = [each for each in told(desk, "audit", "find", trace)["entries"] if each["kind"] == "turn.ended"]
    assert ended["body"]["command_id"] == turn["command_id"]
    assert said(desk, "audit", "find", "lease_nobody:pre-act", code=1).startswith("no entry names")


def test_a_turn_of_a_plain_task_is_found_by_the_trace_of_its_lease(desk: Desk) -> None:
    desk("run", desk.plan(task("one")))
    entries = told(desk, "audit", "find", "cmd_one_001")["entries"]
    [lease] = {each["body"]["lease"] for each in entries if each["kind"] == "turn.ended"}
    kinds = [each["kind"] for each in told(desk, "audit", "find", f"{lease}:pre-act")["entries"]]
    assert kinds == ["turn.started", "turn.ended"]


def test_what_an_agent_posts_counts_and_stops_it(desk: Desk) -> None:
    plan = desk.plan(task("posts", promise=promise(budget={"tokens": 100})), task("next"))
    run = desk.json("run", plan, code=1)
    reasons = {each["task_id"]: each["reason"] for each in run["tasks"]}
    assert reasons == {"posts": "budget-exhausted: 120 tokens of the task's budget of 100 tokens", "next": None}
    status, answer = json.loads((desk.folder / "told").read_text())
    assert (status, answer["counted"]) == (200, True)
    assert "120 tokens" in said(desk, "status", "shop")


def test_no_agent_overrides_a_gate_stops_a_task_or_answers_for_a_person(desk: Desk) -> None:
    held = task("held", promise=promise(**OVERLAP))
    desk("run", desk.plan(held), code=3)
    [request] = told(desk, "inbox")["requests"]
    (desk.folder / "request").write_text(request["request"]["request_id"])
    desk("run", desk.plan(task("forges"), plan_id="other"))
    tried = json.loads((desk.folder / "tried").read_text())
    assert tried == [[403, "NOT_ALLOWED"]] * 3
    assert desk.states() == {"held": "BLOCKED_WAITING_REVIEW"}
    assert len(told(desk, "inbox")["requests"]) == 1


def test_warnings_are_shown_and_the_day_is_limited_by_the_settings(desk: Desk) -> None:
    for name in ("agents", "system_runtime"):
        (desk.root / name).mkdir(parents=True)
    (desk.root / "agenttalk.toml").write_text("[limits]\ncost_usd_per_day = 5\n")
    text = desk("run", desk.plan(task("one", promise=promise(abortWhen=[]))))
    assert "abortWhen: abortWhen is empty" in text
    assert "abortWhen is empty" in said(desk, "status", "shop")
    [turn] = told(desk, "explain", "shop/one")["attempts"]
    assert [each["checkpoint"] for each in turn["gates"]] == ["pre-plan", "pre-act", "post-act"]
    (desk.root / "agenttalk.toml").write_text("[limits]\ncost_usd_per_day = 0\n")
    assert "cost_usd_per_day" in desk.refused("run", desk.plan(task("one"), plan_id="second"))


@pytest.mark.shows("C14")
@pytest.mark.parametrize(
    ("task_id", "code", "notice"), [("fine", 0, "It is done: ok\n ()"), ("bad", 1, "Pity: 'nothing' {result}")]
)
def test_a_notice_is_filled_in_and_moves_nothing(desk: Desk, task_id: str, code: int, notice: str) -> None:
    (desk.folder / "work.py").write_text("import sys\nprint('ok') if 'fine' in sys.stdin.read() else sys.exit(1)\n")
    keys = {"on_complete": "It is done: {result} ({score})", "on_failure": "Pity: {error} {x}"}
    desk("run", desk.plan(task(task_id, **keys)), code=code)
    [turn] = told(desk, "explain", f"shop/{task_id}")["attempts"]
    expected = notice if code == 0 else "Pity: exit code 1 {x}"
    assert turn["notice"] == expected
    assert "notice:" in said(desk, "explain", f"shop/{task_id}")
    assert told(desk, "inbox")["requests"] == []


def test_a_dag_that_is_not_sound_is_refused_at_the_door(desk: Desk) -> None:
    from agenttalk.contracts.errors import ContractError
    from agenttalk.doors.cli.core import engine_client
    from agenttalk.doors.cli.plans.run import to_documents
    from agenttalk.wiring.plan_files import compile_plan_file

    posted: dict[str, Any] = to_documents(compile_plan_file(Path(desk.plan(task("one"), task("two", needs=["one"])))))
    posted["dag"]["nodes"][0]["depends_on"] = ["two"]
    posted["dag"]["nodes"][1]["assigned_agent_id"] = "nobody"
    with desk.serving():
        client = engine_client.connect_to_running_engine(desk.root)
        assert client is not None
        with pytest.raises(ContractError) as refused:
            client.post("/api/plans", posted)
    assert {problem.code for problem in refused.value.problems} >= {"DAG_CYCLE", "DAG_AGENT_UNKNOWN"}
    assert told(desk, "status")["plans"] == []
