"""How commands reach a root: through its engine when one runs, else by themselves."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions
from agenttalk.doors.cli.core.root_discovery import MARKS, resolve_root

if TYPE_CHECKING:
    import asyncio

    from agenttalk.doors.cli.core.engine_client import EngineClient
    from agenttalk.engine.core.deps import Deps
    from agenttalk.rules.people.attestation import AnswerProof

T = TypeVar("T")
EXIT_INTERRUPTED = 130
PATIENCE = 3.0
"""Seconds in which an engine has to be there, or gone, once it holds the root."""


def choose_root(ctx: typer.Context, root: Path | None, as_json: bool) -> tuple[CommandOutput, Path]:  # noqa: FBT001 - as given
    """The root that a command is about. Raises UsageError when none is named, or it is no root."""
    given = CommonOptions.merge(ctx, root, as_json)
    folder = resolve_root(given.root).absolute()
    if not any((folder / mark).exists() for mark in MARKS):
        raise UsageError(
            Code.OPTION_INVALID,
            f"{folder} is not a root",
            hint="a root holds agents/ and system_runtime/; look at --root",
        )
    return CommandOutput(as_json=given.as_json), folder


@asynccontextmanager
async def open_local_root(root: Path) -> AsyncIterator[Deps]:
    """A root without an engine, opened for one command."""
    from agenttalk.adapters.store.root_lock import RootLock
    from agenttalk.wiring import open_configured_root, settings

    configured = settings.load(root)
    with RootLock.acquire(root, "part"):
        async with open_configured_root(root, configured) as deps:
            yield deps


async def prove_operator(root: Path, deps: Deps) -> AnswerProof:
    """What shows that the operator of a root is here: the token in a folder that no agent in a sandbox sees.

    Raises UsageError when it is not the token that the root's engine knows.
    """
    from agenttalk.adapters.store import operator_folder
    from agenttalk.engine.core import access
    from agenttalk.rules.people.attestation import AnswerProof

    if not await access.is_operator_token(deps, operator_folder.ensure_token(root)):
        raise UsageError(
            Code.TOKEN_REFUSED,
            f"{operator_folder.folder_of(root)} is not the folder of the operator of {root}",
            hint="work as the user who runs its engine, with the same XDG_CONFIG_HOME, or answer on its pages; "
            "after a root was moved, start its engine once",
        )
    return AnswerProof("operator", access.ENGINE_TOKEN_LABEL)


def ask_root_for_all(
    root: Path, path: str, name: str, by_hand: Callable[[Deps], Awaitable[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Everything of a list that the engine tells page by page (`by_hand` tells all of it at once)."""
    found: list[dict[str, Any]] = []
    place: str | None = ""
    while place is not None:
        told = ask_root(root, f"{path}?limit=500" + (f"&after={place}" if place else ""), by_hand)
        found += told[name]
        place = told.get("next")
    return found


def ask_root(
    root: Path, path: str, by_hand: Callable[[Deps], Awaitable[T]], body: dict[str, Any] | None = None
) -> T | Any:
    """The engine's answer when one runs (a POST when there is a body), else that of `by_hand` on the opened root.

    An engine that is just starting or ending is waited for. Where one runs, asking it is all that is loaded.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        client = _engine(root)
        try:
            if client is not None:
                return client.get(path) if body is None else client.post(path, body)
            return _run_offline(root, by_hand)
        except MachineError as error:
            passing = error.code is Code.ENGINE_RUNNING if client is None else not client.reached
            if not passing or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _engine(root: Path) -> EngineClient | None:
    """Who asks the engine of a root, if one runs."""
    from agenttalk.adapters.store.root_lock import running_engine

    if running_engine(root) is None:
        return None
    from agenttalk.doors.cli.core import engine_client

    return engine_client.connect_to_running_engine(root)


def _run_offline(root: Path, by_hand: Callable[[Deps], Awaitable[T]]) -> T:
    import asyncio

    from agenttalk.contracts.core.large_documents import pause_collector

    async def run() -> T:
        async with open_local_root(root) as deps:
            return await by_hand(deps)

    with pause_collector():  # what is loaded now is kept to the end, which is near
        return asyncio.run(run())


def run_loop(start: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Run a loop until it is told to end: 0 after SIGTERM, 130 after Ctrl-C."""
    import asyncio

    heard: list[int] = []

    async def run() -> None:
        stop = asyncio.Event()

        def end(number: int) -> None:
            heard.append(number)
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end, number)
        await start(stop)

    asyncio.run(run())
    return EXIT_INTERRUPTED if signal.SIGINT in heard else 0


def make_root(ctx: typer.Context, root: Path | None) -> Path:
    """The root that a plan runs in; made when it is not there. Raises UsageError when there is none to be made."""
    folder = resolve_root(CommonOptions.merge(ctx, root, as_json=False).root).absolute()
    try:
        for name in MARKS[:2]:
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(Code.FILE_UNWRITABLE, f"{folder} cannot be made: {error.strerror}") from error
    return folder


NOT_SERVED: Final = "no engine runs here, so nothing of it goes on: 'agenttalk serve' or 'agenttalk run' takes it up"


def is_served(root: Path) -> bool:
    """Whether an engine, or its parts, run in a root."""
    from agenttalk.adapters.store.root_lock import running_engine, running_parts

    return running_engine(root) is not None or bool(running_parts(root))
