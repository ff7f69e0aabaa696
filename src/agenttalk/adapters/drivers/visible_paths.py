"""Computes what a sandbox shows that can only grant: the paths around what is hidden, one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_TOP: Final = Path("/")


def list_granted(visibility: Mapping[Path, bool]) -> list[Path]:
    """List paths that together are everything that may be seen.

    `said` maps real paths to whether they may be seen; the innermost decides, and all others may. A folder with
    something hidden in it is not granted, but its other entries are: so it can be passed through, and not listed.
    """
    visibility = {_TOP: True, **visibility}
    broken = {above for place, seen in visibility.items() if not seen for above in place.parents}
    granted: list[Path] = []
    for place, seen in visibility.items():
        if seen and not _hidden_by_nothing(place, visibility):
            granted += _around(place, visibility, broken)
    return granted


def _hidden_by_nothing(place: Path, visibility: Mapping[Path, bool]) -> bool:
    """Return whether it is visible anyway, as a part of the path around it."""
    return next((visibility[above] for above in place.parents if above in visibility), False)


def _around(place: Path, visibility: Mapping[Path, bool], broken: set[Path]) -> Iterator[Path]:
    """List a visible path without what is hidden in it."""
    if place not in broken:
        yield place
        return
    for child in _children(place):
        if visibility.get(child, True):
            yield from _around(child, visibility, broken)


def _children(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            return [Path(entry.path) for entry in entries if not entry.is_symlink()]
    except OSError:  # it does not exist, or it cannot be read
        return []
