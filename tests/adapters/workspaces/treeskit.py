"""A user with a repository or a plain folder, a plan on it, and agents that work."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from agenttalk.adapters.workspaces.attempts import NOTHING
from agenttalk.adapters.workspaces.paths import WorkspaceSettings
from agenttalk.adapters.workspaces.preparation import PreparationRecipe, PreparationRun
from agenttalk.adapters.workspaces.results import AttemptCommit, Clone, MergeCandidate, TreeRefusal, WorkspaceAttempt
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.rules.core.scope import Globs

T = TypeVar("T")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FILES = {
    "README.md": "# shop\n",
    "src/price.py": "def price():\n    return 1\n\n\ndef tax():\n    return 2\n",
    "tests/test_price.py": "assert True\n",
    ".gitignore": "*.log\nbuild/\n",
}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def git(folder: Path, *args: str, check: bool = True) -> str:
    """What the user's own git says, with the user's own configuration."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        **{f"GIT_{who}_{what}": "user" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(
        ["git", "-c", "gc.auto=0", *args],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()


def write(folder: Path, files: Mapping[str, str | bytes | None]) -> None:
    """Write files; None removes one."""
    for path, content in files.items():
        where = folder / path
        if content is None:
            where.unlink()
            continue
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(content if isinstance(content, bytes) else content.encode())


def repository(folder: Path, files: Mapping[str, str | bytes | None] = FILES, *options: str) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", *options)
    write(folder, files)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "start")
    return folder


async def unconfined(folder: Path, command: str) -> PreparationRun:
    """Run a command line in a folder, without a sandbox."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return PreparationRun(process.returncode or 0, said.decode().strip())


def recipe(command: str) -> PreparationRecipe:
    return PreparationRecipe(command, unconfined)


def plain(folder: Path, files: Mapping[str, str | bytes | None] = FILES) -> Path:
    folder.mkdir(parents=True)
    write(folder, files)
    return folder


def opened(folder: Path, *, plan: str = "shop", home: Path | None = None, **settings: Any) -> PlanWorkspace:
    return run(PlanWorkspace.open(WorkspaceSettings(folder, plan, home or folder.parent / "home", **settings)))


def attempt(task: str = "build", seq: int = 1, number: int = 1) -> WorkspaceAttempt:
    return WorkspaceAttempt(task, f"cmd_{task}_{seq:03}", number)


def begin(space: PlanWorkspace, who: WorkspaceAttempt, **options: Any) -> Clone:
    return run(space.attempts.begin(who, at=NOW, **options))


def work(
    space: PlanWorkspace, who: WorkspaceAttempt, files: Mapping[str, str | bytes | None], **options: Any
) -> AttemptCommit:
    """A whole turn of an agent that writes some files."""
    write(begin(space, who, **options).path, files)
    return taken(space, who)


def taken(space: PlanWorkspace, who: WorkspaceAttempt) -> AttemptCommit:
    found = run(space.attempts.take_work(who, at=NOW))
    assert isinstance(found, AttemptCommit), found
    return found


def refused(space: PlanWorkspace, who: WorkspaceAttempt) -> dict[str, str]:
    found = run(space.attempts.take_work(who, at=NOW))
    assert isinstance(found, TreeRefusal), found
    return {reason.path: reason.why for reason in found.reasons}


def candidate(space: PlanWorkspace, what: AttemptCommit, protected: Globs = NOTHING, **options: Any) -> MergeCandidate:
    found = run(space.make_candidate(what, at=NOW, protected=protected, **options))
    assert isinstance(found, MergeCandidate), found
    return found


def follow(space: PlanWorkspace, tip: str) -> str:
    """Bring the branch to a tip; what the tip is then."""
    found = run(space.follow(tip, at=NOW))
    assert found is not None
    return found


def merge(space: PlanWorkspace, what: AttemptCommit, protected: Globs = NOTHING) -> MergeCandidate:
    found = candidate(space, what, protected)
    assert follow(space, found.commit) == found.commit
    return found


def tree(space: PlanWorkspace, commit: str) -> dict[str, str]:
    """Path → text of every file of a tree."""
    paths = run(space.trees.find_covered(commit)).files
    return {path: (run(space.trees.read(commit, path)) or b"").decode(errors="replace") for path in paths}


def files(folder: Path) -> dict[str, str]:
    """Path → text of every file that lies in a folder, its .git aside."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


def state(repo: Path) -> dict[str, Any]:
    """All of the user's repository that a plan must leave alone."""
    heads = git(repo, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags").splitlines()
    own = repo / ".git"
    return {
        "heads": [line for line in heads if "refs/heads/agenttalk/" not in line],
        "HEAD": (own / "HEAD").read_text(),
        "config": (own / "config").read_text(),
        "index": (own / "index").read_bytes(),
        "hooks": sorted(path.name for path in (own / "hooks").iterdir()) if (own / "hooks").exists() else [],
        "files": {
            str(path): path.read_bytes()
            for path in sorted(repo.rglob("*"))
            if path.is_file() and own not in path.parents
        },
    }
