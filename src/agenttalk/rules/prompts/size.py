"""How many tokens a text costs, estimated on the safe side."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from agenttalk.rules.text import mail_words, prompt_words, section_words
from agenttalk.rules.text.message import LOCALES

_PIECES: Final = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<short>[0-9]+|[!-/:-@\[-`{-~]+|\n+)"
    r"|(?P<gap>[ \t]{2,}|[ \t](?=[0-9]))|(?P<other>[^\x00-\x7f]+)"
)
_TITLES: Final = frozenset(
    title.render(locale)
    for locale in LOCALES
    for title in (
        *(prompt_words.TASK, prompt_words.ROLE, prompt_words.FITNESS, prompt_words.INPUTS, prompt_words.MISSING),
        *(prompt_words.LIMITS_TITLE, prompt_words.REWORK, prompt_words.HANDOVER, prompt_words.TOOLS_TITLE),
        *(section_words.CONTEXT_TITLE, section_words.CONSTRAINTS_TITLE, section_words.API_TITLE),
        *(section_words.PROMISE_TITLE, mail_words.LETTER_TITLE, mail_words.UNREAD_TITLE, mail_words.ANSWER_TITLE),
        *(mail_words.PROMISE_TITLE,),
    )
)
"""What our sections are called."""
_HEADING: Final = re.compile(r"# (.+)\Z")
_FENCE: Final = re.compile(r"BEGIN (\w{12,}-*)\Z")


class SectionSize(NamedTuple):
    """A section of a prompt, and what it costs."""

    title: str
    tokens: int


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer, rather too many than too few.

    Every provider has a tokenizer of its own, and most are secret. Those that are known make a token of four to five
    letters of English, of up to three digits, of two or three signs of JSON, and of one Chinese character or less. This
    counts a token for each three letters of a word, each two digits, signs or line breaks, and each two bytes of
    anything else. A space belongs to the word behind it; several spaces, and one before a number, are a token.
    """
    half_tokens = 0
    for piece in _PIECES.finditer(text):
        if piece["word"]:
            half_tokens += 2 * -(-len(piece["word"]) // 3)
        elif piece["short"]:
            half_tokens += 2 * -(-len(piece["short"]) // 2)
        elif piece["gap"]:
            half_tokens += 2
        else:
            half_tokens += len(piece["other"].encode("utf-8", "replace"))
    return -(-half_tokens // 2)


def measure_sections(prompt: str) -> list[SectionSize]:
    """Estimate the tokens of each section of a prompt.

    Only our own titles begin a section: a heading inside a task, a role or a fenced text belongs to that text.
    """
    fence, found = "", [("", "")]
    for line in prompt.splitlines(keepends=True):
        text = line.rstrip("\r\n")
        heading, opened = _HEADING.match(text), _FENCE.match(text)
        if fence:
            fence = "" if text == f"END {fence}" else fence
        elif opened:
            fence = opened[1]
        elif heading and heading[1] in _TITLES:
            found.append((heading[1], ""))
        title, before = found[-1]
        found[-1] = (title, before + line)
    return [SectionSize(title, estimate_tokens(text)) for title, text in found if title or text]
