"""How many tests a run has finished, counted in its output while it comes.

What is counted are lines (or letters) with the result of one test, as pytest, unittest, go, cargo and node print them.
Of any other output nothing is counted. The count is for people who watch: no verdict rests on it.
"""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 1024
"""The most bytes of a line that is read."""
_MOST: Final = 8 * 1024 * 1024
"""The most bytes of an output in which tests are counted."""
_SURE: Final = 3
"""How many letters of results a line has that is hardly the beginning of a word."""
_LETTERS_OF: Final = frozenset({"pytest", "py.test", "unittest", "tox", "nox", "trial", "nose2"})
"""Words of a command whose output has one letter for each test."""
_PYTEST: Final = re.compile(rb" (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: \([^()]{0,200}\))?(?:\s+\[ *\d+%\])?\Z")
_STARTS: Final = re.compile(
    rb"\[gw\d+\] \[ *\d+%\] (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) "  # pytest -v with xdist
    rb"|\s*--- (?:PASS|FAIL|SKIP): "  # go test -v
    rb"|\s*(?:not )?ok \d+\b"  # node --test and others in TAP
)
_ENDS: Final = re.compile(
    rb"ok|FAIL|ERROR|skipped .*|expected failure|unexpected success"  # unittest -v
    rb"|FAILED|ignored(?:,.*)?"  # cargo test
)
_LETTERS: Final = re.compile(rb"(?:[^\s:]+\.py )?(?P<letters>[.FEsxXu]+)(?:\s+\[[ \d%]*\]?)?")
_NODE_TEST: Final = re.compile(rb"\s*(?:\xe2\x9c\x94|\xe2\x9c\x96|\xef\xb9\xa3) (?P<name>.*) \([\d.]+ms\)")
_NODE_SUITE: Final = re.compile(rb"\s*\xe2\x96\xb6 (?P<name>.*)")
_COLLECTED: Final = re.compile(rb"collected (?P<all>\d{1,9}) items?(?:.* / (?P<some>\d{1,9}) selected)?")
_HINT: Final = re.compile(rb"::| \.\.\. |--- [PFS]|\bok \d|collected |=====|\xe2[\x96\x9c\x84]|\xef\xb9\xa3")
"""What stands in every line that means anything here, apart from letters. Most output of other programs has none."""
_OVER: Final = re.compile(rb"=+ (?:FAILURES|ERRORS|short test summary info) =+|={70}|\xe2\x84\xb9 tests \d+")
"""After such a line there are reports of failures, in which tests may be named again."""


class TestCounter:
    """Counts the tests in the output of one run."""

    __test__ = False  # pytest would take it for tests

    def __init__(self, command: str, known: int | None = None) -> None:
        """`command` is what runs, and `known` says how many tests there were before the work, if that is known."""
        self._has_letters = not _LETTERS_OF.isdisjoint(re.findall(r"[\w.]+", command))
        self._known = known
        self._collected: int | None = None
        self._line = b""
        self._counted = 0
        self._in_line = 0
        """Letters of the line that is not complete yet."""
        self._suites: list[bytes] = []
        """Suites of node that have begun."""
        self._left = _MOST

    @property
    def done(self) -> int | None:
        """How many have ended; None while nothing of the output says so."""
        return self._counted + self._in_line or None

    @property
    def total(self) -> int | None:
        """How many there are, as the run says itself, or as there were before the work; None if that is not known."""
        total = self._collected if self._collected is not None else self._known
        return total if total is not None and total >= (self.done or 0) else None

    def add(self, data: bytes) -> None:
        """Add a piece of the output."""
        if self._left <= 0:
            return
        self._left -= len(data)
        if not self._has_letters and not _HINT.search(self._line + data):
            self._line = (data if b"\n" in data else self._line + data).rpartition(b"\n")[2][:_LONGEST]
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._add_line((self._line + line[:_LONGEST]).rstrip())
            self._line = b""
        self._line = (self._line + rest[:_LONGEST])[:_LONGEST]
        letters = self._count_letters(self._line.rstrip()) if self._left > 0 else 0
        # A line that begins with one or two such letters may become a word.
        self._in_line = letters if letters >= _SURE or b"." in self._line else 0

    def _add_line(self, line: bytes) -> None:
        if self._left <= 0 or not line or len(line) > _LONGEST:
            return
        if not _HINT.search(line):
            self._counted += self._count_letters(line)
        elif _OVER.match(line):
            self._left = 0
        elif _is_result(line):
            self._counted += 1
        elif collected := _COLLECTED.match(line):
            self._collected = int(collected["some"] or collected["all"])
        elif suite := _NODE_SUITE.fullmatch(line):
            self._suites.append(suite["name"])
        elif test := _NODE_TEST.match(line):
            self._add_node_test(test["name"])
        else:
            self._counted += self._count_letters(line)

    def _add_node_test(self, name: bytes) -> None:
        """Count a test of node, and not the suite whose end looks the same."""
        if self._suites and self._suites[-1] == name:
            self._suites.pop()
        else:
            self._counted += 1

    def _count_letters(self, line: bytes) -> int:
        found = _LETTERS.fullmatch(line) if self._has_letters else None
        return len(found["letters"]) if found else 0


def _is_result(line: bytes) -> bool:
    """Return whether a line says how one test ended."""
    before, dots, end = line.rpartition(b" ... ")
    if dots and before and _ENDS.fullmatch(end):
        return True
    return bool(_STARTS.match(line) or (b"::" in line and _PYTEST.search(line)))
