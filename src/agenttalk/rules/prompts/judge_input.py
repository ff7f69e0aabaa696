"""The prompt that asks an agent to judge an input before it uses it."""

from __future__ import annotations

from agenttalk.contracts.command import ValidationCriteria
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.rules.text import prompt_words


def render_judge_prompt(name: str, criteria: ValidationCriteria, *, locale: Locale = "en", again: bool = False) -> str:
    """Render the prompt, besides the task and its inputs; `again` after an answer that was not a judgement."""
    parts = [f"# {prompt_words.JUDGE_TITLE.render(locale)}", prompt_words.JUDGE_TASK.render(locale, name=name)]
    if criteria.completeness is not None:
        parts.append(prompt_words.JUDGE_COMPLETENESS.render(locale, text=criteria.completeness))
    if criteria.quality_threshold is not None:
        parts.append(prompt_words.JUDGE_THRESHOLD.render(locale, score=f"{criteria.quality_threshold:g}"))
    parts.append(prompt_words.JUDGE_ANSWER.render(locale))
    parts += [prompt_words.JUDGE_AGAIN.render(locale)] if again else []
    return "\n\n".join(parts) + "\n"
