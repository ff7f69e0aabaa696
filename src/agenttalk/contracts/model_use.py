"""The model of an agent: at a service, or in a file on this machine."""

from typing import Annotated, Final, Literal

from pydantic import Field

from agenttalk.contracts.core.base import Count, Part, Positive, Text

MODEL_DRIVERS: Final = frozenset({"llm", "local"})
"""Drivers of agents that are models. They have neither files nor tools."""
Provider = Literal["openai", "anthropic", "google", "ollama"]
"""The API of a service."""
Retries = Annotated[int, Field(ge=0, le=10)]
Temperature = Annotated[float, Field(ge=0, le=2)]
Price = Annotated[float, Field(ge=0, le=1_000_000)]


class Prices(Part):
    """The price of a model, in US dollars."""

    input_per_million: Price
    """Per million input tokens."""
    output_per_million: Price
    """Per million output tokens."""


class PricesSpec(Prices, extra="forbid"):
    """The price of a model, as a person writes it: unknown keys are errors."""


class LlmUse(Part):
    """The model of the driver `llm`."""

    provider: Provider
    """The API of its service: `openai` (also for many other services, see `base_url`), `anthropic`, `google`,
    `ollama`."""
    model: Text
    """The service's name of the model."""
    base_url: Text | None = None
    """The address of the service, if it is not the provider's own."""
    key_env: Text | None = None
    """The variable of the engine's environment with the key. Default: `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or
    `GEMINI_API_KEY`. With a `base_url`, no key is needed unless one is named."""
    retries: Retries = 2
    """How often an unusable answer goes back to it with the reason, in one turn, and how often a request to a busy or
    broken service is repeated."""
    temperature: Temperature | None = None
    """How freely it answers, from 0 to 2."""
    max_tokens: Positive | None = None
    """The most tokens of one answer."""
    prices: Prices | None = None
    """Its price, for budgets. Without it, only the prices of well-known models are known."""


class LlmUseSpec(LlmUse, extra="forbid"):
    """The model of an agent and its service, as a person writes them: unknown keys are errors."""

    prices: PricesSpec | None = None
    """Its price, for budgets in dollars: a table."""


class LocalUse(Part):
    """The model of the driver `local`."""

    model_file: Text
    """The model's GGUF file. A relative path starts at the root."""
    context: Annotated[int, Field(ge=256, le=10_000_000)] = 4096
    """The most tokens of prompt and answer together."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """How many processors it may use. Default: half of them."""
    max_tokens: Positive = 512
    """The most tokens of one answer."""
    retries: Retries = 2
    """How often an unusable answer goes back to it with the reason, in one turn."""
    temperature: Temperature | None = None
    """How freely it answers; 0 gives the same answer every time."""
    seed: Count | None = None
    """The random seed. The same seed gives the same answer."""


class LocalUseSpec(LocalUse, extra="forbid"):
    """The model of an agent and its file, as a person writes them: unknown keys are errors."""
