"""The seam between the store and a database. Everything above it is the same for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.ports.storage import Value

Params: TypeAlias = Mapping[str, Value]
Columns: TypeAlias = tuple[Any, ...]
"""A row as the database returns it, before it has names."""
DialectName: TypeAlias = Literal["sqlite", "postgres"]


class DatabaseConnection(Protocol):
    """One connection, used by one thread at a time. Raises the database's own errors; see `Dialect.translate_error`."""

    def begin(self) -> None:
        """Begin a transaction that writes. SQLite lets no other connection write until its end."""

    def begin_view(self) -> None:
        """Begin a transaction that reads one state of it all, though others may be writing."""

    def commit(self) -> None:
        """Make it durable: returns when it is synced."""

    def rollback(self) -> None:
        """Undo everything since `begin`, if anything. A connection that raises here is of no more use."""

    def savepoint(self, step: Literal["open", "next", "undo"]) -> None:
        """Open the savepoint of the first work, move on to the savepoint of the next work, or undo the present one."""

    def execute(self, statement: str, params: Params) -> list[Columns]:
        """Run one statement and return its rows."""

    def execute_each(self, statement: str, params: Sequence[Params]) -> list[Columns]:
        """Run one statement for each of many parameters; the rows of all answers."""

    def execute_many(self, statement: str, params: Sequence[Params]) -> int:
        """Run one statement for each of many parameters; how many rows it wrote."""

    def execute_all(self, work: Sequence[tuple[str, Sequence[Params]]]) -> list[int]:
        """Run statements, each for each of its parameters; how many rows each of them wrote."""

    def version(self) -> int | None:
        """Return a number that stays the same until another connection writes; None if the database has none."""

    def lock(self, name: str) -> None:
        """Hold a lock between servers until the transaction ends. SQLite's `begin` is one already."""

    def notify(self) -> None:
        """Wake up those who listen, once the transaction is committed."""

    def close(self) -> None:
        """End it; never raises."""


class Listener(Protocol):
    """Hears of effects that other processes queued."""

    def close(self) -> None:
        """Stop listening."""


class Dialect(Protocol):
    """One database: how to reach it and what its errors mean."""

    @property
    def name(self) -> DialectName:
        """Which variants of statements and migrations it takes."""

    @property
    def shared(self) -> bool:
        """Whether several servers write at once. If so, the ledger is sealed apart from the commits."""

    def connect(self, *, readonly: bool = False) -> DatabaseConnection:
        """Open a new connection. Raises AgentTalkError."""

    def listen(self, heard: Callable[[], None]) -> Listener | None:
        """Call `heard`, from any thread, when another process queued effects; None when no other process can."""

    def translate_error(self, error: Exception, *, committing: bool = False) -> AgentTalkError | None:
        """Translate an error of the database; None for a fault of our program, which is raised as it is."""


class ErrorTranslator:
    """Translates errors of the database that leave the block. Other errors pass unchanged."""

    __slots__ = ("_committing", "_dialect")

    def __init__(self, dialect: Dialect, *, committing: bool = False) -> None:
        self._dialect = dialect
        self._committing = committing

    def __enter__(self) -> None:
        """Do nothing yet."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise what the error means, if the dialect knows it."""
        if isinstance(error, Exception):
            meaning = self._dialect.translate_error(error, committing=self._committing)
            if meaning is not None:
                raise meaning from error
