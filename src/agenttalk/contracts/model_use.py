"""Which model an agent is: one that is asked over the network, or one whose file lies on this machine."""

from typing import Annotated, Final, Literal

from pydantic import Field

from agenttalk.contracts.core.base import Count, Part, Positive, Text

MODEL_DRIVERS: Final = frozenset({"llm", "local"})
"""Drivers by which an agent is a model, which has neither files nor tools."""
Provider = Literal["openai", "anthropic", "google", "ollama"]
"""Whose interface a service speaks."""
Retries = Annotated[int, Field(ge=0, le=10)]
Temperature = Annotated[float, Field(ge=0, le=2)]
Price = Annotated[float, Field(ge=0, le=1_000_000)]


class Prices(Part):
    """What a model costs, in US dollars."""

    input_per_million: Price
    """For a million tokens that it reads."""
    output_per_million: Price
    """For a million tokens that it writes."""


class LlmUse(Part):
    """Which model an agent is, with the driver `llm`."""

    provider: Provider
    """Whose interface its service speaks: `openai` (many others speak it, too: see `base_url`), `anthropic`, `google`,
    `ollama`."""
    model: Text
    """The model, by the name that the service has for it."""
    base_url: Text | None = None
    """Where the service is, if not at the provider's own address."""
    key_env: Text | None = None
    """The variable of the engine's environment that holds the key; by default `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or
    `GEMINI_API_KEY`. With a `base_url`, a key that is not named is not needed."""
    retries: Retries = 2
    """How often an answer that cannot be used goes back to it with the reason, in one turn; and how often a service
    that is busy or out of order is asked again."""
    temperature: Temperature | None = None
    """How freely it answers, from 0 to 2."""
    max_tokens: Positive | None = None
    """Tokens that one answer may have."""
    prices: Prices | None = None
    """What it costs, for budgets. Without it a price is known of well-known models only."""


class LocalUse(Part):
    """Which model an agent is, with the driver `local`."""

    model_file: Text
    """The model's GGUF file. A relative path is meant from the root."""
    context: Annotated[int, Field(ge=256, le=10_000_000)] = 4096
    """Tokens that prompt and answer may have together."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Processors that it may keep busy; by default half of them."""
    max_tokens: Positive = 512
    """Tokens that one answer may have."""
    retries: Retries = 2
    """How often an answer that cannot be used goes back to it with the reason, in one turn."""
    temperature: Temperature | None = None
    """How freely it answers; 0 is always the same."""
    seed: Count | None = None
    """Where chance begins, so that it comes out the same again."""
