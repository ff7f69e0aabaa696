"""Computes the time limit of a turn and the number of its attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.command import Command

LONGEST: Final = 10**9
"""Seconds; beyond it no timer is precise."""


@dataclass(frozen=True, slots=True)
class TurnHistory:
    """The ended turns of a command, without those that ended because the engine died."""

    crashes: int = 0
    """Turns in which the program failed or took too long."""
    bad_scores: int = 0
    """Turns whose score was missing or invalid."""


NO_TURNS: Final = TurnHistory()


def time_limit(command: Command, history: TurnHistory) -> float:
    """Compute the seconds of the next turn: each retry has 1.5 times the time of the one before."""
    return min(command.timeout * 1.5 ** min(history.crashes, 60), LONGEST)


def attempt_number(last_delivery: int | None, delivery: int, last_attempt: int) -> int:
    """Return the number of the next attempt; each command begins with 1."""
    return last_attempt + 1 if last_delivery == delivery else 1
