"""Migrations: the schema is their sum, and a database that does not fit is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import apsw
import psycopg
import pytest

from agenttalk.adapters.store import queries, schema, sqlite
from agenttalk.adapters.store.dialect import Dialect, DialectName
from agenttalk.adapters.store.postgres import Postgres
from agenttalk.adapters.store.root import RootStores, database_path
from agenttalk.adapters.store.sqlite import Sqlite
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.ports.statements.messages import ADD_PLAN
from kits.storekit import Place

GOLDEN = Path(__file__).parent / "golden"
POSTGRES_DUMP = """
SELECT table_name || ': ' || string_agg(
         column_name || ' ' || data_type
           || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
           || CASE is_identity WHEN 'YES' THEN ' identity' ELSE '' END
           || coalesce(' default ' || column_default, '')
           || coalesce(' collate ' || collation_name, ''), ', ' ORDER BY ordinal_position)
FROM information_schema.columns WHERE table_schema = 'projects' GROUP BY table_name
UNION ALL
SELECT indexdef FROM pg_indexes WHERE schemaname = 'projects'
UNION ALL
SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'projects'::regnamespace
ORDER BY 1
"""


async def open_shop(stores: RootStores) -> None:
    await stores.board("shop")


def dump(place: Place) -> str:
    if place.dialect == "postgres":
        with psycopg.connect(place.url) as session:
            return "\n".join(row[0] for row in session.execute(POSTGRES_DUMP)) + "\n"
    rows = change(place, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name")
    return "\n".join(row[0] + ";" for row in rows) + "\n"


def change(place: Place, statement: str) -> list[tuple[Any, ...]]:
    """Do something to the database behind the store's back."""
    if place.dialect == "postgres":
        with psycopg.connect(place.url, options="-c search_path=projects") as session:
            session.execute(statement)
            return []
    connection = apsw.Connection(str(place.root / "data/projects/shop/blackboard.db"))
    rows = connection.execute(statement).fetchall()
    connection.close()
    return rows


def test_the_schema_is_the_sum_of_the_migrations(place: Place) -> None:
    place.play(open_shop)
    golden = GOLDEN / f"{place.dialect}.txt"
    if os.environ.get("AGENTTALK_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(dump(place), encoding="utf-8")
    assert dump(place) == golden.read_text(encoding="utf-8")


def test_opening_again_changes_nothing(place: Place) -> None:
    place.play(open_shop)
    before = dump(place)
    place.play(open_shop)
    assert dump(place) == before


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE migrations SET hash = 'sha256:other' WHERE number = 1", "is not the 0001_common of this release"),
        ("INSERT INTO migrations VALUES (9999, '9999_future', 'sha256:x')", "newer AgentTalk"),
    ],
    ids=["changed", "newer"],
)
def test_a_database_that_does_not_fit_is_refused(place: Place, statement: str, words: str) -> None:
    place.play(open_shop)
    change(place, statement)
    with pytest.raises(MachineError, match=words) as caught:
        place.play(open_shop)
    assert caught.value.code is Code.STORE_INCOMPATIBLE
    assert caught.value.hint


LATER = schema.Migration(9, "0009_later", "CREATE TABLE later (name TEXT); ALTER TABLE plans ADD COLUMN later TEXT")


def dialect_of(place: Place) -> Dialect:
    if place.dialect == "postgres":
        return Postgres(place.url, "projects")
    return Sqlite(database_path(place.root, "shop"))


def migrate(place: Place, *more: schema.Migration) -> None:
    """Open the database as a release does that has more migrations."""
    dialect = dialect_of(place)
    connection = dialect.connect()
    try:
        schema.migrate(connection, [*schema.migrations(dialect.name, "board"), *more], "shop")
    finally:
        connection.close()


async def add_plan(stores: RootStores) -> None:
    store = await stores.board("shop")
    await store.transact(lambda tx: tx.run(ADD_PLAN, plan_id="p", origin="foreign"))


def rows_of(place: Place, statement: str) -> list[tuple[Any, ...]]:
    connection = dialect_of(place).connect(readonly=True)
    try:
        return connection.execute(statement, {})
    finally:
        connection.close()


def test_a_later_migration_is_applied_once_and_keeps_the_rows(place: Place) -> None:
    place.play(add_plan)
    migrate(place, LATER)
    migrate(place, LATER)
    assert rows_of(place, "SELECT plan_id, later FROM plans") == [("p", None)]
    assert rows_of(place, "SELECT name FROM migrations ORDER BY number")[-1] == ("0009_later",)
    with pytest.raises(MachineError, match="newer AgentTalk"):
        place.play(open_shop)


def test_a_migration_that_fails_leaves_nothing_behind(place: Place) -> None:
    place.play(open_shop)
    before = dump(place)
    broken = LATER._replace(text=f"{LATER.text}; CREATE TABLE later (name TEXT)")
    with pytest.raises((apsw.SQLError, psycopg.errors.DuplicateTable)):
        migrate(place, broken)
    assert dump(place) == before
    migrate(place, LATER)


KILLED = """
import os, signal, sys
from test_schema import LATER, Place, dialect_of, migrate
from pathlib import Path

place = Place(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
dialect = dialect_of(place)
connection = dialect.connect()
type(connection).commit = lambda self: os.kill(os.getpid(), signal.SIGKILL)
migrate(place, LATER)
"""


def test_a_migration_that_is_killed_before_its_commit_is_applied_at_the_next_start(place: Place) -> None:
    place.play(add_plan)
    before = dump(place)
    known = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    words = [sys.executable, "-c", KILLED, str(place.root), place.url, place.dialect]
    assert subprocess.run(words, env=known, check=False, timeout=60).returncode == -signal.SIGKILL
    assert dump(place) == before
    migrate(place, LATER)
    assert rows_of(place, "SELECT plan_id, later FROM plans") == [("p", None)]


def test_migrations_can_be_for_the_system_or_the_boards_only(tmp_path: Path) -> None:
    folder = tmp_path / "sqlite"
    folder.mkdir()
    for name in ("0001_all", "0002_tasks.board", "0003_tokens.system"):
        (folder / f"{name}.sql").write_text("SELECT 1")
    assert [m.number for m in schema.migrations("sqlite", "board", tmp_path)] == [1, 2]
    assert [m.number for m in schema.migrations("sqlite", "system", tmp_path)] == [1, 3]


def test_both_dialects_have_the_same_migrations_and_statements() -> None:
    names = [[m.name for m in schema.migrations(name, "board")] for name in get_args(DialectName)]
    assert names[0] == names[1]
    assert queries.load_statements("sqlite").keys() == queries.load_statements("postgres").keys()


def test_an_old_sqlite_is_refused() -> None:
    with pytest.raises(MachineError, match=r"3\.40\.1; 3\.51\.3 or newer") as caught:
        sqlite.require_version("3.40.1")
    assert caught.value.code is Code.STORE_INCOMPATIBLE
    sqlite.require_version("3.51.3")


def test_statements_are_translated_for_psycopg_with_literals_and_casts_left_alone() -> None:
    text = "SELECT ':a', a::text, b % 2, '100%' FROM t WHERE c = :c -- why: it's\n AND d = :d_2"
    assert queries.to_psycopg(text) == (
        "SELECT ':a', a::text, b %% 2, '100%%' FROM t WHERE c = %(c)s -- why: it's\n AND d = %(d_2)s"
    )
