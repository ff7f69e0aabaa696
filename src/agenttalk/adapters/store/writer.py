"""The one way to write: a thread per database that lets everything that waits share one synced commit.

There is no timer. Idle, a work is committed at once; what is handed over while a commit runs shares the
next one. Nothing is answered before its commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from agenttalk.adapters.store import ledger, queries
from agenttalk.adapters.store.dialect import DatabaseConnection, Dialect, ErrorTranslator, Params
from agenttalk.adapters.store.ledger import ChainHead
from agenttalk.adapters.store.worker import BatchWorker, WorkItem
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant
from agenttalk.contracts.errors import AgentTalkError, Code, ConflictError, MachineError
from agenttalk.ports.statements.core import (
    APPEND_FACT,
    APPEND_SEALED,
    LEDGER_HEAD,
    NEWEST_FACT,
    QUEUE_EFFECT,
    SEAL_FACT,
    UNSEALED_FACTS,
    LedgerEntry,
)
from agenttalk.ports.statements.messages import FREE_DELIVERIES, FREE_MESSAGES, FREE_ROWS
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import Clock, R, Tx, Value

Work: TypeAlias = Callable[[Tx], Any]
LOG = logging.getLogger(__name__)
SEAL_SECONDS: Final = 1.0
"""How long a fact may stay unsealed, and a new head without a copy elsewhere."""
SEAL_AT_ONCE: Final = 10_000
NUMBERS: Final = 16
"""Ids of new rows that are asked for at once, where others ask, too."""
_NONE: Final[Iterator[int]] = iter(())


class DatabaseState(NamedTuple):
    """What a batch knows of the database in its end."""

    version: int
    """The version that the connection reports: the same until another connection writes."""
    chain: tuple[ChainHead, int] | None
    """The newest entry of the ledger and its number."""
    free: dict[str, Iterator[int]]
    """Ids of the next rows of tables."""


class WriteBatch:
    """The transaction of a batch; implements the port `Tx` for one work after the other."""

    __slots__ = (
        "_connection",
        "_dialect",
        "_free",
        "_known",
        "_last",
        "_lost",
        "_queries",
        "_silent",
        "_tables",
        "_touched",
        "_waiting",
        "at",
        "board",
        "chain",
        "effects",
        "facts",
        "failed",
        "version",
    )

    def __init__(
        self, dialect: Dialect, connection: DatabaseConnection, at: str, known: DatabaseState | None = None
    ) -> None:
        """`known` is the state at the end of the previous batch, if no other connection has written since."""
        self._dialect = dialect
        self._connection = connection
        # Statements whose rows are not read are run without RETURNING, which is why there are two sets of them.
        self._queries = queries.load_statements(dialect.name)
        self._silent = queries.load_silent_statements(dialect.name)
        self._tables = queries.tables_of_statements(dialect.name)
        self._last = queries.deferrable_statements(dialect.name)
        self._waiting: dict[str, list[dict[str, Value]]] = {}
        """Statements that wait, with the parameters of each of their rows."""
        self._touched: set[str] = set()
        """The tables of those that wait."""
        self._lost: dict[str, Callable[[], Exception]] = {}
        """Statements that wait and have to write each row → what makes the error if a single one does not."""
        self._free: dict[str, Iterator[int]] = known.free if known is not None else {}
        """Ids that the next rows of a table get."""
        self.at = at
        self.board = ""
        self.facts = self.effects = False
        self._known = known
        self.version: int | None = None
        self.chain: tuple[ChainHead, int] | None = None
        """The newest entry of the ledger and its number, once it was read; undone with the work that moved it."""
        self.failed: Exception | None = None

    def run(self, statement: Statement[R], /, **params: Value) -> list[R]:
        """Run one statement."""
        params["board"] = self.board
        name = statement.name
        if self._touched or self._free:
            self._make_way(name)
        try:
            rows = self._connection.execute(self._queries[name], params)
        except Exception as error:
            self.failed = self._dialect.translate_error(error) or error
            raise self.failed from error
        return list(map(statement.make_row, rows))

    def run_many(self, statement: Statement[Any], rows: Sequence[Mapping[str, Value]], /) -> None:
        """Run one statement many times."""
        self._make_way(statement.name)
        self._run_many(statement.name, [{**row, "board": self.board} for row in rows])

    def run_each(self, statement: Statement[R], rows: Sequence[Mapping[str, Value]], /) -> list[R]:
        """Run one statement many times, and return all of its rows."""
        if not rows:
            return []
        self._make_way(statement.name)
        asked = [{**row, "board": self.board} for row in rows]
        try:
            found = self._connection.execute_each(self._queries[statement.name], asked)
        except Exception as error:
            self.failed = self._dialect.translate_error(error) or error
            raise self.failed from error
        return list(map(statement.make_row, found))

    def run_later(
        self, statement: Statement[Any], params: dict[str, Value], lost: Callable[[], Exception] | None = None, /
    ) -> object:
        """Run one statement before the work is over."""
        query_name = statement.name
        params["board"] = self.board
        rows = self._waiting.get(query_name)
        if rows is None:
            rows = self._waiting[query_name] = []
            self._touched |= self._tables[query_name]
        rows.append(params)
        if lost is not None:
            self._lost[query_name] = lost
        return rows

    def is_waiting(self, mark: object) -> bool:
        """Whether the rows of a statement are still together."""
        return any(rows is mark for rows in self._waiting.values())

    def next_id(self, table: Literal["messages", "deliveries"]) -> int:
        """Take the id of a new row. With a single writer it is the one after the last."""
        found = next(self._free.get(table, _NONE), None)
        if found is None:
            query = FREE_MESSAGES if table == "messages" else FREE_DELIVERIES
            rows = self._connection.execute(self._queries[query.name], {"many": NUMBERS})  # no waiting row counts
            ids = [row.id for row in map(query.make_row, rows)]
            numbers = iter(ids) if self._dialect.shared else count(ids[0])
            self._free[table] = numbers
            found = next(numbers)
        return found

    def reserve_ids(self, many: int) -> None:
        """Reserve ids in one query. A single writer counts them itself."""
        if self._dialect.shared:
            rows = self._connection.execute(self._queries[FREE_ROWS.name], {"many": many})
            messages, deliveries, facts = zip(*rows, strict=True)
            self._free = {"messages": iter(messages), "deliveries": iter(deliveries), "ledger": iter(facts)}

    def write_waiting(self, tables: frozenset[str] | None = None) -> None:
        """Run the statements that wait: all of them, or those that look at some tables."""
        waiting, self._waiting, self._touched = self._waiting, {}, set()
        due: list[tuple[str, list[dict[str, Value]]]] = []
        for query_name in sorted(waiting, key=self._last.__contains__):  # what is referred to comes first
            rows = waiting[query_name]
            if tables is not None and tables.isdisjoint(self._tables[query_name]):
                self._waiting[query_name] = rows
                self._touched |= self._tables[query_name]
            else:
                due.append((query_name, rows))
        if due:
            self._write(due)

    def _write(self, due: Sequence[tuple[str, list[dict[str, Value]]]]) -> None:
        """Run statements one after the other, each with all of its rows."""
        try:
            changes = self._connection.execute_all([(self._silent[query_name], rows) for query_name, rows in due])
        except Exception as error:
            self.failed = self._dialect.translate_error(error) or error
            raise self.failed from error
        for (query_name, rows), changed in zip(due, changes, strict=True):
            lost = self._lost.pop(query_name, None)
            if lost is not None and changed != len(rows):
                raise (
                    lost() if len(rows) == 1 else ConflictError(Code.STORE_CONFLICT, f"{query_name}: a row has changed")
                )

    def read_state(self) -> DatabaseState | None:
        """Read what the next batch can reuse, if this one is committed and no other connection writes meanwhile."""
        if self.version is None:
            return None
        return DatabaseState(
            self.version, self.chain or (self._known.chain if self._known is not None else None), self._free
        )

    def forget(self) -> None:
        """Drop the pending statements of a failed work, and read the next ids again."""
        self._waiting.clear()
        self._touched.clear()
        self._lost.clear()
        self._free.clear()

    def _make_way(self, query_name: str) -> None:
        """Run what waits if a statement looks at the same tables; forget ids that it may give to its own rows."""
        tables = self._tables[query_name]
        if not tables.isdisjoint(self._touched):
            self.write_waiting(tables)
        if self._free and self._queries[query_name].startswith("INSERT") and not tables.isdisjoint(self._free):
            self._free.clear()

    def _run_many(self, query_name: str, rows: Sequence[Params]) -> int:
        try:
            return self._connection.execute_many(self._silent[query_name], rows)
        except Exception as error:
            self.failed = self._dialect.translate_error(error) or error
            raise self.failed from error

    def record(self, kind: str, subject: str, body: wire.JsonValue | Mapping[str, object] | bytes) -> int:
        """Append a fact. A single writer seals it at once; several servers seal apart."""
        self.facts = True
        data = body if isinstance(body, bytes) else wire.write(body)
        if self._dialect.shared:
            return self._append(kind, subject, data)
        (link, prev), last = self.chain or self._newest()
        entry = LedgerEntry(last + 1, None, self.at, self.board, kind, subject, data, None, None)
        head = ChainHead(link + 1, ledger.hash_entry(prev, entry, link + 1))
        # The row is written later, but its hash is known now: the next fact of this batch is chained to it without
        # a read.
        fact: dict[str, Value] = {"seq": entry.seq, "link": head.link, "at": self.at, "kind": kind, "subject": subject}
        self.run_later(APPEND_SEALED, fact | {"body": data, "prev": prev, "hash": head.hash})
        self.chain = (head, entry.seq)
        return entry.seq

    def _append(self, kind: str, subject: str, body: bytes) -> int:
        """Append a fact that is sealed later."""
        fact: dict[str, Value] = {"at": self.at, "kind": kind, "subject": subject, "body": body}
        seq = next(self._free.get("ledger", _NONE), None)
        if seq is None:
            [row] = self.run(APPEND_FACT, **fact)
            return row.seq
        self.run_later(APPEND_SEALED, {**fact, "seq": seq, "link": None, "prev": None, "hash": None})
        return seq

    def _newest(self) -> tuple[ChainHead, int]:
        """Read the head of the chain. Entries that an older release left unsealed are sealed first."""
        if self._known is not None and self._known.chain is not None:
            return self._known.chain
        while True:
            [fact] = self.run(NEWEST_FACT)
            head, seq = self._read_head()
            if fact.newest == seq:
                return head, seq
            self.seal()

    def _read_head(self) -> tuple[ChainHead, int]:
        """Read the newest sealed entry and its number."""
        for row in self.run(LEDGER_HEAD):
            return ChainHead(row.link, row.hash), row.seq
        return ledger.START, 0

    def queue_effect(self, kind: str, key: str, body: wire.JsonValue) -> bool:
        """Queue an effect."""
        new = bool(self.run(QUEUE_EFFECT, kind=kind, key=key, body=wire.write(body)))
        self.effects = self.effects or new
        return new

    def seal(self) -> bool:
        """Chain facts that are in no chain yet; True when there may be more of them."""
        head, seq = self._read_head()
        # Where several servers write, transactions end in another order than they began.
        after = 0 if self._dialect.shared else seq
        entries = self.run(UNSEALED_FACTS, after=after, limit=SEAL_AT_ONCE)
        rows = [
            {"seq": entry.seq, "link": entry.link, "prev": entry.prev, "hash": entry.hash}
            for entry in ledger.seal_entries(head, entries)
        ]
        self._connection.execute_many(self._queries[SEAL_FACT.name], rows)
        return len(entries) == SEAL_AT_ONCE


class CommitHooks(NamedTuple):
    """Functions that the writer calls after a commit, from its own thread."""

    effects: Callable[[], None]
    """Called when effects were queued."""
    head: Callable[[ChainHead], None] | None = None
    """Called with the head of the chain, at most once a second."""


class DatabaseWriter(BatchWorker[Work]):
    """Runs works in batches. `commits` and `works` count what it did."""

    def __init__(
        self,
        name: str,
        dialect: Dialect,
        connection: DatabaseConnection,
        clock: Clock,
        hooks: CommitHooks,
    ) -> None:
        self._dialect = dialect
        self._connection: DatabaseConnection | None = connection
        self._clock = clock
        self._hooks = hooks
        # A head from before a crash may have no copy elsewhere yet, and facts no seal.
        self._due: float | None = time.monotonic() + SEAL_SECONDS
        self._known: DatabaseState | None = None
        self.commits = self.works = 0
        super().__init__(f"write {name}")

    def answer(self, jobs: list[WorkItem[Work]]) -> None:
        """Run a batch and commit it. When that fails, every job of it fails and the next batch begins again."""
        try:
            self._commit(jobs)
        except Exception as error:  # noqa: BLE001 - the top of the loop: no waiter may hang
            for job in jobs:
                job.error = _copied(error) if job.error is None or job.error is error else job.error
        self.works += len(jobs)

    def due(self) -> float | None:
        """Return when to seal: only if facts were written since the last time."""
        return None if self._due is None else self._due - time.monotonic()

    def upkeep(self) -> None:
        """Seal what was not sealed in its own commit, and hand the head to the witnesses."""
        self._due = None
        try:
            while self._dialect.shared and self._seal_apart():
                pass
            if self._hooks.head and (rows := self._begin().run(LEDGER_HEAD)):
                self._hooks.head(ChainHead(rows[0].link, rows[0].hash))
        except AgentTalkError as error:  # the database is unreachable; a traceback would not help
            LOG.warning("cannot seal the ledger; trying again: %s", error, extra={"action": "ledger.seal"})
            self._due = time.monotonic() + SEAL_SECONDS if self._open else None
        except Exception:
            LOG.warning("cannot seal the ledger; trying again", extra={"action": "ledger.seal"}, exc_info=True)
            self._due = time.monotonic() + SEAL_SECONDS if self._open else None
        self._rollback()

    def end(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.close()

    def _commit(self, jobs: list[WorkItem[Work]]) -> None:
        batch = self._begin()
        try:
            with ErrorTranslator(self._dialect):
                self._run_works(batch, jobs)
                if not any(job.error is None for job in jobs):
                    return
                # Forget the state first: if the commit fails, nothing is known about what the database contains.
                self._known = None
                self._sync(batch)
                self._known = batch.read_state()
        finally:
            self._rollback()
        # From here on the batch is durable. A crash before the next lines loses nothing: effects are rows, which
        # the next start finds, and unsealed facts are sealed by its first upkeep.
        self.commits += 1
        if batch.effects:
            self._hooks.effects()
        if batch.facts and self._due is None:
            self._due = time.monotonic() + SEAL_SECONDS

    def _run_works(self, batch: WriteBatch, jobs: list[WorkItem[Work]]) -> None:
        savepoint = self._ready().savepoint
        alone = len(jobs) == 1  # is undone by undoing everything
        if not alone:
            savepoint("open")
        for job in jobs:
            batch.board, batch.failed, chain = job.board, None, batch.chain
            try:
                job.value = job.ask(batch)
                batch.write_waiting()
                # A work that swallowed the error of a statement fails, too: part of what it wanted to write
                # is missing.
                job.error = batch.failed
            except BaseException as error:  # noqa: BLE001 - the caller of the work gets it
                job.error = error
            if job.error or self._dialect.shared:
                batch.forget()
            # The machine failed here, not the work. What the transaction holds is no longer known, so all of the
            # batch is undone.
            if isinstance(batch.failed, MachineError):
                raise batch.failed
            if job.error:
                batch.chain = chain  # the facts of the failed work are undone, so the next fact follows the one before
            if not alone:
                savepoint("undo" if job.error else "next")

    def _sync(self, batch: WriteBatch) -> None:
        connection = self._ready()
        # Before the commit, because the server delivers a notification with it: no process hears of effects that
        # were undone.
        if batch.effects:
            connection.notify()
        with ErrorTranslator(self._dialect, committing=True):
            connection.commit()

    def _seal_apart(self) -> bool:
        """Seal in a transaction of its own, one server at a time; True when there may be more."""
        batch = self._begin()
        self._ready().lock("ledger")
        more = batch.seal()
        self._sync(batch)
        return more

    def _begin(self) -> WriteBatch:
        with ErrorTranslator(self._dialect):
            try:
                self._ready().begin()
            except Exception:
                self._drop()
                if not self._dialect.shared:
                    raise
                # A server drops sessions when it restarts. No work has run yet, so one more try is safe.
                self._ready().begin()
            # Read inside the transaction. With SQLite, no other connection can write from here until the commit.
            version = self._ready().version()
        if self._known is not None and self._known.version != version:
            self._known = None  # another connection has written, so the ids and the head may have changed
        batch = WriteBatch(self._dialect, self._ready(), format_instant(self._clock.now()), self._known)
        batch.version = version
        return batch

    def _ready(self) -> DatabaseConnection:
        if self._connection is None:
            self._connection = self._dialect.connect()
        return self._connection

    def _rollback(self) -> None:
        """Undo what is open, if anything is; a connection that cannot even do that is given up."""
        try:
            if self._connection:
                self._connection.rollback()
        except Exception:  # noqa: BLE001 - any error: a new connection is the answer
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection:
            connection.close()


def _copied(error: Exception) -> Exception:
    """Copy an error for each of many waiters, because raising it changes its traceback."""
    if not isinstance(error, AgentTalkError):
        return error
    copy = type(error)(error.code, error.message, hint=error.hint)
    copy.__cause__ = error
    return copy
