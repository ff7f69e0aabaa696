"""Which of the options of a question is meant by a word of an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NAMED: Final = re.compile(r"(?P<name>.+) \((?P<mark>[^()]+)\)\Z")
"""An option that says a name and, in brackets, what tells it from others of that name."""


def find_option(options: Sequence[str], said: str) -> str | None:
    """Find the option that is meant: by its whole text, its number, or a short name that only it has."""
    said = said.strip()
    if said in options:
        return said
    found = [each for each in options if said in _short_names(each)]
    if len(found) == 1:
        return found[0]
    number = int(said) if said.isdecimal() and len(said) < 4 else 0
    return options[number - 1] if 0 < number <= len(options) and not found else None


def _short_names(option: str) -> set[str]:
    """List the short names of an option: without its mark, the mark, and the task of `task/output`."""
    match = _NAMED.match(option)
    if match is None:
        return set()
    name, mark = match["name"], match["mark"]
    return {name, mark, name.partition("/")[0]}
