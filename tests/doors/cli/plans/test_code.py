"""A plan on a repository, from `agenttalk run` to `agenttalk merge`, as processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import preloaded
from kits.provekit import git, repository

AGENT = {"driver": "script", "name": "Dee Veloper", "email": "dee@example.org"}
RIGHT = "def price(n):\n    return 10 * n\n"


def agenttalk(folder: Path, *args: str, code: int = 0) -> str:
    command = [preloaded.program(), *args, "--root", str(folder / "root")]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A plan beside the repository that it works on; it has run."""
    repository(tmp_path / "shop", {"price.py": "def price(n):\n    return 0\n"})
    text = f"import pathlib\npathlib.Path('price.py').write_text({RIGHT!r})\nprint('done')\n"
    (tmp_path / "dev.py").write_text(text)
    check = {"id": "right", "kind": "run", "run": f'{sys.executable} -c "import price; assert price.price(2) == 20"'}
    promise = {
        "objective": "The price is right",
        "acceptance": [{"id": "right", "description": "Two cost 20", "evidenceRequired": ["right"]}],
        "checks": [check],
    }
    plan: dict[str, Any] = {
        "plan_id": "shop",
        "workspace": {"repo": "./shop"},
        "agents": {"dev": AGENT | {"argv": [sys.executable, "dev.py"]}},
        "tasks": [{"id": "fix", "agent": "dev", "prompt": "Fix it.", "workspace": "repo", "promise": promise}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    agenttalk(tmp_path, "run", "plan.json")
    return tmp_path


def test_what_was_done_is_shown_and_comes_home_when_asked(shop: Path) -> None:
    repo = shop / "shop"
    assert (repo / "price.py").read_text() != RIGHT
    assert "+    return 10 * n" in agenttalk(shop, "diff", "shop/fix")
    told = json.loads(agenttalk(shop, "diff", "shop", "--json"))
    assert told["changes"] == [{"path": "price.py", "how": "changed"}]
    assert "fast-forward" in agenttalk(shop, "merge", "shop")
    assert (repo / "price.py").read_text() == RIGHT
    assert git(repo, "status", "--porcelain") == ""
    assert "already merged" in agenttalk(shop, "merge", "shop")


@pytest.mark.mends("C11")
def test_commits_name_the_agent_the_task_and_what_they_rest_on(shop: Path) -> None:
    told = git(shop / "shop", "log", "-1", "--format=%an <%ae>%n%cn%n%s%n%(trailers:only)", "agenttalk/shop")
    assert told.splitlines()[:8] == [
        "Dee Veloper <dee@example.org>",
        "AgentTalk",
        "Fix it.",
        "AgentTalk-Plan: shop",
        "AgentTalk-Task: fix",
        "AgentTalk-Command: cmd_fix_001",
        "AgentTalk-Attempt: 1",
        "AgentTalk-Commit: " + git(shop / "shop", "rev-parse", "refs/agenttalk/shop/attempts/cmd_fix_001-1"),
    ]
    assert told.splitlines()[8] == "AgentTalk-Evidence: right executed"


def test_nothing_of_the_users_is_overwritten(shop: Path) -> None:
    mine = "def price(n):\n    return 7\n"
    (shop / "shop/price.py").write_text(mine)
    before = git(shop / "shop", "rev-parse", "main")
    assert "nothing was merged" in agenttalk(shop, "merge", "shop", code=1)
    assert ((shop / "shop/price.py").read_text(), git(shop / "shop", "rev-parse", "main")) == (mine, before)


def test_explain_says_what_was_proven(shop: Path) -> None:
    told = agenttalk(shop, "explain", "shop/fix")
    assert "✓ right (executed" in told
    assert "merged as" in told
    assert "has no repository" not in told
    assert "the engine runs no task" in agenttalk(shop, "diff", "shop/nothing", code=2)


@pytest.mark.rest
def test_what_was_proven_is_looked_at_on_demand_and_mended_if_it_broke(shop: Path) -> None:
    assert "fix right: fresh" in agenttalk(shop, "verify", "shop")
    repo = shop / "shop"
    git(repo, "switch", "-q", "agenttalk/shop")
    (repo / "other.md").write_text("more")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "harmless")
    assert "fix right: verified again (the tree changed)" in agenttalk(shop, "verify", "shop/fix")
    (repo / "price.py").write_text("def price(n):\n    return 1\n")
    git(repo, "commit", "-aqm", "cheaper")
    git(repo, "switch", "-q", "main")
    told = json.loads(agenttalk(shop, "verify", "shop", "--json", code=1))
    [check] = told["checks"]
    cheaper = git(repo, "rev-parse", "agenttalk/shop")
    assert (told["ok"], check["state"], check["broke"]) == (False, "red", {"commit": cheaper, "task_id": None})
    assert told["reopened"] == ["fix"]
    agenttalk(shop, "run", "plan.json")
    assert git(repo, "show", "agenttalk/shop:price.py") == RIGHT.strip()
    assert "since a commit that no task made" in agenttalk(shop, "explain", "shop/fix")


def test_wrong_names_of_what_is_to_be_verified_are_told(shop: Path) -> None:
    assert "runs no plan" in agenttalk(shop, "verify", "shoe", code=2)
    assert "has no task" in agenttalk(shop, "verify", "shop/nothing", code=2)


MENDS = """import pathlib, sys
prompt = sys.stdin.read()
right = "What to fix" in prompt
pathlib.Path("price.py").write_text(f"def price(n):\\n    return {10 if right else 7} * n\\n")
pathlib.Path("prompt.txt").write_text(prompt)
print("done")
"""


@pytest.mark.mends("C3")
def test_a_rework_prompt_says_each_thing_once_and_names_the_command(tmp_path: Path) -> None:
    repository(tmp_path / "shop", {"price.py": "def price(n):\n    return 0\n"})
    (tmp_path / "dev.py").write_text(MENDS)
    command = f"{sys.executable} -c \"import price; assert price.price(2) == 20, f'two cost {{price.price(2)}}'\""
    promise = {
        "objective": "The price is right",
        "acceptance": [{"id": "right", "description": "Two cost 20", "evidenceRequired": ["right"]}],
        "checks": [{"id": "right", "kind": "run", "run": command}],
    }
    plan: dict[str, Any] = {
        "plan_id": "shop",
        "workspace": {"repo": "./shop"},
        "agents": {"dev": AGENT | {"argv": [sys.executable, "dev.py"]}},
        "tasks": [{"id": "fix", "agent": "dev", "prompt": "Fix it.", "workspace": "repo", "promise": promise}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    agenttalk(tmp_path, "run", "plan.json")
    prompt = git(tmp_path / "shop", "show", "agenttalk/shop:prompt.txt")
    assert prompt.count("AssertionError: two cost 14") == 1
    assert prompt.count(f"{command}' ended with 1:") == 1
    assert prompt.count("'right' failed") == 1
    assert "validation_feedback" not in prompt
    assert "0 of 100 points" not in prompt
