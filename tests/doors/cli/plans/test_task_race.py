"""A task of a plan that several agents race for: the first proven work is merged, and the others are ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import preloaded
from kits.provekit import git, repository

RIGHT = "def price(n):\n    return 40 * n\n"
SUITE = "import unittest\nfrom price import price\n\n\nclass Prices(unittest.TestCase):\n"
SUITE += "    def test_two(self):\n        self.assertEqual(price(2), 80)\n"
FIXES = f"pathlib.Path('price.py').write_text({RIGHT!r})"
LIES = "pathlib.Path('note').write_text(str(time.time_ns()))"
PATIENCE = 300.0


@dataclass(frozen=True)
class Shop:
    """A repository whose test fails, and a plan whose task several agents race for."""

    folder: Path

    def plan(self, agents: dict[str, str], race: list[str] | None = None, **task: Any) -> None:
        """Write the plan. The first agent is the task's own; a text is what its program does."""
        profiles = {}
        for name, text in agents.items():
            path = self.folder / f"{name}.py"
            path.write_text(f"import os, pathlib, sys, time\nhere = pathlib.Path({str(self.folder)!r})\n{text}\n")
            profiles[name] = {"driver": "script", "argv": [sys.executable, str(path)]}
        first, *others = agents
        promise: dict[str, Any] = {
            "objective": "The price is right",
            "acceptance": [{"id": "tests", "description": "the tests pass", "evidenceRequired": ["tests"]}],
            "checks": [{"id": "tests", "kind": "run", "run": f"{sys.executable} -m unittest -q", "red_first": "off"}],
        }
        fix: dict[str, Any] = {
            "id": "fix",
            "agent": first,
            "race": others if race is None else race,
            "prompt": "Fix the price.",
        }
        fix |= {"workspace": "repo", "max_reexecute_times": 0, "promise": promise, **task}
        fix = {key: value for key, value in fix.items() if value is not None}
        after = {"id": "after", "agent": "after", "prompt": "Say so.", "needs": ["fix"]}
        profiles["after"] = {"driver": "script", "argv": ["echo", "done"]}
        plan = {"plan_id": "shop", "workspace": {"repo": "./shop"}, "agents": profiles, "tasks": [fix, after]}
        (self.folder / "plan.json").write_text(json.dumps(plan))

    @property
    def command(self) -> list[str]:
        return [preloaded.program(), "run", "plan.json", "--root", "root", "--json", "--sandbox", "plain"]

    @property
    def variables(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"}

    def run(self, *, code: int) -> dict[str, Any]:
        """Run the plan; how its tasks stand."""
        ended = subprocess.run(
            self.command, cwd=self.folder, env=self.variables, capture_output=True, timeout=PATIENCE, check=False
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        told = json.loads(ended.stdout)
        return {task["task_id"]: task for task in told["tasks"]} if "tasks" in told else told

    def merged(self) -> str:
        return git(self.folder / "shop", "log", "--format=%an", "main..agenttalk/shop")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    repository(tmp_path / "shop", {"price.py": "def price(n):\n    return 0\n", "test_price.py": SUITE})
    return Shop(tmp_path)


def at_work(shop: Shop) -> list[str]:
    """Processes whose working directory is in a clone."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(shop.folder / "root"):
                found.append(process.name)
    return found


def test_the_first_proven_work_is_merged_and_the_others_are_ended(shop: Shop) -> None:
    waits = "(here / 'at-slow').touch()\nwhile True: time.sleep(0.05)"
    quick = f"while not (here / 'at-slow').exists(): time.sleep(0.01)\n{FIXES}"
    shop.plan({"slow": waits, "quick": quick})
    tasks = shop.run(code=0)
    assert {name: task["state"] for name, task in tasks.items()} == {
        "fix": "SKIPPED",
        "fix.quick": "COMPLETED",
        "after": "COMPLETED",
    }
    assert tasks["fix"]["reason"] == "fix.quick was proven first"
    assert tasks["fix"]["usage"]["duration_s"] > 0
    assert shop.merged() == "quick"
    assert not at_work(shop)
    again = shop.run(code=0)
    assert again["fix.quick"]["state"] == "COMPLETED"


def test_who_lies_is_out_and_the_race_goes_on(shop: Shop) -> None:
    shop.plan(
        {
            "liar": f"{LIES}\n(here / 'lied').touch()",
            "honest": f"while not (here / 'go').exists(): time.sleep(0.01)\n{FIXES}",
        }
    )
    with subprocess.Popen(shop.command, cwd=shop.folder, env=shop.variables, stdout=subprocess.PIPE) as running:
        until_state(shop, "fix", "SKIPPED")
        (shop.folder / "go").touch()
        told = json.loads(running.communicate(timeout=PATIENCE)[0])
    tasks = {task["task_id"]: task for task in told["tasks"]}
    assert running.returncode == 0
    assert tasks["fix"]["reason"].startswith("out of the race, and others go on: ")
    assert tasks["fix.honest"]["state"] == "COMPLETED"
    assert shop.merged() == "honest"


def until_state(shop: Shop, task: str, state: str) -> None:
    """Wait until a task of the running plan is in a state."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended = subprocess.run(
            [preloaded.program(), "explain", f"shop/{task}", "--root", "root", "--json"],
            cwd=shop.folder,
            env=shop.variables,
            capture_output=True,
            check=False,
        )
        if ended.returncode == 0 and json.loads(ended.stdout)["state"] == state:
            return
        time.sleep(0.05)
    raise AssertionError(f"{task} never was {state}")


def test_a_race_that_nobody_wins_fails_once(shop: Shop) -> None:
    shop.plan({"one": LIES, "two": LIES})
    tasks = shop.run(code=1)
    assert sorted([tasks["fix"]["state"], tasks["fix.two"]["state"]]) == ["FAILED", "SKIPPED"]
    assert tasks["after"]["state"] == "BLOCKED_WAITING_REVIEW"
    assert git(shop.folder / "shop", "log", "--format=%s", "agenttalk/shop") == "begin"


def test_two_that_are_proven_at_once_have_one_winner(shop: Shop) -> None:
    meet = "(here / {!r}).touch()\nwhile len(list(here.glob('at-*'))) < 3: time.sleep(0.005)\n"
    agents = {name: meet.format(f"at-{name}") + FIXES for name in ("one", "two", "three")}
    shop.plan(agents)
    tasks = shop.run(code=0)
    states = [task["state"] for name, task in tasks.items() if name != "after"]
    assert sorted(states) == ["COMPLETED", "SKIPPED", "SKIPPED"]
    assert len(shop.merged().split()) == 1


@pytest.mark.rest
def test_a_race_goes_on_after_a_kill(shop: Shop) -> None:
    waits = "(here / f'at-{os.getpid()}').touch()\nwhile not (here / 'go').exists(): time.sleep(0.01)\n"
    shop.plan({"one": f"{waits}time.sleep(600)", "two": f"{waits}{FIXES}"})
    with subprocess.Popen(shop.command, cwd=shop.folder, env=shop.variables, stdout=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + PATIENCE
        while len(list(shop.folder.glob("at-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    (shop.folder / "go").touch()
    tasks = shop.run(code=0)
    assert (tasks["fix"]["state"], tasks["fix.two"]["state"]) == ("SKIPPED", "COMPLETED")
    assert not at_work(shop)


@pytest.mark.parametrize(
    ("race", "task", "why"),
    [
        (["gone"], {}, "there is no agent 'gone'"),
        (["one"], {}, "is named twice"),
        (["two"], {"workspace": None}, "works on no repository"),
        (["two"], {"promise": None}, "has no check"),
        (["two"], {"outputs": [{"name": "a.txt", "deliverable": True}]}, "makes outputs"),
        (["two"], {"gates": {"thresholds": {"fix_min_score": 3}}, "score_required": True}, "has gates"),
    ],
)
def test_what_cannot_be_raced_for_is_refused(shop: Shop, race: list[str], task: dict[str, Any], why: str) -> None:
    shop.plan({"one": FIXES, "two": FIXES}, race, **task)
    told = shop.run(code=2)
    assert [why in each["message"] for each in told["errors"] if each["field"] == "tasks[0].race"] == [True]
