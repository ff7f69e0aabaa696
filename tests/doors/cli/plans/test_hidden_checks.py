"""Hidden checks, from `agenttalk run` to what people see: their agent learns that they failed, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import preloaded
from kits.provekit import repository

MARK = "kx7qhidden"
FILE = "more_checks.py"
TESTS = f"""import unittest
from price import price


class Hidden(unittest.TestCase):
    def test_{MARK}(self):
        self.assertEqual(price(3), 30, "{MARK}-printed")
"""
AGENT = f"""
import json, os, pathlib, sys
mark = "{MARK[:4]}" + "{MARK[4:]}"
attempt = int(os.environ["AGENTTALK_COMMAND_ID"][-3:])
found = [f"env {{name}}" for name, value in os.environ.items() if mark in name + value]
own = pathlib.Path(os.environ["AGENTTALK_COMMAND"]).parent
files = [path for top in (pathlib.Path.cwd(), own) for path in top.rglob("*") if path.is_file()]
files += [path for path in pathlib.Path(__file__).parent.glob("*") if path.is_file()]
files += [pathlib.Path("/proc/self/cmdline"), pathlib.Path("/proc/1/cmdline")]
for path in files:
    try:
        found += [str(path)] if mark in path.read_bytes().decode(errors="replace") else []
    except OSError:
        pass
found += ["prompt"] if mark in sys.stdin.read() + json.dumps(sys.argv) else []
seen = pathlib.Path("seen.txt")
old = seen.read_text() if seen.exists() else ""
seen.write_text(old + f"attempt {{attempt}}: {{found}}, of many: {{len(files) > 5}}\\n")
pathlib.Path("price.py").write_text("def price(n):\\n    return " + ("20\\n" if attempt == 1 else "10 * n\\n"))
print("done")
"""


class Shop:
    """A plan beside the repository that it works on, with a visible and a hidden check."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = {"price.py": "def price(n):\n    return 0\n"}
        self.secret: dict[str, Any] = {}
        """The hidden check, where it is not a suite of tests."""

    def plan(self, **agent: Any) -> None:
        repository(self.folder / "shop", self.files)
        (self.folder / "dev.py").write_text(AGENT)
        if not self.secret:
            (self.folder / FILE).write_text(TESTS)
        visible = {
            "id": "visible",
            "kind": "run",
            "run": f'{sys.executable} -c "import price; assert price.price(2) == 20"',
        }
        secret = {
            "id": "secret",
            "kind": "run",
            "run": f"NAME={MARK} {sys.executable} -m unittest -q more_checks",
            "files": [FILE],
            "hidden": True,
        }
        criteria = [{"id": each, "description": each, "evidenceRequired": [each]} for each in ("visible", "secret")]
        promise = {
            "objective": "The price is right",
            "acceptance": criteria,
            "checks": [visible, self.secret or secret],
        }
        task = {"id": "fix", "agent": "dev", "prompt": "Fix it.", "workspace": "repo", "promise": promise}
        driver = {"driver": "script", "argv": [sys.executable, "dev.py"], "sandbox": "bubblewrap", **agent}
        plan = {"plan_id": "shop", "workspace": {"repo": "./shop"}, "agents": {"dev": driver}, "tasks": [task]}
        (self.folder / "plan.json").write_text(json.dumps(plan))

    def call(self, *args: str, code: int = 0) -> str:
        """Call the command line."""
        command = [preloaded.program(), *args, "--root", str(self.folder / "root")]
        done = subprocess.run(command, cwd=self.folder, check=False, capture_output=True, text=True, timeout=600)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_an_agent_learns_only_that_a_hidden_check_failed_and_people_see_everything(shop: Shop) -> None:
    shop.plan()
    shop.call("run", "plan.json")
    show = ["git", "-C", str(shop.folder / "shop"), "show", "agenttalk/shop:seen.txt"]
    seen = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    assert seen.splitlines() == ["attempt 1: [], of many: True", "attempt 2: [], of many: True"]
    prompts = [path for path in (shop.folder / "root" / "agents").rglob("*") if path.is_file()]
    assert not [path for path in prompts if MARK.encode() in path.read_bytes()]
    told = shop.call("explain", "shop/fix", "--json")
    assert f"{MARK}-printed" in told
    assert "hidden from the agent" in told
    assert "1 passed only what it saw" in shop.call("honesty")


def test_a_hidden_check_that_the_agent_could_see_is_refused(shop: Shop) -> None:
    shop.plan(driver="folder")
    assert "gets its whole command" in shop.call("plan", "check", "plan.json", code=2)


@pytest.mark.rest
def test_a_hidden_file_that_lies_in_the_repository_is_refused(shop: Shop) -> None:
    shop.files[FILE] = TESTS
    shop.plan()
    assert "where the agent sees it" in " ".join(shop.call("run", "plan.json", code=1).split())


@pytest.mark.rest
def test_a_hidden_check_needs_a_sandbox(shop: Shop) -> None:
    shop.plan(sandbox="plain")
    said = shop.call("run", "plan.json", "--sandbox", "plain", code=1)
    assert "runs without a sandbox" in " ".join(said.split())


@pytest.mark.rest
def test_cases_in_a_file_are_hidden_as_well(shop: Shop) -> None:
    (shop.folder / "cases.yaml").write_text(
        f"- {{name: {MARK}, args: [3], returns: 30}}\n- {{args: [2], returns: 20}}\n"
    )
    call = {"call": "price:price", "python": sys.executable, "cases_file": "cases.yaml"}
    shop.secret = {"id": "secret", "kind": "cases", "hidden": "count", **call}
    shop.plan()
    shop.call("plan", "check", "plan.json")
    shop.call("run", "plan.json")
    show = ["git", "-C", str(shop.folder / "shop"), "show", "agenttalk/shop:seen.txt"]
    seen = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    assert seen.splitlines() == ["attempt 1: [], of many: True", "attempt 2: [], of many: True"]
    prompts = [path for path in (shop.folder / "root" / "agents").rglob("*") if path.is_file()]
    assert not [path for path in prompts if MARK.encode() in path.read_bytes()]
    told = shop.call("explain", "shop/fix", "--json")
    assert f"{MARK} price(3): it returned 20, and 30 is asked for" in told
    assert "2 cases passed" in told


def test_what_is_wrong_with_cases_is_said_before_anything_starts(shop: Shop) -> None:
    (shop.folder / "cases.yaml").write_text("- {args: [3], returns: 30, stdout: x}\n")
    shop.secret = {"id": "secret", "kind": "cases", "call": "price", "cases_file": "cases.yaml"}
    shop.plan()
    told = " ".join(shop.call("plan", "check", "plan.json", code=2).split())
    assert "'price' is not module:function" in told
    assert "stdout belongs to a command" in told
