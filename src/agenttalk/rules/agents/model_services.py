"""Services that answer for a model: by which variable they are paid, what they cost, and when to ask them again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agenttalk.contracts.model_use import LlmUse, LocalUse, Prices, Provider
from agenttalk.rules.core.usage import BilledTokens

KEYS: Final[Mapping[Provider, str]] = MappingProxyType(
    {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GEMINI_API_KEY"}
)
"""The variable that holds a provider's key, where the profile does not say it."""
OLLAMA: Final = "http://127.0.0.1:11434/v1"
"""Where Ollama listens by itself."""
LONGEST_PAUSE: Final = 60.0
"""Seconds after which a service is asked again at the latest, if it does not say itself."""
_ADDRESS: Final = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?\Z")
_PER_TOKEN: Final = 4
"""Characters of a token, about."""


def check_model_use(use: LlmUse | LocalUse | None, driver: str) -> LlmUse | LocalUse:
    """The same model. Raises ValueError, with what to do, for one that cannot be asked like this."""
    if use is None:
        keys = "provider and model" if driver == "llm" else "model_file"
        raise ValueError(f"it is not said which model it is; add {driver} with {keys}")
    if not isinstance(use, LlmUse):
        return use
    if use.key_env is not None and use.key_env.upper().startswith("AGENTTALK"):
        raise ValueError("variables that begin with AGENTTALK are not handed over; name another in key_env")
    if use.base_url is not None and not _ADDRESS.match(use.base_url):
        raise ValueError("base_url is no plain address; write https://… without name, password and query")
    return use


def key_of(use: LlmUse) -> str | None:
    """The variable that holds the key; None when none is needed."""
    if use.key_env is not None:
        return use.key_env
    return None if use.base_url is not None else KEYS.get(use.provider)


def compute_price(prices: Prices, read: int, written: int) -> float:
    """What so many tokens cost, in US dollars."""
    return (read * prices.input_per_million + written * prices.output_per_million) / 1_000_000


def price_request(prices: Prices, billed: BilledTokens) -> float:
    """What one request costs by prices that somebody wrote down; they know no cache, so what it held counts as read."""
    return compute_price(prices, billed.read + billed.cache_read + billed.cache_written, billed.written)


def estimate_tokens(characters: int) -> int:
    """About how many tokens a text has, for a service that does not say it."""
    return -(-characters // _PER_TOKEN)


def compute_pause(times: int, *, retries: int, asked: float | None, left: float) -> float | None:
    """Seconds to wait before a service is asked again that did not answer; None when there is no use in it.

    `times` counts how often it has failed, from 1; `asked` is what the service wants. It is never asked sooner.
    """
    if times > retries:
        return None
    wait = asked if asked is not None else min(LONGEST_PAUSE, 0.5 * 4 ** (times - 1))
    return max(0.0, wait) if wait < left else None
