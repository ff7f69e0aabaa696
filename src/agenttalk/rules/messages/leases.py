"""How long a turn may take, and which attempt it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.command import Command

LONGEST: Final = 10**9
"""Seconds; beyond it no timer is precise."""


@dataclass(frozen=True, slots=True)
class TurnHistory:
    """The turns of a command that have ended. Turns that ended because we died are not among them."""

    crashes: int = 0
    """Turns in which the program failed or took too long."""
    bad_scores: int = 0
    """Turns whose score was missing or no score."""


NO_TURNS: Final = TurnHistory()


def time_limit(command: Command, history: TurnHistory) -> float:
    """How long the next turn may take: each retry has 1.5 times the time of the one before."""
    return min(command.timeout * 1.5 ** min(history.crashes, 60), LONGEST)


def attempt_number(last_delivery: int | None, delivery: int, last_attempt: int) -> int:
    """The number of the next attempt; each command begins with 1."""
    return last_attempt + 1 if last_delivery == delivery else 1
