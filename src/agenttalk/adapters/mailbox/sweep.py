"""Removes what killed processes left: temporary files that never got their name."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.errors import AgentTalkError, Code, MissingError

_TEMPORARY: Final = re.compile(r"\.agenttalk-[0-9a-f]{32}\.tmp")
"""How `SafeFolder` names a temporary file."""
_DRAFT: Final = re.compile(rf"{_TEMPORARY.pattern}|\.[0-9a-f]{{24}}\.tmp")
"""Under `data/` also how the store names one."""
_ANY_AGE: Final = 2**63
_DEEP: Final = 16
"""How many folders deep to search below a box, a workspace or what is published."""


def file_time(root: SafeFolder) -> int:
    """Return the current time of a root's file system in nanoseconds: the time of a file that is written now.

    The file system's clock may be another machine's. Ages are measured by it alone, so no clock has to be right.
    """
    probe = f".agenttalk-{secrets.token_hex(16)}.tmp"
    root.write(probe, b"")
    try:
        entry = root.entry(probe)
    finally:
        root.remove(probe)
    if entry is None:
        raise MissingError(Code.FILE_UNREADABLE, f"{probe} vanished from {root.path}", hint="try again")
    return entry.mtime_ns


def sweep(root: SafeFolder, older_than_seconds: float, now_ns: int) -> int:
    """Remove the temporary files of a root that are older; return how many there were. `now_ns` is from `file_time`.

    Removes only regular files with our own temporary names. Follows no symlink. Skips folders that cannot be opened.
    The age must be longer than any living process takes to write a file.
    """
    before = now_ns - int(older_than_seconds * 1_000_000_000)
    swept = _sweep(root, before, deep=0) + _sweep_below(root, root_layout.RUNTIME, before, deep=_DEEP)
    for data in ("data", "data/blobs"):
        swept += _sweep_below(root, data, before, deep=0, names=_DRAFT)
    with suppress(AgentTalkError), root.open_folder(root_layout.AGENTS) as agents:
        for agent in agents.names():
            swept += _sweep_below(agents, agent, before, deep=0)
            for part in ("inbox", "outbox", "workspace"):
                swept += _sweep_below(agents, f"{agent}/{part}", before, deep=_DEEP)
    return swept


def remove_drafts(folder: SafeFolder, relatives: Iterable[str] = ()) -> None:
    """Remove temporary files of any age from a folder and from folders in it, where no other process writes now."""
    _sweep(folder, _ANY_AGE, deep=0, names=_DRAFT)
    for relative in relatives:
        _sweep_below(folder, relative, _ANY_AGE, deep=0, names=_DRAFT)


def _sweep_below(
    above: SafeFolder, relative: str, before: int, *, deep: int, names: re.Pattern[str] = _TEMPORARY
) -> int:
    with suppress(AgentTalkError), above.open_folder(relative) as folder:
        return _sweep(folder, before, deep=deep, names=names)
    return 0


def _sweep(folder: SafeFolder, before: int, *, deep: int, names: re.Pattern[str] = _TEMPORARY) -> int:
    swept = 0
    with suppress(AgentTalkError):
        for entry in folder.scan():
            if entry.kind == "folder" and deep:
                swept += _sweep_below(folder, entry.name, before, deep=deep - 1, names=names)
            elif entry.kind == "regular" and entry.mtime_ns < before and names.fullmatch(entry.name):
                swept += folder.remove(entry.name)
    return swept
