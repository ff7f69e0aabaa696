"""What was changed, for people: what was added and taken away, in blocks that can be told apart without colour."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Literal, NamedTuple

Sort = Literal["file", "place", "added", "removed", "same"]


class Block(NamedTuple):
    """Lines of a difference that belong together."""

    sort: Sort
    text: str


def blocks(diff: str) -> list[Block]:
    """A difference in parts: which file, where in it, what went, what came, and what is around it."""
    sorted_lines = list(_lines(diff))
    return [
        Block(sort, "\n".join(line for _, line in group)) for sort, group in groupby(sorted_lines, lambda each: each[0])
    ]


def _lines(diff: str) -> Iterator[tuple[Sort, str]]:
    in_head = True
    for line in diff.splitlines():
        if line.startswith("diff --git "):
            in_head = True
        elif line.startswith("@@"):
            in_head = False
            yield "place", line
            continue
        if in_head:
            yield "file", line
        elif line.startswith("+"):
            yield "added", line
        elif line.startswith("-"):
            yield "removed", line
        else:
            yield "same", line
