"""Folders in which one tree after the other is checked: nothing that a check left there reaches the next."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import FILES, git, opened, repository, run, write
from agenttalk.adapters.workspaces.workspace import PlanWorkspace

MORE = {
    **FILES,
    "src/deep/one.txt": "one\n",
    "bin/run": "#!/bin/sh\n",
    **{f"many/{n}.txt": f"{n}\n" for n in range(80)},
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = repository(tmp_path / "shop", MORE)
    (folder / "bin/run").chmod(0o755)
    (folder / "link").symlink_to("README.md")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "more")
    return folder


@pytest.fixture
def space(repo: Path) -> PlanWorkspace:
    return opened(repo)


def content(top: Path) -> dict[str, tuple[int, bytes | str]]:
    """A folder and everything below it: rights, and what is in it."""
    found: dict[str, tuple[int, bytes | str]] = {".": (top.lstat().st_mode, "")}
    for path in sorted(top.rglob("*")):
        mode = path.lstat().st_mode
        text: bytes | str = ""
        if stat.S_ISLNK(mode):
            text = str(path.readlink())
        elif stat.S_ISREG(mode):
            text = path.read_bytes()
        found[str(path.relative_to(top))] = (mode, text)
    return found


def keep_times(change: Callable[[Path], object], path: Path) -> None:
    """Change a file, and set its times to what they were."""
    status = path.stat()
    change(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def hide_change(top: Path) -> None:
    keep_times(lambda path: path.write_text("assert None\n"), top / "tests/test_price.py")


def swap_folder(top: Path) -> None:
    moved = top.parent / f"moved-{time.monotonic_ns()}"
    (top / "src").rename(moved)
    (top / "src").symlink_to(moved)


def link_file(top: Path) -> None:
    """Keep a second name of a file, by which it could be changed later."""
    os.link(top / "README.md", top.parent / f"second-{time.monotonic_ns()}")


def link_inside(top: Path) -> None:
    (top / "src/price.py").unlink()
    os.link(top / "README.md", top / "src/price.py")


def add_files(top: Path) -> None:
    write(
        top,
        {"conftest.py": "evil\n", "src/__pycache__/price.pyc": "evil\n", "new/deep/er.txt": "x\n", ".git/config": "x"},
    )
    os.mkfifo(top / "src/fifo")


def change_rights(top: Path) -> None:
    (top / "bin/run").chmod(0o644)
    (top / "README.md").chmod(0o4755)
    (top / "src").chmod(0o777)
    (top / "many").chmod(0)


def set_attribute(top: Path) -> None:
    try:
        os.setxattr(top / "src", "user.evil", b"1")
        os.setxattr(top / "many/1.txt", "user.evil", b"1")
    except OSError:
        pytest.skip("no attributes here")


def remove_all(top: Path) -> None:
    for path in sorted(top.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def replace_link(top: Path) -> None:
    (top / "link").unlink()
    (top / "link").symlink_to("/etc/passwd")


def folder_for_file(top: Path) -> None:
    (top / "README.md").unlink()
    (top / "README.md").mkdir()
    (top / "README.md/x").write_text("x")
    (top / "bin/run").unlink()
    (top / "bin").rmdir()
    (top / "bin").write_text("file")


def swap_for_equal(top: Path) -> None:
    """Put another file with the same content and times in its place, and keep a way to change it."""
    path = top / "src/deep/one.txt"
    status = path.stat()
    other = top.parent / f"other-{time.monotonic_ns()}"
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()
    os.link(other, path)


def swap_files(top: Path) -> None:
    """Two files change their names: neither was written."""
    swap(top / "many/4.txt", top / "many/5.txt")


def swap_folders(top: Path) -> None:
    swap(top / "src/deep", top / "tests")


def swap(one: Path, other: Path) -> None:
    spare = one.with_name("spare")
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


def forget_times(top: Path) -> None:
    """Every file is from 1970, and one was changed before."""
    (top / "many/7.txt").write_text("8\n")
    for path in top.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, ns=(0, 0))


def make_device(top: Path) -> None:
    (top / "many/6.txt").unlink()
    for where in (top / "many/6.txt", top / "src/device"):
        try:
            os.mknod(where, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except OSError:
            where.write_text("no device can be made here")


def open_top(top: Path) -> None:
    top.chmod(0o777)


HOSTILE = (
    open_top,
    swap_files,
    swap_folders,
    forget_times,
    make_device,
    hide_change,
    swap_folder,
    link_file,
    link_inside,
    add_files,
    change_rights,
    set_attribute,
    remove_all,
    replace_link,
    folder_for_file,
    swap_for_equal,
)


@pytest.mark.rest_but("open_top", "forget_times", "make_device", "replace_link")
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.__name__)
def test_nothing_that_a_check_left_reaches_the_next(
    repo: Path, space: PlanWorkspace, hostile: Callable[[Path], object]
) -> None:
    base = run(space.ensure())
    write(repo, {"src/price.py": "changed\n", "added/here.txt": "new\n", "README.md": "other\n", "many/3.txt": None})
    (repo / "bin/run").chmod(0o644)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "next")
    trees = [base, git(repo, "rev-parse", "HEAD"), base]
    other = opened(repo, home=repo.parent / "fresh")

    async def use() -> None:
        expected = {}
        for tree in trees:
            async with other.checkouts.open_sealed(tree) as fresh:
                expected[tree] = content(fresh.path)
            await other.release()  # so the next one is fresh, too
        for tree in trees:
            async with space.checkouts.open_sealed(tree) as sealed:
                assert content(sealed.path) == expected[tree]
                assert all(path.stat().st_nlink == 1 for path in sealed.path.rglob("*") if path.is_file())
                assert folder_attributes(sealed.path) == []
                hostile(sealed.path)
        await space.release()
        assert list((repo.parent / "home" / "sealed").iterdir()) == []

    run(use())


def folder_attributes(top: Path) -> list[str]:
    """Names of attributes that a check set."""
    return [name for path in (top, *top.rglob("*")) if not path.is_symlink() for name in os.listxattr(path)]


def test_a_folder_is_used_again_and_files_that_nobody_touched_are_not_written_again(
    space: PlanWorkspace,
) -> None:
    async def use() -> None:
        base = await space.ensure()
        inodes = []
        for _ in range(3):
            async with space.checkouts.open_sealed(base) as sealed:
                inodes.append({path.name: path.stat().st_ino for path in (sealed.path / "many").iterdir()})
                (sealed.path / "new.txt").write_text("x")
        shared = [name for name in inodes[0] if inodes[1][name] == inodes[0][name]]
        assert len(shared) > 40  # those of the last tick of the clock are not trusted
        await space.release()

    run(use())


def test_two_that_are_checked_at_once_have_folders_of_their_own(space: PlanWorkspace) -> None:
    async def use() -> None:
        base = await space.ensure()
        async with space.checkouts.open_sealed(base) as one, space.checkouts.open_sealed(base) as two:
            assert one.path != two.path
            (one.path / "README.md").write_text("x")
            assert (two.path / "README.md").read_text() == FILES["README.md"]
        await space.release()

    run(use())


def test_a_lock_that_a_check_left_for_git_does_not_stop_the_next(repo: Path) -> None:
    """A program without a sandbox can reach what lies beside its tree."""
    write(repo, {f"more/{number}.txt": f"{number}\n" for number in range(200)})
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "many")
    space = opened(repo)

    async def use() -> None:
        base = await space.ensure()
        async with space.checkouts.open_sealed(base) as sealed:
            expected = content(sealed.path)
            for number in range(60):  # so many are written by git
                (sealed.path / f"more/{number}.txt").unlink()
            (sealed.path.parent / "index.lock").touch()
        async with space.checkouts.open_sealed(base) as sealed:
            assert content(sealed.path) == expected
        await space.release()

    run(use())
