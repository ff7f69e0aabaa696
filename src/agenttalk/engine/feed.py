"""News for those who follow: facts of the ledger, in order, from where somebody has come to.

Nobody is handed anything: whoever follows is woken and reads on from its own position. So one that is slow, or gone,
holds nothing but its position, and costs the others nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from agenttalk.contracts import wire
from agenttalk.engine.deps import Deps
from agenttalk.engine.plans import boards
from agenttalk.errors import Code, JsonError, MachineError
from agenttalk.ports import Row
from agenttalk.rules import news

LOOK: Final = 2.0
"""Seconds after which it is looked for news that nobody told of."""
PACE: Final = 0.1
"""Seconds between two looks, however much is going on."""
PAGE: Final = 200
"""Facts that are read at once."""
FAR: Final = 5_000
"""Who has missed more than this begins anew: looking at everything is quicker then."""
MOST: Final = 100
"""How many can follow at the same time."""


class News(NamedTuple):
    """A fact, as far as those who follow are told."""

    id: str
    """The position behind it."""
    board: str
    seq: int
    at: str
    kind: str
    subject: str
    plan_id: str


class Anew(NamedTuple):
    """Too much was missed: whoever follows has to look at everything and goes on from here."""

    id: str


@contextmanager
def silent() -> Iterator[asyncio.Event]:
    """Nobody tells when something changed."""
    yield asyncio.Event()


@dataclass(slots=True)
class Feed:
    """Tells of news. While nobody follows, it does nothing."""

    deps: Deps
    followed: Callable[[], AbstractContextManager[asyncio.Event]] = silent
    """Gives an event that is set when something changed."""
    _followers: set[asyncio.Event] = field(default_factory=set)
    _looking: asyncio.Task[None] | None = None
    _told: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False

    def nudge(self) -> None:
        """Something was written."""
        self._told.set()

    def close(self) -> None:
        """The engine ends: so do all who follow."""
        self.closed = True
        for each in self._followers:
            each.set()

    async def position(self) -> dict[str, int]:
        """How far everything has come."""
        return {board.name: (await board.read("newest_fact"))[0][0] for board in await boards(self.deps)}

    async def follow(
        self, position: dict[str, int] | None, plan_id: str = "", *, wait: bool = True
    ) -> AsyncGenerator[list[News | Anew]]:
        """Lists of news from a position on (None: from now on), as they come; an empty one says that nothing did.

        Without `wait` it ends when there is nothing more. Raises MachineError when too many follow already.
        """
        if len(self._followers) >= MOST:
            raise MachineError(Code.ENGINE_UNREACHABLE, f"{MOST} follow already", hint="close a page or two")
        with self._joined() as woken:
            here = await self.position()
            known = {board: (position or {}).get(board, 0 if position else seq) for board, seq in here.items()}
            if any(here[board] - seq > FAR for board, seq in known.items()):
                known = here
                yield [Anew(news.written(known))]
            else:
                yield []
            while not self.closed:
                woken.clear()
                found, more = await self._page(known, plan_id)
                if found or not wait:
                    yield found
                if not more and not wait:
                    return
                if not more:
                    try:
                        async with asyncio.timeout(10 * LOOK):
                            await woken.wait()
                    except TimeoutError:
                        yield []

    async def _page(self, known: dict[str, int], plan_id: str) -> tuple[list[News | Anew], bool]:
        """The next news, by which `known` moves on; whether there are more."""
        found: list[News | Anew] = []
        more = False
        for board in await boards(self.deps):
            rows = await board.read("facts_after", after=known.setdefault(board.name, 0), limit=PAGE)
            more = more or len(rows) == PAGE
            for row in rows:
                known[board.name] = row[0]
                about = news.plan_of(row[3], _told_plan(row))
                if plan_id in {"", about}:
                    found.append(News(news.written(known), board.name, row[0], row[1], row[2], row[3], about))
        return found, more

    @contextmanager
    def _joined(self) -> Iterator[asyncio.Event]:
        woken = asyncio.Event()
        self._followers.add(woken)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="feed")
        try:
            yield woken
        finally:
            self._followers.discard(woken)
            if not self._followers and self._looking is not None:
                self._looking.cancel()

    async def _look(self) -> None:
        """Wake those who follow when something was written; the slow look finds what nobody told of."""
        seen: dict[str, int] = {}
        with self.followed() as changed:
            while True:
                await _either(changed, self._told, LOOK)
                changed.clear()
                self._told.clear()
                with suppress(MachineError):
                    here = await self.position()
                    if here != seen:
                        seen = here
                        for each in self._followers:
                            each.set()
                await asyncio.sleep(PACE)


async def _either(one: asyncio.Event, other: asyncio.Event, seconds: float) -> None:
    waits = [asyncio.ensure_future(each.wait()) for each in (one, other)]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


def _told_plan(row: Row) -> Any:
    if row[4] is None or "/" in row[3]:
        return None
    try:
        told: Any = wire.read(bytes(row[4]))
    except JsonError:
        return None
    return told.get("plan_id") if isinstance(told, dict) else None
