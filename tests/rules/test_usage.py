"""What a turn took is counted only where it is a sensible number."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.rules.usage import spent


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({}, (0, 0.0)),
        ({"tokens": 12, "cost_usd": 0.5}, (12, 0.5)),
        ({"input_tokens": 3, "output_tokens": 4}, (7, 0.0)),
        ({"tokens": True, "cost_usd": "much"}, (0, 0.0)),
        ({"tokens": -1, "cost_usd": float("nan")}, (0, 0.0)),
        ({"tokens": 10**30, "cost_usd": float("inf")}, (0, 0.0)),
    ],
)
def test_what_a_turn_took(usage: dict[str, Any], counted: tuple[int, float]) -> None:
    assert spent(usage) == counted
