"""The source as trees, read once for all tests of the house."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import agenttalk

SOURCE: Final = Path(agenttalk.__file__).parent
REPOSITORY: Final = SOURCE.parent.parent
SCRIPTS: Final = (*("demo/team", "demo/proof", "demo/forge_team", "skills", "templates", "adapters/checking/harness"),)
"""Programs that agents of the demo, users and test runners run, and that nothing imports."""


@cache
def modules() -> dict[str, Path]:
    """Every module of the product, by its name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if not any(str(path.relative_to(SOURCE)).startswith(each) for each in SCRIPTS):
            parts = path.relative_to(SOURCE.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """All nodes of a module. Walking through a tree costs more than reading it."""
    return tuple(ast.walk(tree(name)))
