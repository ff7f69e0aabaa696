"""Our reading of .gitignore files against git's own."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import git, write
from agenttalk.rules.core.scope import IgnoreRules
from effort import cases

PARTS = [
    "a",
    "b",
    "ab",
    "*",
    "?",
    "a*",
    "*b",
    "[ab]",
    "[!a]",
    "**",
    "*.x",
    "a.x",
    "\\a",
    "[a-b]*",
    "[[:alpha:]]",
    "b\\ ",
]
NAMES = ["a", "b", "ab", "a.x", "b.x", "c", "b "]


def line(dice: random.Random) -> str:
    text = "/".join(dice.choice(PARTS) for _ in range(dice.randrange(1, 4)))
    return dice.choice(["", "", "", "!"]) + dice.choice(["", "", "/"]) + text + dice.choice(["", "", "/", "  "])


@pytest.mark.random
def test_the_same_files_are_ignored_as_by_git(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    dice = random.Random(7)
    paths = set()
    for _ in range(120):
        path = "/".join(dice.choice(NAMES) for _ in range(dice.randrange(1, 5)))
        taken = any((tmp_path / parent).is_file() for parent in Path(path).parents)
        if not taken and not (tmp_path / path).exists():
            write(tmp_path, {path: ""})
            paths.add(path)
    folders = sorted({str(parent) for path in paths for parent in Path(path).parents} - {"."})
    for _ in range(cases(150)):
        texts = {
            folder: "\n".join(line(dice) for _ in range(dice.randrange(1, 5))) for folder in ("", "a", "ab", "a/b")
        }
        texts = {folder: text for folder, text in texts.items() if not folder or folder in folders}
        write(tmp_path, {f"{folder}/.gitignore".lstrip("/"): text for folder, text in texts.items()})
        ignored = IgnoreRules(texts, ())

        def ours(path: str, ignored: IgnoreRules = ignored) -> bool:
            parents = [str(parent) for parent in reversed(Path(path).parents)][1:]
            return any(ignored.ignores(parent, folder=True) for parent in parents) or ignored.ignores(
                path, folder=False
            )

        told = subprocess.run(
            ["git", "check-ignore", "--no-index", "-z", "--stdin"],
            cwd=tmp_path,
            input="\0".join(sorted(paths)).encode(),
            capture_output=True,
            check=False,
        )
        theirs = set(told.stdout.decode().split("\0")) - {""}
        assert {path for path in paths if ours(path)} == theirs, texts
