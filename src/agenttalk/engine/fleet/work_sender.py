"""Sends an engine what an attempt has so far: its log, as it grows, and now and then its tree.

The log is the transcript on the worker's disk, so what was not sent yet is not lost. A snapshot of the tree is what the
next attempt begins with when this one is lost.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, MachineError, UsageError
from agenttalk.contracts.worker import AttemptName, WorkerJob
from agenttalk.engine.agents.transcript import find_path, read_piece
from agenttalk.engine.fleet.worker_logs import PIECE_BYTES
from agenttalk.ports.fleet import AttemptTrees, EngineLink
from agenttalk.ports.folders import Folder

LOG = logging.getLogger(__name__)
LAST_SECONDS: Final = 5.0
"""Seconds that a worker takes at its start for the log of an attempt that it lost."""


class WorkSender:
    """Sends what one attempt has so far."""

    def __init__(
        self,
        root: Folder,
        link: EngineLink,
        trees: AttemptTrees,
        attempt: AttemptName,
        job: WorkerJob,
        *,
        log_seconds: float,
    ) -> None:
        """`log_seconds` are those between two looks at a log that grows."""
        self._root = root
        self._link = link
        self._trees = trees
        self._attempt = attempt
        self._job = job
        self._path = find_path(job.agent_id, attempt.plan_id, attempt.task_id, job.command.command_id, job.attempt)
        self._log_seconds = log_seconds
        self._at = 0
        """Where the log goes on, as the engine said."""
        self._snapshot = ""
        """The hash of the last snapshot."""

    async def follow(self) -> None:
        """Send the log and snapshots until this is cancelled. What the engine does not take is not sent again."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_log())
            if self._job.snapshot_seconds and self._job.repository is not None and self._job.repository.snapshot:
                group.create_task(self._follow_tree(self._job.snapshot_seconds))

    async def _follow_log(self) -> None:
        while True:
            await asyncio.sleep(self._log_seconds)
            try:
                await self.send_log()
            except MachineError:  # the engine does not answer, and the syncs say so
                continue
            except UsageError as error:
                LOG.warning("the log is not sent: %s", error.message, extra={"action": "worker.log"})
                return

    async def send_log(self) -> None:
        """Send all whole lines of the log that the engine does not have."""
        while self._job.log_bytes:
            piece = await asyncio.to_thread(read_piece, self._root, self._path, self._at, PIECE_BYTES)
            piece = piece[: piece.rfind(b"\n") + 1]
            if not piece or self._at + len(piece) > self._job.log_bytes:
                return
            before, self._at = self._at, await self._link.send_log(self._attempt, self._at, piece)
            if self._at == before:
                return

    async def send_last_log(self) -> None:
        """Send what is left of the log of an attempt that was lost, unless that takes long."""
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.send_log()
        except (AgentTalkError, TimeoutError) as error:
            LOG.warning("the log is not sent: %s", error, extra={"action": "worker.log"})

    async def _follow_tree(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.send_snapshot()
            except MachineError as error:
                LOG.warning("no snapshot is sent: %s", error.message, extra={"action": "worker.snapshot"})
            except AgentTalkError as error:  # a tree that is refused, while the agent works on it
                LOG.info("no snapshot is sent: %s", error.message, extra={"action": "worker.snapshot"})

    async def send_snapshot(self) -> None:
        """Send the tree as it is, unless the engine has it."""
        base = self._job.repository
        if base is None:
            return
        pack = await self._trees.take(self._attempt, self._job)
        digest = wire.sha256(pack)
        if pack and digest != self._snapshot:
            await self._link.submit_snapshot(base, pack)
            self._snapshot = digest
