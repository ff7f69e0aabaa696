"""`agenttalk run` and what steers a plan, as a process; and the same from a Python program."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import agenttalk
import preloaded
from agenttalk.adapters.store.root_lock import RootLock
from agenttalk.contracts.errors import AgentTalkError, Code, ContractError, UsageError
from agenttalk.doors.cli.main import call
from kits.sandboxkit import PLAIN_VARIABLE

PATIENCE = 300.0
PROGRAM = """
import os, pathlib, sys, time
here = pathlib.Path(__file__).parent
task = os.environ["AGENTTALK_TASK_ID"]
with open(here / "ran", "a") as ran:
    ran.write(f"{task} {os.environ['AGENTTALK_COMMAND_ID']} {os.environ['AGENTTALK_ATTEMPT']}\\n")
while task.startswith("slow") and not (here / "go").exists():
    time.sleep(0.02)
if task.startswith("bad") and not (here / "fixed").exists():
    sys.exit("no luck today")
print("ok")
"""


def task(task_id: str, agent: str = "worker", **keys: Any) -> dict[str, Any]:
    return {"id": task_id, "agent": agent, "prompt": f"Do {task_id}.", **keys}


def waited(condition: Callable[[], Any]) -> None:
    """Wait until something is so; the time limit is a failure, never a pass."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


@dataclass(frozen=True)
class Desk:
    """A folder with a program, plan files and a root that is not there yet."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def ran(self) -> list[str]:
        """What the program was started for, in order."""
        path = self.folder / "ran"
        return path.read_text().splitlines() if path.exists() else []

    def let(self, name: str) -> None:
        """`go` lets slow tasks end, and `fixed` mends bad ones."""
        (self.folder / name).touch()

    def plan(self, *tasks: dict[str, Any], plan_id: str = "shop", **keys: Any) -> str:
        agents = {"worker": {"driver": "script", "argv": [sys.executable, "work.py"]}}
        said = {"plan_id": plan_id, "agents": agents, "tasks": list(tasks), **keys}
        path = self.folder / "plan.json"
        path.write_text(json.dumps(said), encoding="utf-8")
        return str(path)

    def start(self, *arguments: str, program: Sequence[str] = ()) -> subprocess.Popen[str]:
        """A program that is seen or ended while it works; `program` is another than the one that is preloaded."""
        return subprocess.Popen(
            [*(program or [preloaded.program()]), *arguments, "--root", str(self.root)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def done(self, *arguments: str, code: int) -> tuple[str, str]:
        """What a command printed on its two streams until it ended."""
        ended = subprocess.run(
            [preloaded.program(), *arguments, "--root", str(self.root)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout, ended.stderr

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What a command prints for people."""
        return "".join(self.done(*arguments, code=code))

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """What it says to programs."""
        said: dict[str, Any] = json.loads(self.done(*arguments, "--json", code=code)[0])
        return said

    def refused(self, *arguments: str) -> str:
        """What a command that is refused prints. It starts nothing, so it need not be a process."""
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with redirect_stdout(out), redirect_stderr(out):
            code = call([*arguments, "--root", str(self.root)])
        printed = out.buffer.getvalue().decode()
        assert code == 2, printed
        return str(printed)

    def states(self, plan_id: str = "shop") -> dict[str, str]:
        [plan] = [each for each in self.json("status")["plans"] if each["plan_id"] == plan_id]
        return {each["task_id"]: each["state"] for each in plan["tasks"]}

    def phase(self) -> str | None:
        """What the only task that runs is doing; looked up directly, because that is quick."""
        path = f"file:{self.root}/data/projects/default/blackboard.db?mode=ro"
        with closing(sqlite3.connect(path, uri=True)) as connection:
            found = connection.execute("SELECT phase FROM tasks WHERE lease IS NOT NULL").fetchone()
        return found[0] if found else None

    def alive(self) -> list[str]:
        """Processes of turns in this root."""
        wanted = f"={self.root}/".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                variables = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
                if b"AGENTTALK_LEASE=" in variables and wanted in variables:
                    found.append(entry.name)
        return found

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[str]]:
        """An engine beside."""
        for name in ("agents", "system_runtime"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        engine = self.start("serve", "--port", "0")
        try:
            assert engine.stdout is not None
            assert "listening" in engine.stdout.readline()
            yield engine
            engine.send_signal(signal.SIGTERM)
            engine.communicate(timeout=PATIENCE)
            assert engine.returncode == 0
        finally:
            engine.send_signal(preloaded.KILL)
            engine.communicate()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_")) and name != PLAIN_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "work.py").write_text(PROGRAM, encoding="utf-8")
    desk = Desk(tmp_path)
    yield desk
    assert desk.alive() == []


def states(standing: dict[str, Any]) -> dict[str, str]:
    return {each["task_id"]: each["state"] for each in standing["tasks"]}


# How it ends.


def test_all_done_is_0_and_running_it_again_runs_nothing(desk: Desk) -> None:
    plan = desk.plan(task("one"), task("two", needs=["one"]))
    assert "everything is done" in desk("run", plan)
    assert desk.ran == ["one cmd_one_001 1", "two cmd_two_001 1"]
    again = desk.json("run", plan)
    assert (again["ok"], again["result"], states(again)) == (True, "done", {"one": "COMPLETED", "two": "COMPLETED"})
    assert {(each["board"], each["freshness"]) for each in again["tasks"]} == {("done", "fresh")}
    assert len(desk.ran) == 2
    assert desk.json("fsck")["faults"] == []
    desk("audit", "verify")


def test_a_failure_is_1_and_its_reason_is_shown(desk: Desk) -> None:
    plan = desk.plan(task("bad"), task("next", needs=["bad"], on_dependency_failed="SKIP"))
    shown = desk("run", plan, code=1)
    assert "no luck today" in shown
    told = desk.json("run", plan, code=1)
    assert (told["ok"], told["result"], states(told)) == (False, "failed", {"bad": "FAILED", "next": "SKIPPED"})
    assert desk.ran == ["bad cmd_bad_001 1"]


@pytest.mark.parametrize(("run", "code"), [("test -s app.txt", 0), ("grep -q absent app.txt", 1)])
def test_checks_decide_and_not_what_the_agent_says(desk: Desk, run: str, code: int) -> None:
    promise = {
        "objective": "It works",
        "acceptance": [{"id": "works", "description": "It runs", "evidenceRequired": ["suite"]}],
        "checks": [{"id": "suite", "kind": "run", "run": run}],
    }
    text = "import os, pathlib\npathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'app.txt').write_text('built')\nprint('done')\n"
    (desk.folder / "work.py").write_text(text, encoding="utf-8")
    outputs = [{"name": "app.txt", "deliverable": True}]
    shown = desk("run", desk.plan(task("one", promise=promise, outputs=outputs, max_reexecute_times=0)), code=code)
    assert ("'suite' failed" in shown) == bool(code)


def suite(**keys: Any) -> dict[str, Any]:
    """A promise with one check, which runs its own script."""
    return {
        "objective": "It works",
        "acceptance": [{"id": "works", "description": "It runs", "evidenceRequired": ["suite"]}],
        "checks": [{"id": "suite", "kind": "run", "run": "sh checks/suite.sh", "files": ["checks/suite.sh"], **keys}],
    }


CLAIMS = """import json, os, pathlib
pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'app.txt').write_text('built')
pathlib.Path(os.environ['AGENTTALK_RESULT']).write_text(json.dumps({'result': 'ok', 'evidence': ['suite', 'review']}))
with open(pathlib.Path(__file__).with_name('ran'), 'a') as log: log.write('once\\n')
"""


@pytest.mark.rest_but("alone")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an engine"])
def test_a_check_brings_its_own_files_from_beside_the_plan(desk: Desk, *, beside: bool) -> None:
    (desk.folder / "work.py").write_text(CLAIMS, encoding="utf-8")
    outputs = [{"name": "app.txt", "deliverable": True}]
    plan = desk.plan(task("one", promise=suite(), outputs=outputs, max_reexecute_times=0))
    assert "the file 'checks/suite.sh' of the check 'suite'" in desk.refused("plan", "check", plan)
    assert "FILE_UNREADABLE" in json.dumps(desk.json("run", plan, code=2))
    script = desk.folder / "checks" / "suite.sh"
    script.parent.mkdir()
    script.write_text("grep -q absent app.txt")
    with desk.serving() if beside else nullcontext():
        desk("run", plan, code=1)
        script.write_text("grep -q built app.txt")
        assert desk.json("plan", "apply", plan)["changed"] == ["one"]
        desk("run", plan)
        shown = desk("explain", "shop/one")
    assert "claims that suite is true (ignored: the engine's own evidence decides)" in shown
    assert "unproven, claimed only: review" in shown


@pytest.mark.rest
def test_who_is_killed_while_it_checks_checks_again_and_does_not_start_the_agent_again(desk: Desk) -> None:
    (desk.folder / "work.py").write_text(CLAIMS, encoding="utf-8")
    (desk.folder / "checks").mkdir()
    (desk.folder / "checks" / "suite.sh").write_text("sleep 4; test -s app.txt")  # long enough to be seen
    outputs = [{"name": "app.txt", "deliverable": True}]
    plan = desk.plan(task("one", promise=suite(red_first="off"), outputs=outputs))
    child = desk.start("run", plan)
    waited(lambda: desk.ran and desk.phase() == "verifying")
    child.send_signal(preloaded.KILL)
    child.communicate()
    assert desk.json("run", plan)["result"] == "done"
    assert desk.ran == ["once"]


def test_what_is_only_claimed_is_told(desk: Desk) -> None:
    promise = {
        "objective": "It is said",
        "acceptance": [{"id": "said", "description": "Somebody says so", "evidenceRequired": ["word"]}],
        "checks": [{"id": "word", "kind": "report", "minTrust": "claimed"}],
    }
    desk("run", desk.plan(task("one", promise=promise)))
    assert "unproven, claimed only: word" in desk("explain", "shop/one")


def test_a_repository_that_is_not_there_is_told_before_anything_begins(desk: Desk) -> None:
    plan = desk.plan(task("one", workspace="repo"), workspace={"repo": "./nowhere"})
    assert f"there is no repository {desk.folder}/nowhere" in desk.refused("run", plan)
    assert not desk.root.exists()


def test_a_script_that_is_not_there_is_told(desk: Desk) -> None:
    agents = {"worker": {"driver": "script", "argv": [sys.executable, "wrok.py"]}}
    shown = desk("run", desk.plan(task("one"), agents=agents), code=1)
    assert "! agents.worker: wrok.py is neither beside the plan nor in agents/worker" in shown
    assert "can't open file" in shown


def test_checks_that_nobody_can_make_are_told(desk: Desk) -> None:
    promise = {
        "objective": "It works",
        "acceptance": [{"id": "works", "description": "It runs", "evidenceRequired": ["merged"]}],
        "checks": [{"id": "merged", "kind": "forge", "repo": "a/b", "pull_request": 1, "pr_merged": True}],
    }
    shown = desk("run", desk.plan(task("one", promise=promise, max_reexecute_times=0)), code=1)
    assert "these tasks cannot be done: one" in shown


def test_a_branch_that_is_not_taken_is_fine(desk: Desk) -> None:
    (desk.folder / "judge.py").write_text('print(\'{"result": "good", "score": 90}\')')
    judge = {"driver": "script", "argv": [sys.executable, "judge.py"]}
    gates = {"thresholds": {"judge_min_score": 70}, "branches": [{"when": "score < 50", "activate": ["again"]}]}
    scored = {"score_required": True, "score_criteria": "0-100", "gates": gates}
    plan = desk.plan(
        task("judge", "critic", **scored),
        task("again", needs=["judge"]),
        agents={"critic": judge, "worker": {"driver": "script", "argv": [sys.executable, "work.py"]}},
    )
    assert states(desk.json("run", plan)) == {"judge": "COMPLETED", "again": "SKIPPED"}


@pytest.mark.parametrize(
    ("agents", "more"),
    [
        ({"worker": {"driver": "human"}}, {}),
        ({"worker": {"driver": "folder"}}, {}),
        (
            {"worker": {"driver": "script", "argv": [sys.executable, "-c", 'print(\'{"result": 1, "score": 5}\')']}},
            {"score_required": True, "score_criteria": "x", "gates": {"thresholds": {"one_min_score": 70}}},
        ),
    ],
    ids=["a person", "an agent that works by hand", "a gate"],
)
def test_somebody_who_is_awaited_is_3(desk: Desk, agents: dict[str, Any], more: dict[str, Any]) -> None:
    told = desk.json("run", desk.plan(task("one", **more), agents=agents), code=3)
    assert (told["ok"], told["result"]) == (False, "waiting")


def test_a_program_that_does_not_exist_is_told(desk: Desk) -> None:
    agents = {"worker": {"driver": "script", "argv": ["/no/such/program"]}}
    shown = desk("run", desk.plan(task("one"), agents=agents), code=1)
    assert "'/no/such/program' was not found" in shown


# What is refused.


AGENT = {"driver": "folder"}
CIRCLE = [task("x", "a", needs=["y"]), task("y", "a", needs=["x"])]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "JSON"),
        ("[]", "mapping"),
        (json.dumps({"plan_id": "p", "agnets": {}, "tasks": []}), "agents"),
        (json.dumps({"plan_id": "p", "agents": {"a": AGENT}, "tasks": [task("x", "b")]}), "'b'"),
        (json.dumps({"plan_id": "p", "agents": {"a": AGENT}, "tasks": CIRCLE}), "x → y"),
    ],
    ids=["no JSON", "a list", "an unknown key", "an unknown agent", "a circle"],
)
def test_a_bad_plan_is_2_and_makes_nothing(desk: Desk, text: str, word: str) -> None:
    path = desk.folder / "plan.json"
    path.write_text(text)
    assert word in desk.refused("run", str(path))
    assert json.loads(desk.refused("run", str(path), "--json"))["ok"] is False
    assert not desk.root.exists()


def test_a_plan_that_is_not_there_is_2(desk: Desk) -> None:
    assert "nowhere.yaml" in desk.refused("run", str(desk.folder / "nowhere.yaml"))


def test_a_changed_plan_of_the_same_id_is_refused_and_the_way_is_named(desk: Desk) -> None:
    desk("run", desk.plan(task("one")))
    changed = desk.plan(task("one"), task("two"))
    refused = desk.json("run", changed, code=2)
    assert refused["error"]["code"] == "PLAN_MISMATCH"
    assert "plan apply" in refused["error"]["hint"]
    assert "plan apply" in desk("run", changed, code=2)
    assert desk.ran == ["one cmd_one_001 1"]


def test_a_dry_run_runs_nothing(desk: Desk) -> None:
    plan = desk.plan(task("one"), task("two", needs=["one"]))
    assert "nothing was run" in desk("run", plan, "--dry-run")
    told = desk.json("run", plan, "--dry-run")
    assert (told["ok"], told["plan_id"]) == (True, "shop")
    assert (desk.ran, desk.root.exists()) == ([], False)


# What interrupts it.


SLOW = (task("first"), task("slow", needs=["first"]), task("last", needs=["slow"]))


def test_ctrl_c_is_130_and_the_next_run_goes_on_there(desk: Desk) -> None:
    plan = desk.plan(*SLOW)
    child = desk.start("run", plan, "--json")
    waited(lambda: len(desk.ran) == 2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, out + err
    assert json.loads(out)["result"] == "running"
    assert desk.alive() == []
    assert desk.states() == {"first": "COMPLETED", "slow": "READY", "last": "PENDING"}
    desk.let("go")
    assert desk.json("run", plan)["result"] == "done"
    assert desk.ran == ["first cmd_first_001 1", "slow cmd_slow_001 1", "slow cmd_slow_001 2", "last cmd_last_001 1"]


@pytest.mark.rest
def test_ctrl_c_before_anything_began_is_130_too(desk: Desk) -> None:
    plan = desk.plan(task("one"))
    for name in ("agents", "system_runtime"):
        (desk.root / name).mkdir(parents=True)
    with RootLock.acquire(desk.root, "part"):
        child = desk.start("run", plan, program=[sys.executable, "-m", "agenttalk"])
        status = Path(f"/proc/{child.pid}/status")
        waited(lambda: _catches(status.read_text(), signal.SIGTERM))  # it waits for the root now
        child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    assert (child.returncode, desk.ran) == (130, []), out + err
    assert desk.json("run", plan)["result"] == "done"


def _catches(status: str, number: signal.Signals) -> bool:
    [caught] = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.mark.rest
def test_what_is_killed_leaves_nothing_and_the_next_run_goes_on_there(desk: Desk) -> None:
    plan = desk.plan(*SLOW)
    child = desk.start("run", plan)
    waited(lambda: len(desk.ran) == 2)
    child.send_signal(preloaded.KILL)
    child.communicate()
    waited(lambda: not desk.alive())
    desk.let("go")
    assert desk.json("run", plan)["result"] == "done"
    assert desk.ran == ["first cmd_first_001 1", "slow cmd_slow_001 1", "slow cmd_slow_001 2", "last cmd_last_001 1"]
    assert desk.json("fsck")["faults"] == []


# Beside an engine.


@pytest.mark.rest
def test_beside_an_engine_it_is_the_engine_that_runs_the_plan(desk: Desk) -> None:
    with desk.serving():
        plan = desk.plan(*SLOW)
        child = desk.start("run", plan, "--json")
        waited(lambda: len(desk.ran) == 2)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE)
        assert child.returncode == 130, out + err
        assert len(desk.alive()) > 0, "the engine goes on"
        desk.let("go")
        told = desk.json("run", plan)
        assert (told["result"], len(desk.ran)) == ("done", 3)
        assert "PLAN_MISMATCH" in json.dumps(desk.json("run", desk.plan(task("one")), code=2))


@pytest.mark.rest
def test_whoever_follows_the_engine_of_another_plan_goes_on_without_it(desk: Desk) -> None:
    first = desk.start("run", desk.plan(*SLOW))
    waited(lambda: len(desk.ran) == 2)
    other = {"other": {"driver": "script", "argv": [sys.executable, "work.py"]}}
    second = desk.start("run", desk.plan(task("slow_too", "other"), plan_id="other", agents=other), "--json")
    waited(lambda: len(desk.ran) == 3)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=PATIENCE)
    assert first.returncode == 130
    waited(lambda: desk.ran[-1] == "slow_too cmd_slow_too_001 2")
    desk.let("go")
    out, err = second.communicate(timeout=PATIENCE)
    assert (second.returncode, json.loads(out)["result"]) == (0, "done"), out + err
    assert desk.states("other") == {"slow_too": "COMPLETED"}


@pytest.mark.rest
def test_a_run_begins_nothing_of_another_plan_that_was_left(desk: Desk) -> None:
    left = desk.plan(*SLOW)
    first = desk.start("run", left)
    waited(lambda: len(desk.ran) == 2)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=PATIENCE)
    desk("run", desk.plan(task("one"), plan_id="other"))
    assert desk.ran[2:] == ["one cmd_one_001 1"]
    assert desk.states() == {"first": "COMPLETED", "slow": "READY", "last": "PENDING"}
    desk.let("go")
    desk("run", desk.plan(*SLOW))
    assert desk.ran[3:] == ["slow cmd_slow_001 2", "last cmd_last_001 1"]


@pytest.mark.rest
def test_of_two_that_begin_at_once_one_is_the_engine_and_the_other_follows(desk: Desk) -> None:
    plan = desk.plan(task("one"))
    both = [desk.start("run", plan, "--json") for _ in range(2)]
    for each in both:
        out, err = each.communicate(timeout=PATIENCE)
        assert (each.returncode, json.loads(out)["result"]) == (0, "done"), out + err
    assert desk.ran == ["one cmd_one_001 1"]


STEERED = (
    task("bad"),
    task("next", needs=["bad"], on_dependency_failed="SKIP"),
    task("slow", "other"),
    task("after", "other", needs=["slow"]),
)


@pytest.mark.rest_but("alone")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an engine"])
def test_a_plan_is_steered(desk: Desk, *, beside: bool) -> None:
    program = {"driver": "script", "argv": [sys.executable, "work.py"]}
    plan = desk.plan(*STEERED, agents={"worker": program, "other": program})
    with desk.serving() if beside else nullcontext():
        child = desk.start("run", plan)
        waited(lambda: len(desk.ran) == 2)
        waited(lambda: desk.states()["bad"] == "FAILED")
        assert desk.json("pause", "shop")["changed"] is True
        assert desk.json("pause", "shop")["changed"] is False
        desk.let("fixed")
        desk.let("go")
        out, err = child.communicate(timeout=PATIENCE)
        assert child.returncode == 1, out + err
        assert desk.states() == {"bad": "FAILED", "next": "SKIPPED", "slow": "COMPLETED", "after": "READY"}
        assert desk.json("resume", "shop")["changed"] is True
        assert desk.json("retry", "shop/bad")["tasks"] == ["bad", "next"]
        told = desk.json("run", plan)
        assert (told["result"], set(states(told).values())) == ("done", {"COMPLETED"})
        assert sorted(each.split()[0] for each in desk.ran) == ["after", "bad", "bad", "next", "slow"]
        why = desk.json("explain", "shop/bad")
        assert [each["how"] for each in why["attempts"]] == ["crashed", "finished"]
        assert "no luck today" in desk("explain", "shop/bad")


@pytest.mark.rest_but("alone")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an engine"])
def test_an_answer_that_was_given_is_no_longer_awaited(desk: Desk, *, beside: bool) -> None:
    inputs = [{"name": "list.csv", "external": True}]
    plan = desk.plan(task("one", inputs=inputs), task("two", needs=["one"], inputs=[{**inputs[0], "name": "more.csv"}]))
    (desk.folder / "list.csv").write_text("a,1\n", encoding="utf-8")
    with desk.serving() if beside else nullcontext():
        desk("run", plan, code=3)
        [asked] = desk.json("inbox")["requests"]
        said = desk("answer", asked["request"]["request_id"], "--file", f"list.csv={desk.folder}/list.csv")
        assert ("'agenttalk run'" in said) is not beside
        told = desk.json("run", plan, code=3)  # the first goes on, whatever the second waits for
        assert states(told) == {"one": "COMPLETED", "two": "BLOCKED_WAITING_INPUT"}
        [asked] = desk.json("inbox")["requests"]
        desk("answer", asked["request"]["request_id"], "--file", f"more.csv={desk.folder}/list.csv")
        assert states(desk.json("run", plan)) == {"one": "COMPLETED", "two": "COMPLETED"}
    assert len(desk.ran) == 2


def test_a_plan_that_waits_for_a_folder_has_brought_it_what_it_needs(desk: Desk) -> None:
    program = {"driver": "script", "argv": [sys.executable, "work.py"]}
    agents = {"worker": program, "outside": {"driver": "folder"}}
    plan = desk.plan(task("one"), task("by_hand", "outside", needs=["one"]), task("beside"), agents=agents)
    shown = desk("run", plan, code=3)
    assert "by_hand outside waits for an answer to its command in agents/outside/inbox/shop" in shown
    assert (desk.root / "agents" / "outside" / "inbox" / "shop" / "cmd_by_hand_001.msg.json").exists()
    assert "agents/outside/inbox/shop" in desk("explain", "shop/by_hand")
    assert desk.states() == {"one": "COMPLETED", "by_hand": "READY", "beside": "COMPLETED"}


@pytest.mark.rest
def test_a_cancelled_plan_has_failed(desk: Desk) -> None:
    plan = desk.plan(*SLOW)
    child = desk.start("run", plan)
    waited(lambda: len(desk.ran) == 2)
    assert desk.json("cancel", "shop", "--why", "too late")["cancelled"] == 2
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 1, out + err
    assert desk.alive() == []
    assert "too late" in desk("explain", "shop/last")
    assert desk.states() == {"first": "COMPLETED", "slow": "FAILED", "last": "FAILED"}


def test_what_cannot_be_steered_is_2(desk: Desk) -> None:
    desk("run", desk.plan(task("one")))
    for arguments, word in (
        (("pause", "nothing"), "nothing"),
        (("cancel", "nothing"), "nothing"),
        (("retry", "shop"), "PLAN/TASK"),
        (("retry", "shop/none"), "none"),
        (("retry", "shop/one"), "COMPLETED"),
        (("explain", "shop/none"), "none"),
        (("pause", "shop"), "ended"),
    ):
        assert word in desk.refused(*arguments)


# From a Python program.


def test_a_plan_built_in_code_runs_functions(tmp_path: Path) -> None:
    plan = agenttalk.Plan("greeting", name="A greeting")
    write = plan.task("write", agent="writer", prompt="Greet.", outputs=["hello.txt"])
    plan.task("read", agent="reader", prompt="Read.", inputs={"text": "hello.txt"}, needs=[write])

    @agenttalk.agent("writer")
    async def writer(turn: agenttalk.Turn) -> str:
        turn.outputs["hello.txt"] = "Hello."
        return "written"

    @agenttalk.agent("reader")
    def reader(turn: agenttalk.Turn) -> agenttalk.Result:
        return agenttalk.Result(turn.text("text").upper(), usage={"words": 1})

    outcome = asyncio.run(agenttalk.run(plan, root=tmp_path, agents=[writer, reader]))
    assert (outcome.done, outcome.result) == (True, "done")
    assert outcome.output("write", "hello.txt") == b"Hello."
    assert outcome.tasks["read"]["state"] == "COMPLETED"


def test_a_function_that_raises_fails_its_task(tmp_path: Path) -> None:
    plan = agenttalk.Plan("broken")
    plan.task("one", agent="a", prompt="Do it.")
    plan.task("two", agent="b", prompt="Do it.", needs=["one"])

    def broken(turn: agenttalk.Turn) -> None:
        raise ValueError(f"not {turn.task_id}")

    async def fine(_: agenttalk.Turn) -> str:
        return "ok"

    outcome = asyncio.run(agenttalk.run(plan, root=tmp_path, agents={"a": broken, "b": fine}))
    assert (outcome.done, outcome.result) == (False, "failed")
    assert outcome.tasks["one"]["reason"] == "ValueError: not one"
    assert outcome.tasks["two"]["state"] == "BLOCKED_WAITING_REVIEW"


def test_a_time_limit_of_the_agents_own_is_not_taken_for_ours(tmp_path: Path) -> None:
    plan = agenttalk.Plan("times")
    plan.task("own", agent="a", prompt="Do it.")
    plan.task("ours", agent="b", prompt="Do it.", timeout=1)

    async def impatient(_: agenttalk.Turn) -> None:
        raise TimeoutError("the service is slow")

    async def endless(_: agenttalk.Turn) -> None:
        await asyncio.Event().wait()

    outcome = asyncio.run(agenttalk.run(plan, root=tmp_path, agents={"a": impatient, "b": endless}))
    reasons = {name: each["reason"] for name, each in outcome.tasks.items()}
    assert reasons == {"own": "TimeoutError: the service is slow", "ours": "it was ended after 1 seconds"}


def test_the_same_plan_in_code_goes_on_where_it_was(tmp_path: Path) -> None:
    calls: list[str] = []

    def plan() -> agenttalk.Plan:
        made = agenttalk.Plan("twice")
        made.task("one", agent="a", prompt="Do it.")
        return made

    async def once(turn: agenttalk.Turn) -> str:
        calls.append(turn.task_id)
        return "ok"

    for _ in range(2):
        assert asyncio.run(agenttalk.run(plan(), root=tmp_path, agents={"a": once})).done
    assert calls == ["one"]
    other = plan()
    other.task("two", agent="a", prompt="Do it.")
    with pytest.raises(UsageError) as refused:
        asyncio.run(agenttalk.run(other, root=tmp_path, agents={"a": once}))
    assert refused.value.code is Code.PLAN_MISMATCH


def test_what_is_wrong_with_a_plan_in_code_is_all_told(tmp_path: Path) -> None:
    plan = agenttalk.Plan("wrong")
    plan.task("one", agent="a", prompt="Do it.", needs=["nothing"])
    plan.task("two", agent="b", prompt="Do it.", inputs={"text": "nowhere.md"})
    with pytest.raises(ContractError) as refused:
        asyncio.run(agenttalk.run(plan, root=tmp_path, agents={"a": print}))
    assert {each.field for each in refused.value.problems} >= {"tasks[0].needs[0]", "tasks[1].agent"}
    assert not (tmp_path / "data").exists()


def test_a_function_without_a_name_is_refused(tmp_path: Path) -> None:
    plan = agenttalk.Plan("nameless")
    plan.task("one", agent="a", prompt="Do it.")
    with pytest.raises(AgentTalkError, match="which agent"):
        asyncio.run(agenttalk.run(plan, root=tmp_path, agents=[print]))


def test_an_agent_that_nobody_offers_is_told(tmp_path: Path) -> None:
    plan = agenttalk.Plan("alone", more={"agents": {"a": {"driver": "python"}}})
    plan.task("one", agent="a", prompt="Do it.")
    outcome = asyncio.run(agenttalk.run(plan, root=tmp_path))
    assert "no function is registered" in outcome.tasks["one"]["reason"]


def test_status_shows_what_tasks_took_and_ends_lines_where_the_words_end(desk: Desk) -> None:
    desk("run", desk.plan(task("one"), task("two", needs=["one"])))
    lines = desk("status").splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert [line.split()[0] for line in lines if line.endswith((" s", "not isolated"))] == [
        "COMPLETED",
        "COMPLETED",
        "in",
    ]
    [plan] = desk.json("status")["plans"]
    assert plan["usage"]["duration_s"] == pytest.approx(sum(each["usage"]["duration_s"] for each in plan["tasks"]))


@pytest.mark.rest_but("False")
@pytest.mark.parametrize("beside", [False, True])
def test_a_plan_is_run_again_from_a_task_on(desk: Desk, beside: bool) -> None:
    plan = desk.plan(task("one"), task("two", needs=["one"]), task("three", needs=["two"]))
    assert desk.json("run", plan)["result"] == "done"
    with desk.serving() if beside else nullcontext():
        assert "only what failed" in desk.refused("retry", "shop/two")
        assert "runs again from two on: 2 tasks" in desk("retry", "shop/two", "--from")
        told = desk.json("run", plan)
    assert (told["result"], told["counts"]["completed"]) == ("done", 3)
    assert [each.split()[0] for each in desk.ran] == ["one", "two", "three", "two", "three"]
