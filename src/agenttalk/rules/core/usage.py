"""What a turn took, as its driver or its agent tells it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

_TOKENS: Final = ("input_tokens", "output_tokens")
_MOST: Final = 2**53
"""What is said beyond this is nonsense, and not counted."""


class UsageTotals(NamedTuple):
    """What was used."""

    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    tool_calls: int = 0

    def plus(self, other: UsageTotals) -> UsageTotals:
        """Both together."""
        return UsageTotals(
            self.tokens + other.tokens,
            self.cost_usd + other.cost_usd,
            self.seconds + other.seconds,
            self.tool_calls + other.tool_calls,
        )

    def max_with(self, other: UsageTotals) -> UsageTotals:
        """Of each the larger: who told more before does not get it back by telling less."""
        return UsageTotals(
            max(self.tokens, other.tokens),
            max(self.cost_usd, other.cost_usd),
            max(self.seconds, other.seconds),
            max(self.tool_calls, other.tool_calls),
        )


NOTHING: Final = UsageTotals()


class BilledTokens(NamedTuple):
    """The tokens of one request to a model, as services charge for them."""

    read: int = 0
    """Tokens that it read and that were in no cache."""
    written: int = 0
    cache_read: int = 0
    cache_written: int = 0


UNBILLED: Final = BilledTokens()
PriceLookup: TypeAlias = Callable[[str, BilledTokens], float | None]
"""What one request to a model costs in US dollars; None if nothing is known of the model."""


def unpriced(_model: str, _billed: BilledTokens) -> float | None:
    """Nothing is known of any model."""
    return None


class Bill:
    """What the requests of one run cost, priced as they come.

    Each is priced by itself, since services charge more for long ones; the same one is told of again while it grows.
    """

    def __init__(self, price: PriceLookup) -> None:
        self._price = price
        self._past = 0.0
        self._now = 0.0
        self._request = ""
        self.unknown = ""
        """The model of which no price is known; empty if there is none."""

    def add(self, model: str, request: str, billed: BilledTokens) -> float:
        """What all of it costs when a request has used so much."""
        if request != self._request:
            self._past, self._now, self._request = self._past + self._now, 0.0, request
        cost = self._price(model, billed)
        if cost is None:
            self.unknown = model or "?"
        else:
            self._now = max(self._now, cost)
        return self._past + self._now


def measure_usage(usage: Mapping[str, Any], *, seconds: float = 0.0) -> UsageTotals:
    """What was used, of which we measured the time ourselves.

    What is not a sensible number counts as nothing: it was said by whoever did the turn.
    """
    if not usage:
        return UsageTotals(seconds=seconds)
    tokens = usage.get("tokens")
    if tokens is None:
        counted = sum(int(read_number(usage.get(name))) for name in _TOKENS)
    else:
        counted = int(read_number(tokens))
    return UsageTotals(counted, read_number(usage.get("cost_usd")), seconds, int(read_number(usage.get("tool_calls"))))


def read_number(value: object) -> float:
    """A number that somebody told of itself; what is none, or nonsense, is nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= _MOST and math.isfinite(value) else 0.0
