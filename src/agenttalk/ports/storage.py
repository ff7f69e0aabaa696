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


class Snapshot(Protocol):
    """The committed state of a board at one moment. It is over when the work that reads it returns; do not keep it."""

    @property
    def board(self) -> str:
        """The board that is read."""

    def run(self, statement: Statement[R], /, **params: Value) -> list[R]:
        """Run one query and return its rows."""


class Tx(Snapshot, Protocol):
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
        """Run one statement for each of many parameters. Returns the rows of all answers, one after the other."""

    def run_later(
        self, statement: Statement[Any], params: dict[str, Value], lost: Callable[[], Exception] | None = None, /
    ) -> object:
        """Run one statement before the work is over, and before any other that uses the same tables.

        Deferred rows of one statement are written together. Deferred statements run in the order in which they
        first came, so none may depend on a later one. With `lost` the statement has to write one row: if it does
        not, the error that `lost` makes is raised, or, where several rows were written together, ConflictError.

        Returns a mark: as long as `is_waiting` is true for it, `params` may still be changed.
        """

    def is_waiting(self, mark: object) -> bool:
        """Whether a deferred row is not written yet."""

    def next_id(self, table: Literal["messages", "deliveries"]) -> int:
        """Return the id for a new row that this transaction inserts into a table."""

    def reserve_ids(self, many: int) -> None:
        """Reserve ids for so many messages, deliveries and facts, if the database assigns them."""

    def record(self, kind: str, subject: str, body: JsonValue | Mapping[str, object] | bytes) -> int:
        """Append a fact to the ledger and return its `seq`. It is part of the transaction.

        A body of bytes is JSON in its canonical form already.
        """

    def queue_effect(self, kind: str, key: str, body: JsonValue) -> bool:
        """Queue an effect for after the commit. Returns False if the board had that key before.

        A key is never forgotten, so asking twice for the same effect asks once.
        """


class UncancellableFuture(asyncio.Future[T]):
    """A future that cannot be cancelled: a cancelled task that waits for it learns of that when the future is done."""

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002 - part of what a future is
        """Return False: the work continues."""
        return False


class Store(Protocol):
    """One board: durable state, its ledger and its effects."""

    @property
    def name(self) -> str:
        """The board."""

    async def transact(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction; return what it returns after the commit is synced, never before.

        Works run one at a time, in the order in which they were submitted. Waiting works share one
        commit, each in a savepoint of its own: a work that raises is undone alone, and its exception is
        raised here. A work must be short and synchronous: it delays all others. It runs in another thread
        and at most once.

        Raises MachineError when the commit failed. STORE_IN_DOUBT means that the commit may have
        happened; every other code means that nothing was stored. Once submitted, a work is carried out even
        when its caller is cancelled.
        """

    def submit(self, work: Callable[[Tx], T]) -> UncancellableFuture[T]:
        """Begin what `transact` does, at once. A task that awaits the result is cancelled only when it is done."""

    async def read(self, query: Statement[R], /, **params: Value) -> list[R]:
        """Run one query on the committed state. It sees every work whose `transact` has returned."""

    async def read_together(self, work: Callable[[Snapshot], T]) -> T:
        """Run a work of several queries on the committed state at one moment; return what it returns.

        It sees what `read` sees, holds up no transaction, and cannot write. It must be short and synchronous, and
        runs in another thread.
        """

    async def wait_for_effects(self, seen: int) -> int:
        """Wait until effects were queued since the state `seen` (0 at first), and return the new state.

        A hint, not a promise: after a crash or a lost connection read the effects themselves.
        """

    async def close(self) -> None:
        """Carry out the submitted works, then end. Afterwards every call raises STORE_UNAVAILABLE."""


class Blobs(Protocol):
    """Contents, named by their hash (`sha256:…`)."""

    async def put(self, source: bytes | BinaryIO) -> str:
        """Keep a content durably and return its hash. Afterwards a transaction may refer to it."""

    async def get(self, digest: str) -> bytes:
        """Read a content. Raises BLOB_MISSING, or STORE_DAMAGED if it does not match its hash."""

    async def exists(self, digest: str) -> bool:
        """Whether the content is stored here."""

    async def size(self, digest: str) -> int:
        """Return its number of bytes. Raises BLOB_MISSING."""

    async def read_piece(self, digest: str, first: int, many: int) -> bytes:
        """Read some of its bytes from an offset on; fewer at its end. They are not checked. Raises BLOB_MISSING."""


class Clock(Protocol):
    """The clock. Several threads may ask it."""

    def now(self) -> datetime:
        """Return the time in UTC, aware."""


class Ids(Protocol):
    """Makes unique ids."""

    def new(self, prefix: str) -> str:
        """Make a unique id, e.g. `msg_9f…`."""


class Stores(Protocol):
    """Every board of a root."""

    async def board(self, name: str) -> Store:
        """Open the store of a board, and make it if it is missing."""

    async def blobs(self, name: str) -> Blobs:
        """Return the contents of a board."""

    def has_board(self, name: str) -> bool:
        """Whether a board exists."""
