"""Bringing a plan into the user's own branch, or leaving it alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import (
    FILES,
    NOW,
    attempt,
    files,
    git,
    merge,
    opened,
    plain,
    repository,
    run,
    state,
    work,
    write,
)
from agenttalk.adapters.workspaces.user_branch import LandingRefusal, LandingResult
from agenttalk.adapters.workspaces.workspace import PlanWorkspace

CHANGED = {"src/price.py": "new\n", "added/deep/a.txt": "a\n", "README.md": None, "src": None}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop")


@pytest.fixture
def space(repo: Path) -> PlanWorkspace:
    space = opened(repo)
    clone_files = {"src/price.py": "new\n", "added/deep/a.txt": "a\n", "README.md": None, "run.sh": "#!/bin/sh\n"}
    merge(space, work(space, attempt(), clone_files))
    return space


AFTER = {**FILES, "src/price.py": "new\n", "added/deep/a.txt": "a\n", "run.sh": "#!/bin/sh\n"}
del AFTER["README.md"]


def land(space: PlanWorkspace, into: str | None = None) -> LandingResult | LandingRefusal:
    return run(space.land(at=NOW, into=into))


def test_a_clean_work_tree_is_moved_forward_with_its_branch(repo: Path, space: PlanWorkspace) -> None:
    tip = run(space.ensure())
    assert land(space) == LandingResult(tip, "fast-forward")
    assert git(repo, "rev-parse", "main") == tip
    assert git(repo, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert files(repo) == AFTER
    assert git(repo, "status", "--porcelain") == ""
    assert "merge a plan" in git(repo, "reflog", "main")
    assert land(space) == LandingResult(tip, "nothing")


def test_work_of_the_user_s_is_merged_with_a_merge_commit(repo: Path, space: PlanWorkspace) -> None:
    write(repo, {"mine.txt": "mine\n"})
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "mine")
    found = land(space)
    assert isinstance(found, LandingResult)
    assert found.how == "merge"
    assert files(repo) == {**AFTER, "mine.txt": "mine\n"}
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "log", "-1", "--format=%s") == "Merge plan shop into main"
    assert len(git(repo, "log", "-1", "--format=%P").split()) == 2


def test_ignored_and_other_untracked_files_do_not_matter(repo: Path, space: PlanWorkspace) -> None:
    write(repo, {"x.log": "log\n", "notes.txt": "mine\n"})
    assert isinstance(land(space), LandingResult)
    assert files(repo) == {**AFTER, "x.log": "log\n", "notes.txt": "mine\n"}


def conflict(repo: Path) -> None:
    write(repo, {"src/price.py": "mine\n"})
    git(repo, "commit", "-qam", "mine")


def unstaged(repo: Path) -> None:
    write(repo, {"tests/test_price.py": "half\n"})


def staged(repo: Path) -> None:
    write(repo, {"tests/test_price.py": "half\n"})
    git(repo, "add", "-A")


def deleted(repo: Path) -> None:
    (repo / "tests" / "test_price.py").unlink()


def added(repo: Path) -> None:
    write(repo, {"more.txt": "half\n"})
    git(repo, "add", "-A")


def in_the_way(repo: Path) -> None:
    write(repo, {"run.sh": "mine\n"})


def file_for_a_folder(repo: Path) -> None:
    write(repo, {"added": "mine\n"})


def link_for_a_folder(repo: Path) -> None:
    (repo.parent / "elsewhere").mkdir()
    (repo / "added").symlink_to(repo.parent / "elsewhere")


def folder_for_a_file(repo: Path) -> None:
    write(repo, {"run.sh/mine.txt": "mine\n"})


def hidden_change(repo: Path) -> None:
    git(repo, "update-index", "--assume-unchanged", "src/price.py")
    write(repo, {"src/price.py": "mine\n"})


def skipped(repo: Path) -> None:
    git(repo, "update-index", "--skip-worktree", "README.md")


def merging(repo: Path) -> None:
    (repo / ".git" / "MERGE_HEAD").write_text(git(repo, "rev-parse", "HEAD"))


def locked(repo: Path) -> None:
    (repo / ".git" / "index.lock").write_bytes(b"")


def detached(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")


def filtered(repo: Path) -> None:
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("*.py filter=lfs\n")


def with_line_ends(repo: Path) -> None:
    git(repo, "config", "core.autocrlf", "true")


def split(repo: Path) -> None:
    git(repo, "update-index", "--split-index")


@pytest.mark.rest_but("in_the_way", "added", "deleted", "staged", "conflict", "locked")
@pytest.mark.parametrize(
    "spoil",
    [
        conflict,
        unstaged,
        staged,
        deleted,
        added,
        in_the_way,
        file_for_a_folder,
        link_for_a_folder,
        folder_for_a_file,
        hidden_change,
        skipped,
        merging,
        locked,
        detached,
        filtered,
        with_line_ends,
        split,
    ],
)
def test_otherwise_nothing_at_all_is_done(repo: Path, space: PlanWorkspace, spoil: Callable[[Path], None]) -> None:
    spoil(repo)
    before = state(repo)
    found = land(space)
    assert isinstance(found, LandingRefusal)
    assert found.why
    assert state(repo) == before
    assert git(repo, "for-each-ref", "refs/agenttalk/shop/landing") == ""
    assert not list((repo.parent / "home" / "temporary").glob("*/index"))


def test_a_change_of_the_same_size_in_the_second_of_the_last_look_is_seen(repo: Path, space: PlanWorkspace) -> None:
    """git compares times by seconds, and knows by the time of the index itself which files it must read again."""
    file = repo / "src/price.py"
    text = file.read_text()
    other = text[:-2] + "#\n"
    for _ in range(100):
        file.write_text(text)
        git(repo, "update-index", "--refresh")
        looked = int(file.stat().st_mtime)
        file.write_text(other)
        if int(file.stat().st_mtime) == int((repo / ".git/index").stat().st_mtime) == looked:
            break
    else:
        pytest.fail("this machine takes more than a second for each of a hundred tries")
    probe = repo.parent / "probe"
    probe.touch()
    while int(probe.stat().st_mtime) <= looked:  # the next second
        probe.touch()
    found = land(space)
    assert isinstance(found, LandingRefusal)
    assert (found.paths, file.read_text()) == (("src/price.py",), other)


def test_a_conflict_tells_paths_and_text(repo: Path, space: PlanWorkspace) -> None:
    conflict(repo)
    found = land(space)
    assert isinstance(found, LandingRefusal)
    assert found.paths == ("src/price.py",)
    assert "mine" in found.text


def test_a_branch_that_is_not_checked_out_is_moved_without_touching_files(repo: Path, space: PlanWorkspace) -> None:
    git(repo, "branch", "release")
    write(repo, {"README.md": "half\n"})
    before = files(repo)
    tip = run(space.ensure())
    assert land(space, "release") == LandingResult(tip, "fast-forward")
    assert git(repo, "rev-parse", "release") == tip
    assert files(repo) == before
    assert isinstance(land(space, "nothing"), LandingRefusal)


def test_a_branch_that_is_checked_out_elsewhere_is_left_alone(repo: Path, space: PlanWorkspace, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    before = git(repo, "rev-parse", "side")
    found = land(space, "side")
    assert isinstance(found, LandingRefusal)
    assert "is checked out in" in found.why
    assert git(repo, "rev-parse", "side") == before


def test_a_folder_becomes_a_file_and_a_file_a_folder(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop", {"a/b": "1\n", "c": "2\n", "d": "3\n"})
    space = opened(repo)
    who = attempt()
    clone = run(space.attempts.begin(who, at=NOW)).path
    write(clone, {"a/b": None, "c": None, "d": None})
    (clone / "a").rmdir()
    write(clone, {"a": "file\n", "c/d": "deep\n"})
    (clone / "d").symlink_to("c/d")
    (clone / "a").chmod(0o755)
    found = run(space.attempts.take_work(who, at=NOW))
    merge(space, found)  # type: ignore[arg-type]
    assert isinstance(land(space), LandingResult)
    assert git(repo, "status", "--porcelain") == ""
    assert files(repo) == {"a": "file\n", "c/d": "deep\n", "d": "deep\n"}
    assert (repo / "d").is_symlink()
    assert (repo / "a").stat().st_mode & 0o100


@pytest.fixture
def folder(tmp_path: Path) -> PlanWorkspace:
    space = opened(plain(tmp_path / "folder"), home=tmp_path / "folder-home")
    merge(space, work(space, attempt(), {"src/price.py": "new\n", "added/deep/a.txt": "a\n", "README.md": None}))
    return space


def test_a_plain_folder_gets_the_plan_s_work(folder: PlanWorkspace, tmp_path: Path) -> None:
    write(tmp_path / "folder", {"x.log": "ignored\n"})
    assert isinstance(land(folder), LandingResult)
    after = {**AFTER, "x.log": "ignored\n"}
    del after["run.sh"]
    assert files(tmp_path / "folder") == after
    assert land(folder) == LandingResult(run(folder.ensure()), "nothing")
    merge(folder, work(folder, attempt("two"), {"two.txt": "2\n"}))
    assert isinstance(land(folder), LandingResult)
    assert files(tmp_path / "folder") == {**after, "two.txt": "2\n"}


def test_a_plain_folder_that_was_changed_is_left_alone(folder: PlanWorkspace, tmp_path: Path) -> None:
    write(tmp_path / "folder", {"tests/test_price.py": "mine\n"})
    before = files(tmp_path / "folder")
    assert land(folder) == LandingRefusal("the folder was changed since", ("tests/test_price.py",))
    assert files(tmp_path / "folder") == before
