"""A door that really listens, with a store behind it, in a thread of its own; and folders of an operator."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from doors.api.doorkit import Door, listening
from kits.treekit import Tree, node


@pytest.fixture(autouse=True)
def operator_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An operator of our own. The name of a socket must be short, so it does not lie with the test's files."""
    runtime = Path(tempfile.mkdtemp(prefix="at-"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    yield tmp_path / "config" / "agenttalk"
    shutil.rmtree(runtime)


@pytest.fixture
def database(cluster: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    name = f"api_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(cluster, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
        yield cluster.replace("/postgres?", f"/{name}?")
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    root = tmp_path / "root"
    root.mkdir()
    tree = Tree(root)
    tree.agent("lead")
    tree.dag([node("design", "pm"), node("build", "dev")])
    return tree


@pytest.fixture
def door(tree: Tree) -> Iterator[Door]:
    """A door on a tree, with a token for each role."""
    with listening(tree.root) as found:
        yield found
