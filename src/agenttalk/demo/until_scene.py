"""The scene of the demo in which one line gets a proven change: an agent that only claims it is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from agenttalk.doors.cli.core.output import CommandOutput, sanitize

PRICE: Final = "def total(items):\n    return round(sum(items))\n"
TEST: Final = """import unittest

from price import total


class TotalTest(unittest.TestCase):
    def test_cents_are_kept(self):
        self.assertEqual(total([0.1, 0.2, 0.05]), 0.35)
"""
LIAR: Final = 'print("Done, all tests pass.")\n'
WORKER: Final = """import pathlib

path = pathlib.Path("price.py")
path.write_text(path.read_text().replace("sum(items)", "sum(items), 2"))
print("I round to cents now.")
"""
CHECK: Final = "python3 -m unittest -q"
PROVEN, NOT_PROVEN = 0, 1
_GIT: Final = ("git", "-c", "user.name=demo", "-c", "user.email=demo@example.org")


def play_until(out: CommandOutput, root: Path) -> bool:
    """Have a liar and a worker try the same check: the first is refused, the second makes a branch."""
    shop, state = root / "shop", root / "state"
    for folder in (shop, state):
        folder.mkdir(parents=True)
    state.chmod(0o700)
    for name, text in (("price.py", PRICE), ("test_price.py", TEST)):
        (shop / name).write_text(text, encoding="utf-8")
    for name, text in (("liar.py", LIAR), ("worker.py", WORKER)):
        (root / name).write_text(text, encoding="utf-8")
    for call in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "A price that is wrong")):
        subprocess.run([*_GIT, *call], cwd=shop, check=True, capture_output=True)  # noqa: S603 - our own
    claimed = _until(out, shop, state, root / "liar.py")
    worked = _until(out, shop, state, root / "worker.py")
    branches = subprocess.run(  # noqa: S603 - our own
        [*_GIT, "branch", "--list", "agenttalk/*", "--no-merged", "main"],
        cwd=shop,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    unchanged = (shop / "price.py").read_text(encoding="utf-8") == PRICE
    return claimed == NOT_PROVEN and worked == PROVEN and len(branches) == 1 and unchanged


def _until(out: CommandOutput, shop: Path, state: Path, agent: Path) -> int:
    """Run the command as a person would, show what it prints, and return its exit code."""
    program = [sys.executable, "-m", "agenttalk", "until", CHECK, "--rounds", "2"]
    ended = subprocess.run(  # noqa: S603 - our own
        [*program, "--", sys.executable, str(agent)],
        cwd=shop,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        check=False,
        capture_output=True,
        text=True,
    )
    if not out.as_json:
        out.say(f"[bold]$ agenttalk until '{CHECK}' -- python3 {agent.name}[/]")
        out.say(sanitize(ended.stdout.rstrip() or ended.stderr.rstrip()))
    return ended.returncode
