"""How long a turn may take, and which attempt it is."""

from __future__ import annotations

import pytest

from agenttalk.contracts.command import Command
from agenttalk.rules.messages.leases import LONGEST, TurnHistory, attempt_number, time_limit
from kits.samples import command


def order(**changes: object) -> Command:
    return Command.from_json(command(**changes))


@pytest.mark.parametrize(("crashes", "seconds"), [(0, 100), (1, 150), (2, 225)])
def test_each_retry_has_half_as_much_time_again(crashes: int, seconds: float) -> None:
    assert time_limit(order(timeout=100), TurnHistory(crashes=crashes)) == seconds


def test_no_time_limit_is_beyond_what_a_timer_can_do() -> None:
    assert time_limit(order(timeout=2**53 - 1), TurnHistory(crashes=5_000)) == LONGEST


def test_a_bad_score_gives_no_more_time() -> None:
    assert time_limit(order(timeout=100), TurnHistory(bad_scores=2)) == 100


def test_attempts_are_counted_for_each_command() -> None:
    assert attempt_number(None, 5, 0) == 1
    assert attempt_number(5, 5, 2) == 3
    assert attempt_number(4, 5, 2) == 1
