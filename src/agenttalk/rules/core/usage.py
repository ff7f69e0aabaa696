"""The usage of a turn: tokens, cost, time and tool calls, as its driver or its agent reports them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

_TOKENS: Final = ("input_tokens", "output_tokens")
_MOST: Final = 2**53
"""Reported numbers above this are not believable, and count as zero."""


class UsageTotals(NamedTuple):
    """Tokens, cost, time and tool calls."""

    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    tool_calls: int = 0

    def plus(self, other: UsageTotals) -> UsageTotals:
        """Add two usages."""
        return UsageTotals(
            self.tokens + other.tokens,
            self.cost_usd + other.cost_usd,
            self.seconds + other.seconds,
            self.tool_calls + other.tool_calls,
        )

    def max_with(self, other: UsageTotals) -> UsageTotals:
        """Take the larger of each number, so that a smaller later report does not lower the usage."""
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
    """Input tokens that were not cached."""
    written: int = 0
    cache_read: int = 0
    cache_written: int = 0


UNBILLED: Final = BilledTokens()
PriceLookup: TypeAlias = Callable[[str, BilledTokens], float | None]
"""Looks up the price of a request to a model in US dollars. None if the model is unknown."""


def unpriced(_model: str, _billed: BilledTokens) -> float | None:
    """Return None: no price is known."""
    return None


class Bill:
    """Adds up the cost of the requests of one run.

    Each request is priced by itself, since services charge more for long ones. A request that grows is reported several
    times; only its highest cost counts.
    """

    def __init__(self, price: PriceLookup) -> None:
        self._price = price
        self._past = 0.0
        self._now = 0.0
        self._request = ""
        self.unknown = ""
        """A model without a known price; empty if all have one."""

    def add(self, model: str, request: str, billed: BilledTokens) -> float:
        """Count the tokens of a request so far. Returns the cost of all requests."""
        if request != self._request:
            self._past, self._now, self._request = self._past + self._now, 0.0, request
        cost = self._price(model, billed)
        if cost is None:
            self.unknown = model or "?"
        else:
            self._now = max(self._now, cost)
        return self._past + self._now


def measure_usage(usage: Mapping[str, Any], *, seconds: float = 0.0) -> UsageTotals:
    """Read the usage that an agent or driver reported; we measured the time ourselves.

    A value that is not a believable number counts as zero, because the agent may report anything.
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
    """Read a reported number. A value that is not a believable number counts as zero."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= _MOST and math.isfinite(value) else 0.0
