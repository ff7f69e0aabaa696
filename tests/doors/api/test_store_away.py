"""A database that goes away under a running engine: it says so, and works again when the database is back."""

from __future__ import annotations

import threading
from itertools import pairwise
from urllib.parse import urlsplit

import psycopg
import pytest

from doors.api.enginekit import engine, until
from engine.toolchain.kits.bench import asked
from kits.treekit import Tree


def let_in(cluster: str, database: str, *, allowed: bool) -> None:
    """Let everybody into a database, or nobody; who is in is thrown out."""
    name = urlsplit(database).path.strip("/")
    with psycopg.connect(cluster, autocommit=True) as session:
        session.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}")
        session.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,))


def test_an_engine_without_its_store_is_alive_and_not_ready(
    tree: Tree, cluster: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTTALK__STORE__URL", database)
    lines: list[str] = []
    with engine(tree.root) as serving:
        assert serving.process.stderr is not None
        threading.Thread(target=lines.extend, args=(serving.process.stderr,), daemon=True).start()

        def status(path: str) -> int:
            return asked(serving.told["http"], "GET", path, None, {})[0]

        until(lambda: status("/readyz") == 200, "it is ready")
        let_in(cluster, database, allowed=False)
        try:
            until(lambda: status("/readyz") == 503, "it is not ready any more")
            assert status("/healthz") == 200
            until(lambda: any("cannot seal" in each for each in lines), "it cannot write its ledger")
        finally:
            let_in(cluster, database, allowed=True)
        until(lambda: status("/readyz") == 200, "it is ready again")
    behind = [after for line, after in pairwise(lines) if "cannot seal" in line]
    assert not [each for each in behind if each.startswith("Traceback")], "it is said in a line, however often"
