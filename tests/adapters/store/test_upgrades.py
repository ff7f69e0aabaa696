"""Databases of earlier releases: each is brought up to date when it is opened, and nothing in it is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from agenttalk.adapters.store import audit, schema
from agenttalk.adapters.store.database import open_migrated
from agenttalk.adapters.store.dialect import Dialect
from agenttalk.adapters.store.postgres import Postgres
from agenttalk.adapters.store.root import RootStores, database_path
from agenttalk.adapters.store.sqlite import Sqlite
from agenttalk.ports.statements.core import SEALED_FACTS, UNSEALED_FACTS
from kits import releasekit
from kits.plankit import Engine, play, states
from kits.storekit import Place, fact

PARTS: dict[str, schema.Part] = {"system": "system", "shop": "board"}
CHOICE = re.compile(r"(\w+) TEXT[^,]*?CHECK \(\w+ IN \('([^']*)'")
VALUES = {"TEXT": "x", "INTEGER": 1, "BLOB": b"{}", "REAL": 1.5}
EARLIER = [
    (board, number)
    for board, part in PARTS.items()
    for number in [step.number for step in schema.migrations("sqlite", part)][:-1]
]


def dialect_of(place: Place, board: str) -> Dialect:
    if place.dialect == "postgres":
        return Postgres(place.url, "system" if board == "system" else "projects")
    return Sqlite(database_path(place.root, board))


def made_at(dialect: Dialect, part: schema.Part, number: int) -> None:
    """Make a database as a release made it whose last migration had this number."""
    connection = dialect.connect()
    steps = [step for step in schema.migrations(dialect.name, part) if step.number <= number]
    schema.migrate(connection, steps, "old")
    connection.close()


def described(part: schema.Part, number: int) -> dict[str, dict[str, Any]]:
    """A row for each table as it was then, by column. What may be NULL is not given."""
    scratch = apsw.Connection(":memory:")
    for step in schema.migrations("sqlite", part):
        if step.number <= number:
            scratch.execute(step.text)
    rows = {}
    tables = scratch.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY rowid").fetchall()
    for table, text in tables:
        if str(table).startswith("sqlite_"):
            continue
        chosen = dict(CHOICE.findall(str(text)))
        columns = scratch.execute(f"PRAGMA table_info({table})").fetchall()
        rows[str(table)] = {
            str(name): chosen.get(name, VALUES[str(kind)])
            for _, name, kind, required, _, key in columns
            if required or key
        }
    scratch.close()
    return rows


@contextmanager
def opened(place: Place, board: str) -> Iterator[Any]:
    """The database behind the store's back: something with `execute`, and the mark of a parameter."""
    if place.dialect == "postgres":
        name = "system" if board == "system" else "projects"
        with psycopg.connect(place.url, options=f"-c search_path={name}", autocommit=True) as session:
            yield session
        return
    connection = apsw.Connection(str(database_path(place.root, board)))
    yield connection
    connection.close()


def filled(place: Place, board: str, rows: dict[str, dict[str, Any]]) -> None:
    mark, given = ("%s", "OVERRIDING SYSTEM VALUE") if place.dialect == "postgres" else ("?", "")
    with opened(place, board) as session:
        for table, row in rows.items():
            marks = ", ".join([mark] * len(row))
            session.execute(f"INSERT INTO {table} ({', '.join(row)}) {given} VALUES ({marks})", list(row.values()))


def found(place: Place, board: str, rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same columns as they are now."""
    answer = {}
    with opened(place, board) as session:
        for table, row in rows.items():
            [values] = session.execute(f"SELECT {', '.join(row)} FROM {table}").fetchall()
            answer[table] = dict(zip(row, values, strict=True))
    return answer


@pytest.mark.parametrize(("board", "number"), EARLIER, ids=[f"{board}-{number:04}" for board, number in EARLIER])
def test_a_database_of_every_earlier_release_is_brought_up_to_date_with_its_rows(
    place: Place, board: str, number: int
) -> None:
    dialect, part = dialect_of(place, board), PARTS[board]
    made_at(dialect, part, number)
    rows = described(part, number)
    assert "ledger" in rows
    filled(place, board, rows)
    open_migrated(dialect, part, board).close()
    assert found(place, board, rows) == rows
    connection = dialect.connect(readonly=True)
    done = connection.execute("SELECT number FROM migrations ORDER BY number", {})
    connection.close()
    assert [row[0] for row in done] == [step.number for step in schema.migrations(dialect.name, part)]


def test_the_ledger_of_the_first_release_goes_on(place: Place) -> None:
    for board, part in PARTS.items():
        made_at(dialect_of(place, board), part, 1)

    async def write(stores: RootStores) -> int:
        store = await stores.board("shop")
        await store.transact(fact("first"))
        return len(await store.read(SEALED_FACTS, after=0, limit=9)) + len(
            await store.read(UNSEALED_FACTS, after=0, limit=9)
        )

    assert place.play(write) == 1


def test_a_root_of_a_newer_release_is_named_with_a_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from agenttalk.doors.cli.main import call

    (tmp_path / "agents").mkdir()
    assert call(["status", "--root", str(tmp_path)]) == 0
    for path in tmp_path.glob("data/**/*.db"):
        connection = apsw.Connection(str(path))
        connection.execute("INSERT INTO migrations VALUES (9999, '9999_future', 'sha256:x')")
        connection.close()
    capsys.readouterr()
    assert call(["status", "--root", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "made by a newer AgentTalk" in told
    assert "9999_future" in told
    assert "install that release or a newer one" in told


@pytest.mark.parametrize("release", sorted(releasekit.RELEASES.iterdir()), ids=lambda path: path.name)
def test_the_root_of_a_release_goes_on_where_it_was(release: Path, tmp_path: Path) -> None:
    releasekit.loaded(release, tmp_path)

    async def go_on(engine: Engine) -> None:
        assert (await engine.ended("ended")).result == "done"
        await engine.dispatcher.operator.resume("open", by="ada")
        await engine.answer("PROVIDE", answers=["yes"])
        found = await engine.until(lambda found: found.result == "done", "open")
        assert states(found) == dict.fromkeys(["one", "ask", "two"], "COMPLETED")

    play(tmp_path, go_on)
    assert [report for report in audit.verify(tmp_path) if report.verdict.broken] == []
