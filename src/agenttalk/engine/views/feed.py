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
from agenttalk.contracts.errors import Code, JsonError, MachineError
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.statements.core import NEWEST_FACT
from agenttalk.ports.statements.views import FACTS_AFTER, FactAfterRow
from agenttalk.rules.operation import feed

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


@contextmanager
def silent_changes() -> Iterator[asyncio.Event]:
    """Nobody tells when something changed."""
    yield asyncio.Event()


@dataclass(slots=True)
class Feed:
    """Tells of news. While nobody follows, it does nothing."""

    deps: Deps
    followed: Callable[[], AbstractContextManager[asyncio.Event]] = silent_changes
    """Gives an event that is set when something changed."""
    _followers: set[asyncio.Event] = field(default_factory=set)
    _looking: asyncio.Task[None] | None = None
    _recent: RecentNews | None = None
    """What was read for all, while somebody follows."""
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
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

    async def read_position(self) -> dict[str, int]:
        """How far everything has come."""
        return {board.name: (await board.read(NEWEST_FACT))[0].newest for board in await list_boards(self.deps)}

    async def follow(
        self, position: dict[str, int] | None, plan_id: str = "", *, wait: bool = True
    ) -> AsyncGenerator[list[News | FeedReset]]:
        """Lists of news from a position on (None: from now on), as they come; an empty one says that nothing did.

        Without `wait` it ends when there is nothing more. Raises MachineError when too many follow already.
        """
        if len(self._followers) >= MOST:
            raise MachineError(Code.ENGINE_UNREACHABLE, f"{MOST} follow already", hint="close a page or two")
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
        """The next news, by which `known` moves on, up to a position; whether there are more."""
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
        """Read what was written and wake those who follow; the slow look finds what nobody told of."""
        with self.followed() as changed:
            while True:
                await _either(changed, self._told, LOOK)
                changed.clear()
                self._told.clear()
                with suppress(MachineError):
                    await self._caught_up()
                await asyncio.sleep(PACE)

    async def _caught_up(self) -> RecentNews:
        """Read on, once for all who follow, and wake them if there was anything."""
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
"""Facts that are kept for those who follow closely."""


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
    tasks: tuple[str, ...] = ()
    """The tasks of the plan that it changed, when it changed nothing else."""


class FeedReset(NamedTuple):
    """Too much was missed: whoever follows has to look at everything and goes on from here."""

    id: str


def news_of(row: FactAfterRow, board: str, position: Mapping[str, int]) -> News:
    """What is told of a fact (the query `facts_after`); `position` is the one behind it."""
    told = _read(row.body) if row.body is not None else None
    named = told.get("plan_id") if told is not None and "/" not in row.subject else None
    about = feed.plan_of(row.subject, named)
    return News(
        feed.encode_cursor(position),
        board,
        row.seq,
        row.at,
        row.kind,
        row.subject,
        about,
        feed.tasks_of(row.kind, row.subject, told),
    )


def _read(body: Any) -> dict[str, Any] | None:
    try:
        told: Any = wire.read(bytes(body))
    except JsonError:
        return None
    return told if isinstance(told, dict) else None


class RecentNews:
    """News in their order, the oldest of which are forgotten."""

    def __init__(self, here: Mapping[str, int]) -> None:
        self.here = dict(here)
        """The position behind the newest."""
        self._floor = dict(here)
        """The position before the oldest."""
        self._news: deque[News] = deque()

    def add(self, found: Sequence[News], here: Mapping[str, int]) -> None:
        """What was read behind `self.here`, and the position that it leads to."""
        self.here = dict(here)
        for board in here:
            self._floor.setdefault(board, 0)
        self._news.extend(found)
        while len(self._news) > RECENT_LIMIT:
            oldest = self._news.popleft()
            self._floor[oldest.board] = oldest.seq

    def after(self, known: dict[str, int]) -> list[News] | None:
        """The news behind a position, which moves on; None when it lies before the oldest that is kept."""
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
