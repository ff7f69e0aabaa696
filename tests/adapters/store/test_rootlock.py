"""One engine per root, many parts; a dead engine holds nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agenttalk.adapters.store.root_lock import RootLock, RunningEngine, running_engine, running_parts
from agenttalk.contracts.errors import Code, MachineError

HOLD = """
import sys
from pathlib import Path
from agenttalk.adapters.store.root_lock import RootLock
lock = RootLock.take(Path(sys.argv[1]), sys.argv[2])
if sys.argv[2] == "engine":
    lock.announce(http="http://127.0.0.1:8731", socket="/run/x.sock")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(root: Path, kind: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the root's lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_engine_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    with holder(tmp_path, "engine") as first:
        with pytest.raises(MachineError) as caught:
            RootLock.acquire(tmp_path, "engine")
        assert caught.value.code is Code.ENGINE_RUNNING
        assert f"process {first.pid} at http://127.0.0.1:8731" in caught.value.message
        assert running_engine(tmp_path) == RunningEngine(first.pid, "http://127.0.0.1:8731", "/run/x.sock")
        with pytest.raises(MachineError):
            RootLock.acquire(tmp_path, "part")


def test_a_killed_engine_holds_nothing_and_its_file_is_ignored(tmp_path: Path) -> None:
    with holder(tmp_path, "engine"):
        pass
    assert (tmp_path / "data/engine.json").exists()
    assert running_engine(tmp_path) is None
    with RootLock.acquire(tmp_path, "engine") as lock:
        lock.announce(http=None, socket=None)
        assert running_engine(tmp_path) == RunningEngine(os.getpid(), None, None)
    assert not (tmp_path / "data/engine.json").exists()


def test_a_pid_that_lives_again_is_not_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "data/engine.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"pid": os.getpid(), "http": None, "socket": None, "started": 1}))
    assert running_engine(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x", "http": null, "socket": null, "started": null}', "7"])
def test_a_broken_file_names_no_engine(tmp_path: Path, text: str) -> None:
    path = tmp_path / "data/engine.json"
    path.parent.mkdir()
    path.write_text(text)
    assert running_engine(tmp_path) is None


def test_parts_share_a_root_and_keep_engines_out(tmp_path: Path) -> None:
    with holder(tmp_path, "part"):
        with RootLock.acquire(tmp_path, "part"):
            pass
        with pytest.raises(MachineError, match="parts") as caught:
            RootLock.acquire(tmp_path, "engine")
        assert caught.value.code is Code.ENGINE_RUNNING
    with RootLock.acquire(tmp_path, "engine"):
        pass


def test_a_part_that_cannot_be_looked_at_is_listed_as_running(tmp_path: Path) -> None:
    (tmp_path / "data/parts/router.lock").mkdir(parents=True)
    [said] = running_parts(tmp_path)
    assert said.startswith("router (")
