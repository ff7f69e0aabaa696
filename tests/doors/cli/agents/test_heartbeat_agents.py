"""`agenttalk heartbeat` with a coding agent, on a tree that was made by hand: no engine runs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.main import call
from kits.sandboxkit import PLAIN_VARIABLE
from kits.treekit import Tree, node, output

SPEAKS = """import json, os, pathlib, subprocess, sys
prompt = sys.stdin.read()
going_on = "--resume" in sys.argv
def tell(**said):
    print(json.dumps(said), flush=True)
def end(words, **more):
    told = {"usage": {"input_tokens": 100}, "total_cost_usd": 0.5, "permission_denials": []}
    tell(**{"type": "result", "subtype": "success", "is_error": False, "result": words, **told, **more})
tell(type="system", subtype="init", session_id="ses-1", model="m1")
"""
ASKS = """if not going_on:
    told = json.load(open(os.environ["AGENTTALK_MCP_CONFIG"]))["mcpServers"]["agenttalk"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "mine", "version": "1"}}
    report = {"name": "submit_report", "arguments": {"body": "I looked."}}
    with subprocess.Popen([told["command"], *told["args"]], stdin=-1, stdout=-1, text=True) as server:
        for number, (method, params) in enumerate((("initialize", hello), ("tools/call", report))):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            print(json.dumps(message), file=server.stdin, flush=True)
            server.stdout.readline()
    end("All is written.")
else:
    pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "made.txt").write_text(prompt)
    end("Now it is.")
"""


def facts(root: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What the ledger says of this kind."""
    capsys.readouterr()
    assert call(["audit", "export", "--root", str(root)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [each["body"] for each in found if each.get("kind") == kind]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with a plan of one task, whose command lies in an outbox."""
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_")) and name != PLAIN_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    tree = Tree(tmp_path / "root")
    tree.dag([node("build", "dev", outputs=[output("made.txt", deliverable=True)])])
    tree.agent("lead")
    asked = [{"output_name": "made.txt", "files": []}]
    tree.command("lead", "build", produces=asked)
    return tree.root


def worked(root: Path, behaviour: str, **profile: Any) -> dict[str, Any]:
    """The receipt of the command, after its agent behaved like this."""
    path = root.parent / "speaks.py"
    path.write_text(SPEAKS + behaviour)
    resume = [str(path), "--resume", "{session}"]
    cli = {"agent": "custom", "program": sys.executable, "argv": [str(path)], "resume": resume, "codec": "claude"}
    Tree(root).agent("dev", driver="cli", cli=cli, sandbox="plain", **profile)
    for part in (["route"], ["heartbeat", "--agent", "dev"], ["route"]):
        call([*part, "--once", "--root", str(root)])
    acks = Tree(root).documents("plans/plan_shop/acks")
    found: dict[str, Any] = next(each for each in acks if each["status"] != "CONSUMED")
    return found


def test_a_coding_agent_works_a_tree_that_somebody_made_by_hand(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ack = worked(root, ASKS, mcp=True)
    assert ack["status"] == "SUCCEEDED"
    made = root / "system_runtime/artifacts/plan_shop/build/made.txt/made.txt"
    assert "declared but missing: made.txt" in made.read_text()
    [ended] = facts(root, "turn.ended", capsys)
    usage = ended["usage"]
    assert (usage["tokens"], usage["cost_usd"], usage["session"], usage["turns"]) == (200, 1.0, "ses-1", 2)
    assert usage["events"]["count"] == 6
    assert (root / usage["events"]["file"]).exists()
    [said] = facts(root, "task.comment", capsys)
    assert said["author"] == "dev"


@pytest.mark.rest
@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("end('Done.', permission_denials=[{'tool_name': 'Bash', 'tool_use_id': 'x'}])", "AGENT_DENIED: not permitted"),
        ("end('No credit.', is_error=True)", "COMMAND_FAILED: the agent failed: No credit."),
        ("sys.exit(3)", "COMMAND_FAILED: exit code 3"),
        ("end('All is written.')", "OUTPUT_MISSING: declared but missing: made.txt; the agent says that it is"),
    ],
)
def test_what_it_merely_says_counts_there_as_little_as_anywhere(root: Path, behaviour: str, words: str) -> None:
    ack = worked(root, behaviour)
    assert ack["status"] == "FAILED"
    assert words in ack["result"]["details"]
