"""Spans of a store that is PostgreSQL: told once, with the times of their facts, by whichever server comes first."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from agenttalk.ports.statements.operation import TRACED
from agenttalk.wiring import open_root
from kits.tracekit import Bench, Clock, finished, started

PATIENCE = 300.0


def test_servers_on_one_store_tell_the_same_spans_under_the_same_ids(tmp_path: Path, database: str) -> None:
    async def run() -> None:
        clock = Clock()
        (tmp_path / "agents").mkdir()
        async with open_root(tmp_path, clock=clock, url=database, traced=True) as deps:
            bench = Bench(deps, clock)
            servers = [bench.engine(), bench.engine()]
            board = await deps.stores.board("default")
            for each in servers:
                await each.begin()

            async def told(many: int) -> None:
                """Facts are chained a moment after they are written, and told then."""
                async with asyncio.timeout(PATIENCE):
                    while len(set(bench.ids)) < many or len(await board.read(TRACED)) != 2 * (many == 0):
                        for each in servers:
                            await each.pass_()
                        await asyncio.sleep(0.02)

            await bench.record(("plan.submitted", "one", {}), started("one", "cmd_t_001"))
            await told(0)
            clock.time += timedelta(hours=1)
            await bench.record(finished("one", "cmd_t_001"), ("plan.ended", "one", {"completed": 1}))
            await told(2)
            assert {each.name for each in bench.taken} == {"invoke_agent dev", "invoke_workflow one"}
            assert {each.end_time_unix_nano - each.start_time_unix_nano for each in bench.taken} == {3600 * 10**9}
            by_id = {each.span_id: each for each in bench.taken}
            assert all(each == by_id[each.span_id] for each in bench.taken)

    asyncio.run(run())
