"""A plan's branch follows the tip that the store names, and never overwrites what others committed."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import (
    FILES,
    NOW,
    attempt,
    candidate,
    follow,
    git,
    merge,
    opened,
    plain,
    repository,
    run,
    tree,
    work,
)
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.errors import UsageError

Make = Callable[[Path], Path]
both = pytest.mark.parametrize("make", [repository, pytest.param(plain, marks=pytest.mark.rest)])


def moved_by_others(space: PlanWorkspace, repo: Path, start: str, **written: str) -> str:
    """A commit of a person on top of another one, on the plan's branch."""
    index = repo.parent / "person-index"
    environ = {**os.environ, "GIT_INDEX_FILE": str(index)}

    def call(*args: str, text: str = "") -> str:
        command = ["git", *args]
        done = subprocess.run(command, cwd=repo, env=environ, input=text, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    call("read-tree", start)
    for name, text in written.items():
        path = name.replace("_", ".")
        blob = call("hash-object", "-w", "--stdin", text=text)
        call("update-index", "--add", "--replace", "--cacheinfo", f"100644,{blob},{path}")
    made = call("write-tree")
    commit = git(repo, "commit-tree", "-p", start, "-m", "by hand", made)
    git(repo, "update-ref", f"refs/heads/{space.branch}", commit)
    return commit


@both
def test_the_branch_follows_the_tip_however_often_it_is_asked_to(tmp_path: Path, make: Make) -> None:
    space = opened(make(tmp_path / "shop"))
    one = candidate(space, work(space, attempt("one"), {"one.txt": "1\n"}))

    async def together() -> list[str | None]:
        return await asyncio.gather(*(space.follow(one.commit, at=NOW) for _ in range(3)))

    assert set(run(together())) == {one.commit}
    two = candidate(space, work(space, attempt("two"), {"two.txt": "2\n"}))
    assert follow(space, two.commit) == two.commit == run(space.ensure())
    assert run(space.find_merge("cmd_one_001")) == one.commit
    assert run(space.find_merge("cmd_two_001")) == two.commit
    assert run(space.find_merge("cmd_three_001")) is None


def test_a_tip_that_is_several_commits_ahead_is_reached_at_once(tmp_path: Path) -> None:
    """The process died twice before the branch followed."""
    repo = repository(tmp_path / "shop")
    space = opened(repo)
    one = candidate(space, work(space, attempt("one"), {"one.txt": "1\n"}))
    late = work(space, attempt("two"), {"two.txt": "2\n"})
    two = candidate(space, late, onto=one.commit)
    assert follow(space, two.commit) == two.commit
    assert git(repo, "rev-parse", space.branch, f"refs/agenttalk/{space.plan}/tip").split() == [two.commit] * 2


def test_a_commit_of_a_person_becomes_the_tip_as_it_is(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    space = opened(repo)
    tip = run(space.ensure())
    mine = moved_by_others(space, repo, tip, by_hand="x\n")
    assert follow(space, tip) == mine == run(space.ensure())
    assert follow(space, mine) == mine


def test_a_branch_that_a_person_set_back_stays_there(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    space = opened(repo)
    begin_at = run(space.ensure())
    one = merge(space, work(space, attempt("one"), {"one.txt": "1\n"}))
    git(repo, "update-ref", f"refs/heads/{space.branch}", begin_at)
    assert follow(space, one.commit) == begin_at
    assert follow(space, begin_at) == begin_at == run(space.ensure())


def test_a_branch_that_was_deleted_comes_back_at_the_tip(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    space = opened(repo)
    one = merge(space, work(space, attempt("one"), {"one.txt": "1\n"}))
    git(repo, "update-ref", "-d", f"refs/heads/{space.branch}")
    assert follow(space, one.commit) == one.commit == run(space.ensure())


def test_a_commit_of_a_person_beside_a_new_tip_is_joined_with_it(tmp_path: Path) -> None:
    """The tip moved in the store and the branch in the repository. Both commits are kept, and so is what they changed."""
    repo = repository(tmp_path / "shop")
    space = opened(repo)
    begin_at = run(space.ensure())
    one = candidate(space, work(space, attempt("one"), {"one.txt": "1\n"}))
    mine = moved_by_others(space, repo, begin_at, by_hand="x\n")
    joined = follow(space, one.commit)
    assert git(repo, "rev-parse", f"{joined}^1", f"{joined}^2").split() == [one.commit, mine]
    assert tree(space, joined) == {**FILES, "one.txt": "1\n", "by.hand": "x\n"}
    assert run(space.ensure()) == mine  # the branch moves when the store calls it the tip
    assert follow(space, joined) == joined == run(space.ensure())
    assert run(space.list_arrivals(begin_at, joined)) == [(one.commit, "one"), (joined, None)]


def test_where_both_changed_the_same_a_joined_tip_has_what_the_person_wrote(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    space = opened(repo)
    begin_at = run(space.ensure())
    changed = {"README.md": "# theirs\n", "one.txt": "1\n", "b.txt/c": "c\n"}
    one = candidate(space, work(space, attempt("one"), changed))
    moved_by_others(space, repo, begin_at, README_md="# by hand\n", b_txt="b\n")
    joined = follow(space, one.commit)
    assert tree(space, joined) == {**FILES, "README.md": "# by hand\n", "one.txt": "1\n", "b.txt": "b\n"}


def test_a_branch_in_the_way_of_all_plans_is_named(tmp_path: Path) -> None:
    """Git keeps branches as files, so it cannot have agenttalk beside agenttalk/shop."""
    repo = repository(tmp_path / "shop")
    git(repo, "branch", "agenttalk")
    space = opened(repo)
    with pytest.raises(UsageError, match="there is a branch agenttalk") as refusal:
        run(space.ensure())
    assert refusal.value.hint == "rename it: git branch -m agenttalk NAME"
    git(repo, "branch", "-m", "agenttalk", "mine")
    assert run(space.ensure())
