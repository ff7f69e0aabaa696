"""What only shows something writes nothing: no commit is made, nothing is counted, and no file changes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from agenttalk.adapters.store.root import RootStores
from agenttalk.doors.api.app import create_app
from agenttalk.doors.api.route_table import ROUTES
from agenttalk.doors.pages.sessions import PageRoute
from agenttalk.engine.core import access
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.service import Service
from agenttalk.ports.statements.core import NEWEST_FACT
from agenttalk.wiring import make_local_service, open_root, settings
from doors.pages.pagekit import ADDRESS, Guest
from kits.plankit import Engine, plan, play, task
from kits.provekit import CALC, FIXES, git, program, promise, repository
from preloaded import run

NAMES = {
    "id": "p", "task": "task", "board": "default", "sha256": "ab" * 32, "name": "style.css", "source": "x",
}  # fmt: skip


TOKEN = "op_reads"
APART = {
    "/api/events",  # it has no end
    "/api/fsck",  # it compares several counts at one moment, in a transaction that writes nothing
}


def filled(path: str) -> str:
    for name, value in NAMES.items():
        path = path.replace(f"{{{name}}}", value)
    return path.replace("/tasks/task", "/tasks/p:task") if path.startswith("/api/projects") else path


async def written(deps: Deps) -> tuple[int, int]:
    """How often was committed to the board of the plans, and how many facts the system's ledger has.

    The store itself writes into the system's database how far the ledgers of the boards have come.
    """
    assert isinstance(deps.stores, RootStores)
    await (await deps.stores.board("default")).read(NEWEST_FACT)
    [newest] = await (await deps.stores.board("system")).read(NEWEST_FACT)
    return deps.stores.commits()["default"][0], newest[0]


async def get_everything(
    deps: Deps, service: Service, check: Callable[[str], Awaitable[None]]
) -> dict[str, httpx2.Response]:
    """Get each page and each address of the API, and check something after each of them."""
    app = create_app(service)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        ada = Guest(client, None, service)  # type: ignore[arg-type]
        await ada.enter()
        await access.admit(deps, TOKEN, "operator", "reader")
        routes = [route for route in app.routes if isinstance(route, PageRoute)]
        pages = [route.path for route in routes if "GET" in (route.methods or ()) and "log" not in route.path]
        answers: list[tuple[str, httpx2.Response]] = []
        await check("")
        for path in pages:
            answers.append((path, await ada.get(filled(path))))
            await check(path)
        for path in (spec.path for spec in ROUTES if spec.method == "GET" and spec.path not in APART):
            answers.append((path, await client.get(filled(path), headers={"Authorization": f"Bearer {TOKEN}"})))
            await check(path)
        assert sum(answer.status_code == 200 for _, answer in answers) > 35
    service.feed.close()
    return dict(answers)


def rows(root: Path) -> dict[str, list[str]]:
    """Every row of every table of a root."""
    tables: dict[str, list[str]] = {}
    for path in sorted((root / "data").glob("*.db")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                lines = sorted(map(repr, database.execute(f'SELECT * FROM "{name}"')))
                tables[f"{path.name}: {name}"] = lines
    return tables


@pytest.mark.parametrize("moved", [False, pytest.param(True, marks=pytest.mark.rest)])
def test_no_page_and_no_get_changes_a_row_even_when_a_branch_has_moved(tmp_path: Path, moved: bool) -> None:
    root, repo = tmp_path / "root", repository(tmp_path / "repo", {"calc.py": CALC})
    shown = promise({"id": "adds", "kind": "run", "run": "grep -q 'a + b' calc.py", "red_first": "off"})
    compiled = plan(
        task("task", "dev", workspace="repo", promise=shown),
        agents={"dev": program(tmp_path, "dev", FIXES)},
        workspace={"repo": str(repo)},
    )

    async def work(engine: Engine) -> None:
        await engine.submit(compiled)
        assert (await engine.ended("p")).result == "done"
        await engine.dispatcher.branches.record_stale_tasks()
        await engine.submit(plan(task("task"), plan_id="q"))
        await engine.ended("q")

    play(root, work, proving=True)
    if moved:
        git(repo, "checkout", "-q", "agenttalk/p")
        (repo / "calc.py").write_text(CALC)
        git(repo, "commit", "-qam", "spoil")

    async def read() -> None:
        async with open_root(root) as deps:  # no loop of an engine runs beside it
            before: list[tuple[tuple[int, int], dict[str, list[str]]]] = []

            async def check(path: str) -> None:
                commits, facts = await written(deps)  # evidence is read in a transaction that writes nothing
                now = ((0 if moved else commits, facts), rows(root))
                before.append(now)
                assert now == before[0], path

            answers = await get_everything(deps, make_local_service(root, deps, settings.load(root)), check)
            [shown] = answers["/api/plans/{id}/tasks"].json()["tasks"]
            assert shown["freshness"] == ("stale" if moved else "fresh")

    asyncio.run(read())


PLAN = {
    "plan_id": "p",
    "agents": {"a": {"driver": "script", "argv": ["true"]}},
    "tasks": [{"id": "one", "agent": "a", "prompt": "Say that it is done."}],
}


def fingerprint(*folders: Path) -> dict[str, str]:
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    kept = [path for path in files if path.suffix != ".lock" and not path.name.endswith("-shm")]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}


def test_commands_that_show_something_leave_databases_and_ledger_as_they_were(tmp_path: Path) -> None:
    root, config = tmp_path / "root", tmp_path / "config"
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    more = {"XDG_CONFIG_HOME": str(config), "HOME": os.environ.get("HOME", "")}
    done = run("run", str(tmp_path / "plan.json"), "--root", str(root), **more)
    assert done.returncode in {0, 1}, done.stderr
    before = fingerprint(root / "data", config)
    assert before
    for command in (("status",), ("status", "p"), ("explain", "p/one"), ("inbox",), ("schedule", "list"), ("honesty",)):
        shown = run(*command, "--root", str(root), **more)
        assert shown.returncode == 0, (command, shown.stderr)
        assert fingerprint(root / "data", config) == before, command
