"""One run of a command whose test runners report over a channel that the engine opens.

The channel is a socket in a folder of its own, outside the tree and read-only for the command, beside a copy of what
the runners load. Every Python of the run is led there by PYTHONPATH, every Node by NODE_OPTIONS, Go by GOFLAGS, and
cargo by the variable that names what starts its test programs. The modules for Python have names that nothing of the
work can foresee. A runner connects before it loads a test, and reports while it runs.
"""

from __future__ import annotations

import asyncio
import json
import platform
import secrets
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from agenttalk.adapters.checking.command import CheckContext, ShellCommand, make_run_folder
from agenttalk.contracts.core import wire
from agenttalk.rules.suites import go_overlay
from agenttalk.rules.suites.channel import ChannelReader, SuiteSession
from agenttalk.rules.suites.runner_calls import add_options, add_python_path
from agenttalk.rules.text import check_words

HARNESS: Final = Path(__file__).parent / "harness"
_SOCKET: Final = "s"
MOST_RUNNERS: Final = 2_000
"""Runners that may report in one run."""
_CHUNK: Final = 1 << 18
_PAUSE: Final = 0.02
_PYTHON_PATH: Final = "PYTHONPATH"
_NODE_OPTIONS: Final = "NODE_OPTIONS"
_GO_FLAGS: Final = "GOFLAGS"
_NODE_REPORTER: Final = "r.cjs"
_STARTER: Final = "x.py"
_LINKER: Final = "cc"
"""rustc knows by the name how to call it."""
_LAID_OUT: Final[Mapping[str, str]] = {
    _NODE_REPORTER: "node_reporter.cjs",
    "n.cjs": "node_runners.cjs",
    "c.cjs": "javascript_canaries.cjs",
    "j.cjs": "jest_setup.cjs",
    "v.mjs": "vitest_reporter.mjs",
    "w.mjs": "vitest_setup.mjs",
    _STARTER: "exec_reporter",
    _LINKER: "cargo_linker.sh",
    "m.c": "main_reporter.c",
}
"""File of a run's folder → file of the harness."""
_OVERLAY: Final = "o.json"
_LIBRARIES: Final = ("GNU", "MUSL")


class SuiteRun:
    """A command that is about to run, and what its test runners report meanwhile."""

    def __init__(self, folder: Path, limit: int, *, reordered: bool = False) -> None:
        self._folder = folder
        self._refused = False
        self._reordered = reordered
        self._limit = limit
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._readers: dict[socket.socket, ChannelReader] = {}
        self._closed: list[ChannelReader] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, context: CheckContext) -> AsyncIterator[SuiteRun]:
        """Open a channel for one run. What it was given is removed afterwards."""
        made = await asyncio.to_thread(make_run_folder, context.temporary)
        run = cls(made.path, context.limits.report_bytes, reordered=context.reordered)
        try:
            await asyncio.to_thread(_lay_out, made.path, context.path, reordered=context.reordered)
            run._listen()
            yield run
        finally:
            run._close()
            await asyncio.to_thread(made.remove)

    def prepare(self, command: ShellCommand) -> ShellCommand:
        """Return the command with what leads its runners to the channel."""
        given = dict(command.env or {})
        given[_PYTHON_PATH] = ":".join(filter(None, [str(self._folder), given.get(_PYTHON_PATH, "")]))
        run = add_python_path(command.run, str(self._folder))
        for name, options in self._list_options().items():
            given[name] = f"{options} {given.get(name, '')}".strip()
            run = add_options(run, name, options)
        given = {**self._list_starters(command.checkout, given), **given}
        return replace(command, run=run, env=given, shown=(*command.shown, self._folder))

    def _list_options(self) -> dict[str, str]:
        """Return variables of Node and Go, with what leads them to the channel."""
        options = {_NODE_OPTIONS: f"--require={self._folder / _NODE_REPORTER}"}
        go = ["-shuffle=on"] if self._reordered else []
        if (overlay := self._folder / _OVERLAY).exists():
            go += [f"-overlay={overlay}", "-count=1", f"'-exec={_start_with(self._folder)} go'"]
        return {**options, _GO_FLAGS: " ".join(go)} if go else options

    def _list_starters(self, checkout: Path, given: Mapping[str, str]) -> dict[str, str]:
        """Return variables by which cargo links and starts programs with ours, unless the project has its own way."""
        settings = b"".join(_read_some(checkout / ".cargo" / name) for name in ("config.toml", "config"))
        if b"runner" in settings:
            return {}
        machine = f"CARGO_TARGET_{platform.machine().upper()}_UNKNOWN_LINUX"
        found = {f"{machine}_{each}_RUNNER": f"{_start_with(self._folder)} cargo" for each in _LIBRARIES}
        if b"linker" in settings or "linker" in given.get("RUSTFLAGS", ""):
            return found
        return {**found, f"{machine}_GNU_LINKER": str(self._folder / _LINKER)}

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
        if self._refused:
            sessions.append(SuiteSession(fault=check_words.CHANNEL_GARBLED(why="too many runners reported")))
        return tuple(session for session in sessions if session.runner or session.fault)

    def _listen(self) -> None:
        self._listener.bind(str(self._folder / _SOCKET))
        self._listener.listen(MOST_RUNNERS)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(BlockingIOError):
            while True:
                end, _ = self._listener.accept()
                if len(self._readers) + len(self._closed) >= MOST_RUNNERS:
                    self._refused = True
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


def _lay_out(folder: Path, path: str, *, reordered: bool = False) -> None:
    """Write the files of a run into its folder. The names of the modules tell nothing."""
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
    for name, source in _LAID_OUT.items():
        (folder / name).write_text(_read_harness(source), encoding="utf-8")
    (folder / _LINKER).chmod(0o755)
    _lay_out_go(folder, path)


def _lay_out_go(folder: Path, path: str) -> None:
    """Lay out the changed package testing of the Go that a command finds, if it finds one that can be changed."""
    go = shutil.which("go", path=path)
    if go is None:
        return
    root = Path(go).resolve().parent.parent
    if (changed := _change_testing(root)) is None:
        return
    changed = {**changed, go_overlay.REPORTER: _read_harness("go_reporter.go")}
    replaced = {}
    for name, text in changed.items():
        (folder / name).write_text(text, encoding="utf-8")
        replaced[str(root / "src/testing" / name)] = str(folder / name)
    (folder / _OVERLAY).write_text(json.dumps({"Replace": replaced}), encoding="utf-8")


@lru_cache(maxsize=4)
def _change_testing(root: Path) -> dict[str, str] | None:
    place = root / "src/testing"
    try:
        return go_overlay.change_sources({name: (place / name).read_text("utf-8") for name in go_overlay.CHANGES})
    except (OSError, UnicodeDecodeError):
        return None


def _start_with(folder: Path) -> str:
    """Return the command that starts a test program and reports it."""
    return f"{sys.executable} -I -S {folder / _STARTER}"


def _read_some(path: Path) -> bytes:
    """Read the beginning of a file; empty where there is none."""
    try:
        with path.open("rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""


@lru_cache(maxsize=8)
def _read_harness(name: str) -> str:
    return (HARNESS / (name if "." in name else f"{name}.py")).read_text(encoding="utf-8")
