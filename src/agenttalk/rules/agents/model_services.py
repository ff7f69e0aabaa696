"""Services of models: the variables of their keys, their prices, and when to retry."""

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
"""Provider → the variable with its key, if the profile names none."""
OLLAMA: Final = "http://127.0.0.1:11434/v1"
"""The default address of Ollama."""
LONGEST_PAUSE: Final = 60.0
"""The longest pause in seconds before a retry, if the service does not set one."""
_ADDRESS: Final = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?\Z")
_PER_TOKEN: Final = 4
"""Characters per token, roughly."""


def check_model_use(use: LlmUse | LocalUse | None, driver: str) -> LlmUse | LocalUse:
    """Check the use of a model, and return it. Raises ValueError with what to do if the model cannot be asked."""
    if use is None:
        keys = "provider and model" if driver == "llm" else "model_file"
        raise ValueError(f"it is not said which model it is; add {driver} with {keys}")
    if not isinstance(use, LlmUse):
        return use
    if use.key_env is not None and use.key_env.upper().startswith("AGENTTALK"):
        raise ValueError("variables that begin with AGENTTALK are not handed over; name another in key_env")
    if use.base_url is not None and not _ADDRESS.match(use.base_url):
        raise ValueError("base_url is not a plain address; write https://… without name, password and query")
    return use


def key_of(use: LlmUse) -> str | None:
    """Return the name of the variable with the key; None if the service needs no key."""
    if use.key_env is not None:
        return use.key_env
    return None if use.base_url is not None else KEYS.get(use.provider)


def compute_price(prices: Prices, read: int, written: int) -> float:
    """Compute the cost of tokens in US dollars."""
    return (read * prices.input_per_million + written * prices.output_per_million) / 1_000_000


def price_request(prices: Prices, billed: BilledTokens) -> float:
    """Compute the cost of a request by configured prices. They have none for caches, so cached tokens count as read."""
    return compute_price(prices, billed.read + billed.cache_read + billed.cache_written, billed.written)


def estimate_tokens(characters: int) -> int:
    """Estimate the tokens of a text, for a service that does not report them."""
    return -(-characters // _PER_TOKEN)


def compute_pause(times: int, *, retries: int, asked: float | None, left: float) -> float | None:
    """Return the seconds to wait before a retry; None if a retry is useless.

    `times` counts how often it has failed, from 1; `asked` is what the service wants. It is never asked sooner.
    """
    if times > retries:
        return None
    wait = asked if asked is not None else min(LONGEST_PAUSE, 0.5 * 4 ** (times - 1))
    return max(0.0, wait) if wait < left else None
