"""Spans: told once under one id, also when an engine ends in between, later if nobody takes them, and never the past."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agenttalk.engine.deps import Deps
from agenttalk.engine.tracing import AT_ONCE, TOGETHER, Sent, Tracing, naming_of, within
from agenttalk.ports import Tx
from agenttalk.wiring import opened

OUTSIDE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = datetime.fromisoformat("2026-11-16T09:00:00+00:00")

    def now(self) -> datetime:
        return self.time


class Killed(BaseException):
    """The engine ends here."""


class Bench:
    """A root in which facts are written, and a collector."""

    def __init__(self, deps: Deps, clock: Clock) -> None:
        self.deps, self.clock = deps, clock
        self.taken: list[Any] = []
        self.answer = Sent(ok=True)
        self.asked = 0
        self.kills = False

    def engine(self, *, texts: bool = False) -> Tracing:
        return Tracing(self.deps, self._send, resource=(("service.name", "test"),), version="1", texts=texts)

    async def _send(self, body: bytes) -> Sent:
        self.asked += 1
        if self.answer.ok:
            [one] = ExportTraceServiceRequest.FromString(body).resource_spans
            self.taken += one.scope_spans[0].spans
        if self.kills:
            raise Killed
        return self.answer

    async def record(self, *facts: tuple[str, str, dict[str, Any]]) -> None:
        board = await self.deps.stores.board("default")

        def work(tx: Tx) -> None:
            for kind, subject, body in facts:
                tx.record(kind, subject, body)

        await board.transact(work)

    async def plan(self, name: str, tasks: int = 1, **ended: Any) -> None:
        facts: list[tuple[str, str, dict[str, Any]]] = [("plan.submitted", name, {"tasks": tasks})]
        for number in range(tasks):
            facts += [started(name, f"cmd_t{number}_001"), finished(name, f"cmd_t{number}_001", **ended)]
        await self.record(*facts, ("plan.ended", name, {"completed": tasks}))

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.taken]

    @property
    def ids(self) -> list[str]:
        return [each.span_id.hex() for each in self.taken]


def started(plan: str, command: str) -> tuple[str, str, dict[str, Any]]:
    named = {"plan_id": plan, "task_id": "t", "to_agent_id": "dev", "command_id": command}
    message = f"msg_{plan}_{command}"
    return (
        "turn.started",
        f"deliveries/{plan}",
        {"message_id": message, "attempt": 1, "lines": [{**named, "message_id": message}]},
    )


def finished(plan: str, command: str, **more: Any) -> tuple[str, str, dict[str, Any]]:
    body = {
        "message_id": f"msg_{plan}_{command}",
        "command_id": command,
        "attempt": 1,
        "how": "finished",
        "cause": "FULFILLED",
        "usage": {"duration_s": 0.1},
        "ack": {"consumer_agent_id": "dev"},
        **more,
    }
    return "turn.ended", f"deliveries/{plan}", body


def play(root: Path, use: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        (root / "agents").mkdir()
        clock = Clock()
        async with opened(root, clock=clock, traced=True) as deps:
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
        assert await board.read("traced") == []

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
        bench.answer = Sent(ok=False, why="it answered 503")
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
        bench.answer = Sent(ok=True)
        bench.clock.time += timedelta(hours=1)
        await engine.pass_()
        assert len(bench.ids) == len(set(bench.ids)) == many + 1
        assert engine.counts.failures == 0

    play(tmp_path, use)


def test_a_restart_while_nobody_takes_them_loses_nothing(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        bench.answer = Sent(ok=False)
        await bench.plan("one", tasks=2)
        await engine.pass_()
        bench.answer = Sent(ok=True)
        await bench.engine().pass_()
        assert len(bench.names) == 3

    play(tmp_path, use)


def test_what_will_never_be_taken_is_dropped_and_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        bench.answer = Sent(ok=False, why="it answered 400", final=True)
        await bench.plan("one")
        await engine.pass_()
        bench.answer = Sent(ok=True, why="1 of them were rejected", rejected=1)
        await bench.plan("two")
        await engine.pass_()
        assert bench.names == ["invoke_agent dev", "invoke_workflow two"]
        assert (engine.counts.sent, engine.counts.dropped) == (1, 3)
        board = await bench.deps.stores.board("default")
        [first, second] = await board.read("facts_of", subject="traces", after=0, limit=9)
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
        assert await board.read("traced") == []

    play(tmp_path, use)


def test_texts_are_told_only_if_they_are_asked_for_and_without_secrets(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        quiet, open_ = bench.engine(), bench.engine(texts=True)
        await quiet.begin()
        bench.deps.discretion.learn({"SHOP_API_KEY": "canary-0123456789"})
        await bench.plan("one", cause="NOT_FULFILLED", reason="it says hello-world canary-0123456789")
        for engine, seen in ((quiet, False), (open_, True)):
            board = await bench.deps.stores.board("default")
            await board.transact(lambda tx: tx.run("set_cursor", name="traces", value=0))
            bench.taken.clear()
            await engine.pass_()
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
        first, second = await asyncio.gather(naming_of(board), naming_of(board))
        assert first == second == await naming_of(board)
        other = await bench.deps.stores.board("_mail")
        assert await naming_of(other) != first

    play(tmp_path, use)


def test_only_a_traceparent_is_written_down(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        board = await bench.deps.stores.board("default")
        for told in ("", "nonsense", OUTSIDE):
            await board.transact(within("one", told))
        [fact] = await board.read("facts_of", subject="one", after=0, limit=9)
        assert json.loads(bytes(fact[3])) == {"traceparent": OUTSIDE}

    play(tmp_path, use)
