"""A coding agent that is given our MCP server: it finds it by what it is told, and the server speaks for it alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import apsw
import pytest

import agenttalk
from agenttalk.doors.cli.main import call
from agenttalk.doors.cli.operation import doctor
from agenttalk.rules.text import prompt_words
from kits.sandboxkit import needs

CLIENT = """import json, os, subprocess, sys
told = json.load(open(os.environ["AGENTTALK_MCP_CONFIG"]))["mcpServers"]["agenttalk"]
server = subprocess.Popen([told["command"], *told["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
number = 0
def ask(method, **params):
    global number
    number += 1
    print(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}), file=server.stdin, flush=True)
    return json.loads(server.stdout.readline())["result"]
hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "mine", "version": "1"}}
ask("initialize", **hello)
print(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}), file=server.stdin, flush=True)
calls = json.loads(sys.argv[1])
heard = {"prompt": sys.stdin.read()}
for name, tool, arguments in calls:
    said = ask("tools/call", name=tool, arguments=arguments)
    heard[name] = said["structuredContent"]
heard["listed"] = ask("tools/list")["tools"]
heard["tools"] = [each["name"] for each in heard["listed"]]
ask("tools/call", name="submit_artifact", arguments={"output": "heard.json", "text": json.dumps(heard)})
server.stdin.close()
server.wait()
print("I asked.")
"""
TOOLS = {
    *("check_promise", "submit_artifact", "submit_report", "generate_command"),
    *("ask_human", "get_answer", "dispute_check"),
}
CALLS = [
    ("mine", "my_tasks", {}),
    ("command", "generate_command", {"params": {"plan_id": "p", "task_id": "t", "prompt": "Again."}}),
    ("report", "submit_report", {"body": "I looked."}),
    ("question", "ask_human", {"question": "Is it right?"}),
    ("promise", "check_promise", {}),
    ("note", "get_input", {"name": "note.txt", "path": "note.txt"}),
    ("no note", "get_input", {"name": "note.txt", "path": "../../command.json"}),
    ("other", "get_task", {"task": "p/first"}),
    ("into other", "submit_artifact", {"task": "p/first", "output": "note.txt", "text": "forged"}),
    ("undeclared", "submit_artifact", {"output": "more.txt", "text": "x"}),
    ("outside", "submit_artifact", {"output": "heard.json", "path": "../result.json", "text": "x"}),
    ("both", "submit_artifact", {"output": "heard.json", "text": "x", "content": "eA=="}),
    ("broken", "submit_artifact", {"output": "heard.json", "content": "not base64!"}),
    ("folder", "submit_artifact", {"output": "folder", "path": "a/b.txt", "content": "Yg=="}),
    ("praise", "submit_artifact", {"output": "praise.md", "text": "Well heard."}),
    ("result", "submit_result", {"result": "I asked everything.", "score": 80, "score_explanation": "fine"}),
]


def installed(folder: Path) -> str:
    """An interpreter of its own with a copy of our package, both below a folder; the other packages stay where they are."""
    venv.create(folder / "venv", symlinks=True)
    ours = Path(agenttalk.__file__).parent
    shutil.copytree(ours, folder / "copy" / ours.name)
    [site] = (folder / "venv").glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site / "ours.pth").write_text("\n".join([str(folder / "copy"), *others]))
    return str(folder / "venv/bin/python")


def run(folder: Path, ours: str = sys.executable, **profile: Any) -> dict[str, Any]:
    """Run a plan whose second task is done by a program that asks our server; how that stands."""
    (folder / "mine.py").write_text(CLIENT)
    cli = {"agent": "custom", "program": sys.executable, "argv": [str(folder / "mine.py"), json.dumps(CALLS)]}
    outputs: list[dict[str, Any]] = [{"name": name, "deliverable": True} for name in ("heard.json", "folder")]
    outputs.append({"name": "praise.md", "deliverable": True, "when": "score >= 70"})
    scored = {"score_required": True, "score_criteria": "how much was heard"}
    write = "import os; open(os.environ['AGENTTALK_OUTPUTS'] + '/note.txt', 'w').write('nine'); print('ok')"
    document = {
        "plan_id": "p",
        "agents": {
            "pm": {"driver": "script", "argv": [sys.executable, "-c", write]},
            "dev": {"driver": "cli", "cli": cli, "mcp": True, **profile},
        },
        "tasks": [
            {"id": "first", "agent": "pm", "prompt": "swordfish", "outputs": [{"name": "note.txt"}]},
            {
                "id": "t",
                "agent": "dev",
                "prompt": "Ask.",
                "outputs": outputs,
                "max_reexecute_times": 0,
                "inputs": [{"name": "note.txt", "from": "note.txt"}],
                **scored,
            },
        ],
    }
    (folder / "plan.json").write_text(json.dumps(document))
    command = [ours, "-P", "-m", "agenttalk", "run", "plan.json", "--json", "--root", str(folder / "root")]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AGENTTALK")}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=600, check=False)
    tasks = json.loads(done.stdout)["tasks"]
    return {**next(each for each in tasks if each["task_id"] == "t"), "said": done.stdout + done.stderr}


def heard(folder: Path) -> dict[str, Any]:
    """What the server answered."""
    [path] = (folder / "root").glob("agents/dev/workspace/p/t/.agenttalk/*/outputs/heard.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.rest
@pytest.mark.mends("B2", "C5")
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_an_agent_uses_our_tools_in_every_sandbox_and_without_the_network(tmp_path: Path, tier: str) -> None:
    needs(tier)
    task = run(tmp_path, sandbox=tier, network="off")
    assert (task["state"], task["score"]) == ("COMPLETED", 80), task
    said = heard(tmp_path)
    assert [each["task_id"] for each in said["mine"]["taken"]] == ["t"]
    assert said["command"]["command"]["command_id"] == "cmd_t_002"
    assert (said["report"]["author"], said["report"]["task"]) == ("dev", "p/t")
    assert said["question"]["state"] == "open", said["question"]
    assert "heard.json" in str(said["promise"])
    assert said["note"]["text"] == "nine"
    refused = {name: each["error"]["code"] for name, each in said.items() if isinstance(each, dict) and "error" in each}
    assert refused == {
        "no note": "PATH_OUTSIDE_FOLDER",
        "other": "NOT_ALLOWED",
        "into other": "NOT_ALLOWED",
        "undeclared": "NAME_UNKNOWN",
        "outside": "PATH_OUTSIDE_FOLDER",
        "both": "FIELD_VALUE",
        "broken": "FIELD_VALUE",
    }
    assert prompt_words.TOOLS.en in said["prompt"]
    assert "swordfish" not in str(said)
    assert set(said["tools"]) == TOOLS
    assert len(json.dumps(said["listed"])) < 5_000, "they are paid for in every request"
    [file] = (tmp_path / "root").glob("agents/dev/workspace/p/t/.agenttalk/*/outputs/folder/a/b.txt")
    assert file.read_text() == "b"
    assert '"praise.md": if score >= 70' in said["prompt"]
    assert (tmp_path / "root/system_runtime/artifacts/p/t/praise.md/praise.md").read_text() == "Well heard."


@pytest.mark.rest
@pytest.mark.mends("C12")
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_an_agent_uses_our_tools_where_we_are_installed_below_a_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: str
) -> None:
    needs(tier)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # which every sandbox hides
    task = run(tmp_path, installed(tmp_path), sandbox=tier)
    assert (task["state"], task["score"]) == ("COMPLETED", 80), task
    assert set(heard(tmp_path)["tools"]) == TOOLS


def refused(folder: Path, capsys: pytest.CaptureFixture[str], **profile: Any) -> str:
    """Why an agent that is to have our server is not started."""
    task = {"id": "t", "agent": "dev", "prompt": "Ask.", "max_reexecute_times": 0}
    dev = {"driver": "cli", "sandbox": "plain", "mcp": True, **profile}
    (folder / "plan.json").write_text(json.dumps({"plan_id": "p", "agents": {"dev": dev}, "tasks": [task]}))
    assert call(["run", str(folder / "plan.json"), "--json", "--root", str(folder / "root")]) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["tasks"][0]
    assert found["state"] == "FAILED"
    return str(found["reason"])


def test_an_agent_that_is_led_elsewhere_by_its_variables_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENCODE_CONFIG", "/elsewhere")
    cli = {"agent": "opencode", "program": sys.executable, "argv": ["-c", "print('hello')"]}
    why = refused(tmp_path, capsys, cli=cli, env=["OPENCODE_CONFIG"])
    assert "OPENCODE_CONFIG tells it of our MCP server" in why


def test_without_the_extra_such_an_agent_is_not_started_and_doctor_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)  # as if it were not installed
    cli = {"agent": "custom", "program": sys.executable, "argv": ["-c", "print('hello')"]}
    assert "pip install 'agenttalk[mcp]'" in refused(tmp_path, capsys, cli=cli)
    (tmp_path / "root/agenttalk.toml").write_text("[agents.dev]\nmcp = true\n")
    found = doctor._mcp_server(doctor._machine(tmp_path / "root"))
    assert (found.ok, found.needed, found.detail) == (False, True, "the package mcp is not installed")
    monkeypatch.delitem(sys.modules, "mcp")
    assert doctor._mcp_server(doctor.Machine()).ok


FIXES = (
    CLIENT.partition("calls = ")[0]
    + """
def missing():
    return ask("tools/call", name="check_promise", arguments={})["structuredContent"]["missing"]
before = missing()
open("price.txt", "w").write("40")
after = missing()
server.stdin.close()
server.wait()
print(json.dumps({"result": [before, after]}))
"""
)


@pytest.mark.mends("C5")
def test_check_promise_says_what_is_missing_before_the_fix_and_nothing_after_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FIXES)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/README.md").write_text("A shop.")
    check = {"id": "priced", "kind": "run", "run": "grep 40 price.txt"}
    promise = {
        "objective": "It has a price",
        "acceptance": [{"id": "priced", "description": "The price is 40", "evidenceRequired": ["priced"]}],
        "checks": [check],
    }
    cli = {"agent": "custom", "program": sys.executable, "argv": [str(tmp_path / "mine.py")]}
    plan = {
        "plan_id": "p",
        "workspace": {"repo": "./shop"},
        "agents": {"dev": {"driver": "cli", "cli": cli, "mcp": True, "sandbox": "best"}},
        "tasks": [{"id": "t", "agent": "dev", "prompt": "Price it.", "workspace": "repo", "promise": promise}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert call(["run", str(tmp_path / "plan.json"), "--root", str(tmp_path / "root")]) == 0
    [path] = (tmp_path / "root/data/projects").glob("*/blackboard.db")
    [(body,)] = apsw.Connection(str(path)).execute("select body from ledger where kind = 'turn.ended'")
    before, after = json.loads(body)["result"]
    assert "'grep 40 price.txt' ended with" in before[0]
    assert after == []
