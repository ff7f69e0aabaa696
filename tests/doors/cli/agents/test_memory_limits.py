"""A program whose processes take too much memory together, by the command line: what the task says, and what goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import preloaded

PROGRAM = """
import os, pathlib, time
def begun():
    with open(pathlib.Path(__file__).with_name("pids"), "a") as pids: pids.write(f"{os.getpid()} ")
if os.environ["AGENTTALK_TASK_ID"] == "eats":
    begun()
    for _ in range(8):
        if not os.fork():
            begun()
            data = b"x" * (40 << 20)
            break
    time.sleep(600)
print("ok")
"""


def lives(pid: str, program: str) -> bool:
    try:
        return program in Path("/proc", pid, "cmdline").read_text()
    except OSError:
        return False


def test_the_tree_is_dead_the_task_and_explain_say_why_and_the_next_task_runs(tmp_path: Path) -> None:
    (tmp_path / "eats.py").write_text(PROGRAM)
    argv = [sys.executable, "-I", "-S", str(tmp_path / "eats.py")]
    dev = {"driver": "script", "argv": argv, "limits": {"total_memory_mib": 200}}
    task = {"agent": "dev", "prompt": "Do it.", "timeout": 60, "max_reexecute_times": 0, "retry_times": 0}
    tasks = [{"id": "eats", "priority": "HIGH", **task}, {"id": "next", **task}]
    (tmp_path / "plan.json").write_text(json.dumps({"plan_id": "p", "agents": {"dev": dev}, "tasks": tasks}))

    def agenttalk(*arguments: str) -> str:
        command = [preloaded.program(), *arguments, "--root", str(tmp_path / "root")]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path).stdout

    found = {each["task_id"]: each for each in json.loads(agenttalk("run", "plan.json", "--json"))["tasks"]}
    why = "ended because its processes took more than 200 MiB of memory together"
    assert (found["eats"]["state"], found["next"]["state"]) == ("FAILED", "COMPLETED")
    assert why in found["eats"]["reason"]
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) > 5  # five of them have not taken 200 MiB
    assert not [pid for pid in pids if lives(pid, "eats.py")]
    assert why in " ".join(agenttalk("explain", "p/eats").split())
