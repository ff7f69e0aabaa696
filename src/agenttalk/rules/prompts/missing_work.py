"""The prompt for an agent that has stopped before its work was done."""

from __future__ import annotations

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.rules.text import prompt_words


def render_missing_work(why: str, *, locale: Locale = "en") -> str:
    """Render the prompt that goes to an agent once more, before its work is verified."""
    return prompt_words.MISSING_WORK.render(locale, why=why.strip())
