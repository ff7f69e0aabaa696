"""Columns of rows are read by their names, so that a column can be added to a statement without a look at its users."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from project.sourcekit import modules, nodes

MOST: Final = 4
"""Columns that may be given names in one go, all of them."""
LOADERS: Final = {"run", "run_each", "read"}


def statements(tree: list[ast.AST]) -> set[str]:
    """The statements that a module imports."""
    return {alias.asname or alias.name for node in tree if isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("agenttalk.ports.statements") for alias in node.names}  # fmt: skip


def makes_rows(node: ast.AST, known: set[str], rows: set[str]) -> bool:
    """Whether an expression is a list of rows: the answer of a statement, a name for it, or a part of it."""
    match node:
        case ast.Await(value=inner) | ast.Subscript(value=inner, slice=ast.Slice()):
            return makes_rows(inner, known, rows)
        case ast.Call(func=ast.Name(id="sorted" | "reversed" | "list" | "iter"), args=[inner, *_]):
            return makes_rows(inner, known, rows)
        case ast.Call(func=ast.Attribute(attr=name), args=[ast.Name(id=statement), *_]):
            return name in LOADERS and statement in known
        case ast.Name(id=name):
            return name in rows
    return False


def bindings(function: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """What a function names: the target, its value, and whether the target is one item of the value."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.List(elts=[target]) | ast.Tuple(elts=[target])], value=value):
                yield target, value, True
            case ast.Assign(targets=[target], value=ast.Subscript(value=value, slice=ast.Constant())):
                yield target, value, True
            case ast.Assign(targets=[target], value=value):
                yield target, value, False
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield target, value, True
            case ast.comprehension(target=target, iter=value):
                yield target, value, True
            case ast.NamedExpr(target=target, value=value):
                yield target, value, False


def is_blind(target: ast.expr) -> bool:
    """Whether columns are told apart by counting them: some are passed over, or there are many."""
    if not isinstance(target, ast.Tuple):
        return False
    passed = [name for name in target.elts if isinstance(name, ast.Starred) or ast.unparse(name) == "_"]
    return len(target.elts) > MOST or len(passed) > 1


def find_by_position(tree: list[ast.AST]) -> Iterator[str]:
    """Every place that takes a column of a row by its position."""
    known = statements(tree)
    for function in tree if known else ():
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        named = list(bindings(function))
        rows: set[str] = set()
        for target, value, one in named:
            if isinstance(target, ast.Name) and not one and makes_rows(value, known, rows):
                rows.add(target.id)
        row = {target.id for target, value, one in named
               if isinstance(target, ast.Name) and one and makes_rows(value, known, rows)}  # fmt: skip
        for target, value, one in named:
            whole = (one and makes_rows(value, known, rows)) or (isinstance(value, ast.Name) and value.id in row)
            if whole and is_blind(target):
                yield f"{function.name}: {ast.unparse(target)}"
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.Slice | ast.UnaryOp):
                inner = node.value
                if (isinstance(inner, ast.Name) and inner.id in row) or (
                    isinstance(inner, ast.Subscript)
                    and not isinstance(inner.slice, ast.Slice)
                    and makes_rows(inner.value, known, rows)
                ):
                    yield f"{function.name}: {ast.unparse(node)}"


def test_no_column_is_taken_by_its_position() -> None:
    assert {f"{name}: {place}" for name in modules() for place in find_by_position(list(nodes(name)))} == set()


def test_a_column_that_is_taken_by_its_position_is_found() -> None:
    planted = """
from agenttalk.ports.statements.plans import RUN

async def look(tx, store):
    [(_, _, still_open, *_)] = tx.run(RUN, plan_id="p")
    rows = await store.read(RUN, plan_id="p")
    state = rows[0][3]
    for row in rows[:2]:
        print(row[-1], row.state)
    many = [end for a, b, c, d, end in sorted(rows)]
    plan_id, state = tx.run(RUN)[0]
"""
    assert sorted(find_by_position(list(ast.walk(ast.parse(planted))))) == [
        "look: (_, _, still_open, *_)",
        "look: (a, b, c, d, end)",
        "look: row[-1]",
        "look: rows[0][3]",
    ]
