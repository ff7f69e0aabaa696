"""The prompts that ask agents to review a DAG, and to decide on the reviews."""

from __future__ import annotations

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.rules.text import prompt_words


def render_review_prompt(criteria: str | None, min_score: float, *, locale: Locale = "en") -> str:
    """Render the prompt of a reviewer."""
    lines = [prompt_words.REVIEW.render(locale)]
    lines += [prompt_words.REVIEW_CRITERIA.render(locale, text=criteria)] if criteria else []
    lines += [prompt_words.REVIEW_THRESHOLD.render(locale, score=f"{min_score:g}")]
    return "\n".join([*lines, prompt_words.REVIEW_ANSWER.render(locale)])


def render_coordination_prompt(*, locale: Locale = "en") -> str:
    """Render the prompt of a coordinator."""
    return f"{prompt_words.REVIEW_DECIDE.render(locale)}\n{prompt_words.REVIEW_DECISION.render(locale)}"
