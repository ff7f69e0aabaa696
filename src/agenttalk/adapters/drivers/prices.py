"""Prices of well-known models, from a table that is installed with us. Nothing is downloaded."""

from __future__ import annotations

from functools import lru_cache

from agenttalk.rules.core.usage import BilledTokens


def price_well_known(model: str, billed: BilledTokens) -> float | None:
    """Compute what one request costs in US dollars; None for a model that the table does not know."""
    if not model:
        return None
    from genai_prices import Usage, calc_price  # loading it takes a quarter of a second

    usage = Usage(
        input_tokens=billed.read + billed.cache_read + billed.cache_written,
        cache_read_tokens=billed.cache_read,
        cache_write_tokens=billed.cache_written,
        output_tokens=billed.written,
    )
    for name in _spellings(model):
        try:
            return float(calc_price(usage, name).total_price)
        except (LookupError, ValueError):
            continue
    return None


@lru_cache(maxsize=64)
def _spellings(model: str) -> tuple[str, ...]:
    """List variants of a model's name: without the service in front that some agents write, and without a suffix."""
    bare = model.rpartition("/")[2]
    return tuple(dict.fromkeys((model, bare, bare.partition("[")[0], bare.partition(":")[0])))
