"""How many tokens a text costs, estimated on the safe side."""

from __future__ import annotations

import re
from typing import Final

_PIECES: Final = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<short>[0-9]+|[!-/:-@\[-`{-~]+|\n+)"
    r"|(?P<gap>[ \t]{2,}|[ \t](?=[0-9]))|(?P<other>[^\x00-\x7f]+)"
)


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
