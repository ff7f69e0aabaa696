"""What the ledger tells those who follow it: how far they have come, and which plan and tasks a fact is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agenttalk.contracts.core.base import is_id

_APART: Final = frozenset({"deliveries", "rework"})
"""Before the name of a plan in a subject."""
_MOVED: Final = "task.moved"
_TOLD_IN_LINES: Final = frozenset({"commands.queued", "delivery", "turn.started", "turn.ended"})
"""Facts that hold lines of a plan's journal, which name the tasks."""
MOST_BOARDS: Final = 1_000


def decode_cursor(text: str) -> dict[str, int]:
    """How far somebody has come on each board, from what `encode_cursor` made; what cannot be read is left out."""
    found: dict[str, int] = {}
    for part in text.split(",")[:MOST_BOARDS]:
        board, _, number = part.partition(":")
        if is_id(board) and number.isascii() and number.isdecimal() and len(number) < 18:
            found[board] = int(number)
    return found


def encode_cursor(position: Mapping[str, int]) -> str:
    """A position as the id of an event."""
    return ",".join(f"{board}:{number}" for board, number in sorted(position.items()))


def plan_of(subject: str, told: object = None) -> str:
    """The plan that a fact is about, by its subject, or by what its body says; empty when it is about none."""
    if isinstance(told, str) and told:
        return told
    first, _, rest = subject.partition("/")
    return rest.partition("/")[0] if first in _APART else first


def tasks_of(kind: str, subject: str, body: object = None) -> tuple[str, ...]:
    """The tasks by which all that a fact changed is named; none when it may have changed something else as well."""
    if kind == _MOVED:
        _, _, task_id = subject.partition("/")
        return (task_id,) if task_id and "/" not in task_id else ()
    return _named(body) if kind in _TOLD_IN_LINES and isinstance(body, Mapping) else ()


def _named(body: Mapping[str, object]) -> tuple[str, ...]:
    """Whom the lines of a journal and the receipt beside them name, each once."""
    lines = body.get("lines")
    told = [body, body.get("ack"), *(lines if isinstance(lines, list) else ())]
    names = [each.get("task_id") for each in told if isinstance(each, Mapping)]
    return tuple(dict.fromkeys(each for each in names if isinstance(each, str) and each))
