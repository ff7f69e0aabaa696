"""Mutants of Python source: one small fault each, in a line that the work changed.

A mutant is the source with one expression or statement replaced. Nothing in the source chooses: no comment leaves a
line out, and which mutants are tried follows from the hash of the tree. Those that cannot be compiled, or that compile
to the same code, are left out.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import CodeType
from typing import Final, NamedTuple

from agenttalk.contracts.promise import MutantsCheck
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.checks import test_runners
from agenttalk.rules.proof.evidence import CheckFinding
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import join

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_REMOVED: Final = (ast.AugAssign, ast.Raise, ast.Delete, ast.Assert, ast.Break, ast.Continue)
_LOGGING: Final = frozenset({"debug", "info", "warning", "exception", "log"})
"""Calls that only tell people something: tests do not ask whether they are there."""
_WHOLE: Final = (ast.JoinedStr, ast.Raise)
"""What is broken as a whole: tests rarely ask for the words of a message."""
_SHOWN: Final = 60
_NAME: Final = "_v"
_LEAST: Final = 5
"""Mutants that have to be tried, if there are so many."""
_NAMED: Final = 20
"""Survivors that are named."""
_LARGEST: Final = 10**15
"""The largest number that is mutated."""


class Mutant(NamedTuple):
    """A source with one fault in it."""

    path: str
    line: int
    before: str
    after: str
    source: str
    """The whole file."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {_short(self.before)} -> {_short(self.after)}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 1]}…"


def make_mutants(files: Sequence[ChangedFile]) -> tuple[Mutant, ...]:
    """Make every mutant of the lines that a change adds to Python files other than tests."""
    return tuple(mutant for file in files if is_mutable(file) for mutant in _mutate(file))


def is_mutable(file: ChangedFile) -> bool:
    """Whether the lines of a file are mutated."""
    return file.path.endswith(".py") and bool(file.added_lines) and not test_runners.is_test(file.path)


def choose_mutants(mutants: Sequence[Mutant], seed: str, most: int) -> tuple[Mutant, ...]:
    """Choose mutants by the hash of a tree: one of each line first, then further ones."""
    ranked = sorted(
        mutants, key=lambda each: sha256(f"{seed}\0{each.path}\0{each.line}\0{each.after}".encode()).digest()
    )
    taken: dict[tuple[str, int], int] = {}
    order: list[tuple[int, int]] = []
    for at, each in enumerate(ranked):
        turn = taken.get((each.path, each.line), 0)
        taken[each.path, each.line] = turn + 1
        order.append((turn, at))
    return tuple(ranked[at] for _, at in sorted(order)[:most])


def make_control(files: Sequence[ChangedFile], mutants: Sequence[Mutant], seed: str) -> dict[str, str]:
    """Change each file that has mutants so that it does the same: paths → sources.

    A check that fails on these does not notice faults, it notices changes.
    """
    name = _NAME + sha256(seed.encode()).hexdigest()[:10]
    lines: dict[str, set[int]] = {}
    for each in mutants:
        lines.setdefault(each.path, set()).add(each.line)
    sources = {file.path: (file.after or b"").decode(errors="replace") for file in files}
    return {path: _change_nothing(sources[path], numbers, name) for path, numbers in lines.items()}


def _change_nothing(source: str, numbers: Collection[int], name: str) -> str:
    """Add a variable that is never read to the module, and to each function around some lines."""
    text = source.split("\n")
    added: dict[int, str] = {}
    for node in ast.walk(_parse(source) or ast.Module([], [])):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            around = any(node.lineno <= number <= (node.end_lineno or node.lineno) for number in numbers)
            body = node.body[1:] if _is_docstring(node.body[0]) else node.body
            if around and body and body[0].lineno > node.lineno and not _shares_line(node, body[0]):
                above = body[0].lineno - len(getattr(body[0], "decorator_list", ()))
                added[above] = " " * body[0].col_offset + f"{name} = None"
    for number in sorted(added, reverse=True):
        text.insert(number - 1, added[number])
    return "\n".join(text) + f"\n\n{name} = None\n"


def _shares_line(node: ast.FunctionDef | ast.AsyncFunctionDef, first: ast.stmt) -> bool:
    """Whether a statement stands on a line with what is before it, so that no line can come between."""
    before = node.body[0] if node.body[0] is not first else None
    return before is not None and (before.end_lineno or before.lineno) >= first.lineno


def _parse(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _mutate(file: ChangedFile) -> Iterator[Mutant]:
    source = (file.after or b"").decode(errors="replace")
    tree = _parse(source)
    if tree is None or source.encode() != file.after:
        return
    added = {line.number for line in file.added_lines}
    text = _SourceText(source)
    own = _compile(source)
    for node, replaced in _list_faults(tree):
        if node.lineno not in added:
            continue
        mutated = text.replace(node, replaced)
        code = _compile(mutated)
        if code is not None and own is not None and not _is_same(code, own):
            yield Mutant(file.path, node.lineno, text.read(node), replaced, mutated)


def _compile(source: str) -> CodeType | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(source, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_same(one: CodeType, other: CodeType) -> bool:
    """Whether two pieces of code do the same: their instructions and constants are equal."""
    if one.co_code != other.co_code or one.co_names != other.co_names or len(one.co_consts) != len(other.co_consts):
        return False
    for first, second in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(first, CodeType) and isinstance(second, CodeType):
            if not _is_same(first, second):
                return False
        elif (type(first), first) != (type(second), second):
            return False
    return True


class _SourceText:
    """The text of a module, by the places of its nodes. Columns of the syntax count bytes."""

    def __init__(self, source: str) -> None:
        self._data = source.encode()
        self._starts = [0]
        for line in self._data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        last, column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[last - 1] + column

    def read(self, node: ast.expr | ast.stmt) -> str:
        """Read the text of a node."""
        first, last = self._span(node)
        return self._data[first:last].decode(errors="replace")

    def replace(self, node: ast.expr | ast.stmt, text: str) -> str:
        """Replace a node by a text."""
        first, last = self._span(node)
        return (self._data[:first] + text.encode() + self._data[last:]).decode(errors="replace")


def _list_faults(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """List what can be replaced by what, but nothing that tests could not ask for, such as types."""
    for node in _walk(tree):
        if isinstance(node, ast.stmt):
            yield from ((node, text) for text in _break_statement(node))
        elif isinstance(node, ast.expr):
            yield from ((node, text) for text in _break_expression(node))
        if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            yield node.test, _write(ast.UnaryOp(ast.Not(), node.test))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """List the nodes of a tree that are behaviour."""
    stack = [node]
    while stack:
        each = stack.pop()
        yield each
        for name, value in reversed(list(ast.iter_fields(each))):
            if name in {"annotation", "returns", "type_params", "type_comment"} or isinstance(each, _WHOLE):
                continue
            children = value if isinstance(value, list) else [value]
            kept = [child for child in children if isinstance(child, ast.AST) and not _is_skipped(child)]
            stack.extend(reversed(kept))


def _is_skipped(node: ast.AST) -> bool:
    """Whether a part of a tree says nothing that a test could ask for."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if name.startswith("__") and name.endswith("__"):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
            return name in _LOGGING
    return False


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _break_statement(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None"
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case _ if isinstance(node, _REMOVED):
            yield "pass"


def _break_expression(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(ops=[op], left=left, comparators=[right]):
            yield _write(ast.Compare(left, [_COMPARED[type(op)]()], [right]))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTED and not _is_text(left, right):
            yield _write(ast.BinOp(left, _COMPUTED[type(op)](), right))
        case ast.BoolOp(op=op, values=values):
            yield _write(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield _write(operand)
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            yield _write(ast.IfExp(test, otherwise, body))
        case ast.Constant():
            yield from _break_constant(node.value)


def _break_constant(value: object) -> Iterator[str]:
    match value:
        case bool():
            yield str(not value)
        case int() | float() if abs(value) < _LARGEST:
            yield repr(value + 1)
        case str():
            yield repr("x" if not value else "")
        case bytes():
            yield repr(b"x" if not value else b"")


def _is_text(*nodes: ast.expr) -> bool:
    """Whether an operator joins or fills texts: nothing else can be done with them."""
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for each in nodes
    )


def _write(node: ast.expr) -> str:
    """Write an expression so that it can stand anywhere."""
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


class MutantRun(NamedTuple):
    """How a check judged a mutant."""

    mutant: Mutant
    noticed: bool


@dataclass(frozen=True, slots=True)
class MutantTrial:
    """The result of trying mutants."""

    chosen: int
    """How many were to be tried."""
    runs: tuple[MutantRun, ...]
    """Those that were, until the time was over."""
    of_passed: bool = True
    """Whether the check that has to notice them passes without a fault."""
    steady: bool = True
    """Whether it passes on a change that changes nothing."""

    @property
    def is_whole(self) -> bool:
        """Whether all that were chosen were tried, so that trying again tells nothing new."""
        return self.of_passed and self.steady and len(self.runs) == self.chosen


def judge_mutants(check: MutantsCheck, trial: MutantTrial) -> CheckFinding:
    """Judge whether a check noticed enough mutants. What was not tried, or could not be, shows nothing."""
    if not trial.of_passed:
        return CheckFinding(False, "no_mutants", check_words.MUTANTS_OF_FAILED(of=check.of))
    if not trial.chosen:
        passed = check.none == "ok"
        return CheckFinding(passed, "" if passed else "no_mutants", check_words.NO_MUTANTS())
    if not trial.steady:
        return CheckFinding(False, "no_mutants", check_words.MUTANTS_UNSTEADY(of=check.of))
    tried, noticed = len(trial.runs), sum(run.noticed for run in trial.runs)
    if tried < min(trial.chosen, _LEAST):
        return CheckFinding(False, "no_mutants", check_words.MUTANTS_SLOW(tried=tried, chosen=trial.chosen))
    counts = check_words.MUTANTS_NOTICED(of=check.of, noticed=noticed, tried=tried, chosen=trial.chosen)
    left = [str(run.mutant) for run in trial.runs if not run.noticed]
    shown = [*left[:_NAMED], *(["…"] if len(left) > _NAMED else [])]
    told = join([counts, check_words.SURVIVORS(names=", ".join(shown))]) if left else counts
    if noticed < check.kill * tried:
        asked = check_words.MUTANTS_ASKED(share=round(check.kill * 100))
        return CheckFinding(False, "survivors", join([told, asked]))
    return CheckFinding(True, "", told)
