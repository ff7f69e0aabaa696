"""Sends notices: facts become notices, each is queued once, in one commit with the cursor, and sent.

The ledger is read from the cursor on, only by engines with receivers. A queued notice is an effect: it is sent at least
once, under the same id each time, later if its receiver does not answer, and never delays anything else.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.statements.core import (
    CLAIM_EFFECTS,
    FINISH_EFFECT,
    LEDGER_HEAD,
    NEXT_EFFECT_AT,
    RETRY_EFFECT,
    SEALED_FACTS,
    EffectRow,
    LedgerEntry,
)
from agenttalk.ports.statements.plans import CURSOR_VALUE, SET_CURSOR
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.core import circuit_breaker
from agenttalk.rules.core.circuit_breaker import CircuitBreaker
from agenttalk.rules.operation import notices
from agenttalk.rules.operation.notices import NoticeEvent, NoticeFormat

LOG = logging.getLogger(__name__)
POLL: Final = 2.0
"""Seconds between two looks at the ledger."""
CURSOR: Final = "notices"
KIND: Final = "notify."
"""Effects are `notify.NAME`."""
TRIES: Final = 12
"""After so many it is given up: with pauses that double, that is after an hour and a half."""
_TOGETHER: Final = 500
_AT_ONCE: Final = 10
_HOLD: Final = timedelta(seconds=60)
_FAILURES: Final = 3
_PROBE: Final = 30.0


@dataclass(frozen=True, slots=True)
class NotificationTarget:
    """A receiver of notices."""

    name: str
    url: str
    form: NoticeFormat
    events: frozenset[NoticeEvent]
    secret: str | None = field(default=None, repr=False)
    allow: tuple[str, ...] = ()
    """Private addresses to which notices may be sent."""


class NoticeResult(NamedTuple):
    """The result of sending a notice."""

    ok: bool
    why: str = ""
    final: bool = False
    """Whether it would be of no use to try again."""


NoticeSender: TypeAlias = "Callable[[NotificationTarget, Mapping[str, str], bytes], Awaitable[NoticeResult]]"
"""Sends headers and a body to a receiver. It blocks, and never raises."""


class Notifier:
    """Tells `targets` what happens on the boards of a root."""

    def __init__(self, deps: Deps, targets: Sequence[NotificationTarget], post: NoticeSender, *, source: str) -> None:
        self._deps = deps
        self._targets = targets
        self._post = post
        self._source = source
        self._breakers: dict[str, CircuitBreaker] = {}

    async def begin(self) -> None:
        """Start behind the facts that were written before there were receivers."""
        for board in await list_boards(self._deps):
            if await _read_cursor(board) is None:
                rows = await board.read(LEDGER_HEAD)
                head = rows[0].link if rows else 0
                await board.transact(partial(_write_cursor, value=head))

    async def pass_(self) -> float:
        """Queue what is new, send what is due; seconds until the next look."""
        for board in await list_boards(self._deps):
            while await self._queue(board):
                pass
            sending = (self._send(board, target) for target in self._targets)
            for ended in await asyncio.gather(*sending, return_exceptions=True):
                if ended is not None:
                    raise ended
        return POLL

    async def _queue(self, board: Store) -> bool:
        """Take in a part of the ledger; whether there may be more."""
        after = await _read_cursor(board) or 0
        facts = await board.read(SEALED_FACTS, after=after, limit=_TOGETHER)
        if not facts:
            return False

        def work(tx: Tx) -> None:
            known = tx.run(CURSOR_VALUE, name=CURSOR)
            if (known[0].value if known else 0) != after:
                return  # another process has queued it
            for fact in facts:
                self._queue_fact(tx, fact)
            tx.run(SET_CURSOR, name=CURSOR, value=facts[-1].link)

        await board.transact(work)
        return len(facts) == _TOGETHER

    def _queue_fact(self, tx: Tx, fact: LedgerEntry) -> None:
        if fact.board != tx.board or fact.kind not in _TOLD:
            return
        said: Any = wire.read(fact.body, limit=wire.DOCUMENT_LIMIT)
        for notice in notices.make_notices(fact.kind, fact.subject, said):
            identity = notices.make_notice_id(fact.board, fact.link or 0, notice)
            clean = notice._replace(text=self._deps.secret_guard.secrets.redact(notice.text))
            for target in self._targets:
                if notice.event in target.events:
                    data = notices.render_notice(clean, target.form, identity=identity, source=self._source, at=fact.at)
                    text = base64.b64encode(data).decode()
                    tx.queue_effect(
                        f"{KIND}{target.name}", f"{KIND}{target.name}/{identity}", {"id": identity, "body": text}
                    )

    async def _send(self, board: Store, target: NotificationTarget) -> None:
        while self._may_ask(target):
            now = self._deps.now()
            due = await board.read(NEXT_EFFECT_AT, kind=f"{KIND}{target.name}")
            if not due or due[0].not_before > format_instant(now):
                return
            rows = await board.transact(partial(_claimed, kind=f"{KIND}{target.name}", now=now))
            for row in sorted(rows):
                said: Any = wire.read(bytes(row.body), limit=wire.DOCUMENT_LIMIT)
                await self._send_notice(board, target, row.id, said, row.attempts)

    def _may_ask(self, target: NotificationTarget) -> bool:
        return (
            circuit_breaker.may_ask(self._breakers.get(target.name, circuit_breaker.CLOSED), self._deps.now()) != "no"
        )

    async def _send_notice(
        self, board: Store, target: NotificationTarget, number: int, said: Mapping[str, Any], attempts: int
    ) -> None:
        """Send one notice, unless its receiver does not answer at present; then it is sent later."""
        now = self._deps.now()
        if not self._may_ask(target):
            await self._later(board, number, _PROBE)
            return
        body = base64.b64decode(said["body"])
        timestamp = int(now.timestamp())
        headers = notices.make_headers(target.form, said["id"], timestamp, body, target.secret)
        answer = await self._post(target, headers, body)
        if answer.ok:
            self._breakers.pop(target.name, None)
            await board.transact(lambda tx: tx.run(FINISH_EFFECT, id=number))
            return
        known = self._breakers.get(target.name, circuit_breaker.CLOSED)
        self._breakers[target.name] = circuit_breaker.record_failure(known, now, most=_FAILURES, probe_after=_PROBE)
        if answer.final or attempts >= TRIES:
            await self._give_up(board, target, number, said["id"], answer.why)
        else:
            await self._later(board, number, circuit_breaker.compute_pause(attempts))

    async def _later(self, board: Store, number: int, seconds: float) -> None:
        until = format_instant(self._deps.now() + timedelta(seconds=seconds))
        await board.transact(lambda tx: tx.run(RETRY_EFFECT, id=number, not_before=until))

    async def _give_up(self, board: Store, target: NotificationTarget, number: int, identity: str, why: str) -> None:
        def work(tx: Tx) -> None:
            if tx.run(FINISH_EFFECT, id=number):
                tx.record("notice.given_up", target.name, {"id": identity, "why": why})

        await board.transact(work)
        LOG.warning("%s is not told of %s: %s", target.name, identity, why, extra={"action": "notify.given_up"})


async def _read_cursor(board: Store) -> int | None:
    rows = await board.read(CURSOR_VALUE, name=CURSOR)
    return rows[0].value if rows else None


def _write_cursor(tx: Tx, value: int) -> None:
    tx.run(SET_CURSOR, name=CURSOR, value=value)


def _claimed(tx: Tx, kind: str, now: datetime) -> list[EffectRow]:
    return tx.run(CLAIM_EFFECTS, kind=kind, limit=_AT_ONCE, now=format_instant(now), until=format_instant(now + _HOLD))


_TOLD: Final = frozenset(
    {"plan.ended", "plan.cancelled", "human.asked", "alert", "turn.ended", "task.moved", "account.waits"}
)
"""Facts that may be news; the others are not even read."""
