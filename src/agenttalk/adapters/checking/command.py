"""Runs the command of a check or a preparation: clean environment, limits, a sandbox, no process left."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from agenttalk.adapters import program_files
from agenttalk.adapters.checking import service_relay, touched_files
from agenttalk.adapters.checking.home_view import HomeView, find_other_place, read_identity
from agenttalk.adapters.temporary_folders import TemporaryFolder, make_temporary_folder
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.ports.agents import (
    BindMount,
    Confinement,
    Driver,
    MountNamespace,
    ProgramTurn,
    SandboxSelector,
    TurnEnd,
    UserPlace,
)
from agenttalk.ports.storage import Ids
from agenttalk.rules.checks import check_results
from agenttalk.rules.checks.check_results import ExitKind, ProgramExit
from agenttalk.rules.core.http_addresses import AllowedAddress
from agenttalk.rules.core.test_progress import TestCounter
from agenttalk.rules.text import check_words

TestProgress: TypeAlias = "Callable[[int | None, int | None], None]"
"""Gets how many tests have ended and how many there are; None is not known."""
MIB: Final = 1024 * 1024
_TAIL: Final = 16 * 1024
_RUN: Final = 'exec </dev/null 2>&1; exec "$1" -c "$2"'
"""Joins the program's output into one text. The sandbox's own messages stay on the standard error."""
_RANKS: Final[Mapping[str, int]] = {"plain": 0, "landlock": 1, "bubblewrap": 2}
SOCKET: Final = "service.sock"
"""The name of the socket of a service, in its folder for temporary files."""
_PAUSE: Final = 0.02
_RUN_FOLDER: Final = "run-"
_LONGEST_PATH: Final = 90
"""Characters of the path of a folder in which sockets lie, at most."""
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_./+@%=,-]+")
_MOUNTS: Final = 300
"""Read-only mounts of a sandbox, of which each costs a little time. Further paths are only compared afterwards."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """What a check may use."""

    seconds: float = 600.0
    """Seconds, where the check itself names no time."""
    cpu_seconds: int | None = None
    """CPU seconds of each process."""
    memory_bytes: int | None = None
    """Address space of each process. Some runtimes reserve far more than they use, so there is no default."""
    output_bytes: int = 64 * MIB
    file_bytes: int | None = 4096 * MIB
    """Bytes of each file that is written."""
    report_bytes: int = 32 * MIB
    read_bytes: int = 64 * MIB
    """Bytes of a file that is searched, and of one that is a JSON document."""
    answer_bytes: int = MIB
    answer_seconds: float = 30.0
    ready_seconds: float = 60.0
    """Seconds until a service must be ready."""

    def for_kernel(self) -> dict[str, int]:
        """Return the kernel's limits, by their names."""
        named = {"CPU": self.cpu_seconds, "AS": self.memory_bytes, "FSIZE": self.file_bytes}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The operator's settings for checks."""

    path: str = os.defpath
    """PATH of the commands, without relative folders and folders of the checkout."""
    lang: str = "C.UTF-8"
    network: bool = False
    """Whether commands may use the network. Without a sandbox they always can."""
    prepare_network: bool = True
    """The same for preparations, which download what they install."""
    sandbox: Tier = "best"
    """How commands are confined."""
    isolation: Literal["required", "best"] = "best"
    """Whether a command runs at all where there is no sandbox."""
    least: Tier = "plain"
    """The tier in which the work was made: what it starts gets no more freedom here."""
    masked: tuple[Path, ...] = ()
    """Paths that commands must not see, as their agents."""
    readable: tuple[Path, ...] = ()
    """Paths that commands may see although they lie in something masked, or in a folder for temporary files."""
    made: tuple[str, ...] = ()
    """Paths of the checkout that were prepared."""
    namespace: MountNamespace | None = None
    """Where commands see the checkout, at the path that ours resolves to; by default where we do."""
    place: UserPlace | None = None
    """Where commands see the checkout in a sandbox that can mount, with what is there; by default where it is."""
    allowed: tuple[AllowedAddress, ...] = ()
    """Addresses besides public ones that `http` checks may request."""
    limits: CheckLimits = field(default_factory=CheckLimits)
    temporary: Path | None = None
    """The folder for temporary folders; the system's by default."""
    progress: TestProgress | None = None
    """Gets how many tests the command has run so far, and how many there are, as far as that is known."""
    reordered: bool = False
    """Whether tests run in another order, where their runner allows that."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command to run."""

    run: str
    """The line for `sh -c`."""
    checkout: Path
    cwd: Path
    env: Mapping[str, str] | None
    seconds: float
    kept: tuple[Path, ...] = ()
    """Files of the checkout that must not change while it runs."""
    made: tuple[Path, ...] = ()
    """What was prepared in the checkout; it must not change either."""
    shown: tuple[Path, ...] = ()
    """What it may read although it lies in a folder for temporary files."""
    written: tuple[Path, ...] = ()
    """What it may write besides the checkout."""
    binds: tuple[BindMount, ...] = ()
    """What it sees at another place."""
    read_only: bool = False
    """Whether it may write nothing of the checkout."""
    known_tests: int | None = None
    """How many tests there were before the work, if that is known."""
    port: int | None = None
    """The port of the service that it starts, if it starts one."""


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The result of a command. Every process is dead by then, unless `ran.how` is `stuck`."""

    ran: ProgramExit
    isolated: bool
    tail: str = ""
    sha256: str = ""
    size: int = 0
    place: Path | None = None
    """Where the command saw the checkout."""


@dataclass(slots=True)
class RunningService:
    """A service that runs in the sandbox of its check."""

    socket: Path | None
    """A socket that leads to its port; None when it never opened that."""
    outcome: CommandOutcome
    """How it has ended; while it runs, that it was ended."""


class _RunSandbox(NamedTuple):
    """The sandbox of one run."""

    tier: Tier
    network: bool
    refusal: str = ""
    """Why nothing runs."""

    @property
    def isolated(self) -> bool:
        return self.tier != "plain"


class CommandRunner:
    """Runs commands of checks and preparations, through the driver of agents' programs."""

    def __init__(self, driver: Driver, ids: Ids) -> None:
        self._driver = driver
        self._ids = ids
        self._shell = shutil.which("sh", path=os.defpath) or "/bin/sh"

    async def isolates(self, context: CheckContext) -> bool:
        """Return whether commands run in a sandbox here."""
        return (await self._room(context)).isolated

    async def tier(self, context: CheckContext) -> Tier:
        """Return the sandbox that commands run in here; `plain` where they do not run at all."""
        room = await self._room(context)
        return "plain" if room.refusal else room.tier

    async def run(self, command: ShellCommand, context: CheckContext) -> CommandOutcome:
        """Run a command to its end. Never raises for what the command does; cancelling kills it first."""
        room = await self._room(context)
        if room.refusal:
            return CommandOutcome(ProgramExit("not_isolated", None, room.refusal), isolated=False)
        kept = (*command.kept, *(command.made if room.tier == "landlock" else ()))
        with touched_files.watch_files(command.checkout, kept) as touched:
            done = await self._run(command, context, room)
            changed = touched()
        if changed and done.ran.how == "finished":
            names = ", ".join(changed[:5])
            return CommandOutcome(
                ProgramExit("tampered", None, check_words.TAMPERED(names=names)),
                done.isolated,
                done.tail,
                done.sha256,
                done.size,
                done.place,
            )
        return done

    @asynccontextmanager
    async def start_service(self, command: ShellCommand, context: CheckContext) -> AsyncIterator[RunningService]:
        """Start a service, and wait until its port is open. It is killed at the end; `outcome` then says how it was.

        Its port is in the network of its sandbox, so it is reached through a socket that is a file.
        """
        room = await self._room(context)
        refusal = room.refusal
        if room.tier == "landlock" and not room.network:
            refusal = check_words.SERVICE_NEEDS_NETWORK()
        if refusal:
            yield RunningService(None, CommandOutcome(ProgramExit("not_isolated", None, refusal), isolated=False))
            return
        with touched_files.watch_files(command.checkout, command.kept) as touched:
            async with _place(context.temporary) as temporary:
                printed = _OutputDigest(context.limits.output_bytes)
                turn = self._turn(command, context, room, temporary)
                running = asyncio.ensure_future(self._watched(turn, printed))
                service = RunningService(None, CommandOutcome(ProgramExit("finished", None), room.isolated))
                try:
                    service.socket = await _await_socket(temporary / SOCKET, running, context.limits.ready_seconds)
                    yield service
                finally:
                    ended = running.result() if running.done() else None
                    running.cancel()
                    with suppress(asyncio.CancelledError, AgentTalkError):
                        await running
                    ran = ended or ProgramExit("finished", None)
                    if changed := touched():
                        ran = ProgramExit("tampered", None, check_words.TAMPERED(names=", ".join(changed[:5])))
                    service.outcome = CommandOutcome(ran, room.isolated, printed.text, printed.sha256, printed.size)

    async def _room(self, context: CheckContext) -> _RunSandbox:
        """Choose the best sandbox that is wanted and works. Refuse if a required one does not work."""
        why: str = check_words.SANDBOX_SWITCHED_OFF()
        if context.sandbox != "plain" and isinstance(self._driver, SandboxSelector):
            for network in dict.fromkeys((context.network, True)):
                asked = Confinement(context.sandbox, required=True, network=network, guarded=True)
                try:
                    tier = await self._driver.tier(asked)
                except ValueError as error:
                    why = str(error)
                    continue
                if _RANKS[tier] < _RANKS[context.least]:
                    why = check_words.WEAKER_THAN_AGENT(tier=tier, least=context.least)
                    continue
                return _RunSandbox(tier, network)
        demanded = context.isolation == "required" or context.least != "plain"
        demanded = demanded or context.sandbox not in {"best", "plain"}
        return _RunSandbox("plain", network=True, refusal=check_words.NO_SANDBOX(error=why) if demanded else "")

    async def _run(self, command: ShellCommand, context: CheckContext, room: _RunSandbox) -> CommandOutcome:
        async with _place(context.temporary) as temporary:
            try:
                turn = self._turn(command, context, room, temporary)
            except ValueError as error:
                return CommandOutcome(ProgramExit("not_started", None, str(error)), room.isolated)
            counter = TestCounter(command.run, command.known_tests) if context.progress is not None else None
            printed = _OutputDigest(context.limits.output_bytes, counter, context.progress)
            ran = await self._watched(turn, printed)
        place = _find_seen(command.checkout.resolve(), turn)
        return CommandOutcome(ran, room.isolated, printed.text, printed.sha256, printed.size, place)

    def _turn(self, command: ShellCommand, context: CheckContext, room: _RunSandbox, temporary: Path) -> ProgramTurn:
        checkout = command.checkout.resolve()
        path = ":".join(os.path.realpath(part) if part.startswith("/") else part for part in context.path.split(":"))
        view = _find_view(checkout, command, replace(context, path=path), room, temporary)
        outside = {"LANG": context.lang, **read_identity()}
        if view is not None:
            path = view.filter_path()
            outside |= {"HOME": str(view.home)} if view.home is not None else {}
        env = check_results.make_environment(command.env, path=path, checkout=str(checkout), outside=outside)
        relay: tuple[str, ...] = ()
        if command.port is not None:
            env = {"PORT": str(command.port), **env}
            relay = (sys.executable, "-I", service_relay.__file__, SOCKET, str(command.port))
        if "\0" in command.run:
            raise ValueError(check_words.NUL_IN_COMMAND())
        context = replace(context, readable=(*context.readable, *program_files.list_named_programs(command.run, path)))
        return ProgramTurn(
            lease=self._ids.new("check"),
            argv=(*relay, self._shell, "-c", _RUN, "sh", self._shell, command.run),
            cwd=command.cwd.resolve(),
            prompt="",
            env=env,
            timeout=command.seconds,
            limits=context.limits.for_kernel(),
            confinement=_confinement(checkout, command, context, room, temporary, view),
        )

    async def _watched(self, turn: ProgramTurn, printed: _OutputDigest) -> ProgramExit:
        """Run a turn, and end it when it prints too much."""
        task = asyncio.ensure_future(self._driver.run(printed.heard(turn)))
        flood = asyncio.ensure_future(printed.flooded.wait())
        try:
            await asyncio.wait({task, flood}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            flood.cancel()
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, AgentTalkError):
                    await asyncio.wait({task})
        return _describe_run(task, printed)


def move_elsewhere(context: CheckContext, checkout: Path) -> CheckContext:
    """Return the context for a second run: at a place with another name, if that is possible, and in another order."""
    place = context.place
    if place is not None and (other := find_other_place(place, checkout.resolve(), context.path)) is not None:
        place = place._replace(path=other)
    return replace(context, place=place, reordered=True)


def make_run_folder(temporary: Path | None) -> TemporaryFolder:
    """Make a folder for one run, whose path a socket, PYTHONPATH and the options of runners can hold as it is."""
    made = make_temporary_folder(temporary, prefix=_RUN_FOLDER)
    if len(str(made.path)) > _LONGEST_PATH or not _PLAIN_PATH.fullmatch(str(made.path)):
        made.remove()
        made = make_temporary_folder(prefix=_RUN_FOLDER)
    return made


def find_place(command: ShellCommand, context: CheckContext) -> Path:
    """Return where a command sees its checkout in bubblewrap: not at the user's place where our own program is."""
    checkout, place = command.checkout.resolve(), context.place
    ours = Path(service_relay.__file__)
    if place is None or (place.path in ours.parents and (checkout / ours.relative_to(place.path)).exists()):
        return checkout
    return place.path


def _find_view(
    checkout: Path, command: ShellCommand, context: CheckContext, room: _RunSandbox, temporary: Path
) -> HomeView | None:
    """Show the checkout at the user's place, where the sandbox can."""
    place = context.place
    if room.tier != "bubblewrap" or place is None or find_place(command, context) != place.path:
        return None
    place = place._replace(repository=None) if command.binds else place
    return HomeView(place, command.checkout, checkout, temporary.parent, path=context.path, masked=context.masked)


def _find_seen(checkout: Path, turn: ProgramTurn) -> Path:
    """Return where a command sees its checkout."""
    binds = turn.confinement.binds if turn.confinement is not None else ()
    return next((bind.place for bind in binds if bind.source == checkout), checkout)


def _confinement(
    checkout: Path,
    command: ShellCommand,
    context: CheckContext,
    room: _RunSandbox,
    temporary: Path,
    view: HomeView | None,
) -> Confinement:
    """Make only the checkout writable, without what decides about the check."""
    if not room.isolated:
        return Confinement("plain", bare=True, temporary=temporary, namespace=context.namespace)
    kept = tuple(
        checkout / path.relative_to(command.checkout) for path in command.kept if not _is_below_link(path, command)
    )[:_MOUNTS]
    made = tuple(checkout / path.relative_to(command.checkout) for path in command.made)
    pinned = {
        above for path in kept for above in path.parents if checkout in above.parents
    }  # folders are mounts of their own, so none can be renamed
    shown = (*context.readable, *command.shown)
    if view is not None:
        above = () if command.read_only else sorted(pinned)
        return Confinement(
            room.tier,
            network=room.network,
            writable=command.written,
            readonly=view.filter_shown(shown),
            hidden=view.filter_hidden(context.masked),
            binds=(*view.list_mounts(above, (*kept, *made), read_only=command.read_only), *command.binds),
            guarded=True,
            bare=True,
            temporary=temporary,
            namespace=context.namespace,
        )
    return Confinement(
        room.tier,
        network=room.network,
        writable=(*(() if command.read_only else (checkout, *sorted(pinned))), *command.written),
        readonly=(*((checkout,) if command.read_only else ()), *kept, *made, *shown),
        hidden=context.masked,
        binds=command.binds,
        guarded=True,
        bare=True,
        temporary=temporary,
        namespace=context.namespace,
    )


def _is_below_link(path: Path, command: ShellCommand) -> bool:
    """Return whether a file of the checkout is a symlink, or has one on its way. Such a path cannot be a mount."""
    way = (path, *(above for above in path.parents if command.checkout in above.parents))
    return any(step.is_symlink() for step in way)


class _OutputDigest:
    """The output of a program: its end, and the hash of all of it."""

    def __init__(self, limit: int, counter: TestCounter | None = None, progress: TestProgress | None = None) -> None:
        self.flooded = asyncio.Event()
        """Set when the output is too long."""
        self.size = 0
        self.limit = limit
        self._digest = hashlib.sha256()
        self._tail = b""
        self._counter = counter
        self._progress = progress

    def heard(self, turn: ProgramTurn) -> ProgramTurn:
        """Return the turn with this output as its listener."""
        return replace(turn, pieces=self._take)

    def _take(self, data: bytes) -> None:
        self._digest.update(data)
        self.size += len(data)
        self._tail = (self._tail + data)[-_TAIL:]
        if self.size > self.limit:
            self.flooded.set()
        if self._counter is not None and self._progress is not None:
            self._counter.add(data)
            self._progress(self._counter.done, self._counter.total)

    @property
    def text(self) -> str:
        """Return the end of the output."""
        return self._tail.decode("utf-8", "replace")

    @property
    def sha256(self) -> str:
        """Return the hash of the whole output."""
        return f"sha256:{self._digest.hexdigest()}"


def _describe_run(task: asyncio.Future[TurnEnd], printed: _OutputDigest) -> ProgramExit:
    if not task.cancelled() and isinstance(task.exception(), AgentTalkError):
        return ProgramExit("stuck", None, str(task.exception()))
    if printed.flooded.is_set():
        return ProgramExit("output_limit", None, check_words.PRINTED_TOO_MUCH(limit=printed.limit))
    ended = task.result()
    how: ExitKind = ended.how
    return ProgramExit(how, ended.exit_code, ended.error)


def _is_socket(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(path.lstat().st_mode)
    return False


async def _await_socket(path: Path, running: asyncio.Future[ProgramExit], seconds: float) -> Path | None:
    """Wait until a service can be reached. None when it ends before, or takes too long."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not running.done() and asyncio.get_running_loop().time() < deadline:
        if _is_socket(path):
            return path
        await asyncio.wait({running}, timeout=_PAUSE)
    return None


@asynccontextmanager
async def _place(where: Path | None) -> AsyncIterator[Path]:
    """Make a folder for temporary files, and remove it afterwards."""
    made = make_temporary_folder(where)
    try:
        (made.path / "tmp").mkdir()
        yield made.path / "tmp"
    finally:
        await asyncio.to_thread(made.remove)
