"""`agenttalk until` with the real coding agents, offline: one command in a repository in which nothing was set up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from agents.conftest import LONGEST, RIGHT, Shop, require
from agenttalk.testing.model_script import SayStep, Script, behaves, lies

CHECK = "python3 -m unittest -q test_price"
GOAL = "Write price.py so that its tests pass."


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Script:
    found: Script = request.param
    return found


def command_of(shop: Shop, name: str) -> list[str]:
    """The command as a person types it, with the scripted model."""
    use = shop.use(name)
    model = ["-m", use["model"]] if "model" in use else []
    args = [*model, *use.get("args", ())]
    match name:
        case "claude":
            return ["claude", "-p", GOAL, "--dangerously-skip-permissions", *args]
        case "codex":
            return ["codex", "exec", "--full-auto", *args, GOAL]
        case "opencode":
            return ["opencode", "run", *args, *GOAL.split()]
    return [name, "-p", GOAL, "--yolo", *args]


def until(shop: Shop, name: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Run the command; its exit code, and what it says to programs."""
    done = subprocess.run(
        [sys.executable, "-m", "agenttalk", "until", "--json", *options, CHECK, "--", *command_of(shop, name)],
        cwd=shop.folder / "shop",
        env={**shop.environment, "AGENTTALK_STATE": str(shop.folder / "state"), "LANG": os.environ.get("LANG", "C")},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "qwen", "opencode"])
@pytest.mark.parametrize("script", [behaves({"price.py": RIGHT})], indirect=True, ids=["behaves"])
def test_one_command_leads_to_a_proven_branch(shop: Shop, name: str) -> None:
    require(name)
    code, told = until(shop, name)
    assert (code, told["result"], told["agent"]) == (0, "proven", name), told
    assert shop.git("show", f"{told['branch']}:price.py") == RIGHT
    assert told["usage"]["tokens"] >= 240
    assert not (shop.folder / "shop/price.py").exists()


@pytest.mark.parametrize("name", ["claude", "codex", "qwen"])
@pytest.mark.parametrize("script", [lies()], indirect=True, ids=["lies"])
def test_who_lies_ends_with_a_failure(shop: Shop, name: str) -> None:
    require(name)
    code, told = until(shop, name, "--rounds", "1")
    assert (code, told["result"], told["branch"]) == (1, "not proven", None)


@pytest.mark.parametrize("name", ["claude", "codex"])
@pytest.mark.parametrize(
    "script", [[*[SayStep("All tests pass.")] * 3, *behaves({"price.py": RIGHT})]], indirect=True, ids=["at last"]
)
def test_who_is_sent_back_goes_on_in_its_session(shop: Shop, name: str) -> None:
    require(name)
    code, told = until(shop, name)
    assert (code, told["result"], told["rounds"]) == (0, "proven", 2), told
