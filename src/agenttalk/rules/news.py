"""What the ledger tells those who follow it: how far they have come, and which plan a fact is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agenttalk.contracts.base import is_id

_APART: Final = frozenset({"deliveries", "rework"})
"""Before the name of a plan in a subject."""
MOST_BOARDS: Final = 1_000


def cursor(text: str) -> dict[str, int]:
    """How far somebody has come on each board, from what `written` made; what cannot be read is left out."""
    found: dict[str, int] = {}
    for part in text.split(",")[:MOST_BOARDS]:
        board, _, number = part.partition(":")
        if is_id(board) and number.isascii() and number.isdecimal() and len(number) < 18:
            found[board] = int(number)
    return found


def written(position: Mapping[str, int]) -> str:
    """A position as the id of an event."""
    return ",".join(f"{board}:{number}" for board, number in sorted(position.items()))


def plan_of(subject: str, told: object = None) -> str:
    """The plan that a fact is about, by its subject, or by what its body says; empty when it is about none."""
    if isinstance(told, str) and told:
        return told
    first, _, rest = subject.partition("/")
    return rest.partition("/")[0] if first in _APART else first
