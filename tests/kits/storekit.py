"""What tests of the store share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from agenttalk.adapters.store.root import RootStores
from agenttalk.adapters.store.writer import Work

T = TypeVar("T")
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Clock:
    """Noon, always."""

    def now(self) -> datetime:
        return NOON


def fact(subject: str, body: Any = None) -> Work:
    """A work that records one fact."""
    return lambda tx: tx.record("test.fact", subject, body or {})


@dataclass(frozen=True)
class Place:
    """Where a test keeps its store."""

    root: Path
    url: str
    dialect: str

    def stores(self) -> RootStores:
        return RootStores(self.root, Clock(), url=self.url)

    def play(self, scenario: Callable[[RootStores], Awaitable[T]]) -> T:
        """Open the root, run the scenario, close it."""

        async def run() -> T:
            stores = self.stores()
            try:
                return await scenario(stores)
            finally:
                await stores.close()

        return asyncio.run(run())
