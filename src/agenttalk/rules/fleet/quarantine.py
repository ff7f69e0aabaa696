"""When a worker gets no more work because it fails by itself, and not because of the work."""

from __future__ import annotations

from typing import Final

from agenttalk.rules.core.task_states import TurnEnding

MOST_FAILURES: Final = 5
"""Failures in a row after which a worker is quarantined."""
_OF_THE_WORKER: Final[frozenset[TurnEnding]] = frozenset({"not_started", "lost"})


def count_failures(failures: int, how: TurnEnding) -> int:
    """Count the failures of a worker in a row, after an attempt that ended so. What an agent does is not its fault."""
    return failures + 1 if how in _OF_THE_WORKER else 0


def is_quarantined(failures: int) -> bool:
    """Whether a worker that failed so often in a row gets no more work until an operator says so."""
    return failures >= MOST_FAILURES
