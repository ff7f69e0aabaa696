"""What a turn took is counted only where it is a sensible number."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.rules.core.usage import Used, spent


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({}, Used()),
        ({"tokens": 12, "cost_usd": 0.5, "tool_calls": 3}, Used(12, 0.5, 0.0, 3)),
        ({"input_tokens": 3, "output_tokens": 4}, Used(7)),
        ({"tokens": True, "cost_usd": "much", "tool_calls": [1]}, Used()),
        ({"tokens": -1, "cost_usd": float("nan")}, Used()),
        ({"tokens": 10**30, "cost_usd": float("inf")}, Used()),
    ],
)
def test_what_a_turn_took(usage: dict[str, Any], counted: Used) -> None:
    assert spent(usage) == counted
    assert spent(usage, seconds=2.5) == counted._replace(seconds=2.5)


def test_what_is_used_adds_up_and_is_not_taken_back_by_telling_less() -> None:
    one, other = Used(10, 0.5, 1.0, 4), Used(3, 1.5, 2.0, 4)
    assert one.plus(other) == Used(13, 2.0, 3.0, 8)
    assert one.most(other) == other.most(one) == Used(10, 1.5, 2.0, 4)
