"""Which tests of a suite are judged in another process than the work, and what that shows."""

from __future__ import annotations

import ast
import builtins
import re
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
_STATEMENTS: Final = (ast.Assert, ast.Assign, ast.Expr, ast.For, ast.With, ast.Pass)
_EXPRESSIONS: Final = (
    *(ast.Constant, ast.Name, ast.Load, ast.Store, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Starred, ast.keyword),
    *(ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator, ast.Call),
    *(ast.Subscript, ast.Slice, ast.withitem, ast.Attribute, ast.ListComp, ast.GeneratorExp, ast.comprehension),
)
_ASSERTIONS: Final = frozenset(
    f"assert{name}"
    for name in (
        *("AlmostEqual", "CountEqual", "DictEqual", "Equal", "False", "Greater", "GreaterEqual", "In", "IsNone"),
        *("IsNotNone", "Less", "LessEqual", "ListEqual", "MultiLineEqual", "NotAlmostEqual", "NotEqual", "NotIn"),
        *("Raises", "RaisesRegex", "SequenceEqual", "SetEqual", "True", "TupleEqual"),
    )
)
_LITERALS: Final = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp, ast.unaryop, ast.Load, ast.BinOp),
    ast.operator,
)
_EXCEPTIONS: Final = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
)
_RUNNERS: Final = frozenset({"pytest", "unittest"})


@dataclass(frozen=True, slots=True)
class CrossedTests:
    """The ends of tests over the boundary, by their ids."""

    passed: frozenset[str] = frozenset()
    other: frozenset[str] = frozenset()
    """Those that failed or were skipped."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a test did not cross, where that is known."""
    unloaded: frozenset[str] = frozenset()
    """The files of tests that could not be loaded over the boundary."""


def runs_over_boundary(command: str) -> bool:
    """Whether a command is a plain call of pytest or unittest, which can be run over the boundary."""
    if runner_calls.find_call(command) is not None:
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
    barred = {_shorten(name) for name in before.other if _name_plain(name) in passed}
    known = {_shorten(name) for name in before.passed if "::" not in name}
    left = {name for name in allowed if not {name, name.rpartition("/")[2]} & (barred | known)}
    return before.passed | left


def _name_plain(test: str) -> str:
    """Return how a test is called where it runs beside the work."""
    place, _, last = test.rpartition(".")
    return channel.name_test("pytest", test) if "::" in test else f"{place}::{last}"


def _shorten(test: str) -> str:
    """Return where a test stands, as far as its id tells: of unittest's its file's name, its class and its method."""
    if "::" in test:
        return test.partition("[")[0]
    *places, kind, method = ["", "", *test.split(".")]
    return f"{places[-1]}.py::{kind}::{method}"


def hash_crossed(crossed: CrossedTests | None) -> str:
    """Hash which tests crossed; empty if that was not seen."""
    if crossed is None:
        return ""
    return wire.sha256(wire.write({"passed": sorted(crossed.passed), "other": sorted(crossed.other)}))


def explain_failure(chosen: Collection[str], before: CrossedTests | None, seen: CrossedTests | None) -> str:
    """Explain which chosen tests did not pass over the boundary; empty if all did.

    A test that was chosen for its source, and whose file was loaded, need not run: the command asks for others.
    """
    if seen is None:
        return check_words.BOUNDARY_SILENT()
    crossed = before.passed if before is not None else frozenset()
    functions = {name.partition("[")[0] for name in seen.passed}
    asked = {
        name
        for name in chosen
        if name in crossed or any(_is_file(name.partition("::")[0], each) for each in seen.unloaded)
    }
    missing = sorted(
        {name for name in asked if name not in seen.passed and not ("[" not in name and name in functions)} | seen.other
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


def _is_file(path: str, unloaded: str) -> bool:
    return path == unloaded or path.endswith(f"/{unloaded}")


def find_plain_tests(path: str, source: bytes) -> frozenset[str]:
    """Find the tests of a file that only call imported functions with plain values, by their ids in pytest."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    if not all(_is_harmless(node) for node in tree.body):
        return frozenset()
    names = _ImportedNames.of(tree)
    found = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _is_plain_test(node, names)]
    for kind in tree.body:
        if isinstance(kind, ast.ClassDef) and _is_plain_case(kind):
            methods = (node for node in kind.body if isinstance(node, ast.FunctionDef))
            found += [f"{kind.name}::{node.name}" for node in methods if _is_plain_test(node, names, ("self",))]
    return frozenset(f"{path}::{name}" for name in found)


@dataclass(frozen=True, slots=True)
class _ImportedNames:
    """What a file of tests imports: functions by their own names, and modules."""

    functions: frozenset[str]
    modules: frozenset[str]

    @classmethod
    def of(cls, tree: ast.Module) -> _ImportedNames:
        """Read the imports of a file."""
        members = (each for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names)
        modules = (each for node in tree.body if isinstance(node, ast.Import) for each in node.names)
        return cls(
            frozenset(each.asname or each.name for each in members),
            frozenset(each.asname or each.name for each in modules if each.asname or "." not in each.name) - _RUNNERS,
        )


def _is_harmless(node: ast.stmt) -> bool:
    """Whether a statement does nothing while its file is loaded but to import, to define and to name values."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.ClassDef():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(value=value):
            return _is_literal(value)
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), comparators=[ast.Constant(value="__main__")])):
            return True
    return False


def _is_literal(node: ast.expr) -> bool:
    return all(isinstance(each, _LITERALS) for each in ast.walk(node))


def _is_plain_case(kind: ast.ClassDef) -> bool:
    """Whether a class is a test case with nothing but methods and values, and with nothing to set up."""
    return (
        [ast.unparse(base) for base in kind.bases] in (["unittest.TestCase"], ["TestCase"])
        and not kind.keywords
        and not kind.decorator_list
        and all(
            node.name.startswith("test")
            if isinstance(node, ast.FunctionDef)
            else isinstance(node, ast.Expr | ast.Assign) and _is_harmless(node)
            for node in kind.body
        )
    )


def _is_plain_test(function: ast.FunctionDef, names: _ImportedNames, given: tuple[str, ...] = ()) -> bool:
    """Whether a test only calls imported functions with plain values. `given` are its first arguments."""
    arguments = function.args
    if not function.name.startswith("test") or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        return False
    known = _list_parameters(function)
    if known is None or [each.arg for each in arguments.args] != [*given, *known]:
        return False
    return all(_is_plain(node, names) for statement in function.body for node in _walk(statement))


def _list_parameters(function: ast.FunctionDef) -> list[str] | None:
    """List the parameters that a test gets from literals; None if it is decorated otherwise."""
    match function.decorator_list:
        case []:
            return []
        case [ast.Call(func=func, args=[ast.Constant(value=str(names)), values], keywords=[])]:
            if ast.unparse(func) == "pytest.mark.parametrize" and _is_literal(values):
                return [name.strip() for name in names.split(",") if name.strip()]
    return None


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree. What is called is part of its call, an expected exception is part of its statement."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.Call) and child is node.func:
            continue
        if isinstance(node, ast.withitem) and _is_expectation(child):
            continue
        yield from _walk(child)


def _is_expectation(node: ast.AST) -> bool:
    """Whether an expression says which exception is expected."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    wanted = ast.unparse(node.func) in {"pytest.raises", "self.assertRaises", "self.assertRaisesRegex"}
    kind = node.args[0]
    standard = isinstance(kind, ast.Name) and kind.id in _EXCEPTIONS
    return (
        wanted and standard and all(_is_literal(each) for each in (*node.args[1:], *(k.value for k in node.keywords)))
    )


def _is_plain(node: ast.AST, names: _ImportedNames) -> bool:
    match node:
        case ast.With(items=items):
            return all(_is_expectation(each.context_expr) and each.optional_vars is None for each in items)
        case ast.Call(func=ast.Name(id=name)):
            return name in _SAFE_CALLS or (name in names.functions and name[:1].islower())
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return name in _ASSERTIONS and not (name.startswith("assertRaises") and not _is_expected_call(node))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr="approx")):
            return all(_is_literal(each) for each in (*node.args, *(each.value for each in node.keywords)))
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)):
            return module in names.modules and name[:1].islower()
        case ast.Call() | ast.Attribute():
            return False
        case ast.Name(id=name):
            return name not in names.modules and name not in _RUNNERS
    return isinstance(node, (*_STATEMENTS, *_EXPRESSIONS))


def _is_expected_call(node: ast.Call) -> bool:
    """Whether `assertRaises` gets an exception of the standard library, and what is called by name."""
    return len(node.args) > 1 and isinstance(node.args[0], ast.Name) and node.args[0].id in _EXCEPTIONS
