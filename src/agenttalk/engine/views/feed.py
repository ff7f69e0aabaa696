"""Streams the facts of the ledger to followers, in order, each from its own position.

A follower is woken and reads what lies behind its position. A slow or vanished follower holds only its position and
costs the others nothing. The newest facts are read once for all; a follower that fell behind them reads by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, JsonError, MachineError
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.statements.core import NEWEST_FACT
from agenttalk.ports.statements.views import FACTS_AFTER, FactAfterRow
from agenttalk.rules.operation import feed

LOOK: Final = 2.0
"""Seconds after which the ledger is read even if no event announced a change."""
PACE: Final = 0.1
"""Seconds between two reads, however much is written."""
PAGE: Final = 200
"""How many facts are read at once."""
FAR: Final = 5_000
"""A follower that missed more facts than this starts again: reading every page is quicker then."""
MOST: Final = 100
"""How many can follow at the same time."""


@contextmanager
def silent_changes() -> Iterator[asyncio.Event]:
    """Yield an event that is never set."""
    yield asyncio.Event()


@dataclass(slots=True)
class Feed:
    """Streams new facts. Without followers it does nothing."""

    deps: Deps
    followed: Callable[[], AbstractContextManager[asyncio.Event]] = silent_changes
    """Yields an event that is set after a change."""
    _followers: set[asyncio.Event] = field(default_factory=set)
    _looking: asyncio.Task[None] | None = None
    _recent: RecentNews | None = None
    """The newest facts, read once for all followers."""
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _told: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False

    def nudge(self) -> None:
        """Announce that something was written."""
        self._told.set()

    def close(self) -> None:
        """End every follower, because the engine ends."""
        self.closed = True
        for each in self._followers:
            each.set()

    async def read_position(self) -> dict[str, int]:
        """Return the newest fact of each board."""
        return {board.name: (await board.read(NEWEST_FACT))[0].newest for board in await list_boards(self.deps)}

    async def follow(
        self, position: dict[str, int] | None, plan_id: str = "", *, wait: bool = True
    ) -> AsyncGenerator[list[News | FeedReset]]:
        """Yield lists of news from a position on (None: from now on); an empty list says that nothing happened.

        Without `wait` it ends when there is no more news. Raises MachineError when there are too many followers.
        """
        if len(self._followers) >= MOST:
            raise MachineError(
                Code.ENGINE_UNREACHABLE,
                f"{MOST} followers are connected, which is the limit",
                hint="close a page that follows the engine",
            )
        with self._joined() as woken:
            recent = await self._caught_up()
            here = dict(recent.here)
            came = here if position is None else position
            known = {board: min(came.get(board, 0), seq) for board, seq in here.items()}
            if any(here[board] - seq > FAR for board, seq in known.items()):
                known = here
                yield [FeedReset(feed.encode_cursor(known))]
            else:
                yield []
            while not self.closed:
                woken.clear()
                found = recent.after(known) if wait else None
                more = found is None
                if found is None:
                    found, more = await self._page(known, recent.here if wait else None)
                own = [each for each in found if plan_id in {"", each.plan_id}]
                for start in range(0, len(own), PAGE):
                    yield [*own[start : start + PAGE]]
                if not more and not wait:
                    return
                if not more:
                    try:
                        async with asyncio.timeout(10 * LOOK):
                            await woken.wait()
                    except TimeoutError:
                        yield []

    async def _page(self, known: dict[str, int], upto: dict[str, int] | None) -> tuple[list[News], bool]:
        """Return the next news up to a position, and whether there is more; `known` moves on."""
        found: list[News] = []
        more = False
        for board in await list_boards(self.deps):
            after, last = known.setdefault(board.name, 0), upto.get(board.name, 0) if upto is not None else None
            if last is not None and after >= last:
                continue
            rows = await board.read(FACTS_AFTER, after=after, limit=PAGE)
            rows = [row for row in rows if last is None or row.seq <= last]
            more = more or len(rows) == PAGE or last is not None
            for row in rows:
                known[board.name] = row.seq
                found.append(news_of(row, board.name, known))
            if last is not None and len(rows) < PAGE:
                known[board.name] = last
        return found, more

    @contextmanager
    def _joined(self) -> Iterator[asyncio.Event]:
        woken = asyncio.Event()
        self._followers.add(woken)
        if self._looking is None or self._looking.done() or self._looking.cancelling():
            self._looking = asyncio.create_task(self._poll(), name="feed")
        try:
            yield woken
        finally:
            self._followers.discard(woken)
            if not self._followers and self._looking is not None:
                self._looking.cancel()
                self._recent = None

    async def _poll(self) -> None:
        """Read new facts and wake followers; the slow poll finds facts that no event announced."""
        with self.followed() as changed:
            while True:
                await _either(changed, self._told, LOOK)
                changed.clear()
                self._told.clear()
                with suppress(MachineError):
                    await self._caught_up()
                await asyncio.sleep(PACE)

    async def _caught_up(self) -> RecentNews:
        """Read new facts once for all followers, and wake them if there are any."""
        async with self._reading:
            if self._recent is None:
                self._recent = RecentNews(await self.read_position())
            recent, more = self._recent, True
            while more:
                here = dict(recent.here)
                found, more = await self._page(here, None)
                recent.add(found, here)
                for each in self._followers if found else ():
                    each.set()
            return recent


async def _either(one: asyncio.Event, other: asyncio.Event, seconds: float) -> None:
    waits = [asyncio.ensure_future(each.wait()) for each in (one, other)]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


RECENT_LIMIT: Final = 1_000
"""How many facts are kept for followers that are up to date."""


class News(NamedTuple):
    """A fact as followers get it."""

    id: str
    """The position behind it."""
    board: str
    seq: int
    at: str
    kind: str
    subject: str
    plan_id: str
    tasks: tuple[str, ...] = ()
    """The tasks of the plan that it changed, if it changed nothing else."""


class FeedReset(NamedTuple):
    """Tells a follower that it missed too much: it has to read every page again, and goes on from here."""

    id: str


def news_of(row: FactAfterRow, board: str, position: Mapping[str, int]) -> News:
    """Make the news of a fact; `position` is the one behind it."""
    body = _read(row.body) if row.body is not None else None
    named = body.get("plan_id") if body is not None and "/" not in row.subject else None
    about = feed.plan_of(row.subject, named)
    return News(
        feed.encode_cursor(position),
        board,
        row.seq,
        row.at,
        row.kind,
        row.subject,
        about,
        feed.tasks_of(row.kind, row.subject, body),
    )


def _read(data: bytes) -> JsonObject | None:
    try:
        body: Any = wire.read(bytes(data))
    except JsonError:
        return None
    return body if isinstance(body, dict) else None


class RecentNews:
    """The newest news, in order."""

    def __init__(self, here: Mapping[str, int]) -> None:
        self.here = dict(here)
        """The position behind the newest news."""
        self._floor = dict(here)
        """The position before the oldest news."""
        self._news: deque[News] = deque()

    def add(self, found: Sequence[News], here: Mapping[str, int]) -> None:
        """Add news that was read behind `self.here`, and the position behind it."""
        self.here = dict(here)
        for board in here:
            self._floor.setdefault(board, 0)
        self._news.extend(found)
        while len(self._news) > RECENT_LIMIT:
            oldest = self._news.popleft()
            self._floor[oldest.board] = oldest.seq

    def after(self, known: dict[str, int]) -> list[News] | None:
        """Return the news behind a position, which moves on; None when the position lies before the oldest news."""
        if any(known.get(board, 0) < seq for board, seq in self._floor.items()):
            return None
        last = feed.encode_cursor(known)
        found: list[News] = []
        for each in reversed(self._news):
            if each.id == last:
                break
            if each.seq > known.get(each.board, 0):
                found.append(each)
        known.update(self.here)
        return found[::-1]
