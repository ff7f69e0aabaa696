"""Registers the kinds of tasks: ours, and those of installed packages (entry points `agenttalk.kinds`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.ports.kinds import TaskKind

LOG = logging.getLogger(__name__)
GROUP: Final = "agenttalk.kinds"
_PARTS: Final = (
    "name",
    "board",
    "task",
    "wants_run",
    "promise",
    "context",
    "prompt",
    "begun",
    "evidence",
    "failed",
    "closed",
)


def register_kinds(kinds: Iterable[TaskKind]) -> dict[str, TaskKind]:
    """Map kinds by their boards. Raises UsageError when two have the same board, or one is not a kind."""
    found: dict[str, TaskKind] = {}
    for kind in kinds:
        lacking = [part for part in _PARTS if not hasattr(kind, part)]
        if lacking:
            raise UsageError(
                Code.FIELD_MISSING, f"{type(kind).__name__} is not a kind of task: it has no {', '.join(lacking)}"
            )
        if kind.board in found:
            other = found[kind.board].name
            raise UsageError(
                Code.FIELD_VALUE, f"the kinds {other!r} and {kind.name!r} both want the board {kind.board}"
            )
        found[kind.board] = kind
    return found


def load_installed_kinds(points: Iterable[EntryPoint] | None = None) -> list[TaskKind]:
    """Load the kinds of installed packages. Each entry point is called without arguments; one that fails is skipped."""
    kinds: list[TaskKind] = []
    for point in entry_points(group=GROUP) if points is None else points:
        try:
            kinds.append(point.load()())
        except Exception:  # foreign code
            LOG.exception("the kind %r cannot be loaded", point.name, extra={"action": "kinds.load"})
    return kinds
