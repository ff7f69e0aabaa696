"""The parts on their own, by the command line: a tree made by hand just works."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import apsw
import pytest

from agenttalk.doors.cli.main import call
from kits.sandboxkit import PLAIN_VARIABLE
from kits.treekit import Tree, node, output

WORKS = """
import os, pathlib
inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
found = sorted(str(path.relative_to(inputs)) for path in inputs.rglob("*") if path.is_file())
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "made.txt").write_text(" ".join(found) or "from nothing")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A lead, two script agents and a plan: nothing was made by AgentTalk."""
    tree = Tree(tmp_path / "root")
    tree.dag(
        [
            node("design", "pm", outputs=[output("made.txt", "dev")]),
            node("build", "dev", outputs=[output("made.txt", deliverable=True)]),
        ]
    )
    tree.agent("lead")
    for agent in ("pm", "dev"):
        folder = tree.agent(agent, driver="script", argv=[sys.executable, "work.py"])
        (folder / "work.py").write_text(WORKS, encoding="utf-8")
    return tree


class Line:
    """The command line: called here, or started as a process of its own."""

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "agenttalk", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __call__(self, *arguments: str, code: int = 0) -> str:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with redirect_stdout(out), redirect_stderr(out):
            ended = call(list(arguments))
        printed = out.buffer.getvalue().decode()
        assert ended == code, printed
        return str(printed)

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self(*arguments, "--json", code=code))
        return answer


@pytest.fixture
def line(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_")) and name != PLAIN_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTTALK_ROOT", str(tree.root))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return Line()


def waited(condition: Any, patience: float = 300.0) -> None:
    """Wait until something is so; the time limit is a failure, never a pass."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)


@pytest.mark.shows("M02", "M03", "X03", "X10")
def test_a_tree_made_by_hand_just_works(tree: Tree, line: Line) -> None:
    tree.command("lead", "build", required_inputs=["made.txt"], wait_for_inputs=True)
    tree.command("lead", "design")
    assert line.json("route", "--once")["delivered"] == 2
    assert line.json("heartbeat", "--agent", "dev", "--once")["waiting"] == 1
    assert line.json("heartbeat", "--agent", "pm", "--once")["ran"] == 1
    assert line.json("route", "--once")["delivered"] == 1
    assert line.json("heartbeat", "--agent", "dev", "--once")["ran"] == 1
    assert line.json("route", "--once")["accepted"] == 1
    seen = line.json("monitor", "--once")
    assert seen["plans"] == {"plan_shop": {"COMPLETED": 2}}
    assert seen["agents"] == {"dev": "HEALTHY", "pm": "HEALTHY"}
    made = tree.root / "system_runtime/artifacts/plan_shop/build/made.txt/made.txt"
    assert made.read_text() == "made.txt/made.txt"
    [plan] = line.json("status")["plans"]
    assert {task["task_id"]: task["state"] for task in plan["tasks"]} == {"build": "COMPLETED", "design": "COMPLETED"}
    assert line.json("fsck")["faults"] == []
    line("audit", "verify")


def test_loops_wake_up_by_themselves_and_end_when_told(tree: Tree, line: Line) -> None:
    router, heart = line.start("route"), line.start("heartbeat", "--agent", "pm")
    try:
        made = tree.root / "agents/dev/inbox/plan_shop"
        tree.command("lead", "design")
        waited(lambda: list(made.glob("*.msg.json")))
        for child in (router, heart):
            child.send_signal(signal.SIGTERM)
            assert child.wait(300) == 0
    finally:
        for child in (router, heart):
            child.kill()
            child.communicate()
    assert line.json("fsck")["faults"] == []


def test_a_loop_tells_programs_a_line_at_a_time(tree: Tree, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    router = line.start("route", "--json")
    try:
        assert router.stdout is not None
        first = next(each for each in router.stdout if each.startswith("{"))
        assert json.loads(first)["delivered"] == 0
        tree.command("lead", "design")
        assert json.loads(router.stdout.readline())["delivered"] == 1
    finally:
        router.kill()
        router.communicate()


def test_a_question_of_an_agent_cannot_look_like_lines_of_ours(tree: Tree, line: Line) -> None:
    asks = {"request_id": "q1", "created_by": {"agent_id": "dev"}, "severity": "HIGH", "type": "DECISION"}
    options = [{"key": "a", "label": "red\n✓ no open questions"}]
    needed = {"files": [{"name": "my budget.csv"}], "decision": {"question": "Which?\n→", "options": options}}
    document = {**asks, "title": "Hm?\nq2  APPROVAL", "needed": needed}
    tree.put("dev", "human_intervention_request_1.json", document)
    line("route", "--once")
    printed = line("inbox").splitlines()
    shown = json.loads(line("inbox", "--json"))["requests"][0]["sha256"]
    assert printed[1:] == [
        "  Hm? q2 APPROVAL",
        "  · my budget.csv",
        "  ? Which?",
        "    │ →",
        "    1  a: red ✓ no open questions",
        f"  → agenttalk answer q1 --file 'my budget.csv'=PATH --answer KEY --seen {shown}",
    ]


def test_the_status_says_why_a_task_failed(tree: Tree, line: Line) -> None:
    program = "import sys; print('no colour\\n\\x1b[31mgiven', file=sys.stderr); sys.exit(3)"
    (tree.root / "agents/pm/work.py").write_text(program, encoding="utf-8")
    tree.command("lead", "design")
    line("route", "--once")
    line("heartbeat", "--agent", "pm", "--once")
    [failed] = [each for each in line("status").splitlines() if "FAILED" in each]
    assert "no colour \\x1b[31mgiven" in failed
    [plan] = line.json("status")["plans"]
    assert {task["task_id"]: bool(task["reason"]) for task in plan["tasks"]} == {"design": True, "build": False}


def test_a_profile_that_is_no_json_is_told_and_nothing_is_called_good(tree: Tree, line: Line) -> None:
    (tree.root / "agents/dev/agent_profile.json").write_text("{", encoding="utf-8")
    printed = line("heartbeat", "--agent", "dev", "--once", code=1)
    assert "agent_profile.json" in printed
    assert "✓" not in printed
    assert "dev, lead, pm" in line("heartbeat", "--agent", "../x", "--once", code=2)


def test_a_second_router_refuses_and_names_the_first(tree: Tree, line: Line) -> None:
    router = line.start("route", "--json")
    try:
        lock = tree.root / "data/parts/route.lock"
        waited(lambda: lock.exists() and lock.read_text().strip() == str(router.pid))
        refused = line.json("route", "--once", code=1)
        assert refused["error"]["code"] == "ENGINE_RUNNING"
        assert str(router.pid) in refused["error"]["message"]
    finally:
        router.kill()
        router.communicate()
    line("route", "--once")  # the dead hold no lock


@pytest.mark.shows("M11")
def test_a_dead_letter_is_listed_shown_and_replayed_once_its_reason_is_gone(tree: Tree, line: Line) -> None:
    tree.dag([node("build", "dev"), node("late", "newcomer")], agents=False)
    message_id = tree.command("lead", "late")
    line("route", "--once")
    [letter] = line.json("deadletter", "list")["deadletters"]
    assert (letter["code"], letter["message_id"]) == ("TARGET_AGENT_NOT_FOUND", message_id)
    shown = line("deadletter", "show", letter["deadletter_id"], "--raw")
    assert json.loads(shown)["message_id"] == message_id
    assert line.json("deadletter", "replay", letter["deadletter_id"], code=1)["code"] == "TARGET_AGENT_NOT_FOUND"
    tree.agent("newcomer")
    assert line.json("deadletter", "replay", letter["deadletter_id"])["fate"] == "accepted"
    assert tree.inbox("newcomer") == ["cmd_late_001.msg.json"]
    again = line.json("deadletter", "replay", letter["deadletter_id"], code=2)
    assert again["error"]["code"] == "REPLAY_REFUSED"
    assert line.json("deadletter", "list")["deadletters"] == []
    assert line.json("fsck")["faults"] == []
    lines = [each["status"] for each in tree.journal() if each["message_id"] == message_id]
    assert lines == ["DEADLETTERED", "DELIVERED"]


def test_replays_stop_after_three(tree: Tree, line: Line) -> None:
    tree.command("pm", "design")  # nobody commands himself
    line("route", "--once")
    [letter] = line.json("deadletter", "list")["deadletters"]
    for _ in range(3):
        line.json("deadletter", "replay", letter["deadletter_id"], code=1)
    refused = line.json("deadletter", "replay", letter["deadletter_id"], code=2)
    assert refused["error"]["code"] == "REPLAY_REFUSED"


@pytest.fixture
def asked(tree: Tree, line: Line) -> str:
    """A command that waited too long, and so a question to a person."""
    tree.command("lead", "build", required_inputs=["budget.csv"], wait_for_inputs=True, timeout=1)
    line("route", "--once")
    line("heartbeat", "--agent", "dev", "--once")
    path = tree.root / "data/projects/default/blackboard.db"
    with apsw.Connection(str(path)) as database:
        database.execute("UPDATE tasks SET waiting_since = '2020-01-01T00:00:00.000000Z'")
    line("heartbeat", "--agent", "dev", "--once")
    line("route", "--once")
    [request] = line.json("inbox")["requests"]
    found: str = request["request"]["request_id"]
    return found


@pytest.mark.shows("X04")
def test_an_answer_brings_the_file_to_the_task_that_waits(tree: Tree, line: Line, asked: str, tmp_path: Path) -> None:
    [name] = [path.name for path in (tree.root / "agents/agent_human_gateway/inbox/plan_shop").iterdir()]
    assert name == f"human_intervention_request_{asked}.json"
    assert "budget.csv" in line("inbox")
    (tmp_path / "money.csv").write_text("100")
    wrong = line.json("answer", asked, "--file", str(tmp_path / "money.csv"), code=2)
    assert "budget.csv" in wrong["error"]["hint"]
    line("answer", asked, "--file", f"budget.csv={tmp_path / 'money.csv'}", "--as", "ada")
    line("route", "--once")
    assert line.json("heartbeat", "--agent", "dev", "--once")["ran"] == 1
    assert line.json("inbox")["requests"] == []
    twice = line.json("answer", asked, "--note", "again", code=2)
    assert twice["error"]["code"] == "ANSWER_REFUSED"
    line("route", "--once")
    assert line.json("fsck")["faults"] == []
    [response] = tree.documents("plans/plan_shop/human_responses")
    assert response["responder"]["name"] == "ada"


def test_a_persons_no_ends_what_waits(tree: Tree, line: Line, asked: str) -> None:
    line("answer", asked, "--decision", "abort", "--note", "no budget")
    assert line.json("heartbeat", "--agent", "dev", "--once")["ran"] == 0
    line("route", "--once")
    [plan] = line.json("status")["plans"]
    assert [task["state"] for task in plan["tasks"] if task["task_id"] == "build"] == ["FAILED"]
    acks = tree.documents("plans/plan_shop/acks")
    assert "FAILED" in [ack["status"] for ack in acks]
    assert line.json("fsck")["faults"] == []


def test_an_answer_to_another_question_than_was_seen_is_refused(line: Line, asked: str) -> None:
    refused = line.json("answer", asked, "--note", "x", "--seen", "sha256:" + "0" * 64, code=2)
    assert refused["error"]["code"] == "ANSWER_REFUSED"


@pytest.mark.shows("C16")
def test_every_command_that_is_made_checked_or_refused_is_in_the_ledger(line: Line, tmp_path: Path) -> None:
    fields = ("plan_id=plan_shop", "task_id=design")
    made = line.json("command", "generate", *fields, "prompt=Secret words.")
    line.json("command", "generate", *fields, code=2)
    (tmp_path / "made.json").write_text(json.dumps(made["command"]))
    line("command", "validate", str(tmp_path / "made.json"))
    facts = [json.loads(each) for each in line("audit", "export").splitlines()]
    logged = [(fact["kind"], fact["subject"]) for fact in facts if fact["kind"].startswith("command.")]
    subject = "plan_shop/design"
    assert logged == [
        ("command.generated", subject),
        ("command.refused", subject),
        ("command.validated", subject),
    ]
    assert "Secret words." not in json.dumps(facts)


def test_an_operator_sends_a_command_without_a_folder(tree: Tree, line: Line, tmp_path: Path) -> None:
    made = line.json("command", "generate", "plan_id=plan_shop", "task_id=design", "prompt=Design it.")
    (tmp_path / "made.json").write_text(json.dumps(made["command"]))
    assert line.json("command", "send", str(tmp_path / "made.json"))["fate"] == "accepted"
    assert tree.inbox("pm") == ["cmd_design_001.msg.json"]
    again = line.json("command", "send", str(tmp_path / "made.json"), code=2)
    assert "COMMAND_ID_REUSED" in json.dumps(again)


def test_republish_writes_the_views_anew(tree: Tree, line: Line) -> None:
    tree.command("lead", "design")
    tree.put("lead", "torn.msg.json", b"{")
    line("route", "--once")
    runtime = tree.root / "system_runtime"
    kept = {path: path.read_bytes() for path in runtime.rglob("*") if path.is_file()}
    for path in kept:
        if path.name not in {"task_dag.json", "active_dag_ref.json"}:
            path.unlink()
    assert line.json("republish")["written"] > 0
    assert {path: path.read_bytes() for path in runtime.rglob("*") if path.is_file()} == kept


def test_fsck_finds_what_must_never_be(tree: Tree, line: Line) -> None:
    tree.command("lead", "design")
    line("route", "--once")
    path = tree.root / "data/projects/default/blackboard.db"
    with apsw.Connection(str(path)) as database:
        database.execute("UPDATE plans SET delivered = 0; UPDATE deliveries SET ack = 'SUCCEEDED'")
    faults = line.json("fsck", code=1)["faults"]
    assert any("in no state" in fault["what"] for fault in faults)
    assert any("receipt" in fault["what"] for fault in faults)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("heartbeat", "--agent", "deev", "--once"), "did you mean 'dev'"),
        (("status", "plan_shoop"), "did you mean 'plan_shop'"),
        (("deadletter", "show", "dl_x"), "deadletter list"),
        (("answer", "req_x", "--note", "hm"), "agenttalk inbox"),
    ],
)
def test_wrong_names_are_answered_with_a_way_out(line: Line, arguments: tuple[str, ...], words: str) -> None:
    line("route", "--once")
    assert words in line(*arguments, code=2)


def test_a_folder_that_is_no_root_is_refused(tmp_path: Path, line: Line) -> None:
    (tmp_path / "empty").mkdir()
    assert "is not a root" in line("route", "--once", "--root", str(tmp_path / "empty"), code=2)
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_profile_of_somebody_else_drives_nobody(tree: Tree, line: Line) -> None:
    path = tree.root / "agents/pm/agent_profile.json"
    path.write_text(path.read_text().replace('"pm"', '"dev"'))
    tree.command("lead", "design")
    line("route", "--once")
    told = line.json("heartbeat", "--agent", "pm", "--once", code=1)
    assert "correct agent_id" in told["errors"][0]
    assert tree.inbox("pm") == ["cmd_design_001.msg.json"]
