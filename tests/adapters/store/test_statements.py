"""Every statement has a row type whose fields are the columns that both databases return, by name and by type."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

import apsw
import psycopg
import pytest

import agenttalk
from agenttalk.adapters.store import queries, schema
from agenttalk.adapters.store.dialect import DialectName
from agenttalk.adapters.store.root import RootStores
from agenttalk.contracts.forge import ReviewVerdict
from agenttalk.contracts.toolchain import ActionType, Basis
from agenttalk.contracts.worker import WorkerRole, WorkerState
from agenttalk.ports.statements.statement import NoRow, Statement
from agenttalk.rules.core.task_states import Cause, Phase, State
from kits.storekit import Place

SOURCE: Final = Path(agenttalk.__file__).parent
MODULES: Final = sorted(path.stem for path in queries.FOLDER.glob("*.sql"))
SYSTEM_TABLES: Final = {
    "agent_tokens",
    "api_keys",
    "day_limits",
    "machine_agents",
    "plan_boards",
    "schedules",
    "sessions",
    "tokens",
    "verifications",
    "webhooks",
    "worker_invitations",
    "worker_pools",
    "workers",
}
POSTGRES_TYPES: Final = {16: bool, 17: bytes, 20: int, 21: int, 23: int, 25: str, 700: float, 701: float, 1043: str}
SQLITE_TYPES: Final = {"TEXT": str, "BLOB": bytes, "INTEGER": int, "REAL": float}
UNKNOWN_IN_POSTGRES: Final = 705
"""The type of a literal text in a UNION, which PostgreSQL reads as text."""


def statements() -> dict[str, tuple[str, Statement[Any]]]:
    """The module and the statement of each name."""
    found: dict[str, tuple[str, Statement[Any]]] = {}
    for module in MODULES:
        for name, value in vars(import_module(f"agenttalk.ports.statements.{module}")).items():
            if isinstance(value, Statement):
                assert name == value.name.upper()
                assert value.name not in found
                found[value.name] = (module, value)
    return found


STATEMENTS: Final = statements()
TABLES: Final = queries.tables_of_statements("sqlite")


def is_of_system(name: str) -> bool:
    return not TABLES[name].isdisjoint(SYSTEM_TABLES)


def columns_of(statement: Statement[Any]) -> list[tuple[str, set[type]]]:
    """Fields of a row, with the Python types that each may have."""
    known = {
        "ActionType": ActionType, "Basis": Basis, "Cause": Cause, "Phase": Phase, "ReviewVerdict": ReviewVerdict, "WorkerRole": WorkerRole, "WorkerState": WorkerState, "State": State,
    }  # fmt: skip
    hints = get_type_hints(statement.row, localns=known)
    return [(name, set(plain_types(hints[name]))) for name in statement.row._fields]


def plain_types(hint: Any) -> Iterator[type]:
    """The types of a hint: those of its values, for literals."""
    if get_origin(hint) is Literal:
        yield from {type(each) for each in get_args(hint)}
    elif get_origin(hint) in {Union, UnionType}:
        for each in get_args(hint):
            yield from plain_types(each)
    else:
        yield hint


def parameters(text: str, dialect: DialectName) -> dict[str, None]:
    found = re.findall(r"%\((\w+)\)s" if dialect == "postgres" else r"(?<![:\w]):([a-z_]\w*)", text)
    return dict.fromkeys(found)


def sqlite_columns(connection: apsw.Connection, text: str) -> list[tuple[str, type | None]]:
    """Names and declared types of the columns of a statement, which is prepared and not run."""
    found: list[tuple[str, type | None]] = []

    def note(cursor: apsw.Cursor, _: str, __: object) -> bool:
        found.extend((each[0], SQLITE_TYPES.get(each[1] or "")) for each in cursor.description_full)
        return False

    cursor = connection.cursor()
    cursor.exec_trace = note
    with pytest.raises(apsw.ExecTraceAbort):
        cursor.execute(text, parameters(text, "sqlite"))
    return found


@pytest.fixture(scope="module")
def scratch() -> Iterator[dict[str, apsw.Connection]]:
    """Empty databases with the schema."""
    found = {}
    for part in ("system", "board"):
        found[part] = apsw.Connection(":memory:")
        for step in schema.migrations("sqlite", part):
            found[part].execute(step.text)
    yield found
    for connection in found.values():
        connection.close()


def test_every_statement_has_a_constant_in_the_module_of_its_file() -> None:
    named = {
        name: path.stem
        for path in queries.FOLDER.glob("*.sql")
        for name, _, _ in queries.split_statements(path.read_text(encoding="utf-8"))
    }
    assert {name: module for name, (module, _) in STATEMENTS.items()} == named


def test_sqlite_returns_the_columns_of_the_row_for_every_statement(scratch: dict[str, apsw.Connection]) -> None:
    for name, (_, statement) in STATEMENTS.items():
        text = queries.load_statements("sqlite")[name]
        returned = sqlite_columns(scratch["system" if is_of_system(name) else "board"], text)
        wanted = columns_of(statement)
        assert [column for column, _ in returned] == [column for column, _ in wanted], name
        for (column, declared), (_, types) in zip(returned, wanted, strict=True):
            assert declared is None or types - {NoneType} == {declared}, f"{name}: {column}"


async def make(stores: RootStores) -> None:
    await stores.board("default")


def test_postgres_returns_the_columns_of_every_row(postgres: Place) -> None:
    postgres.play(make)
    wrong = {}
    for part in ("projects", "system"):
        with psycopg.connect(postgres.url, options=f"-c search_path={part}", autocommit=True) as session:
            for name, (_, statement) in STATEMENTS.items():
                if is_of_system(name) == (part == "system"):
                    returned, wanted = postgres_columns(session, name), columns_of(statement)
                    fitting = [column for column, _ in returned] == [column for column, _ in wanted] and all(
                        found in types for (_, found), (_, types) in zip(returned, wanted, strict=True)
                    )
                    if not fitting:
                        wrong[name] = (returned, wanted)
    assert wrong == {}


def postgres_columns(session: psycopg.Connection[Any], name: str) -> list[tuple[str, type]]:
    """Names and types of the columns of a statement, which is prepared and not run."""
    from psycopg._queries import PostgresQuery
    from psycopg.adapt import Transformer

    text = queries.load_statements("postgres")[name]
    query = PostgresQuery(Transformer(session))
    query.convert(text, parameters(text, "postgres"))
    wire = session.pgconn
    assert wire.prepare(b"", query.query).status == psycopg.pq.ExecStatus.COMMAND_OK, wire.get_error_message()
    described = wire.describe_prepared(b"")
    found = []
    for each in range(described.nfields):
        column, oid = described.fname(each), described.ftype(each)
        assert column is not None
        found.append((column.decode(), str if oid == UNKNOWN_IN_POSTGRES else POSTGRES_TYPES.get(oid, object)))
    return found


def test_a_statement_that_returns_nothing_says_so() -> None:
    for name, (_, statement) in STATEMENTS.items():
        returns = bool(re.search(r"^(SELECT|WITH)|\bRETURNING\b", queries.load_statements("sqlite")[name]))
        assert returns == (statement.row is not NoRow), name


def test_no_column_is_taken_by_its_number() -> None:
    found = []
    for path in sorted((SOURCE / "engine").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [
            f"{path.name}:{node.lineno}: {ast.unparse(node)}" for node in ast.walk(tree) if is_column_number(node)
        ]
    assert found == []


def is_column_number(node: ast.AST) -> TypeGuard[ast.Subscript]:
    """Whether a subscript takes a column of a row: `row[1]`, `rows[0][1]`, or any number that no pair has."""
    match node:
        case ast.Subscript(value=ast.Name(id="row"), slice=ast.Constant(value=int())):
            return True
        case ast.Subscript(
            value=ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int())),
            slice=ast.Constant(value=int()),
        ):
            return name != "events"  # pairs of a number and an event
        case ast.Subscript(slice=ast.Constant(value=int(number))):
            return number > 2
    return False


@pytest.mark.parametrize("text", ["row[0]", "rows[0][1]", "task[3]"])
def test_a_column_that_is_taken_by_its_number_is_noticed(text: str) -> None:
    assert is_column_number(ast.parse(text, mode="eval").body)
