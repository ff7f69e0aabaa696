"""The prompt for a model whose answer cannot be used."""

from __future__ import annotations

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.rules.text import prompt_words


def render_retry(why: str, *, locale: Locale = "en") -> str:
    """Render the reason and the remedy."""
    return prompt_words.ANSWER_AGAIN.render(locale, why=why.rstrip("."))
