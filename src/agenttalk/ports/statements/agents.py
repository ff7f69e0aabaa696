"""What agents elsewhere hand in."""

from __future__ import annotations

from typing import Final, NamedTuple

from agenttalk.ports.statements.statement import NoRow, Statement


class HandedInRow(NamedTuple):
    """Something that an agent elsewhere handed in."""

    kind: str
    name: str
    path: str
    sha256: str
    size: int
    body: bytes
    at: str


class QueuedTaskRow(NamedTuple):
    """A task in the queue of an agent."""

    plan_id: str
    task_id: str
    priority: int


HAND_IN: Final = Statement("hand_in", NoRow)
HANDED_IN: Final = Statement("handed_in", HandedInRow)
DROP_HANDED_IN: Final = Statement("drop_handed_in", NoRow)
QUEUED_FOR: Final = Statement("queued_for", QueuedTaskRow)
