"""Bodies of webhooks that have not come to their end cost little, whoever sends them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agenttalk.doors.api.delivery_bodies import IN_MEMORY, LARGEST, DeliveryQuota
from agenttalk.doors.api.routes.webhooks import WebhookEndpoint
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.toolchain.receiver import DeliveryReceiver, StoredDelivery
from agenttalk.wiring import open_root
from agenttalk.wiring.forge_sources import ConfiguredSource

SECRET = "s3cret"
PIECE = b"x" * (1024 * 1024)


def headers(body: bytes | None, number: int = 1, **more: str) -> list[tuple[str, str]]:
    """Those of a delivery; its signature is that of another body when there is none."""
    signature = hmac.new(SECRET.encode(), body or b"other", hashlib.sha256).hexdigest()
    named = {"X-Gitea-Event-Type": "issues", "X-Gitea-Delivery": f"d-{number}", "X-Gitea-Signature": signature, **more}
    return [(name.replace("_", "-"), value) for name, value in named.items() if value]


def source() -> ConfiguredSource:
    return ConfiguredSource(name="gitea", kind="gitea", api_url="", secret=SECRET)


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


class Gate(asyncio.Event):
    """Holds up those who have sent everything but their end."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[int] = []


async def slow(pieces: int, go: Gate) -> AsyncIterator[bytes]:
    for _ in range(pieces):
        yield PIECE
        await asyncio.sleep(0)
    go.waiting.append(pieces)
    await go.wait()
    yield b""


class Door:
    """The door of forges, asked as a server asks it."""

    def __init__(self, deps: Deps) -> None:
        self.receiver = DeliveryReceiver(deps, {"gitea": source()}, lambda: None)
        service = SimpleNamespace(receiver=self.receiver, redact=lambda said: said)
        self.unfinished = DeliveryQuota(deps.root.path / "data")
        self.door = WebhookEndpoint(cast("Any", service), self.unfinished)

    async def post(self, given: list[tuple[str, str]], body: AsyncIterator[bytes]) -> int:
        """The status of the answer."""
        found: list[int] = []

        async def receive() -> dict[str, Any]:
            try:
                return {"type": "http.request", "body": await anext(body), "more_body": True}
            except StopAsyncIteration:
                return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            found.append(message.get("status", 0))

        sent = [(name.lower().encode(), value.encode()) for name, value in given]
        scope = {"type": "http", "method": "POST", "path": "/api/webhooks/gitea", "headers": sent}
        await self.door(scope, receive, send)
        return found[0]


@pytest.mark.mends("F12")
def test_forty_who_never_come_to_an_end_cost_little_memory_and_are_refused_beyond_the_budget(tmp_path: Path) -> None:
    async def play() -> None:
        async with open_root(tmp_path) as deps:
            door, go = Door(deps), Gate()
            asked = [asyncio.create_task(door.post(headers(None, number), slow(24, go))) for number in range(40)]
            while len(go.waiting) + sum(each.done() for each in asked) < len(asked):  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert go.waiting
            assert door.unfinished.held.total() <= 128 * len(PIECE)
            assert door.unfinished.peak_memory <= 40 * IN_MEMORY
            go.set()
            assert set(await asyncio.gather(*asked)) == {401, 503}
            assert not door.unfinished.held.total()
            assert not door.unfinished.open["gitea"]

    asyncio.run(play())


@pytest.mark.mends("F12")
def test_of_what_cannot_be_genuine_or_is_too_large_nothing_is_read(tmp_path: Path) -> None:
    read: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        read.append(PIECE)
        yield PIECE

    async def play() -> list[int]:
        async with open_root(tmp_path) as deps:
            door = Door(deps)
            unsigned = [each for each in headers(None) if each[0] != "X-Gitea-Signature"]
            strange = [*unsigned, ("X-Gitea-Signature", "no hash")]
            large = [*headers(None), ("Content-Length", str(LARGEST + 1))]
            return [await door.post(given, body()) for given in (unsigned, strange, large)]

    assert asyncio.run(play()) == [401, 401, 413]
    assert read == []


@pytest.mark.mends("F12", "F14")
def test_a_large_body_in_pieces_is_stored_and_known_again_under_any_other_number(tmp_path: Path) -> None:
    text = b'{"action": "opened", "text": "' + PIECE[:300_000] + b'"}'

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(text), 10_000):
            yield text[at : at + 10_000]

    async def play() -> None:
        clock = Clock()
        async with open_root(tmp_path, clock=clock) as deps:
            door = Door(deps)
            receiver = door.receiver
            assert await door.post(headers(text, 1), pieces()) == 202
            first = StoredDelivery("wh-1")
            twin = await receiver.receive("gitea", headers(text, 2), text)
            assert (first.again, twin.again) == (False, False)  # a forge tells times by the second
            clock.time += timedelta(minutes=5)
            again = await receiver.receive("gitea", headers(text, 3, X_Gitea_Event_Type="issue_assign"), text)
            assert (again.id, again.again) == (first.id, True)

    asyncio.run(play())
