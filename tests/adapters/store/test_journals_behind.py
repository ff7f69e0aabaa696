"""Which journals are behind what the ledger holds."""

from __future__ import annotations

from functools import partial

from agenttalk.adapters.store.root import RootStores
from agenttalk.engine.core import records
from agenttalk.engine.messages import published_files
from agenttalk.ports.statements.messages import JOURNAL_GROWN, UNWRITTEN_JOURNALS
from agenttalk.ports.storage import Tx
from kits.storekit import Place


def test_a_journal_stays_behind_until_its_newest_line_is_written(place: Place) -> None:
    def line(tx: Tx) -> int:
        seq = tx.record("delivery", records.journal_subject("p"), {})
        tx.run(JOURNAL_GROWN, plan_id="p", seq=seq)
        return seq

    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")

        async def is_behind(seq: int) -> bool:
            await board.transact(partial(published_files._written, plan_id="p", seq=seq, base=0, size=0))
            return bool(await board.read(UNWRITTEN_JOURNALS))

        first, second = await board.transact(line), await board.transact(line)
        assert await board.read(UNWRITTEN_JOURNALS) == [("p",)]
        assert [await is_behind(each) for each in (0, first, second)] == [True, True, False]
        third = await board.transact(line)
        assert await board.read(UNWRITTEN_JOURNALS) == [("p",)]
        assert not await is_behind(third)

    place.play(scenario)
