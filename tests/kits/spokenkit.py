"""An agent that speaks the Agent Client Protocol, as a program of a test: it says what the test has it say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agenttalk.ports.statements.core import FACTS_OF
from kits.plankit import Engine, plan, play, task

SPEAKS = """import json, os, pathlib, subprocess, sys, time
session, prompt, prompt_id, opened, asked = "ses-1", "", None, "", 0
def tell(**said):
    print(json.dumps({"jsonrpc": "2.0", **said}), flush=True)
def heard():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
def update(_, /, **more):
    tell(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": _, **more}})
def text(words):
    update("agent_message_chunk", content={"type": "text", "text": words})
def tool(number, kind, title, **more):
    update("tool_call", toolCallId=number, title=title, kind=kind, **more)
ONCE = ({"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"})
def may(kind, title, options=ONCE, **more):
    global asked
    asked += 1
    call = {"toolCallId": f"ask{asked}", "kind": kind, "title": title, **more}
    params = {"sessionId": session, "toolCall": call, "options": list(options)}
    tell(id=f"q{asked}", method="session/request_permission", params=params)
    while True:
        said = heard()
        if said.get("id") == f"q{asked}":
            return said["result"]["outcome"].get("optionId", "cancelled") if "result" in said else "error"
def end(reason="end_turn", **more):
    tell(id=prompt_id, result={"stopReason": reason, **more})
def rest():
    while True:
        heard()
def begin(load=False, version=1):
    global prompt, prompt_id, opened, hello, opening
    hello = heard()
    assert hello["method"] == "initialize"
    tell(id=hello["id"], result={"protocolVersion": version, "agentCapabilities": {"loadSession": load}})
    opening = heard()
    opened = opening["method"]
    where = opening["params"]["cwd"]
    assert pathlib.Path(where) == pathlib.Path.cwd()
    if opened == "session/load":
        text("what was said before")
    tell(id=opening["id"], result={"sessionId": session} if opened == "session/new" else None)
    asks = heard()
    assert asks["method"] == "session/prompt"
    prompt, prompt_id = asks["params"]["prompt"][0]["text"], asks["id"]
"""
"""What its behaviour can use."""


def speaks(folder: Path, behaviour: str, *, acp: dict[str, Any] | None = None, **profile: Any) -> dict[str, Any]:
    """The profile of an agent that behaves like this once it was greeted."""
    path = folder / "speaks.py"
    path.write_text(f"{SPEAKS}{behaviour}\n")
    use = {"agent": "custom", "program": sys.executable, "argv": [str(path)], **(acp or {})}
    return {"driver": "acp", "acp": use, "sandbox": "plain", **profile}


def run(folder: Path, behaviour: str, *, profile: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """What became of the only task of a plan, whose agent behaves like this."""
    agents = {"dev": speaks(folder, behaviour, **(profile or {}))}
    compiled = plan(task("t", "dev", **{"max_reexecute_times": 0, "retry_times": 0, **keys}), agents=agents)

    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(compiled)
        found = await engine.ended()
        store = await engine.deps.stores.board("default")
        rows = await store.read(FACTS_OF, subject="deliveries/p", after=0, limit=100)
        [fact] = [json.loads(bytes(body)) for _, _, kind, body in rows if kind == "turn.ended"]
        return found.tasks[0] | {"fact": fact}

    found: dict[str, Any] = play(folder / "root", use)
    return found


def events(folder: Path) -> list[dict[str, Any]]:
    """What was written down while the agent ran."""
    [path] = (folder / "root").glob("agents/dev/workspace/p/t/.agenttalk/*.events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def told(folder: Path) -> list[tuple[str, str]]:
    """The same, in short."""
    return [(each["kind"], each.get("text", "")) for each in events(folder)]
