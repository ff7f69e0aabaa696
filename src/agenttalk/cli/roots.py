"""How commands reach a root: through its engine when one runs, else by themselves."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer

from agenttalk.cli.output import Output, Settings
from agenttalk.engine.deps import Deps
from agenttalk.errors import Code, UsageError
from agenttalk.store.rootlock import RootLock
from agenttalk.wiring import opened

T = TypeVar("T")
MARKS = ("agents", "system_runtime", "data", "agenttalk.toml")
"""What makes a folder a root: one of these."""
EXIT_INTERRUPTED = 130


def chosen(ctx: typer.Context, root: Path | None, as_json: bool) -> tuple[Output, Path]:  # noqa: FBT001 - as given
    """The root that a command is about. Raises UsageError when none is named, or it is no root."""
    settings = Settings.merged(ctx, root, as_json)
    if settings.root is None:
        raise UsageError(
            Code.OPTION_INVALID, "which root?", hint="give --root FOLDER, the one that holds agents/, or AGENTTALK_ROOT"
        )
    folder = settings.root.absolute()
    if not any((folder / mark).exists() for mark in MARKS):
        raise UsageError(
            Code.OPTION_INVALID,
            f"{folder} is not a root",
            hint="a root holds agents/ and system_runtime/; look at --root",
        )
    return Output(as_json=settings.as_json), folder


@asynccontextmanager
async def local(root: Path) -> AsyncIterator[Deps]:
    """A root without an engine, opened for one command."""
    with RootLock.take(root, "part"):
        async with opened(root, witnessed=True) as deps:
            yield deps


def asked(
    root: Path, path: str, by_hand: Callable[[Deps], Awaitable[T]], body: dict[str, Any] | None = None
) -> T | Any:
    """The engine's answer when one runs (a POST when there is a body), else that of `by_hand` on the opened root."""
    from agenttalk.cli import engine_client

    client = engine_client.running(root)
    if client is not None:
        return client.get(path) if body is None else client.post(path, body)

    async def run() -> T:
        async with local(root) as deps:
            return await by_hand(deps)

    return asyncio.run(run())


def looped(start: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Run a loop until it is told to end: 0 after SIGTERM, 130 after Ctrl-C."""
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
