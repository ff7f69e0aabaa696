"""Clones whose work has landed, which the next attempts get: nothing that an agent left there reaches the next agent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapters.workspaces.test_warm_trees import HOSTILE, MORE, content, folder_attributes, keep_times
from adapters.workspaces.treeskit import attempt, begin, git, opened, repository, run, taken, write
from agenttalk.adapters.workspaces import attempts
from agenttalk.adapters.workspaces.results import WorkspaceAttempt
from agenttalk.adapters.workspaces.workspace import PlanWorkspace

ONE, TWO = attempt("one"), attempt("two")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = repository(tmp_path / "shop", MORE)
    (folder / "bin/run").chmod(0o755)
    (folder / "link").symlink_to("README.md")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "more")
    return folder


@pytest.fixture
def space(repo: Path) -> Iterator[PlanWorkspace]:
    made = opened(repo)
    yield made
    run(made.release())
    assert list((repo.parent / "home" / "temporary").iterdir()) == []


def inodes(top: Path) -> dict[str, tuple[int, int]]:
    """What is the same only for a file that was not written again; the number of an inode alone comes back."""
    return {path.name: (path.stat().st_ino, path.stat().st_ctime_ns) for path in (top / "many").iterdir()}


def land(space: PlanWorkspace, who: WorkspaceAttempt) -> None:
    run(space.attempts.drop(who, keep=True))


def seen(top: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything in a clone but the index of its git, which has the inodes of its files."""
    return {path: what for path, what in content(top).items() if path != ".git/index"}


def hide_in_git(top: Path) -> None:
    """What an agent can leave for the next one in its own repository."""
    git(top, "config", "core.fsmonitor", "touch /tmp/evil")
    git(top, "update-index", "--assume-unchanged", "README.md")
    git(top, "branch", "other")
    write(
        top,
        {
            "README.md": "hidden\n",
            ".git/hooks/post-checkout": "evil\n",
            ".git/info/exclude": "*\n",
            ".git/info/attributes": "* filter=evil\n",
            ".git/objects/info/alternates": "/elsewhere\n",
            ".git/refs/replace/x": "evil\n",
        },
    )


@pytest.mark.rest_but("hide_in_git", "hide_change", "change_rights", "open_top")
@pytest.mark.parametrize("hostile", [*HOSTILE, hide_in_git], ids=lambda each: each.__name__)
def test_nothing_that_an_agent_left_reaches_the_next(
    repo: Path, space: PlanWorkspace, hostile: Callable[[Path], object]
) -> None:
    base = run(space.ensure())
    write(repo, {"src/price.py": "changed\n", "added/here.txt": "new\n", "README.md": "other\n", "many/3.txt": None})
    (repo / "bin/run").chmod(0o644)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "next")
    fresh = opened(repo, home=repo.parent / "fresh", plan="other")
    for number, onto in enumerate((base, git(repo, "rev-parse", "HEAD"), base), 1):
        expected = begin(fresh, attempt("one", number=number), onto=onto).path
        (expected / ".git/refs/heads/agenttalk/other").rename(expected / ".git/refs/heads/agenttalk/shop")
        (expected / ".git/HEAD").write_text("ref: refs/heads/agenttalk/shop\n")
        who = attempt("one", number=number)
        got = begin(space, who, onto=onto).path
        assert seen(got) == seen(expected)
        assert git(got, "status", "--porcelain") == ""
        assert all(path.stat().st_nlink == 1 for path in got.rglob("*") if path.is_file())
        assert folder_attributes(got) == []
        assert taken(space, who).changes == ()
        hostile(got)
        land(space, who)


def test_the_next_agent_gets_the_files_that_nobody_touched(space: PlanWorkspace) -> None:
    first = begin(space, ONE).path
    write(first, {"many/1.txt": "changed\n", "new.txt": "x\n"})
    kept = inodes(first)
    land(space, ONE)
    assert not first.exists()
    second = begin(space, TWO).path
    again = inodes(second)
    assert sum(again[name] == kept[name] for name in kept) > 40  # those of the last tick of the clock are not trusted
    assert again["1.txt"] != kept["1.txt"]
    assert (second / "many/1.txt").read_text() == "1\n"
    assert not (second / "new.txt").exists()


def test_a_clone_is_not_used_again_when_what_says_how_it_was_written_has_changed(space: PlanWorkspace) -> None:
    """A program without a sandbox could say there that a file of its own is what git wrote."""
    first = begin(space, ONE).path
    kept = inodes(first)
    git(first, "update-index", "--refresh")
    keep_times(lambda path: path.write_text("2\n"), first / "many/1.txt")
    environment = {**os.environ, "GIT_INDEX_FILE": str(first.parent / "index"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", "update-index", "many/1.txt"], cwd=first, env=environment, check=True)
    land(space, ONE)
    second = begin(space, TWO).path
    assert not set(inodes(second).values()) & set(kept.values())
    assert (second / "many/1.txt").read_text() == "1\n"


def test_only_work_that_has_landed_is_given_on_and_only_from_this_engine(repo: Path, space: PlanWorkspace) -> None:
    first = begin(space, ONE).path
    kept = inodes(first)
    run(space.attempts.drop(ONE))
    assert not set(inodes(begin(space, TWO).path).values()) & set(kept.values())
    later = opened(repo)  # an engine that did not make the clone
    kept = inodes(begin(space, ONE).path)
    land(later, ONE)
    assert not set(inodes(begin(later, attempt("three")).path).values()) & set(kept.values())


def test_few_clones_are_kept(repo: Path, space: PlanWorkspace) -> None:
    all_of_them = [attempt(f"t{number}") for number in range(attempts._SPARE + 2)]
    for who in all_of_them:
        begin(space, who)
    for who in all_of_them:
        land(space, who)
    assert len(list((repo.parent / "home/temporary").iterdir())) == attempts._SPARE
    assert list((repo.parent / "home/attempts").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_what_is_mounted_in_a_clone_is_not_removed(repo: Path, space: PlanWorkspace, tmp_path: Path) -> None:
    others = tmp_path / "folder of others"
    others.mkdir(mode=0o755)
    (others / "precious").write_text("x")
    first = begin(space, ONE).path
    (first / "src/with space").mkdir()
    done = subprocess.run(["mount", "--bind", str(others), str(first / "src/with space")], check=False)
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        land(space, ONE)
        second = begin(space, TWO).path
        assert content(second / "src").keys() == content(repo / "src").keys()
        assert (others / "precious").read_text() == "x"
        assert others.stat().st_mode & 0o777 == 0o755
    finally:
        for line in Path("/proc/self/mounts").read_text().splitlines():
            if "with\\040space" in line:
                subprocess.run(["umount", line.split()[1].replace("\\040", " ")], check=True)
