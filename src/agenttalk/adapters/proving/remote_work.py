"""Work in a repository by agents elsewhere: what they fetch, and the pack that they hand in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from agenttalk.adapters.proving import evidence_inputs as inputs
from agenttalk.adapters.proving.plan_workspaces import PlanWorkspaces
from agenttalk.adapters.workspaces.async_methods import in_thread
from agenttalk.adapters.workspaces.results import AttemptCommit, TreeRefusal
from agenttalk.adapters.workspaces.transport.fetch_request import decompress, read_fetch_request
from agenttalk.adapters.workspaces.transport.pack_size import refuse_pack
from agenttalk.adapters.workspaces.transport.submitted_tree import SubmittedTree
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.ports.agents import AttemptBase, Job
from agenttalk.ports.storage import Blobs, Clock
from agenttalk.ports.transport import BaseStore
from agenttalk.rules.checks.protection import Boundary
from agenttalk.rules.proof.performance import SubmittedWork

AT_ONCE: Final = 8
"""Processes of git that serve agents elsewhere."""
OWN_AT_ONCE: Final = 2
"""Those for one attempt."""
MOST_WAITING: Final = 100
"""Requests of one attempt that may wait for that."""
_SHOWN: Final = 20
_PIECE: Final = 1 << 20


class RequestSlots:
    """Lets a few requests through at once, and a few of each attempt. Others wait; too many are refused."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(AT_ONCE)
        self._own: dict[str, asyncio.Semaphore] = {}
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def hold(self, lease: str) -> AsyncIterator[None]:
        """Hold a place until the block ends. Raises MachineError when too many wait for one."""
        if self._waiting[lease] >= MOST_WAITING:
            message = "this attempt asks for its repository too often at once"
            raise MachineError(Code.ENGINE_UNREACHABLE, message, hint="try again when the others are answered")
        self._waiting[lease] += 1
        own = self._own.setdefault(lease, asyncio.Semaphore(OWN_AT_ONCE))
        try:
            async with own, self._all:
                yield
        finally:
            self._waiting[lease] -= 1
            if not self._waiting[lease]:
                del self._waiting[lease], self._own[lease]


class RemoteWork:
    """Serves the bases of attempts, and takes their packs. Implements `RepositoryTransport`."""

    def __init__(
        self, workspaces: PlanWorkspaces, bases: BaseStore, blobs: Callable[[str], Awaitable[Blobs]], clock: Clock
    ) -> None:
        self._workspaces = workspaces
        self._bases = bases
        self._blobs = blobs
        self._clock = clock
        self._slots = RequestSlots()

    async def begin(self, space: PlanWorkspace, job: Job, tip: str, boundary: Boundary) -> tuple[AttemptBase, str]:
        """Return what an attempt builds on, and the previous attempt as a patch if that does not merge.

        An attempt that goes on after an engine ended keeps its base, because its agent may have fetched that.
        """
        kept = await self._bases.find_base(job)
        start, patch = await space.attempts.start_elsewhere(
            inputs.attempt_of(job),
            at=self._clock.now(),
            onto=kept.onto if kept is not None else tip,
            previous=await inputs.previous_of(space, job),
            protected=boundary,
            kept=kept.start if kept is not None else "",
        )
        return kept or await self._bases.keep_base(job, AttemptBase(start, tip)), patch

    async def advertise(self, job: Job) -> bytes:
        """Return the one ref; see the port."""
        base, space = _base_of(job), await self._workspaces.open_for(job)
        async with self._slots.hold(job.lease):
            return await space.uploads.advertise(base.start)

    async def serve(self, job: Job, body: bytes, coding: str) -> AsyncIterator[bytes]:
        """Answer a request of git; see the port."""
        base, space = _base_of(job), await self._workspaces.open_for(job)
        request = read_fetch_request(decompress(body, coding), base.start)
        async with self._slots.hold(job.lease):
            async for piece in space.uploads.stream(base.start, request):
                yield piece

    async def inspect(self, job: Job, pack: Path) -> str:
        """Judge a pack; see the port."""
        base, space = _base_of(job), await self._workspaces.open_for(job)
        receive = space.attempts.receiver.receive
        async with self._slots.hold(job.lease):
            found = await in_thread(receive, pack, base.start, base.onto, keep=False)
        if isinstance(found, SubmittedTree):
            return found.commit
        reasons = "; ".join(f"{reason.path!r}: {reason.why}" for reason in found[:_SHOWN])
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise refuse_pack(f"{reasons}{more}")

    async def keep_work(self, job: Job, work: SubmittedWork) -> bool:
        """Keep what a lost attempt handed in; see the port."""
        taken = await self.take(await self._workspaces.open_for(job), job, work)
        return not isinstance(taken, TreeRefusal) and bool(taken.changes)

    async def take(self, space: PlanWorkspace, job: Job, work: SubmittedWork) -> AttemptCommit | TreeRefusal:
        """Keep what was handed in as the commit of an attempt. Repeating it makes the same commit."""
        with NamedTemporaryFile() as file:
            if work.pack:
                blobs, at = await self._blobs(job.board), 0
                while piece := await blobs.read_piece(work.pack, at, _PIECE):
                    file.write(piece)
                    at += len(piece)
                file.flush()
            return await space.attempts.take_submitted(
                inputs.attempt_of(job),
                Path(file.name) if work.pack else None,
                start=work.start,
                onto=work.onto,
                at=self._clock.now(),
            )


def _base_of(job: Job) -> AttemptBase:
    if job.base is None:
        hint = "a task with 'workspace: repo' has one"
        raise UsageError(Code.NOT_ALLOWED, "the task of this attempt has no repository", hint=hint)
    return job.base
