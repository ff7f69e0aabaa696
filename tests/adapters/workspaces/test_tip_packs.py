"""Packs of the moves of a plan's branch: with a clone of its base they make exactly the same commits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import FILES, NOW, attempt, candidate, follow, git, opened, repository, run, work
from agenttalk.contracts.errors import MachineError

FEW = {"new.txt": "1\n", "src/deep/er/file.py": "pass\n", "src/price.py": "def price():\n    return 2\n"}
MANY = {f"many/{number % 7}/{number}.txt": f"{number}\n" for number in range(500)}


@pytest.mark.parametrize(
    ("files", "algorithm"), [(FEW, "sha1"), (FEW, "sha256"), (MANY, "sha1")], ids=["by-hand", "sha256", "by-git"]
)
def test_a_pack_brings_a_clone_of_the_base_to_the_tip(tmp_path: Path, files: dict[str, str], algorithm: str) -> None:
    shop = repository(tmp_path / "shop", FILES, f"--object-format={algorithm}")
    shutil.copytree(shop, tmp_path / "clone")
    space = opened(shop)
    base = run(space.ensure())
    one = candidate(space, work(space, attempt("one"), files))
    follow(space, one.commit)
    move = run(space.pack_move(base, one.commit))
    assert (move.after, bool(move.attempt), bool(move.made)) == (one.commit, True, True)
    other = opened(tmp_path / "clone", home=tmp_path / "another")
    assert run(other.follow(one.commit, at=NOW)) is None  # it does not know the plan yet
    with pytest.raises(MachineError):
        run(other.restore(base, type(move)(one.commit)))
    for each in (type(move)(base), move, move):
        run(other.restore(base, each))
    assert run(other.follow(one.commit, at=NOW)) == one.commit
    assert run(other.split_commits(base, one.commit)) == ([one.commit], [])  # it is known as the plan's own
    names = ["ls-tree", "-r", one.commit]
    assert git(tmp_path / "clone", *names) == git(shop, *names)
    assert git(tmp_path / "clone", "fsck", "--strict", "--no-dangling") == ""


def test_a_pack_of_what_others_committed_is_made_by_git_and_belongs_to_no_attempt(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    shutil.copytree(shop, tmp_path / "clone")
    space = opened(shop)
    base = run(space.ensure())
    for number in range(3):
        (shop / "by-hand.txt").write_text(f"{number}\n")
        git(shop, "add", "-A")
        git(shop, "commit", "-q", "-m", f"by hand {number}")
    tip = git(shop, "rev-parse", "HEAD")
    move = run(space.pack_move(base, tip))
    assert (move.after, move.attempt, move.made) == (tip, "", "")
    other = opened(tmp_path / "clone", home=tmp_path / "another")
    run(other.restore(base, type(move)(base)))
    run(other.restore(base, move))
    assert git(tmp_path / "clone", "rev-list", "--count", f"{base}..{tip}") == "3"
