"""What tests of proven work share: a repository, agents that are scripts, and promises with checks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kits.plankit import Engine, plan, play, task
from kits.standingkit import PlanStanding

CALC = "def add(a, b):\n    return 0\n"
SUITE = """import unittest
from calc import add


class Test(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""
PYTEST_ALONE = f"{sys.executable} -m pytest -q -p no:cacheprovider" + "".join(
    f" -p no:{name}"
    for name in ("anyio", "hypothesispytest", "pytest_cov", "schemathesis", "xdist", "xdist.looponfail")
)
"""Without the plugins of our own tests, which take longer to load than all else that it does."""
RUNS = f"{sys.executable} -m unittest -q test_calc"


def promise(*checks: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A promise that needs every check to pass."""
    named = [each["id"] for each in checks]
    criteria = [
        {"id": f"c{number}", "description": name, "evidenceRequired": [name]} for number, name in enumerate(named)
    ]
    return {"objective": "It works", "acceptance": criteria, "checks": list(checks), **keys}


def git(folder: Path, *args: str) -> str:
    """Call git as a person."""
    command = ["git", "-c", "user.name=ada", "-c", "user.email=ada@example.org", *args]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path, files: Mapping[str, str]) -> Path:
    """A repository whose first commit has these files."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "begin")
    return folder


def program(root: Path, name: str, text: str) -> dict[str, Any]:
    """A script agent."""
    path = root / f"{name}.py"
    path.write_text(
        f"import os, pathlib\nattempt = int(os.environ['AGENTTALK_COMMAND_ID'][-3:])\n{text}\nprint('all done')\n"
    )
    return {"driver": "script", "argv": [sys.executable, str(path)]}


def run(root: Path, compiled: Any, **agents: Any) -> PlanStanding:
    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended(compiled.dag.plan_id)

    found: PlanStanding = play(root / "root", use, proving=True, **agents)
    return found


def coded(repo: Path, text: str, **keys: Any) -> Any:
    tests = {"id": "tests-pass", "kind": "run", "run": RUNS, "protected": ["test_calc.py"]}
    said = {"promise": promise(tests, **keys.pop("promise", {})), "workspace": "repo", **keys}
    return plan(
        task("fix", "dev", **said), agents={"dev": program(repo.parent, "dev", text)}, workspace={"repo": str(repo)}
    )


FIXES = "pathlib.Path('calc.py').write_text('def add(a, b):\\n    return a + b\\n')"
