"""Comments for a forge about work that was not done. Texts of others in them call no account and hide nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

LONGEST_LINE: Final = 1_000
MOST_LINES: Final = 40
_TICKS: Final = re.compile(r"`{3,}")


def render_comment(head: str, title: str, lines: Sequence[str], tail: str, markers: Sequence[str]) -> str:
    """Render a text for a forge: a title, facts in a block that calls no account, and hidden markers."""
    parts = [head, f"{title}\n\n{render_block(lines)}" if lines else "", tail, "\n".join(markers)]
    return "\n\n".join(part for part in parts if part)


def render_block(lines: Sequence[str]) -> str:
    """Render any lines as a block of code: they call no account, end no block and hide nothing."""
    shown = [render_line(each) for each in lines[:MOST_LINES]]
    shown += ["…"] if len(lines) > MOST_LINES else []
    longest = max((len(found) for each in shown for found in _TICKS.findall(each)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def render_line(text: str) -> str:
    """Render a text of others as one bounded line without hidden characters."""
    line = " ".join(text.replace("<!--", "<! --").split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def render_inline(text: str) -> str:
    """Render a text of others inside a sentence of ours: it calls no account."""
    return render_line(text).replace("@", "@\u200b").replace("`", "'")
