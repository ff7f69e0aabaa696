"""Every port test runs over both databases: a root of SQLite files, and a private PostgreSQL cluster."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from kits.storekit import Place

NUMBERS = itertools.count()


@pytest.fixture
def postgres(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty database of the cluster."""
    url: str = request.getfixturevalue("cluster")
    name = f"test_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
        yield Place(tmp_path, url.replace("/postgres?", f"/{name}?"), "postgres")
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def sqlite(tmp_path: Path) -> Place:
    return Place(tmp_path, "", "sqlite")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found
