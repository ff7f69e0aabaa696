"""What was changed, for people: what was added and taken away, in blocks that can be told apart without colour."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Literal, NamedTuple

Sort = Literal["file", "place", "added", "removed", "same"]


class DiffBlock(NamedTuple):
    """Lines of a difference that belong together."""

    sort: Sort
    text: str


def escape_invisible(text: str) -> str:
    """Escape characters that would end a line, change the direction of the text or be invisible.

    Who decides about a line must see the one that programs read.
    """
    return "".join(each if each.isprintable() or each in "\n\t" else f"\\x{ord(each):02x}" for each in text)


def split_diff(diff: str) -> list[DiffBlock]:
    """Split a diff into its files, positions, removed lines, added lines and context."""
    sorted_lines = list(_lines(diff))
    return [
        DiffBlock(sort, "\n".join(line for _, line in group))
        for sort, group in groupby(sorted_lines, lambda each: each[0])
    ]


def _lines(diff: str) -> Iterator[tuple[Sort, str]]:
    in_head = True
    for line in escape_invisible(diff).removesuffix("\n").split("\n") if diff else ():
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
