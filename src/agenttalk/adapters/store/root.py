"""The databases of a root, by the names of their boards, opened when they are first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from agenttalk.adapters.store.blobs import BoardBlobs
from agenttalk.adapters.store.database import BoardStore, Database
from agenttalk.adapters.store.dialect import Dialect
from agenttalk.adapters.store.ledger import ChainHead
from agenttalk.adapters.store.schema import Part
from agenttalk.adapters.store.sqlite import Sqlite
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.ports.statements.core import LATEST_FACT, SEALED_FACTS
from agenttalk.ports.storage import Clock, Tx

if TYPE_CHECKING:
    from agenttalk.adapters.store.postgres import Postgres

SYSTEM: Final = "system"
MAIL: Final = "_mail"
TOOLCHAIN: Final = "_toolchain"
HEAD_SEALED: Final = "head.sealed"
"""The fact in the system's chain that tells how far the chain of another database had come."""
_FILE: Final = "blackboard.db"


def database_path(root: Path, board: str) -> Path:
    """Return the path of a board's SQLite database."""
    data = root / "data"
    if board == SYSTEM:
        return data / "system.db"
    if board in {MAIL, TOOLCHAIN}:
        return data / board / _FILE
    if not is_id(board) or board.startswith("_"):
        raise UsageError(
            Code.ID_INVALID,
            f"{board[:140]!r} is not the name of a project",
            hint="use letters, digits, '_', '-' and '.', and no '_' in front",
        )
    return data / "projects" / board / _FILE


def list_databases(root: Path) -> dict[str, Path]:
    """List the databases of a root, by board; the system's first."""
    projects = sorted(path.parent.name for path in (root / "data" / "projects").glob(f"*/{_FILE}"))
    named = [SYSTEM, MAIL, TOOLCHAIN, *(name for name in projects if is_id(name))]
    return {name: path for name in named if (path := database_path(root, name)).is_file()}


def open_postgres(url: str, schema: str) -> Postgres:
    """Open a schema of a PostgreSQL database, and load the driver. Raises UsageError if it is not installed."""
    try:
        from agenttalk.adapters.store.postgres import Postgres
    except ImportError as error:
        raise UsageError(
            Code.STORE_INCOMPATIBLE,
            "the driver for PostgreSQL is not installed",
            hint="pip install 'agenttalk[postgres]'",
        ) from error
    return Postgres(url, schema)


class Witness(Protocol):
    """Keeps the heads of the chains in a place that is not in the root. Several threads call it."""

    def find_head(self, chain: str) -> ChainHead | None:
        """Read the head that was recorded last."""

    def dispute(self, chain: str) -> None:
        """Keep the known head of a chain that does not contain it any more, so that the difference stays visible."""

    def note(self, chain: str, head: ChainHead) -> None:
        """Write down how far it has come now."""


class RootStores:
    """All stores of a root: SQLite files under `data/`, or with `url` the schemas of a PostgreSQL database."""

    def __init__(self, root: Path, clock: Clock, *, url: str = "", witness: Witness | None = None) -> None:
        self._root = root
        self._clock = clock
        self._url = url
        self._witness = witness
        self._databases: dict[str, Database] = {}
        self._boards: dict[str, BoardStore] = {}
        """Those that were asked for and are open."""
        self._lock = asyncio.Lock()

    async def board(self, name: str) -> BoardStore:
        """Open the store of a board, and make it if it is missing."""
        opened = self._boards.get(name)
        if opened is not None:
            return opened
        database_path(self._root, name)  # raises for an invalid name
        async with self._lock:
            if SYSTEM not in self._databases:
                await self._open(SYSTEM, partial(self._note, SYSTEM))
            chain = self._chain(name)
            if chain not in self._databases:
                await self._open(chain, partial(self._copy_head, chain))
            found = self._boards[name] = BoardStore(self._databases[chain], name)
            return found

    async def blobs(self, name: str) -> BoardBlobs:
        """Return the contents of a board."""
        return BoardBlobs(await self.board(name), None if self._url else self._root / "data" / "blobs")

    def commits(self) -> dict[str, tuple[int, int]]:
        """Return for each open database the number of commits, and of works in them."""
        return {chain: (each.writer.commits, each.writer.works) for chain, each in dict(self._databases).items()}

    def has_board(self, name: str) -> bool:
        """Whether a board was ever made. PostgreSQL has one schema for all projects, so there it always was."""
        return bool(self._url) or database_path(self._root, name).is_file()

    async def close(self) -> None:
        """Close all; the system last, because the others' heads are written into it."""
        async with self._lock:
            self._boards.clear()
            others = [database for chain, database in self._databases.items() if chain != SYSTEM]
            await asyncio.gather(*(database.close() for database in others))
            if self._databases:
                await self._databases[SYSTEM].close()
            self._databases.clear()

    async def _open(self, chain: str, on_head: Callable[[ChainHead], None] | None) -> None:
        part: Part = "system" if chain == SYSTEM else "board"
        opened = partial(Database, chain, self._dialect(chain), self._clock, part=part, on_head=on_head)
        database = self._databases[chain] = await asyncio.to_thread(opened)
        known = self._witness.find_head(chain) if self._witness else None
        if self._witness and known:
            rows = await database.reader.ask(chain, (SEALED_FACTS, {"after": known.link - 1, "limit": 1}))
            if not rows or (rows[0].link, rows[0].hash) != known:
                self._witness.dispute(chain)

    def _chain(self, board: str) -> str:
        """Return the name of a board's database: its own, or the schema that it shares."""
        if not self._url or board == SYSTEM:
            return board
        return {MAIL: "mail", TOOLCHAIN: "toolchain"}.get(board, "projects")

    def _dialect(self, chain: str) -> Dialect:
        return open_postgres(self._url, chain) if self._url else Sqlite(database_path(self._root, chain))

    def _copy_head(self, chain: str, head: ChainHead) -> None:
        """Write the head of another chain into the system's chain; the writer of that chain calls this."""
        self._note(chain, head)
        body: wire.JsonValue = {"link": head.link, "hash": f"sha256:{head.hash.hex()}"}

        def note(tx: Tx) -> None:
            known = tx.run(LATEST_FACT, subject=chain, kind=HEAD_SEALED)
            if not known or known[0].body != wire.write(body):
                tx.record(HEAD_SEALED, chain, body)

        self._databases[SYSTEM].writer.post(SYSTEM, note)

    def _note(self, chain: str, head: ChainHead) -> None:
        if self._witness:
            self._witness.note(chain, head)
