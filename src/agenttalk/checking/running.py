"""Running a check's command: clean environment, limits, a sandbox where there is one, and nothing left alive."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from agenttalk import sandbox
from agenttalk.errors import AgentTalkError
from agenttalk.ports import Driver, Ended, Ids, Turn
from agenttalk.rules import checks, words_of_checks
from agenttalk.rules.checks import How, Ran
from agenttalk.rules.http_addresses import Allowed

MIB: Final = 1024 * 1024
_TAIL: Final = 16 * 1024
_LOOK: Final = 0.2
"""Seconds between looks at how much was printed."""
_OUTER: Final = 'exec 3>"$1" </dev/null; shift; exec "$@"'
_INNER: Final = 'exec >&3 2>&1 3>&-; exec "$1" -c "$2"'
"""What the program prints goes to a file. What the sandbox itself has to say goes to the standard error."""
_TRIAL: Final = 7


@dataclass(frozen=True, slots=True)
class Limits:
    """What a check may use."""

    seconds: float = 600.0
    """Where the check itself names no time."""
    cpu_seconds: int | None = None
    """Of each process."""
    memory_bytes: int | None = None
    """Address space of each process. Some runtimes reserve far more than they use, so there is no default."""
    output_bytes: int = 64 * MIB
    file_bytes: int | None = 4096 * MIB
    """Of each file that is written."""
    report_bytes: int = 32 * MIB
    read_bytes: int = 64 * MIB
    """Of a file that is looked into, and of one that is a JSON document."""
    answer_bytes: int = MIB
    answer_seconds: float = 30.0

    def for_kernel(self) -> dict[str, int]:
        """The kernel's limits, by their names."""
        named = {"CPU": self.cpu_seconds, "AS": self.memory_bytes, "FSIZE": self.file_bytes}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Context:
    """What the operator says of the checks."""

    path: str = os.defpath
    """PATH of the commands; what is relative or lies in the checkout is left out."""
    lang: str = "C.UTF-8"
    network: bool = False
    """Whether commands may use the network. Without a sandbox nothing keeps them from it."""
    isolation: Literal["required", "preferred"] = "preferred"
    """Whether a command is run at all where there is no sandbox."""
    masked: tuple[Path, ...] = ()
    """What commands must not see: the root's `data/`, the operator's configuration."""
    readable: tuple[Path, ...] = ()
    """What commands may see although it lies in something masked, or in a folder for temporary files."""
    allowed: tuple[Allowed, ...] = ()
    """Addresses besides public ones that `http` checks may ask."""
    limits: Limits = field(default_factory=Limits)
    temporary: Path | None = None
    """Where temporary folders are made; the system's place by default."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is to be run."""

    run: str
    """For `sh -c`."""
    checkout: Path
    cwd: Path
    env: Mapping[str, str] | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it. Every process is dead by then, unless `ran.how` is `stuck`."""

    ran: Ran
    isolated: bool
    tail: str = ""
    sha256: str = ""
    size: int = 0


class _Place(NamedTuple):
    """A temporary folder of one run."""

    home: Path
    tmp: Path
    output: Path


class Runner:
    """Runs commands of checks. Whether the sandbox works here is tried once."""

    def __init__(self, driver: Driver, ids: Ids, *, bubblewrap: Path | None) -> None:
        self._driver = driver
        self._ids = ids
        self._bubblewrap = bubblewrap
        self._works: bool | None = None if bubblewrap else False
        self._trying = asyncio.Lock()
        shell = shutil.which("sh", path=os.defpath)
        env = shutil.which("env", path=os.defpath)
        self._shell, self._env = shell or "/bin/sh", env or "/usr/bin/env"

    async def isolates(self, context: Context) -> bool:
        """Whether commands run in a sandbox here."""
        async with self._trying:
            if self._works is None:
                self._works = await self._try(context)
        return self._works

    async def run(self, command: Command, context: Context) -> Done:
        """Run it to its end. Never raises for what the command does; cancelling kills it first."""
        isolated = await self.isolates(context)
        if not isolated and context.isolation == "required":
            error = words_of_checks.NO_SANDBOX()
            return Done(Ran("not_isolated", None, error), isolated)
        return await self._run(command, context, isolated=isolated)

    async def _try(self, context: Context) -> bool:
        async with _place(context.temporary) as place:
            checkout = place.output.parent / "checkout"
            checkout.mkdir()
            done = await self._in(
                place, Command(f"exit {_TRIAL}", checkout, checkout, None, 20), context, isolated=True
            )
        return done.ran == Ran("exited", _TRIAL)

    async def _run(self, command: Command, context: Context, *, isolated: bool) -> Done:
        async with _place(context.temporary) as place:
            return await self._in(place, command, context, isolated=isolated)

    async def _in(self, place: _Place, command: Command, context: Context, *, isolated: bool) -> Done:
        try:
            argv = self._argv(place, command, context, isolated=isolated)
        except ValueError as error:
            return Done(Ran("not_started", None, str(error)), isolated)
        limits = context.limits.for_kernel()
        lease = self._ids.new("check")
        turn = Turn(lease=lease, argv=argv, cwd=Path("/"), prompt="", timeout=command.seconds, limits=limits)
        ran = await self._watched(turn, place.output, context.limits.output_bytes, isolated=isolated)
        tail, digest, size = await asyncio.to_thread(_printed, place.output)
        return Done(ran, isolated, tail, digest, size)

    def _argv(self, place: _Place, command: Command, context: Context, *, isolated: bool) -> tuple[str, ...]:
        inner = (self._shell, "-c", _INNER, "sh", self._shell, command.run)
        checkout, cwd = command.checkout.resolve(), command.cwd.resolve()
        env = checks.environment(
            command.env,
            path=":".join(os.path.realpath(part) if part.startswith("/") else part for part in context.path.split(":")),
            checkout=str(checkout),
            home="/tmp/home" if isolated else str(place.home),  # noqa: S108 - the sandbox's own
            temporary="/tmp" if isolated else str(place.tmp),  # noqa: S108 - as above
            lang=context.lang,
        )
        if "\0" in command.run:
            raise ValueError(words_of_checks.NUL_IN_COMMAND())
        if isolated and self._bubblewrap:
            masked = (*context.masked, *sandbox.secrets(Path.home()), Path(tempfile.gettempdir()))
            room = sandbox.Room((checkout,), cwd, place.tmp, env, context.network, masked, context.readable)
            words = sandbox.wrapped(self._bubblewrap, room, inner)
        else:
            entries = (f"{name}={value}" for name, value in env.items())
            enter = (self._shell, "-c", 'cd "$1" && shift && exec "$@"', "sh", str(cwd))
            words = (*enter, self._env, "-i", *entries, *inner)
        return (self._shell, "-c", _OUTER, "sh", str(place.output), *words)

    async def _watched(self, turn: Turn, output: Path, limit: int, *, isolated: bool) -> Ran:
        """Run a turn, and end it when it prints too much."""
        task = asyncio.ensure_future(self._driver.run(turn))
        flooded = False
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_LOOK)
                if not task.done() and _size(output) > limit:
                    flooded = True
                    break
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, AgentTalkError):
                    await asyncio.wait({task})
        return _told(task, limit, flooded=flooded or _size(output) > limit, isolated=isolated)


def _told(task: asyncio.Future[Ended], limit: int, *, flooded: bool, isolated: bool) -> Ran:
    if not task.cancelled() and isinstance(task.exception(), AgentTalkError):
        return Ran("stuck", None, str(task.exception()))
    if flooded:
        return Ran("output_limit", None, words_of_checks.PRINTED_TOO_MUCH(limit=limit))
    ended = task.result()
    said = ended.stderr.decode(errors="replace").strip()
    if isolated and said.startswith("bwrap:"):
        return Ran("not_started", None, words_of_checks.SANDBOX_FAILED(error=said[:500]))
    if said and ended.how == "exited" and ended.exit_code != 0:
        return Ran("not_started", None, said[:500])  # only what stands before the command speaks here
    how: How = ended.how
    return Ran(how, ended.exit_code, ended.error)


@asynccontextmanager
async def _place(where: Path | None) -> AsyncIterator[_Place]:
    folder = Path(tempfile.mkdtemp(prefix="agenttalk-check-", dir=where))
    try:
        tmp = folder / "tmp"
        home = tmp / "home"
        home.mkdir(parents=True)
        yield _Place(home, tmp, folder / "output")
    finally:
        await asyncio.to_thread(sandbox.erase, folder)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _printed(path: Path) -> tuple[str, str, int]:
    """The end of what was printed, the hash of all of it, and how much it is."""
    digest, tail, size = hashlib.sha256(), b"", 0
    with suppress(OSError), path.open("rb") as file:
        while piece := file.read(MIB):
            digest.update(piece)
            size += len(piece)
            tail = (tail + piece)[-_TAIL:]
    return tail.decode("utf-8", "replace"), f"sha256:{digest.hexdigest()}", size
