"""What checkouts need beside the tree: links, and what a command makes once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import (
    FILES,
    attempt,
    begin,
    git,
    opened,
    recipe,
    refused,
    repository,
    run,
    taken,
    work,
    write,
)
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.errors import Code, MachineError, UsageError

LOCKED = {**FILES, "package-lock.json": "1\n", "src/lib.js": "1\n"}
MAKE = "mkdir -p node_modules/a src/__pycache__ && cp package-lock.json node_modules/a/x && echo . >> ../../../runs && echo x > src/made"


@pytest.fixture
def space(tmp_path: Path) -> PlanWorkspace:
    return opened(repository(tmp_path / "shop", LOCKED))


def runs(space: PlanWorkspace) -> int:
    noted = space._home.folder / "runs"
    return len(noted.read_text().splitlines()) if noted.exists() else 0


def test_a_command_is_run_once_per_content_of_the_lock_files(space: PlanWorkspace) -> None:
    tip = run(space.ensure())
    made = run(space.checkouts.environments.prepare(tip, recipe(MAKE)))
    assert made.environment.paths == ("node_modules", "src/made")
    other = work(space, attempt("one"), {"src/lib.js": "2\n"})
    assert run(space.checkouts.environments.prepare(other.commit, recipe(MAKE), onto=tip)) == made
    assert runs(space) == 1
    newer = work(space, attempt("two"), {"package-lock.json": "2\n"})
    assert run(space.checkouts.environments.prepare(newer.commit, recipe(MAKE), onto=tip)) != made
    assert run(space.checkouts.environments.prepare(tip, recipe(f"true; {MAKE}"))) != made
    assert runs(space) == 3


def test_two_that_ask_at_once_get_one_run(space: PlanWorkspace) -> None:
    async def ask() -> None:
        tip = await space.ensure()
        one, two = await asyncio.gather(
            space.checkouts.environments.prepare(tip, recipe(MAKE)),
            space.checkouts.environments.prepare(tip, recipe(MAKE)),
        )
        assert one == two

    run(ask())
    assert runs(space) == 1


def test_what_was_made_is_seen_by_clones_and_checkouts_and_is_no_part_of_the_tree(space: PlanWorkspace) -> None:
    tip = run(space.ensure())
    made = run(space.checkouts.environments.prepare(tip, recipe(MAKE)))
    who = attempt()
    clone = begin(space, who, prepared=made)
    assert (clone.path / "node_modules" / "a" / "x").read_text() == "1\n"
    assert clone.readonly[1:] == tuple(made.environment.folder / path for path in made.environment.paths)
    write(clone.path, {"a.txt": "a\n"})
    assert [change.path for change in taken(space, who).changes] == ["a.txt"]
    (clone.path / "src" / "made").unlink()
    write(clone.path, {"src/made": "mine now\n"})
    assert [change.path for change in taken(space, who).changes] == ["a.txt"]

    async def look() -> None:
        async with space.checkouts.open_sealed(tip, prepared=made) as sealed:
            assert sealed.path == made.environment.folder
            assert sealed.made == clone.readonly[1:]
            assert (sealed.path / "node_modules" / "a" / "x").read_text() == "1\n"

    run(look())
    assert (made.environment.folder / "node_modules" / "a" / "x").exists()
    assert not (made.environment.folder / "node_modules" / "a").stat().st_mode & 0o222


def test_what_somebody_changed_is_made_again(space: PlanWorkspace) -> None:
    tip = run(space.ensure())
    made = run(space.checkouts.environments.prepare(tip, recipe(MAKE)))
    poisoned = made.environment.folder / "node_modules" / "a" / "x"
    before = poisoned.stat()
    poisoned.chmod(0o644)
    poisoned.write_text("2\n")
    os.utime(poisoned, ns=(before.st_atime_ns, before.st_mtime_ns))
    poisoned.chmod(before.st_mode)
    again = run(space.checkouts.environments.prepare(tip, recipe(MAKE)))
    assert (again.environment.folder / "node_modules" / "a" / "x").read_text() == "1\n"
    assert runs(space) == 2
    run(space.sweep())
    assert not made.environment.folder.exists()
    assert run(space.checkouts.environments.prepare(tip, recipe(MAKE))) == again
    assert runs(space) == 2


def test_a_command_that_fails_keeps_nothing(space: PlanWorkspace) -> None:
    tip = run(space.ensure())
    with pytest.raises(MachineError, match="ended with code 3: no such package") as caught:
        run(space.checkouts.environments.prepare(tip, recipe("mkdir node_modules; echo no such package; exit 3")))
    assert caught.value.code is Code.COMMAND_FAILED
    assert list((space._home.folder / "prepared").iterdir()) == []


def test_links_lead_to_the_user_s_folder_and_are_not_taken(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    write(repo, {"data/big.bin": "big\n", "deep/data/x": "x\n"})
    space = opened(repo, link=("data", "deep/data"))
    who = attempt()
    clone = begin(space, who)
    assert (clone.path / "data" / "big.bin").read_text() == "big\n"
    assert clone.readonly == (repo / ".git" / "objects", repo / "data", repo / "deep" / "data")
    write(clone.path, {"a.txt": "a\n", "deep/b.txt": "b\n"})
    assert [change.path for change in taken(space, who).changes] == ["a.txt", "deep/b.txt"]
    (clone.path / "climb").symlink_to("data/../.git")
    assert set(refused(space, who)) == {"climb"}
    run(space.attempts.drop(who))
    assert (repo / "data" / "big.bin").exists()


def test_links_that_lead_elsewhere_or_stand_for_tracked_paths_are_refused(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    (repo / "out").symlink_to("/etc")
    for path in ("../x", "/etc", ".git", ".git/hooks", "nothing", "out", "", "src/../src"):
        with pytest.raises(UsageError, match="can be linked"):
            opened(repo, link=(path,))
    git(repo, "clean", "-fdq")
    with pytest.raises(UsageError, match="part of the tree"):
        begin(opened(repo, link=("src",)), attempt())
