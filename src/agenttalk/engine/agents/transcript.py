"""Writes down the events of a coding agent while it runs: one line of JSON for each event.

The file lies beside the attempt's folder, where an agent in a sandbox cannot write. Its hash goes into the ledger
when the turn has ended. It is for people; nothing is decided by it. What a turn cost whose engine died is read there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import AgentTalkError, JsonError
from agenttalk.engine.core.attempt_paths import TURNS
from agenttalk.ports.folders import Folder
from agenttalk.rules.agents.events import AgentEvent
from agenttalk.rules.core.usage import NOTHING, UsageTotals, measure_usage

ENDING: Final = ".events.jsonl"
"""Stands behind the name of the attempt's folder in that of the file."""
LARGEST: Final = 4 * 1024 * 1024
"""Bytes that are written of one attempt."""


def find_path(agent_id: str, plan_id: str, task_id: str, command_id: str, attempt: int) -> str:
    """Return the path of an attempt's transcript under its root."""
    return f"{root_layout.task_folder(agent_id, plan_id, task_id)}/{TURNS}/{command_id}-{attempt}{ENDING}"


def read_piece(root: Folder, path: str, after: int, count: int) -> bytes:
    """Return some bytes of a transcript from an offset on; nothing where there is no such file."""
    try:
        with root.stream(path, LARGEST) as stream:
            skipped = 0
            while skipped < after and (piece := stream.read(min(count, after - skipped))):
                skipped += len(piece)
            return stream.read(count)
    except AgentTalkError:
        return b""


@dataclass(slots=True)
class Transcript:
    """The file of one attempt."""

    root: Folder
    path: str
    count: int = 0
    """Events so far."""
    written: int = 0
    _at: int = 0
    _hash: Any = field(default_factory=sha256)

    def add(self, event: AgentEvent, at: str) -> None:
        """Write an event down. Where that is not possible the turn goes on without."""
        self.count += 1
        line = wire.write({"at": at, **event.as_json()}) + b"\n"
        if self._at + len(line) > LARGEST:
            return
        try:
            self.root.append(self.path, line, at=self._at)
        except (AgentTalkError, OSError):
            return
        self._hash.update(line)
        self._at += len(line)
        self.written += 1

    def to_json(self) -> dict[str, str | int]:
        """Return the record of the transcript for the ledger."""
        digest = f"sha256:{self._hash.hexdigest()}"
        told: dict[str, str | int] = {"file": self.path, "count": self.count, "bytes": self._at, "sha256": digest}
        return told if self.written == self.count else {**told, "written": self.written}


def read_used(root: Folder, path: str) -> UsageTotals:
    """Read the usage of an attempt by its last event; nothing if the file cannot be read."""
    try:
        lines = root.read(path, LARGEST).splitlines()
    except (AgentTalkError, OSError):
        return NOTHING
    found, tools = NOTHING, 0
    for line in lines:
        try:
            said = wire.read(line)
        except JsonError:  # the last one, while it was written
            continue
        if isinstance(said, dict):
            tools += said.get("kind") == "tool"
            found = found.max_with(measure_usage(said)) if said.get("kind") == "usage" else found
    return found.max_with(UsageTotals(tool_calls=tools))
