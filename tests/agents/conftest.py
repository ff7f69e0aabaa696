"""What tests of coding agents share: the real ones where they are installed, a model that follows a script, a plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agenttalk.testing import ScriptedModel
from agenttalk.testing.model_script import Script

CODING = Path(__file__).parents[2] / ".coding-agents"
INSTALLED = CODING / "node_modules"
RIGHT = "def price(items):\n    return 40 * items\n"
TESTS = """import unittest
from price import price
class Prices(unittest.TestCase):
    def test_two_items(self):
        self.assertEqual(price(2), 80)
"""
LONGEST = 240


@dataclass(frozen=True)
class Shop:
    """A repository without a price, a plan that wants one, and the folder that both lie in."""

    folder: Path
    model: ScriptedModel

    @property
    def environment(self) -> dict[str, str]:
        """No key, a home of its own, and the model at the end of every road."""
        url = self.model.url
        provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "none"}}
        return {
            "PATH": f"{INSTALLED / 'node/bin'}:{INSTALLED / '.bin'}:{CODING / 'aider/bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "no-real-key",
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_BASE": f"{url}/v1",
            "OPENAI_API_KEY": "no-real-key",
            "OPENAI_MODEL": "scripted",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_API_KEY": "no-real-key",
            "OPENCODE_CONFIG_CONTENT": json.dumps({"provider": {"scripted": {**provider, "models": {"scripted": {}}}}}),
        }

    def use(self, name: str) -> dict[str, Any]:
        """How a coding agent is led to the scripted model."""
        provider = f'{{name="x",base_url="{self.model.url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        more: dict[str, dict[str, Any]] = {
            "codex": {"model": "x", "args": ["-c", "model_provider=x", "-c", f"model_providers.x={provider}"]},
            "gemini": {"model": "gemini-2.5-pro"},
            "opencode": {"model": "scripted/scripted"},
            "aider": {"model": "openai/scripted", "args": ["--edit-format", "whole", "price.py"]},
        }
        return {"agent": name, **more.get(name, {})}

    def plan(self, name: str, *, profile: dict[str, Any] | None = None, **promise: Any) -> None:
        """Write a plan whose only task is done by a coding agent."""
        check = {"id": "tests-pass", "kind": "run", "run": "python3 -m unittest -q test_price"}
        done = {
            "objective": "The price is right",
            "acceptance": [{"id": "tests", "description": "The tests pass", "evidenceRequired": ["tests-pass"]}],
            "allowedScope": ["price.py"],
            "checks": [{**check, "protected": ["test_*.py"], "red_first": "required"}],
            **promise,
        }
        work = {"id": "fix", "agent": "dev", "prompt": "Write price.py so that its tests pass.", "workspace": "repo"}
        document = {
            "plan_id": "shop",
            "workspace": {"repo": "./shop"},
            "agents": {"dev": {"driver": "cli", "cli": self.use(name), **(profile or {})}},
            "tasks": [{**work, "max_reexecute_times": 0, "promise": done}],
        }
        (self.folder / "plan.json").write_text(json.dumps(document))

    def agenttalk(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "agenttalk", *arguments, "--root", str(self.folder / "root")]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )

    def run(self) -> tuple[int, dict[str, Any]]:
        """Run the plan; its exit code, and how its task stands."""
        done = self.agenttalk("run", "plan.json", "--json")
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)["tasks"][0]

    def events(self, task: str = "fix") -> list[dict[str, Any]]:
        """What was written down while it ran."""
        paths = (self.folder / "root").glob(f"agents/dev/workspace/shop/{task}/.agenttalk/*.events.jsonl")
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=ada", "-c", "user.email=ada@example.org", *arguments]
        return subprocess.run(command, cwd=self.folder / "shop", check=True, capture_output=True, text=True).stdout


class Spoken(Shop):
    """A shop whose agents are spoken with."""

    @property
    def environment(self) -> dict[str, str]:
        """As usual, and where those find their model that take no arguments for it."""
        usual = Shop.environment.__get__(self)
        provider = {
            "name": "x",
            "base_url": f"{self.model.url}/v1",
            "env_key": "OPENAI_API_KEY",
            "wire_api": "responses",
        }
        codex = {"model": "x", "model_provider": "x", "model_providers": {"x": provider}}
        opencode = {**json.loads(usual["OPENCODE_CONFIG_CONTENT"]), "model": "scripted/scripted"}
        return {**usual, "CODEX_CONFIG": json.dumps(codex), "OPENCODE_CONFIG_CONTENT": json.dumps(opencode)}

    def acp(self, name: str, use: dict[str, Any] | None = None) -> dict[str, Any]:
        """How a coding agent that is spoken with is led to the scripted model."""
        return {"agent": name, **({"model": "gemini-2.5-pro"} if name == "gemini" else {}), **(use or {})}

    def spoken(self, name: str, use: dict[str, Any] | None = None, *, sandbox: str = "best", **promise: Any) -> None:
        """Write a plan whose only task is done by an agent that is spoken with."""
        self.plan(name, profile={"driver": "acp", "acp": self.acp(name, use), "sandbox": sandbox}, **promise)


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory, script: Script) -> Any:
    """A shop whose model follows a script."""
    folder = tmp_path_factory.mktemp("shop")
    for name in ("shop", "home"):
        (folder / name).mkdir()
    (folder / "shop/test_price.py").write_text(TESTS)
    with ScriptedModel(script) as model:
        found = Shop(folder, model)
        found.git("init", "-q", "-b", "main")
        found.git("add", ".")
        found.git("commit", "-qm", "begin")
        yield found


def require(name: str) -> None:
    """Skip where a coding agent is not installed."""
    if not any((folder / name).exists() for folder in (INSTALLED / ".bin", CODING / "aider/bin")):
        pytest.skip(f"{name} is not installed here; 'make test-agents' installs it")
