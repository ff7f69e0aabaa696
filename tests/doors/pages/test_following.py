"""News as they come: from where somebody has come to, for one plan, and whoever is slow costs the others nothing."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import MachineError
from agenttalk.doors.api.routes import events
from agenttalk.engine.core import access
from agenttalk.engine.core.boards import DEFAULT
from agenttalk.engine.views import feed
from agenttalk.engine.views.feed import FeedReset, News
from agenttalk.rules.operation import feed as feed_rules
from doors.pages.pagekit import Guest, visit
from kits.plankit import PATIENCE, plan, task


async def some(ada: Guest, position: dict[str, int] | None = None, plan_id: str = "") -> list[News]:
    """What there is from a position on."""
    found: list[News] = []
    async for each in ada.service.feed.follow(position, plan_id, wait=False):
        found += [one for one in each if isinstance(one, News)]
    return found


def told(data: str) -> list[dict[str, Any]]:
    """The events of a stream."""
    found = []
    for block in data.split("\n\n"):
        fields = dict(re.findall(r"^(id|event|data): (.*)$", block, re.MULTILINE))
        if "data" in fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def test_who_comes_back_gets_what_it_missed_and_nothing_twice(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one"), task("two", needs=["one"])))
        await ada.engine.ended()
        everything = await some(ada, {DEFAULT: 0})
        assert [each.seq for each in everything] == list(range(1, len(everything) + 1))
        assert {each.plan_id for each in everything} == {"p"}
        middle = everything[len(everything) // 2]
        answer = await ada.get("/api/events?wait=0", **{"Last-Event-ID": middle.id})
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = told(answer.text)
        assert [each["data"]["seq"] for each in found] == [each.seq for each in everything if each.seq > middle.seq]
        assert [each["id"] for each in found] == [each.id for each in everything if each.seq > middle.seq]
        assert set(found[0]["data"]) == {"board", "seq", "at", "kind", "subject", "plan_id", "tasks"}, "no bodies"
        by_query = await ada.get(f"/api/events?wait=0&after={middle.id}")
        assert told(by_query.text) == found
        assert told((await ada.get("/api/events?wait=0")).text) == [], "without a position it begins now"
        unreadable = await ada.get("/api/events?wait=0", **{"Last-Event-ID": "some time ago"})
        assert {each["data"]["seq"] for each in told(unreadable.text) if each["data"]["board"] == DEFAULT} == {
            each.seq for each in everything
        }, "who says something that nobody can read has missed everything"

    visit(tmp_path, use)


def test_news_of_one_plan(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one")))
        await ada.engine.submit(plan(task("asks", "h"), plan_id="q", agents={"h": {"driver": "human"}}))
        await ada.engine.asked()
        await ada.engine.ended()
        own = await some(ada, {DEFAULT: 0}, "q")
        assert "human.asked" in {each.kind for each in own}
        assert {each.plan_id for each in own} == {"q"}
        assert (await ada.get("/api/events?plan=../x&wait=0")).status_code == 422

    visit(tmp_path, use)


def test_who_missed_too_much_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "FAR", 2)

    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one")))
        await ada.engine.ended()
        found = told((await ada.get("/api/events?wait=0&after=default:0")).text)
        assert [each["event"] for each in found] == ["anew"]
        assert feed_rules.decode_cursor(found[0]["id"]) == await ada.service.feed.read_position()

    visit(tmp_path, use)


def test_whoever_follows_is_woken_and_one_that_takes_nothing_costs_the_others_nothing(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        slow = ada.service.feed.follow({DEFAULT: 0})
        await anext(slow)  # and from now on takes nothing
        followed = [ada.service.feed.follow({DEFAULT: 0}) for _ in range(3)]
        seen: list[list[News | FeedReset]] = [[], [], []]

        async def follow(number: int) -> None:
            async for each in followed[number]:
                seen[number] += each
                if any(isinstance(one, News) and one.kind == "plan.ended" for one in each):
                    return

        following = [asyncio.create_task(follow(number)) for number in range(3)]
        await ada.engine.submit(plan(*(task(f"t{number}") for number in range(20))))
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*following)
        assert seen[0] == seen[1] == seen[2]
        assert len(seen[0]) > 20
        missed: list[News | FeedReset] = []
        async with asyncio.timeout(PATIENCE):
            while len(missed) < len(seen[0]):
                missed += await anext(slow)
        assert missed == seen[0], "it still gets everything when it takes it"
        for each in (slow, *followed):
            await each.aclose()

    visit(tmp_path, use)


def test_too_many_are_refused_and_nobody_looks_when_nobody_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST", 2)

    async def use(ada: Guest) -> None:
        found = [ada.service.feed.follow(None) for _ in range(3)]
        await anext(found[0])
        await anext(found[1])
        with pytest.raises(MachineError):
            await anext(found[2])
        assert (await ada.get("/api/events?wait=0")).status_code == 503
        for each in found:
            await each.aclose()
        looking = ada.service.feed._looking
        assert looking is not None
        await asyncio.wait([looking], timeout=PATIENCE)
        assert looking.cancelled()
        assert (await ada.get("/api/events?wait=0")).status_code == 200

    visit(tmp_path, use)


def test_a_stream_ends_when_the_engine_does_and_when_its_client_is_gone(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        scope = {"type": "http"}
        sent: list[Any] = []
        gone, began = asyncio.Event(), asyncio.Event()

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            began.set()

        async def stream() -> None:
            found = ada.service.feed.follow(None)
            await events._EventStream(events._stream_events(await anext(found), found))(scope, receive, send)

        streaming = asyncio.create_task(stream())
        await began.wait()
        gone.set()
        async with asyncio.timeout(PATIENCE):
            await streaming
        assert ada.service.feed._followers == set()
        gone.clear()
        began.clear()
        sent.clear()
        streaming = asyncio.create_task(stream())
        await began.wait()
        ada.service.feed.close()
        async with asyncio.timeout(PATIENCE):
            await streaming
        assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}

    visit(tmp_path, use)


def test_a_client_that_takes_nothing_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PATIENCE", 0.05)

    async def use(ada: Guest) -> None:
        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        found = ada.service.feed.follow(None)
        async with asyncio.timeout(PATIENCE):
            await events._EventStream(events._stream_events(await anext(found), found))({"type": "http"}, receive, send)
        assert ada.service.feed._followers == set()

    visit(tmp_path, use)


def test_a_session_follows_and_nobody_else_does(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await access.admit(ada.engine.deps, "op_one", "operator", "operator")
        assert (await ada.get("/api/events?wait=0")).status_code == 401
        assert (await ada.get("/api/events?wait=0", Authorization="Bearer op_one")).status_code == 200
        await ada.enter("viewer")
        assert (await ada.get("/api/events?wait=0")).status_code == 200
        assert (await ada.get("/api/status")).status_code == 401, "a session opens nothing else of the API"
        assert (await ada.get("/api/events?wait=0", Authorization="Bearer nothing")).status_code == 401

    visit(tmp_path, use, entered=False)
