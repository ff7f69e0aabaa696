"""Decides which remains of plans are deleted: by their age, and by the total size of their kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

Kind = Literal["clones", "workspaces", "blobs", "transcripts"]
KINDS: Final[tuple[Kind, ...]] = ("clones", "workspaces", "blobs", "transcripts")


class RemovableItem(NamedTuple):
    """A file or folder that is no longer needed."""

    kind: Kind
    path: str
    """Its path below the root."""
    size: int
    """Bytes on the disk."""
    at: datetime
    """Since when it is no longer needed."""
    plan_id: str = ""
    """The plan that left it; empty if none did."""


class RetentionLimit(NamedTuple):
    """How much of a kind is kept."""

    days: int
    """Days for which everything is kept, unless it exceeds `most`."""
    most: int | None = None
    """The most bytes that are kept. Beyond them the oldest items are removed first."""


def choose_removals(
    items: Iterable[RemovableItem], keeps: Mapping[Kind, RetentionLimit], now: datetime
) -> list[RemovableItem]:
    """Choose the items to remove, the oldest first. Items of a kind without a limit are kept."""
    removals: list[RemovableItem] = []
    by_age = sorted(items, key=lambda item: (item.at, item.path))
    for kind, keep in keeps.items():
        own = [item for item in by_age if item.kind == kind]
        since = now - timedelta(days=keep.days)
        left = sum(item.size for item in own)
        for item in own:
            if item.at <= since or (keep.most is not None and left > keep.most):
                removals.append(item)
                left -= item.size
    return sorted(removals, key=lambda item: (item.at, item.path))
