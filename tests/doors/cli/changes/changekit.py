"""What tests of `until`, `do` and `prove` share: a repository with a red test, and the command line in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
from kits.provekit import git, repository

WRONG = "def price(n):\n    return 0\n"
RIGHT = "def price(n):\n    return 40 * n\n"
SUITE = """import unittest
from price import price


class Prices(unittest.TestCase):
    def test_two(self):
        self.assertEqual(price(2), 80)


if __name__ == "__main__":
    assert price(2) == 80, f"{price(2)} != 80"
"""
CHECK = f"{sys.executable} test_price.py"
"""It runs no runner of tests, whose canaries and second process cost more than all else."""
UNITTEST = f"{sys.executable} -m unittest -q test_price"
PATIENCE = 300.0


@dataclass(frozen=True)
class Repo:
    """A repository whose test fails, beside it scripts of agents and the state of the user."""

    folder: Path
    name: str = "shop"

    @property
    def top(self) -> Path:
        return self.folder / self.name

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "AGENTTALK_STATE": str(self.state),
            "LANG": "C.UTF-8",
        }

    def agent(self, text: str, name: str = "agent") -> list[str]:
        """The command of an agent that is a script."""
        path = self.folder / f"{name}.py"
        path.write_text(f"import json, os, pathlib, sys\n{text}\n", encoding="utf-8")
        return [sys.executable, str(path)]

    def run(
        self, *arguments: str, code: int, cwd: Path | None = None, more: Mapping[str, str] | None = None
    ) -> tuple[str, str]:
        """What a command printed on its two streams."""
        ended = subprocess.run(
            [preloaded.program(), *arguments],
            cwd=cwd or self.top,
            env={**self.variables, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout, ended.stderr

    def until(self, check: str, command: list[str], *options: str, code: int = 0, **more: Any) -> str:
        """What `until` prints for people."""
        return "".join(self.run("until", *options, check, "--", *command, code=code, **more))

    def json(self, check: str, command: list[str], *options: str, code: int = 0, **more: Any) -> dict[str, Any]:
        """What `until` says to programs."""
        told: dict[str, Any] = json.loads(
            self.run("until", "--json", *options, check, "--", *command, code=code, **more)[0]
        )
        return told

    def show(self, commit: str, path: str) -> str:
        return git(self.top, "show", f"{commit}:{path}")


def make_repo(folder: Path, name: str = "shop", files: Mapping[str, str] | None = None) -> Repo:
    """Make a repository with a price that is wrong, and a test that says so."""
    (folder / "home").mkdir(exist_ok=True)
    repository(folder / name, {"price.py": WRONG, "test_price.py": SUITE, **(files or {})})
    return Repo(folder, name)


def writes(text: str, path: str = "price.py") -> str:
    """The program of an agent that writes a file."""
    return f"pathlib.Path({path!r}).write_text({text!r})"
