"""What programs tell while they run: a line of JSON on their standard output, or the same to the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import JsonError

LONGEST: Final = 64 * 1024
"""Bytes of a line that is looked at."""
_KEY: Final = b'"agenttalk"'
_TEXT: Final = 500


@dataclass(frozen=True, slots=True)
class Note:
    """What a program tells: what it has used so far, and what it does."""

    usage: Mapping[str, Any] = field(default_factory=dict)
    """Since the turn began, not since the last note."""
    progress: str = ""
    """What it is doing. The same again and again means that it gets nowhere."""
    counts_only: bool = False
    """Whether it tells what was used and nothing of what is done."""
    last: bool = False
    """Whether it is told of work that is finished: nothing more is used by letting it end."""


def read_note(line: bytes) -> Note | None:
    """The note that a line of output is; None for every other line."""
    if _KEY not in line[:40] or len(line) > LONGEST:
        return None
    try:
        said = wire.read(line)
    except JsonError:
        return None
    told = said.get("agenttalk") if isinstance(said, dict) else None
    return note_of(told) if isinstance(told, dict) else None


def note_of(told: Mapping[str, Any]) -> Note:
    """A note from what was told; what makes no sense in it is left out."""
    usage, progress = told.get("usage"), told.get("progress")
    counts = usage if isinstance(usage, dict) else {}
    doing = progress.replace("\0", "\ufffd").strip()[:_TEXT] if isinstance(progress, str) else ""
    return Note(counts, doing, counts_only=not counts and not doing)  # a mere sign of life is neither


def strip_notes(stdout: bytes) -> bytes:
    """What a program printed besides its notes."""
    if _KEY not in stdout:
        return stdout
    return b"".join(line for line in stdout.splitlines(keepends=True) if read_note(line) is None)
