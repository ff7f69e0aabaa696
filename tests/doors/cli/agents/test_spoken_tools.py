"""An agent that is spoken with is given our MCP server: it starts what it is told of, and that speaks for it alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import preloaded
from agenttalk.rules.agents.cli_table import MCP_VARIABLES
from agenttalk.rules.text import prompt_words
from kits import spokenkit
from kits.sandboxkit import needs
from kits.spokenkit import speaks

CALLS = [
    ("mine", "my_tasks", {}),
    ("report", "submit_report", {"body": "I looked."}),
    ("note", "get_input", {"name": "note.txt", "path": "note.txt"}),
    ("other", "get_task", {"task": "p/first"}),
    ("into other", "submit_artifact", {"task": "p/first", "output": "note.txt", "text": "forged"}),
    ("report on other", "submit_report", {"task": "p/first", "body": "forged"}),
    ("operator", "submit_plan", {"plan": {}}),
]
ASKS = f"""begin()
[told] = opening["params"]["mcpServers"]
env = {{each["name"]: each["value"] for each in told["env"]}}
command = [told["command"], *told["args"]]
server = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(number, method, **params):
    print(json.dumps({{"jsonrpc": "2.0", "id": number, "method": method, "params": params}}), file=server.stdin, flush=True)
    return json.loads(server.stdout.readline())["result"]
greeting = {{"protocolVersion": "2025-06-18", "capabilities": {{}}, "clientInfo": {{"name": "mine", "version": "1"}}}}
ask(0, "initialize", **greeting)
print(json.dumps({{"jsonrpc": "2.0", "method": "notifications/initialized"}}), file=server.stdin, flush=True)
learned = {{"given": [told["name"], sorted(env)], "prompt": prompt}}
learned["same"] = env["AGENTTALK_TOKEN"] == os.environ["AGENTTALK_TOKEN"]
for number, (name, tool, arguments) in enumerate({CALLS!r}, 1):
    title = f"mcp__agenttalk__{{tool}}"
    assert may("other", title, rawInput=arguments) == "yes", tool
    learned[name] = ask(number, "tools/call", name=tool, arguments=arguments)["structuredContent"]
ask(99, "tools/call", name="submit_artifact", arguments={{"output": "heard.json", "text": json.dumps(learned)}})
server.stdin.close()
server.wait()
text("I was given " + json.dumps(told))
end()
rest()"""


def run(folder: Path, behaviour: str, **profile: Any) -> dict[str, Any]:
    """Run a plan whose second task is done by an agent that is spoken with; how that stands."""
    write = "import os; open(os.environ['AGENTTALK_OUTPUTS'] + '/note.txt', 'w').write('nine'); print('ok')"
    document = {
        "plan_id": "p",
        "agents": {
            "pm": {"driver": "script", "argv": [sys.executable, "-c", write]},
            "dev": speaks(folder, behaviour, **{"mcp": True, **profile}),
        },
        "tasks": [
            {"id": "first", "agent": "pm", "prompt": "swordfish", "outputs": [{"name": "note.txt"}]},
            {
                "id": "t",
                "agent": "dev",
                "prompt": "Ask.",
                "max_reexecute_times": 0,
                "outputs": [{"name": "heard.json", "deliverable": True}],
                "inputs": [{"name": "note.txt", "from": "note.txt"}],
            },
        ],
    }
    (folder / "plan.json").write_text(json.dumps(document))
    command = [preloaded.program(), "run", "plan.json", "--json", "--root", str(folder / "root")]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AGENTTALK")}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert '"tasks"' in done.stdout, done.stdout + done.stderr
    found: dict[str, Any] = next(each for each in json.loads(done.stdout)["tasks"] if each["task_id"] == "t")
    return found


@pytest.mark.rest_but("bubblewrap")
@pytest.mark.parametrize(
    ("tier", "profile"),
    [
        ("bubblewrap", {"network": "off"}),
        ("landlock", {"network": "off"}),
        ("plain", {"acp": {"allow": ["read"]}}),
    ],
)
def test_it_starts_our_server_in_every_sandbox_without_the_network_and_reaches_no_other_task(
    tmp_path: Path, tier: str, profile: dict[str, Any]
) -> None:
    if tier != "plain":
        needs(tier)
    task = run(tmp_path, ASKS, sandbox=tier, **profile)
    assert task["state"] == "COMPLETED", (task["reason"], spokenkit.told(tmp_path))
    [path] = (tmp_path / "root").glob("agents/dev/workspace/p/t/.agenttalk/*/outputs/heard.json")
    said = json.loads(path.read_text())
    assert said["given"] == ["agenttalk", sorted(MCP_VARIABLES)]
    assert said["same"]
    assert prompt_words.TOOLS.en in said["prompt"]
    assert [each["task_id"] for each in said["mine"]["taken"]] == ["t"]
    assert (said["report"]["author"], said["report"]["task"]) == ("dev", "p/t")
    assert said["note"]["text"] == "nine"
    refused = {name: each["error"]["code"] for name, each in said.items() if isinstance(each, dict) and "error" in each}
    assert refused == dict.fromkeys(("other", "into other", "report on other", "operator"), "NOT_ALLOWED")
    assert "swordfish" not in str(said)
    told = spokenkit.told(tmp_path)
    [words] = [each for kind, each in told if kind == "text"]
    assert words.startswith("I was given")
    assert ".[redacted AGENTTALK_TOKEN]" in words
    assert not re.search(r"agt_[\w-]+\.[\w-]", str(told))
