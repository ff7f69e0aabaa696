"""Webhooks that come at the same time share a synced commit; one that comes alone waits for nobody."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest

from adapters.forge.test_webhooks import sample
from agenttalk.adapters.store.database import BoardStore as StoredBoard
from agenttalk.contracts.errors import Code
from agenttalk.engine.core import boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.toolchain.board import ToolchainBoard
from agenttalk.engine.toolchain.receiver import (
    BREATH,
    FEW,
    LONGEST,
    MANY,
    MOST,
    Backpressure,
    Batcher,
    DeliveryReceiver,
    PendingDelivery,
    StoredDelivery,
)
from agenttalk.ports.forge import Headers
from agenttalk.ports.statements.toolchain import NEW_WEBHOOKS
from agenttalk.ports.storage import Store
from agenttalk.wiring import forge_sources
from engine.toolchain.kits.bench import SECRET, signed
from engine.toolchain.test_board import play

BODY = json.dumps(sample("gitea/issue_assigned")["body"]).encode()
NOWHERE = cast("Store", None)
"""For those who are not stored."""
SOURCE = forge_sources.ConfiguredSource("gitea", "gitea", "https://git.example.test/api/v1", SECRET)


def headers(body: bytes, number: object) -> list[tuple[str, str]]:
    return [("X-Gitea-Delivery", str(number)), ("X-Gitea-Event-Type", "issues"), *signed("gitea", body).items()]


def test_each_of_a_crowd_is_stored_once_and_all_of_it_by_one_work(tmp_path: Path) -> None:
    async def work(deps: Deps, _: ToolchainBoard) -> None:
        receiver = DeliveryReceiver(deps, {"gitea": SOURCE}, lambda: None)
        system = await deps.stores.board(boards.SYSTEM)
        assert isinstance(system, StoredBoard)

        async def receive(number: object) -> StoredDelivery:
            return await receiver.receive("gitea", headers(BODY, number), BODY)

        before = system.database.writer.works
        alone = await receive(0)
        came = await asyncio.gather(*(receive(number) for number in range(1, 33)))
        assert len({alone.id, *(each.id for each in came)}) == 33
        assert [int(each.id[3:]) for each in came] == sorted(int(each.id[3:]) for each in came), "in their order"
        assert system.database.writer.works == before + 2
        again = await asyncio.gather(*(receive(7) for _ in range(5)))
        assert set(again) == {StoredDelivery(came[6].id, again=True)}
        twice = await asyncio.gather(*(receive("new") for _ in range(5)))
        assert [each.again for each in twice] == [False, True, True, True, True]
        assert len({each.id for each in twice}) == 1
        many = await asyncio.gather(*(receive(f"many {number}") for number in range(200)))
        assert len({each.id for each in many}) == 200

    play(tmp_path / "root", work)


class Strange(forge_sources.ConfiguredSource):
    """A source that calls some deliveries by what no database takes."""

    def label(self, headers: Headers) -> tuple[str, str]:
        delivery, event = super().label(headers)
        return delivery, "\ud800" if delivery == "bad" else event


def test_one_that_cannot_be_stored_takes_no_other_along(tmp_path: Path) -> None:
    source = Strange("gitea", "gitea", "https://git.example.test/api/v1", SECRET)

    async def work(deps: Deps, _: ToolchainBoard) -> None:
        receiver = DeliveryReceiver(deps, {"gitea": source}, lambda: None)
        names = [*range(5), "bad", *range(5, 10)]
        asked = (receiver.receive("gitea", headers(BODY, name), BODY) for name in names)
        came = await asyncio.gather(*asked, return_exceptions=True)
        stored = [each for each in came if isinstance(each, StoredDelivery)]
        assert (len({each.id for each in stored}), came[5] in stored) == (10, False)
        system = await deps.stores.board(boards.SYSTEM)
        assert len(await system.read(NEW_WEBHOOKS, limit=100)) == 10

    play(tmp_path / "root", work)


def test_when_the_store_is_gone_everybody_is_told(tmp_path: Path) -> None:
    async def work(deps: Deps, _: ToolchainBoard) -> None:
        receiver = DeliveryReceiver(deps, {"gitea": SOURCE}, lambda: None)
        await (await deps.stores.board(boards.SYSTEM)).close()
        asked = (receiver.receive("gitea", headers(BODY, number), BODY) for number in range(10))
        came = await asyncio.gather(*asked, return_exceptions=True)
        assert [getattr(each, "code", None) for each in came] == [Code.STORE_UNAVAILABLE] * 10

    play(tmp_path / "root", work)


class Gathering:
    """A crowd, and who went with whom."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.crowd = Batcher(self.go)

    def go(self, came: list[PendingDelivery]) -> None:
        self.groups.append(len(came))
        for each in came:
            if not each.stored.done():
                each.stored.set_result(StoredDelivery("wh-1"))

    def come(self) -> asyncio.Future[StoredDelivery]:
        stored: asyncio.Future[StoredDelivery] = asyncio.get_running_loop().create_future()
        self.crowd.add(PendingDelivery(NOWHERE, {}, {}, stored))
        return stored


def test_those_who_come_one_after_the_other_go_on_together() -> None:
    async def work() -> None:
        gathering, waiting = Gathering(), []
        for turn in range(40):
            if turn < 20 and turn % 2 == 0:
                waiting.append(gathering.come())
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert gathering.groups == [10], "as one work"
        await asyncio.wait_for(gathering.come(), 10)
        assert gathering.groups == [10, 1], "and nobody waits for others who do not come"

    asyncio.run(work())


def test_nobody_waits_for_ever_in_a_crowd_that_grows_and_a_leaver_holds_up_nobody() -> None:
    async def work() -> None:
        gathering = Gathering()
        leaver = gathering.come()
        waiting = [gathering.come() for _ in range(3)]
        leaver.cancel()
        while not gathering.groups:  # somebody new with every turn of the loop
            waiting.append(gathering.come())
            await asyncio.sleep(0)
        assert gathering.groups == [MOST]
        await asyncio.gather(*waiting)
        assert sum(gathering.groups) == len(waiting) + 1

    asyncio.run(work())


class Watch:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_whoever_comes_alone_is_decided_about_at_once_and_few_after_a_breath() -> None:
    watch = Watch()
    rush = Backpressure(watch)
    assert rush.pause() == 0, "what an engine before left"
    rush.note_decided(0)
    rush.note_stored(1)
    assert rush.pause() == 0
    rush.note_decided(1)
    rush.note_stored(FEW)
    assert 0 < rush.pause() <= BREATH
    watch.now += BREATH
    assert rush.pause() == 0


def test_a_rush_is_decided_about_when_it_is_over() -> None:
    watch = Watch()
    rush = Backpressure(watch)
    for _ in range(10):
        rush.note_stored(32)
        assert 0 < rush.pause() <= BREATH
        watch.now += BREATH / 2
    watch.now += BREATH / 2
    assert rush.pause() == 0
    rush.note_stored(32)
    for _ in range(5):
        assert rush.pause() == 0, "who waited is not held up by who comes now"
        rush.note_decided(64)
    assert rush.pause() > 0
    rush.note_decided(0)
    watch.now += BREATH
    rush.note_stored(1)
    assert rush.pause() == 0, "nothing is left of what was counted"


@pytest.mark.parametrize("many", [1, 9, 60, 500])
def test_nobody_waits_for_ever_in_a_rush_that_does_not_end(many: int) -> None:
    """However many come, whoever waits is decided about after about a second, or sooner if many wait."""
    watch = Watch()
    rush = Backpressure(watch)
    waiting: list[float] = []
    for _ in range(1000):
        rush.note_stored(many)
        waiting += [watch.now] * many
        watch.now += BREATH / 10
        while rush.pause() == 0 and waiting:
            del waiting[:64]
            rush.note_decided(64)
        assert len(waiting) < MANY
        assert not waiting or watch.now - waiting[0] <= LONGEST


def test_while_some_are_decided_about_the_clock_runs_for_those_who_come() -> None:
    watch = Watch()
    rush = Backpressure(watch)
    rush.note_stored(MANY)
    assert rush.pause() == 0
    for _ in range(MANY // 64):
        rush.note_stored(10)
        rush.note_decided(64)
        watch.now += LONGEST / 10
        assert rush.pause() == 0
    rush.note_decided(64)
    assert rush.pause() == 0, "the first of them has waited for longer than that"
