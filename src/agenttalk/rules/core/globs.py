"""Matches names by shell globs, without trying every name. For paths of a tree see `scope`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from fnmatch import translate

_SPECIAL = re.compile(r"[*?\[]")
_LAST = "\U0010ffff"


def match_names(glob: str, names: Iterable[str]) -> list[str]:
    """Return the names that match a glob, in the order given."""
    start, star, end = glob.partition("*")
    if star and not _SPECIAL.search(start + end):
        # The usual `feedback_*.json`: comparing both ends spares compiling a pattern.
        shortest = len(start) + len(end)
        return [name for name in names if len(name) >= shortest and name.startswith(start) and name.endswith(end)]
    matches = re.compile(translate(glob)).match
    return [name for name in names if matches(name)]


class NameIndex:
    """A set of names, indexed by their beginnings and ends to find those that a glob could match."""

    def __init__(self, names: Iterable[str]) -> None:
        self._forward = sorted(names)
        self._backward = sorted(name[::-1] for name in self._forward)

    def candidates(self, glob: str) -> list[str]:
        """Return the names with the glob's fixed beginning or those with its fixed end, the smaller of both sets."""
        parts = _SPECIAL.split(glob)
        # Behind a '[' the last part may lie in a set such as [abc], which is not fixed text.
        tail = "" if "[" in glob else parts[-1]
        head = _span(parts[0], self._forward)
        ends = _span(tail[::-1], self._backward)
        if head.stop - head.start <= ends.stop - ends.start:
            return self._forward[head]
        return sorted(name[::-1] for name in self._backward[ends])


def _span(start: str, names: list[str]) -> slice[int, int, None]:
    """Find the names that begin with `start` in a sorted list."""
    return slice(bisect_left(names, start), bisect_left(names, start + _LAST))
