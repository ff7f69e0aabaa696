"""Which tests of a suite are judged in another process than the work, and what that shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from agenttalk.contracts.core import wire
from agenttalk.rules.suites import channel, runner_calls
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import join_names

_UNITTEST: Final = re.compile(r"python[\d.]*\Z")
_SAFE_CALLS: Final = frozenset(
    {
        *("abs", "all", "any", "bool", "bytes", "dict", "enumerate", "float", "frozenset", "int", "isinstance", "len"),
        *("list", "max", "min", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"),
    }
)
_STATEMENTS: Final = (ast.Assert, ast.Assign, ast.Expr, ast.For, ast.With, ast.Pass)
_EXPRESSIONS: Final = (
    *(ast.Constant, ast.Name, ast.Load, ast.Store, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Starred, ast.keyword),
    *(ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator, ast.Call),
    *(ast.Subscript, ast.Slice, ast.withitem),
)


@dataclass(frozen=True, slots=True)
class CrossedTests:
    """The ends of tests over the boundary, by their ids."""

    passed: frozenset[str] = frozenset()
    other: frozenset[str] = frozenset()
    """Those that failed or were skipped."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a test did not cross, where that is known."""


def runs_over_boundary(command: str) -> bool:
    """Whether a command is a plain call of pytest or unittest, which can be run over the boundary."""
    call = runner_calls.find_call(command)
    if call is not None and call.runner in runner_calls.PYTHON_RUNNERS:
        return True
    words = runner_calls.split_simple(command)
    calls = words[:1] and _UNITTEST.search(words[0].rpartition("/")[2]) is not None
    return bool(calls) and "-m" in words and words[words.index("-m") + 1 : words.index("-m") + 2] == ("unittest",)


def choose_tests(before: CrossedTests | None, allowed: Collection[str], base: Outcomes | None) -> frozenset[str]:
    """Choose the tests to judge over the boundary: they crossed before the work, or a rule over their source allows it.

    A test that passed before the work, and did not cross, is not chosen for its source. `base` is how
    all tests ended in one process.
    """
    if before is None:
        return frozenset()
    passed = base.passed if base is not None else frozenset()
    barred = {name.partition("[")[0] for name in before.other if channel.name_test("pytest", name) in passed}
    return before.passed | {name for name in allowed if name not in barred}


def hash_crossed(crossed: CrossedTests | None) -> str:
    """Hash which tests crossed; empty if that was not seen."""
    if crossed is None:
        return ""
    return wire.sha256(wire.write({"passed": sorted(crossed.passed), "other": sorted(crossed.other)}))


def explain_failure(chosen: Collection[str], seen: CrossedTests | None) -> str:
    """Explain which chosen tests did not pass over the boundary; empty if all did."""
    if seen is None:
        return check_words.BOUNDARY_SILENT()
    functions = {name.partition("[")[0] for name in seen.passed}
    missing = sorted(
        {name for name in chosen if name not in seen.passed and not ("[" not in name and name in functions)}
        | seen.other
    )
    if not missing:
        return ""
    why = next((seen.reasons[name] for name in missing if name in seen.reasons), "")
    names = join_names(missing)
    return (
        check_words.BOUNDARY_FAILED_WHY(count=len(missing), names=names, why=why)
        if why
        else (check_words.BOUNDARY_FAILED(count=len(missing), names=names))
    )


def find_plain_tests(path: str, source: bytes) -> frozenset[str]:
    """Find the tests of a file that only call imported functions with plain values, by their ids in pytest."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    imported = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]
    simple = all(
        isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef) or _is_text(node) for node in tree.body
    )
    plain = [node for node in functions if simple and _is_plain(node, imported)]
    return frozenset(f"{path}::{node.name}" for node in plain)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_plain(function: ast.FunctionDef, imported: Collection[str]) -> bool:
    arguments = function.args
    if function.decorator_list or arguments.args or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        return False
    for node in (each for statement in function.body for each in ast.walk(statement)):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name not in _SAFE_CALLS and not (name in imported and name[:1].islower()):
                return False
        elif not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)) or isinstance(node, ast.With):
            return False
    return True
