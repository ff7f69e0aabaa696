"""Which tests of a suite are judged in another process than the work, and what that shows."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
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
_COMPUTING: Final = frozenset({"math", "operator", "string", "statistics", "itertools", "collections"})
"""Modules of the standard library that tests may use: they compute, and lead nowhere."""
_ASSERTIONS: Final = frozenset(
    f"assert{name}"
    for name in (
        *("Equal", "NotEqual", "True", "False", "Is", "IsNot", "IsNone", "IsNotNone", "In", "NotIn", "Raises"),
        *("AlmostEqual", "NotAlmostEqual", "Greater", "GreaterEqual", "Less", "LessEqual", "CountEqual"),
        *("ListEqual", "TupleEqual", "DictEqual", "SetEqual", "SequenceEqual", "MultiLineEqual"),
    )
)
_ERRORS: Final = frozenset(
    {
        *("ArithmeticError", "AttributeError", "Exception", "IndexError", "KeyError", "LookupError", "OverflowError"),
        *("RuntimeError", "StopIteration", "TypeError", "ValueError", "ZeroDivisionError"),
    }
)
_STATEMENTS: Final = (ast.Assert, ast.Assign, ast.Expr, ast.For, ast.Pass)
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
    broken: frozenset[str] = frozenset()
    """Files and modules whose tests could not be loaded."""
    whole: bool = True
    """Whether the runner came to its end."""


def runs_over_boundary(command: str) -> bool:
    """Whether a command is a plain call of pytest or unittest, which can be run over the boundary."""
    call = runner_calls.find_call(command)
    if call is not None and call.runner in runner_calls.PYTHON_RUNNERS:
        return True
    words = runner_calls.split_simple(command)
    calls = words[:1] and _UNITTEST.search(words[0].rpartition("/")[2]) is not None
    return bool(calls) and "-m" in words and words[words.index("-m") + 1 : words.index("-m") + 2] == ("unittest",)


@dataclass(frozen=True, slots=True)
class CandidateTests:
    """The tests to judge over the boundary."""

    crossed: frozenset[str] = frozenset()
    """Those that crossed before the work. They must run."""
    allowed: frozenset[str] = frozenset()
    """Those that a rule over their source allows, by the path of their file. The command may leave some of them out."""


def choose_tests(before: CrossedTests | None, allowed: Collection[str], base: Outcomes | None) -> CandidateTests:
    """Choose the tests to judge over the boundary: they crossed before the work, or a rule over their source allows it.

    A test that passed before the work, and did not cross, is not chosen for its source. `base` is how
    all tests ended in one process.
    """
    if before is None:
        return CandidateTests()
    passed = base.passed if base is not None else frozenset()
    barred = [_strip(test) for test in before.other if _name_in_report(test) in passed]
    free = (name for name in allowed if not any(_is_named(name, test) for test in barred))
    return CandidateTests(before.passed, frozenset(free))


def _is_named(allowed: str, test: str) -> bool:
    """Whether a test, as its runner names it, is the one that is named by the path of its file.

    Runners name tests from the folder where they start.
    """
    return allowed == test or allowed.endswith(("/" + test, "." + test))


def _strip(name: str) -> str:
    """Return the id of a test without its parameters."""
    return name.partition("[")[0]


def _name_in_report(name: str) -> str:
    if "::" in name:
        return channel.name_test("pytest", name)
    place, _, last = name.rpartition(".")
    return f"{place}::{last}"


def hash_crossed(crossed: CrossedTests | None) -> str:
    """Hash which tests crossed; empty if that was not seen."""
    if crossed is None:
        return ""
    return wire.sha256(wire.write({"passed": sorted(crossed.passed), "other": sorted(crossed.other)}))


def explain_failure(chosen: CandidateTests, seen: CrossedTests | None) -> str:
    """Explain which chosen tests did not pass over the boundary; empty if all did."""
    if seen is None or not seen.whole:
        return check_words.BOUNDARY_SILENT()
    unloaded = {name for name in chosen.allowed if any(_is_in(name, place) for place in seen.broken)}
    missing = sorted((chosen.crossed - seen.passed) | unloaded | seen.other)
    if not missing:
        return ""
    why = next((seen.reasons[name] for name in missing if name in seen.reasons), "")
    names = join_names(missing)
    return (
        check_words.BOUNDARY_FAILED_WHY(count=len(missing), names=names, why=why)
        if why
        else (check_words.BOUNDARY_FAILED(count=len(missing), names=names))
    )


def _is_in(allowed: str, place: str) -> bool:
    """Whether a test, by the path of its file, lies in a file or module as its runner names it."""
    between, mark = ("/", "::") if "::" in allowed else (".", ".")
    return f"{between}{place}{mark}" in between + allowed


def find_plain_tests(path: str, source: bytes, runner: str) -> frozenset[str]:
    """Find the tests of a file that only call imported functions with plain values, by their ids from its folder on."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    if not all(_is_inert(node) for node in tree.body):
        return frozenset()
    module = _Imported.read(tree)
    names: list[tuple[str, ...]] = [
        (node.name,)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and runner == "pytest" and _is_test(node) and _is_plain(node, module)
    ]
    for case in tree.body:
        if isinstance(case, ast.ClassDef) and _is_case(case, module, runner):
            names += [
                (case.name, node.name)
                for node in case.body
                if isinstance(node, ast.FunctionDef) and _is_test(node) and _is_plain(node, module, "self")
            ]
    place, between = (path, "::") if runner == "pytest" else (path.removesuffix(".py").replace("/", "."), ".")
    return frozenset(between.join((place, *name)) for name in names)


@dataclass(frozen=True, slots=True)
class _Imported:
    """What a file of tests imports by name, but for what could reach around the boundary."""

    functions: frozenset[str]
    modules: frozenset[str]

    @classmethod
    def read(cls, tree: ast.Module) -> _Imported:
        functions, modules = set(), set()
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.level or _is_usable(node.module or "")):
                functions |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.Import):
                modules |= {alias.asname or alias.name for alias in node.names if _is_usable(alias.name)}
        return cls(frozenset(functions), frozenset(modules))

    def has(self, function: ast.expr) -> bool:
        """Whether an expression is a function of an imported module."""
        match function:
            case ast.Name(id=name):
                return name in self.functions and name[:1].islower()
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return module in self.modules and name[:1].islower()
        return False


def _is_usable(module: str) -> bool:
    """Whether tests may call functions of a module: one of the project, or one that only computes."""
    top = module.partition(".")[0]
    return top in _COMPUTING or top not in sys.stdlib_module_names


def _is_test(node: ast.FunctionDef) -> bool:
    return node.name.startswith("test")


def _is_inert(node: ast.stmt) -> bool:
    """Whether a statement of a module does nothing while it is loaded."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.ClassDef(decorator_list=[], keywords=[]):
            return True
        case ast.Assign(value=value):
            return _is_constant(value)
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
    return _is_text(node)


def _is_constant(node: ast.expr) -> bool:
    return all(isinstance(each, _EXPRESSIONS) and not isinstance(each, ast.Call | ast.Name) for each in ast.walk(node))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_case(case: ast.ClassDef, module: _Imported, runner: str) -> bool:
    """Whether a class holds nothing but tests that its runner finds."""
    if not all((isinstance(node, ast.FunctionDef) and _is_test(node)) or _is_text(node) for node in case.body):
        return False
    match case.bases:
        case []:
            return runner == "pytest" and case.name.startswith("Test")
        case [ast.Attribute(value=ast.Name(id="unittest"), attr="TestCase")] | [ast.Name(id="TestCase")]:
            return "TestCase" not in module.functions
    return False


def _is_plain(function: ast.FunctionDef, module: _Imported, own: str = "") -> bool:
    arguments = function.args
    given = [each.arg for each in arguments.args]
    if arguments.posonlyargs or arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
        return False
    if own and given[:1] != [own]:
        return False
    named = {name for each in function.decorator_list for name in _read_parameters(each)}
    if not all(_read_parameters(each) for each in function.decorator_list) or set(given[bool(own) :]) != named:
        return False
    return all(_is_plain_node(node, module, own) for part in function.body for node in _walk_plainly(part))


def _read_parameters(decorator: ast.expr) -> tuple[str, ...]:
    """Return the names that `pytest.mark.parametrize` gives constants to; empty for any other decorator."""
    match decorator:
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark"), attr="parametrize"),
            args=[ast.Constant(value=str(names)), values],
            keywords=[],
        ) if _is_constant(values):
            return tuple(name.strip() for name in names.split(","))
    return ()


def _walk_plainly(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what a test consists of, without the function of a call, which is judged with the call."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.Call) and child is node.func):
            yield from _walk_plainly(child)


def _is_plain_node(node: ast.AST, module: _Imported, own: str) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _SAFE_CALLS:
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if own and name == own:
            return method in _ASSERTIONS
        case ast.Call():
            return module.has(node.func) or _is_expecting(node, own)
        case ast.With(items=[ast.withitem(context_expr=ast.Call() as call, optional_vars=None)]):
            return _is_expecting(call, own)
        case ast.Name(id=name):
            return name != own or not own
    return isinstance(node, (*_STATEMENTS, *_EXPRESSIONS))


def _is_expecting(call: ast.Call, own: str) -> bool:
    """Whether a call expects a built-in exception."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=owner), attr=method), args=[ast.Name(id=error)], keywords=[]
        ):
            return (owner, method) in {("pytest", "raises"), (own, "assertRaises")} and error in _ERRORS
    return False
