"""Listening: on a loopback address, and on a unix socket that only its owner can reach."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.api.connection import HttpConnection, PeerJudge
from agenttalk.doors.api.guard import ATTEMPT, SOCKET_NAME, AgentTokenGuard, HostGuard
from agenttalk.rules.core.tokens import token_hash

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
TURN: Final = "turn-"
"""How the names of sockets of turns begin."""
_LONGEST_PATH: Final = 100
"""Longer names of sockets are refused by the system."""
_GRACE: Final = 3
"""Seconds in which requests may come to their end when we stop."""


class ServerAddresses(NamedTuple):
    """Where a door is."""

    http: str
    """Such as `http://127.0.0.1:8083`."""
    socket: str
    """The path of the unix socket."""
    pages: str = ""
    """An address that opens the pages, once."""
    doors: Callable[[str], AbstractAsyncContextManager[str]] | None = None
    """Opens a socket that takes nothing but one token."""


@asynccontextmanager
async def serve_app(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    socket_path: Path,
    public: bool = False,
    names: Collection[str] = (),
    judge: PeerJudge = lambda _: "",
) -> AsyncIterator[ServerAddresses]:
    """Answer requests until the block ends. Port 0 takes a free one.

    An address that others can reach is refused unless `public` says that this is wanted; `names` are further
    names of the server then. `judge` returns how the process at the other end is known to be an agent's: such a process
    may use only the token of its attempt. Raises MachineError when address or socket is taken.
    """
    if not public and not _is_loopback(host):
        raise UsageError(
            Code.OPTION_INVALID,
            f"{host} can be reached from other machines",
            hint="use 127.0.0.1, or say server.public = true if that is what you want",
        )
    with _tcp(host, port) as tcp, _unix(socket_path) as unix:
        real = tcp.getsockname()[1]
        further = {name.lower() for name in names}
        known = {*LOOPBACK_NAMES, _spell_host(host), *further}
        doors = [
            _BoundServer(
                HostGuard(AgentTokenGuard(app), {f"{name}:{real}" for name in known} | further),
                tcp,
                _connection_class(judge),
            ),
            _BoundServer(
                HostGuard(AgentTokenGuard(app), {SOCKET_NAME, *LOOPBACK_NAMES}), unix, _connection_class(judge)
            ),
        ]
        turns = make_turn_sockets(app, socket_path.parent)
        async with _running(doors):
            yield ServerAddresses(f"http://{_spell_host(host)}:{real}", str(socket_path), doors=turns.open)


def make_turn_sockets(app: ASGIApp, folder: Path) -> TurnSockets:
    """Make what opens sockets for turns in a folder."""
    return TurnSockets(HostGuard(AgentTokenGuard(app), {SOCKET_NAME, *LOOPBACK_NAMES}), folder)


def _connection_class(judge: PeerJudge) -> type[HttpConnection]:
    """Connections whose other end is judged."""
    return type("JudgedConnection", (HttpConnection,), {"judge": staticmethod(judge)})


class TurnSockets:
    """Sockets for turns, one for each turn: only the token of that attempt is accepted there."""

    def __init__(self, app: ASGIApp, folder: Path) -> None:
        self._config = _make_config(app, HttpConnection)
        self._folder = folder

    @asynccontextmanager
    async def open(self, token: str) -> AsyncIterator[str]:
        """Open a socket that takes this token until the block ends. Returns its path. Raises MachineError."""
        loop, state = asyncio.get_running_loop(), ServerState()
        path = self._folder / f"{TURN}{os.getpid()}-{secrets.token_hex(3)}.sock"

        def connection() -> HttpConnection:
            return HttpConnection(self._config, state, {ATTEMPT: token_hash(token)}, loop)

        with _unix(path) as unix:
            server = await loop.create_unix_server(connection, sock=unix)
            try:
                yield str(path)
            finally:
                server.close()
                for each in list(state.connections):
                    each.shutdown()


@asynccontextmanager
async def _running(doors: list[_BoundServer]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(door.serve(), name="http") for door in doors]
    try:
        for door, task in zip(doors, tasks, strict=True):
            opened = asyncio.create_task(door.opened.wait())
            await asyncio.wait({opened, task}, return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()
            if task.done():
                task.result()
        yield
    finally:
        for door in doors:
            door.should_exit = True
        await asyncio.gather(*tasks)


class EmbeddedServer(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller, and reports when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.opened = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and tell."""
        await super().startup(sockets)
        self.opened.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are not its business."""
        yield


def _make_config(app: ASGIApp, connection: type[HttpConnection]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=500,
        timeout_graceful_shutdown=_GRACE,
    )


class _BoundServer(EmbeddedServer):
    """One on a socket that is bound already."""

    def __init__(self, app: ASGIApp, bound: socket.socket, connection: type[HttpConnection] = HttpConnection) -> None:
        super().__init__(_make_config(app, connection))
        self._bound = bound

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer until `should_exit`."""
        await super().serve(sockets or [self._bound])


@contextmanager
def _tcp(host: str, port: int) -> Iterator[socket.socket]:
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((bare, port))
        except (OSError, OverflowError) as error:
            raise MachineError(
                Code.ENGINE_UNREACHABLE,
                f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}",
                hint="choose another port with --port or server.port; 0 takes a free one",
            ) from error
        yield bound


@contextmanager
def _unix(path: Path) -> Iterator[socket.socket]:
    """Open a socket of that name in a folder that only we can use."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
        try:
            path.unlink(missing_ok=True)  # what a killed process left
            bound.bind(str(path))
            path.chmod(0o600)
        except OSError as error:
            raise MachineError(
                Code.ENGINE_UNREACHABLE, f"cannot listen on {path}: {error.strerror or error}"
            ) from error
        try:
            yield bound
        finally:
            with suppress(OSError):
                path.unlink()


def socket_folder(name: str) -> Path:
    """Make the folder for the sockets of a root, with rights for its owner alone.

    It lies under $XDG_RUNTIME_DIR, or in the temporary folder where there is none. Raises MachineError when
    the folder belongs to another user.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    bases = [Path(runtime) / "agenttalk"] if runtime.startswith("/") and Path(runtime).is_dir() else []
    bases += [Path(tempfile.gettempdir()) / f"agenttalk-{os.getuid()}", Path(f"/tmp/agenttalk-{os.getuid()}")]  # noqa: S108
    base = next(
        (each for each in bases if len(os.fsencode(each / name / "part-4194304-abcdef.sock")) <= _LONGEST_PATH), None
    )
    if base is None:
        raise MachineError(Code.ENGINE_UNREACHABLE, f"{bases[-1]} is too long for a socket")
    for folder in (base, base / name):
        _own(folder)
    return base / name


def _own(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise MachineError(
            Code.FILE_UNWRITABLE, f"cannot make {folder}: {error.strerror or error}", hint="set XDG_RUNTIME_DIR"
        ) from error
    mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
    if not mine:
        raise MachineError(
            Code.FILE_UNSAFE, f"{folder} is not a folder of ours alone", hint="remove it, or set XDG_RUNTIME_DIR"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _spell_host(host: str) -> str:
    return f"[{host.strip('[]')}]" if ":" in host else host.lower()
