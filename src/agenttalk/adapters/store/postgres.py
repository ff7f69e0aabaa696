"""PostgreSQL through psycopg 3: one schema for each kind of board, several servers at once."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import psycopg
from psycopg import errors, sql

from agenttalk.adapters.store.dialect import Columns, DialectName, ErrorTranslator, Params
from agenttalk.contracts.errors import AgentTalkError, Code, ConflictError, FullDiskError, MachineError

SCHEMAS: Final = ("system", "mail", "toolchain", "projects")
CONNECT_SECONDS: Final = 10
RECONNECT_SECONDS: Final = 1.0
_STEPS: Final = {"open": b"SAVEPOINT work", "next": b"RELEASE work; SAVEPOINT work", "undo": b"ROLLBACK TO work"}


class PostgresConnection:
    """One psycopg connection; transactions are begun and ended by hand."""

    def __init__(self, connection: psycopg.Connection[Columns], channel: str) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._channel = channel
        self._doubtful = False
        """Whether psycopg may take statements for prepared that are not, because one before them failed."""

    def begin(self) -> None:
        """READ COMMITTED: works take the row locks they need."""
        self._command(b"BEGIN")

    def begin_view(self) -> None:
        """REPEATABLE READ: every query sees the state that the first one saw."""
        self._command(b"BEGIN ISOLATION LEVEL REPEATABLE READ")

    def commit(self) -> None:
        """Returns when the log is synced (synchronous_commit is on). A COMMIT that rolled back is an error."""
        if self._command(b"COMMIT") != b"COMMIT":
            raise errors.InFailedSqlTransaction("the transaction was rolled back")

    def rollback(self) -> None:
        """Undo; on a lost connection the server does."""
        if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self._undo(b"ROLLBACK")

    def savepoint(self, step: Literal["open", "next", "undo"]) -> None:
        """Savepoints of a batch, one round trip between two works."""
        if step == "undo":
            self._undo(_STEPS[step])
        else:
            self._command(_STEPS[step])

    def _undo(self, command: bytes) -> None:
        if self._doubtful:  # psycopg sees it, and prepares all statements anew
            self._cursor.execute(command)
            self._doubtful = False
        else:
            self._command(command)

    def execute(self, statement: str, params: Params) -> list[Columns]:
        """Run a statement, prepared when it comes again. Without parameters it may be several (a migration)."""
        cursor = self._cursor.execute(statement, params or None)
        return cursor.fetchall() if cursor.description else []

    def execute_each(self, statement: str, params: Sequence[Params]) -> list[Columns]:
        """Run one statement many times, with all of its rows, without waiting for each answer."""
        if len(params) == 1:
            return self.execute(statement, params[0])
        cursor = self._cursor
        cursor.executemany(statement, params, returning=True)
        found = cursor.fetchall()
        while cursor.nextset():
            found += cursor.fetchall()
        return found

    def execute_many(self, statement: str, params: Sequence[Params]) -> int:
        """Run one statement many times without rows, without waiting for each answer."""
        if len(params) == 1:
            self._cursor.execute(statement, params[0])
        else:
            self._cursor.executemany(statement, params)
        return self._cursor.rowcount

    def execute_all(self, work: Sequence[tuple[str, Sequence[Params]]]) -> list[int]:
        """Several statements, each many times, without waiting for any answer before all are sent."""
        if len(work) == 1:
            return [self.execute_many(*work[0])]
        cursors = []
        self._doubtful = True
        with self._connection.pipeline():
            for statement, params in work:
                cursor = self._connection.cursor()
                cursors.append(cursor)
                if len(params) == 1:
                    cursor.execute(statement, params[0])
                else:
                    cursor.executemany(statement, params)
        self._doubtful = False
        return [cursor.rowcount for cursor in cursors]

    def version(self) -> int | None:
        """Others write all the time."""
        return None

    def lock(self, name: str) -> None:
        """Take an advisory lock that ends with the transaction."""
        self._cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{self._channel}.{name}",))

    def notify(self) -> None:
        """Heard by all servers once this is committed."""
        self._cursor.execute(sql.SQL("NOTIFY {}").format(sql.Identifier(self._channel)))

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def _command(self, command: bytes) -> bytes | None:
        """Send a command without parameters straight to libpq, which is faster: every work needs two of them."""
        wire = self._connection.pgconn
        result = wire.exec_(command)
        if result.status == psycopg.pq.ExecStatus.COMMAND_OK:
            return result.command_status
        if wire.status != psycopg.pq.ConnStatus.OK:
            raise psycopg.OperationalError(wire.get_error_message())
        raise errors.error_from_result(result)


class Postgres:
    """One schema of one PostgreSQL database."""

    name: DialectName = "postgres"
    shared = True

    def __init__(self, url: str, schema: str) -> None:
        self._url = url
        self.schema = schema
        self.channel = f"agenttalk_{schema}"

    def connect(self, *, readonly: bool = False) -> PostgresConnection:
        """Open a session in this schema, and make the schema if it is missing."""
        connection = self.session(readonly=readonly)
        if not readonly:
            with ErrorTranslator(self):
                self._make_schema(connection)
        return PostgresConnection(connection, self.channel)

    def listen(self, heard: Callable[[], None]) -> PostgresListener | None:
        """Open a session that waits for NOTIFY."""
        return PostgresListener(self, heard)

    def translate_error(self, error: Exception, *, committing: bool = False) -> AgentTalkError | None:
        """Errors of psycopg. Messages are the server's; they do not hold the password."""
        what = f"PostgreSQL: {str(error).strip() or type(error).__name__}"
        match error:
            case errors.IntegrityError():
                return ConflictError(Code.STORE_CONFLICT, what, hint="it may have been stored before; read it first")
            case errors.DiskFull() | errors.OutOfMemory():
                kind = FullDiskError if isinstance(error, errors.DiskFull) else MachineError
                return kind(Code.STORE_FULL, what, hint="make room on the server, then do it again")
            case psycopg.OperationalError() | psycopg.InterfaceError() if committing:
                hint = "do it again under the same key: it may be stored already"
                return MachineError(Code.STORE_IN_DOUBT, what, hint=hint)
            case psycopg.OperationalError() | psycopg.InterfaceError() | errors.InFailedSqlTransaction():
                hint = "look whether the server runs and lets us in, then do it again"
                return MachineError(Code.STORE_UNAVAILABLE, what, hint=hint)
            case errors.InsufficientPrivilege() | errors.ReadOnlySqlTransaction():
                hint = "give the user the right to create and write the schemas"
                return MachineError(Code.STORE_UNAVAILABLE, what, hint=hint)
            case psycopg.InternalError() | errors.DataCorrupted() | errors.IndexCorrupted():
                return MachineError(Code.STORE_DAMAGED, what, hint="check the server's log, and its backup")
            case _:
                return None

    def has_ledger(self) -> bool:
        """Whether this schema was ever made."""
        with ErrorTranslator(self), self.session(readonly=True) as session:
            return session.execute("SELECT to_regclass(%s)", (f"{self.schema}.ledger",)).fetchone() != (None,)

    def session(self, *, readonly: bool) -> psycopg.Connection[Any]:
        """Open a plain psycopg connection with our settings."""
        options = f"-c search_path={self.schema} -c synchronous_commit=on"
        if readonly:
            options += " -c default_transaction_read_only=on"
        with ErrorTranslator(self):
            return psycopg.connect(
                self._url,
                autocommit=True,
                options=options,
                connect_timeout=CONNECT_SECONDS,
                application_name=f"agenttalk {self.schema}",
            )

    def _make_schema(self, connection: psycopg.Connection[Any]) -> None:
        if connection.execute("SELECT to_regnamespace(%s)", (self.schema,)).fetchone() != (None,):
            return
        with connection.transaction():
            # Two servers that start at once would both try, and one would fail.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('agenttalk.schema', 0))")
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema)))


class PostgresListener:
    """A thread that hears NOTIFY. When the session is lost it connects again, and wakes all in case it missed some."""

    def __init__(self, dialect: Postgres, heard: Callable[[], None]) -> None:
        self._dialect = dialect
        self._heard = heard
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"listen {dialect.schema}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop and wait for the thread."""
        os.close(self._stopped)
        self._thread.join()
        os.close(self._stop)

    def _run(self) -> None:
        while True:
            try:
                with self._dialect.session(readonly=True) as session:
                    session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._dialect.channel)))
                    self._heard()
                    self._hear(session)
                    return
            except (psycopg.Error, AgentTalkError):
                if select.select([self._stop], [], [], RECONNECT_SECONDS)[0]:
                    return

    def _hear(self, session: psycopg.Connection[Any]) -> None:
        while self._stop not in select.select([self._stop, session.fileno()], [], [])[0]:
            if any(True for _ in session.notifies(timeout=0)):
                self._heard()
            elif session.closed:
                raise psycopg.OperationalError("the session is lost")
