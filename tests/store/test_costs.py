"""Costs do not grow with history: every statement finds its rows through an index."""

from __future__ import annotations

from typing import Any

import apsw
import psycopg
import pytest

from agenttalk.ports import Tx
from agenttalk.store import queries
from agenttalk.store.root import RootStores
from storekit import Place

LOOKS_AT_EVERYTHING = {"count_facts"}
"""Only the audit asks these."""
LATE = 10**9
PARAMS: dict[str, Any] = {
    "board": "shop", "subject": "t5", "kind": "post", "key": "k", "body": b"{}", "at": "", "after": LATE, "limit": 10,
    "seq": 7, "link": LATE, "prev": b"", "hash": "sha256:x", "content": b"", "now": "", "until": "", "id": 5,
    "not_before": "",
}  # fmt: skip


def fill(place: Place, size: int) -> None:
    def work(tx: Tx) -> None:
        for number in range(size):
            tx.record("test.fact", f"t{number}", {"number": number})
            tx.effect("post", f"k{number}", {})
        for number, *_ in tx.run("claim_effects", kind="post", limit=size, now="z", until=""):
            tx.run("finish_effect", id=number)

    async def scenario(stores: RootStores) -> None:
        await (await stores.board("shop")).transact(work)

    place.play(scenario)


def steps(place: Place) -> dict[str, int]:
    """How many steps SQLite's machine takes for each statement."""
    connection = apsw.Connection(str(place.root / "data/projects/shop/blackboard.db"))
    count = 0

    def tick() -> bool:
        nonlocal count
        count += 1
        return False

    connection.set_progress_handler(tick, 1)
    taken = {}
    for name, statement in queries.load("sqlite").items():
        connection.execute("BEGIN")
        count = 0
        params = {**PARAMS, "hash": b"h"} if name == "seal_fact" else PARAMS
        connection.execute(statement, params).fetchall()
        taken[name] = count
        connection.execute("ROLLBACK")
    connection.close()
    return taken


def test_no_statement_takes_more_steps_with_more_history(sqlite: Place) -> None:
    fill(sqlite, 20)
    before = steps(sqlite)
    fill(sqlite, 20_000)
    after = steps(sqlite)
    grown = {name: (before[name], after[name]) for name in after if after[name] > before[name] + 40}
    assert grown == {}


@pytest.mark.parametrize("name", sorted(queries.load("sqlite").keys() - LOOKS_AT_EVERYTHING))
def test_sqlite_uses_an_index_for(sqlite: Place, name: str) -> None:
    fill(sqlite, 1)
    connection = apsw.Connection(str(sqlite.root / "data/projects/shop/blackboard.db"))
    rows = connection.execute(f"EXPLAIN QUERY PLAN {queries.load('sqlite')[name]}", PARAMS).fetchall()
    connection.close()
    plan = [str(row[3]) for row in rows]
    assert [step for step in plan if step.startswith("SCAN") and "INDEX" not in step] == []


def test_postgres_uses_an_index_for_every_statement(postgres: Place) -> None:
    fill(postgres, 5_000)
    with psycopg.connect(postgres.url, options="-c search_path=projects", autocommit=True) as session:
        session.execute("ANALYZE")
        for name, statement in queries.load("postgres").items():
            params = {**PARAMS, "hash": b"h"} if name == "seal_fact" else PARAMS
            plan = "\n".join(row[0] for row in session.execute(f"EXPLAIN {statement}", params))
            assert "Seq Scan" not in plan or name in LOOKS_AT_EVERYTHING | {"get_blob", "has_blob"}, plan
