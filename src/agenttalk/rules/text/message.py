"""Sentences of the engine in both languages, side by side.

Everything is said, decided about and written down in English. Whoever reads Chinese gets the same sentence in Chinese
when it is shown: the sentence is found again by its words, and what it quotes of agents, people and programs stays as
it is. So nothing that was decided depends on a language, and what was written down long ago can be told in both.
"""

from __future__ import annotations

import re
from functools import cached_property
from string import Formatter
from typing import Final

_QUOTED: Final = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"(?!")"""
_KINDS: Final = {"d": r"\d+", "g": r"[-+.\de]+", ",": r"[\d,.]+", "s": r"\S*"}
"""Format of a name in braces → what it looks like."""


class MessageTemplate:
    """A sentence whose names in braces are filled in. Those with !r are quoted."""

    def __init__(self, en: str, zh: str) -> None:
        self.en = en
        self.zh = zh

    def __call__(self, **facts: object) -> str:
        """The sentence in English."""
        return self.en.format(**facts)

    @cached_property
    def letter_count(self) -> int:
        """How many letters are its own."""
        return sum(each.isalpha() for text, *_ in Formatter().parse(self.en) for each in text)

    @cached_property
    def length(self) -> int:
        """How many characters are its own."""
        return sum(len(text) for text, *_ in Formatter().parse(self.en))

    @cached_property
    def _mark(self) -> str:
        """The longest of what it says in its own words."""
        return max((text for text, *_ in Formatter().parse(self.en)), key=len)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        found = []
        for text, name, kind, conversion in Formatter().parse(self.en):
            found.append(re.escape(text))
            if name:
                found.append(f"(?P<{name}>{_QUOTED if conversion else _KINDS.get(kind or '', '.*?')})")
        return re.compile("".join(found), re.DOTALL)

    def extract_parameters(self, text: str) -> dict[str, str] | None:
        """What a text that is this sentence has filled in; None for every other text."""
        match = self._pattern.fullmatch(text) if self._mark in text else None
        return match.groupdict() if match else None

    def render_chinese(self, **facts: str) -> str:
        """The sentence in Chinese."""
        return self.zh.format(**facts)
