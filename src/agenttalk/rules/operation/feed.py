"""Rules for readers that follow the ledger: their position, and the plan and tasks of a fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agenttalk.contracts.core.base import is_id

_APART: Final = frozenset({"deliveries", "rework"})
"""Words before the name of a plan in a subject."""
_MOVED: Final = "task.moved"
_TOLD_IN_LINES: Final = frozenset({"commands.queued", "delivery", "turn.started", "turn.ended"})
"""Facts with lines of a plan's journal, which name the tasks."""
MOST_BOARDS: Final = 1_000


def decode_cursor(text: str) -> dict[str, int]:
    """Read the position on each board from a text of `encode_cursor`. Unreadable parts are left out."""
    position: dict[str, int] = {}
    for part in text.split(",")[:MOST_BOARDS]:
        board, _, number = part.partition(":")
        if is_id(board) and number.isascii() and number.isdecimal() and len(number) < 18:
            position[board] = int(number)
    return position


def encode_cursor(position: Mapping[str, int]) -> str:
    """Write a position as the id of an event."""
    return ",".join(f"{board}:{number}" for board, number in sorted(position.items()))


def plan_of(subject: str, plan_id: object = None) -> str:
    """Return the plan of a fact: the `plan_id` of its body, or else the plan of its subject. Empty if it has none."""
    if isinstance(plan_id, str) and plan_id:
        return plan_id
    first, _, rest = subject.partition("/")
    return rest.partition("/")[0] if first in _APART else first


def tasks_of(kind: str, subject: str, body: object = None) -> tuple[str, ...]:
    """Return the tasks that a fact changed. Empty if it may have changed something else, too."""
    if kind == _MOVED:
        _, _, task_id = subject.partition("/")
        return (task_id,) if task_id and "/" not in task_id else ()
    return _named(body) if kind in _TOLD_IN_LINES and isinstance(body, Mapping) else ()


def _named(body: Mapping[str, object]) -> tuple[str, ...]:
    """Return the tasks that the lines of a journal and the receipt beside them name, each once."""
    lines = body.get("lines")
    entries = [body, body.get("ack"), *(lines if isinstance(lines, list) else ())]
    names = [entry.get("task_id") for entry in entries if isinstance(entry, Mapping)]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name))
