"""`agenttalk do`: a goal, the first coding agent that is installed, and the check of the repository."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from doors.cli.changes.changekit import RIGHT, Repo, make_repo
from kits.provekit import git

GOAL = "Two items cost 80"
CLAUDE = f"""#!{sys.executable}
import json, pathlib, sys
prompt = sys.stdin.read()
pathlib.Path("seen.txt").write_text(json.dumps(sys.argv[1:]) + prompt)
if {GOAL!r} in prompt:
    pathlib.Path("price.py").write_text({RIGHT!r})
for line in (
    {{"type": "system", "subtype": "init", "session_id": "s1"}},
    {{"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": "s1",
     "usage": {{"input_tokens": 3, "output_tokens": 4}}, "total_cost_usd": 0.01}},
):
    print(json.dumps(line))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Repo:
    repo = make_repo(tmp_path)
    (tmp_path / "bin").mkdir()
    return repo


def install(repo: Repo, name: str, text: str = CLAUDE) -> None:
    path = repo.folder / "bin" / name
    path.write_text(text)
    path.chmod(0o755)


def do(repo: Repo, *arguments: str, code: int = 0, more: Mapping[str, str] = MappingProxyType({})) -> tuple[str, str]:
    python = str(Path(sys.executable).parent)
    variables = {"PATH": f"{repo.folder / 'bin'}:{python}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "no-real-key"}
    return repo.run("do", *arguments, code=code, more={**variables, **more})


def test_a_goal_is_all_that_is_named(shop: Repo) -> None:
    install(shop, "claude")
    out, err = do(shop, GOAL)
    assert "check      python3 -m unittest (test_price.py belongs to unittest)" in err
    assert "agent      claude" in err
    assert "✓ proven: python3 -m unittest" in out
    branch = git(shop.top, "branch", "--list", "agenttalk/*", "--format=%(refname:short)")
    assert branch.startswith("agenttalk/two-items-cost-80-")
    assert shop.show(branch, "price.py") == RIGHT.strip()


@pytest.mark.rest
def test_the_agent_and_the_check_can_be_named(shop: Repo) -> None:
    install(shop, "claude", "#!/bin/sh\nexit 9\n")
    install(shop, "qwen")
    told = as_json(do(shop, "--json", "--agent", "qwen", "--check", f"{sys.executable} -m unittest -q", GOAL))
    assert (told["result"], told["agent"]) == ("proven", "qwen")
    assert told["check"].endswith("-m unittest -q")


def as_json(printed: tuple[str, str]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(printed[0])
    return told


def test_without_an_agent_it_says_what_to_install(shop: Repo) -> None:
    told = "".join(do(shop, GOAL, code=2))
    assert "none of these is installed: claude, codex" in told
    assert "npm install -g @anthropic-ai/claude-code" in told
    assert "there is no coding agent 'vim'" in "".join(do(shop, "--agent", "vim", GOAL, code=2))
    assert "codex is not installed" in "".join(do(shop, "--agent", "codex", GOAL, code=2))


def test_without_a_check_it_asks_for_one(shop: Repo) -> None:
    install(shop, "claude")
    git(shop.top, "rm", "-q", "test_price.py")
    told = "".join(do(shop, GOAL, code=2))
    assert "no check was found" in told
    assert "--check" in told
    assert git(shop.top, "branch", "--list", "agenttalk/*") == ""


def test_a_goal_must_say_something(shop: Repo) -> None:
    assert "the goal is empty" in "".join(do(shop, " ", code=2))
    both = do(shop, GOAL, "--ask-me", "--check", "true", code=2)
    assert "exclude each other" in "".join(both)


def test_a_person_can_be_the_check(shop: Repo) -> None:
    install(shop, "claude")
    git(shop.top, "rm", "-q", "test_price.py")
    git(shop.top, "commit", "-qm", "no tests")
    told = as_json(do(shop, "--json", "--ask-me", GOAL, code=3))
    assert (told["result"], told["branch"]) == ("waiting", None)
    listed = json.loads(shop.run("inbox", "--json", "--root", told["root"], code=0)[0])
    [question] = listed["requests"]
    assert GOAL in json.dumps(question["request"])
    said = (question["request"]["request_id"], "--seen", question["sha256"], "--root", told["root"])
    shop.run("approve", *said, code=0)
    again = as_json(do(shop, "--json", "--ask-me", GOAL))
    assert again["result"] == "proven"
    assert shop.show(again["branch"], "price.py") == RIGHT.strip()


@pytest.mark.rest
def test_options_are_those_of_until(shop: Repo) -> None:
    limits = ("--rounds", "3", "--usd", "5", "--minutes", "30", "--sandbox", "plain")
    files = ("--protect", "docs/", "--scope", "price.py", "--scope", "seen.txt", "--link", "none", "--prepare", "true")
    ways = ("--allow-tests", "--already-green", "ok", "--suspicion", "note", "--env", "RATE", "--merge")
    install(shop, "claude", CLAUDE.replace("prompt =", "import os\nassert os.environ['RATE']\nprompt ="))
    out, err = do(shop, *limits, *files, *ways, GOAL, more={"RATE": "40"})
    assert "protected  docs/" in err
    assert "scope      price.py, seen.txt" in err
    assert "prepare    true" in err
    assert "limits     3 rounds, 30 minutes, $5" in err
    assert "merged into main" in out
    assert (shop.top / "price.py").read_text() == RIGHT
    assert "--pr needs a forge" in "".join(do(shop, "--pr", GOAL, code=2))
    assert "--take cheapest needs --race" in "".join(do(shop, "--take", "cheapest", GOAL, code=2))
    assert "needs two agents" in "".join(do(shop, "--race", "claude", GOAL, code=2))


@pytest.mark.rest
def test_dollars_end_it(shop: Repo) -> None:
    install(shop, "claude", CLAUDE.replace("40", "7"))
    told = as_json(do(shop, "--json", "--usd", "0.005", GOAL, code=1))
    assert told["result"] == "not proven"
    assert told["rounds"] == 1
    assert "$0.01" in told["reason"]
