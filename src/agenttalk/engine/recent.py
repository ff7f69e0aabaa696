"""The newest facts, read once for all who follow, and never more than so many of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agenttalk.contracts import wire
from agenttalk.errors import JsonError
from agenttalk.ports import Row
from agenttalk.rules import news

KEPT: Final = 1_000
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


class Anew(NamedTuple):
    """Too much was missed: whoever follows has to look at everything and goes on from here."""

    id: str


def news_of(row: Row, board: str, position: Mapping[str, int]) -> News:
    """What is told of a fact (the query `facts_after`); `position` is the one behind it."""
    seq, at, kind, subject, body = row
    told = _read(body) if body is not None else None
    named = told.get("plan_id") if told is not None and "/" not in subject else None
    about = news.plan_of(subject, named)
    return News(news.written(position), board, seq, at, kind, subject, about, news.tasks_of(kind, subject, told))


def _read(body: Any) -> dict[str, Any] | None:
    try:
        told: Any = wire.read(bytes(body))
    except JsonError:
        return None
    return told if isinstance(told, dict) else None


class Recent:
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
        while len(self._news) > KEPT:
            oldest = self._news.popleft()
            self._floor[oldest.board] = oldest.seq

    def after(self, known: dict[str, int]) -> list[News] | None:
        """The news behind a position, which moves on; None when it lies before the oldest that is kept."""
        if any(known.get(board, 0) < seq for board, seq in self._floor.items()):
            return None
        last = news.written(known)
        found: list[News] = []
        for each in reversed(self._news):
            if each.id == last:
                break
            if each.seq > known.get(each.board, 0):
                found.append(each)
        known.update(self.here)
        return found[::-1]
