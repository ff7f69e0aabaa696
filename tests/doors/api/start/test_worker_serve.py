"""`agenttalk worker` and an engine as processes: over HTTP, in a repository, through `kill -9` of each."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest

from agenttalk.adapters.engine_link import HttpEngineLink
from agenttalk.adapters.signatures import WorkerKey
from agenttalk.adapters.store.root import list_databases
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.worker import PROTOCOL, Enrolment, SyncRequest, WorkerFacts
from agenttalk.doors.cli.core import engine_client
from agenttalk.rules.planfile.compiler import compile_plan
from agenttalk.wiring.machine import SystemClock
from doors.api.enginekit import clean, engine, read_object, until
from kits.provekit import git, repository

PLAN = """
plan_id: shop
workspace: {{repo: {repo}{prepare}}}
agents:
  far:
    driver: script
    argv: ["{python}", -c, "{text}"]
    pool: agents
tasks:
  - id: hours
    agent: far
    prompt: We open at eight.
    workspace: repo
    promise:
      objective: It says eight.
      acceptance: [{{id: a, description: It says eight., evidenceRequired: [says]}}]
      checks: [{{id: says, kind: run, run: grep -q eight hours}}]
"""
WRITES = "open('hours', 'w').write('eight'); print('wrote it')"


def submit(root: Path, repo: Path, text: str = WRITES, prepare: str = "") -> Any:
    prepare = f', prepare: "{prepare}"' if prepare else ""
    plan = PLAN.format(repo=repo, python=sys.executable, text=text, prepare=prepare)
    compiled = compile_plan(reader.read_plan_file(plan.encode(), yaml=True))
    assert compiled.problems == ()
    client = engine_client.connect_to_running_engine(root)
    assert client is not None
    profiles = {name: each.as_json() for name, each in compiled.profiles.items()}
    body = {"dag": compiled.dag.as_json(), "manifest": compiled.manifest.as_json(), "profiles": profiles}
    until(lambda: client.get("/readyz")["ok"], "it is ready")
    assert client.post("/api/plans", body)["new"]
    return client


def invited(client: Any) -> str:
    token = "inv_token_that_is_long_enough_for_one"
    client.post("/api/workers/invitations", {"pool": "agents", "token": token})
    return token


@contextmanager
def worker(folder: Path, server: str, token: str = "") -> Iterator[subprocess.Popen[str]]:
    options = ["--server", server, "--folder", str(folder), "--name", "one", "--json"]
    options += ["--enrol", token] if token else []
    with (folder.parent / "worker.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agenttalk", "worker", *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=clean(),
        )
    try:
        assert read_object(process)["pool"] == "agents"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=300)


def ended(client: Any) -> Any:
    shown = client.get("/api/plans/shop")
    return shown if shown["state"] == "ENDED" else None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "agents").mkdir(parents=True)
    return tmp_path / "root"


def test_a_worker_works_on_the_plans_repository_over_http(root: Path, tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"hours": "nine\n"})
    with engine(root, quick=True) as running:
        client = submit(root, repo)
        with worker(tmp_path / "w", running.told["http"], invited(client)) as process:
            shown = until(lambda: ended(client), "the plan ends")
            assert shown["result"] == "done"
            until(lambda: client.get("/api/workers")["workers"][0]["attempts"] == [], "the worker has nothing any more")
            process.send_signal(signal.SIGTERM)
            assert process.wait(300) == 0
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"
    assert json.loads((tmp_path / "w" / "worker.json").read_text())["enrolled"]["pool"] == "agents"
    assert (tmp_path / "w" / "worker.key").stat().st_mode & 0o077 == 0


@pytest.mark.rest
def test_the_work_is_done_once_through_the_death_of_the_worker_and_of_the_engine(root: Path, tmp_path: Path) -> None:
    repo, runs, go = repository(tmp_path / "repo", {"hours": "nine\n"}), tmp_path / "runs", tmp_path / "go"
    text = (
        f"import os, time; open('{runs}', 'a').write('x'); "
        f"[time.sleep(0.02) for _ in iter(lambda: os.path.exists('{go}'), True)]; {WRITES}"
    )
    with engine(root) as first:
        client = submit(root, repo, text)
        server = first.told["http"]
        with worker(tmp_path / "w", server, invited(client)) as process:
            until(lambda: runs.exists() and runs.read_text() == "x", "the agent runs")
            process.send_signal(signal.SIGKILL)
            process.wait(300)
        with worker(tmp_path / "w", server):
            until(lambda: runs.read_text() == "xx", "it runs again, under a new epoch")
            assert first.ended(signal.SIGKILL) != 0
            port = server.rpartition(":")[2]
            (root / "agenttalk.toml").write_text(f"[server]\nport = {port}\n")
            go.touch()
            with engine(root, "--port", port):
                again = engine_client.connect_to_running_engine(root)
                assert again is not None
                shown = until(lambda: ended(again), "the plan ends")
                assert (shown["result"], runs.read_text()) == ("done", "xx")
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"
    assert not any(str(go).encode() in (path / "cmdline").read_bytes() for path in _own_processes())


@pytest.mark.rest
def test_a_worker_that_stood_still_for_too_long_does_not_hand_in_what_it_had(root: Path, tmp_path: Path) -> None:
    (root / "agenttalk.toml").write_text("[limits]\nworker_ttl_seconds = 6\n")
    repo, runs, go = repository(tmp_path / "repo", {"hours": "nine\n"}), tmp_path / "runs", tmp_path / "go"
    text = (
        f"import os, time; open('{runs}', 'a').write('x'); "
        f"[time.sleep(0.02) for _ in iter(lambda: os.path.exists('{go}'), True)]; {WRITES}"
    )
    with engine(root, quick=True) as running:
        client = submit(root, repo, text)
        with worker(tmp_path / "w", running.told["http"], invited(client)) as process:
            until(runs.exists, "the agent runs")
            process.send_signal(signal.SIGSTOP)
            until(lambda: client.get("/api/plans/shop")["tasks"][0]["retries"] >= 1, "the engine gives it up")
            go.touch()
            process.send_signal(signal.SIGCONT)
            shown = until(lambda: ended(client), "the plan ends")
            assert shown["result"] == "done"
            # An attempt whose worker is too slow to accept it is lost before its agent runs.
            assert 2 <= len(runs.read_text()) <= shown["tasks"][0]["attempt"]
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"


@pytest.mark.rest
def test_the_next_attempt_begins_with_the_last_snapshot_of_one_that_was_lost(root: Path, tmp_path: Path) -> None:
    (root / "agenttalk.toml").write_text("[limits]\nworker_snapshot_seconds = 1\n")
    repo = repository(tmp_path / "repo", {"hours": "nine\n"})
    prompts, go = tmp_path / "prompts", tmp_path / "go"
    text = (
        f"import os, sys, time; open('{prompts}', 'a').write(sys.stdin.read()); half = os.path.exists('half'); "
        f"open('half', 'w').write('done'); "
        f"[time.sleep(0.02) for _ in iter(lambda: half or os.path.exists('{go}'), True)]; "
        f"open('hours', 'w').write('eight' if half else 'from the start'); print('wrote it')"
    )
    with engine(root) as running:
        client = submit(root, repo, text)
        server = running.told["http"]
        with worker(tmp_path / "w", server, invited(client)) as process:
            until(lambda: "snapshot" in handed_in(root), "a snapshot is there")
            process.send_signal(signal.SIGKILL)
            process.wait(300)
        with worker(tmp_path / "w", server):
            shown = until(lambda: ended(client), "the plan ends")
    assert shown["result"] == "done"
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"
    assert git(repo, "show", "agenttalk/shop:half") == "done"
    assert prompts.read_text().count("what it did is kept, and the next turn goes on from there") == 1


ASKS = """
import http.client, json, os, socket, subprocess, sys, time

class Over(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["AGENTTALK_SOCKET"])

def ask(method, path, body=None):
    connection = Over("agenttalk")
    headers = {"Authorization": "Bearer " + os.environ["AGENTTALK_TOKEN"], "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())

me = ask("GET", "/api/me")[1]
assert (me["role"], me["plan_id"], me["task_id"]) == ("agent", "shop", "hours"), me
own = "/api/projects/%(board)s/tasks/%(plan_id)s:%(task_id)s" % me
refused = [ask("GET", path)[0] for path in ("/api/plans", "/api/workers", own.replace("shop:hours", "shop:other"))]
assert set(refused) == {403}, refused
assert ask("PUT", own + "/log", {})[0] >= 400
assert ask("GET", own + "/promise")[0] == 200
assert ask("POST", own + "/comments", {"author": "far", "comment_type": "general", "body": "I ask."})[0] == 201
tools = subprocess.Popen([sys.executable, "-m", "agenttalk", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def call(number, method, **params):
    said = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
    tools.stdin.write(json.dumps(said).encode() + b"\\n")
    tools.stdin.flush()
    return json.loads(tools.stdout.readline())["result"] if number else None
call(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"})
call(0, "notifications/initialized")
names = {each["name"] for each in call(2, "tools/list")["tools"]}
said = call(3, "tools/call", name="get_task", arguments={})
assert not said.get("isError") and "shop" in json.dumps(said), (names, said)
tools.kill()
status, question = ask("POST", own + "/questions", {"question": "When do we open?"})
assert status == 201, question
while ask("GET", own + "/questions/" + question["question_id"])[1]["state"] == "open":
    time.sleep(0.02)
open("hours", "w").write(ask("GET", own + "/questions/" + question["question_id"])[1]["notes"])
print("wrote it")
"""


@pytest.mark.rest
def test_an_agent_on_a_worker_asks_a_person_through_the_socket_of_its_turn(root: Path, tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"hours": "nine\n", "ask.py": ASKS})
    with engine(root, quick=True) as running:
        client = submit(root, repo, "exec(open('ask.py').read())")
        with worker(tmp_path / "w", running.told["http"], invited(client)):
            [asked] = until(lambda: client.get("/api/human-requests")["requests"], "a person is asked")
            said = {"decision": "PROVIDE", "notes": "eight", "seen_sha256": asked["sha256"]}
            client.post(f"/api/human-requests/{asked['request']['request_id']}/answer", said)
            shown = until(lambda: ended(client), "the plan ends")
            comments = client.get("/api/projects/default/tasks/shop:hours")["comments"]
    assert shown["result"] == "done"
    assert [each["body"] for each in comments] == ["I ask."]
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"


@pytest.mark.rest
def test_a_worker_prepares_a_checkout_as_the_engine_does(root: Path, tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"hours": "nine\n", ".gitignore": "deps/\n"})
    text = "open('hours', 'w').write(open('deps/said').read()); print('wrote it')"
    with engine(root, quick=True) as running:
        client = submit(root, repo, text, prepare="mkdir deps && echo eight > deps/said")
        with worker(tmp_path / "w", running.told["http"], invited(client)):
            shown = until(lambda: ended(client), "the plan ends")
    assert shown["result"] == "done"
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"


@pytest.mark.rest
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_worker_whose_clock_is_wrong_is_known_all_the_same(root: Path, tmp_path: Path, hours: int) -> None:
    key = WorkerKey.load(tmp_path / "key")
    facts = WorkerFacts(version="1", machine="m", system="Linux", cores=1)

    async def play(server: str, token: str) -> list[int]:
        async with httpx2.AsyncClient() as http:
            link = HttpEngineLink(http, server, key.sign, lambda: SystemClock().now() + timedelta(hours=hours))
            enrolment = Enrolment(protocol=PROTOCOL, name="one", public_key=key.public, facts=facts)
            own = await link.enrol(token, enrolment)
            assert (await link.enrol(token, enrolment)).worker == own.worker
            link.identify(own.worker)
            answers = [await link.sync(SyncRequest(protocol=PROTOCOL, slots=1)) for _ in range(2)]
            return [answer.protocol for answer in answers]

    with engine(root, quick=True) as running:
        client = engine_client.connect_to_running_engine(root)
        assert client is not None
        until(lambda: client.get("/readyz")["ok"], "it is ready")
        assert asyncio.run(play(running.told["http"], invited(client))) == [PROTOCOL, PROTOCOL]
        assert client.get("/api/workers")["workers"][0]["liveness"] == "online"


def handed_in(root: Path) -> set[str]:
    """The kinds of what workers handed in so far."""
    [path] = (path for name, path in list_databases(root).items() if name == "default")
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {str(kind) for (kind,) in connection.execute("SELECT kind FROM elsewhere")}
    finally:
        connection.close()


def _own_processes() -> Iterator[Path]:
    """Processes of this user that can still be read."""
    for path in Path("/proc").iterdir():
        if path.name.isdecimal() and int(path.name) != os.getpid():
            try:
                (path / "cmdline").read_bytes()
            except OSError:
                continue
            yield path
