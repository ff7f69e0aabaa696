"""Moves the tree of an attempt to an agent elsewhere, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agenttalk.ports.agents import AttemptBase, Job
    from agenttalk.rules.proof.performance import SubmittedWork


class BaseStore(Protocol):
    """The bases of attempts, by their epochs."""

    async def find_base(self, job: Job) -> AttemptBase | None:
        """Find the base of an attempt; None before it began."""

    async def keep_base(self, job: Job, base: AttemptBase) -> AttemptBase:
        """Keep the base of an attempt, unless one is kept; return the one that is kept."""


class RepositoryTransport(Protocol):
    """Serves the base of an attempt to git, and judges the pack that comes back."""

    async def advertise(self, job: Job) -> bytes:
        """Return the one ref that there is to fetch, as git's `info/refs` answers it."""

    def serve(self, job: Job, body: bytes, coding: str) -> AsyncIterator[bytes]:
        """Answer a request of git for the base of an attempt, piece by piece. `coding` says how it is compressed.

        Raises UsageError when it asks for anything else, MachineError when too much is asked for at once.
        """

    async def inspect(self, job: Job, pack: Path) -> str:
        """Judge a pack that is to be the work of an attempt, and return its commit. Nothing of it is kept.

        Raises UsageError, with every reason, unless it is one commit on the base with a tree that is accepted.
        """

    async def keep_work(self, job: Job, work: SubmittedWork) -> bool:
        """Keep what an attempt handed in before it was lost, so that the next one begins with it.

        Returns whether there was anything that could be kept. Repeating it changes nothing.
        """
