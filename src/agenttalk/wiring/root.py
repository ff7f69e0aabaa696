"""Opens a root: its folder and its stores, as its settings describe them."""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.mailbox.sweep import file_time, sweep
from agenttalk.adapters.store import files, operator_folder
from agenttalk.adapters.store.ledger_heads import HeadsFile
from agenttalk.adapters.store.root import MAIL, RootStores
from agenttalk.adapters.temporary_folders import sweep_temporary_folders
from agenttalk.contracts.core import root_layout
from agenttalk.engine.core.deps import Deps, EngineLimits, SandboxPaths
from agenttalk.rules.core.isolation import IsolationSettings, OperatorIsolation
from agenttalk.rules.fleet.verify_policy import HERE, VerifyPolicy
from agenttalk.wiring.machine import RandomIds, SystemClock

if TYPE_CHECKING:
    from agenttalk.engine.core.secrets import SecretGuard
    from agenttalk.ports.kinds import TaskKind
    from agenttalk.ports.storage import Clock, Ids
    from agenttalk.rules.core.usage import BilledTokens
    from agenttalk.wiring.settings import Settings

OURSELVES: Final = (sys.executable, "-P", "-m", "agenttalk")
"""The command by which agents start us from their working folder."""
OUR_PROGRAMS: Final = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2])
"""Our interpreter, and the folder of our package: every sandbox can read them, wherever they are."""
LITTER: Final = 3600.0
"""Age in seconds at which temporary files of dead processes are removed."""
KEEP: Final = 1.0
"""Seconds between two records of the ledger's heads outside the root."""


@asynccontextmanager
async def open_root(  # noqa: PLR0913 - each is a wish of its own
    root: Path,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    limits: EngineLimits | None = None,
    url: str = "",
    witnessed: bool = False,
    hidden: tuple[Path, ...] = (),
    kinds: Mapping[str, TaskKind] | None = None,
    traced: bool = False,
    answers_by_file: bool = False,
    words: IsolationSettings | None = None,
    verify: VerifyPolicy = HERE,
    unrouted: bool = False,
) -> AsyncIterator[Deps]:
    """Open the dependencies of use cases on a root until the block ends. Sandboxed agents cannot see `hidden`.

    With `witnessed`, the heads of the ledger are also recorded in the operator's configuration folder, so that cutting
    the ledger under the root is detected.
    """
    clock = clock or SystemClock()
    heads = HeadsFile(root, shared=bool(url)) if witnessed else None
    stores = RootStores(root, clock, url=url, witness=heads)
    await asyncio.to_thread(files.close_to_others, root)
    with SafeFolder.open(root) as folder:
        keeping = asyncio.create_task(_keep(heads)) if heads else None
        try:
            own = operator_folder.folder_of(root).parent  # and those of the operator's other roots
            ours = (folder.path.absolute() / name for name in root_layout.HIDDEN)
            walls = SandboxPaths((*ours, own, *hidden), OUR_PROGRAMS, Path.home())
            yield Deps(
                folder,
                stores,
                clock,
                ids or RandomIds(),
                limits or EngineLimits(),
                shared=bool(url),
                unrouted=unrouted,
                sandbox_paths=walls,
                operator=OperatorIsolation(words or IsolationSettings()),
                traced=traced,
                answers_by_file=answers_by_file,
                kinds=kinds or {},
                self_check=(*OURSELVES, "promise", "check"),
                asks_models=(sys.executable, "-P", "-m", "agenttalk.adapters.answering"),
                price=_price,
                verify=verify,
                is_signed=_is_signed,
                mcp_server=(*OURSELVES, "mcp") if find_spec("mcp") is not None else (),
            )
        finally:
            await stores.close()
            if heads and keeping:
                keeping.cancel()
                await asyncio.to_thread(heads.flush)


def _price(model: str, billed: BilledTokens) -> float | None:
    """Price a request to a model; the prices are loaded at the first use."""
    from agenttalk.adapters.drivers.prices import price_well_known

    return price_well_known(model, billed)


def _is_signed(public_key: str, data: bytes, signature: bytes) -> bool:
    """Check a signature; the library is loaded at the first use."""
    from agenttalk.adapters.signatures import is_signed

    return is_signed(public_key, data, signature)


async def _keep(heads: HeadsFile) -> None:
    while True:
        await asyncio.sleep(KEEP)
        await asyncio.to_thread(heads.flush)


@asynccontextmanager
async def open_configured_root(
    root: Path, settings: Settings, *, kinds: Mapping[str, TaskKind] | None = None
) -> AsyncIterator[Deps]:
    """Open a root with the store and the limits that its settings name, its ledger witnessed.

    Without kinds, the root still accepts letters.
    """
    async with open_root(
        root,
        limits=_limits(settings),
        url=settings.store_url,
        witnessed=True,
        hidden=_hidden(root, settings),
        kinds=_LetterKinds(settings) if kinds is None else kinds,
        traced=settings.telemetry.endpoint is not None,
        answers_by_file=settings.people.answers_by_file,
        words=settings.isolation_words,
        unrouted=settings.folders.unrouted == "run",
        verify=VerifyPolicy(settings.checks.pool or "", double=settings.checks.double),
    ) as deps:
        own = operator_folder.token_of(root)
        deps.secret_guard.register_values(settings.read_secrets(root) | ({"the operator's token": own} if own else {}))
        with _discreet_logs(deps.secret_guard):
            yield deps


class _LetterKinds(Mapping[str, "TaskKind"]):
    """Only the kind of letters, by its board. It is made at its first use: most commands do not need it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: TaskKind | None = None

    def __getitem__(self, board: str) -> TaskKind:
        from agenttalk.engine.mail.task_kind import MailTaskKind
        from agenttalk.wiring.settings.mail import mail_rules

        if board != MAIL:
            raise KeyError(board)
        self._made = self._made or MailTaskKind(mail_rules(self._settings))
        return self._made

    def __contains__(self, board: object) -> bool:
        return board == MAIL

    def __iter__(self) -> Iterator[str]:
        return iter((MAIL,))

    def __len__(self) -> int:
        return 1


def _limits(settings: Settings) -> EngineLimits:
    said = settings.limits
    return EngineLimits(
        payload_bytes=said.payload_mib * 1024 * 1024,
        new_messages_per_tick=said.max_new_messages_per_tick,
        resumed_messages_per_tick=said.max_resume_messages_per_tick,
        poll_seconds=float(said.poll_interval_seconds),
        remote_silence_seconds=float(said.remote_silence_seconds),
        worker_ttl_seconds=float(said.worker_ttl_seconds),
        worker_wait_seconds=60.0 * said.worker_wait_minutes,
        worker_snapshot_seconds=float(said.worker_snapshot_seconds),
    )


def _hidden(root: Path, settings: Settings) -> tuple[Path, ...]:
    """List the files with secrets that settings name."""
    named = [
        settings.store.url_file,
        settings.telemetry.headers_file,
        *(each for one in settings.sources.values() for each in one.files),
    ]
    return tuple(root / each for each in named if each)


@contextmanager
def _discreet_logs(discretion: SecretGuard) -> Iterator[None]:
    """Keep secrets out of the logs of every module."""
    make = logging.getLogRecordFactory()

    def discreet(*args: Any, **more: Any) -> logging.LogRecord:
        record = make(*args, **more)
        if discretion.secrets:
            record.msg, record.args = discretion.secrets.redact(record.getMessage()), ()
            if record.exc_info:
                said = "".join(traceback.format_exception(*record.exc_info)).rstrip()
                record.exc_text, record.exc_info = discretion.secrets.redact(said), None
        return record

    logging.setLogRecordFactory(discreet)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)


def sweep_root(root: Path) -> None:
    """Remove what killed processes left behind."""
    with SafeFolder.open(root) as folder:
        sweep(folder, LITTER, file_time(folder))
    sweep_temporary_folders()
