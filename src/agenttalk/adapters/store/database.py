"""One database (a SQLite file, a PostgreSQL schema) with its writer and reader, and the boards in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from agenttalk.adapters.store import queries, schema
from agenttalk.adapters.store.dialect import Columns, DatabaseConnection, Dialect, ErrorTranslator, Listener, Params
from agenttalk.adapters.store.ledger import ChainHead
from agenttalk.adapters.store.wake_signal import WakeSignal
from agenttalk.adapters.store.worker import BatchWorker, WorkItem
from agenttalk.adapters.store.writer import CommitHooks, DatabaseWriter
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import Clock, R, Tx, UncancellableFuture, Value

T = TypeVar("T")
Question: TypeAlias = tuple[Statement[Any], dict[str, Value]]


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
        """Answer each query by itself. A lost connection is made anew once."""
        for job in jobs:
            query, params = job.ask
            try:
                rows = self._ask(self._queries[query.name], {**params, "board": job.board})
                job.value = list(map(query.make_row, rows))
            except Exception as error:  # noqa: BLE001 - the caller gets it
                job.error = self._dialect.translate_error(error) or error

    def end(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.close()

    def _ask(self, statement: str, params: Params) -> list[Columns]:
        if self._connection is None:
            self._connection = self._dialect.connect(readonly=True)
            return self._connection.execute(statement, params)
        try:
            return self._connection.execute(statement, params)
        except Exception:
            self.end()
            self._connection = None
            if not self._dialect.shared:
                raise
            self._connection = self._dialect.connect(readonly=True)
            return self._connection.execute(statement, params)
