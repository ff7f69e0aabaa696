"""What a sandbox shows that can only grant: the places around what is hidden, one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_TOP: Final = Path("/")


def list_granted(said: Mapping[Path, bool]) -> list[Path]:
    """Places that together are everything that may be seen.

    `said` tells of real places whether they may be; the innermost decides, and where nothing is said they may. A folder
    with something hidden in it is not granted, but what else lies in it is: so it can be passed, and not listed.
    """
    said = {_TOP: True, **said}
    broken = {above for place, seen in said.items() if not seen for above in place.parents}
    found: list[Path] = []
    for place, seen in said.items():
        if seen and not _hidden_by_nothing(place, said):
            found += _around(place, said, broken)
    return found


def _hidden_by_nothing(place: Path, said: Mapping[Path, bool]) -> bool:
    """Whether it is seen anyway, as a part of the place around it."""
    return next((said[above] for above in place.parents if above in said), False)


def _around(place: Path, said: Mapping[Path, bool], broken: set[Path]) -> Iterator[Path]:
    """A place that is seen, but for what is hidden in it."""
    if place not in broken:
        yield place
        return
    for child in _children(place):
        if said.get(child, True):
            yield from _around(child, said, broken)


def _children(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as found:
            return [Path(entry.path) for entry in found if not entry.is_symlink()]
    except OSError:  # it is not there, or nobody may look into it
        return []
