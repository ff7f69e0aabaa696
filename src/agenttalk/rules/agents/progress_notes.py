"""Progress notes of running programs: lines of JSON on standard output, or the same body sent to the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import JsonError

LONGEST: Final = 64 * 1024
"""The most bytes of a note."""
_KEY: Final = b'"agenttalk"'
_TEXT: Final = 500


@dataclass(frozen=True, slots=True)
class Note:
    """A note: the program's usage so far, and its progress."""

    usage: Mapping[str, Any] = field(default_factory=dict)
    """The usage since the turn began, not since the last note."""
    progress: str = ""
    """What the program is doing. Many equal notes in a row mean that it is stuck."""
    tool: str = ""
    """The tool that the program uses, if it is a coding agent that says so."""
    file: str = ""
    """The file that the tool is used on."""
    counts_only: bool = False
    """Whether the note has usage and no progress."""
    last: bool = False
    """Whether the usage belongs to finished work, so that stopping the program would save nothing."""


def read_note(line: bytes) -> Note | None:
    """Read a line of output as a note. None for every other line."""
    if _KEY not in line[:40] or len(line) > LONGEST:
        return None
    try:
        said = wire.read(line)
    except JsonError:
        return None
    told = said.get("agenttalk") if isinstance(said, dict) else None
    return note_of(told) if isinstance(told, dict) else None


def note_of(told: Mapping[str, Any]) -> Note:
    """Make a note from a JSON object. Invalid values are left out."""
    usage, progress = told.get("usage"), told.get("progress")
    counts = usage if isinstance(usage, dict) else {}
    doing = progress.replace("\0", "\ufffd").strip()[:_TEXT] if isinstance(progress, str) else ""
    return Note(counts, doing, counts_only=not counts and not doing)  # a mere sign of life is neither


def strip_notes(stdout: bytes) -> bytes:
    """Return a program's output without its notes."""
    if _KEY not in stdout:
        return stdout
    return b"".join(line for line in stdout.splitlines(keepends=True) if read_note(line) is None)
