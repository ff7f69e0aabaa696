"""Garbage is removed, and nothing else: open plans, what the ledger names and what lies outside stay as they are."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.store import audit
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation import fsck
from agenttalk.ports.statements.plans import SET_RUN_STATE
from agenttalk.rules.operation.retention import KINDS, Kind, RetentionLimit
from agenttalk.wiring import collect_periodically, open_root
from agenttalk.wiring.garbage_collection import GarbageCollector
from agenttalk.wiring.settings.tables import GcSettings, Settings
from effort import DEEP, EFFORT
from kits.plankit import Engine, engine, plan, states, task
from kits.provekit import program, promise, repository

ALL: dict[Kind, RetentionLimit] = dict.fromkeys(KINDS, RetentionLimit(0))
LARGE = 100_000
LONG_AGO = 1_000_000_000


def agent(top: Path) -> Any:
    """A program that leaves a lot."""
    path = top / "dev.sh"
    path.write_text(
        f"mkdir -p a/b; head -c 20000 /dev/zero > a/b/c; head -c {LARGE} /dev/zero > $AGENTTALK_OUTPUTS/out; echo ok"
    )
    return {"driver": "script", "argv": ["sh", str(path)]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a plan that has ended and one that waits for a person, and what both left."""
    top = tmp_path_factory.mktemp("gc")
    root = top / "root"
    outputs = [{"name": "out", "deliverable": True}]

    async def use() -> None:
        async with engine(root) as running:
            await running.submit(
                plan(task("build", "dev", outputs=outputs), plan_id="over", agents={"dev": agent(top)})
            )
            assert states(await running.ended("over")) == {"build": "COMPLETED"}
            ask = task("ask", "ada", needs=["build"])
            await running.submit(
                plan(task("build", "dev"), ask, plan_id="open", agents={"dev": agent(top), "ada": {"driver": "human"}})
            )
            await running.asked()
            await _leave(running, root)

    asyncio.run(use())
    return top


async def _leave(running: Engine, root: Path) -> None:
    """What else may lie about."""
    for name in ("over", "open"):
        clone = root / "workspaces" / name / "attempts" / "x" / "tree"
        clone.mkdir(parents=True)
        (clone / "file").write_bytes(bytes(5000))
        (root / "workspaces" / name / "depot.git").mkdir()
        turns = root / "agents" / "dev" / "workspace" / name / "build" / ".agenttalk"
        (turns / "cmd_build_001-1.events.jsonl").write_bytes(bytes(5000))
    own = root / "agents" / "dev" / "workspace" / "over" / "build"
    closed = own / "closed"
    closed.mkdir()
    (closed / "file").write_bytes(bytes(5000))
    closed.chmod(0o500 if os.getuid() else 0)  # only root could copy it for the next test
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "file").write_text("mine")
    (own / "link").symlink_to(root.parent / "outside")
    (root / "agents" / "dev" / "workspace" / "led_away").symlink_to(root.parent / "outside")
    blobs = await running.deps.stores.blobs("default")
    for number, content in enumerate((b"1" * LARGE, b"2" * LARGE)):
        digest = (await blobs.put(content)).removeprefix("sha256:")
        if not number:
            os.utime(root / "data" / "blobs" / digest[:2] / digest[2:], (LONG_AGO, LONG_AGO))
    for path in (root / "data" / "blobs").glob("??/*"):  # the one that a message names, too
        if path.read_bytes() == bytes(LARGE):
            os.utime(path, (LONG_AGO, LONG_AGO))


def copied(made: Path, top: Path) -> None:
    """With everything that was left, links and rights included."""
    subprocess.run(["cp", "-a", f"{made}/.", str(top)], check=True)


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copied(made, tmp_path)
    return tmp_path / "root"


def collected(root: Path, keeps: dict[Kind, RetentionLimit] = ALL, *, dry_run: bool = False) -> Any:
    async def use() -> Any:
        async with open_root(root) as deps:
            return await GarbageCollector(deps, keeps).collect(dry_run=dry_run)

    return asyncio.run(use())


def sound(root: Path) -> bool:
    async def use() -> list[fsck.IntegrityFault]:
        async with open_root(root) as deps:
            return await fsck.check_root(deps)

    assert asyncio.run(use()) == []
    assert [each for each in audit.verify(root) if each.verdict.broken] == []
    return True


def tree(root: Path) -> set[str]:
    """Everything under a root but the databases."""
    found = (path.relative_to(root) for path in root.rglob("*") if not path.match("*.db*"))
    return {str(path) for path in found}


def counts(found: Any) -> dict[str, int]:
    return {kind: each["count"] for kind, each in found["freed"].items()}


GONE = {"clones": 1, "workspaces": 1, "blobs": 1, "transcripts": 2}
"""Prompts are transcripts, too."""


def is_clean(root: Path) -> bool:
    """Only what may be removed is gone, all of it, with every trace."""
    left = tree(root)
    assert "agents/dev/workspace/over/build" not in left
    assert "workspaces/over/attempts/x" not in left
    assert not any("trash/" in path or ".agenttalk-trash" in path or ".gc-" in path for path in left)
    assert {"workspaces/over/depot.git", "workspaces/open/attempts/x/tree/file"} <= left
    assert {
        "agents/dev/workspace/open/build/a/b/c",
        "agents/dev/workspace/open/build/.agenttalk/cmd_build_001-1.events.jsonl",
        "agents/dev/workspace/open/build/.agenttalk/cmd_build_001-1.prompt.txt",
    } <= left
    assert (root.parent / "outside" / "file").read_text() == "mine"
    contents = [path.read_bytes()[:1] for path in (root / "data" / "blobs").glob("??/*")]
    assert sorted(contents) == [b"\0", b"2"], "what a message names, and what is too young"
    return sound(root)


def test_what_an_ended_plan_left_is_removed_and_what_is_needed_stays(root: Path) -> None:
    before = tree(root)
    told = collected(root, dry_run=True)
    assert counts(told) == GONE
    assert tree(root) == before
    found = collected(root)
    assert counts(found) == GONE
    assert found["bytes"] == told["bytes"] > LARGE + 25_000
    assert is_clean(root)
    assert counts(collected(root)) == dict.fromkeys(KINDS, 0)


def test_an_engine_does_it_by_itself_if_that_is_configured(root: Path) -> None:
    async def use() -> None:
        async with open_root(root) as deps:
            collector = GarbageCollector(deps, ALL)
            async with collect_periodically(collector, Settings()):
                assert counts(await collector.collect(dry_run=True)) == GONE
            async with collect_periodically(collector, Settings(gc=GcSettings(every_hours=1))), asyncio.timeout(300):
                while counts(await collector.collect(dry_run=True)) != dict.fromkeys(KINDS, 0):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    asyncio.run(use())
    assert is_clean(root)


def test_by_default_nothing_is_old_enough(root: Path) -> None:
    before = tree(root)
    found = collected(root, dict.fromkeys(KINDS, RetentionLimit(30)))
    assert counts(found) == {**dict.fromkeys(KINDS, 0), "blobs": 1}
    assert {path for path in before - tree(root) if not path.startswith("data/blobs")} == set()


def test_working_folders_go_and_their_transcripts_stay_if_they_are_kept_longer(root: Path) -> None:
    found = collected(root, {**ALL, "transcripts": RetentionLimit(90)})
    assert counts(found) == {**GONE, "transcripts": 0}
    own = root / "agents" / "dev" / "workspace" / "over" / "build"
    assert sorted(str(path.relative_to(own)) for path in own.rglob("*")) == [
        ".agenttalk",
        ".agenttalk/cmd_build_001-1.events.jsonl",
        ".agenttalk/cmd_build_001-1.prompt.txt",
    ]


def test_a_plan_that_is_opened_again_keeps_what_it_has(root: Path) -> None:
    async def use() -> Any:
        async with open_root(root) as deps:
            board = await deps.stores.board("default")

            class Reopened(GarbageCollector):
                """Somebody retries the plan just when it was chosen."""

                async def _removed(self, *args: Any) -> Any:
                    await board.transact(
                        lambda tx: tx.run(SET_RUN_STATE, plan_id="over", state="RUNNING", at=deps.stamp())
                    )
                    async for each in super()._removed(*args):
                        yield each

            return await Reopened(deps, ALL).collect()

    assert counts(asyncio.run(use())) == {**dict.fromkeys(KINDS, 0), "blobs": 1}
    assert (root / "agents" / "dev" / "workspace" / "over" / "build" / "a" / "b" / "c").exists()


def die_at(root: Path, step: int) -> bool:
    """Collect in a process that is killed at a step that changes files; False when there are not that many."""
    pid = os.fork()
    if not pid:
        left = step

        def hook(event: str, _: Any) -> None:
            nonlocal left
            if event in {"os.rename", "os.remove", "os.rmdir", "os.link"}:
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            collected(root)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.random
def test_whoever_is_killed_at_any_step_leaves_what_the_next_one_finishes(made: Path, tmp_path: Path) -> None:
    steps = 0
    while True:
        top = tmp_path / str(steps)
        top.mkdir()
        copied(made, top)
        killed = die_at(top / "root", steps)
        if killed:
            collected(top / "root")
        assert is_clean(top / "root")
        if not killed:
            break
        steps += 1 if DEEP else round(2 / EFFORT)
    assert steps >= 20


def test_what_is_put_in_again_while_it_is_looked_at_stays(root: Path) -> None:
    """The content is named by nobody, and old; while references are gathered, somebody puts it in anew."""
    [old] = [path for path in (root / "data" / "blobs").glob("??/*") if path.read_bytes() == b"1" * LARGE]

    async def use(deps: Deps) -> Any:
        class Again(GarbageCollector):
            async def _removed(self, *args: Any) -> Any:
                await (await deps.stores.blobs("default")).put(b"1" * LARGE)
                async for each in super()._removed(*args):
                    yield each

        return await Again(deps, ALL).collect()

    async def run() -> Any:
        async with open_root(root) as deps:
            return await use(deps)

    assert counts(asyncio.run(run()))["blobs"] == 0
    assert old.read_bytes() == b"1" * LARGE


def test_clones_of_tasks_that_failed_or_wait_stay_until_their_plan_has_ended_and_garbage_is_collected(
    tmp_path: Path,
) -> None:
    """A person can look at what an agent left there. That of landed work goes at once."""
    repo = repository(tmp_path / "repo", dict.fromkeys(("lands", "fails", "waits"), "todo\n"))
    root, clones = tmp_path / "root", tmp_path / "root" / "workspaces" / "p" / "attempts"
    checks: dict[str, dict[str, Any]] = {
        "lands": {"id": "ok", "kind": "run", "run": "grep -q done lands"},
        "fails": {"id": "ok", "kind": "run", "run": "grep -q never fails"},
        "waits": {"id": "ok", "kind": "human", "question": "Is it good?"},
    }
    agents = {name: program(tmp_path, name, f"pathlib.Path('{name}').write_text('done')") for name in checks}
    tasks = [
        task(name, name, workspace="repo", promise=promise(check), max_reexecute_times=0)
        for name, check in checks.items()
    ]

    async def use() -> None:
        async with engine(root, proving=True) as running:
            await running.submit(plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
            await running.until(
                lambda now: (
                    [states(now)[name] for name in ("lands", "fails")] == ["COMPLETED", "FAILED"]
                    and sorted(path.name for path in clones.iterdir()) == ["fails", "waits"]
                )
            )
            await running.asked()

    asyncio.run(use())
    assert collected(root)["freed"]["clones"]["count"] == 0
    assert [(clones / name / "tree" / name).read_text() for name in ("fails", "waits")] == ["done", "done"]

    async def end() -> None:
        async with engine(root, proving=True) as running:
            await running.dispatcher.operator.cancel("p", by="ada")
            await running.until(lambda now: now.state == "ENDED")

    asyncio.run(end())
    left = sorted(path.name for path in clones.iterdir())
    assert "fails" in left
    assert collected(root)["freed"]["clones"]["count"] == len(left)
    assert list(clones.iterdir()) == []
