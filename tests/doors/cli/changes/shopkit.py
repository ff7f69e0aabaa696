"""A repository with tests, and changes of it that are proven by the command line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
from kits import provekit

PRICE = "def total(items):\n    return sum(items)\n"
TESTS = """from price import total


def test_total():
    assert total([1, 2]) == 3


def test_empty():
    assert total([]) == 0
"""
TAXED = f"{PRICE}\n\ndef taxed(items):\n    return total(items) * 2\n"
NEW_TEST = """from price import taxed


def test_taxed():
    assert taxed([1, 2]) == 6
"""
FILES = {"price.py": PRICE, "tests/test_price.py": TESTS, "conftest.py": "", "docs/guide.md": "Prices.\n"}


@dataclass(frozen=True)
class ProveRun:
    """What `agenttalk prove` answered."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    def failed(self) -> list[str]:
        """The evidence that is missing."""
        return [each["id"] for each in self.told["evidence"] if not each["passed"]]

    def detail(self, name: str) -> str:
        [found] = [each["detail"] for each in self.told["evidence"] if each["id"] == name]
        return str(found)

    def suspicions(self) -> set[str]:
        return {each["id"] for each in self.told["suspicions"]}


@dataclass(frozen=True)
class Shop:
    """A repository, and a state folder beside it."""

    folder: Path

    @property
    def top(self) -> Path:
        return self.folder / "my shop"

    def git(self, *args: str) -> str:
        return provekit.git(self.top, *args)

    def write(self, files: Mapping[str, str | None]) -> None:
        """Write files; remove those that are None."""
        for path, text in files.items():
            if text is None:
                (self.top / path).unlink()
            else:
                (self.top / path).parent.mkdir(parents=True, exist_ok=True)
                (self.top / path).write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AGENTTALK", "GIT_"))}
        return {**kept, "AGENTTALK_STATE": str(self.folder / "state"), "COLUMNS": "200"}

    def call(self, *arguments: str, stdin: str = "", cwd: Path | None = None, **more: str) -> ProveRun:
        done = subprocess.run(
            [preloaded.program(), "prove", *arguments],
            cwd=cwd or self.top,
            input=stdin,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return ProveRun(done.returncode, done.stdout, done.stderr)

    def prove(self, *arguments: str, cwd: Path | None = None) -> ProveRun:
        return self.call(*arguments, "--json", cwd=cwd)

    def snapshot(self) -> dict[str, tuple[bytes, int]]:
        """Everything in the folder, its .git included. Git freshens the time of objects that it would write again."""
        files = {str(path.relative_to(self.top)): path for path in sorted(self.top.rglob("*")) if path.is_file()}
        return {
            name: (path.read_bytes(), 0 if name.startswith(".git/objects/") else path.stat().st_mtime_ns)
            for name, path in files.items()
        }


def open_shop(folder: Path, files: Mapping[str, str] | None = None) -> Shop:
    shop = Shop(folder)
    shop.top.mkdir(parents=True)
    provekit.repository(shop.top, files or FILES)
    return shop
