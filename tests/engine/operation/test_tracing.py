"""Spans: told once under one id, also when an engine ends in between, later if nobody takes them, and never the past."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from agenttalk.engine.core.trace_context import make_parent_recorder, read_naming
from agenttalk.engine.operation.trace_export import AT_ONCE, TOGETHER, SpanExportResult
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.ports.statements.operation import TRACED
from agenttalk.ports.statements.plans import CURSOR_VALUE, SET_CURSOR
from agenttalk.wiring import open_root
from kits.plankit import Engine, engine, plan, task
from kits.tracekit import Bench, Clock, Killed, finished, started

OUTSIDE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def play(root: Path, use: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        (root / "agents").mkdir()
        clock = Clock()
        async with open_root(root, clock=clock, traced=True) as deps:
            await use(Bench(deps, clock))

    asyncio.run(run())


def test_what_happens_is_told_once_and_the_past_is_not(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        await bench.plan("old")
        engine = bench.engine()
        await engine.begin()
        await bench.plan("one")
        for each in (engine, bench.engine()):
            await each.begin()
            await each.pass_()
        assert bench.names == ["invoke_agent dev", "invoke_workflow one"]
        assert engine.counts.sent == 2

    play(tmp_path, use)


def test_a_turn_that_ends_under_another_engine_has_its_own_times(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        first = bench.engine()
        await first.begin()
        await bench.record(("plan.submitted", "one", {}), started("one", "cmd_t_001"))
        await first.pass_()
        assert bench.names == []
        bench.clock.time += timedelta(days=20)
        await bench.record(finished("one", "cmd_t_001"), ("plan.ended", "one", {"completed": 1}))
        await bench.engine().pass_()
        lasted = [(each.end_time_unix_nano - each.start_time_unix_nano) // 10**9 for each in bench.taken]
        assert lasted == [20 * 86_400, 20 * 86_400]
        board = await bench.deps.stores.board("default")
        assert await board.read(TRACED) == []

    play(tmp_path, use)


def test_an_engine_that_ends_after_it_told_tells_the_same_under_the_same_ids(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        await bench.plan("one", tasks=3)
        bench.kills = True
        with pytest.raises(Killed):
            await engine.pass_()
        bench.kills = False
        before = bench.ids
        await bench.engine().pass_()
        assert len(before) == 4
        assert bench.ids == before * 2
        await bench.engine().pass_()
        assert len(bench.ids) == 8

    play(tmp_path, use)


def test_while_nobody_takes_them_nothing_is_lost_and_nobody_is_pestered(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        bench.answer = SpanExportResult(ok=False, why="it answered 503")
        many = TOGETHER  # facts of several readings
        await bench.plan("one", tasks=many)
        for _ in range(50):
            await engine.pass_()
        assert bench.asked == 1
        for _ in range(20):
            bench.clock.time += timedelta(seconds=30)
            await engine.pass_()
        assert bench.asked < 15  # less and less often
        assert engine.counts.failures == bench.asked
        bench.answer = SpanExportResult(ok=True)
        bench.clock.time += timedelta(hours=1)
        await engine.pass_()
        assert len(bench.ids) == len(set(bench.ids)) == many + 1
        assert engine.counts.failures == 0

    play(tmp_path, use)


def test_a_restart_while_nobody_takes_them_loses_nothing(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        bench.answer = SpanExportResult(ok=False)
        await bench.plan("one", tasks=2)
        await engine.pass_()
        bench.answer = SpanExportResult(ok=True)
        await bench.engine().pass_()
        assert len(bench.names) == 3

    play(tmp_path, use)


def test_what_will_never_be_taken_is_dropped_and_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        bench.answer = SpanExportResult(ok=False, why="it answered 400", final=True)
        await bench.plan("one")
        await engine.pass_()
        bench.answer = SpanExportResult(ok=True, why="1 of them were rejected", rejected=1)
        await bench.plan("two")
        await engine.pass_()
        assert bench.names == ["invoke_agent dev", "invoke_workflow two"]
        assert (engine.counts.sent, engine.counts.dropped) == (1, 3)
        board = await bench.deps.stores.board("default")
        [first, second] = await board.read(FACTS_OF, subject="traces", after=0, limit=9)
        assert json.loads(bytes(first[3])) == {"spans": 2, "why": "it answered 400"}
        assert json.loads(bytes(second[3]))["spans"] == 1

    play(tmp_path, use)


def test_many_spans_are_told_in_parts(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        checks = [{"id": f"c{number}", "passed": True} for number in range(AT_ONCE)]
        await bench.plan("one", checks=checks)
        await engine.pass_()
        assert len(bench.ids) == len(set(bench.ids)) == AT_ONCE + 2
        assert bench.asked == 2

    play(tmp_path, use)


def test_two_engines_on_one_board_end_up_at_the_same_place(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        first, second = bench.engine(), bench.engine()
        await first.begin()
        for each in (first, second):
            await each.pass_()
        for number in range(4):
            await bench.record(("plan.submitted", f"p{number}", {}), started(f"p{number}", "cmd_t_001"))
            await first.pass_()
            await second.pass_()
            await bench.record(finished(f"p{number}", "cmd_t_001"), ("plan.ended", f"p{number}", {}))
            await second.pass_()
            await first.pass_()
        assert len(set(bench.ids)) == 8
        board = await bench.deps.stores.board("default")
        assert await board.read(TRACED) == []

    play(tmp_path, use)


def test_texts_are_told_only_if_they_are_asked_for_and_without_secrets(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        quiet, open_ = bench.engine(), bench.engine(texts=True)
        await quiet.begin()
        bench.deps.secret_guard.register({"SHOP_API_KEY": "canary-0123456789"})
        await bench.plan("one", cause="NOT_FULFILLED", reason="it says hello-world canary-0123456789")
        for each, seen in ((quiet, False), (open_, True)):
            board = await bench.deps.stores.board("default")
            await board.transact(lambda tx: tx.run(SET_CURSOR, name="traces", value=0))
            bench.taken.clear()
            await each.pass_()
            told = repr(bench.taken)
            assert ("hello-world" in told) is seen
            assert "canary" not in told

    play(tmp_path, use)


def test_calls_of_tools_are_told_if_what_the_agent_told_is_unchanged(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        lines = [{"at": "2026-11-16T09:00:00.100000Z", "kind": "tool", "name": name} for name in ("Write", "Bash")]
        data = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
        (tmp_path / "agents" / "told.jsonl").write_bytes(data)
        good = f"sha256:{hashlib.sha256(data).hexdigest()}"
        for name, file, digest in (
            ("one", "agents/told.jsonl", good),
            ("two", "agents/told.jsonl", "sha256:0"),
            ("three", "agents/none.jsonl", good),
        ):
            events = {"file": file, "count": 2, "sha256": digest}
            await bench.plan(name, usage={"duration_s": 1.0, "events": events})
        await engine.pass_()
        assert [each for each in bench.names if each.startswith("execute_tool")] == [
            "execute_tool Write",
            "execute_tool Bash",
        ]

    play(tmp_path, use)


def test_a_board_is_named_once_and_for_good(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        board = await bench.deps.stores.board("default")
        first, second = await asyncio.gather(read_naming(board), read_naming(board))
        assert first == second == await read_naming(board)
        other = await bench.deps.stores.board("_mail")
        assert await read_naming(other) != first

    play(tmp_path, use)


def test_whoever_works_is_told_where_it_stands_in_the_trace(tmp_path: Path) -> None:
    """A program by its environment, and an agent elsewhere by what it claims: the ids that their spans have then."""
    program = {"driver": "script", "argv": ["/bin/sh", "-c", "echo $AGENTTALK_MODE $TRACEPARENT"]}
    told = plan(
        task("here", "dev"), task("there", "far", needs=["here"]), agents={"dev": program, "far": {"driver": "remote"}}
    )

    async def use(engine: Engine) -> None:
        bench = Bench(engine.deps, Clock())
        traces = bench.engine()
        await traces.begin()
        await engine.submit(told)
        assert engine.elsewhere is not None
        claimed = await engine.elsewhere.claim("far", wait=60.0)
        assert claimed is not None
        board = await engine.deps.stores.board("default")
        naming = await read_naming(board)
        assert claimed["traceparent"] == naming.make_traceparent("default", "p", "there", "cmd_there_001", 1)
        await traces.pass_()
        [here] = bench.taken
        [fact] = [
            each
            for each in await board.read(FACTS_OF, subject="deliveries/p", after=0, limit=9)
            if each[2] == "turn.ended"
        ]
        said = json.loads(bytes(fact[3]))["result"].strip()
        assert said == f"execute 00-{here.trace_id.hex()}-{here.span_id.hex()}-01"

    async def run() -> None:
        async with engine(tmp_path, traced=True) as found:
            await use(found)

    asyncio.run(run())


def test_nobody_is_told_of_a_trace_where_there_is_none(tmp_path: Path) -> None:
    program = {"driver": "script", "argv": ["/bin/sh", "-c", "echo place=$TRACEPARENT."]}

    async def run() -> None:
        async with engine(tmp_path) as found:
            await found.submit(plan(task("here", "dev"), agents={"dev": program}))
            await found.ended()
            board = await found.deps.stores.board("default")
            facts = await board.read(FACTS_OF, subject="deliveries/p", after=0, limit=9)
            assert b"place=." in bytes(facts[-1][3])
            assert await board.read(CURSOR_VALUE, name="traces.origin") == []

    asyncio.run(run())


def test_only_a_traceparent_is_written_down(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        board = await bench.deps.stores.board("default")
        for told in ("", "nonsense", OUTSIDE):
            await board.transact(make_parent_recorder("one", told))
        [fact] = await board.read(FACTS_OF, subject="one", after=0, limit=9)
        assert json.loads(bytes(fact[3])) == {"traceparent": OUTSIDE}

    play(tmp_path, use)
