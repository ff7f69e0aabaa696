"""A door that really listens, with a store behind it, in a thread of its own; and folders of an operator."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from agenttalk.api.app import create_app
from agenttalk.api.serving import serving, socket_folder
from agenttalk.engine import access, plans
from agenttalk.engine.service import Service
from agenttalk.wiring import opened
from api.doorkit import OPERATOR, VIEWER, WORKER, Door
from treekit import Tree, node


@pytest.fixture(autouse=True)
def operator_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An operator of our own. The name of a socket must be short, so it does not lie with the test's files."""
    runtime = Path(tempfile.mkdtemp(prefix="at-"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    yield tmp_path / "config" / "agenttalk"
    shutil.rmtree(runtime)


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
    ready = threading.Event()
    stop: list[Callable[[], object]] = []
    made: list[Door | BaseException] = []

    async def listen() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        async with AsyncExitStack() as stack:
            deps = await stack.enter_async_context(opened(tree.root))
            passed: list[str | None] = []

            async def route(agent: str | None) -> dict[str, Any]:
                passed.append(agent)
                return {"delivered": 0}

            service = Service(deps, passes={"route": route})
            for token, role in ((OPERATOR, "operator"), (VIEWER, "viewer"), (WORKER, "worker")):
                await access.admit(deps, token, role, role)  # type: ignore[arg-type]
            await plans.Plans(deps).refresh()
            path = socket_folder("test") / "door.sock"
            where = await stack.enter_async_context(
                serving(create_app(service), host="127.0.0.1", port=0, socket_path=path)
            )
            made.append(Door(tree.root, where, deps, service, loop, passed))
            ready.set()
            await ended.wait()

    def run() -> None:
        try:
            asyncio.run(listen())
        except BaseException as error:
            made.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(30)
    assert isinstance(made[0], Door), made[0]
    yield made[0]
    stop[0]()
    thread.join(30)
    assert not thread.is_alive()
