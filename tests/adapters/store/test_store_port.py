"""The port `Store`, over both databases."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agenttalk.adapters.store.database import BoardStore
from agenttalk.adapters.store.dialect import DatabaseConnection
from agenttalk.adapters.store.root import RootStores
from agenttalk.adapters.store.writer import Work
from agenttalk.contracts.errors import Code, ConflictError, JsonError, MachineError, UsageError
from agenttalk.ports.statements.core import FACTS_OF, NEXT_EFFECT_AT, SEAL_FACT
from agenttalk.ports.statements.plans import CURSOR_VALUE, SET_CURSOR
from agenttalk.ports.storage import Snapshot, Store, Tx
from kits.storekit import Place, fact

CHILD = Path(__file__).parent / "acknowledging_child.py"


async def subjects(board: Store, *names: str) -> list[str]:
    """Those of the names that the ledger has a fact of."""
    return [name for name in names if await board.read(FACTS_OF, subject=name, after=0, limit=1)]


def test_a_work_returns_its_value_and_its_facts_can_be_read(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        seq = await board.transact(lambda tx: tx.record("test.fact", "t1", {"b": 1, "a": "é"}))
        [(found, at, kind, body)] = await board.read(FACTS_OF, subject="t1", after=0, limit=10)
        assert (found, at, kind, body) == (seq, "2026-03-01T12:00:00.000000Z", "test.fact", '{"a":"é","b":1}'.encode())

    place.play(scenario)


@pytest.mark.rest_but("sqlite")
def test_what_was_acknowledged_survives_kill_9(place: Place) -> None:
    acknowledged: list[str] = []
    for turn in range(8):
        child = subprocess.run(
            [sys.executable, str(CHILD), str(place.root), place.url, str(turn), str(20 + 7 * turn)],
            env={**os.environ, "PYTHONPATH": str(CHILD.parents[2])},
            stdout=subprocess.PIPE,
            timeout=600,
            check=False,
        )
        assert child.returncode == -signal.SIGKILL
        acknowledged += child.stdout.decode().split()
    assert len(acknowledged) > 200

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        assert await subjects(board, *acknowledged) == acknowledged

    place.play(scenario)


class Gated:
    """A connection whose commit waits at a gate."""

    def __init__(self, connection: DatabaseConnection) -> None:
        self.inner = connection
        self.entered, self.gate = threading.Event(), threading.Event()

    def commit(self) -> None:
        self.entered.set()
        assert self.gate.wait(300)
        self.inner.commit()

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_nothing_is_acknowledged_while_the_commit_runs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        gated = Gated(board.database.writer._ready())
        monkeypatch.setattr(board.database.writer, "_connection", gated)
        work = asyncio.create_task(board.transact(fact("t")))
        await asyncio.to_thread(gated.entered.wait, 30)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not work.done()
        assert await subjects(board, "t") == []
        gated.gate.set()
        await work
        assert await subjects(board, "t") == ["t"]

    place.play(scenario)


def test_works_that_queue_while_a_commit_runs_share_the_next_one(place: Place) -> None:
    entered, gate = threading.Event(), threading.Event()

    def slow(tx: Tx) -> None:
        tx.record("test.fact", "slow", {})
        entered.set()
        assert gate.wait(300)

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        first = asyncio.ensure_future(board.transact(slow))
        await asyncio.to_thread(entered.wait, 30)
        before = board.database.writer.commits
        others = [board.database.writer.ask("shop", fact(f"t{i}")) for i in range(50)]
        gate.set()
        await asyncio.gather(first, *others)
        assert board.database.writer.commits - before == 2

    place.play(scenario)


async def in_one_batch(board: BoardStore, *works: Work) -> list[object]:
    """Hold the writer up until all works wait, so that they share a commit; their values or exceptions."""
    entered, gate = threading.Event(), threading.Event()

    def hold(_: Tx) -> None:
        entered.set()
        assert gate.wait(300)

    first = asyncio.ensure_future(board.transact(hold))
    await asyncio.to_thread(entered.wait, 30)
    futures = [board.database.writer.ask(board.name, work) for work in works]
    gate.set()
    await first
    answers: list[object] = await asyncio.gather(*futures, return_exceptions=True)
    return answers


def test_a_work_that_raises_is_undone_alone(place: Place) -> None:
    def faulty(tx: Tx) -> None:
        tx.record("test.fact", "undone", {})
        tx.queue_effect("post", "undone", {})
        raise KeyError("mine")

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        one, two, three, four = await in_one_batch(board, fact("before"), faulty, fact("after"), faulty)
        assert isinstance(one, int)
        assert isinstance(two, KeyError)
        assert isinstance(three, int)
        assert isinstance(four, KeyError)
        with pytest.raises(KeyError):
            await board.transact(faulty)
        assert await subjects(board, "before", "undone", "after") == ["before", "after"]
        assert await board.read(NEXT_EFFECT_AT, kind="post") == []

    place.play(scenario)


def test_a_conflict_undoes_the_work_even_when_it_is_caught(place: Place) -> None:
    def stubborn(tx: Tx) -> str:
        tx.record("test.fact", "stubborn", {})
        try:
            # One seal cannot be given twice.
            for seq in (1, 2):
                tx.run(SEAL_FACT, seq=seq, link=77, prev=b"", hash=b"")
        except ConflictError:
            pass
        return "fine"

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        await board.transact(lambda tx: [tx.record("test.fact", name, {}) for name in "ab"])
        one, two, three = await in_one_batch(board, fact("before"), stubborn, fact("after"))
        assert isinstance(two, ConflictError)
        assert two.code is Code.STORE_CONFLICT
        assert isinstance(one, int)
        assert isinstance(three, int)
        with pytest.raises(ConflictError):
            await board.transact(stubborn)
        assert await subjects(board, "before", "stubborn", "after") == ["before", "after"]

    place.play(scenario)


def test_a_work_goes_on_when_whoever_awaits_it_is_cancelled(place: Place) -> None:
    entered, gate = threading.Event(), threading.Event()

    def slow(tx: Tx) -> None:
        tx.record("test.fact", "running", {})
        entered.set()
        assert gate.wait(300)

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        running = asyncio.create_task(board.transact(slow))
        await asyncio.to_thread(entered.wait, 30)
        waiting = asyncio.create_task(board.transact(fact("waiting")))
        await asyncio.sleep(0)
        for task in (running, waiting):
            task.cancel()
        assert [type(e) for e in await asyncio.gather(running, waiting, return_exceptions=True)] == [
            asyncio.CancelledError
        ] * 2
        gate.set()
        await board.transact(fact("later"))
        assert await subjects(board, "running", "waiting", "later") == ["running", "waiting", "later"]

    place.play(scenario)


def test_close_carries_out_what_was_handed_over_and_then_refuses(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        futures = [board.database.writer.ask("shop", fact(f"t{i}")) for i in range(20)]
        await stores.close()
        assert all(isinstance(value, int) for value in await asyncio.gather(*futures))
        with pytest.raises(MachineError) as caught:
            await board.transact(fact("late"))
        assert caught.value.code is Code.STORE_UNAVAILABLE

    place.play(scenario)


def test_boards_keep_to_themselves(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        names = ["system", "_mail", "_toolchain", "shop", "bakery"]
        boards = [await stores.board(name) for name in names]
        for board in boards:
            assert await board.transact(lambda tx: tx.queue_effect("post", "same", {}))
            assert not await board.transact(lambda tx: tx.queue_effect("post", "same", {}))
            await board.transact(fact(board.name))
        for board in boards:
            assert await subjects(board, *names) == [board.name]

    place.play(scenario)


@pytest.mark.parametrize("name", ["", "..", "a/b", "_other", ".hidden", "x" * 129])
def test_a_name_that_is_no_board_is_refused(sqlite: Place, name: str) -> None:
    async def scenario(stores: RootStores) -> None:
        with pytest.raises(UsageError) as caught:
            await stores.board(name)
        assert caught.value.code is Code.ID_INVALID

    sqlite.play(scenario)


def test_a_body_that_is_no_json_is_refused(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        with pytest.raises(JsonError):
            await board.transact(lambda tx: tx.record("test.fact", "nan", float("nan")))

    place.play(scenario)


def test_a_read_sees_only_what_is_committed(place: Place) -> None:
    entered, gate = threading.Event(), threading.Event()

    def slow(tx: Tx) -> None:
        tx.record("test.fact", "t", {})
        entered.set()
        assert gate.wait(300)

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        work = asyncio.ensure_future(board.transact(slow))
        await asyncio.to_thread(entered.wait, 30)
        assert await subjects(board, "t") == []
        gate.set()
        await work
        assert await subjects(board, "t") == ["t"]

    place.play(scenario)


def test_a_work_that_raises_stop_iteration_does_not_hang(sqlite: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        with pytest.raises(RuntimeError, match="StopIteration"):
            await board.transact(lambda _: next(iter(())))

    sqlite.play(scenario)


def test_queries_that_are_read_together_see_one_state_and_hold_up_no_writer(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board, loop = await stores.board("shop"), asyncio.get_running_loop()
        await board.transact(fact("first"))

        def look(committed: Snapshot) -> tuple[int, int]:
            before = committed.run(FACTS_OF, subject="second", after=0, limit=9)
            asyncio.run_coroutine_threadsafe(board.transact(fact("second")), loop).result(300)
            return len(before), len(committed.run(FACTS_OF, subject="second", after=0, limit=9))

        assert await board.read_together(look) == (0, 0)
        assert await subjects(board, "first", "second") == ["first", "second"]

    place.play(scenario)


def test_a_work_that_only_reads_cannot_write(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        with pytest.raises(MachineError) as refused:
            await board.read_together(lambda committed: committed.run(SET_CURSOR, name="here", value=2))
        assert refused.value.code == Code.STORE_UNAVAILABLE
        assert await board.read_together(lambda committed: committed.run(CURSOR_VALUE, name="here")) == []

    place.play(scenario)


def test_an_error_of_a_work_that_reads_is_raised_and_the_next_one_is_answered(place: Place) -> None:
    def fail(_: Snapshot) -> None:
        raise UsageError(Code.NAME_UNKNOWN, "there is none")

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        with pytest.raises(UsageError, match="there is none"):
            await board.read_together(fail)
        assert await board.read_together(lambda committed: committed.board) == "shop"
        assert await subjects(board, "t") == []

    place.play(scenario)
