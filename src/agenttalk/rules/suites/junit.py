"""What a JUnit report says: which tests ran, and how each of them ended.

The report is written by the code under test, so it is read with suspicion. A DOCTYPE, and with it every entity, is
refused. Where two entries have one name, the worse counts. A suite that declares failures which it does not list
has failed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from typing import Final
from xml.parsers import expat

from agenttalk.rules.suites.outcomes import WORSE, Outcome, Outcomes, UnreadableReport
from agenttalk.rules.text import check_words

_SUITES: Final = frozenset({"testsuites", "testsuite"})
_FAILED: Final = frozenset({"failure", "error"})
_SAID_FAILED: Final = frozenset({"fail", "failed", "failure", "error"})
_SAID_SKIPPED: Final = frozenset({"notrun", "skipped", "suppressed", "disabled", "ignored", "pending"})
_MAX_DEPTH: Final = 64
_LONGEST_WHY: Final = 300
_NUMBER: Final = re.compile(r"[0-9]{1,9}\Z")


def parse(data: bytes) -> Outcomes | UnreadableReport:
    """Read a report. What is not plainly a JUnit report is unreadable."""
    reader = _ReportReader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        return UnreadableReport(check_words.NOT_XML(error=error))
    except (LookupError, ValueError) as error:  # an unknown encoding
        return UnreadableReport(check_words.UNREADABLE(error=error))
    except _RefusedError as error:
        return UnreadableReport(str(error))
    return reader.tests()


class _RefusedError(Exception):
    """Ends the parsing."""


@dataclass(slots=True)
class _Case:
    """A test that is being read."""

    id: str
    outcome: Outcome
    why: str = ""
    """The reason for its skip."""


class _ReportReader:
    """Collects tests while the parser walks through the report."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._cases: list[_Case] = []
        self._outcomes: dict[str, Outcome] = {}
        self._repeated: set[str] = set()
        self._whys: dict[str, str] = {}
        self._declared = False

    def doctype(self, *_: object) -> None:
        raise _RefusedError(check_words.HAS_DOCTYPE())

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._open and name not in _SUITES:
            raise _RefusedError(check_words.NO_SUITE(name=name[:80]))
        if len(self._open) == _MAX_DEPTH:
            raise _RefusedError(check_words.TOO_DEEP(depth=_MAX_DEPTH))
        self._open.append(name)
        if name in _SUITES:
            self._declared |= any(_count(attributes.get(key, "")) > 0 for key in ("failures", "errors"))
        elif name == "testcase":
            self._cases.append(_Case(_id(attributes), _read_outcome(attributes)))
        elif name in _FAILED:
            self._mark("failed")
        elif name == "skipped":
            self._mark("skipped")
            if self._cases:
                self._cases[-1].why = attributes.get("message", "").strip()[:_LONGEST_WHY]

    def end(self, name: str) -> None:
        self._open.pop()
        if name != "testcase":
            return
        case = self._cases.pop()
        before = self._outcomes.get(case.id)
        if before is not None:
            self._repeated.add(case.id)
        self._outcomes[case.id] = _worse(before or case.outcome, case.outcome)
        if case.why:
            self._whys[case.id] = case.why

    def tests(self) -> Outcomes:
        groups: dict[Outcome, set[str]] = {outcome: set() for outcome in WORSE}
        for name, outcome in self._outcomes.items():
            groups[outcome].add(name)
        return Outcomes(
            frozenset(groups["passed"]),
            frozenset(groups["failed"]),
            frozenset(groups["skipped"]),
            frozenset(self._repeated),
            self._declared and not groups["failed"],
            frozenset((name, why) for name, why in self._whys.items() if name in groups["skipped"]),
        )

    def _mark(self, outcome: Outcome) -> None:
        """Record an element's outcome: inside a test it is the test's, beside all tests the suite's."""
        if self._cases:
            self._cases[-1].outcome = _worse(self._cases[-1].outcome, outcome)
        elif outcome == "failed":
            self._declared = True


def _worse(one: Outcome, other: Outcome) -> Outcome:
    return max(one, other, key=WORSE.index)


def _id(attributes: dict[str, str]) -> str:
    found = "::".join(part for key in ("classname", "name") if (part := attributes.get(key, "").strip()))
    if not found:
        raise _RefusedError(check_words.NAMELESS_TEST())
    return found


def _read_outcome(attributes: dict[str, str]) -> Outcome:
    """Read the outcome from a test's own attributes; runners that use them write no elements for it."""
    words = {attributes.get(key, "").strip().lower() for key in ("status", "result")}
    found: list[Outcome] = ["failed"] if words & _SAID_FAILED else []
    found += ["skipped"] if words & _SAID_SKIPPED else []
    return reduce(_worse, found, "passed")


def _count(text: str) -> int:
    if not text.strip():
        return 0
    if not _NUMBER.match(text.strip()):
        raise _RefusedError(check_words.ODD_COUNT(text=text[:40]))
    return int(text)
