"""Webhooks that come at the same time share a synced commit; one that comes alone waits for nobody."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from agenttalk import connecting
from agenttalk.engine import plans
from agenttalk.engine.deps import Deps
from agenttalk.engine.toolchain import Board
from agenttalk.engine.webhooks import TOGETHER, Crowd, Received, Receiver
from agenttalk.store.database import Board as StoredBoard
from forge.test_webhooks import sample
from toolchain.bench import SECRET, signed
from toolchain.test_board import play

SOURCE = connecting.ConfiguredSource("gitea", "gitea", "https://git.example.test/api/v1", SECRET)


def test_each_of_a_crowd_is_stored_once(tmp_path: Path) -> None:
    body = json.dumps(sample("gitea/issue_assigned")["body"]).encode()

    def headers(number: int) -> list[tuple[str, str]]:
        return [("X-Gitea-Delivery", str(number)), ("X-Gitea-Event-Type", "issues"), *signed("gitea", body).items()]

    async def work(deps: Deps, _: Board) -> None:
        receiver = Receiver(deps, {"gitea": SOURCE}, lambda: None)
        system = await deps.stores.board(plans.SYSTEM)
        assert isinstance(system, StoredBoard)
        before = system.database.writer.works
        alone = await receiver.receive("gitea", headers(0), body)
        came = await asyncio.gather(*(receiver.receive("gitea", headers(number), body) for number in range(1, 33)))
        assert len({alone.id, *(each.id for each in came)}) == 33
        assert system.database.writer.works == before + 33, "each is carried out by itself"
        again = await asyncio.gather(*(receiver.receive("gitea", headers(7), body) for _ in range(5)))
        assert set(again) == {Received(came[6].id, again=True)}

    play(tmp_path / "root", work)


def test_those_who_come_one_after_the_other_go_on_together() -> None:
    async def work() -> None:
        crowd, turn, gone = Crowd(), 0, []

        async def come() -> None:
            await crowd.gathered()
            gone.append(turn)

        tasks = []
        for turn in range(40):
            if turn < 20 and turn % 2 == 0:
                tasks.append(asyncio.ensure_future(come()))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert (len(gone), len(set(gone))) == (10, 1), "in one turn, which is when one commit can take them all"

    asyncio.run(work())


def test_nobody_waits_for_ever_in_a_crowd_that_grows_and_a_leaver_holds_up_nobody() -> None:
    async def work() -> None:
        crowd, through = Crowd(), 0

        async def come() -> None:
            nonlocal through
            await crowd.gathered()
            through += 1

        leaver = asyncio.ensure_future(come())
        tasks = [asyncio.ensure_future(come()) for _ in range(3)]
        await asyncio.sleep(0)
        leaver.cancel()
        while through == 0:  # somebody new with every turn of the loop
            tasks.append(asyncio.ensure_future(come()))
            await asyncio.sleep(0)
        assert len(tasks) <= 2 * TOGETHER
        await asyncio.gather(*tasks)
        assert (through, leaver.cancelled()) == (len(tasks), True)
        await asyncio.wait_for(crowd.gathered(), 10)

    asyncio.run(work())
