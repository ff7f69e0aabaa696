"""The prompt for an agent that has stopped before its work was done."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.contracts.agent import Locale

_WORDS: Final[dict[Locale, str]] = {
    "en": "You have stopped, and this is still missing:\n\n{why}\n\nDo it now. The engine looks for itself afterwards; "
    "your words about your work prove nothing.",
    "zh": "你已停下，但以下内容仍然缺失：\n\n{why}\n\n请现在完成。"
    "引擎随后会自行检查；你对自己工作的说法不能证明任何事情。",
}


def render_missing_work(why: str, *, locale: Locale = "en") -> str:
    """Render the prompt that goes to an agent once more, before its work is verified."""
    return _WORDS[locale].format(why=why.strip())
