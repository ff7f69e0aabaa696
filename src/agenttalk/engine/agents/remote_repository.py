"""The repository of a task whose agent works elsewhere: what it fetches, and the tree that it hands in.

Both need an attempt that is under way, under the epoch that the address names. A tree is judged, stored and only then
acknowledged, so any engine can take it; a later one takes its place, until the result ends the attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, TypedDict

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.engine.agents.remote import RemoteAgents, hand_in, read_open_attempt
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.ports.agents import Job
from agenttalk.ports.storage import Tx
from agenttalk.ports.transport import RepositoryTransport

TREE: Final = "tree"
"""The kind of row for the work of an attempt."""


class HandedInTree(TypedDict):
    """A tree that a remote agent handed in."""

    task: str
    epoch: int
    commit: str
    sha256: str
    size: int


class RemoteRepository:
    """Serves the repositories of attempts that remote agents have."""

    def __init__(self, deps: Deps, agents: RemoteAgents) -> None:
        self._deps = deps
        self._agents = agents

    @property
    def most_bytes(self) -> int:
        """How large a pack may be."""
        return self._deps.limits.payload_bytes

    async def advertise(self, task: TaskName, caller: Caller) -> bytes:
        """Return the one ref that an attempt may fetch. Raises UsageError when there is none."""
        return await self._transport.advertise(await self._open(task, caller))

    async def serve(self, task: TaskName, caller: Caller, body: bytes, coding: str) -> AsyncGenerator[bytes, None]:
        """Answer a request of git for that ref, piece by piece. Raises UsageError when it asks for anything else."""
        job = await self._open(task, caller)
        async for piece in self._transport.serve(job, body, coding):
            yield piece

    async def submit(
        self, task: TaskName, caller: Caller, pack: Path, sha256: str, *, kind: str = TREE
    ) -> HandedInTree:
        """Take in the tree of an attempt, as a pack. The same one again changes nothing; another one replaces it.

        A SNAPSHOT counts only when the attempt is lost: the next one begins with it.

        Raises UsageError when it is refused, or comes too late.
        """
        job = await self._open(task, caller)
        store = await self._deps.stores.board(job.board)
        rows = await store.transact(lambda tx: read_open_attempt(tx, task, caller, job))
        size = (await asyncio.to_thread(pack.stat)).st_size
        commit = next((bytes(row.body).decode() for row in rows if row.kind == kind and row.sha256 == sha256), "")
        if not commit:
            commit = await self._transport.inspect(job, pack)
            with pack.open("rb") as file:
                await (await self._deps.stores.blobs(job.board)).put(file)
            at = self._deps.stamp()

            def work(tx: Tx) -> None:
                read_open_attempt(tx, task, caller, job)
                hand_in(tx, job, kind, sha256=sha256, size=size, body=commit.encode(), at=at)

            await store.transact(work)
        subject = f"{job.plan_id}/{job.task_id}"
        return {"task": subject, "epoch": job.epoch, "commit": commit, "sha256": sha256, "size": size}

    @property
    def _transport(self) -> RepositoryTransport:
        if self._agents.transport is None:
            raise MachineError(Code.ENGINE_UNREACHABLE, "this process serves no repositories", hint="ask the engine")
        return self._agents.transport

    async def _open(self, task: TaskName, caller: Caller) -> Job:
        job = await self._agents.find_job(task, caller)
        if job.base is None:
            hint = "a task with 'workspace: repo' has one"
            raise UsageError(Code.NOT_ALLOWED, "the task of this attempt has no repository", hint=hint)
        return job
