"""What may be removed of what plans left behind: by its age, and by how much there is of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

Kind = Literal["clones", "workspaces", "blobs", "transcripts"]
KINDS: Final[tuple[Kind, ...]] = ("clones", "workspaces", "blobs", "transcripts")


class RemovableItem(NamedTuple):
    """Something that nobody needs any more."""

    kind: Kind
    path: str
    """Below the root."""
    size: int
    """Bytes that it takes on the disk."""
    at: datetime
    """Since when nobody needs it."""
    plan_id: str = ""
    """The plan that left it, if one did."""


class RetentionLimit(NamedTuple):
    """How much of a kind is kept."""

    days: int
    """For so long everything is."""
    most: int | None = None
    """So many bytes are kept at most; what is beyond them goes first where it is oldest."""


def choose_removals(
    items: Iterable[RemovableItem], keeps: Mapping[Kind, RetentionLimit], now: datetime
) -> list[RemovableItem]:
    """What is to be removed, the oldest first. Of a kind about which nothing is said, nothing is."""
    found: list[RemovableItem] = []
    by_age = sorted(items, key=lambda item: (item.at, item.path))
    for kind, keep in keeps.items():
        own = [item for item in by_age if item.kind == kind]
        since = now - timedelta(days=keep.days)
        left = sum(item.size for item in own)
        for item in own:
            if item.at <= since or (keep.most is not None and left > keep.most):
                found.append(item)
                left -= item.size
    return sorted(found, key=lambda item: (item.at, item.path))
