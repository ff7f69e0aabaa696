"""Handles sources that do not answer: pauses requests to them, and makes one task to restore them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from agenttalk.contracts.core.base import format_instant, parse_instant
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import toolchain_questions
from agenttalk.engine.toolchain.board import ToolchainBoard, progress_of
from agenttalk.ports.statements.toolchain import BREAKER, PUT_BREAKER, TOOLCHAIN_BY_KEY, BreakerRow
from agenttalk.ports.storage import Tx
from agenttalk.rules.core import circuit_breaker as rules
from agenttalk.rules.core.circuit_breaker import CLOSED, CircuitBreaker
from agenttalk.rules.text import failure_words
from agenttalk.rules.toolchain import event_tasks


class SourceAvailability(NamedTuple):
    """The availability of a source."""

    breaker: CircuitBreaker = CLOSED
    outage: str = ""
    """The key of the last task to restore it."""


def read_availability(rows: list[BreakerRow]) -> SourceAvailability:
    """Make it from the rows of the query `breaker`."""
    if not rows:
        return SourceAvailability()
    failures, opened_at, not_before, outage = rows[0]
    return SourceAvailability(CircuitBreaker(failures, _time(opened_at), _time(not_before)), outage)


class Outages:
    """Notes failures and recoveries of sources, in open transactions."""

    def __init__(self, deps: Deps, board: ToolchainBoard) -> None:
        self._deps = deps
        self._board = board

    def note_failure(self, tx: Tx, source: str, why: str) -> None:
        """Note that a request failed."""
        caps, now = self._board.setup.caps, self._deps.now()
        known = read_availability(tx.run(BREAKER, source=source))
        after = rules.record_failure(known.breaker, now, most=caps.failures, probe_after=caps.probe_after)
        self._write_availability(tx, source, known, after, why)

    def note_unreachable(self, tx: Tx, source: str, why: str) -> None:
        """Note that several tries of an agent or a check could not reach the source."""
        caps, now = self._board.setup.caps, self._deps.now()
        known = read_availability(tx.run(BREAKER, source=source))
        after = rules.trip(known.breaker, now, most=caps.failures, probe_after=caps.probe_after)
        self._write_availability(tx, source, known, after, why)

    def note_rate_limit(self, tx: Tx, source: str, retry_after: float) -> None:
        """Note that the source asked for a pause."""
        known = read_availability(tx.run(BREAKER, source=source))
        self._write_availability(
            tx, source, known, rules.record_rate_limit(known.breaker, self._deps.now(), retry_after), ""
        )

    def note_recovery(self, tx: Tx, source: str) -> None:
        """Note that the source answers."""
        known = read_availability(tx.run(BREAKER, source=source))
        self._write_availability(tx, source, known, CLOSED, "")

    def _write_availability(
        self, tx: Tx, source: str, known: SourceAvailability, after: CircuitBreaker, why: str
    ) -> None:
        if after == known.breaker:
            return
        outage = known.outage
        if after.opened_at is not None and known.breaker.opened_at is None:
            tx.record("source.away", source, {"failures": after.failures, "why": why})
            outage = self._ensure_restore_task(tx, source, known.outage, format_instant(after.opened_at), why)
        elif after.opened_at is None and known.breaker.opened_at is not None:
            tx.record("source.back", source, {"since": format_instant(known.breaker.opened_at)})
        opened, until = _text(after.opened_at), _text(after.not_before)
        tx.run(PUT_BREAKER, source=source, failures=after.failures, opened_at=opened, until=until, outage=outage)

    def _ensure_restore_task(self, tx: Tx, source: str, last: str, at: str, why: str) -> str:
        """Make a task to restore the source, unless the last one is still open. Returns the key of the task."""
        rows = tx.run(TOOLCHAIN_BY_KEY, key=last) if last else []
        if rows and progress_of(rows[0].state, rows[0].epoch) in {"waiting", "begun"}:
            return last
        setup = self._board.setup
        locale = setup.style(setup.registry.ops or "").locale
        what = failure_words.OUTAGE.render(locale, source=source)
        task = event_tasks.make_outage_task(setup.registry, source, outage=at, what=what, detail=why, at=at)
        if task is None:
            question = failure_words.NO_OPERATOR.render(locale, source=source, reason=why)
            toolchain_questions.ask(tx, f"away/{source}/{at}", what, question, at=at)
            return ""
        self._board.add_task_within(tx, task)
        return task.key


def _text(at: datetime | None) -> str | None:
    return None if at is None else format_instant(at)


def _time(text: str | None) -> datetime | None:
    return None if text is None else parse_instant(text)
