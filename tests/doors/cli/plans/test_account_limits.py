"""A limit of a provider at the command line: the wait is shown, survives a `kill -9`, and ends by itself."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import preloaded
from doors.api.enginekit import until

PLAYS = """import json, pathlib, sys, time
sys.stdin.read()
runs = pathlib.Path(__file__).with_suffix(".runs")
first = not runs.exists()
runs.open("a").write("x")
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s1"}))
result = {"type": "result", "subtype": "success", "is_error": first, "result": "Done.", "usage": {}}
if first:
    info = {"status": "rejected", "resetsAt": int(time.time()) + 4, "rateLimitType": "five_hour"}
    print(json.dumps({"type": "rate_limit_event", "rate_limit_info": info}))
    result |= {"api_error_status": 429, "api_error": "usage_limit_reached", "result": "You've hit your limit"}
print(json.dumps(result))
sys.exit(first)
"""
PATIENCE = 300.0


class Home:
    """A root and a plan with two tasks of one account."""

    def __init__(self, folder: Path) -> None:
        self.root, self.program = folder / "root", folder / "plays.py"
        self.program.write_text(PLAYS)
        self.root.mkdir()
        settings = "".join(f'[agents.{name}]\nsandbox = "plain"\n' for name in ("one",))
        (self.root / "agenttalk.toml").write_text(settings)
        cli = {"agent": "claude", "program": sys.executable, "argv": [str(self.program)]}
        agents = {"one": {"driver": "cli", "cli": cli}}
        tasks = [
            {"id": "a", "agent": "one", "prompt": "Do it."},
            {"id": "b", "agent": "one", "prompt": "Do it."},
            {"id": "c", "agent": "one", "prompt": "Do it."},
        ]
        self.plan = folder / "plan.json"
        self.plan.write_text(json.dumps({"plan_id": "shop", "agents": agents, "tasks": tasks}))

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [preloaded.program(), *words, "--root", str(self.root)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC")}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def ask(self, *words: str) -> str:
        process = self.start(*words)
        said, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        return said

    def waiting(self) -> int:
        """How many tasks wait for the account."""
        path = self.root / "data/projects/default/blackboard.db"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            try:
                [(count,)] = connection.execute("SELECT count(*) FROM tasks WHERE cause = 'ACCOUNT_LIMIT'").fetchall()
            except sqlite3.OperationalError:  # its tables are not there yet
                return 0
        return int(count)


def test_a_wait_is_shown_and_survives_a_kill(tmp_path: Path) -> None:
    home = Home(tmp_path)
    running = home.start("run", str(home.plan))
    until(lambda: home.waiting() == 3, "all tasks wait for the account")
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=PATIENCE)
    shown = " ".join(home.ask("status", "shop").split())
    assert "claude: usage limit of the account until 20" in shown
    assert "(You've hit your limit); 3 tasks wait" in shown
    told: dict[str, Any] = json.loads(home.ask("status", "shop", "--json"))
    [plan] = told["plans"]
    assert [(each["agent"], each["tasks"]) for each in plan["waits"]] == [("claude", 3)]
    explained = json.loads(home.ask("explain", "shop/a", "--json"))
    assert explained["waits_for_account"]["reason"] == "You've hit your limit"
    assert explained["attempts"][0]["how"] == "limited"
    ended = json.loads(home.ask("run", str(home.plan), "--json"))
    assert {each["state"] for each in ended["tasks"]} == {"COMPLETED"}
    assert (ended["waits"], [each["retries"] for each in ended["tasks"]]) == ([], [0, 0, 0])
    assert len(home.program.with_suffix(".runs").read_text()) == 4
