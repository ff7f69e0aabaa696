"""A root made by hand, and the parts that work on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages.router import Router, RouterReport
from agenttalk.wiring import open_root
from kits.provekit import CALC, SUITE, repository
from kits.treekit import Tree, node, output

Route = Callable[[], RouterReport]

SHOP = [
    node("design", "pm", outputs=[output("design.md", "dev", "tester"), output("notes.md", "dev")]),
    node("build", "dev", depends_on=["design"], outputs=[output("app.zip", "tester", deliverable=True)]),
    node("test", "tester", depends_on=["build"], outputs=[output("report.md", deliverable=True)]),
]


async def routed(root: Path) -> RouterReport:
    """One pass by a router that has just started, as after every crash."""
    async with open_root(root, answers_by_file=True) as deps:
        return await Router(deps).pass_()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Three agents, a lead who commands them, and a plan that was found lying there."""
    tree = Tree(tmp_path)
    tree.dag(SHOP)
    tree.agent("lead")
    return tree


@pytest.fixture
def route(tree: Tree) -> Route:
    return lambda: asyncio.run(routed(tree.root))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a function that is wrong and a test that says so."""
    return repository(tmp_path / "repo", {"calc.py": CALC, "test_calc.py": SUITE})


__all__ = ["SHOP", "Deps", "Route", "routed"]
