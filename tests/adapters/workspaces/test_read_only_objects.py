"""A repository whose objects may not be written: that is said before an agent works there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import git, opened, repository, run
from agenttalk.contracts.errors import Code, UsageError


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Root may write whatever the rights say, so for root the folder is mounted read-only."""
    if os.getuid():
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    done = subprocess.run(["mount", "--bind", folder, folder], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_plan_does_not_begin_where_its_work_could_not_be_kept(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    with read_only(repo / ".git/objects"):
        with pytest.raises(UsageError, match="cannot be written, and the work of the plan is kept there") as told:
            run(opened(repo).ensure())
        assert told.value.code is Code.FILE_UNWRITABLE
        assert git(repo, "for-each-ref", "refs/heads/agenttalk", "refs/agenttalk") == ""
    assert run(opened(repo).ensure()) == git(repo, "rev-parse", "HEAD")
