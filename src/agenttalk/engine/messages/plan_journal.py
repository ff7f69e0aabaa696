"""Reads the journal of a plan by any writer: another party's router keeps deliveries.jsonl as ours does."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import InputError, JsonError, MissingError
from agenttalk.ports.folders import Folder

_TAIL: Final = 256 * 1024
"""Bytes at the end of a journal that are searched first, because the line of a new message is near the end."""
_PIECE: Final = 1024 * 1024


class MessageIdentity(NamedTuple):
    """A message in an inbox that a router should have delivered."""

    message_id: str
    sha256: str
    """The hash of its envelope."""


def has_mention(root: Folder, plan_id: str, text: str) -> bool:
    """Whether one of the latest lines holds a text, such as the hash of a file."""
    return text.encode() in _part(root, plan_id, max(0, _size(root, plan_id) - _TAIL), _TAIL)


def has_command(root: Folder, plan_id: str, message_id: str, receiver: str, task_id: str) -> bool:
    """Whether one of the latest lines says that a router brought this command for this task to this agent.

    Other lines name messages, too: what was refused, artifacts, and files under names that agents chose.
    """
    part = _part(root, plan_id, max(0, _size(root, plan_id) - _TAIL), _TAIL)
    for line in part.split(b"\n"):
        said = _read(line, message_id)
        told = (said.get("status"), said.get("message_id"), said.get("to_agent_id"), said.get("output_name"))
        if told == ("DELIVERED", message_id, receiver, None) and said.get("task_id") in {None, task_id}:
            return True
    return False


def _read(line: bytes, message_id: str) -> JsonObject:
    """Parse a line that may name a message; empty for any other line, and for half a line."""
    if message_id.encode() not in line:
        return {}
    try:
        said: Any = wire.read(line)
    except JsonError:
        return {}
    return said if isinstance(said, dict) else {}


class JournalSearch:
    """Searches journals for the lines that record the delivery of messages. Reads each part of a journal once."""

    def __init__(self, root: Folder, receiver: str) -> None:
        self._root = root
        self._receiver = receiver
        self._read: dict[tuple[str, MessageIdentity], int] = {}
        """Return how far the journal was read for a message that no line names yet."""

    def has_delivery(self, plan_id: str, brought: MessageIdentity) -> bool:
        """Whether a line says that a router brought this very message to the agent."""
        size = _size(self._root, plan_id)
        key = (plan_id, brought)
        if key in self._read:
            found = self._search_part(plan_id, brought, min(self._read[key], size), size)
        else:
            latest = max(0, size - _TAIL)
            found = self._search_part(plan_id, brought, latest, size) or self._search_part(plan_id, brought, 0, latest)
        if found:
            self._read.pop(key, None)
        else:
            self._read[key] = _whole_lines(self._root, plan_id, size)
        return found

    def forget(self, plan_id: str, brought: MessageIdentity) -> None:
        """Stop searching for it."""
        self._read.pop((plan_id, brought), None)

    def _search_part(self, plan_id: str, brought: MessageIdentity, start: int, end: int) -> bool:
        rest = b""
        while start < end:
            piece = _part(self._root, plan_id, start, min(_PIECE, end - start))
            if not piece:
                break
            start += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            if any(self._says(line, brought) for line in lines):
                return True
        return self._says(rest, brought)

    def _says(self, line: bytes, brought: MessageIdentity) -> bool:
        said = _read(line, brought.message_id)
        told = (said.get("status"), said.get("message_id"), said.get("to_agent_id"))
        digest = str(said.get("envelope_sha256")).removeprefix("sha256:")
        return told == ("DELIVERED", brought.message_id, self._receiver) and digest == brought.sha256[7:]


def _whole_lines(root: Folder, plan_id: str, size: int) -> int:
    """Return the offset after the last whole line of a journal."""
    start = max(0, size - _TAIL)
    last = _part(root, plan_id, start, size - start).rfind(b"\n")
    return start + last + 1 if last >= 0 else start


def _size(root: Folder, plan_id: str) -> int:
    try:
        entry = root.entry(f"{root_layout.plan_folder(plan_id)}/{root_layout.JOURNAL}")
    except (MissingError, InputError):
        return 0
    return entry.size if entry and entry.kind == "regular" else 0


def _part(root: Folder, plan_id: str, start: int, size: int) -> bytes:
    try:
        return (
            root.read_part(f"{root_layout.plan_folder(plan_id)}/{root_layout.JOURNAL}", start, size)
            if size > 0
            else b""
        )
    except (MissingError, InputError):
        return b""
