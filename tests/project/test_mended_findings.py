"""The list of findings and the tests agree."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from project.findings import FINDINGS

TESTS = Path(__file__).parent.parent
MARK = re.compile(r"pytest\.mark\.mends\(([^)]*)\)")


@cache
def mended_ids() -> frozenset[str]:
    marks = (mark for file in TESTS.rglob("test_*.py") for mark in MARK.findall(file.read_text(encoding="utf-8")))
    return frozenset(name for mark in marks for name in re.findall(r'"(\w+)"', mark))


def test_no_test_names_an_unknown_finding() -> None:
    assert sorted(mended_ids() - FINDINGS.keys()) == []


def test_every_finding_has_a_test_that_shows_it_mended() -> None:
    assert sorted(FINDINGS.keys() - mended_ids()) == []
