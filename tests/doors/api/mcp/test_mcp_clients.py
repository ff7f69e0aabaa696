"""MCP with real clients, over real processes and sockets: an operator, an agent elsewhere, and an attempt in its turn."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from agenttalk.adapters.store import operator_folder
from agenttalk.doors.cli.main import call
from doors.api.enginekit import clean, engine, until
from doors.api.mcp.mcpkit import code, lines

PLAN = """
plan_id: shop
agents:
  near: {driver: script, argv: [sh, -c, 'echo "opens at nine" > "$AGENTTALK_OUTPUTS/facts.txt"']}
  far: {driver: remote, prompt: You write notes.}
tasks:
  - {id: facts, agent: near, prompt: Say when., outputs: [{name: facts.txt}]}
  - {id: note, agent: far, prompt: Write it., needs: [facts], inputs: [{name: facts, from: facts.txt}],
     outputs: [{name: note.txt, deliverable: true}]}
"""
ONE_EACH = httpx2.Limits(max_keepalive_connections=0)
"""A connection for each request: one that is kept may just be closed by the server when it is used again."""
SPEAKS_MCP = """
import json, os, subprocess, sys
server = subprocess.Popen([sys.executable, "-m", "agenttalk", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(number, method, params):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"]
hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "turn", "version": "1"}}
said = [ask(1, "initialize", hello)["protocolVersion"]]
said.append(ask(2, "tools/call", {"name": "whoami", "arguments": {}})["structuredContent"]["task_id"])
open(os.path.join(os.environ["AGENTTALK_OUTPUTS"], "app.txt"), "w").write("x")
promise = ask(3, "tools/call", {"name": "check_promise", "arguments": {}})["structuredContent"]
said.append(promise["missing"])
said.append(ask(4, "tools/call", {"name": "get_task", "arguments": {"task": "turn/other"}})["isError"])
said.append(ask(5, "tools/call", {"name": "submit_report", "arguments": {"body": "built"}})["isError"])
server.stdin.close()
said.append(server.wait())
print(json.dumps({"result": said}))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "agents").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def token(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The token of the agent far."""
    assert call(["token", "create", "far", "--root", str(root), "--show", "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["token"])


@asynccontextmanager
async def over(how: Literal["stdio", "http"], root: Path, address: str, token: str, mode: str) -> AsyncIterator[Client]:
    if how == "stdio":
        arguments = ["-m", "agenttalk", "mcp", "--root", str(root), "--agent", "far"]
        parameters = StdioServerParameters(command=sys.executable, args=arguments, env=clean())
        async with Client(stdio_client(parameters), mode=mode) as client:
            yield client
        return
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60, limits=ONE_EACH) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def done(client: Client, tool: str, /, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


@pytest.mark.rest_but("http")
@pytest.mark.shows("C01")
@pytest.mark.parametrize(("how", "mode"), [("stdio", "auto"), ("http", "legacy")])
def test_an_agent_elsewhere_does_a_task_from_its_offer_to_its_proof(
    root: Path, token: str, how: Literal["stdio", "http"], mode: str
) -> None:
    async def play(address: str) -> None:
        async with over(how, root, address, token, mode) as client:
            names = {each.name for each in (await client.list_tools()).tools}
            assert {"claim", "submit_artifact"} <= names
            assert "submit_plan" not in names
            taken = (await done(client, "claim", wait_seconds=40))["taken"]
            assert (taken["task"], taken["outputs"], "token" in taken) == ("shop/note", ["note.txt"], False)
            about = {"task": taken["task"], "epoch": taken["epoch"]}
            assert (await done(client, "heartbeat", **about, progress="reading"))["stopped"] is None
            [given] = taken["inputs"]
            text = (await done(client, "get_input", **about, name=given["name"], path=given["path"]))["text"]
            assert text == "opens at nine\n"
            assert (await done(client, "check_promise", **about))["missing"] == ["output:note.txt"]
            fields = {"plan_id": "shop", "task_id": "note", "prompt": "Write it again."}
            made = await done(client, "generate_command", **about, params=fields)
            assert (made["ok"], made["command"]["plan_id"]) == (True, "shop")
            assert (await done(client, "validate_command", **about, command=made["command"]))["ok"]
            asked = await done(client, "ask_human", **about, question="Which tone?")
            assert (await done(client, "get_answer", **about, question_id=asked["question_id"]))["state"] == "open"
            await done(client, "submit_report", **about, body="I wrote it.")
            await done(client, "submit_artifact", **about, output="note.txt", text="We open at nine.")
            late = await client.call_tool("submit_artifact", {**about, "epoch": 99, "output": "note.txt", "text": "x"})
            assert late.is_error
            uris = {str(each.uri) for each in (await client.list_resources()).resources}
            assert uris == {"agenttalk://tasks/shop/note", "agenttalk://tasks/shop/note/promise"}
            shown = json.loads((await client.read_resource("agenttalk://tasks/shop/note")).contents[0].text)  # type: ignore[union-attr]
            assert shown["comments"][0]["body"] == "I wrote it."
            assert (await done(client, "check_promise", **about))["missing"] == []
            await done(client, "submit_result", **about, result="done")

    with engine(root, quick=True) as running, lines(root, "--operator") as server:
        assert not server.call("submit_plan", plan=PLAN)["isError"]
        asyncio.run(play(running.told["http"]))
        until(lambda: server.call("status", plan="shop")["structuredContent"]["result"] == "done", "it is done")
        assert server.call("explain", task="shop/note")["structuredContent"]["state"] == "COMPLETED"


@pytest.mark.parametrize("version", ["2024-11-05"])
def test_old_versions_of_the_protocol_are_spoken(root: Path, version: str) -> None:
    """No engine runs: whoever starts first sees the tools all the same, and is told what is the matter."""
    operator_folder.ensure_token(root)
    with lines(root, "--operator", version=version) as server:
        assert "submit_plan" in {each["name"] for each in server.ask("tools/list")["result"]["tools"]}
        assert code(server.call("status")) == "ENGINE_UNREACHABLE"
        assert server.ask("ping")["result"] == {}
        assert (
            "command"
            in server.ask("resources/read", uri="agenttalk://schemas/command")["result"]["contents"][0]["text"]
        )


@pytest.mark.rest
def test_a_program_speaks_mcp_in_its_turn_with_its_own_token(root: Path) -> None:
    program = root.parent / "work.py"
    program.write_text(SPEAKS_MCP, encoding="utf-8")
    plan = {
        "plan_id": "turn",
        "agents": {"dev": {"driver": "script", "argv": [sys.executable, str(program)]}, "far": {"driver": "remote"}},
        "tasks": [
            {"id": "build", "agent": "dev", "prompt": "x", "outputs": [{"name": "app.txt", "deliverable": True}]},
            {"id": "other", "agent": "far", "prompt": "y"},
        ],
    }
    with engine(root, quick=True), lines(root, "--operator") as server:
        assert not server.call("submit_plan", plan=json.dumps(plan))["isError"]

        def built() -> Any:
            found = server.call("explain", task="turn/build")["structuredContent"]
            return found if found["state"] in {"COMPLETED", "FAILED"} else None

        found = until(built, "it is built")
        assert found["attempts"][0]["result"] == ["2025-06-18", "build", [], True, False, 0]
        report = server.call("get_task", task="turn/build")["structuredContent"]["comments"]
        assert [(each["author"], each["body"]) for each in report] == [("dev", "built")]


def test_without_anybody_to_speak_for_it_does_not_start(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--agent", "far"], ["--operator"], ["--agent", "far", "--operator"]):
        assert call(["mcp", "--root", str(root), *options]) == 2
        said = capsys.readouterr()
        assert ("✗" in said.err, said.out) == (True, "")


@pytest.mark.mends("C5")
@pytest.mark.usefixtures("token")
@pytest.mark.rest
def test_an_agent_elsewhere_that_is_busy_elsewhere_is_not_lost_while_its_server_lives(root: Path) -> None:
    silence = 6
    (root / "agenttalk.toml").write_text(f"[limits]\nremote_silence_seconds = {silence}\n")
    with engine(root, quick=True), lines(root, "--operator") as server:
        assert not server.call("submit_plan", plan=PLAN)["isError"]
        with lines(root, "--agent", "far") as far:
            taken = far.call("claim", wait_seconds=40)["structuredContent"]["taken"]
            began = time.monotonic()
            until(lambda: time.monotonic() - began > silence + 2, "it is silent for longer than it may be")
            about = {"task": taken["task"], "epoch": taken["epoch"]}
            assert not far.call("submit_artifact", **about, output="note.txt", text="We open at nine.")["isError"]
            assert not far.call("submit_result", **about, result="done")["isError"]
        until(lambda: server.call("status", plan="shop")["structuredContent"]["result"] == "done", "it is done")
        assert len(server.call("explain", task="shop/note")["structuredContent"]["attempts"]) == 1


@pytest.mark.mends("C5")
@pytest.mark.usefixtures("token")
def test_an_agent_elsewhere_whose_server_is_gone_is_lost(root: Path) -> None:
    (root / "agenttalk.toml").write_text("[limits]\nremote_silence_seconds = 1\n")
    with engine(root, quick=True), lines(root, "--operator") as server:
        assert not server.call("submit_plan", plan=PLAN)["isError"]
        with lines(root, "--agent", "far") as far:
            assert far.call("claim", wait_seconds=40)["structuredContent"]["taken"]["task"] == "shop/note"
        until(lambda: server.call("explain", task="shop/note")["structuredContent"]["attempts"], "it is lost")
