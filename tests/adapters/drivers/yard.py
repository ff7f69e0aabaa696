"""A place to start programs in, and to see what became of them."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenttalk.adapters.drivers import keeper
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.ports.agents import ProgramTurn, TurnEnd

PYTHON = (sys.executable, "-I", "-S", "-c")

DAEMON = """
mkfifo ready
env -i setsid sh -c 'echo $$ > daemon.pid; echo > ready; exec sleep 1000' &
read line < ready
"""
"""A shell script that leaves behind a process without parent, session or environment of its own."""

RUNS_A_TURN = """
import asyncio, sys
from pathlib import Path
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.ports.agents import ProgramTurn
turn = ProgramTurn(lease=sys.argv[1], argv=("sh", "-c", sys.argv[2]), cwd=Path.cwd(), prompt="", timeout=1000)
asyncio.run(ScriptDriver(LocalProcesses()).run(turn))
"""
"""An engine that does nothing but run one turn. Arguments: lease, shell script."""


@dataclass(frozen=True)
class Yard:
    """A working directory and a lease of its own."""

    path: Path
    lease: str

    def turn(self, *argv: str, prompt: str = "", timeout: float = 30, **rest: Any) -> ProgramTurn:
        return ProgramTurn(lease=self.lease, argv=argv, cwd=self.path, prompt=prompt, timeout=timeout, **rest)

    def run(self, *argv: str, environ: Mapping[str, str] = os.environ, grace: float = 2.0, **rest: Any) -> TurnEnd:
        """One turn, as an engine would have it."""
        driver = ScriptDriver(LocalProcesses(), environ=environ, grace=grace)
        return asyncio.run(driver.run(self.turn(*argv, **rest)))

    def sh(self, script: str, **rest: Any) -> TurnEnd:
        """A turn of a shell script."""
        return self.run("sh", "-c", script, **rest)

    def python(self, code: str, **rest: Any) -> TurnEnd:
        """A turn of a Python program."""
        return self.run(*PYTHON, code, **rest)

    def late(self, argv: tuple[str, ...], *, going: str = "going", grace: float = 0.1) -> TurnEnd:
        """A turn that meets its time limit after the program has made the file `going`.

        How much time it takes to get there is a matter of the machine, so it is tried with more and more.
        """
        for timeout in (0.3, 2.0, 15.0):
            ended = self.run(*argv, timeout=timeout, grace=grace)
            assert ended.how == "timeout"
            if (self.path / going).exists():
                return ended
            for file in self.path.iterdir():
                file.unlink()
        raise AssertionError(f"{going} does not appear")

    def pids(self, name: str) -> list[int]:
        """The process numbers that programs wrote into a file."""
        return [int(line) for line in (self.path / name).read_text().split()]

    def wait_for(self, name: str) -> None:
        """Wait until a program has made a file."""
        deadline = time.monotonic() + 300
        while not (self.path / name).exists():
            assert time.monotonic() < deadline, f"{name} does not appear"
            time.sleep(0.005)

    @contextmanager
    def engine(self, script: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that runs a turn of a shell script, so that it can be killed; at the latest in the end."""
        with subprocess.Popen([sys.executable, "-c", RUNS_A_TURN, self.lease, script], cwd=self.path) as engine:
            try:
                yield engine
            finally:
                engine.kill()

    def left_behind(self) -> list[int]:
        """Processes that still work in the folder; they are ended, so that they disturb no other test."""
        left = []
        for pid in set(keeper.list_processes()) - {os.getpid()}:
            with suppress(OSError):
                if Path(f"/proc/{pid}/cwd").readlink() == self.path:
                    left.append(pid)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left


def lives(pid: int) -> bool:
    process = keeper.read_process(pid)
    return process is not None and process.is_alive


def dies(pid: int, seconds: float = 20) -> bool:
    """Wait until a process has ended, be it a child or not."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        return bool(poller.poll(seconds * 1000))
    finally:
        os.close(handle)
