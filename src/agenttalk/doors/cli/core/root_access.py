"""Serves the requests of commands: by the engine of the root, or by this process where no engine runs."""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions
from agenttalk.doors.cli.core.root_discovery import MARKS, resolve_root

if TYPE_CHECKING:
    import asyncio

    from agenttalk.contracts.core.vocabulary import Locale
    from agenttalk.doors.cli.core.engine_client import EngineClient
    from agenttalk.doors.cli.core.local_root import LocalRoot

T = TypeVar("T")
P = TypeVar("P", bound="Mapping[str, object]")
UseCase: TypeAlias = "Callable[[LocalRoot], Awaitable[T]]"
"""What a command does on a root that no engine serves."""
EXIT_INTERRUPTED = 130
PATIENCE = 3.0
"""Seconds for which a command waits for an engine that is starting or ending."""


def choose_root(ctx: typer.Context, root: Path | None, as_json: bool) -> tuple[CommandOutput, Path]:  # noqa: FBT001 - as given
    """Return the output and the root of a command. Raises UsageError when no root is named or found."""
    given = CommonOptions.merge(ctx, root, as_json)
    folder = resolve_root(given.root).absolute()
    if not any((folder / mark).exists() for mark in MARKS):
        from agenttalk.rules.text import cli_words

        hint = cli_words.ERRORS["not_root_hint"]()
        raise UsageError(Code.OPTION_INVALID, cli_words.ERRORS["not_root"](folder=folder), hint=hint)
    return CommandOutput.from_options(given), folder


def ask_root_for_all(
    root: Path, path: str, offline: UseCase[P], items_of: Callable[[P], list[T]], *, locale: Locale = "en"
) -> list[T]:
    """Return a whole list, which an engine serves page by page, and `offline` returns at once."""
    items: list[T] = []
    place = ""
    while True:
        page = ask_root(root, f"{path}?limit=500" + (f"&after={place}" if place else ""), offline, locale=locale)
        items += items_of(page)
        if page.get("next") is None:
            return items
        place = str(page["next"])


def ask_root(
    root: Path, path: str, offline: UseCase[T], body: Mapping[str, Any] | None = None, *, locale: Locale = "en"
) -> T:
    """Have the engine of a root serve a request, or this process where no engine runs.

    With a `body` the request is a POST. An engine answers in the language `locale`, while what `offline` returns has
    messages, which the caller translates. `offline` is the use case behind `path`, so both give the same
    record. An engine that is starting or ending
    is waited for. Beside an engine, nothing is loaded but its client.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        client = _connect_to_engine(root, locale)
        try:
            if client is not None:
                answer: T = client.get(path) if body is None else client.post(path, body)
                return answer
            return _run_offline(root, offline)
        except MachineError as error:
            passing = error.code is Code.ENGINE_RUNNING if client is None else not client.reached
            if not passing or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _connect_to_engine(root: Path, locale: Locale) -> EngineClient | None:
    """Return a client of the engine of a root; None where no engine runs, without loading the client."""
    from agenttalk.adapters.store.root_lock import running_engine

    if running_engine(root) is None:
        return None
    from agenttalk.doors.cli.core import engine_client

    return engine_client.connect_to_running_engine(root, locale)


def _run_offline(root: Path, offline: UseCase[T]) -> T:
    import asyncio

    from agenttalk.contracts.core.large_documents import pause_collector
    from agenttalk.doors.cli.core.local_root import open_local_root

    async def run() -> T:
        async with open_local_root(root) as local:
            return await offline(local)

    with pause_collector():  # this process ends soon: what is loaded now need not be collected
        return asyncio.run(run())


def run_loop(start: Callable[[asyncio.Event], Awaitable[None]], interrupt: Callable[[], bool] = lambda: False) -> int:
    """Run a loop until a signal ends it. Returns 0 after SIGTERM, 130 after Ctrl-C.

    `interrupt` gets the first Ctrl-C, and says whether it ends the loop itself, politely. The second one ends it now.
    """
    import asyncio

    signals: list[int] = []

    async def run() -> None:
        stop = asyncio.Event()

        def end(number: int) -> None:
            signals.append(number)
            if number != signal.SIGINT or signals.count(number) > 1 or not interrupt():
                stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end, number)
        await start(stop)

    asyncio.run(run())
    return EXIT_INTERRUPTED if signal.SIGINT in signals else 0


def make_root(ctx: typer.Context, root: Path | None) -> Path:
    """Return the root that a plan runs in, and make it if necessary. Raises UsageError when no root is named."""
    folder = resolve_root(CommonOptions.merge(ctx, root, as_json=False).root).absolute()
    try:
        for name in MARKS[:2]:
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(Code.FILE_UNWRITABLE, f"cannot create the root {folder}: {error.strerror}") from error
    return folder


def is_served(root: Path) -> bool:
    """Return whether an engine, or its parts, run in a root."""
    from agenttalk.adapters.store.root_lock import running_engine, running_parts

    return running_engine(root) is not None or bool(running_parts(root))
