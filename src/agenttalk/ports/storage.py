"""What the engine needs of databases, and of time and chance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from agenttalk.contracts.core.wire import JsonValue
    from agenttalk.ports.statements.statement import Statement

T = TypeVar("T")
R = TypeVar("R", bound=tuple[Any, ...])
Value: TypeAlias = "str | bytes | int | float | None"
"""What a column holds."""


class Tx(Protocol):
    """An open transaction, as a work sees it. It is over when the work returns; do not keep it."""

    @property
    def board(self) -> str:
        """The board that the transaction writes to."""

    def run(self, statement: Statement[R], /, **params: Value) -> list[R]:
        """Run one statement and return its rows.

        Every statement may use `:board`, which is bound to the board of the store. Raises ConflictError
        when a constraint forbids it: the work is undone, whether or not it catches the error. Raises
        MachineError when the database cannot go on: then the whole batch is undone.
        """

    def run_many(self, statement: Statement[Any], rows: Sequence[Mapping[str, Value]], /) -> None:
        """Run one statement for each of many parameters. Raises as `run` does; rows are not returned."""

    def run_each(self, statement: Statement[R], rows: Sequence[Mapping[str, Value]], /) -> list[R]:
        """Run one statement for each of many parameters; the rows of all answers, one after the other."""

    def run_later(
        self, statement: Statement[Any], params: dict[str, Value], lost: Exception | None = None, /
    ) -> object:
        """Run one statement before the work is over, and before any other that looks at the same tables.

        Rows of one statement that wait are written together. Statements that wait are run in the order in which they
        came first, so none may depend on one that comes after it. With `lost` it has to write one row: if it does
        not, `lost` is raised, or, where several rows were written together, ConflictError.

        Returns a mark: as long as it `waits`, `params` may still be amended.
        """

    def is_waiting(self, mark: object) -> bool:
        """Whether a row that was handed over to be written later is not written yet."""

    def next_id(self, table: Literal["messages", "deliveries"]) -> int:
        """The id of a row that is to be inserted into a table with this transaction."""

    def reserve_ids(self, many: int) -> None:
        """Reserve ids for so many messages, deliveries and facts, where the database gives them."""

    def record(self, kind: str, subject: str, body: JsonValue | bytes) -> int:
        """Append a fact to the ledger and return its `seq`. It stands or falls with the transaction.

        A body of bytes is JSON in its canonical form already.
        """

    def queue_effect(self, kind: str, key: str, body: JsonValue) -> bool:
        """Queue something to be done once this is committed; False when the board had that key before.

        A key is never forgotten, so asking twice for the same effect asks once.
        """


class UncancellableFuture(asyncio.Future[T]):
    """A future that cannot be cancelled: a task that waits for it and is cancelled hears of that when it is done."""

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002 - part of what a future is
        """Say that it goes on."""
        return False


class Store(Protocol):
    """One board: durable state, its ledger and its effects."""

    @property
    def name(self) -> str:
        """The board."""

    async def transact(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction; return what it returns after the commit is synced, never before.

        Works run one at a time, in the order in which they were handed over. Those that wait share one
        commit, each in a savepoint of its own: a work that raises is undone alone, and its exception comes
        out here. A work must be short and synchronous: it holds up all others. It runs in another thread
        and at most once.

        Raises MachineError when the commit failed. STORE_IN_DOUBT means that the commit may have
        happened; every other code means that nothing was stored. Once handed over, a work is carried out even
        when its caller is cancelled.
        """

    def submit(self, work: Callable[[Tx], T]) -> UncancellableFuture[T]:
        """The same as `transact`, begun at once. A task that awaits it is cancelled only when it is done."""

    async def read(self, query: Statement[R], /, **params: Value) -> list[R]:
        """Run one query on what is committed. Sees every work whose `transact` has returned."""

    async def wait_for_effects(self, seen: int) -> int:
        """Wait until effects were queued since the state `seen` (0 at first), and return the new state.

        A hint, not a promise: after a crash or a lost connection look at the effects themselves.
        """

    async def close(self) -> None:
        """Carry out what was handed over, then end. Afterwards every call raises STORE_UNAVAILABLE."""


class Blobs(Protocol):
    """Contents, named by their hash (`sha256:…`)."""

    async def put(self, source: bytes | BinaryIO) -> str:
        """Keep a content durably and return its hash. Afterwards a transaction may refer to it."""

    async def get(self, digest: str) -> bytes:
        """The content. Raises BLOB_MISSING, or STORE_DAMAGED when it is not what was put in."""

    async def exists(self, digest: str) -> bool:
        """Whether the content is here."""

    async def size(self, digest: str) -> int:
        """How many bytes it has. Raises BLOB_MISSING."""

    async def read_piece(self, digest: str, first: int, many: int) -> bytes:
        """Some of its bytes, from a place on; fewer at its end. They are not checked. Raises BLOB_MISSING."""


class Clock(Protocol):
    """What time it is. Safe to be asked from several threads."""

    def now(self) -> datetime:
        """The time in UTC, aware."""


class Ids(Protocol):
    """New names."""

    def new(self, prefix: str) -> str:
        """Make a unique id, e.g. `msg_9f…`."""


class Stores(Protocol):
    """Every board of a root."""

    async def board(self, name: str) -> Store:
        """The store of a board; made when it is not there yet."""

    async def blobs(self, name: str) -> Blobs:
        """The contents of a board."""

    def has_board(self, name: str) -> bool:
        """Whether a board was ever made."""
