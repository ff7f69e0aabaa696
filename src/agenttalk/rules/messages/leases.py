"""When a turn may begin, how long it may take, and what follows from how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from agenttalk.contracts.command import Command
from agenttalk.contracts.errors import Code

LONGEST: Final = 10**9
"""Seconds; beyond it no timer is precise."""
SCORE_TRIES: Final = 2
"""How often an agent is sent back because of its score."""
SCORE_CODES: Final = frozenset({Code.SCORE_MISSING, Code.SCORE_INVALID})

Step = Literal["done", "again", "failed"]


@dataclass(frozen=True, slots=True)
class TurnHistory:
    """The turns of a command that have ended. Turns that ended because we died are not among them."""

    crashes: int = 0
    """Turns in which the program failed or took too long."""
    bad_scores: int = 0
    """Turns whose score was missing or no score."""

    @classmethod
    def from_codes(cls, codes: list[str | None]) -> TurnHistory:
        """From the codes with which the turns ended."""
        bad = sum(code in SCORE_CODES for code in codes)
        return cls(crashes=len(codes) - bad, bad_scores=bad)


def time_limit(command: Command, history: TurnHistory) -> float:
    """How long the next turn may take: each retry has 1.5 times the time of the one before."""
    return min(command.timeout * 1.5 ** min(history.crashes, 60), LONGEST)


def decide_next_step(command: Command, history: TurnHistory, code: Code | None) -> Step:
    """What follows when a turn ended with a code (None: everything is there).

    A crash or a timeout is retried as often as the command says. A bad score is sent back, whatever the
    command says of retries. What else is wrong would be wrong again.
    """
    if code is None:
        return "done"
    if code in SCORE_CODES:
        return "again" if history.bad_scores < SCORE_TRIES else "failed"
    if code is Code.COMMAND_FAILED:
        return "again" if history.crashes < command.retry_times else "failed"
    return "failed"


def attempt_number(last_delivery: int | None, delivery: int, last_attempt: int) -> int:
    """The number of the next attempt; each command begins with 1."""
    return last_attempt + 1 if last_delivery == delivery else 1
