"""The logs of attempts on workers, at the engine: the events of an agent, readable here while it runs.

A worker sends whole lines from an offset on, and the answer says where the log goes on. So a piece that comes twice
changes nothing, nothing is written behind a hole, and an engine that has none of a log gets all of it. The file is the
one that an agent of this machine would have.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.agents.remote import RemoteAgents
from agenttalk.engine.agents.transcript import LARGEST, find_path, read_piece
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.ports.agents import Job
from agenttalk.rules.agents.events import AgentEvent
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.text import turn_words

PIECE_BYTES: Final = 256 * 1024
"""The largest piece of a log."""
_RECORD: Final = "events"
"""The field of a performance's usage that describes its log."""


class WorkerLogs:
    """Writes what workers send of the logs of their attempts."""

    def __init__(self, deps: Deps, agents: RemoteAgents) -> None:
        self._deps = deps
        self._agents = agents
        self._writing = asyncio.Lock()

    async def append(self, task: TaskName, caller: Caller, at: int, data: bytes) -> int:
        """Take a piece of a log that begins at an offset. Returns the offset at which the log goes on.

        Raises UsageError for a piece that does not end with a line, and for a log that is too long.
        """
        job = await self._agents.find_job(task, caller)
        if data and not data.endswith(b"\n"):
            raise UsageError(Code.FIELD_VALUE, "a piece of a log ends with a line", hint="send whole lines")
        async with self._writing:
            return await asyncio.to_thread(self._write, _path_of(job), at, data)

    def _write(self, path: str, at: int, data: bytes) -> int:
        root = self._deps.root
        entry = root.entry(path)
        size = entry.size if entry is not None else 0
        new = data[size - at :] if at <= size else b""
        if size + len(new) > LARGEST:
            raise UsageError(Code.FILE_TOO_LARGE, f"a log has at most {LARGEST:,} bytes", hint="the rest is not kept")
        if new:
            root.append(path, self._deps.secret_guard.secrets.mask_bytes(new), at=size)
        return size + len(new)

    async def close(self, job: Job, performance: Performance) -> Performance:
        """Compare the log with what its worker said of it. A part that is missing is shown as a hole at its end."""
        told = performance.usage.get(_RECORD)
        if not isinstance(told, dict):
            return performance
        record = await asyncio.to_thread(self._close, _path_of(job), told)
        return replace(performance, usage={**performance.usage, _RECORD: record})

    def _close(self, path: str, told: dict[str, Any]) -> dict[str, Any]:
        root = self._deps.root
        data = read_piece(root, path, 0, LARGEST)
        said, sent = told.get("bytes"), told.get("sha256")
        own = f"sha256:{sha256(data).hexdigest()}"
        record = {"file": path, "count": told.get("count"), "bytes": len(data), "sha256": own}
        missing = said - len(data) if isinstance(said, int) else 0
        if missing > 0:
            hole = AgentEvent("warning", turn_words.LOG_HOLE(bytes=missing)).as_json()
            root.append(path, wire.write({"at": self._deps.stamp(), **hole}) + b"\n", at=len(data))
            return {**record, "missing": missing, "sent_sha256": sent}
        return record if sent == own else {**record, "sent_sha256": sent}


def _path_of(job: Job) -> str:
    return find_path(job.agent_id, job.plan_id, job.task_id, job.command.command_id, job.attempt)
