"""What tests of checks share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import hanging
from agenttalk import sandbox
from agenttalk.checking.running import Context, Runner
from agenttalk.drivers.processes import LocalProcesses
from agenttalk.drivers.script import ScriptDriver
from agenttalk.wiring import RandomIds
from checking.bench import Bench


@cache
def working_sandbox() -> Path | None:
    """Bubblewrap, if it is installed and works here."""
    found = sandbox.installed()

    async def tried() -> bool:
        return await Runner(ScriptDriver(LocalProcesses()), RandomIds(), bubblewrap=found).isolates(Context())

    return found if found and asyncio.run(tried()) else None


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    yield from hanging.ended_after(60)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Bench]:
    """A checkout without the sandbox. Whatever a check leaves behind is ended, and is a failure."""
    yield from _bench(tmp_path, None)


@pytest.fixture
def boxed(tmp_path: Path) -> Iterator[Bench]:
    """A checkout with the sandbox."""
    found = working_sandbox()
    if found is None:
        pytest.skip("bubblewrap is not installed, or does not work here")
    yield from _bench(tmp_path, found)


@pytest.fixture(params=["plain", "boxed"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """A checkout, once without and once with the sandbox."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Bench)
    return found


def _bench(path: Path, bubblewrap: Path | None) -> Iterator[Bench]:
    with TemporaryDirectory(prefix="agenttalk-test-") as temporary:
        made = Bench(path, bubblewrap)
        made = Bench(path, bubblewrap, replace(made.context, temporary=Path(temporary)))
        made.checkout.mkdir()
        yield made
        assert made.left_behind() == []
        assert os.listdir(temporary) == []  # noqa: PTH208 - names are all that is asked
