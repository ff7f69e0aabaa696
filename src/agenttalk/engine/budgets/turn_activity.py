"""The activity of a running turn: kept in memory while it runs, for people who watch, and read by nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from agenttalk.contracts.core.base import write_time
from agenttalk.rules.agents.activity import ActivityPhase, TaskActivity, shorten
from agenttalk.rules.agents.progress_notes import Note
from agenttalk.rules.core.usage import UsageTotals

_NO_TIME: Final = -1.0


class TurnActivity:
    """The activity of one turn. It changes in the thread of the event loop only."""

    __slots__ = (
        "_before",
        "_began",
        "_changed",
        "_since",
        "detail",
        "done",
        "file",
        "phase",
        "rounds",
        "tool",
        "total",
    )

    def __init__(self, rounds: int | None = None) -> None:
        """`rounds` says how many rounds the task may have; None where its work is not checked."""
        self.phase: ActivityPhase = "working"
        self.detail = self.tool = self.file = ""
        self.done: int | None = None
        self.total: int | None = None
        self.rounds = rounds
        self._began = _NO_TIME
        self._since = ""
        self._before: dict[str, int] = {}
        """How many tests each check ran before the work, as far as that could be counted."""
        self._changed: Callable[[], None] = lambda: None

    def attach(self, changed: Callable[[], None]) -> None:
        """Have `changed` called at every change from now on."""
        self._changed = changed

    def enter(self, phase: ActivityPhase, detail: str = "") -> None:
        """Begin a phase; nothing happens if the turn is in it already."""
        if self._began != _NO_TIME and (phase, detail) == (self.phase, self.detail) and not self.tool:
            return
        if self.phase == "baseline" and self.done is not None:
            self._before[self.detail] = self.done
        self.phase, self.detail, self.tool, self.file = phase, detail, "", ""
        self.done = self.total = None
        self._began, self._since = asyncio.get_running_loop().time(), ""
        self._changed()

    def note(self, note: Note) -> None:
        """Show what the agent says that it does."""
        if self.phase == "working" and note.progress:
            self.detail, self.tool, self.file = note.progress, note.tool, note.file
            self._began, self._since = asyncio.get_running_loop().time(), ""
            self._changed()

    def count_tests(self, done: int | None, total: int | None) -> None:
        """Show how many tests the running check has finished."""
        if total is None and done is not None and done <= self._before.get(self.detail, 0):
            total = self._before[self.detail]
        if (done, total) != (self.done, self.total):
            self.done, self.total = done, total
            self._changed()

    def read(self, now: datetime, used: UsageTotals, round_number: int, redact: Callable[[str], str]) -> TaskActivity:
        """Return the activity as it is `now`, with the usage of the turn."""
        if not self._since and self._began != _NO_TIME:
            self._since = write_time(now - timedelta(seconds=asyncio.get_running_loop().time() - self._began))
        return {
            "phase": self.phase,
            "detail": shorten(redact(self.detail)),
            "tool": shorten(redact(self.tool)),
            "file": shorten(redact(self.file)),
            "since": self._since or None,
            "round": round_number,
            "rounds": self.rounds,
            "tests_done": self.done,
            "tests_total": self.total,
            "tokens": used.tokens,
            "cost_usd": used.cost_usd,
        }
