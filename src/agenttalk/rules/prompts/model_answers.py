"""The prompt for a model whose answer cannot be used."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.contracts.agent import Locale

_AGAIN: Final[dict[Locale, str]] = {
    "en": "Your answer cannot be used: {why}. Answer again, in full and in the form that was asked for.",
    "zh": "你的回答无法使用：{why}。请按要求的形式重新完整回答。",
}


def render_retry(why: str, *, locale: Locale = "en") -> str:
    """Render the reason and the remedy."""
    return _AGAIN[locale].format(why=why.rstrip("."))
