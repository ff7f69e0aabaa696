"""Serves the HTTP API of an engine, or of a part for the agents that it runs."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from starlette.types import ASGIApp

from agenttalk.adapters.drivers import peers
from agenttalk.adapters.process_ids import is_alive
from agenttalk.adapters.store import operator_folder
from agenttalk.doors.api.app import create_app
from agenttalk.doors.api.server import TURN, ServerAddresses, make_turn_sockets, serve_app, socket_folder
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.service import Service
from agenttalk.wiring.settings import Settings


@asynccontextmanager
async def engine_api(
    root: Path, settings: Settings, service: Service, port: int | None
) -> AsyncIterator[ServerAddresses]:
    """Serve the API of an engine at the configured address, or at another port."""
    server = settings.server
    folder = socket_folder(operator_folder.root_name(root))
    _sweep_sockets(folder, lambda _: True)  # we hold the root's lock, so their processes are dead
    async with serve_app(
        create_app(service),
        host=server.host,
        port=server.port if port is None else port,
        socket_path=folder / "engine.sock",
        public=server.public,
        names=server.names,
        judge=peers.attempt_of,
    ) as where:
        yield where


@asynccontextmanager
async def agent_api(deps: Deps, root: Path) -> AsyncIterator[EngineAddress]:
    """Serve only the API for agents, for a part that runs them without an engine."""
    service = Service(deps, is_ready=lambda: True)
    folder = socket_folder(operator_folder.root_name(root))
    _sweep_sockets(folder, lambda pid: not is_alive(pid))
    path = folder / f"part-{os.getpid()}-{secrets.token_hex(3)}.sock"
    app = create_app(service, serves="agents")
    async with serve_app(app, host="127.0.0.1", port=0, socket_path=path, judge=peers.attempt_of) as where:
        yield EngineAddress(where.http, where.socket, where.doors)


@asynccontextmanager
async def relay_api(root: Path, app: ASGIApp) -> AsyncIterator[EngineAddress]:
    """Open sockets for the turns of a worker, at which this application answers."""
    folder = socket_folder(operator_folder.root_name(root))
    _sweep_sockets(folder, lambda _: True)  # we hold the worker's lock, so their processes are dead
    yield EngineAddress("", "", make_turn_sockets(app, folder).open)


def _sweep_sockets(folder: Path, is_dead: Callable[[int], bool]) -> None:
    """Remove sockets of parts that were killed, and of their turns."""
    for path in (*folder.glob("part-*.sock"), *folder.glob(f"{TURN}*.sock")):
        pid = path.stem.split("-")[1]
        if pid.isdecimal() and is_dead(int(pid)):
            with suppress(OSError):
                path.unlink()
