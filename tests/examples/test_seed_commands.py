"""Every example command of the specification is made, sent, and carried out by an agent that waits for its inputs."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.main import call
from kits.seedkit import EXAMPLES, PROMPTS_ONLY
from kits.treekit import Tree, node, output

WORKS = """
import json, os, pathlib, sys
inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
command = json.loads(pathlib.Path(os.environ["AGENTTALK_COMMAND"]).read_text(encoding="utf-8"))
files = sorted(path.name for path in inputs.rglob("*") if path.is_file())
pathlib.Path(__file__).with_name("seen.json").write_text(
    json.dumps({"prompt": sys.stdin.read(), "files": files, "command": command}), encoding="utf-8"
)
said = {"result": "done"}
if command["score_required"]:
    said |= {"score": 85, "score_explanation": "most of it is fine"}
print(json.dumps(said))
"""
COMPLETED = [
    *(example for example, _ in EXAMPLES),
    *({"plan_id": "plan_a3f5b2c8", "task_id": f"task_00{at}", **example} for at, example in enumerate(PROMPTS_ONLY)),
]
"""The examples; where one gives only a prompt, a plan and a task are added."""


def told(*arguments: str, code: int = 0) -> Any:
    """What a command says to programs."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        ended = call([*arguments, "--json"])
    printed = out.buffer.getvalue().decode()
    assert ended == code, printed
    return json.loads(printed)


def files_for(patterns: list[str]) -> list[str]:
    """Files that fill inputs; a glob gets two of them, because it takes all."""
    return [pattern.replace("*", each) for pattern in patterns for each in (("a", "b") if "*" in pattern else ("",))]


def laid_out(folder: Path, example: dict[str, Any], files: list[str]) -> Tree:
    """A tree in which an agent is to do the task of the example, and another makes its inputs."""
    tree = Tree(folder / "root", plan_id=example["plan_id"])
    task_id = example.get("task_id") or example["original_task_id"]
    worker = example.get("original_agent", "worker")
    supplied = [output(name, worker) for name in files]
    tree.dag([node("supply", "supplier", outputs=supplied), node(task_id, worker, depends_on=["supply"])])
    tree.agent("lead")
    program = tree.agent(worker, driver="script", argv=[sys.executable, "work.py"]) / "work.py"
    program.write_text(WORKS, encoding="utf-8")
    return tree


@pytest.mark.rest_but("0", "5")
@pytest.mark.shows("X15", "X02", "X03", "X07", "X08")
@pytest.mark.parametrize("example", COMPLETED, ids=range(len(COMPLETED)))
def test_the_example_is_carried_out_once_its_inputs_are_there(tmp_path: Path, example: dict[str, Any]) -> None:
    wanted = example.get("required_inputs", [])
    files = files_for(wanted)
    tree = laid_out(tmp_path, example, files)
    root, worker = ["--root", str(tree.root)], example.get("original_agent", "worker")
    fields = tmp_path / "fields.json"
    fields.write_text(json.dumps(example), encoding="utf-8")

    made = told("command", "generate", "--params", str(fields), *root)["command"]
    fields.write_text(json.dumps(made), encoding="utf-8")
    told("command", "validate", str(fields), *root)
    outbox = str(tree.box("lead", "outbox"))
    told("command", "envelope", str(fields), "--from", "lead", "--out", outbox, *root)
    assert told("route", "--once", *root)["delivered"] == 1

    beat = told("heartbeat", "--agent", worker, "--once", *root)
    if files:
        assert (beat["waiting"], beat["ran"]) == (1, 0)
        assert told("explain", f"{example['plan_id']}/{made['task_id']}", *root)["state"] == "BLOCKED_WAITING_INPUT"
        for name in files:
            tree.artifact("supplier", "supply", name, {name: name.encode()})
        assert told("route", "--once", *root)["delivered"] == len(files)
        beat = told("heartbeat", "--agent", worker, "--once", *root)
    assert (beat["waiting"], beat["ran"]) == (0, 1)
    told("route", "--once", *root)

    seen = json.loads((tree.root / "agents" / worker / "seen.json").read_text(encoding="utf-8"))
    assert seen["files"] == sorted(files)
    assert example["prompt"] in seen["prompt"]
    assert seen["command"] == made
    acks = tree.documents(f"plans/{example['plan_id']}/acks")
    [ack] = [each for each in acks if each.get("command_id") == made["command_id"]]
    assert ack["status"] == "SUCCEEDED"
    ledger = tmp_path / "ledger.jsonl"
    told("audit", "export", "--out", str(ledger), *root)
    facts = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    [ended] = [each["body"] for each in facts if each["kind"] == "turn.ended"]
    assert (ended["result"], ended.get("score")) == ("done", 85 if example["score_required"] else None)
    assert told("fsck", *root)["faults"] == []
    said = told("explain", f"{example['plan_id']}/{made['task_id']}", *root)
    assert said["state"] == "COMPLETED"
    assert told("heartbeat", "--agent", worker, "--once", *root)["ran"] == 0
