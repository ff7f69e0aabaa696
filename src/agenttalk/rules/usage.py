"""What a turn took, as its driver or its agent tells it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

_TOKENS: Final = ("input_tokens", "output_tokens")
_MOST: Final = 2**53
"""What is said beyond this is nonsense, and not counted."""


def spent(usage: Mapping[str, Any]) -> tuple[int, float]:
    """Tokens and dollars. What is not a sensible number counts as nothing: it was said by whoever did the turn."""
    if not usage:
        return 0, 0.0
    tokens = usage.get("tokens")
    if tokens is None:
        return sum(int(_number(usage.get(name))) for name in _TOKENS), _number(usage.get("cost_usd"))
    return int(_number(tokens)), _number(usage.get("cost_usd"))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= _MOST and math.isfinite(value) else 0.0
