"""Large plans and many who look: what one change costs does not grow with either."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.adapters.store.database import BoardStore
from agenttalk.doors.api.routes import events
from agenttalk.doors.pages import graph, views
from agenttalk.engine.core.boards import DEFAULT
from agenttalk.engine.views import feed
from agenttalk.engine.views.feed import News
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.statements.views import FACTS_AFTER
from agenttalk.ports.storage import R, Tx
from agenttalk.rules.operation.feed import encode_cursor
from agenttalk.rules.planfile.compiler import CompiledPlan
from doors.pages.browserkit import PATIENCE as PATIENCE_MS
from doors.pages.browserkit import Eyes, eyes, served
from doors.pages.pagekit import HOSTILE, Guest, visit
from kits.plankit import PATIENCE, plan, task

__all__ = ["eyes"]
MANY = 5_000
OF_PLANS = {
    "run_counts",
    "task_status",
    "unproven_in",
    "task_statuses",
    "plan_edges",
    "orders_of_plan",
    "nodes_of",
}
"""Statements by which pages look at plans and tasks."""


def waiting(number: int, plan_id: str = "p", *more: dict[str, Any]) -> CompiledPlan:
    """A plan of so many tasks that wait for a person, and some that do not."""
    tasks = [task(f"t{each}", needs=["asks"]) for each in range(number)]
    return plan(task("asks", "h"), *tasks, *more, plan_id=plan_id, agents={"h": {"driver": "human"}})


def proven(name: str, agent: str, **keys: Any) -> dict[str, Any]:
    """A task that is done when a file of it says so."""
    check = {"id": "says", "kind": "file", "path": f"{name}.txt", "contains": "yes"}
    criterion = {"id": "yes", "description": "It says yes", "evidenceRequired": ["says"]}
    promise = {"objective": "It says yes", "acceptance": [criterion], "checks": [check]}
    return task(name, agent, outputs=[{"name": f"{name}.txt", "deliverable": True}], promise=promise, **keys)


async def write(ada: Guest, number: int, first: int = 0) -> None:
    """Facts of a plan, a hundred in a commit."""
    store = await ada.engine.deps.stores.board(DEFAULT)

    def work(tx: Tx, start: int) -> None:
        for each in range(start, min(start + 100, number)):
            tx.record("test.noted", "p", {"number": first + each})

    for start in range(0, number, 100):
        await store.transact(lambda tx, start=start: work(tx, start))  # type: ignore[misc]
        ada.service.feed.nudge()


class Client:
    """Somebody who follows by HTTP, and takes what it is sent, or stops doing so after some bytes."""

    def __init__(self, ada: Guest, *, takes: float = float("inf")) -> None:
        self.ada, self.left = ada, takes
        self.bytes = b""
        self.began, self.got = asyncio.Event(), asyncio.Event()

    async def follow(self) -> None:
        found = self.ada.service.feed.follow(None)
        stream = events._EventStream(events._stream_events(await anext(found), found))
        await stream({"type": "http"}, self._receive, self._send)

    async def _receive(self) -> Any:
        await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        self.bytes += message.get("body", b"")
        self.left -= len(message.get("body", b""))
        self.began.set()
        self.got.set()
        if self.left < 0:
            await asyncio.Event().wait()

    @property
    def numbers(self) -> list[int]:
        return [int(each) for each in re.findall(rb'"seq":(\d+)', self.bytes)]


def test_who_is_slow_is_let_go_and_the_others_get_everything_in_order_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PATIENCE", 0.2)
    read: list[int] = []
    original = BoardStore.read

    async def counted(self: BoardStore, query: Statement[R], /, **params: Any) -> list[R]:
        rows = await original(self, query, **params)
        if query is FACTS_AFTER:
            read.append(len(rows))
        return rows

    monkeypatch.setattr(BoardStore, "read", counted)

    async def use(ada: Guest) -> None:
        good, slow = [Client(ada) for _ in range(10)], [Client(ada, takes=1_000) for _ in range(10)]
        following = [asyncio.create_task(each.follow()) for each in (*good, *slow)]
        await asyncio.gather(*(each.began.wait() for each in (*good, *slow)))
        await write(ada, MANY)
        async with asyncio.timeout(PATIENCE):
            for each in good:
                while len(each.numbers) < MANY:
                    each.got.clear()
                    await each.got.wait()
            await asyncio.gather(*following[10:])
        assert [each.numbers for each in good] == [sorted(good[0].numbers)] * 10
        assert len(set(good[0].numbers)) == MANY
        assert len(ada.service.feed._followers) == 10, "the slow ones hold nothing any more"
        kept = ada.service.feed._recent
        assert kept is not None
        assert len(kept._news) <= feed.RECENT_LIMIT
        assert events._encode_event.cache_info().currsize <= feed.RECENT_LIMIT
        # Ten who keep up read as much as one does, but for what somebody who fell behind reads by itself.
        assert sum(read) < 4 * MANY
        for one in following:
            one.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    visit(tmp_path, use)


def test_who_fell_behind_reads_by_itself_and_misses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "RECENT_LIMIT", 50)

    async def use(ada: Guest) -> None:
        behind, close = ada.service.feed.follow(None), ada.service.feed.follow(None)
        await anext(behind)
        await anext(close)
        seen: dict[str, list[News]] = {"behind": [], "close": []}
        for first in range(0, 400, 20):
            await write(ada, 20, first)
            while len(seen["close"]) < first + 20:
                seen["close"] += [each for each in await anext(close) if isinstance(each, News)]
        async with asyncio.timeout(PATIENCE):
            while len(seen["behind"]) < 400:
                seen["behind"] += [each for each in await anext(behind) if isinstance(each, News)]
        assert seen["behind"] == seen["close"], "in the same order, with the same positions"
        last = seen["behind"][-1]
        again = ada.service.feed.follow({DEFAULT: last.seq - 1})
        assert [await anext(again), await anext(again)] == [[], [last]]
        for each in (behind, close, again):
            await each.aclose()

    visit(tmp_path, use)


def test_news_are_those_behind_a_position_on_each_board() -> None:
    kept = feed.RecentNews({"a": 0, "b": 0})
    assert kept.after({"a": 0, "b": 0}) == []
    facts = [
        News(encode_cursor({"a": one, "b": other}), board, seq, "", "x", "p", "p")
        for board, seq, one, other in (("a", 1, 1, 0), ("a", 2, 2, 0), ("b", 1, 2, 1), ("b", 2, 2, 2))
    ]
    kept.add(facts, {"a": 2, "b": 2})
    for known, expected in (
        ({"a": 0, "b": 0}, facts),
        ({"a": 2, "b": 0}, facts[2:]),
        ({"a": 1, "b": 2}, [facts[1]]),  # a position that is not behind any of them
        ({"a": 0}, facts),
        ({"a": 2, "b": 2}, []),
    ):
        assert kept.after(known) == expected
        assert known == {"a": 2, "b": 2}


def test_who_comes_when_the_last_one_leaves_is_told(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        first = ada.service.feed.follow(None)
        await anext(first)
        await first.aclose()
        second = ada.service.feed.follow(None)
        await anext(second)
        await write(ada, 1)
        async with asyncio.timeout(PATIENCE):
            found: list[Any] = []
            while not found:
                found = await anext(second)
        assert [each.kind for each in found] == ["test.noted"]
        await second.aclose()

    visit(tmp_path, use)


def test_what_one_change_costs_does_not_grow_with_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    original = BoardStore.read

    async def counted(self: BoardStore, query: Statement[R], /, **params: Any) -> list[R]:
        rows = await original(self, query, **params)
        if query.name in OF_PLANS:  # the dispatcher asks for other things, whenever it likes
            asked.append((query.name, len(rows)))
        return rows

    async def use(ada: Guest) -> None:
        for name, size in (("small", 30), ("large", 900)):
            await ada.engine.submit(waiting(size, name))
        monkeypatch.setattr(BoardStore, "read", counted)
        costs = {}
        for name in ("small", "large"):
            asked.clear()
            shown = await ada.page(f"/plans/{name}/parts?task=t1&task=t2&task=none&task={HOSTILE[:30]}")
            assert re.findall(r'id="([nr]-[^"]+)"', shown) == ["n-t1", "n-t2", "r-t1", "r-t2"]
            assert "<script" not in shown
            costs[name] = sorted(asked), len(shown.replace(name, ""))
        assert costs["small"][0] == costs["large"][0]
        assert {each for each, _ in costs["large"][0]} == {"run_counts", "task_status", "unproven_in"}
        assert abs(costs["small"][1] - costs["large"][1]) < 20, "but for the digits of the numbers"
        many = "&".join(f"task=t{each}" for each in range(500))
        shown = await ada.page(f"/plans/large/parts?{many}")
        assert shown.count('id="n-') == views.MOST_PARTS
        assert (await ada.get("/plans/none/parts?task=t1")).status_code == 404
        assert (await (await ada.again()).get("/plans/large/parts?task=t1")).status_code == 401

    visit(tmp_path, use)


def test_what_is_said_of_a_task_is_made_once_for_all_who_look(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(waiting(300))
        await ada.page("/plans/p")
        made, drawn = graph._node.cache_info().misses, graph.draw_plan.cache_info().misses
        for _ in range(3):
            shown = await ada.page("/plans/p")
        assert shown.count('id="n-') == 301
        assert shown.count('id="r-') == views.LISTED
        assert shown.count('id="r-') + (await ada.page("/plans/p?page=2")).count('id="r-') == 301
        assert graph._node.cache_info().misses <= made + 1, "the first task may have begun meanwhile"
        assert graph.draw_plan.cache_info().misses == drawn

    visit(tmp_path, use)


def test_a_plan_too_large_to_be_drawn_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "MOST", 20)

    async def use(ada: Guest) -> None:
        await ada.engine.submit(waiting(30))
        shown = await ada.page("/plans/p")
        assert "A plan of 31 tasks is too large to be drawn." in shown
        assert 'id="graph"' not in shown
        assert shown.count('id="r-') == 31

    visit(tmp_path, use)


@pytest.mark.rest
def test_a_large_plan_is_followed_task_by_task(tmp_path: Path, eyes: Eyes) -> None:
    go = threading.Event()

    async def waits(turn: Turn) -> str:
        await asyncio.to_thread(go.wait, 60)
        turn.outputs[f"{turn.task_id}.txt"] = "yes"
        return "ok"

    eyes.complaints.clear()
    told = waiting(graph.LARGE, "p", proven("one", "waiter"), proven("two", "b", needs=["one"]))
    with served(tmp_path / "root", told, agents={"waiter": waits, "b": waits}) as engine:
        page = eyes.look(engine.link())
        page.goto(f"{engine.http}/plans/p")
        page.wait_for_selector(".live.on")
        page.wait_for_selector('#graph a[aria-label^="one: working"]')
        page.wait_for_selector('[data-count="waiting"] >> text=waiting')
        page.evaluate("for (const each of document.querySelectorAll('#graph [id]')) each.kept = true")
        page.evaluate("document.getElementById('graph').kept = true")
        asked: list[str] = []
        page.on("requestfinished", lambda each: asked.append(each.url.removeprefix(engine.http)))
        page.focus("#n-one")
        go.set()
        page.wait_for_selector('#graph a[aria-label^="one: done"]')
        page.wait_for_selector('#graph a[aria-label^="two: done"]')
        page.wait_for_selector("#e-one.met")
        page.wait_for_selector("#legend [data-count=done] .n >> text=2")
        page.wait_for_selector("#r-one >> text=done")
        assert page.evaluate("document.activeElement.id") == "n-one"
        assert any(each.startswith("/plans/p/parts?task=") for each in asked)
        for _ in range(PATIENCE_MS // 50):
            if "/plans/p" in asked:
                break  # when it is quiet, the rest of it is looked at once
            page.wait_for_timeout(50)
        assert "/plans/p" in asked
        assert page.evaluate("document.getElementById('graph').kept")
        kept = page.evaluate(
            "[...document.querySelectorAll('#graph [id]')].filter((each) => !each.kept).map((each) => each.id)"
        )
        assert set(kept) <= {"n-one", "n-two", "e-one", "n-asks"}, "nothing else was put anew"
        page.wait_for_selector('#graph a[aria-label^="asks: waiting"]')
        assert eyes.complaints == []
        page.context.close()
