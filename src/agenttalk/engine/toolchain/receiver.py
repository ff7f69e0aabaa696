"""Receives the deliveries of forges: checks their signature and stores them durably before they are answered.

Deliveries that arrive at about the same time share a transaction. `deliveries` processes them later.
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
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.contracts.toolchain import PipelineResult
from agenttalk.engine.core import boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.records import SMALL
from agenttalk.ports.forge import EventSource, Headers
from agenttalk.ports.statements.toolchain import ADD_WEBHOOK, WEBHOOK, WEBHOOK_AGAIN, WEBHOOK_BEFORE
from agenttalk.ports.storage import Store, Tx, Value
from agenttalk.rules.text.catalogue import read_column

LOG = logging.getLogger(__name__)
MOST: Final = 64
"""Deliveries that share a transaction, at most."""
QUIET: Final = 4
"""Turns of the event loop without a new delivery after which a batch is stored."""
MOST_TURNS: Final = 200
"""Turns of the event loop that a delivery waits for others, at most."""
FEW: Final = 8
"""Undecided deliveries up to which there is no rush."""
MANY: Final = 2_000
"""Deliveries that may wait while others are answered."""
BREATH: Final = 0.05
"""Seconds without a delivery after which a rush is over, and seconds between two passes over a few deliveries."""
LONGEST: Final = 1.0
"""Seconds that a delivery waits for a rush to end, at most."""
SAME: Final = timedelta(minutes=1)
"""Deliveries with the same body within this time are one delivery: nothing but the body is signed.

Two different events may have the same body, since forges give times in whole seconds; so the time is short.
"""
_KEPT_HEADERS: Final = ("content-type", "x-gitea-", "x-gogs-", "x-forgejo-", "x-github-", "x-hub-")


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """A delivery that was stored."""

    id: str
    """Its name, such as `wh-17`."""
    again: bool = False
    """Whether it was stored before."""


class PendingDelivery(NamedTuple):
    """A delivery that is to be stored, with the future that its sender's request waits for."""

    store: Store
    row: dict[str, Value]
    fact: JsonObject
    stored: asyncio.Future[StoredDelivery]
    until: str = ""
    """The same body with a stored delivery at or after this time is the same delivery."""


class Batcher:
    """Collects deliveries that arrive at about the same time, so that they share a transaction.

    There is no timer: a batch goes on when the event loop went around `QUIET` times without a new delivery, or when
    the batch is full. A delivery that arrives alone waits for a few turns of an idle loop, which take microseconds.
    """

    def __init__(self, go: Callable[[list[PendingDelivery]], None]) -> None:
        self._go = go
        self._batch: list[PendingDelivery] = []
        self._seen = self._quiet = self._turns = 0

    def add(self, delivery: PendingDelivery) -> None:
        """Add a delivery to the batch."""
        self._batch.append(delivery)
        if len(self._batch) >= MOST:
            self._flush()
        elif len(self._batch) == 1:
            self._seen = self._quiet = self._turns = 0
            delivery.stored.get_loop().call_soon(self._check_quiet, self._batch)

    def _check_quiet(self, batch: list[PendingDelivery]) -> None:
        """Flush the batch if it stopped growing; called once for each turn of the event loop."""
        if batch is not self._batch:
            return  # a full batch went on in the meantime
        self._quiet = self._quiet + 1 if len(batch) == self._seen else 0
        self._seen, self._turns = len(batch), self._turns + 1
        if self._quiet < QUIET and self._turns < MOST_TURNS:
            batch[0].stored.get_loop().call_soon(self._check_quiet, batch)
        else:
            self._flush()

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        self._go(batch)


class Backpressure:
    """Delays processing while many deliveries arrive: answering goes first, because forges do not wait for long.

    A rush lasts until no delivery came for `BREATH` seconds, `MANY` wait, or the first has waited for `LONGEST`
    seconds. Then all that wait are processed, even if more arrive. Up to `FEW` deliveries wait for `BREATH` seconds
    since the last pass; a delivery that arrives alone does not wait.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._waiting = self._due = 0
        self._first = self._last = self._took = -LONGEST

    def note_stored(self, count: int) -> None:
        """Note how many deliveries were stored."""
        self._last = self._now()
        if self._waiting == self._due:
            self._first = self._last
        self._waiting += count

    def note_decided(self, count: int) -> None:
        """Note how many deliveries a pass decided about. Zero resets the counts: the pass found nothing left."""
        decided = count or self._waiting
        self._waiting, self._due = max(0, self._waiting - decided), max(0, self._due - decided)
        if count:
            self._took = self._now()

    def pause(self) -> float:
        """Return the seconds after which to ask again, or zero when it is time to process."""
        if not self._due:
            calm = BREATH + (self._last if self._waiting > FEW else self._took)
            left = min(calm, self._first + LONGEST) - self._now()
            if left > 0 and self._waiting < MANY:
                return left
            self._due = self._waiting
        return 0.0


_WARN_AGAIN: Final = 60.0
"""Seconds between two warnings that a source's deliveries are refused."""


class DeliveryReceiver:
    """Stores deliveries. `nudge` wakes the processing, and `rush` says when it begins."""

    def __init__(self, deps: Deps, sources: Mapping[str, EventSource], nudge: Callable[[], None]) -> None:
        self._deps = deps
        self.sources = sources
        self._nudge = nudge
        self._crowd = Batcher(self._store_all)
        self.rush = Backpressure()
        self.refused: dict[str, str] = {}
        """Sources whose deliveries were refused → why, until the warning for the operator is written."""
        self._warned: dict[str, float] = {}

    def source(self, name: str) -> EventSource:
        """Return a configured source. Raises UsageError (NAME_UNKNOWN) if no source has that name."""
        source = self.sources.get(name)
        if source is None:
            hint = f"the sources are: {', '.join(sorted(self.sources)) or 'none'}"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no source {name[:80]!r}", hint=hint)
        return source

    def wake(self) -> None:
        """Wake the processing of stored deliveries."""
        self._nudge()

    async def receive(self, name: str, headers: Headers, body: bytes) -> StoredDelivery:
        """Store a delivery durably. Raises UsageError (FORGE_SIGNATURE_REFUSED) if its signature is wrong."""
        if why := self.source(name).refusal(headers, body):
            raise self.make_signature_error(name, why)
        return await self.store_delivery(name, headers, body)

    async def store_delivery(self, name: str, headers: Headers, body: bytes) -> StoredDelivery:
        """Store a delivery durably whose signature was checked."""
        delivery, event = self.source(name).label(headers)
        return await self._store(name, "forge", delivery, event, _select_headers(headers), body)

    def make_signature_error(self, name: str, why: str) -> UsageError:
        """Make the error for a delivery with a wrong signature, and warn the operator once a minute."""
        LOG.warning("source %s: %s", name, why, extra={"action": "webhooks.refused"})
        if time.monotonic() >= self._warned.get(name, 0.0):
            self._warned[name] = time.monotonic() + _WARN_AGAIN
            self.refused[name] = why
            self._nudge()
        hint = "set the same secret in the forge's hook and in the source"
        return UsageError(Code.FORGE_SIGNATURE_REFUSED, why, hint=hint)

    async def store_pipeline_result(self, name: str, result: PipelineResult) -> StoredDelivery:
        """Store a pipeline's report."""
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

    def _store_all(self, batch: list[PendingDelivery]) -> None:
        """Store the deliveries of a batch in one transaction."""
        try:
            written = batch[0].store.submit(lambda tx: [_add(tx, delivery) for delivery in batch])
        except Exception as error:  # noqa: BLE001 - the requests wait for it
            _refuse(batch, error)
        else:
            written.add_done_callback(partial(self._answer, batch))

    def _answer(self, batch: list[PendingDelivery], written: asyncio.Future[list[StoredDelivery]]) -> None:
        error = written.exception()
        if error is None:
            for delivery, stored in zip(batch, written.result(), strict=True):
                if not delivery.stored.done():
                    delivery.stored.set_result(stored)
            self.rush.note_stored(len(batch))
            self._nudge()
        elif len(batch) == 1 or isinstance(error, MachineError):
            _refuse(batch, error)
        else:  # one delivery is to blame: store each alone, so that only that one is refused
            for delivery in batch:
                self._store_all([delivery])

    async def describe_delivery(self, name: str) -> dict[str, Any]:
        """Describe a delivery and its outcome. Raises UsageError (NAME_UNKNOWN) if no delivery has that name."""
        number = name.removeprefix("wh-")
        system = await self._deps.stores.board(boards.SYSTEM)
        rows = await system.read(WEBHOOK, id=int(number)) if number.isdecimal() and len(number) < 18 else []
        if not rows:
            raise UsageError(Code.NAME_UNKNOWN, f"there is no delivery {name[:80]!r}")
        told = rows[0]._asdict() | {"outcome": read_column(rows[0].outcome, rows[0].outcome_message)}
        del told["outcome_message"]
        return {**told, "id": f"wh-{rows[0].id}"}


def _select_headers(headers: Headers) -> list[tuple[str, str]]:
    """Select the headers that are needed to read a delivery later. Signatures are not kept."""
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


def _refuse(batch: list[PendingDelivery], error: BaseException) -> None:
    for delivery in batch:
        if not delivery.stored.done():
            delivery.stored.set_exception(error)
