"""Effects: queued with the fact, claimed for a while, done once or more."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from agenttalk.adapters.store.root import RootStores
from agenttalk.adapters.store.writer import Work
from agenttalk.ports.statements.core import NEXT_EFFECT_AT
from agenttalk.ports.storage import Tx
from kits.effectkit import Effect, claim_effects, finish_effect, retry_effect
from kits.storekit import NOON, Place

MINUTE = timedelta(minutes=1)


def queue(*keys: str) -> Work:
    return lambda tx: [tx.queue_effect("post", key, {"key": key}) for key in keys]


def claim(tx: Tx) -> list[Effect]:
    return claim_effects(tx, "post", 10, now=NOON)


def test_an_effect_is_claimed_by_one_and_comes_back_when_its_claim_runs_out(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        await board.transact(queue("a", "b"))
        first = await board.transact(claim)
        assert [(e.key, e.body, e.attempts) for e in first] == [("a", {"key": "a"}, 1), ("b", {"key": "b"}, 1)]
        assert await board.transact(claim) == []
        later = await board.transact(lambda tx: claim_effects(tx, "post", 1, now=NOON + MINUTE))
        assert [(e.key, e.attempts) for e in later] == [("a", 2)]

    place.play(scenario)


def test_a_finished_effect_never_comes_back_and_its_key_stays_taken(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        await board.transact(queue("a"))
        [effect] = await board.transact(claim)
        assert await board.transact(lambda tx: finish_effect(tx, effect.id))
        assert not await board.transact(lambda tx: finish_effect(tx, effect.id))
        assert not await board.transact(lambda tx: retry_effect(tx, effect.id, not_before=NOON))
        assert await board.transact(queue("a")) == [False]
        assert await board.transact(lambda tx: claim_effects(tx, "post", 9, now=NOON + 99 * MINUTE)) == []

    place.play(scenario)


def test_a_failed_effect_waits_for_its_time(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        await board.transact(queue("a"))
        [effect] = await board.transact(claim)
        await board.transact(lambda tx: retry_effect(tx, effect.id, not_before=NOON + 5 * MINUTE))
        assert await board.read(NEXT_EFFECT_AT, kind="post") == [("2026-03-01T12:05:00.000000Z",)]
        assert await board.transact(lambda tx: claim_effects(tx, "post", 9, now=NOON + 4 * MINUTE)) == []
        [again] = await board.transact(lambda tx: claim_effects(tx, "post", 9, now=NOON + 5 * MINUTE))
        assert again.attempts == 2

    place.play(scenario)


def test_whoever_waits_for_effects_is_woken_by_the_commit(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        seen = await board.wait_for_effects(0)
        await board.transact(lambda tx: tx.record("test.fact", "no effect", {}))
        waiter = asyncio.create_task(board.wait_for_effects(seen))
        await asyncio.sleep(0)
        await board.transact(queue("a"))
        assert await asyncio.wait_for(waiter, 300) > seen
        assert len(await board.transact(claim)) == 1

    place.play(scenario)


def test_a_wake_up_is_not_missed_between_looking_and_waiting(sqlite: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        seen = await board.wait_for_effects(0)
        await board.transact(queue("a"))
        assert await asyncio.wait_for(board.wait_for_effects(seen), 30) > seen

    sqlite.play(scenario)


def test_effects_of_one_server_wake_another(postgres: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        here = await stores.board("shop")
        await here.wait_for_effects(0)
        seen = await asyncio.wait_for(here.wait_for_effects(1), 300)  # the listener says that it listens, maybe before
        waiter = asyncio.create_task(here.wait_for_effects(seen))
        other = postgres.stores()
        there = await other.board("shop")
        await there.transact(queue("a"))
        await other.close()
        assert await asyncio.wait_for(waiter, 300) > seen

    postgres.play(scenario)


def test_two_servers_do_not_claim_the_same_effect(postgres: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        here = await stores.board("shop")
        other = postgres.stores()
        there = await other.board("shop")
        await here.transact(queue(*(f"k{i}" for i in range(100))))
        claims = [store.transact(lambda tx: claim_effects(tx, "post", 5, now=NOON)) for store in (here, there) * 10]
        keys = [effect.key for found in await asyncio.gather(*claims) for effect in found]
        await other.close()
        assert len(keys) == len(set(keys)) == 100

    postgres.play(scenario)
