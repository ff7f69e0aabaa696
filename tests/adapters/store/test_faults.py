"""What the store does when the machine fails it: nothing is acknowledged, it says what to do, and it goes on."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg
import pytest

from agenttalk.adapters.store import audit
from agenttalk.adapters.store.dialect import DatabaseConnection
from agenttalk.adapters.store.root import RootStores
from agenttalk.adapters.store.sqlite import SqliteConnection
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.ports.statements.core import COUNT_FACTS, FACTS_OF, PUT_BLOB, SEALED_FACTS
from agenttalk.ports.storage import Tx
from kits.storekit import Place, fact

CHUNK = "x" * 16_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB with 1 MiB of something else on it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    (disk / "filler").write_bytes(bytes(1024 * 1024))
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_fails_the_batch_and_the_store_goes_on_when_there_is_room(small_disk: Path) -> None:
    async def scenario(stores: RootStores) -> list[str]:
        board = await stores.board("shop")
        stored: list[str] = []
        refused: list[MachineError] = []
        for turn in range(20):
            names = [f"{turn}/{i}" for i in range(10)]
            asked = [board.database.writer.ask("shop", fact(name, {"text": CHUNK})) for name in names]
            for name, answer in zip(names, await asyncio.gather(*asked, return_exceptions=True), strict=True):
                if isinstance(answer, MachineError):
                    refused.append(answer)
                else:
                    stored.append(name)
        assert refused
        assert {error.code for error in refused} == {Code.STORE_FULL}
        assert refused[0].retriable
        assert "make room" in refused[0].hint
        (small_disk / "filler").unlink()
        await board.transact(fact("afterwards"))
        return [*stored, "afterwards"]

    async def check(stores: RootStores) -> None:
        board = await stores.board("shop")
        assert [n for n in stored if not await board.read(FACTS_OF, subject=n, after=0, limit=1)] == []
        assert await board.read(COUNT_FACTS) == [(len(stored),)]

    place = Place(small_disk, "", "sqlite")
    stored = place.play(scenario)
    place.play(check)
    assert all(report.verdict.intact for report in audit.verify(small_disk))


class Failing:
    """A connection whose next commit fails as SQLite reports a broken disk."""

    def __init__(self, connection: DatabaseConnection) -> None:
        self.inner = connection
        self.failures = 1

    def commit(self) -> None:
        if self.failures:
            self.failures -= 1
            raise apsw.IOError("disk I/O error")
        self.inner.commit()

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_a_commit_that_could_not_be_synced_is_in_doubt_and_the_next_one_works(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        writer = board.database.writer
        monkeypatch.setattr(writer, "_connection", Failing(writer._ready()))
        with pytest.raises(MachineError) as caught:
            await board.transact(fact("doubt"))
        assert caught.value.code is Code.STORE_IN_DOUBT
        assert caught.value.retriable
        await board.transact(fact("next"))
        assert len(await board.read(SEALED_FACTS, after=0, limit=10)) == 1

    sqlite.play(scenario)


def test_a_database_held_by_somebody_else_fails_and_later_works(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agenttalk.adapters.store.sqlite.BUSY_MS", 1)

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        other = apsw.Connection(str(sqlite.root / "data/projects/shop/blackboard.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MachineError, match="locked") as caught:
            await board.transact(fact("t"))
        assert caught.value.code is Code.STORE_UNAVAILABLE
        other.execute("ROLLBACK")
        other.close()
        await board.transact(fact("t"))

    sqlite.play(scenario)


def test_a_commit_is_synced_and_readers_cannot_write(sqlite: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        connection = board.database.writer._ready()
        assert isinstance(connection, SqliteConnection)
        for pragma, value in (("synchronous", 2), ("journal_mode", "wal"), ("foreign_keys", 1)):
            assert connection.execute(f"PRAGMA {pragma}", {}) == [(value,)]
        with pytest.raises(MachineError):
            await board.read(PUT_BLOB, hash="x", content=b"")

    sqlite.play(scenario)


def test_a_file_that_is_no_database_is_named(sqlite: Place) -> None:
    path = sqlite.root / "data" / "system.db"
    path.parent.mkdir()
    path.write_bytes(b"something else " * 1000)
    with pytest.raises(MachineError, match=r"system\.db") as caught:
        sqlite.play(open_shop)
    assert caught.value.code is Code.STORE_DAMAGED


async def open_shop(stores: RootStores) -> None:
    await stores.board("shop")


def end_sessions(url: str, pattern: str = "agenttalk projects") -> None:
    """What a restart of the server does to its sessions."""
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = %s AND datname = current_database()",
            (pattern,),
        )


def test_a_lost_session_is_made_anew_before_the_next_work(postgres: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        await board.transact(fact("before"))
        await board.read(COUNT_FACTS)
        end_sessions(postgres.url)
        await board.transact(fact("after"))
        end_sessions(postgres.url)
        assert await board.read(COUNT_FACTS) == [(2,)]

    postgres.play(scenario)


def test_a_session_lost_during_a_work_stores_nothing_and_may_be_retried(postgres: Place) -> None:
    def work(tx: Tx) -> None:
        tx.record("test.fact", "first half", {})
        end_sessions(postgres.url)
        tx.record("test.fact", "second half", {})

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        with pytest.raises(MachineError) as caught:
            await board.transact(work)
        assert caught.value.code is Code.STORE_UNAVAILABLE
        assert caught.value.retriable
        await board.transact(fact("again"))
        assert await board.read(COUNT_FACTS) == [(1,)]

    postgres.play(scenario)


def test_a_session_lost_during_the_commit_is_in_doubt(postgres: Place) -> None:
    def work(tx: Tx) -> None:
        tx.record("test.fact", "doubtful", {})
        end_sessions(postgres.url)

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        with pytest.raises(MachineError) as caught:
            await board.transact(work)
        assert caught.value.code is Code.STORE_IN_DOUBT
        assert caught.value.retriable
        assert "same key" in caught.value.hint
        await board.transact(fact("again"))

    postgres.play(scenario)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    place = Place(tmp_path, f"postgresql://agenttalk@/x?host={tmp_path}&port=1", "postgres")
    with pytest.raises(MachineError, match="PostgreSQL") as caught:
        place.play(open_shop)
    assert caught.value.code is Code.STORE_UNAVAILABLE


def test_listening_survives_a_lost_session(postgres: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        first = await board.wait_for_effects(0)  # 1; or 2, if it already listens
        seen = first if first > 1 else await asyncio.wait_for(board.wait_for_effects(first), 30)
        end_sessions(postgres.url)
        assert await asyncio.wait_for(board.wait_for_effects(seen), 30) > seen

    postgres.play(scenario)


def test_synchronous_commit_is_on(postgres: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        assert board.database.writer._ready().execute("SHOW synchronous_commit", {}) == [("on",)]

    postgres.play(scenario)


def test_every_file_of_the_store_is_refused_when_sqlite_is_old(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.45.0")
    with pytest.raises(MachineError, match=r"3\.45\.0"):
        sqlite.play(open_shop)
