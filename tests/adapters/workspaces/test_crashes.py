"""A process that dies anywhere, and the next one that goes on.

The whole life of a small plan is run in a forked process that kills itself before its n-th change of the world: a file
that is opened for writing, made, renamed or removed, or a git that is started. Then it is run again, undisturbed. As
every date is handed in, the plan must end at the very same commit as without a death.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from adapters.workspaces.treeskit import FILES, NOW, attempt, files, git, plain, recipe, repository, run, write
from agenttalk.adapters.workspaces.paths import WorkspaceSettings
from agenttalk.adapters.workspaces.results import AttemptCommit, MergeCandidate, WorkspaceAttempt
from agenttalk.adapters.workspaces.user_branch import LandingResult
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.rules.core.scope import read_globs
from effort import DEEP, cases, some

EVENTS = {
    "subprocess.Popen",
    "os.chmod",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
TURNS: list[tuple[WorkspaceAttempt, dict[str, str | bytes | None]]] = [
    (attempt("one"), {"src/price.py": "one\n", "tests/test_price.py": "weak\n", "one/a.txt": "1\n"}),
    (attempt("two"), {"two.txt": "2\n", "README.md": None}),
    (attempt("one", 2), {"src/price.py": "one again\n", "one/a.txt": None, "one/b.txt": "2\n"}),
]


async def turn(space: PlanWorkspace, number: int) -> None:
    """What an engine does with a task, whatever was done of it before."""
    who, written = TURNS[number]
    if await space.find_merge(who.command):
        return
    taken = await space.attempts.find_taken(who)
    if taken is None:
        first = await space.attempts.find_taken(TURNS[0][0]) if number == 2 else None
        clone = await space.attempts.begin(who, at=NOW, previous=first.commit if first else None)
        write(clone.path, written)
        taken = await space.attempts.take_work(who, at=NOW)  # type: ignore[assignment]
    assert isinstance(taken, AttemptCommit)
    found = await space.make_candidate(taken, at=NOW, protected=read_globs(["tests/**"]))
    assert isinstance(found, MergeCandidate)
    async with space.checkouts.open_sealed(found.tree) as sealed:
        assert (sealed.path / "tests" / "test_price.py").read_text() == FILES["tests/test_price.py"]
    assert await space.follow(found.commit, at=NOW) == found.commit
    await space.attempts.drop(who)


async def life(folder: Path) -> None:
    """A plan from its beginning to its end."""
    space = await PlanWorkspace.open(WorkspaceSettings(folder, "shop", folder.parent / "home"))
    await space.sweep([who for who, _ in TURNS])
    await space.checkouts.environments.prepare(await space.ensure(), recipe("mkdir .venv; echo 1 > .venv/x"))
    for number in range(len(TURNS)):
        await turn(space, number)
    assert isinstance(await space.land(at=NOW), LandingResult)
    await space.sweep()


def forked(folder: Path, *, fatal: int = 0, hold: Callable[[int], None] | None = None) -> tuple[int, int]:
    """Live in a process of its own; its exit status, and how many changes it made or began."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            seen = [0]

            def hook(event: str, args: tuple[Any, ...]) -> None:
                if event in EVENTS or (event == "open" and isinstance(args[2], int) and args[2] & WRITES):
                    seen[0] += 1
                    if seen[0] == fatal:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(hook)
            run(life(folder))
            os.write(writing, str(seen[0]).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    if hold:
        hold(child)
    told = os.read(reading, 100)
    os.close(reading)
    return os.waitpid(child, 0)[1], int(told or 0)


def outcome(folder: Path) -> dict[str, Any]:
    """How it ended: the user's files, and every ref and commit."""
    repo = folder if (folder / ".git").exists() else folder.parent / "home" / "kept.git"
    if repo == folder:
        assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "fsck", "--strict", "--connectivity-only", check=True) is not None
    home = folder.parent / "home"
    return {
        "files": files(folder),
        "refs": git(repo, "for-each-ref"),
        "log": git(repo, "log", "--format=%H %s", "agenttalk/shop"),
        "locks": [str(path) for path in repo.rglob("*.lock")],
        "left": {name: len(list((home / name).iterdir())) for name in ("temporary", "sealed", "attempts", "trash")},
        "prepared": len(list((home / "prepared").iterdir())),
    }


@pytest.fixture(scope="module")
def room() -> Iterator[Path]:
    """A place in memory, where there is one: what dies here is no disk, and waiting for one takes most of the time."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as path:
        yield Path(path)


@pytest.fixture(scope="module", params=[repository, plain], ids=["repository", "folder"])
def pattern(request: pytest.FixtureRequest, room: Path) -> tuple[Path, dict[str, Any], int]:
    """A workspace to begin with, how an undisturbed life ends, and how many changes it makes."""
    top = room / request.param.__name__
    fresh = request.param(top / "fresh" / "shop", {**FILES, "requirements.txt": "1\n"})
    shutil.copytree(fresh, top / "calm" / "shop", symlinks=True)
    status, changes = forked(top / "calm" / "shop")
    assert status == 0
    return fresh, outcome(top / "calm" / "shop"), changes


@pytest.mark.random
@pytest.mark.rest_but("repository")
def test_a_death_before_any_change_is_made_good(pattern: tuple[Path, dict[str, Any], int]) -> None:
    fresh, expected, changes = pattern
    room = fresh.parent.parent
    assert changes > 100
    step = 1 if DEEP else 131
    for fatal in some(range(random.Random(changes).randrange(step) + 1, changes + 1, step)):
        folder = room / str(fatal) / "shop"
        shutil.copytree(fresh, folder, symlinks=True)
        status, _ = forked(folder, fatal=fatal)
        assert os.WIFSIGNALED(status)
        assert forked(folder)[0] == 0, f"the life after a death at {fatal} failed"
        assert outcome(folder) == expected, f"a death at {fatal} made a difference"
        shutil.rmtree(room / str(fatal))


@pytest.mark.random
@pytest.mark.rest_but("repository")
def test_a_life_of_many_deaths_comes_to_the_same_end(pattern: tuple[Path, dict[str, Any], int]) -> None:
    fresh, expected, changes = pattern
    room = fresh.parent.parent
    dice = random.Random(changes)
    folder = room / "often" / "shop"
    shutil.copytree(fresh, folder, symlinks=True)
    for _ in range(cases(15)):
        forked(folder, fatal=dice.randrange(1, changes))
    assert forked(folder)[0] == 0
    assert outcome(folder) == expected


@pytest.mark.random
@pytest.mark.rest_but("repository")
def test_a_machine_that_dies_with_git_at_work_is_made_good(pattern: tuple[Path, dict[str, Any], int]) -> None:
    """Everything is killed at some moment, the git that was running too. Its locks are old when we come back."""
    fresh, expected, _ = pattern
    room = fresh.parent.parent
    dice = random.Random(1)
    for number in range(cases(6)):
        folder = room / str(number) / "shop"
        shutil.copytree(fresh, folder, symlinks=True)
        moment = dice.randrange(2, 60)

        def strike(child: int, moment: int = moment) -> None:
            """Wait for the n-th git, and kill it and its parent."""
            met: set[int] = set()
            while Path(f"/proc/{child}/stat").exists():
                for pid in children(child) - met:
                    met.add(pid)
                    if len(met) == moment:
                        os.kill(child, signal.SIGSTOP)
                        for each in (*children(child), child):
                            os.kill(each, signal.SIGKILL)
                if state(child) == "Z":
                    return

        forked(folder, hold=strike)
        for lock in folder.parent.rglob("*.lock"):
            os.utime(lock, ns=(0, 0))
            if lock.name == "packed-refs.lock":
                lock.unlink()  # as the user of a machine that died has to
        assert forked(folder)[0] == 0
        assert outcome(folder) == expected


def children(pid: int) -> set[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return {int(child) for task in tasks for child in (task / "children").read_text().split()}
    except (FileNotFoundError, ProcessLookupError):
        return set()


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"
