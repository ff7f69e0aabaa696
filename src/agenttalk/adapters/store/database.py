"""One database (a SQLite file, a PostgreSQL schema) with its writer and reader, and the boards in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from agenttalk.adapters.store import queries, schema
from agenttalk.adapters.store.dialect import DatabaseConnection, Dialect, ErrorTranslator, Listener
from agenttalk.adapters.store.ledger import ChainHead
from agenttalk.adapters.store.wake_signal import WakeSignal
from agenttalk.adapters.store.worker import BatchWorker, WorkItem
from agenttalk.adapters.store.writer import CommitHooks, DatabaseWriter
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import Clock, R, Snapshot, Tx, UncancellableFuture, Value

T = TypeVar("T")
Question: TypeAlias = "tuple[Statement[Any], dict[str, Value]] | Callable[[Snapshot], Any]"
"""One query, or a work of several on one state."""


class Database:
    """Opened and migrated when made; raises AgentTalkError when that cannot be."""

    def __init__(
        self,
        name: str,
        dialect: Dialect,
        clock: Clock,
        *,
        part: schema.Part = "board",
        on_head: Callable[[ChainHead], None] | None = None,
    ) -> None:
        self.dialect = dialect
        connection = open_migrated(dialect, part, name)
        self.signal = WakeSignal()
        self.writer = DatabaseWriter(name, dialect, connection, clock, CommitHooks(self.signal.fire, on_head))
        self.reader = DatabaseReader(name, dialect)
        self._listener: Listener | None = None
        self._listening = False

    def listen(self) -> None:
        """Listen for effects of other servers. The first caller of `wait_for_effects` starts it."""
        if not self._listening:
            self._listening = True
            self._listener = self.dialect.listen(self.signal.fire)

    async def close(self) -> None:
        """Carry out what was handed over, and end."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self.writer.stop()
        self.reader.stop()
        listener, self._listener = self._listener, None
        if listener:
            listener.close()
        self.signal.fire()


def open_migrated(dialect: Dialect, part: schema.Part, name: str) -> DatabaseConnection:
    """Open a connection to a database, and bring its schema up to date."""
    connection = dialect.connect()
    try:
        with ErrorTranslator(dialect):
            schema.migrate(connection, schema.migrations(dialect.name, part), name)
    except Exception:
        connection.close()
        raise
    return connection


class BoardStore:
    """The port `Store` for one board of a database."""

    def __init__(self, database: Database, name: str) -> None:
        self.database = database
        self.name = name

    async def transact(self, work: Callable[[Tx], T]) -> T:
        """Run a work in a shared, synced commit."""
        result: T = await self.database.writer.ask(self.name, work)
        return result

    def submit(self, work: Callable[[Tx], T]) -> UncancellableFuture[T]:
        """Begin a work at once. It cannot be cancelled."""
        answer: UncancellableFuture[T] = UncancellableFuture(loop=asyncio.get_running_loop())
        self.database.writer.answer_to(answer, self.name, work)
        return answer

    async def read(self, query: Statement[R], /, **params: Value) -> list[R]:
        """Run a query on what is committed."""
        rows: list[R] = await self.database.reader.ask(self.name, (query, params))
        return rows

    async def read_together(self, work: Callable[[Snapshot], T]) -> T:
        """Run a work of several queries on one committed state."""
        result: T = await self.database.reader.ask(self.name, work)
        return result

    async def wait_for_effects(self, seen: int) -> int:
        """Wait for effects."""
        self.database.listen()
        return await self.database.signal.wait(seen)

    async def close(self) -> None:
        """Close the database, with all boards in it."""
        await self.database.close()


class DatabaseReader(BatchWorker[Question]):
    """Answers queries on a connection that cannot write, so that neither writers nor the loop wait for them."""

    def __init__(self, name: str, dialect: Dialect) -> None:
        self._dialect = dialect
        self._connection: DatabaseConnection | None = None
        self._queries = queries.load_statements(dialect.name)
        super().__init__(f"read {name}")

    def answer(self, jobs: list[WorkItem[Question]]) -> None:
        """Answer each query by itself. A lost connection is made again once."""
        for job in jobs:
            try:
                job.value = self._answer(job.board, job.ask)
            except Exception as error:  # noqa: BLE001 - the caller gets it
                job.error = self._dialect.translate_error(error) or error

    def end(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.close()

    def _answer(self, board: str, question: Question) -> Any:
        if self._connection is None:
            self._connection = self._dialect.connect(readonly=True)
            return self._ask(self._connection, board, question)
        try:
            return self._ask(self._connection, board, question)
        except AgentTalkError:
            raise  # a work raised it
        except Exception:
            self.end()
            self._connection = None
            if not self._dialect.shared:
                raise
            self._connection = self._dialect.connect(readonly=True)
            return self._ask(self._connection, board, question)

    def _ask(self, connection: DatabaseConnection, board: str, question: Question) -> Any:
        view = DatabaseView(connection, self._queries, board)
        if isinstance(question, tuple):
            statement, params = question
            return view.run(statement, **params)
        connection.begin_view()
        try:
            return question(view)
        finally:
            connection.rollback()


class DatabaseView:
    """The port `Snapshot`: queries on a connection that cannot write."""

    def __init__(self, connection: DatabaseConnection, statements: Mapping[str, str], board: str) -> None:
        self.board = board
        self._connection = connection
        self._statements = statements

    def run(self, statement: Statement[R], /, **params: Value) -> list[R]:
        """Run a query."""
        rows = self._connection.execute(self._statements[statement.name], {**params, "board": self.board})
        return list(map(statement.make_row, rows))
