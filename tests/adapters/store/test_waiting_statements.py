"""Statements of a work that wait: they are written together, in time, or not at all."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from agenttalk.adapters.store import queries, schema
from agenttalk.adapters.store.root import RootStores
from agenttalk.adapters.store.writer import NUMBERS
from agenttalk.contracts.errors import Code, ConflictError
from agenttalk.ports.statements.core import FACTS_OF, GET_BLOB, PUT_BLOB
from agenttalk.ports.statements.inbox import MARK_ARTIFACT_INJECTED, STAGES_OF
from agenttalk.ports.statements.messages import ADD_MESSAGE, MESSAGE_BY_ID, PUT_MESSAGE, SET_MESSAGE_STATE, TALLY
from agenttalk.ports.statements.plans import PUT_DELIVERY, RUN_STATE
from agenttalk.ports.storage import Tx
from kits.storekit import Place


def message(number: int, name: str) -> dict[str, Any]:
    return {
        "id": number,
        "plan_id": "p",
        "message_id": name,
        "sha256": "sha256:m",
        "type": "command",
        "task_id": "t",
        "command_id": None,
        "seq": 1,
        "output_name": None,
        "producer": "engine",
        "name": name,
        "envelope": b"{}",
        "dag_sha256": "",
        "at": "2026",
        "state": "delivered",
    }


def delivery(number: int, of: int) -> dict[str, Any]:
    taken = dict.fromkeys(("ack", "taken_at", "injected_at", "finished_at", "prompt_sha256"))
    about = {"plan_id": "p", "message": of, "receiver": "a", "delivery_id": f"dlv_{number}", "priority": 1}
    return {"id": number, **about, "state": "delivered", "at": "2026", **taken}


def added(tx: Tx, name: str) -> int:
    """A message as those write it who need its id at once."""
    fields = message(0, name)
    del fields["id"]
    number: int = tx.run(ADD_MESSAGE, **fields)[0][0]
    return number


def put(tx: Tx, name: str) -> int:
    """A message and its delivery, which wait."""
    number, of = tx.next_id("deliveries"), tx.next_id("messages")
    tx.run_later(PUT_DELIVERY, delivery(number, of))  # which comes first does not matter
    tx.run_later(PUT_MESSAGE, message(of, name))
    return of


def known(tx: Tx, *names: str) -> list[int]:
    rows = [tx.run(MESSAGE_BY_ID, plan_id="p", message_id=name) for name in names]
    return [row[0][0] for row in rows if row]


def test_a_statement_sees_what_waits_for_its_table(place: Place) -> None:
    def work(tx: Tx) -> list[Any]:
        tx.run_later(PUT_BLOB, {"hash": "h", "content": b"one"})
        tx.run_later(PUT_BLOB, {"hash": "i", "content": b"two"})
        return [bytes(tx.run(GET_BLOB, hash=each)[0][0]) for each in "hi"]

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        assert await board.transact(work) == [b"one", b"two"]

    place.play(scenario)


def test_what_waits_is_there_after_the_commit_in_an_order_that_the_tables_allow(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        names = [f"m{number}" for number in range(NUMBERS + 3)]
        made = await board.transact(lambda tx: [put(tx, each) for each in names])
        assert made == sorted(set(made))
        assert await board.transact(lambda tx: known(tx, *names)) == made

    place.play(scenario)


def test_statements_that_wait_keep_their_order(place: Place) -> None:
    def work(tx: Tx) -> Any:
        put(tx, "m")
        marked: dict[str, Any] = {"plan_id": "p", "message_id": "m", "receiver": "a", "at": "2027"}
        tx.run_later(MARK_ARTIFACT_INJECTED, marked)
        put(tx, "n")
        tx.run_later(MARK_ARTIFACT_INJECTED, {**marked, "message_id": "n"})

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        await board.transact(work)
        rows = [await board.read(STAGES_OF, plan_id="p", message_id=name, receiver="a") for name in "mn"]
        assert [row[0] for [row] in rows] == ["2027", "2027"]

    place.play(scenario)


def test_nothing_is_kept_of_a_work_that_fails_and_all_of_those_beside_it(place: Place) -> None:
    def fails(tx: Tx) -> None:
        put(tx, "lost")
        tx.record("test.fact", "lost", {})
        raise RuntimeError("no")

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        works = (
            lambda tx: put(tx, "one"),
            fails,
            lambda tx: put(tx, "two"),
            lambda tx: tx.record("test.fact", "f", {}),
        )
        await asyncio.gather(*(board.transact(each) for each in works), return_exceptions=True)
        assert len(await board.transact(lambda tx: known(tx, "one", "lost", "two"))) == 2
        assert await board.read(FACTS_OF, subject="lost", after=0, limit=1) == []
        assert len(await board.read(FACTS_OF, subject="f", after=0, limit=2)) == 1

    place.play(scenario)


@pytest.mark.parametrize("several", [False, True])
def test_a_row_that_must_be_written_and_is_not_ends_the_work(place: Place, *, several: bool) -> None:
    lost = ConflictError(Code.LEASE_LOST, "somebody else has it")

    def work(tx: Tx) -> None:
        one, two = put(tx, "m"), put(tx, "n")
        tx.run_later(SET_MESSAGE_STATE, {"id": one, "state": "dead"}, lambda: lost)
        if several:
            tx.run_later(SET_MESSAGE_STATE, {"id": two, "state": "dead"}, lambda: lost)
        tx.run_later(SET_MESSAGE_STATE, {"id": 10**9, "state": "dead"}, lambda: lost)

    def alone(tx: Tx) -> None:
        tx.run_later(SET_MESSAGE_STATE, {"id": 10**9, "state": "dead"}, lambda: lost)

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        with pytest.raises(ConflictError) as found:
            await board.transact(work if several else alone)
        assert found.value.code is (Code.STORE_CONFLICT if several else Code.LEASE_LOST)
        assert await board.transact(lambda tx: known(tx, "m", "n")) == []

    place.play(scenario)


def test_ids_are_not_given_twice_whoever_else_makes_rows(place: Place) -> None:
    def between(tx: Tx) -> list[int]:
        return [put(tx, "a"), added(tx, "b"), put(tx, "c"), added(tx, "d"), put(tx, "e")]

    def fails(tx: Tx) -> None:
        put(tx, "f")
        put(tx, "a")  # there is one of that name

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        made = await board.transact(between)
        assert len(set(made)) == len(made)
        with pytest.raises(ConflictError):
            await board.transact(fails)
        later = await board.transact(lambda tx: [put(tx, "g"), put(tx, "h")])
        assert not set(later) & set(made)
        assert await board.transact(lambda tx: known(tx, "a", "b", "c", "d", "e", "g", "h")) == [*made, *later]

    place.play(scenario)


def test_what_another_process_wrote_meanwhile_is_noticed(tmp_path: Path) -> None:
    place = Place(tmp_path, "", "sqlite")

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        first = await board.transact(lambda tx: (put(tx, "one"), tx.record("test.fact", "f", {})))
        other = apsw.Connection(str(place.root / "data/projects/shop/blackboard.db"))
        other.execute(
            "INSERT INTO messages SELECT id + 1, board, plan_id, 'theirs', sha256, type, task_id, command_id, seq,"
            " output_name, producer, name, envelope, dag_sha256, accepted_at, state FROM messages"
        )
        fact = (
            "INSERT INTO ledger (seq, at, board, kind, subject, body) VALUES (?, '', '', 'k', 's', CAST('{}' AS BLOB))"
        )
        other.execute(fact, [first[1] + 1])
        other.close()
        again = await board.transact(lambda tx: (put(tx, "two"), tx.record("test.fact", "f", {})))
        assert again == (first[0] + 2, first[1] + 2)

    place.play(scenario)


def test_who_is_cancelled_while_a_work_is_carried_out_hears_of_it_afterwards(place: Place) -> None:
    go_on = threading.Event()

    def work(tx: Tx) -> None:
        go_on.wait(300)
        tx.record("test.fact", "done", {})

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        answer = board.submit(work)

        async def wait() -> None:
            await answer

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert answer.done()
        assert len(await board.read(FACTS_OF, subject="done", after=0, limit=2)) == 1

    place.play(scenario)


def test_a_statement_for_many_answers_with_the_rows_of_all(place: Place) -> None:
    def work(tx: Tx) -> tuple[list[int], list[int], list[Any]]:
        made = [put(tx, "a"), put(tx, "b")]
        rows = [{"plan_id": "p", "message_id": name} for name in ("a", "x", "b")]
        return made, [row[0] for row in tx.run_each(MESSAGE_BY_ID, rows)], tx.run_each(MESSAGE_BY_ID, [])

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        made, found, nothing = await board.transact(work)
        assert found == made
        assert nothing == []

    place.play(scenario)


def test_a_fault_in_one_of_many_is_told_and_undoes_the_work(place: Place) -> None:
    def work(tx: Tx) -> None:
        put(tx, "a")
        fields = [{**message(0, name), "state": state} for name, state in (("b", "delivered"), ("c", "nonsense"))]
        tx.run_each(ADD_MESSAGE, fields)

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        with pytest.raises(ConflictError):
            await board.transact(work)
        assert await board.transact(lambda tx: known(tx, "a", "b", "c")) == []
        assert len(await board.transact(lambda tx: [put(tx, "a"), put(tx, "b")])) == 2

    place.play(scenario)


def test_a_row_can_be_amended_as_long_as_it_waits(place: Place) -> None:
    def work(tx: Tx) -> list[bool]:
        row: dict[str, Any] = {"hash": "h", "content": b"one"}
        mark = tx.run_later(PUT_BLOB, row)
        tx.run_later(TALLY, {"plan_id": "p", "sent": 1, "delivered": 0, "superseded": 0, "duplicate": 0, "dead": 0})
        seen = [tx.is_waiting(mark)]
        tx.run(RUN_STATE, plan_id="p")  # of another table
        seen.append(tx.is_waiting(mark))
        row["content"] = b"two"
        assert bytes(tx.run(GET_BLOB, hash="h")[0][0]) == b"two"
        return [*seen, tx.is_waiting(mark), tx.is_waiting(None)]

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        assert await board.transact(work) == [True, True, False, False]

    place.play(scenario)


def test_ids_that_are_expected_are_the_next_ones(place: Place) -> None:
    def work(tx: Tx) -> tuple[list[int], list[int]]:
        tx.reserve_ids(2)
        made = [put(tx, name) for name in "abc"]
        return made, [tx.record("test.fact", "f", {"number": number}) for number in range(4)]

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        made, facts = await board.transact(work)
        assert made == sorted(set(made))
        assert facts == sorted(set(facts))
        assert await board.transact(lambda tx: known(tx, "a", "b", "c")) == made
        assert [row[0] for row in await board.read(FACTS_OF, subject="f", after=0, limit=9)] == facts

    place.play(scenario)


def test_a_statement_says_nothing_when_nobody_asks() -> None:
    for dialect in ("sqlite", "postgres"):
        asked, silent = queries.load_statements(dialect), queries.load_silent_statements(dialect)
        changed = {name for name in asked if asked[name] != silent[name]}
        assert {"end_turn", "lease_task", "end_delivery", "take_delivery"} <= changed
        assert all(asked[name].startswith(silent[name]) for name in asked)
        assert not [name for name in changed if "RETURNING" in silent[name]]


def test_every_reference_between_tables_is_known() -> None:
    for migration in schema.migrations("sqlite", "board"):
        for table, text in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", migration.text, re.DOTALL):
            named = set(re.findall(r"REFERENCES (\w+)", text))
            assert queries.referred_tables(f"INSERT INTO {table} (id)") == named
