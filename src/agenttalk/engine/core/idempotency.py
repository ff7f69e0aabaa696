"""Carries out a request with an idempotency key once, however often it is sent.

The request is recorded before it is carried out, and the answer afterwards. So the same request gets the same
answer again, also from an engine that was killed and started again. One that was begun and has no answer is in doubt:
it is unknown how far it came. Requests that are harmless to repeat are repeated then; for all others the answer says
that they are in doubt.

Refusals are not kept: nothing was done, so the same request is tried again. Keys are kept for a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant
from agenttalk.contracts.errors import Code, ConflictError
from agenttalk.engine.core.boards import SYSTEM
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.statements.core import API_KEY, BEGIN_KEY, DROP_MANY_KEYS, DROP_OLD_KEYS, END_KEY, FORGET_KEY
from agenttalk.ports.storage import Tx

LASTS: Final = timedelta(hours=24)
MOST: Final = 50_000
"""Keys that are kept; of more than these in a day the oldest are forgotten."""
LARGEST: Final = 64 * 1024
"""Bytes of an answer that are kept. Only the status of a larger one is kept."""


class StoredResponse(NamedTuple):
    """A recorded answer."""

    status: int
    answer: bytes


@dataclass(slots=True)
class IdempotencyKeys:
    """The keys of requests. `under_way` are those that this process is carrying out."""

    deps: Deps
    under_way: set[str]

    async def begin(self, key: str, asked: str, *, repeatable: bool) -> StoredResponse | None:
        """Record that a request is made under a key. None when it is to be carried out now.

        Otherwise return the earlier answer. Raises ConflictError: KEY_REUSED when the key is that of another request,
        KEY_IN_USE while it is being carried out, KEY_IN_DOUBT when it is unknown whether it was.
        """
        if key in self.under_way:
            raise ConflictError(
                Code.KEY_IN_USE, "a request with this key is still running", hint="ask again in a moment"
            )
        self.under_way.add(key)
        try:
            kept = await self._begin(key, asked, repeatable=repeatable)
        except BaseException:
            self.under_way.discard(key)
            raise
        if kept is not None:
            self.under_way.discard(key)
        return kept

    async def _begin(self, key: str, asked: str, *, repeatable: bool) -> StoredResponse | None:
        system = await self.deps.stores.board(SYSTEM)
        now = self.deps.now()
        at, before = format_instant(now), format_instant(now - LASTS)

        def work(tx: Tx) -> tuple[str, int | None, bytes | None] | None:
            tx.run(DROP_OLD_KEYS, before=before)
            added = tx.run(BEGIN_KEY, key=key, asked=asked, at=at)
            if added:
                tx.run(DROP_MANY_KEYS, id=added[0].id - MOST)
                return None
            [row] = tx.run(API_KEY, key=key)
            return row.asked, row.status, bytes(row.answer) if row.answer is not None else None

        found = await system.transact(work)
        if found is None:
            return None
        known, status, answer = found
        if known != asked:
            hint = "give each request a key of its own"
            raise ConflictError(Code.KEY_REUSED, "this key was used for another request", hint=hint)
        if status is not None and answer is not None:
            return StoredResponse(status, answer)
        if repeatable:
            return None
        raise ConflictError(
            Code.KEY_IN_DOUBT,
            f"this was carried out before and answered with {status}, at more length than is kept"
            if status is not None
            else "the engine ended while it carried this out, and it is unknown how far it came",
            hint="look whether it was done; if not, ask for it under another key",
        )

    async def end(self, key: str, status: int, answer: bytes) -> None:
        """Record the answer."""
        system = await self.deps.stores.board(SYSTEM)
        kept = answer if len(answer) <= LARGEST else None
        try:
            await system.transact(lambda tx: tx.run(END_KEY, key=key, status=status, answer=kept))
        finally:
            self.under_way.discard(key)

    async def forget(self, key: str) -> None:
        """Forget a request of which nothing was done, so that the next one starts again."""
        system = await self.deps.stores.board(SYSTEM)
        try:
            await system.transact(lambda tx: tx.run(FORGET_KEY, key=key))
        finally:
            self.under_way.discard(key)

    def abandon(self, key: str) -> None:
        """Record that the result is unknown."""
        self.under_way.discard(key)


def hash_key(caller: str, method: str, path: str, key: str) -> str:
    """Return the name of a key: one caller's, for one address."""
    return wire.sha256(wire.write([caller, method, path, key]))
