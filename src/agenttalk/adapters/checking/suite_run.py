"""One run of a command whose test runners report over a channel that the engine opens.

The channel is a socket in a folder of its own, outside the tree and read-only for the command, beside a copy of what
the runners load. The folder leads every Python of the run there by PYTHONPATH, and the modules in it have names that
nothing of the work can foresee. A runner connects before it loads a test, and reports while it runs.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from agenttalk.adapters.checking.command import CheckContext, ShellCommand
from agenttalk.contracts.core import wire
from agenttalk.rules.suites.channel import ChannelReader, SuiteSession
from agenttalk.rules.suites.runner_calls import add_python_path

HARNESS: Final = Path(__file__).parent / "harness"
_SOCKET: Final = "s"
_LONGEST_PATH: Final = 100
"""Bytes of a socket's path, at most."""
_MOST_RUNNERS: Final = 64
"""Runners that may report in one run."""
_CHUNK: Final = 1 << 18
_PAUSE: Final = 0.02
_PYTHON_PATH: Final = "PYTHONPATH"


class SuiteRun:
    """A command that is about to run, and what its test runners report meanwhile."""

    def __init__(self, folder: Path, limit: int, *, reordered: bool = False) -> None:
        self._folder = folder
        self._reordered = reordered
        self._limit = limit
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._readers: dict[socket.socket, ChannelReader] = {}
        self._closed: list[ChannelReader] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, context: CheckContext) -> AsyncIterator[SuiteRun]:
        """Open a channel for one run. What it was given is removed afterwards."""
        folder = await asyncio.to_thread(_lay_out, context.temporary, reordered=context.reordered)
        run = cls(folder, context.limits.report_bytes, reordered=context.reordered)
        try:
            run._listen()
            yield run
        finally:
            run._close()
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def prepare(self, command: ShellCommand) -> ShellCommand:
        """Return the command with what leads its runners to the channel."""
        given = dict(command.env or {})
        if self._reordered:
            given["GOFLAGS"] = f"{given.get('GOFLAGS', '')} -shuffle=on".strip()
        given[_PYTHON_PATH] = ":".join(filter(None, [str(self._folder), given.get(_PYTHON_PATH, "")]))
        run = add_python_path(command.run, str(self._folder))
        return replace(command, run=run, env=given, shown=(*command.shown, self._folder))

    @property
    def folder(self) -> Path:
        """Return the folder of the run, which its command can read."""
        return self._folder

    def read_sessions(self) -> tuple[SuiteSession, ...]:
        """Return what was reported, when no process of the run is left: all of it has arrived by then."""
        self._accept()
        for end in list(self._readers):
            while end in self._readers and self._read(end):
                pass
        readers = [*self._closed, *self._readers.values()]
        sessions = [each.read_session() for each in readers]
        return tuple(session for session in sessions if session.runner or session.fault)

    def _listen(self) -> None:
        self._listener.bind(str(self._folder / _SOCKET))
        self._listener.listen(_MOST_RUNNERS)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(BlockingIOError):
            while True:
                end, _ = self._listener.accept()
                if len(self._readers) + len(self._closed) >= _MOST_RUNNERS:
                    end.close()
                    continue
                end.setblocking(False)
                self._readers[end] = ChannelReader(self._limit)
                loop.add_reader(end, self._read_soon, end)

    def _read_soon(self, end: socket.socket) -> None:
        """Read what has arrived, and look again a moment later: waking for each of many quick tests would slow them."""
        loop = asyncio.get_running_loop()
        self._read(end)
        if end in self._readers:
            loop.remove_reader(end)
            loop.call_later(_PAUSE, self._listen_to, end)

    def _listen_to(self, end: socket.socket) -> None:
        if end in self._readers:
            asyncio.get_running_loop().add_reader(end, self._read_soon, end)

    def _read(self, end: socket.socket) -> bool:
        """Read what has arrived. False when nothing is left now."""
        reader = self._readers[end]
        try:
            data = end.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        reader.add_piece(data)
        if not data or reader.fault is not None:  # a runner that cannot send any more goes on without us
            self._closed.append(self._readers.pop(end))
            asyncio.get_running_loop().remove_reader(end)
            end.close()
        return bool(data)

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        for end in (self._listener, *self._readers):
            loop.remove_reader(end)
            end.close()
        self._readers.clear()


@lru_cache(maxsize=8)
def hash_harness() -> str:
    """Hash what runs beside the runners: with another harness a result may be another one."""
    return wire.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in _list_files()))


def _list_files() -> Iterator[Path]:
    return iter(sorted(path for path in HARNESS.iterdir() if path.is_file()))


def _lay_out(temporary: Path | None, *, reordered: bool = False) -> Path:
    """Make the folder of a run. Its name, and those of the modules in it, tell nothing."""
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=temporary))
    if len(str(folder)) > _LONGEST_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="run-"))
    names = []
    client = _read_harness("channel_client")
    for reporter in ("pytest_reporter", "unittest_reporter"):
        names.append(f"_{secrets.token_hex(6)}")
        (folder / f"{names[-1]}.py").write_text(f"{client}\n\n{_read_harness(reporter)}", encoding="utf-8")
    if reordered:
        with (folder / f"{names[0]}.py").open("a", encoding="utf-8") as plugin:
            plugin.write("\n\npytest_collection_modifyitems = _reorder\n")
    startup = _read_harness("python_startup")
    (folder / "sitecustomize.py").write_text(f"{startup}\n\n_start({', '.join(map(repr, names))})\n", encoding="utf-8")
    return folder


@lru_cache(maxsize=8)
def _read_harness(name: str) -> str:
    return (HARNESS / f"{name}.py").read_text(encoding="utf-8")
