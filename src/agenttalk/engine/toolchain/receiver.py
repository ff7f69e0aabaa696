"""Deliveries of forges, on their way in: genuine or refused, and stored durably before they are answered.

Those that come at about the same time are stored by one work. What they mean is decided later, see `webhooks`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.contracts.toolchain import PipelineResult
from agenttalk.engine.core import boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.records import SMALL
from agenttalk.ports.forge import EventSource, Headers
from agenttalk.ports.statements.toolchain import ADD_WEBHOOK, WEBHOOK, WEBHOOK_AGAIN, WEBHOOK_BEFORE
from agenttalk.ports.storage import Store, Tx, Value

LOG = logging.getLogger(__name__)
MOST: Final = 64
"""Deliveries that are stored by one work."""
QUIET: Final = 4
"""Turns of the event loop without anybody new after which those who came go on."""
MOST_TURNS: Final = 200
"""Turns of the event loop that anybody waits for others."""
FEW: Final = 8
"""Deliveries that are no rush yet."""
MANY: Final = 2_000
"""Deliveries that wait at most while others are answered."""
BREATH: Final = 0.05
"""Seconds without a delivery after which a rush is over; and between two looks at a few."""
LONGEST: Final = 1.0
"""Seconds that any delivery waits for a rush to be over."""
SAME: Final = timedelta(minutes=1)
"""Within which a forge may say the same of two events in the same words: it tells times by the second."""
_KEPT_HEADERS: Final = ("content-type", "x-gitea-", "x-gogs-", "x-forgejo-", "x-github-", "x-hub-")


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """A delivery that was stored."""

    id: str
    """What it is called: `wh-17`."""
    again: bool = False
    """Whether it was here before."""


class PendingDelivery(NamedTuple):
    """A delivery that is to be stored, and whoever waits for that."""

    store: Store
    row: dict[str, Value]
    fact: dict[str, Any]
    stored: asyncio.Future[StoredDelivery]
    until: str = ""
    """The same body that came before this time is the same delivery: nothing but the body is signed."""


class Batcher:
    """Those who come at about the same time go on together, so that they share a work and a commit.

    There is no timer: they go on when the event loop has gone around without bringing anybody new, or when they are
    many. Somebody who comes alone waits for a few turns of an idle loop, which take microseconds.
    """

    def __init__(self, go: Callable[[list[PendingDelivery]], None]) -> None:
        self._go = go
        self._came: list[PendingDelivery] = []
        self._seen = self._quiet = self._turns = 0

    def add(self, one: PendingDelivery) -> None:
        """Wait for those who are just coming in, and go on with them."""
        self._came.append(one)
        if len(self._came) >= MOST:
            self._flush()
        elif len(self._came) == 1:
            self._seen = self._quiet = self._turns = 0
            one.stored.get_loop().call_soon(self._check_quiet, self._came)

    def _check_quiet(self, came: list[PendingDelivery]) -> None:
        """One turn of the loop has gone by."""
        if came is not self._came:
            return  # they have gone
        self._quiet = self._quiet + 1 if len(came) == self._seen else 0
        self._seen, self._turns = len(came), self._turns + 1
        if self._quiet < QUIET and self._turns < MOST_TURNS:
            came[0].stored.get_loop().call_soon(self._check_quiet, came)
        else:
            self._flush()

    def _flush(self) -> None:
        came, self._came = self._came, []
        self._go(came)


class Backpressure:
    """While many deliveries come in, answering them goes before deciding about them: forges do not wait for long.

    It lasts until nobody has come for a breath, until too many wait, or until the first of them has waited for too
    long. Then all who wait are decided about, however many more are coming. A few wait for a breath since others were
    decided about, and whoever comes alone for nothing.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._waiting = self._due = 0
        self._first = self._last = self._took = -LONGEST

    def note_stored(self, many: int) -> None:
        """So many were stored."""
        self._last = self._now()
        if self._waiting == self._due:
            self._first = self._last
        self._waiting += many

    def note_decided(self, many: int) -> None:
        """So many were decided about. None: there is nothing left, whatever was counted."""
        left = many or self._waiting
        self._waiting, self._due = max(0, self._waiting - left), max(0, self._due - left)
        if many:
            self._took = self._now()

    def pause(self) -> float:
        """Seconds after which it should be asked again; zero when it is time to decide."""
        if not self._due:
            calm = BREATH + (self._last if self._waiting > FEW else self._took)
            left = min(calm, self._first + LONGEST) - self._now()
            if left > 0 and self._waiting < MANY:
                return left
            self._due = self._waiting
        return 0.0


_TELL_AGAIN: Final = 60.0
"""Seconds for which an operator is not told again that a source's deliveries are refused."""


class DeliveryReceiver:
    """Takes deliveries in. `nudge` has somebody look at them, and `rush` tells when."""

    def __init__(self, deps: Deps, sources: Mapping[str, EventSource], nudge: Callable[[], None]) -> None:
        self._deps = deps
        self.sources = sources
        self._nudge = nudge
        self._crowd = Batcher(self._store_all)
        self.rush = Backpressure()
        self.refused: dict[str, str] = {}
        """Sources whose deliveries were refused → why, until an operator is told."""
        self._told: dict[str, float] = {}

    def source(self, name: str) -> EventSource:
        """A configured source; raises UsageError when there is none of that name."""
        found = self.sources.get(name)
        if found is None:
            hint = f"there are: {', '.join(sorted(self.sources)) or 'none'}"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no source {name[:80]!r}", hint=hint)
        return found

    def wake(self) -> None:
        """Have somebody look at what is to be decided."""
        self._nudge()

    async def receive(self, name: str, headers: Headers, body: bytes) -> StoredDelivery:
        """Store a delivery durably. Raises UsageError (FORGE_SIGNATURE_REFUSED) when it is not genuine."""
        if why := self.source(name).refusal(headers, body):
            raise self.make_signature_error(name, why)
        return await self.store_delivery(name, headers, body)

    async def store_delivery(self, name: str, headers: Headers, body: bytes) -> StoredDelivery:
        """Store a delivery durably, which is genuine."""
        delivery, event = self.source(name).label(headers)
        return await self._store(name, "forge", delivery, event, _select_headers(headers), body)

    def make_signature_error(self, name: str, why: str) -> UsageError:
        """What is said of a delivery that nobody signed who knows the secret. The operator is told now and then."""
        LOG.warning("source %s: %s", name, why, extra={"action": "webhooks.refused"})
        if time.monotonic() >= self._told.get(name, 0.0):
            self._told[name] = time.monotonic() + _TELL_AGAIN
            self.refused[name] = why
            self._nudge()
        hint = "the secret of the hook and that of the source have to be the same"
        return UsageError(Code.FORGE_SIGNATURE_REFUSED, why, hint=hint)

    async def store_pipeline_result(self, name: str, result: PipelineResult) -> StoredDelivery:
        """Store what a pipeline reports."""
        self.source(name)
        return await self._store(name, "pipeline", "", result.kind, [], result.to_bytes())

    async def _store(
        self, source: str, kind: str, delivery: str, event: str, headers: list[tuple[str, str]], body: bytes
    ) -> StoredDelivery:
        system = await self._deps.stores.board(boards.SYSTEM)
        sha256, content = wire.sha256(body), None
        if len(body) > SMALL:
            content = await (await self._deps.stores.blobs(boards.SYSTEM)).put(body)
        row: dict[str, Value] = {
            "source": source,
            "kind": kind,
            "delivery": delivery.replace("\0", ""),
            "event": event.replace("\0", ""),
            "headers": wire.write(headers),
            "body": body if content is None else None,
            "content": content,
            "sha256": sha256,
            "at": self._deps.stamp(),
        }
        fact = {"source": source, "kind": kind, "event": event, "delivery": delivery, "sha256": sha256}
        stored: asyncio.Future[StoredDelivery] = asyncio.get_running_loop().create_future()
        until = format_instant(self._deps.now() - SAME) if kind == "forge" else ""
        self._crowd.add(PendingDelivery(system, row, fact, stored, until))
        return await stored

    def _store_all(self, came: list[PendingDelivery]) -> None:
        """Store those who came together by one work."""
        try:
            written = came[0].store.submit(lambda tx: [_add(tx, each) for each in came])
        except Exception as error:  # noqa: BLE001 - each of them has to hear of it
            _refuse(came, error)
        else:
            written.add_done_callback(partial(self._answer, came))

    def _answer(self, came: list[PendingDelivery], written: asyncio.Future[list[StoredDelivery]]) -> None:
        error = written.exception()
        if error is None:
            for each, received in zip(came, written.result(), strict=True):
                if not each.stored.done():
                    each.stored.set_result(received)
            self.rush.note_stored(len(came))
            self._nudge()
        elif len(came) == 1 or isinstance(error, MachineError):
            _refuse(came, error)
        else:  # one of them is to blame, and none shall suffer for another
            for each in came:
                self._store_all([each])

    async def describe_delivery(self, name: str) -> dict[str, Any]:
        """A delivery and what came of it; raises UsageError when there is none."""
        number = name.removeprefix("wh-")
        system = await self._deps.stores.board(boards.SYSTEM)
        rows = await system.read(WEBHOOK, id=int(number)) if number.isdecimal() and len(number) < 18 else []
        if not rows:
            raise UsageError(Code.NAME_UNKNOWN, f"there is no delivery {name[:80]!r}")
        id_, source, kind, delivery, event, sha256, received_at, state, outcome = rows[0]
        return {
            "id": f"wh-{id_}",
            "source": source,
            "kind": kind,
            "delivery": delivery,
            "event": event,
            "sha256": sha256,
            "received_at": received_at,
            "state": state,
            "outcome": outcome,
        }


def _select_headers(headers: Headers) -> list[tuple[str, str]]:
    """What is needed to read a delivery later. Signatures are not."""
    lowered = [(key, value, key.lower()) for key, value in headers]
    return [(key, value) for key, value, low in lowered if low.startswith(_KEPT_HEADERS) and "signature" not in low]


def _add(tx: Tx, coming: PendingDelivery) -> StoredDelivery:
    row = coming.row
    if coming.until:
        before = tx.run(WEBHOOK_BEFORE, source=row["source"], sha256=row["sha256"], until=coming.until)
        if before:
            return StoredDelivery(f"wh-{before[0].id}", again=True)
    added = tx.run(ADD_WEBHOOK, **row)
    if added:
        tx.record("webhook.received", f"webhooks/{added[0].id}", coming.fact)
        return StoredDelivery(f"wh-{added[0].id}")
    [(number,)] = tx.run(WEBHOOK_AGAIN, source=row["source"], delivery=row["delivery"], sha256=row["sha256"])
    return StoredDelivery(f"wh-{number}", again=True)


def _refuse(came: list[PendingDelivery], error: BaseException) -> None:
    for each in came:
        if not each.stored.done():
            each.stored.set_exception(error)
