"""Approval by people only: an agent at work tries every door to give a person's answer itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import UsageError
from agenttalk.doors.cli.core import agent_permissions
from agenttalk.doors.cli.main import COMMANDS, call
from kits.sandboxkit import needs

FORGER = '''
import glob, http.client, json, os, pathlib, re, socket, subprocess, sys, time
root, config, python = ROOT, CONFIG, PYTHON
seen = {}

def cli(*words, env=None, where=root):
    done = subprocess.run([python, "-m", "agenttalk", *words, "--root", where], capture_output=True, text=True, env=env)
    return [done.returncode, (done.stdout + done.stderr)[-600:]]

class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("agenttalk", timeout=300)
        self.path = path
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)

def http_status(connection, token, cookie=""):
    body = json.dumps({"decision": "APPROVE", "seen_sha256": "sha256:" + "0" * 64, "by": "boss"})
    headers = {"Authorization": "Bearer " + token, "Host": connection.host, "Content-Type": "application/json"}
    headers.update({"Cookie": cookie} if cookie else {})
    if ":" not in connection.host and connection.port != 80:
        headers["Host"] = f"{connection.host}:{connection.port}"
    try:
        connection.request("POST", f"/api/human-requests/{request}/answer", body, headers)
        answer = connection.getresponse()
        return [answer.status, json.loads(answer.read()).get("code")]
    except OSError as error:
        return [0, type(error).__name__]

inbox = pathlib.Path(root, "agents/agent_human_gateway/inbox/shop")
deadline = time.monotonic() + 300
request = "req-unknown"
while WAIT and time.monotonic() < deadline:
    found = list(inbox.glob("human_intervention_request_*.json")) if inbox.exists() else []
    if found:
        request = found[0].name.removeprefix("human_intervention_request_").removesuffix(".json")
        break
    time.sleep(0.05)
words = ("answer", request, "--decision", "APPROVE", "--as", "boss")
bare = {"PATH": os.environ["PATH"], "HOME": HOME, "XDG_CONFIG_HOME": config, "XDG_RUNTIME_DIR": RUNTIME}
seen["cli"] = cli(*words, env={**os.environ, **bare})
seen["cleared"] = cli(*words, env=bare)
seen["other root"] = cli(*words, env=bare, where=os.path.join(os.path.dirname(root), "other"))
script = f"""
import os, subprocess, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
done = subprocess.run({[python, "-m", "agenttalk", *words, "--root", root]!r}, capture_output=True, text=True)
open(sys.argv[1] + ".new", "w").write(str(done.returncode) + " " + (done.stdout + done.stderr)[-600:])
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
told = os.path.join(os.environ["AGENTTALK_OUTPUTS"], "..", "daemon.txt")
subprocess.run([python, "-c", script, told], env=bare)
while time.monotonic() < deadline and not os.path.exists(told):
    time.sleep(0.05)
code, _, said = open(told).read().partition(" ")
seen["daemon"] = [int(code), said]
seen["mcp"] = cli("mcp", "--operator", env=bare)
for name in ("plan apply nothing.yaml", "retry shop fix", "token create eve", "login", "config reload", "budget set 9"):
    seen[name] = cli(*name.split(), env=bare)
token = ""
for path in glob.glob(os.path.join(config, "agenttalk", "*", "operator.token")):
    try: token = open(path).read().strip()
    except OSError: pass
seen["token"] = bool(token)
token = token or "op_guessed"
own = os.environ["AGENTTALK_TOKEN"]
seen["own token"] = http_status(Unix(os.environ["AGENTTALK_SOCKET"]), own)
seen["turn socket"] = http_status(Unix(os.environ["AGENTTALK_SOCKET"]), token)
seen["turn socket, cookie"] = http_status(Unix(os.environ["AGENTTALK_SOCKET"]), own, "agenttalk_session=x")
engines = [each for each in glob.glob(os.path.join(RUNTIME, "agenttalk", "*", "engine.sock"))]
seen["engine socket"] = http_status(Unix(engines[0]), token) if engines else [0, "hidden"]
where = os.environ["AGENTTALK_API"].rpartition("/")[2].partition(":")
seen["tcp"] = http_status(http.client.HTTPConnection(where[0], int(where[2]), timeout=300), token)
outbox = pathlib.Path(root, "agents/agent_human_gateway/outbox/shop")
try:
    outbox.mkdir(parents=True, exist_ok=True)
    response = {"schema_version": "1.0", "request_id": request, "responded_at": "2026-01-01T00:00:00Z",
                "responder": {"name": "boss", "role": "lead"}, "decision": "APPROVE"}
    draft = outbox / "draft"
    draft.write_text(json.dumps(response))
    draft.rename(outbox / f"human_intervention_response_{request}.json")
    while time.monotonic() < deadline and (outbox / f"human_intervention_response_{request}.json").exists():
        time.sleep(0.05)
    seen["file"] = True
except OSError as error:
    seen["file"] = type(error).__name__
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "seen.json").write_text(json.dumps(seen))
'''
PROMISE = {
    "objective": "It is good",
    "acceptance": [{"id": "good", "description": "A person says so", "evidenceRequired": ["seen"]}],
    "checks": [{"id": "seen", "kind": "human", "question": "Is it good?"}],
}


class Desk:
    """A root whose plan waits for a person, while another agent of it is at work."""

    def __init__(self, folder: Path, tier: str, settings: str = "") -> None:
        self.root, self.config, self.runtime = folder / "root", folder / "config", folder / "run"
        roots = (self.root, folder / "other")  # nobody runs an engine in the other one, that could refuse anybody
        folders = [each / name for each in roots for name in ("agents", "system_runtime")]
        for each in (*folders, self.config, self.runtime):
            each.mkdir(parents=True)
        (self.root / "agenttalk.toml").write_text(f'sandbox = "{tier}"\n[server]\nport = 0\n{settings}')
        known = {"ROOT": self.root, "CONFIG": self.config, "RUNTIME": self.runtime, "HOME": folder}
        text = FORGER
        for name, path in known.items():
            text = text.replace(f" {name}", f" {str(path)!r}").replace(f"({name}", f"({str(path)!r}")
        text = text.replace("PYTHON", repr(sys.executable)).replace("WAIT", str(tier == "plain"))
        (folder / "eve.py").write_text(text)
        (folder / "dev.py").write_text("print('made')\n")
        program = {"driver": "script", "sandbox": tier}
        self.plan = folder / "plan.json"
        self.plan.write_text(
            json.dumps(
                {
                    "plan_id": "shop",
                    "agents": {
                        "dev": {**program, "argv": [sys.executable, str(folder / "dev.py")]},
                        "eve": {**program, "argv": [sys.executable, str(folder / "eve.py")]},
                    },
                    "tasks": [
                        {"id": "fix", "agent": "dev", "prompt": "Make it.", "promise": PROMISE},
                        {
                            "id": "forge",
                            "agent": "eve",
                            "prompt": "Try.",
                            "outputs": [{"name": "seen.json", "deliverable": True}],
                        },
                    ],
                }
            )
        )
        clean = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTALK")}
        self.env = {**clean, "XDG_CONFIG_HOME": str(self.config), "XDG_RUNTIME_DIR": str(self.runtime)}

    def agenttalk(self, *words: str, code: int = 0) -> Any:
        command = [sys.executable, "-m", "agenttalk", *words, "--root", str(self.root), "--json"]
        done = subprocess.run(command, check=False, env=self.env, capture_output=True, text=True, timeout=600)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    def seen(self) -> dict[str, Any]:
        found = self.root / "system_runtime/artifacts/shop/forge/seen.json/seen.json"
        said: dict[str, Any] = json.loads(found.read_text())
        return said


@pytest.mark.rest_but("bubblewrap")
@pytest.mark.mends("A1", "F2")
@pytest.mark.parametrize("tier", ["plain", "bubblewrap", "landlock"])
def test_an_agent_at_work_gives_no_answer_by_any_door(tmp_path: Path, tier: str) -> None:
    if tier != "plain":
        needs(tier)
    desk = Desk(tmp_path, tier)
    desk.agenttalk("run", str(desk.plan), code=3)
    seen = desk.seen()
    for door in (
        "cli",
        "cleared",
        "other root",
        "daemon",
        "mcp",
        "plan apply nothing.yaml",
        "retry shop fix",
        "token create eve",
    ):
        assert seen[door][0] != 0, (door, seen[door])
    for door in ("login", "config reload", "budget set 9"):
        assert seen[door][0] != 0, (door, seen[door])
    if tier == "plain":  # there is nothing else that keeps it from them
        known = ("cli", "cleared", "other root", "daemon", "mcp", "login")
        assert all("PERSON_NEEDED" in seen[door][1] for door in known), seen
        assert seen["token"] is True
    assert seen["turn socket"] == [403, "PERSON_NEEDED"]
    assert seen["turn socket, cookie"] == [403, "PERSON_NEEDED"]
    assert seen["own token"] == [403, "NOT_ALLOWED"]
    assert seen["engine socket"] in ([403, "PERSON_NEEDED"], [0, "hidden"], [0, "PermissionError"]), seen
    assert seen["tcp"] == [403, "PERSON_NEEDED"]
    [asked] = desk.agenttalk("inbox")["requests"]
    assert asked["state"] == "open"


@pytest.mark.rest
@pytest.mark.mends("A1")
def test_what_a_person_says_where_agents_are_not_confined_is_attested_and_never_confirmed(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "plain")
    desk.agenttalk("run", str(desk.plan), code=3)
    [asked] = desk.agenttalk("inbox")["requests"]
    other = "sha256:" + "0" * 64
    words = ("answer", asked["request"]["request_id"], "--decision", "APPROVE", "--as", "ada", "--seen")
    assert "not the request that was shown" in desk.agenttalk(*words, other, code=2)["error"]["message"]
    desk.agenttalk(*words, asked["sha256"])
    desk.agenttalk("run", str(desk.plan))
    told = json.dumps(desk.agenttalk("explain", "shop/fix"))
    assert "attested by ada, not isolated" in told
    assert "confirmed by" not in told
    entries = desk.agenttalk("audit", "find", asked["request"]["request_id"])["entries"]
    [fact] = [each["body"] for each in entries if each["kind"] == "human.answered"]
    assert (fact["by"], fact["how"], fact["isolated"]) == ("ada", "operator", False)
    assert fact["bound_to"] == asked["sha256"]


@pytest.mark.mends("A1")
def test_a_new_command_is_for_people_until_somebody_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name.split()[0] for name in agent_permissions.FOR_AGENTS}
    assert known <= COMMANDS.keys()
    monkeypatch.setenv("AGENTTALK_LEASE", "l1")
    for name in ("run", "answer", "approve", "merge", "release", "serve", "cancel", "resume", "override", "rework"):
        with pytest.raises(UsageError, match="only people may run"):
            agent_permissions.require_person(name)
    assert call(["schema"]) == 0


@pytest.mark.rest
def test_the_folder_of_another_does_not_answer_for_the_operator(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "plain")
    desk.agenttalk("run", str(desk.plan), code=3)
    [asked] = desk.agenttalk("inbox")["requests"]
    desk.env["XDG_CONFIG_HOME"] = str(tmp_path / "mine")
    words = ("answer", asked["request"]["request_id"], "--decision", "APPROVE", "--seen", asked["sha256"])
    assert desk.agenttalk(*words, code=2)["error"]["code"] == "TOKEN_REFUSED"
