"""What killed processes left behind is removed, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.mailbox.sweep import file_time, sweep
from agenttalk.adapters.store.files import DraftFile

TEMPORARY = f".agenttalk-{'0a' * 16}.tmp"
DRAFT = f".{'0a' * 12}.tmp"
HOUR = 3600
PLACES = [
    "",
    "agents/pm",
    "agents/pm/inbox/plan_shop",
    "agents/pm/inbox/plan_shop/.processed/_payload/m1/deep",
    "agents/pm/outbox/plan_shop",
    "agents/pm/workspace/plan_shop/inputs/build/report",
    "system_runtime",
    "system_runtime/plans/plan_shop/commands",
    "system_runtime/agent_status",
    "data",
    "data/blobs",
]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[SafeFolder]:
    with SafeFolder.open(tmp_path) as opened:
        yield opened


def leave(path: Path, *, age: float = 2 * HOUR) -> Path:
    """A file that was written that many seconds ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    written = path.stat().st_mtime_ns - int(age * 1e9)
    os.utime(path, ns=(written, written))
    return path


def swept(root: SafeFolder) -> int:
    return sweep(root, HOUR, file_time(root))


def files(root: SafeFolder) -> list[Path]:
    return sorted(path for path in root.path.rglob("*") if not path.is_dir())


@pytest.mark.parametrize("place", PLACES)
def test_an_old_temporary_is_removed_wherever_files_are_written(root: SafeFolder, place: str) -> None:
    leave(root.path / place / TEMPORARY)
    assert swept(root) == 1
    assert files(root) == []


@pytest.mark.parametrize("place", PLACES)
def test_a_young_temporary_is_somebodys_work(root: SafeFolder, place: str) -> None:
    young = leave(root.path / place / TEMPORARY, age=HOUR - 60)
    assert swept(root) == 0
    assert files(root) == [young]


@pytest.mark.parametrize(
    "name",
    [
        "cmd_build_001.msg.json",
        ".agenttalk-0.tmp",
        f"{TEMPORARY}x",
        f"x{TEMPORARY}",
        f"{TEMPORARY}\n",
        TEMPORARY.upper(),
        TEMPORARY.removeprefix("."),
        TEMPORARY.replace("a", "g"),
        DRAFT,
    ],
)
def test_files_of_other_names_are_never_removed(root: SafeFolder, name: str) -> None:
    kept = sorted(leave(root.path / place / name) for place in PLACES[:-2])
    assert swept(root) == 0
    assert files(root) == kept


@pytest.mark.parametrize("place", ["data", "data/blobs"])
def test_old_drafts_of_the_store_are_removed_too(root: SafeFolder, place: str) -> None:
    leave(root.path / place / DRAFT)
    kept = [leave(root.path / place / name) for name in ("engine.json", "system.db", "ab/cdef")]
    assert swept(root) == 1
    assert files(root) == sorted(kept)


KILLED = """
import resource, signal, sys
from pathlib import Path
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.store.files import write_durably

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
path, data = Path(sys.argv[1]), b"too long"
if path.parts[0] == "data":
    write_durably(path, data)
else:
    with SafeFolder.open(Path()) as root:
        root.write(str(path), data, parents=True)
"""


@pytest.mark.parametrize("path", ["agents/pm/outbox/plan_shop/a.msg.json", "data/engine.json", "data/blobs/x"])
def test_what_a_process_leaves_that_is_killed_while_it_writes_is_swept(root: SafeFolder, path: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, path], cwd=root.path, timeout=600, check=False)
    assert done.returncode == -signal.SIGXFSZ
    assert [left.read_bytes() for left in files(root)] == [b"too "]
    assert swept(root) == 0
    assert sweep(root, HOUR, file_time(root) + HOUR * 10**9 + 1) == 1
    assert files(root) == []


def test_a_draft_that_is_being_written_is_left_alone(root: SafeFolder) -> None:
    draft = DraftFile(root.path / "data/blobs")
    draft.write(b"half")
    assert swept(root) == 0
    draft.place(root.path / "data/blobs/ab/cd")
    draft.close()
    assert files(root) == [root.path / "data/blobs/ab/cd"]


def test_only_regular_files_are_removed(root: SafeFolder) -> None:
    folder = root.path / "agents/pm/outbox/plan_shop"
    (folder / TEMPORARY).mkdir(parents=True)
    other = TEMPORARY.replace("0", "1")
    (folder / other).symlink_to("nowhere")
    os.utime(folder / other, ns=(0, 0), follow_symlinks=False)
    os.mkfifo(folder / TEMPORARY.replace("0", "2"))
    os.utime(folder / TEMPORARY.replace("0", "2"), ns=(0, 0))
    os.utime(folder / TEMPORARY, ns=(0, 0))
    assert swept(root) == 0
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize(
    "link", ["agents", "agents/pm", "agents/pm/outbox", "agents/pm/outbox/plan_shop", "system_runtime", "data"]
)
def test_no_symlink_is_followed(root: SafeFolder, tmp_path_factory: pytest.TempPathFactory, link: str) -> None:
    away = tmp_path_factory.mktemp("away")
    kept = [leave(away / below / TEMPORARY) for below in ("", "pm", "outbox", "plan_shop", "pm/outbox/plan_shop")]
    (root.path / link).parent.mkdir(parents=True, exist_ok=True)
    (root.path / link).symlink_to(away)
    assert swept(root) == 0
    assert all(path.exists() for path in kept)


def test_folders_are_entered_only_so_deep(root: SafeFolder) -> None:
    reached = leave(root.path / "system_runtime" / "/".join("x" * 16) / TEMPORARY)
    beyond = leave(root.path / "system_runtime" / "/".join("x" * 17) / TEMPORARY)
    assert swept(root) == 1
    assert not reached.exists()
    assert beyond.exists()


def test_what_belongs_to_nobody_we_know_is_not_entered(root: SafeFolder) -> None:
    kept = leave(root.path / "src/project" / TEMPORARY)
    assert swept(root) == 0
    assert kept.exists()


def test_ages_are_told_by_the_clock_of_the_files(root: SafeFolder) -> None:
    """A root whose files are all years ahead is swept like any other."""
    old = leave(root.path / "agents/pm" / TEMPORARY, age=-10 * 365 * 24 * HOUR)
    now = old.stat().st_mtime_ns
    assert swept(root) == 0
    assert sweep(root, HOUR, now + HOUR * 10**9) == 0
    assert sweep(root, HOUR, now + HOUR * 10**9 + 1) == 1


def test_asking_the_time_leaves_nothing_behind(root: SafeFolder) -> None:
    first = file_time(root)
    assert files(root) == []
    assert file_time(root) >= first
    assert (leave(root.path / "a", age=0)).stat().st_mtime_ns >= first


def test_a_folder_that_cannot_be_read_keeps_nobody_else_from_being_swept(root: SafeFolder) -> None:
    leave(root.path / "agents/pm/outbox/plan_shop" / TEMPORARY)
    (root.path / "agents/README.md").touch()
    (root.path / "agents/qa").mkdir()
    (root.path / "agents/qa/inbox").touch()
    assert swept(root) == 1
