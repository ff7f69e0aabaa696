"""Notices: what people elsewhere are told, once under one id, later if they do not answer, and never the past."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.telemetry import notice_sender
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation import after_restore
from agenttalk.engine.operation.notifications import TRIES, NoticeResult, NotificationTarget, Notifier
from agenttalk.ports.statements.core import SEALED_FACTS
from agenttalk.ports.storage import Tx
from agenttalk.rules.core.http_addresses import read_allowed
from agenttalk.rules.operation import notices
from agenttalk.wiring import open_root

ALL = frozenset({"plan.ended", "task.failed", "human.asked", "done.refused", "budget.stopped", "account.limited"})
HOOK = NotificationTarget("hook", "https://example.org/hook", "cloudevents", ALL, "whsec_c2VjcmV0")  # type: ignore[arg-type]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = datetime.fromisoformat("2026-11-16T09:00:00+00:00")

    def now(self) -> datetime:
        return self.time


class Bench:
    """A root in which facts are written, and somebody who is told."""

    def __init__(self, deps: Deps, clock: Clock) -> None:
        self.deps, self.clock = deps, clock
        self.told: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.answers: dict[str, NoticeResult] = {}

    def engine(self, *targets: NotificationTarget) -> Notifier:
        return Notifier(self.deps, targets or (HOOK,), self._post, source="urn:agenttalk:test")

    async def _post(self, target: NotificationTarget, headers: Mapping[str, str], body: bytes) -> NoticeResult:
        self.told.append((target.name, dict(headers), json.loads(body)))
        return self.answers.get(target.name, NoticeResult(ok=True))

    async def happens(self, *plans: str) -> None:
        board = await self.deps.stores.board("default")

        def work(tx: Tx) -> None:
            for plan in plans:
                tx.record("plan.ended", plan, {"completed": 1})

        await board.transact(work)

    def subjects(self, name: str = "hook") -> list[str]:
        return [body["subject"] for target, _, body in self.told if target == name]


def play(root: Path, use: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        (root / "agents").mkdir()
        clock = Clock()
        async with open_root(root, clock=clock) as deps:
            await use(Bench(deps, clock))

    asyncio.run(run())


def test_what_happens_is_told_once_and_signed_and_the_past_is_not(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        await bench.happens("old")
        engine = bench.engine()
        await engine.begin()
        await bench.happens("one", "two")
        for each in (engine, bench.engine()):
            await each.begin()
            await each.pass_()
        assert bench.subjects() == ["one", "two"]
        _, headers, body = bench.told[0]
        assert headers["webhook-id"] == body["id"]
        assert headers["webhook-timestamp"] == str(int(bench.clock.time.timestamp()))
        assert headers["webhook-signature"].startswith("v1,")

    play(tmp_path, use)


def test_a_secret_that_stands_in_a_fact_is_not_told(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        bench.deps.secret_guard.register({"SHOP_API_KEY": "canary-0123456789"})
        board = await bench.deps.stores.board("default")
        reason = {"reason": "the key canary-0123456789 is refused"}
        await board.transact(lambda tx: tx.record("plan.cancelled", "one", reason))
        await engine.pass_()
        [(_, _, body)] = bench.told
        assert "canary" not in json.dumps(body)
        assert "is refused" in body["data"]["text"]

    play(tmp_path, use)


def test_who_asked_for_some_events_gets_no_others(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        quiet = NotificationTarget("quiet", "https://example.org", "slack", frozenset({"task.failed"}))
        engine = bench.engine(HOOK, quiet)
        await engine.begin()
        await bench.happens("one")
        await engine.pass_()
        assert [each[0] for each in bench.told] == ["hook"]

    play(tmp_path, use)


def test_who_does_not_answer_is_told_later_under_the_same_id_and_holds_up_nobody(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        other = NotificationTarget("other", "https://example.com", "cloudevents", HOOK.events)
        engine = bench.engine(HOOK, other)
        await engine.begin()
        bench.answers["hook"] = NoticeResult(ok=False, why="it answered 503")
        await bench.happens("one")
        await engine.pass_()
        assert bench.subjects("other") == ["one"]
        for _ in range(3):
            await engine.pass_()  # too early
        assert len(bench.subjects()) == 1
        bench.answers.clear()
        bench.clock.time += timedelta(seconds=61)
        await engine.pass_()
        ids = [headers["webhook-id"] for name, headers, _ in bench.told if name == "hook"]
        assert len(ids) == 2
        assert len(set(ids)) == 1
        bench.clock.time += timedelta(hours=1)
        await bench.engine(HOOK, other).pass_()
        assert len(bench.told) == 3

    play(tmp_path, use)


def test_who_is_away_is_left_alone_for_a_while(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        bench.answers["hook"] = NoticeResult(ok=False, why="it answered 503")
        await bench.happens(*(f"plan-{number}" for number in range(40)))
        await engine.pass_()
        assert len(bench.told) < 5
        bench.answers.clear()
        for _ in range(10):
            bench.clock.time += timedelta(seconds=90)
            await engine.pass_()
        assert set(bench.subjects()) == {f"plan-{number}" for number in range(40)}

    play(tmp_path, use)


@pytest.mark.parametrize("final", [True, False])
def test_what_cannot_be_told_is_given_up_with_a_fact(tmp_path: Path, final: bool) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        bench.answers["hook"] = NoticeResult(ok=False, why="it is gone", final=final)
        await bench.happens("one")
        for _ in range(TRIES + 3):
            await engine.pass_()
            bench.clock.time += timedelta(minutes=30)
        assert len(bench.told) == (1 if final else TRIES)
        board = await bench.deps.stores.board("default")
        kinds = [row[4] for row in await board.read(SEALED_FACTS, after=0, limit=99)]
        assert kinds.count("notice.given_up") == 1

    play(tmp_path, use)


def test_after_a_restore_nobody_is_told_what_waited(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.begin()
        bench.answers["hook"] = NoticeResult(ok=False, why="it answered 503")
        await bench.happens("one")
        await engine.pass_()
        bench.answers.clear()
        await after_restore.secure_restored_root(bench.deps, made_at="2026-11-16T09:00:00Z")
        bench.clock.time += timedelta(hours=1)
        await bench.happens("two")
        await bench.engine().pass_()
        assert bench.subjects() == ["one", "two"]

    play(tmp_path, use)


class _Hook(BaseHTTPRequestHandler):
    """Takes what it is told; `/gone` is gone, `/moved` leads elsewhere."""

    heard: list[tuple[dict[str, str], bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = {"/gone": 410, "/moved": 307, "/broken": 500}.get(self.path, 204)
        self.heard.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(status)
        self.send_header("Location", "/hook")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listening() -> Iterator[tuple[int, list[tuple[dict[str, str], bytes]]]]:
    heard: list[tuple[dict[str, str], bytes]] = []
    handler = type("Hook", (_Hook,), {"heard": heard})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_address_is_judged_before_anything_is_sent_there() -> None:
    async def use() -> None:
        with listening() as (port, heard):
            headers = notices.make_headers("cloudevents", "evt_1", 1, b"{}", "secret")
            allowed = [read_allowed(f"127.0.0.1:{port}")]

            async def told(path: str, *, allow: bool = True) -> tuple[bool, bool]:
                url = f"http://127.0.0.1:{port}{path}"
                ok, _, final = await notice_sender.send_notice(url, headers, b"{}", allowed=allowed if allow else [])
                return ok, final

            assert await told("/hook", allow=False) == (False, True)
            assert heard == []
            assert await told("/hook") == (True, False)
            assert heard[0][1] == b"{}"
            assert heard[0][0]["webhook-signature"] == notices.sign_notice("secret", "evt_1", 1, b"{}")
            assert await told("/gone") == (False, True)
            assert await told("/broken") == (False, False)
            assert await told("/moved") == (False, False)
            assert len(heard) == 4  # nobody follows

    asyncio.run(use())
