"""One database (a SQLite file, a PostgreSQL schema) with its writer and reader, and the boards in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from agenttalk.adapters.store import queries, schema
from agenttalk.adapters.store.dialect import Connection, Dialect, Listener, Params, translating
from agenttalk.adapters.store.ledger import Head
from agenttalk.adapters.store.wake_signal import Signal
from agenttalk.adapters.store.worker import Job, Worker
from agenttalk.adapters.store.writer import Hooks, Writer
from agenttalk.ports import Clock, Lasting, Row, Tx, Value

T = TypeVar("T")
Question: TypeAlias = tuple[str, dict[str, Value]]


class Database:
    """Opened and migrated when made; raises AgentTalkError when that cannot be."""

    def __init__(
        self,
        name: str,
        dialect: Dialect,
        clock: Clock,
        *,
        part: schema.Part = "board",
        on_head: Callable[[Head], None] | None = None,
    ) -> None:
        self.dialect = dialect
        connection = migrated(dialect, part, name)
        self.signal = Signal()
        self.writer = Writer(name, dialect, connection, clock, Hooks(self.signal.fire, on_head))
        self.reader = Reader(name, dialect)
        self._listener: Listener | None = None
        self._listening = False

    def listen(self) -> None:
        """Hear of the effects of other servers, from the first time that somebody wants to know."""
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


def migrated(dialect: Dialect, part: schema.Part, name: str) -> Connection:
    """A connection to a database whose schema is up to date."""
    connection = dialect.connect()
    try:
        with translating(dialect):
            schema.migrate(connection, schema.migrations(dialect.name, part), name)
    except Exception:
        connection.close()
        raise
    return connection


class Board:
    """The port `Store` for one board of a database."""

    def __init__(self, database: Database, name: str) -> None:
        self.database = database
        self.name = name

    async def transact(self, work: Callable[[Tx], T]) -> T:
        """Run a work in a shared, synced commit."""
        result: T = await self.database.writer.ask(self.name, work)
        return result

    def handed_over(self, work: Callable[[Tx], T]) -> Lasting[T]:
        """The same, begun at once, and not to be cancelled."""
        answer: Lasting[T] = Lasting(loop=asyncio.get_running_loop())
        self.database.writer.answer_to(answer, self.name, work)
        return answer

    async def read(self, query_name: str, /, **params: Value) -> list[Row]:
        """Run a query on what is committed."""
        rows: list[Row] = await self.database.reader.ask(self.name, (query_name, params))
        return rows

    async def woken(self, seen: int) -> int:
        """Wait for effects."""
        self.database.listen()
        return await self.database.signal.wait(seen)

    async def close(self) -> None:
        """Close the database, with all boards in it."""
        await self.database.close()


class Reader(Worker[Question]):
    """Answers queries on a connection that cannot write, so that neither writers nor the loop wait for them."""

    def __init__(self, name: str, dialect: Dialect) -> None:
        self._dialect = dialect
        self._connection: Connection | None = None
        self._queries = queries.load(dialect.name)
        super().__init__(f"read {name}")

    def answer(self, jobs: list[Job[Question]]) -> None:
        """Each query by itself; a lost connection is made anew once."""
        for job in jobs:
            name, params = job.ask
            try:
                job.value = self._ask(self._queries[name], {**params, "board": job.board})
            except Exception as error:  # noqa: BLE001 - it belongs to whoever asked
                job.error = self._dialect.translated(error) or error

    def end(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.close()

    def _ask(self, statement: str, params: Params) -> list[Row]:
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
