"""A worker and its engine in two network namespaces, and packets that are lost in one direction or in both."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from doors.api.enginekit import clean, engine, read_object, until
from doors.api.start.test_worker_serve import ended, invited, submit
from kits.provekit import git, repository

pytestmark = [
    pytest.mark.rest,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="only root makes network namespaces"),
]
NOWHERE = "02:00:00:00:00:01"
"""A hardware address that nothing has: packets to it are sent, and never arrive."""


def call(*args: str) -> str:
    done = subprocess.run(["ip", *args], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"ip {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout


@dataclass
class Cable:
    """Two machines and a cable."""

    name: str
    here: str
    there: str

    def lose(self, *, to_worker: bool, to_engine: bool) -> None:
        """Have packets lost, or not any more."""
        for is_lost, args in (
            (to_worker, ("neigh", "{}", self.there, "dev", f"{self.name}a")),
            (to_engine, ("-n", self.name, "neigh", "{}", self.here, "dev", f"{self.name}b")),
        ):
            line = [part.format("replace" if is_lost else "del") for part in args]
            subprocess.run(
                ["ip", *line, *(("lladdr", NOWHERE, "nud", "permanent") if is_lost else ())],
                capture_output=True,
                check=is_lost,
            )


@pytest.fixture
def cable() -> Iterator[Cable]:
    number = os.getpid() % 16000
    name, net = f"atk{number}", f"10.231.{number // 64}.{number % 64 * 4}"
    base, last = net.rsplit(".", 1)
    made = Cable(name, f"{base}.{int(last) + 1}", f"{base}.{int(last) + 2}")
    try:
        call("netns", "add", name)
        call("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name)
        call("addr", "add", f"{made.here}/30", "dev", f"{name}a")
        call("link", "set", f"{name}a", "up")
        for args in (("addr", "add", f"{made.there}/30", "dev", f"{name}b"), ("link", "set", f"{name}b", "up")):
            call("-n", name, *args)
        yield made
    finally:
        for gone in (("netns", "del", name), ("link", "del", f"{name}a")):
            subprocess.run(["ip", *gone], capture_output=True, check=False)


@contextmanager
def worker_behind(cable: Cable, folder: Path, server: str, token: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "agenttalk", "worker", "--server", server, "--folder", str(folder), "--json"]
    with (folder.parent / "worker.log").open("a") as log:
        process = subprocess.Popen(
            ["ip", "netns", "exec", cable.name, *command, "--name", "one", "--enrol", token],
            stdout=subprocess.PIPE, stderr=log, text=True, env=clean(),
        )  # fmt: skip
    try:
        assert read_object(process)["pool"] == "agents"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=300)


@pytest.mark.parametrize(("to_worker", "to_engine"), [(True, True), (True, False), (False, True)])
def test_an_attempt_behind_a_partition_is_lost_once_and_done_once(
    tmp_path: Path, cable: Cable, *, to_worker: bool, to_engine: bool
) -> None:
    root, runs, go = tmp_path / "root", tmp_path / "runs", tmp_path / "go"
    (root / "agents").mkdir(parents=True)
    settings = f"[server]\nhost = '{cable.here}'\npublic = true\n[limits]\nworker_ttl_seconds = 6\n"
    (root / "agenttalk.toml").write_text(settings)
    repo = repository(tmp_path / "repo", {"hours": "nine\n"})
    text = (
        f"import os, time; open('{runs}', 'a').write(f'{{os.getpid()}} '); "
        f"[time.sleep(0.02) for _ in iter(lambda: os.path.exists('{go}'), True)]; "
        f"open('hours', 'w').write('eight'); print('wrote it')"
    )
    with engine(root) as running:
        client = submit(root, repo, text)
        with worker_behind(cable, tmp_path / "w", running.told["http"], invited(client)):
            until(lambda: runs.exists() and runs.read_text().strip(), "the agent runs")
            first = runs.read_text().split()[0]
            cable.lose(to_worker=to_worker, to_engine=to_engine)
            until(lambda: not Path(f"/proc/{first}").exists(), "the worker ends what it runs, by itself")
            until(lambda: client.get("/api/plans/shop")["tasks"][0]["retries"] >= 1, "the engine gives it up")
            cable.lose(to_worker=False, to_engine=False)
            go.touch()
            shown = until(lambda: ended(client), "the plan ends")
    assert shown["result"] == "done"
    # An attempt whose worker is too slow to accept it is lost before its agent runs.
    assert 2 <= len(runs.read_text().split()) <= shown["tasks"][0]["attempt"]
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"
    assert git(repo, "rev-list", "--count", "main..agenttalk/shop") == "1"
