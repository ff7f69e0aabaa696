"""The manifest of requirements and the tests agree in both directions."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from project.requirements import DEFERRED, REQUIREMENTS

TESTS = Path(__file__).parent.parent


@cache
def shown_ids() -> dict[str, set[str]]:
    """Id → tests that say they show it."""
    found: dict[str, set[str]] = {}
    for file in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for name in marked_ids(node):
                    found.setdefault(name, set()).add(f"{file.name}::{node.name}")
    return found


def marked_ids(function: ast.FunctionDef) -> list[str]:
    return [
        argument.value
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.shows"
        for argument in decorator.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def test_every_requirement_is_shown_or_deferred() -> None:
    assert sorted(REQUIREMENTS.keys() - shown_ids().keys() - DEFERRED) == []


def test_no_test_names_an_unknown_requirement() -> None:
    assert {name: tests for name, tests in shown_ids().items() if name not in REQUIREMENTS} == {}


def test_nothing_is_deferred_that_is_shown_or_unknown() -> None:
    assert sorted(DEFERRED & shown_ids().keys()) == []
    assert REQUIREMENTS.keys() >= DEFERRED
