"""The composition root: the only module that knows both the engine and the adapters."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from agenttalk.engine.deps import Deps, Limits
from agenttalk.mailbox.fsio import Folder
from agenttalk.ports import Clock, Ids
from agenttalk.store.root import RootStores


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The time in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the door through which the time comes in


class RandomIds:
    """Ids that nobody can guess."""

    def new(self, prefix: str) -> str:
        """`prefix_` and 24 hex digits."""
        return f"{prefix}_{secrets.token_hex(12)}"


@asynccontextmanager
async def opened(
    root: Path, *, clock: Clock | None = None, ids: Ids | None = None, limits: Limits | None = None, url: str = ""
) -> AsyncIterator[Deps]:
    """What use cases need of a root, open until the block ends."""
    clock = clock or SystemClock()
    stores = RootStores(root, clock, url=url)
    with Folder.open(root) as folder:
        try:
            yield Deps(folder, stores, clock, ids or RandomIds(), limits or Limits())
        finally:
            await stores.close()
