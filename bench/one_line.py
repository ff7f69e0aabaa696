"""One line to a proven task, beside the same coding agent followed by the check.

`python bench/one_line.py [--agents NAME ...] [--json]`. The real coding agents that `make test-agents` installs, with a
model that follows a script: one that does the work, and one that lies. By hand is `agent && check`. The model counts
its requests and their characters, so these are exact on any machine; tokens are estimated from the requests, as
`agenttalk explain --prompt` does it. CPU time is of all processes, the agent included.
The time of our own is that of `agenttalk until` with an agent and a check that do next to nothing. Exit code 1 when an
end is not the true one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from agenttalk.rules.prompts.size import estimate_tokens
from agenttalk.testing import ScriptedModel
from agenttalk.testing.model_script import Script, behaves, lies

ROOT = Path(__file__).parent.parent
INSTALLED = ROOT / ".coding-agents" / "node_modules"
RIGHT = "def price(items):\n    return 40 * items\n"
TEST = "import unittest\nfrom price import price\nclass T(unittest.TestCase):\n"
TEST += "    def test_two(self):\n        self.assertEqual(price(2), 80)\n"
CHECK = "python3 -m unittest -q test_price"
GOAL = "Write price.py so that its tests pass."
WANTED = {("behaves", "by hand"): 0, ("behaves", "until"): 0, ("lies", "by hand"): 1, ("lies", "until"): 1}


@dataclass
class Measured:
    """One way to the end."""

    agent: str
    script: str
    way: str
    code: int
    seconds: float
    cpu: float
    requests: int
    characters: int
    tokens: int


def command_of(agent: str, url: str, *, sandboxed: bool) -> list[str]:
    """The command as a person types it; without a sandbox of ours, the agent has to be given its rights."""
    if agent == "claude":
        return ["claude", "-p", GOAL, *([] if sandboxed else ["--permission-mode", "acceptEdits"])]
    if agent == "codex":
        provider = f'{{name="x",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        model = ["-m", "x", "-c", "model_provider=x", "-c", f"model_providers.x={provider}"]
        rights = [] if sandboxed else ["--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
        return ["codex", "exec", *rights, *model, GOAL]
    return ["qwen", "-p", GOAL, *([] if sandboxed else ["--yolo"])]


def prepare(folder: Path) -> Path:
    """Make a repository whose test fails. Qwen overwrites no file that it has not read, so there is none yet."""
    shop = folder / "shop"
    (folder / "home").mkdir()
    shop.mkdir()
    (shop / "test_price.py").write_text(TEST)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=shop, check=True)  # noqa: S607 - as a person does it
    return shop


def variables(folder: Path, url: str) -> dict[str, str]:
    """What the agents get: no key, a home of their own, and the model."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{INSTALLED / 'node/bin'}:{INSTALLED / '.bin'}:{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "AGENTTALK_STATE": str(folder / "state"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "no-real-key",
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "no-real-key",
        "OPENAI_MODEL": "scripted",
    }


def timed(argv: list[str], folder: Path, env: dict[str, str]) -> tuple[int, float, float]:
    """Run a command; its exit code, the time, and the CPU time of all its processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.returncode, took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(agent: str, name: str, script: Script, way: str) -> Measured:
    """Go one way to the end."""
    with tempfile.TemporaryDirectory(prefix="one-line-") as home, ScriptedModel(script) as model:
        folder = Path(home)
        shop = prepare(folder)
        if way == "by hand":
            words = command_of(agent, model.url, sandboxed=False)
            argv = ["sh", "-c", f'"$@" && {CHECK}', "sh", *words]
        else:
            words = command_of(agent, model.url, sandboxed=True)
            argv = [sys.executable, "-m", "agenttalk", "until", "--rounds", "2", CHECK, "--", *words]
        code, took, cpu = timed(argv, shop, variables(folder, model.url))
        bodies = [json.dumps(each.body) for each in model.requests]
        characters, tokens = sum(map(len, bodies)), sum(map(estimate_tokens, bodies))
        return Measured(agent, name, way, code, took, cpu, len(bodies), characters, tokens)


def measure_own() -> tuple[float, float]:
    """Time and CPU time of `until` with an agent and a check that do next to nothing."""
    with tempfile.TemporaryDirectory(prefix="one-line-") as home:
        folder = Path(home)
        shop = prepare(folder)
        argv = [sys.executable, "-m", "agenttalk", "until", "test -e made", "--", "touch", "made"]
        code, took, cpu = timed(argv, shop, variables(folder, "http://127.0.0.1:1"))
        if code:
            raise SystemExit("agenttalk until did not prove what it should")
        return took, cpu


def main() -> int:
    """Measure all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--agents", nargs="+", default=["claude", "codex", "qwen"])
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    own = min(measure_own() for _ in range(3))
    found = [
        measure(agent, name, script, way)
        for agent in said.agents
        if (INSTALLED / ".bin" / agent).exists()
        for name, script in (("behaves", behaves({"price.py": RIGHT})), ("lies", lies()))
        for way in ("by hand", "until")
    ]
    wrong = [each for each in found if each.code != WANTED[each.script, each.way]]
    if said.json:
        print(json.dumps({"own_seconds": own[0], "own_cpu": own[1], "ways": [asdict(each) for each in found]}))
        return int(bool(wrong))
    print(f"our own time, agent and check not counted: {own[0]:.2f} s, CPU {own[1]:.2f} s")
    head = f"{'agent':8} {'model':8} {'way':8} {'exit':>4} {'s':>6} {'CPU s':>6} "
    print(head + f"{'requests':>8} {'characters':>10} {'tokens':>9}")
    for each in found:
        print(
            f"{each.agent:8} {each.script:8} {each.way:8} {each.code:4} {each.seconds:6.1f} {each.cpu:6.1f} "
            f"{each.requests:8} {each.characters:10,} {each.tokens:9,}"
        )
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
