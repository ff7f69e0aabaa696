"""Sessions that are kept of a coding agent's home folder, when the agent lays something else there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.engine.agents import coding_sessions
from agenttalk.engine.agents.coding_sessions import CodingSession
from agenttalk.engine.core.secrets import SecretGuard

SECRET = "what only the operator knows"
SESSION = CodingSession("dev", "claude", "s-1", confined=True)
PLACE = ".claude/projects"


def whole(home: Path, root: Path) -> None:
    (home / ".claude").mkdir()
    (home / PLACE).symlink_to(root / "data")


def above(home: Path, root: Path) -> None:
    (root / "data" / "projects").mkdir()
    (root / "data" / "projects" / "key").write_text(SECRET)
    (home / ".claude").symlink_to(root / "data")


def single(home: Path, root: Path) -> None:
    (home / PLACE).mkdir(parents=True)
    (home / PLACE / "s.jsonl").symlink_to(root / "data" / "key")


def pipe(home: Path, _: Path) -> None:
    (home / PLACE).mkdir(parents=True)
    os.mkfifo(home / PLACE / "s.jsonl")


def deep(home: Path, root: Path) -> None:
    here = home / PLACE
    for _ in range(30):
        here /= "d"
    here.mkdir(parents=True)
    (here / "key").write_text((root / "data" / "key").read_text())


def large(home: Path, _: Path) -> None:
    (home / PLACE).mkdir(parents=True)
    with (home / PLACE / "s.jsonl").open("wb") as file:
        file.truncate(40 * 1024 * 1024)


@pytest.mark.parametrize("lay", [whole, above, single, pipe, deep, large])
def test_nothing_but_files_of_the_session_is_kept_and_laid_out_again(
    tmp_path: Path, lay: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "key").write_text(SECRET)
    home = tmp_path / "agents" / "dev" / "turns" / "1" / "home"
    home.mkdir(parents=True)
    lay(home, tmp_path)
    turns = "agents/dev/turns"
    with SafeFolder.open(tmp_path) as root:
        coding_sessions.save_session(root, turns, f"{turns}/1/home", (PLACE,), SESSION, SecretGuard())
        (tmp_path / turns / "2").mkdir()
        coding_sessions.restore_session(root, turns, f"{turns}/2/home")
    kept = [path for top in (turns + "/session", turns + "/2") for path in (tmp_path / top).rglob("*")]
    assert [path for path in kept if path.is_file() and SECRET in path.read_text()] == []
    assert [path for path in kept if path.is_symlink() or not (path.is_file() or path.is_dir())] == []
    assert (tmp_path / "data" / "key").read_text() == SECRET
