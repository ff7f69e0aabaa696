"""The list of findings and the tests agree."""

from __future__ import annotations

import ast
from pathlib import Path

from findings import FINDINGS

TESTS = Path(__file__).parent


def mended_ids() -> set[str]:
    return {
        argument.value
        for file in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.mends"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def test_no_test_names_an_unknown_finding() -> None:
    assert sorted(mended_ids() - FINDINGS.keys()) == []


def test_every_finding_has_a_test_that_shows_it_mended() -> None:
    assert sorted(FINDINGS.keys() - mended_ids()) == []
