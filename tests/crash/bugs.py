"""Bugs that are planted to see that they are found."""

from __future__ import annotations

from collections.abc import Callable


def plant(name: str) -> None:
    """Plant a bug in this process; none for an empty name."""
    if name:
        BUGS[name]()


BUGS: dict[str, Callable[[], None]] = {}
