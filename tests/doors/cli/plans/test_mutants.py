"""Checks of the kind `mutants`, from `agenttalk run` to what `agenttalk explain` tells."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import preloaded
from kits.provekit import git, repository

PRICE = "def price(n):\n    if n > 10:\n        return 9 * n\n    return 10 * n\n"
WEAK = "from price import price\nassert price(2) is not None\n"
STRONG = "from price import price\nassert (price(2), price(10), price(11)) == (20, 100, 99)\n"
CHECK = {"id": "right", "kind": "run", "run": f"{sys.executable} test_price.py"}


class Shop:
    """A plan beside the repository that it works on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, test: str, work: str = PRICE, path: str = "price.py", code: int = 0, **mutants: Any) -> str:
        """Run the plan, and return what is told of it."""
        repository(self.folder / "shop", {"price.py": "", "test_price.py": test})
        agent = f"import pathlib\npathlib.Path({path!r}).write_text({work!r})\nprint('done')\n"
        (self.folder / "dev.py").write_text(agent)
        checks = [CHECK, {"id": "strong", "kind": "mutants", "of": "right", **mutants}]
        criteria = [{"id": each["id"], "description": "x", "evidenceRequired": [each["id"]]} for each in checks]
        task = {
            "id": "fix",
            "agent": "dev",
            "prompt": "Fix it.",
            "workspace": "repo",
            "max_reexecute_times": 0,
            "promise": {"objective": "x", "acceptance": criteria, "checks": checks},
        }
        plan = {
            "plan_id": "shop",
            "workspace": {"repo": "./shop"},
            "agents": {"dev": {"driver": "script", "argv": [sys.executable, "dev.py"]}},
            "tasks": [task],
        }
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.call("run", "plan.json", code=code)
        return self.call("explain", "shop/fix")

    def call(self, *args: str, code: int = 0) -> str:
        """Call the command line."""
        command = [preloaded.program(), *args, "--root", str(self.folder / "root")]
        done = subprocess.run(command, cwd=self.folder, check=False, capture_output=True, text=True, timeout=600)
        assert done.returncode == code, done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_tests_that_notice_no_faults_are_not_enough_and_the_survivors_are_named(shop: Shop) -> None:
    told = shop.run(WEAK, code=1, most=6)
    assert "'right' noticed" in told
    assert "price.py:" in told
    assert "->" in told
    assert "at least 80 % are asked for" in told


def test_tests_that_notice_the_faults_are_enough(shop: Shop) -> None:
    told = shop.run(STRONG, most=6)
    assert "'right' noticed 6 of 6 mutants" in told
    assert git(shop.folder / "shop", "show", "agenttalk/shop:price.py") == PRICE.strip(), "no fault is in the work"


@pytest.mark.rest
def test_work_without_lines_that_could_be_faulty_proves_nothing_unless_that_is_allowed(shop: Shop) -> None:
    told = shop.run("", work="A shop.\n", path="README.md", code=1)
    assert "no line of Python in which a fault could be put" in told


@pytest.mark.rest
def test_work_without_lines_that_could_be_faulty_passes_where_that_is_allowed(shop: Shop) -> None:
    shop.run("", work="A shop.\n", path="README.md", none="ok")


@pytest.mark.rest
def test_a_check_that_fails_on_any_change_notices_nothing(shop: Shop) -> None:
    rigged = f"import hashlib\n{WEAK}assert len(open('price.py').read()) == {len(PRICE)}\n"
    told = shop.run(rigged, code=1)
    assert "also fails when the text of the code changes" in told


@pytest.mark.rest
def test_a_check_that_never_ends_on_a_fault_has_noticed_it(shop: Shop) -> None:
    loop = "def price(n):\n    while n < 20:\n        n += 10\n    return n\n"
    told = shop.run("from price import price\nassert price(2) == 22\n", work=loop, most=4, kill=0.5)
    assert "noticed" in told


def test_a_plan_whose_mutants_no_check_could_notice_is_refused(shop: Shop) -> None:
    (shop.folder / "shop").mkdir()
    checks = [CHECK, {"id": "strong", "kind": "mutants", "of": "rihgt"}]
    criteria = [{"id": "c", "description": "x", "evidenceRequired": ["strong"]}]
    promise = {"objective": "x", "acceptance": criteria, "checks": checks}
    task = {"id": "fix", "agent": "dev", "prompt": "Fix it.", "promise": promise}
    plan = {"plan_id": "shop", "agents": {"dev": {"driver": "script", "argv": ["true"]}}, "tasks": [task]}
    (shop.folder / "plan.json").write_text(json.dumps(plan))
    assert "did you mean 'right'?" in shop.call("plan", "check", "plan.json", code=2)
