"""The tip of a plan's branch is read without opening its workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import git, plain, repository, run
from agenttalk.adapters.workspaces.git import FOLDER, BranchHeads, Git
from agenttalk.adapters.workspaces.paths import WorkspaceSettings
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.errors import UsageError
from agenttalk.contracts.plan import Workspace


def whole(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop")


def folder_only(tmp_path: Path) -> Path:
    return plain(tmp_path / "shop")


def bare(tmp_path: Path) -> Path:
    folder = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository(tmp_path / "shop")), str(folder))
    return folder


def linked(tmp_path: Path) -> Path:
    folder = tmp_path / "linked"
    git(repository(tmp_path / "shop"), "worktree", "add", "-q", "-b", "linked", str(folder))
    return folder


@pytest.mark.parametrize("make", [whole, folder_only, bare, linked])
def test_the_tip_is_that_of_the_workspace_and_reading_it_changes_no_file(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    folder, root = make(tmp_path), tmp_path / "root"
    heads, asked = BranchHeads(root), Workspace(repo=str(folder))

    async def scenario() -> str:
        space = await PlanWorkspace.open(WorkspaceSettings(folder, "shop", root / FOLDER / "shop"))
        assert await heads.find_head("shop", asked) == "", "the plan has not begun"
        return await space.ensure()

    tip = run(scenario())
    left = root / FOLDER / "shop" / "trash" / "left"
    left.mkdir(parents=True)
    before = sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*"))
    assert run(heads.find_head("shop", asked)) == tip
    assert sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_a_folder_that_is_gone_and_one_that_is_broken_are_errors(tmp_path: Path) -> None:
    folder = repository(tmp_path / "shop")
    heads = BranchHeads(tmp_path / "root")
    (folder / ".git" / "HEAD").unlink()
    with pytest.raises(UsageError, match="not a repository"):
        run(heads.find_head("shop", Workspace(repo=str(folder))))
    with pytest.raises(UsageError, match="there is no folder"):
        run(heads.find_head("shop", Workspace(repo=str(tmp_path / "nowhere"))))


@pytest.mark.parametrize("head", ["branch", "link", "detached", "unborn"])
def test_the_branch_that_is_checked_out_is_found_as_git_finds_it(tmp_path: Path, head: str) -> None:
    """A tag of the same name does not change what the branch is called."""
    repo = repository(tmp_path / "shop")
    git(repo, "switch", "-q", "-c", "topic/one")
    git(repo, "tag", "topic/one")
    (tmp_path / "nothing").mkdir()
    if head == "link":
        (repo / ".git/HEAD").unlink()
        (repo / ".git/HEAD").symlink_to("refs/heads/topic/one")
    elif head != "branch":
        git(repo, "switch", "-q", *(["--detach"] if head == "detached" else ["--orphan", "topic2"]))
    expected = {"detached": "", "unborn": "topic2"}.get(head, "topic/one")
    assert Git(tmp_path / "nothing").find_branch(repo / ".git") == expected
