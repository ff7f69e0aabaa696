"""Finds failed tests in the output of a test runner, and cuts long output so that its end stays."""

from __future__ import annotations

import re
from typing import Final

MOST: Final = 20
"""Failed tests that are named, at most."""
_LINES: Final = (
    re.compile(r"^(?:FAILED|ERROR) ([^\s:]+::\S+)", re.MULTILINE),  # pytest
    re.compile(r"^(?:FAIL|ERROR): (\S+ \([\w.]+\))", re.MULTILINE),  # unittest
    re.compile(r"^\s*--- FAIL: (\S+)", re.MULTILINE),  # go
    re.compile(r"^test (\S+) \.\.\. FAILED$", re.MULTILINE),  # cargo
    re.compile(r"^not ok \d+ (?:- )?(.{1,160})$", re.MULTILINE),  # TAP
    re.compile(r"^\s*(?:✕|✗|×) (.{1,160})$", re.MULTILINE),  # noqa: RUF001 - jest and vitest
)


def find_failed_tests(printed: str) -> tuple[str, ...]:
    """Find the names of failed tests in the output, each once, in the order of the output."""
    found = [(match.start(), match[1].strip()) for line in _LINES for match in line.finditer(printed)]
    return tuple(dict.fromkeys(name for _, name in sorted(found)))[:MOST]


def cut_to_end(printed: str, room: int) -> str:
    """Return the end of the output, after the names of failed tests that the cut removes."""
    end = printed[-room:]
    before = [name for name in find_failed_tests(printed) if name not in end]
    if not before:
        return end
    return "\n".join([*(f"FAILED {name}" for name in before), "…", end])


def last_lines(printed: str, number: int) -> list[str]:
    """Return the last lines that are not blank."""
    return [line.rstrip() for line in printed.splitlines() if line.strip()][-number:]
