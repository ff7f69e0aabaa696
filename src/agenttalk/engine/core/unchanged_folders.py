"""Folders that need not be read: the last read found nothing new, and their time has not changed since.

Finished work stays in the tree. Without this, every pass would open every folder that was ever used.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, TypeAlias

from agenttalk.ports.folders import FolderEntry

SETTLED: Final = 3.0
"""Seconds after which a change cannot have the same time as one before: file systems count in ticks of up to two."""
TRUSTED: Final = 60.0
"""Seconds for which a folder's time is trusted; then the folder is read again in any case."""

_Mark: TypeAlias = tuple[int, int]
"""Inode and time of a folder."""


@dataclass(slots=True)
class _FolderState:
    mark: _Mark
    since: float
    """When the folder was first seen with this time."""
    until: float = 0.0
    """Until when the folder is taken for unchanged."""


class UnchangedFolders:
    """Folders without news. Take `now` before the folder's entry, and the entry before reading the folder."""

    def __init__(self) -> None:
        self._seen: dict[str, _FolderState] = {}

    @staticmethod
    def now() -> float:
        """Return the time in seconds, for `holds` and `note`."""
        return time.monotonic()

    def is_unchanged(self, key: str, entry: FolderEntry, now: float) -> bool:
        """Whether nothing can have come since the last read."""
        seen = self._seen.get(key)
        return seen is not None and now < seen.until and seen.mark == (entry.inode, entry.mtime_ns)

    def record(self, key: str, entry: FolderEntry, now: float, *, news: bool) -> None:
        """Record the end of a read. A folder counts as unchanged after a while without news under the same time."""
        mark = (entry.inode, entry.mtime_ns)
        seen = self._seen.get(key)
        if news or entry.kind != "folder":
            self._seen.pop(key, None)
        elif seen is None or seen.mark != mark:
            self._seen[key] = _FolderState(mark, now)
        elif now >= seen.since + SETTLED:
            seen.until = now + TRUSTED
