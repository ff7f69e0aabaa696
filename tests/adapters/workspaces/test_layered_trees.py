"""Trees that are overlays over one pristine tree: nothing that a check left there, or in the pristine tree, stays."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from adapters.workspaces.test_warm_trees import HOSTILE, MORE, content, keep_times
from adapters.workspaces.treeskit import attempt, begin, git, opened, repository, run, taken, write
from agenttalk.adapters import overlay_process, overlays
from agenttalk.adapters.overlays import OverlayMounts
from agenttalk.adapters.workspaces import checkouts, sealed_trees, tree_reader
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.tree_reader import blob_id
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from kits.sandboxkit import run_tests_as_another_user


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = repository(tmp_path / "shop", MORE)
    (folder / "bin/run").chmod(0o755)
    (folder / "link").symlink_to("README.md")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "more")
    return folder


@pytest.fixture(autouse=True)
def _works(tmp_path: Path) -> None:
    if (mounts := overlays.start_overlays(tmp_path)) is None:
        pytest.skip("overlays do not work here")
    mounts.close()


@pytest.fixture
def space(repo: Path) -> Iterator[PlanWorkspace]:
    made = opened(repo, overlay_files=0)
    yield made
    run(made.release())
    assert list((repo.parent / "home" / "sealed").iterdir()) == []


def pristine(repo: Path) -> Path:
    """Where the pristine tree lies."""
    [found] = [path for path in (repo.parent / "home" / "sealed").iterdir() if (path / "mark").exists()]
    return found / "tree"


def next_commit(repo: Path) -> str:
    changed = {"src/price.py": "changed\n", "added/here.txt": "new\n", "README.md": "other\n", "src/deep/one.txt": None}
    write(repo, {**changed, "many/3.txt": None})
    (repo / "tests/test_price.py").unlink()
    (repo / "tests").rmdir()
    write(repo, {"tests": "a file now\n", "bin/run": None, "bin/run/deep.txt": "a folder now\n"})
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "next")
    return git(repo, "rev-parse", "HEAD")


@pytest.mark.rest_but("swap_files", "forget_times", "hide_change", "link_file")
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.__name__)
def test_nothing_that_a_check_left_reaches_the_next(
    repo: Path, space: PlanWorkspace, hostile: Callable[[Path], object]
) -> None:
    base = run(space.ensure())
    trees = [base, next_commit(repo), base]
    other = opened(repo, home=repo.parent / "fresh")

    async def use() -> None:
        expected = {}
        for tree in trees:
            async with other.checkouts.open_sealed(tree) as fresh:
                expected[tree] = content(fresh.path)
            await other.release()
        for tree in trees:
            async with space.checkouts.open_sealed(tree, layered=True) as sealed:
                assert sealed.namespace is not None
                lower = content(pristine(repo))
                assert content(sealed.path) == expected[tree]
                with suppress(OSError):  # nothing can be moved or linked out of a mount; and the trees differ
                    hostile(sealed.path)
                assert content(pristine(repo)) == lower == expected[base]

    run(use())


def grow_file(top: Path) -> None:
    keep_times(lambda path: path.write_text("assert None\n"), top / "tests/test_price.py")


def swap_link(top: Path) -> None:
    (top / "link").unlink()
    (top / "link").symlink_to("src/price.py")


def open_folder(top: Path) -> None:
    (top / "src").chmod(0o777)


def drop_folder(top: Path) -> None:
    (top / "src/deep/one.txt").unlink()
    (top / "src/deep").rmdir()


PLANTED = (
    grow_file,
    swap_link,
    open_folder,
    drop_folder,
    lambda top: (top / "bin/run").chmod(0o644),
    lambda top: (top / "conftest.py").write_text("evil\n"),
    lambda top: (top / "many/new").mkdir(),
    lambda top: os.mkfifo(top / "src/fifo"),
    lambda top: os.link(top / "README.md", top.parent / "second"),
    lambda top: (top / "README.md").unlink(),
)


@pytest.mark.rest_but("grow_file", "swap_link")
@pytest.mark.parametrize("plant", PLANTED)
def test_a_pristine_tree_that_a_program_without_a_sandbox_changed_is_not_used_again(
    repo: Path, space: PlanWorkspace, plant: Callable[[Path], object]
) -> None:
    async def use() -> None:
        base = await space.ensure()
        async with space.checkouts.open_sealed(base, layered=True) as sealed:
            expected, first = content(sealed.path), pristine(repo)
        async with space.checkouts.open_sealed(base, layered=True) as sealed:
            assert content(sealed.path) == expected
            assert pristine(repo) == first  # the same one, of which nothing was written again
        plant(first)
        async with space.checkouts.open_sealed(base, layered=True) as sealed:
            assert content(sealed.path) == expected
            assert pristine(repo) != first

    run(use())


@pytest.mark.rest
def test_all_of_this_holds_for_a_user_without_rights() -> None:
    """Such a user mounts in a namespace of its own. Tests are skipped where that is forbidden."""
    here = "adapters/workspaces/test_layered_trees.py"
    passed = run_tests_as_another_user(here, "adapters/workspaces/test_warm_trees.py", "-k", "not without_rights")
    assert passed > 2 * len(HOSTILE) + len(PLANTED)


def test_a_link_to_the_folder_of_the_user_is_laid_over_and_goes_with_the_overlay(repo: Path, tmp_path: Path) -> None:
    (repo / "node_modules").mkdir()
    (repo / "node_modules/x").write_text("x")
    linked = opened(repo, home=tmp_path / "linked", link=("node_modules",), overlay_files=0)

    async def use() -> None:
        async with linked.checkouts.open_sealed(await linked.ensure(), layered=True) as sealed:
            assert (sealed.path / "node_modules/x").read_text() == "x"
            assert sealed.readonly == (repo / "node_modules",)
        await linked.release()

    run(use())


def mounts_of(process: int) -> str:
    """What is mounted where, as a process sees it."""
    return Path(f"/proc/{process}/mountinfo").read_text()


def test_trees_that_are_checked_at_once_share_their_files_and_nothing_else(space: PlanWorkspace, repo: Path) -> None:
    async def use() -> None:
        base = await space.ensure()
        inodes = space.checkouts.open_sealed(base, layered=True)
        async with inodes as one, space.checkouts.open_sealed(base, layered=True) as two:
            (one.path / "README.md").write_text("x")
            assert (two.path / "README.md").read_text() == MORE["README.md"]
            assert sum(path.is_file() for path in (repo.parent / "home/sealed").rglob("price.py")) == 1
            assert one.namespace is not None
            assert mounts_of(one.namespace.pid).count(f"{repo.parent}/home/sealed/") == 2
            keeper = one.namespace.pid
        assert str(repo.parent) not in mounts_of(keeper)

    run(use())


def test_what_a_cancelled_check_had_opened_is_removed(space: PlanWorkspace, repo: Path) -> None:
    async def use() -> None:
        base = await space.ensure()

        async def check() -> None:
            async with space.checkouts.open_sealed(base, layered=True):
                await asyncio.Event().wait()

        for pause in (0, 0.001, 0.01, 0.1, 0.5):
            task = asyncio.ensure_future(check())
            await asyncio.sleep(pause)
            task.cancel()
            await asyncio.wait({task})
        assert len(list((repo.parent / "home/sealed").iterdir())) <= 1  # the pristine tree

    run(use())


def test_without_the_process_that_mounts_a_tree_is_laid_out_as_without_overlays(space: PlanWorkspace) -> None:
    async def use() -> None:
        base = await space.ensure()
        async with space.checkouts.open_sealed(base, layered=True) as sealed:
            expected, namespace = content(sealed.path), sealed.namespace
            assert namespace is not None
            os.kill(namespace.pid, signal.SIGKILL)
        for _ in range(2):
            async with space.checkouts.open_sealed(base, layered=True) as sealed:
                assert sealed.namespace is None
                assert content(sealed.path) == expected

    run(use())


@pytest.mark.parametrize("user", ["", overlay_process.USER])
def test_the_mounts_end_with_the_engine_and_nobody_else_sees_them(tmp_path: Path, user: str) -> None:
    try:
        mounts = OverlayMounts(user)
    except OSError as error:
        pytest.skip(f"no overlays here: {error}")
    if not mounts.work_in(tmp_path):
        mounts.close()
        pytest.skip("overlays do not work here")
    assert list(tmp_path.iterdir()) == []
    for name in ("lower", "one/upper", "one/work", "one/tree"):
        (tmp_path / name).mkdir(parents=True)
    seen = mounts.mount(tmp_path, "one", "lower")
    (seen / "file").write_text("x")
    assert list((tmp_path / "one/tree").iterdir()) == list((tmp_path / "lower").iterdir()) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    with pytest.raises(OSError, match="No such file"):
        mounts.mount(tmp_path, "two", "lower")
    assert mounts._process.stdin is not None
    mounts._process.stdin.close()  # as the death of the engine does
    mounts._process.wait(60)
    mounts.close()


def test_a_small_tree_is_written_anew(repo: Path) -> None:
    space = opened(repo, overlay_files=len(MORE) + 2)

    async def use() -> None:
        async with space.checkouts.open_sealed(await space.ensure(), layered=True) as sealed:
            assert sealed.namespace is None
        await space.release()

    run(use())


def test_a_tree_that_is_open_outlasts_the_end_of_another_use(space: PlanWorkspace) -> None:
    async def use() -> None:
        base = await space.ensure()
        async with space.checkouts.open_sealed(base, layered=True) as sealed:
            await space.release()
            assert (sealed.path / "README.md").read_text() == MORE["README.md"]

    run(use())


@pytest.mark.parametrize(
    "touch",
    [
        lambda tree: (tree / "conftest.py").write_text("evil\n"),
        lambda tree: (tree / "README.md").write_text("evil\n"),
        lambda tree: (tree / "README.md").unlink(),
        lambda tree: (tree / "src").chmod(0o777),
        lambda tree: (tree / "empty").mkdir(),
    ],
    ids=["added", "changed", "removed", "rights", "folder"],
)
def test_a_pristine_tree_that_is_touched_while_it_is_written_is_not_used(
    space: PlanWorkspace, monkeypatch: pytest.MonkeyPatch, touch: Callable[[Path], object]
) -> None:
    """A program without a sandbox is quicker than the first proof."""
    real, written = sealed_trees.write_fresh, list[Path]()

    def write(*args: Any) -> sealed_trees.WarmTree:
        made = real(*args)
        if not written:
            touch(made.path)
        written.append(made.path)
        return made

    async def use() -> None:
        base = await space.ensure()
        async with space.checkouts.open_sealed(base, layered=True) as sealed:
            expected = content(sealed.path)
        await space.release()
        monkeypatch.setattr(sealed_trees, "write_fresh", write)
        async with space.checkouts.open_sealed(base, layered=True) as sealed:
            assert content(sealed.path) == expected
            assert sealed.namespace is None
        assert len(written) == 1
        assert not written[0].exists()

    run(use())


def test_a_tree_that_is_closed_stays_where_another_sandbox_is_being_set_up(repo: Path, space: PlanWorkspace) -> None:
    """A sandbox has a copy of all mounts, and fails when one is gone that it has just listed."""

    def copy_mounts(pid: int) -> subprocess.Popen[bytes]:
        copy = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", "echo here; exec sleep 600"]
        enter = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "--"]
        try:
            process = subprocess.Popen([*enter, *copy], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            pytest.skip("there is no nsenter here")
        assert process.stdout is not None
        if process.stdout.readline() != b"here\n":
            process.communicate()
            pytest.skip("the mounts cannot be copied here")
        return process

    def list_mounts(process: subprocess.Popen[bytes]) -> list[str]:
        lines = Path(f"/proc/{process.pid}/mountinfo").read_text().splitlines()
        return [line.split()[4] for line in lines if " - overlay " in line and str(repo.parent) in line]

    async def use() -> None:
        base = await space.ensure()
        async with space.checkouts.open_sealed(base, layered=True) as mine:
            assert mine.namespace is not None
            async with space.checkouts.open_sealed(base, layered=True):
                sandbox = copy_mounts(mine.namespace.pid)
                before = list_mounts(sandbox)
                assert len(before) == 2
            assert list_mounts(sandbox) == before
            sandbox.kill()
            sandbox.communicate()
        assert [path for path in (repo.parent / "home/sealed").iterdir() if (path / "tree").exists()] == [
            pristine(repo).parent
        ]

    run(use())


# Clones that are copied from the tree that checks share


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each tree that was asked for was copied. Here also small ones are."""
    monkeypatch.setattr(checkouts, "_MANY", 0)
    monkeypatch.setattr(GitObjects, "are_loose", lambda *_: True)
    real, found = sealed_trees.copy_tree, list[bool]()

    def copy(*args: Any) -> bool:
        found.append(False)
        found[-1] = real(*args)
        return found[-1]

    monkeypatch.setattr(sealed_trees, "copy_tree", copy)
    return found


def files_of(clone: Path) -> dict[str, Any]:
    """What a clone holds beside its own .git."""
    return {path: held for path, held in content(clone).items() if path.partition("/")[0] != ".git"}


def test_a_clone_that_is_copied_is_as_one_that_git_checks_out(
    repo: Path, space: PlanWorkspace, copied: list[bool]
) -> None:
    for number, commit in enumerate((run(space.ensure()), next_commit(repo))):
        mine = begin(space, attempt("mine", number + 1), onto=commit, shared=True).path
        other = begin(space, attempt("other", number + 1), onto=commit).path
        assert copied == [True] * (number + 1)
        assert files_of(mine) == files_of(other)
        assert git(mine, "status", "--porcelain") == ""
        assert git(mine, "ls-files", "--stage") == git(other, "ls-files", "--stage")
        read = list[str]()

        def count(data: bytes, algorithm: str, read: list[str] = read) -> str:
            read.append(blob_id(data, algorithm))
            return read[-1]

        index = mine.parent / "index"
        os.utime(index, ns=(0, max(path.lstat().st_ctime_ns for path in mine.rglob("*")) + 1))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tree_reader, "blob_id", count)
            assert taken(space, attempt("mine", number + 1)).changes == ()
        assert len(read) <= 2  # links are always read: nothing else is
        write(mine, {"README.md": "changed\n"})
        assert [each.path for each in taken(space, attempt("mine", number + 1)).changes] == ["README.md"]


@pytest.mark.parametrize("touch", PLANTED, ids=lambda each: each.__name__)
def test_what_others_did_to_the_shared_tree_is_in_no_clone(
    repo: Path, space: PlanWorkspace, copied: list[bool], touch: Callable[[Path], object]
) -> None:
    base = run(space.ensure())

    async def use() -> None:
        async with space.checkouts.open_sealed(base, layered=True):
            pass

    run(use())
    expected = files_of(begin(space, attempt("first"), onto=base).path)
    touch(pristine(repo))
    assert files_of(begin(space, attempt("mine"), onto=base, shared=True).path) == expected
    assert len(copied) == 1


def test_a_tree_that_differs_too_much_from_the_shared_one_is_checked_out(
    repo: Path, space: PlanWorkspace, copied: list[bool]
) -> None:
    base = run(space.ensure())
    begin(space, attempt("first"), onto=base, shared=True)
    write(repo, {f"new/{number}.txt": f"{number}\n" for number in range(60)})
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "many")
    clone = begin(space, attempt("mine"), onto=git(repo, "rev-parse", "HEAD"), shared=True).path
    assert copied == [True, False]
    assert len(list((clone / "new").iterdir())) == 60
    assert git(clone, "status", "--porcelain") == ""


def test_an_answer_that_comes_too_late_counts_for_no_other_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        mounts = OverlayMounts()
    except OSError as error:
        pytest.skip(f"no overlays here: {error}")
    if not mounts.work_in(tmp_path):
        mounts.close()
        pytest.skip("overlays do not work here")
    for name in ("lower", "one/upper", "one/work", "one/tree"):
        (tmp_path / name).mkdir(parents=True)
    os.kill(mounts.namespace.pid, signal.SIGSTOP)
    monkeypatch.setattr(overlays, "_SECONDS", 0.0)
    with pytest.raises(OSError, match="does not answer"):
        mounts.mount(tmp_path, "one", "lower")
    os.kill(mounts.namespace.pid, signal.SIGCONT)
    monkeypatch.undo()
    with pytest.raises(OSError, match="did not answer"):
        mounts.unmount(tmp_path, "one")
    mounts.close()
