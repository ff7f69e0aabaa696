"""SQLite through apsw, which brings a current SQLite along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import apsw

from agenttalk.adapters.store import files
from agenttalk.adapters.store.dialect import Columns, DialectName, ErrorTranslator, Listener, Params
from agenttalk.contracts.errors import AgentTalkError, Code, ConflictError, FullDiskError, MachineError

OLDEST: Final = (3, 51, 3)
"""Older ones can corrupt a database in WAL mode when a checkpoint and a commit meet."""
BUSY_MS: Final = 10_000
_STEPS: Final = {"open": "SAVEPOINT work", "next": "RELEASE work; SAVEPOINT work", "undo": "ROLLBACK TO work"}
_WRITER: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",  # what a savepoint may have to undo needs no file
    "PRAGMA cache_size = -8000",
    "PRAGMA wal_autocheckpoint = 4000",
)


class SqliteConnection:
    """One apsw connection. Statements stay prepared in apsw's cache."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()

    def begin(self) -> None:
        """Take the write lock at once: a deferred one could fail later in spite of the busy timeout."""
        self._cursor.execute("BEGIN IMMEDIATE")

    def begin_view(self) -> None:
        """Begin a transaction that takes no lock which a writer waits for."""
        self._cursor.execute("BEGIN")

    def commit(self) -> None:
        """Write and sync the log."""
        self._cursor.execute("COMMIT")

    def rollback(self) -> None:
        """Undo; after a full disk or an I/O error SQLite may have done it already."""
        if self._connection.in_transaction:
            self._cursor.execute("ROLLBACK")

    def savepoint(self, step: Literal["open", "next", "undo"]) -> None:
        """Savepoints of a batch, one after the other."""
        self._cursor.execute(_STEPS[step])

    def execute(self, statement: str, params: Params) -> list[Columns]:
        """Run a statement."""
        return self._cursor.execute(statement, params).fetchall()

    def execute_each(self, statement: str, params: Sequence[Params]) -> list[Columns]:
        """Run one statement many times, with all of its rows."""
        return self._cursor.executemany(statement, params).fetchall()

    def execute_many(self, statement: str, params: Sequence[Params]) -> int:
        """Run one statement many times without rows."""
        count, cursor = self._connection.total_changes, self._cursor
        before = count()
        if len(params) == 1:
            cursor.execute(statement, params[0]).fetchall()
        else:
            cursor.executemany(statement, params).fetchall()
        return count() - before

    def execute_all(self, work: Sequence[tuple[str, Sequence[Params]]]) -> list[int]:
        """Several statements, each many times."""
        return [self.execute_many(statement, params) for statement, params in work]

    def version(self) -> int | None:
        """Return SQLite's `data_version` of this connection."""
        number: int = self._cursor.execute("PRAGMA data_version").fetchall()[0][0]  # type: ignore[assignment]
        return number

    def lock(self, name: str) -> None:
        """Do nothing: `begin` holds the only lock of SQLite."""

    def notify(self) -> None:
        """Do nothing: one process uses the file."""

    def close(self) -> None:
        """Close it; the last one to close puts the log into the database."""
        self._connection.close(True)


class Sqlite:
    """One database file. `offline` is for a copy without writers: reading it leaves no trace beside it."""

    name: DialectName = "sqlite"
    shared = False

    def __init__(self, path: Path, *, offline: bool = False) -> None:
        require_version(apsw.sqlite_lib_version())
        self.path = path
        self._offline = offline

    def connect(self, *, readonly: bool = False) -> SqliteConnection:
        """Open a connection that writes (and makes the file), or a read-only one."""
        with ErrorTranslator(self):
            return SqliteConnection(self._reader() if readonly else self._writer())

    def listen(self, heard: Callable[[], None]) -> Listener | None:  # noqa: ARG002 - part of the seam
        """Return None: SQLite sends no notifications."""
        return None

    def translate_error(self, error: Exception, *, committing: bool = False) -> AgentTalkError | None:
        """Errors of apsw. A commit without room is undone; one that could not be synced may still be found later."""
        what = f"{self.path}: {error}"
        match error:
            case apsw.ConstraintError():
                return ConflictError(Code.STORE_CONFLICT, what, hint="it may have been stored before; read it first")
            case apsw.FullError():
                return FullDiskError(Code.STORE_FULL, what, hint="make room on the disk, then do it again")
            case apsw.BusyError() | apsw.LockedError():
                hint = "another process holds the database; end it or try again"
                return MachineError(Code.STORE_UNAVAILABLE, what, hint=hint)
            case apsw.CorruptError() | apsw.NotADBError():
                hint = "stop the engine, keep a copy, and restore the database from a backup"
                return MachineError(Code.STORE_DAMAGED, what, hint=hint)
            case apsw.IOError() if committing:
                hint = "look at the disk, then do it again under the same key: it may be stored already"
                return MachineError(Code.STORE_IN_DOUBT, what, hint=hint)
            case apsw.IOError() | apsw.CantOpenError() | apsw.ReadOnlyError() | apsw.PermissionsError():
                hint = "look at the disk and at the folder's permissions, then do it again"
                return MachineError(Code.STORE_UNAVAILABLE, what, hint=hint)
            case _:
                return None

    def connect_beside(self) -> apsw.Connection:
        """Open a plain connection to an existing database, to copy it while others write."""
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        _prepare(connection)
        return connection

    def _writer(self) -> apsw.Connection:
        new = not self.path.exists()
        if new:
            files.make_folder(self.path.parent)
            files.make_private(self.path)  # what lies beside a database has its rights
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(self.path), flags=flags, statementcachesize=256)
        _prepare(connection)
        for pragma in _WRITER:
            connection.execute(pragma)
        if new:
            files.sync_folder(self.path.parent)
        return connection

    def _reader(self) -> apsw.Connection:
        # Where a log lies beside it, its entries count, and SQLite needs its files to read them.
        alone = self._offline and not self.path.with_name(self.path.name + "-wal").exists()
        name = f"{self.path.absolute().as_uri()}?immutable=1" if alone else str(self.path)
        flags = apsw.SQLITE_OPEN_READONLY | (apsw.SQLITE_OPEN_URI if alone else 0)
        connection = apsw.Connection(name, flags=flags, statementcachesize=256)
        _prepare(connection)
        return connection


def _prepare(connection: apsw.Connection) -> None:
    """Configure a connection. Query plans must not depend on bound values, or statements are compiled at each use."""
    connection.set_busy_timeout(BUSY_MS)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def require_version(text: str) -> None:
    """Refuse a SQLite that can lose data."""
    if tuple(int(part) for part in text.split(".")[:3]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise MachineError(
            Code.STORE_INCOMPATIBLE,
            f"this is SQLite {text}; {oldest} or newer is needed, because older ones can corrupt a database",
            hint="install apsw as a wheel (pip install --only-binary apsw apsw), which brings its own SQLite",
        )
