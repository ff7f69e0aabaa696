"""The prompt that asks an agent to judge an input before it uses it."""

from __future__ import annotations

from agenttalk.contracts.command import ValidationCriteria
from agenttalk.rules.prompts.wording import JUDGE, Locale


def render_judge_prompt(name: str, criteria: ValidationCriteria, *, locale: Locale = "en", again: bool = False) -> str:
    """Render the prompt, besides the task and its inputs; `again` after an answer that was not a judgement."""
    words = JUDGE[locale]
    lines = [words.task.format(name=name)]
    if criteria.completeness is not None:
        lines.append(words.completeness.format(text=criteria.completeness))
    if criteria.quality_threshold is not None:
        lines.append(words.threshold.format(score=f"{criteria.quality_threshold:g}"))
    return "\n\n".join([f"# {words.title}", *lines, words.answer, *([words.again] if again else [])]) + "\n"
