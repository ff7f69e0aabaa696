"""Wake-ups for folders, by real folders and the system's own events."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agenttalk.adapters.mailbox import watch as module
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.mailbox.watch import FolderWatcher, InotifyEvent, parse_events
from agenttalk.contracts.errors import MissingError

T = TypeVar("T")
SOON = 60.0
"""Seconds to wait for what must come. What the same thread did is readable at once; for that 0 will do."""
OUTBOX = "agents/pm/outbox/plan_shop"
INBOX = "agents/dev/inbox/plan_shop"
PLAN = "system_runtime/plans/plan_shop"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in (OUTBOX, INBOX, PLAN):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def watching(root: Path, scenario: Callable[[FolderWatcher], Awaitable[T]], **selection: Any) -> T:
    """Run a scenario with a watch that has started."""

    async def run() -> T:
        watch = FolderWatcher(root, **selection)
        try:
            await watch.start()
            return await scenario(watch)
        finally:
            watch.close()

    return asyncio.run(run())


def told_after(root: Path, act: Callable[[], object], **selection: Any) -> set[str]:
    """The folders that are told after something was done."""

    async def scenario(watch: FolderWatcher) -> set[str]:
        assert await watch.wait_for_change(0) == set()
        act()
        assert not watch.why_polling
        return await watch.wait_for_change(0)

    return watching(root, scenario, **selection)


def put(folder: Path, name: str = "cmd_build_001.msg.json") -> None:
    """As a good neighbour does: written aside, then moved into place."""
    with SafeFolder.open(folder) as opened:
        opened.write(name, b"{}")


def test_a_file_that_is_moved_in_is_told_by_its_folder(root: Path) -> None:
    aside = root / "aside"
    aside.touch()
    assert told_after(root, lambda: aside.rename(root / OUTBOX / "a.msg.json")) == {OUTBOX}
    assert told_after(root, lambda: put(root / INBOX)) == {INBOX}


def test_a_file_is_told_when_it_is_complete_and_not_before(root: Path) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        with (root / OUTBOX / "a.msg.json").open("wb", buffering=0) as file:
            file.write(b"{")
            assert await watch.wait_for_change(0) == set()
            file.write(b"}")
        assert await watch.wait_for_change(0) == {OUTBOX}

    watching(root, scenario)


def test_who_waits_is_woken(root: Path) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        for _ in range(20):
            waiting = asyncio.create_task(watch.wait_for_change(SOON))
            await asyncio.sleep(0)
            assert not waiting.done()
            put(root / OUTBOX)
            assert await waiting == {OUTBOX}

    watching(root, scenario)


def test_nothing_is_told_when_the_time_is_up_and_nothing_twice(root: Path) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        assert await watch.wait_for_change(0.001) == set()
        put(root / OUTBOX)
        assert await watch.wait_for_change(0.001) == {OUTBOX}
        assert await watch.wait_for_change(0.001) == set()

    watching(root, scenario)


def test_a_burst_is_told_at_once(root: Path) -> None:
    def burst() -> None:
        for number in range(500):
            put(root / OUTBOX, f"{number}.msg.json")
            put(root / INBOX, f"{number}.msg.json")

    async def scenario(watch: FolderWatcher) -> None:
        burst()
        assert await watch.wait_for_change(SOON) == {OUTBOX, INBOX}
        assert await watch.wait_for_change(0) == set()

    watching(root, scenario)


def test_what_comes_before_the_woken_one_runs_is_told_with_the_rest(root: Path) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        waiting = asyncio.create_task(watch.wait_for_change(SOON))
        await asyncio.sleep(0)
        put(root / OUTBOX)
        for _ in range(2):  # the event is taken in the second turn of the loop; who waits runs in the third
            await asyncio.sleep(0)
        assert not waiting.done()
        put(root / INBOX)
        assert await waiting == {OUTBOX, INBOX}

    watching(root, scenario)


def test_what_came_while_nobody_waited_is_kept_also_for_one_who_was_cancelled(root: Path) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        waiting = asyncio.create_task(watch.wait_for_change(SOON))
        await asyncio.sleep(0)
        put(root / OUTBOX)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        put(root / INBOX)
        assert await watch.wait_for_change(0) == {OUTBOX, INBOX}

    watching(root, scenario)


def test_hidden_names_wake_nobody(root: Path) -> None:
    def act() -> None:
        (root / OUTBOX / ".sent").mkdir()
        put(root / OUTBOX / ".sent")
        put(root / OUTBOX, ".agenttalk-0.tmp")
        (root / "agents/.trash/outbox/plan_shop").mkdir(parents=True)
        (root / "agents/pm/outbox/.cache").mkdir()

    assert told_after(root, act) == set()


def test_taking_files_away_wakes_nobody(root: Path) -> None:
    put(root / OUTBOX, "a")
    put(root / OUTBOX, "b")
    (root / OUTBOX / ".sent").mkdir()

    def act() -> None:
        (root / OUTBOX / "a").rename(root / OUTBOX / ".sent/a")
        (root / OUTBOX / "b").unlink()

    assert told_after(root, act) == set()


def test_of_a_plan_only_its_dag_wakes(root: Path) -> None:
    assert told_after(root, lambda: put(root / PLAN, "plan_status.json")) == set()
    assert told_after(root, lambda: put(root / PLAN, "task_dag.json")) == {PLAN}
    assert told_after(root, lambda: put(root / PLAN, "active_dag_ref.json")) == {PLAN}


def test_files_beside_the_folders_of_plans_wake_nobody(root: Path) -> None:
    def act() -> None:
        for folder in ("", "agents", "agents/pm", "agents/pm/outbox", "system_runtime", "system_runtime/plans"):
            put(root / folder, "status_heartbeat.json")

    assert told_after(root, act) == set()


@pytest.mark.parametrize(
    ("selection", "told"),
    [
        ({}, {OUTBOX, INBOX, PLAN}),
        ({"boxes": ("outbox",)}, {OUTBOX, PLAN}),
        ({"boxes": ("outbox",), "plans": False}, {OUTBOX}),
        ({"boxes": (), "plans": True}, {PLAN}),
        ({"agents": ("dev",), "plans": False}, {INBOX}),
        ({"agents": ("nobody", "../pm", "")}, {PLAN}),
    ],
)
def test_only_what_was_asked_for_is_told(root: Path, selection: dict[str, Any], told: set[str]) -> None:
    def act() -> None:
        put(root / OUTBOX)
        put(root / INBOX)
        put(root / PLAN, "task_dag.json")

    assert told_after(root, act, **selection) == told


def test_new_folders_are_told_and_watched(root: Path) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        here = "agents"
        for name in ("new", "outbox", "plan_b"):
            here = f"{here}/{name}"
            (root / here).mkdir()
            assert await watch.wait_for_change(0) == {here}
        put(root / here)
        assert await watch.wait_for_change(0) == {here}
        (root / "system_runtime/plans/plan_b").mkdir()
        assert await watch.wait_for_change(0) == {"system_runtime/plans/plan_b"}
        put(root / "system_runtime/plans/plan_b", "task_dag.json")
        assert await watch.wait_for_change(0) == {"system_runtime/plans/plan_b"}

    watching(root, scenario)


def test_a_root_may_be_empty_at_first(tmp_path: Path) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        (tmp_path / OUTBOX).mkdir(parents=True)
        (tmp_path / PLAN).mkdir(parents=True)
        told = await watch.wait_for_change(0)
        assert told >= {OUTBOX, PLAN, "agents", "agents/pm"}
        put(tmp_path / OUTBOX)
        assert await watch.wait_for_change(0) == {OUTBOX}

    watching(tmp_path, scenario)


PRODUCER = """
import os, sys
os.chdir(sys.argv[1])
sys.stdin.read(1)
for number in range(200):
    folder = f"agents/a{number}/outbox/plan_{number}"
    os.makedirs(folder)
    os.close(os.open(f"{folder}/{number}.msg.json", os.O_CREAT | os.O_WRONLY))
"""


@pytest.mark.parametrize("starts", ["before the watch", "after the watch"])
def test_a_file_put_into_a_folder_just_made_is_never_missed(root: Path, starts: str) -> None:
    """Whoever looks once after the start, then into what is told, and nowhere else, sees every file."""
    files = {root / f"agents/a{number}/outbox/plan_{number}/{number}.msg.json" for number in range(200)}

    def look(folder: str) -> set[Path]:
        return set(root.glob(f"{folder}/*.msg.json"))

    def start(producer: subprocess.Popen[bytes]) -> None:
        assert producer.stdin
        producer.stdin.close()

    async def scenario(watch: FolderWatcher) -> None:
        seen = look("agents/*/outbox/*")
        if starts == "after the watch":
            start(producer)
        while seen < files:
            told = await watch.wait_for_change(SOON)
            assert told, f"{len(files - seen)} files were missed"
            seen = seen.union(*map(look, told))

    with subprocess.Popen([sys.executable, "-c", PRODUCER, root], stdin=subprocess.PIPE) as producer:
        if starts == "before the watch":
            start(producer)
        watching(root, scenario)


def test_folders_that_come_and_go_under_the_same_name_are_watched_as_they_are_now(root: Path) -> None:
    box = root / "agents/pm/outbox"

    def remake() -> None:
        (box / "plan_shop").rmdir()
        (box / "plan_shop").mkdir()

    def swap() -> None:
        (box / "other").mkdir(exist_ok=True)
        exchange = 2
        here = -100
        first, second = os.fsencode(box / "plan_shop"), os.fsencode(box / "other")
        assert ctypes.CDLL(None).renameat2(here, first, here, second, exchange) == 0

    def move_away_and_back() -> None:
        (root / "agents/pm").rename(root / "agents/gone")
        (root / "agents/gone").rename(root / "agents/pm")

    async def scenario(watch: FolderWatcher) -> None:
        for act in (remake, swap, move_away_and_back, swap, remake):
            act()
            assert OUTBOX in await watch.wait_for_change(0)
            put(root / OUTBOX)
            assert await watch.wait_for_change(0) == {OUTBOX}
            (root / OUTBOX / "cmd_build_001.msg.json").unlink()

    watching(root, scenario)


def test_a_moved_folder_is_told_by_its_new_name(root: Path) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        (root / "agents/pm").rename(root / "agents/qa")
        new = "agents/qa/outbox/plan_shop"
        assert await watch.wait_for_change(0) == {"agents/qa", "agents/qa/outbox", new}
        put(root / new)
        assert await watch.wait_for_change(0) == {new}

    watching(root, scenario)


def test_a_box_that_moves_to_an_agent_just_made_is_watched_there(root: Path) -> None:
    """Its new place is looked through before its old one is known to be empty."""

    async def scenario(watch: FolderWatcher) -> None:
        (root / "agents/a_new").mkdir()
        (root / "agents/pm/outbox").rename(root / "agents/a_new/outbox")
        new = "agents/a_new/outbox/plan_shop"
        assert new in await watch.wait_for_change(0)
        put(root / new)
        assert await watch.wait_for_change(0) == {new}

    watching(root, scenario)


def test_a_folder_that_left_is_watched_no_longer(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    away = tmp_path_factory.mktemp("away") / "pm"

    async def scenario(watch: FolderWatcher) -> None:
        (root / "agents/pm").rename(away)
        assert await watch.wait_for_change(0) == set()
        put(away / "outbox/plan_shop")
        assert await watch.wait_for_change(0) == set()

    watching(root, scenario)


def test_a_box_made_in_an_agent_that_is_looked_at_anyway_is_let_go_with_it(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    away = tmp_path_factory.mktemp("away") / "pm"
    new = "agents/pm/inbox/plan_shop"

    async def scenario(watch: FolderWatcher) -> None:
        (root / "agents/pm").rename(root / "agents/other")
        (root / "agents/other").rename(root / "agents/pm")
        (root / new).mkdir(parents=True)
        assert new in await watch.wait_for_change(0)
        (root / "agents/pm").rename(away)
        assert await watch.wait_for_change(0) == set()
        put(away / "inbox/plan_shop")
        put(away / "outbox/plan_shop")
        assert await watch.wait_for_change(0) == set()

    watching(root, scenario)


def test_symlinks_are_not_followed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    away = tmp_path_factory.mktemp("away")
    for name in ("plan_a", "plan_b", "outbox/plan_c"):
        (away / name).mkdir(parents=True)
    (root / "agents/pm/outbox/plan_a").symlink_to(away / "plan_a")

    def act() -> None:
        (root / "agents/pm/outbox/plan_b").symlink_to(away / "plan_b")
        (root / "agents/evil").symlink_to(away)
        for name in ("plan_a", "plan_b", "outbox/plan_c"):
            put(away / name)

    assert told_after(root, act) == set()


def test_a_folder_that_turns_into_a_symlink_is_let_go(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    away = tmp_path_factory.mktemp("away")

    def act() -> None:
        (root / OUTBOX).rmdir()
        (root / OUTBOX).symlink_to(away)
        put(away)

    assert told_after(root, act) == set()


def test_a_name_that_is_not_utf_8_can_be_opened_as_it_is_told(root: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    folder = f"agents/pm/outbox/{name}"

    async def scenario(watch: FolderWatcher) -> None:
        (root / folder).mkdir()
        assert await watch.wait_for_change(0) == {folder}
        put(root / folder)
        assert await watch.wait_for_change(0) == {folder}

    watching(root, scenario)


def lose_events(root: Path) -> None:
    """Fill the system's queue until it drops what comes."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text(encoding="ascii"))
    if limit > 100_000:
        pytest.skip("the queue is too long to be filled quickly")
    names = [root / OUTBOX / name for name in ("a", "b")]
    names[0].touch()
    for number in range(limit + 2):
        names[number % 2].rename(names[(number + 1) % 2])


async def told_until(watch: FolderWatcher, wanted: set[str]) -> None:
    told: set[str] = set()
    while not told >= wanted:
        more = await watch.wait_for_change(0)
        assert more, f"{wanted - told} was not told"
        told |= more


def test_when_the_system_loses_events_everything_is_told_and_watched_anew(root: Path) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        lose_events(root)
        late = "agents/late/inbox/plan_late"
        (root / late).mkdir(parents=True)
        await told_until(watch, {OUTBOX, INBOX, PLAN, late})
        put(root / late)
        assert await watch.wait_for_change(0) == {late}

    watching(root, scenario)


@pytest.mark.parametrize("moments", [0, 1, 2, 3])
def test_who_is_cancelled_while_everything_is_watched_anew_leaves_nothing_out(root: Path, moments: int) -> None:
    async def scenario(watch: FolderWatcher) -> None:
        lose_events(root)
        first = asyncio.create_task(told_until(watch, {OUTBOX, INBOX, PLAN}))
        for _ in range(moments):
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await told_until(watch, {OUTBOX, INBOX, PLAN})
        second = asyncio.create_task(watch.wait_for_change(SOON))
        await asyncio.sleep(0)
        put(root / INBOX)
        assert await second == {INBOX}

    watching(root, scenario)


def test_events_are_read_as_the_system_writes_them() -> None:
    def event(watch: int, mask: int, name: bytes = b"") -> bytes:
        return struct.pack("=iIII", watch, mask, 0, len(name)) + name

    data = event(1, module.MOVED_TO, b"a.msg.json\0\0\0\0\0\0") + event(2, module.IGNORED)
    data += event(3, module.CREATE | module.ISDIR, b"caf\xe9\0\0\0\0") + event(-1, module.OVERFLOW)
    assert list(parse_events(data)) == [
        InotifyEvent(1, module.MOVED_TO, "a.msg.json"),
        InotifyEvent(2, module.IGNORED, ""),
        InotifyEvent(3, module.CREATE | module.ISDIR, os.fsdecode(b"caf\xe9")),
        InotifyEvent(-1, module.OVERFLOW, ""),
    ]
    assert list(parse_events(b"")) == []


def test_a_root_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingError):
        told_after(tmp_path / "missing", lambda: None)


def test_closing_lets_go_of_who_waits_and_of_every_descriptor(root: Path) -> None:
    def descriptors() -> list[str]:
        return sorted(path.name for path in Path("/proc/self/fd").iterdir())

    async def scenario() -> None:
        asyncio.get_running_loop().run_in_executor(None, int)
        before = descriptors()
        watch = FolderWatcher(root)
        await watch.start()
        waiting = asyncio.create_task(watch.wait_for_change(SOON))
        await asyncio.sleep(0)
        watch.close()
        assert await waiting == set()
        assert watch.why_polling == "it is closed"
        watch.close()
        assert await watch.wait_for_change(0) == set()
        assert descriptors() == before

    asyncio.run(scenario())


def test_a_watch_that_never_started_only_waits(root: Path) -> None:
    async def scenario() -> None:
        watch = FolderWatcher(root)
        assert await watch.wait_for_change(0) == set()
        watch.close()

    asyncio.run(scenario())


LIMITED = """
import asyncio, sys
from pathlib import Path
from agenttalk.adapters.mailbox.watch import FolderWatcher

limit, root = sys.argv[1], Path(sys.argv[2])
name, _, value = limit.partition("=")
Path("/proc/sys/user", name).write_text(value)
print("limited")

async def scenario():
    watch = FolderWatcher(root)
    await watch.start()
    if watch.why_polling:
        print("at the start")
    (root / "agents/one/outbox/plan_new").mkdir(parents=True)
    print(sorted(await watch.wait_for_change(0)))
    print(watch.why_polling)
    (root / "agents/one/outbox/plan_new/a").touch()
    print(sorted(await watch.wait_for_change(0)))
    watch.close()

asyncio.run(scenario())
"""


def limited(limit: str, root: Path) -> list[str]:
    """What a program prints that may watch less: the limits of a user namespace are its own."""
    try:
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", sys.executable, "-c", LIMITED, limit, root],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare command here")
    lines = done.stdout.splitlines()
    if lines[:1] != ["limited"]:
        pytest.skip(f"limits cannot be set here: {done.stderr.strip()}")
    assert not done.stderr
    return lines[1:]


def test_where_no_watch_can_be_had_it_polls_and_says_why(root: Path) -> None:
    assert limited("max_inotify_instances=0", root) == [
        "at the start",
        "[]",
        "too many programs watch or files are open (raise fs.inotify.max_user_instances or ulimit -n)",
        "[]",
    ]


def test_where_there_are_too_many_folders_it_polls_and_says_why(root: Path) -> None:
    assert limited("max_inotify_watches=3", root) == [
        "at the start",
        "[]",
        "too many folders are watched (raise fs.inotify.max_user_watches)",
        "[]",
    ]


def test_what_was_found_before_the_limit_was_reached_is_told(root: Path) -> None:
    watched = 1 + 1 + 2 * 3 + 3  # the root, agents, two agents with a box of one plan, plans with one
    told, why, later = limited(f"max_inotify_watches={watched + 1}", root)
    assert told == "['agents/one']"
    assert "too many folders" in why
    assert later == "[]"
