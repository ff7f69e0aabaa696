"""Exports traces: reads the ledger from its cursor on, and sends its facts as spans to a tracing system.

The cursor moves after the spans were sent, in one commit with the state of spans that have begun. If the process ends
in between, the same spans are sent again under the same ids. While the tracing system is away, nothing grows but the
ledger, which is kept anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeAlias

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.engine.agents.transcript import LARGEST
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.trace_context import read_naming
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.core import LEDGER_HEAD, SEALED_FACTS, LedgerEntry
from agenttalk.ports.statements.operation import DROP_TRACED, PUT_TRACED, TRACED
from agenttalk.ports.statements.plans import CURSOR_VALUE, SET_CURSOR
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.core import circuit_breaker
from agenttalk.rules.core.circuit_breaker import CircuitBreaker
from agenttalk.rules.operation import otlp, spans
from agenttalk.rules.operation.spans import AgentToolCall, Attributes, Fact, Span
from agenttalk.rules.operation.traces import FACTS, TraceBuilder

LOG = logging.getLogger(__name__)
POLL: Final = 2.0
"""Seconds between two looks at the ledger."""
CURSOR: Final = "traces"
TOGETHER: Final = 200
"""Facts that are read at once."""
AT_ONCE: Final = 256
"""How many spans are sent at once."""
MOST_CALLS: Final = 500
"""How many tool calls of one attempt are sent."""
_FAILURES: Final = 2
_PROBE: Final = 5.0


@dataclass(frozen=True, slots=True)
class SpanExportResult:
    """The result of sending spans."""

    ok: bool
    why: str = ""
    final: bool = False
    """Whether it would be of no use to try again."""
    rejected: int = 0
    """Of what was taken, so many spans were not."""


SpanSender: TypeAlias = "Callable[[bytes], Awaitable[SpanExportResult]]"
"""Tells a tracing system. It takes its time, and never raises."""


@dataclass(slots=True)
class SpanCounts:
    """Counts of sent and lost spans since the engine began."""

    sent: int = 0
    dropped: int = 0
    failures: int = 0
    """How often in a row sending failed."""


@dataclass(slots=True)
class _TraceCursor:
    """The cursor of a board, and its spans that are not sent yet."""

    book: TraceBuilder
    stored: int
    """Where the cursor stands."""
    seen: int
    """How far was read since."""
    spans: list[Span] = field(default_factory=list)
    """Spans to send before the cursor moves."""


class TraceExporter:
    """Tells one tracing system what happens on the boards of a root."""

    def __init__(
        self, deps: Deps, send: SpanSender, *, resource: Attributes, version: str, texts: bool = False
    ) -> None:
        self._deps = deps
        self._send = send
        self._resource = resource
        self._version = version
        self._texts = texts
        self._readings: dict[str, _TraceCursor] = {}
        self._breaker: CircuitBreaker = circuit_breaker.CLOSED
        self.counts = SpanCounts()

    async def begin(self) -> None:
        """Start behind the facts that were written before traces were exported."""
        for board in await list_boards(self._deps):
            if not await board.read(CURSOR_VALUE, name=CURSOR):
                rows = await board.read(LEDGER_HEAD)
                await board.transact(partial(_move, value=rows[0].link if rows else 0))

    async def pass_(self) -> float:
        """Send new spans while the tracing system takes them. Returns seconds until the next pass."""
        for board in await list_boards(self._deps):
            while await self._export_board(board):
                pass
        return POLL

    async def _export_board(self, board: Store) -> bool:
        """Tell of a part of the ledger; whether there may be more."""
        reading = self._readings.get(board.name) or await self._open_cursor(board)
        self._readings[board.name] = reading
        more = bool(reading.spans) or await self._read(board, reading)
        news = bool(reading.spans)
        if not await self._send_spans(board, reading):
            return False
        if more or news or reading.book.is_changed:
            await self._store_position(board, reading)
        return more

    async def _open_cursor(self, board: Store) -> _TraceCursor:
        rows = await board.read(CURSOR_VALUE, name=CURSOR)
        at = rows[0].value if rows else 0
        known: dict[str, Any] = {}
        for name, body in await board.read(TRACED):
            known[name] = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
        return _TraceCursor(TraceBuilder(await read_naming(board), known, texts=self._texts), at, at)

    async def _read(self, board: Store, reading: _TraceCursor) -> bool:
        """Read a part of the ledger; whether there may be more."""
        rows = await board.read(SEALED_FACTS, after=reading.seen, limit=TOGETHER)
        for row in rows:
            if row.kind in FACTS and row.board == board.name:
                fact = self._fact(row)
                reading.spans += reading.book.add_fact(fact, await self._calls(fact))
            reading.seen = row.link or 0  # never None in a sealed entry
        return len(rows) == TOGETHER

    def _fact(self, row: LedgerEntry) -> Fact:
        said: Any = wire.read(row.body, limit=wire.DOCUMENT_LIMIT)
        said = self._deps.secret_guard.secrets.redact_json(said) if self._texts else said
        return Fact(row.link or 0, row.at, row.board, row.kind, row.subject, said)

    async def _calls(self, fact: Fact) -> Sequence[AgentToolCall]:
        """Read the tool calls of an attempt, if its events are still there and unchanged."""
        told = (fact.body.get("usage") or {}).get("events") if fact.kind == "turn.ended" else None
        if not isinstance(told, Mapping) or not isinstance(told.get("file"), str):
            return ()
        events = await asyncio.to_thread(_events, self._deps.root, told["file"], str(told.get("sha256")))
        return spans.calls_of(events, fact.at)[:MOST_CALLS]

    async def _send_spans(self, board: Store, reading: _TraceCursor) -> bool:
        """Send the waiting spans. Returns whether all were taken."""
        while reading.spans:
            now = self._deps.now()
            if circuit_breaker.may_ask(self._breaker, now) == "no":
                return False
            part = reading.spans[:AT_ONCE]
            said = await self._send(otlp.encode_request(part, resource=self._resource, version=self._version))
            if said.ok:
                self._breaker = circuit_breaker.CLOSED
                self.counts.sent += len(part) - said.rejected
                self.counts.failures = 0
                if said.rejected:
                    await self._give_up(board, said.rejected, said.why)
            elif said.final:
                await self._give_up(board, len(part), said.why)
            else:
                self._fail(said.why)
                return False
            del reading.spans[:AT_ONCE]
        return True

    def _fail(self, why: str) -> None:
        if not self.counts.failures:
            LOG.warning("spans are not taken, and are sent later: %s", why, extra={"action": "telemetry.away"})
        self.counts.failures += 1
        self._breaker = circuit_breaker.record_failure(
            self._breaker, self._deps.now(), most=_FAILURES, probe_after=_PROBE
        )

    async def _give_up(self, board: Store, many: int, why: str) -> None:
        """Spans that will never be taken do not hold up the others."""
        self.counts.dropped += many
        LOG.warning("%s spans are dropped: %s", many, why, extra={"action": "telemetry.dropped"})
        await board.transact(lambda tx: tx.record("telemetry.dropped", "traces", {"spans": many, "why": why[:500]}))

    async def _store_position(self, board: Store, reading: _TraceCursor) -> None:
        """Write down how far it has come, and what has begun by then."""
        changes = reading.book.collect_changes()

        def work(tx: Tx) -> bool:
            rows = tx.run(CURSOR_VALUE, name=CURSOR)
            if (rows[0].value if rows else 0) != reading.stored:
                return False  # another process exports this board, too
            for name, row in changes.items():
                if row is None:
                    tx.run(DROP_TRACED, name=name)
                else:
                    tx.run(PUT_TRACED, name=name, body=wire.write(row))
            _move(tx, reading.seen)
            return True

        try:
            kept = await board.transact(work)
        except BaseException:
            del self._readings[board.name]  # what is written down decides where it goes on
            raise
        if kept:
            reading.stored = reading.seen
        else:
            del self._readings[board.name]


def _move(tx: Tx, value: int) -> None:
    tx.run(SET_CURSOR, name=CURSOR, value=value)


def _events(root: Folder, path: str, digest: str) -> list[JsonObject]:
    """Read the events of an attempt; none if they do not match the hash in the ledger."""
    try:
        data = root.read(path, LARGEST)
        if f"sha256:{sha256(data).hexdigest()}" != digest:
            return []
        found: list[Any] = [wire.read(line) for line in data.splitlines()]
    except (AgentTalkError, OSError):
        return []
    return found
