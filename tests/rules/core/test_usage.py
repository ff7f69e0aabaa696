"""What a turn took is counted only where it is a sensible number."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.rules.core.usage import UsageTotals, measure_usage


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({}, UsageTotals()),
        ({"tokens": 12, "cost_usd": 0.5, "tool_calls": 3}, UsageTotals(12, 0.5, 0.0, 3)),
        ({"input_tokens": 3, "output_tokens": 4}, UsageTotals(7)),
        ({"tokens": True, "cost_usd": "much", "tool_calls": [1]}, UsageTotals()),
        ({"tokens": -1, "cost_usd": float("nan")}, UsageTotals()),
        ({"tokens": 10**30, "cost_usd": float("inf")}, UsageTotals()),
    ],
)
def test_what_a_turn_took(usage: dict[str, Any], counted: UsageTotals) -> None:
    assert measure_usage(usage) == counted
    assert measure_usage(usage, seconds=2.5) == counted._replace(seconds=2.5)


def test_what_is_used_adds_up_and_is_not_taken_back_by_telling_less() -> None:
    one, other = UsageTotals(10, 0.5, 1.0, 4), UsageTotals(3, 1.5, 2.0, 4)
    assert one.plus(other) == UsageTotals(13, 2.0, 3.0, 8)
    assert one.max_with(other) == other.max_with(one) == UsageTotals(10, 1.5, 2.0, 4)
