"""What only shows something writes nothing: no commit is made, nothing is counted, and no file changes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from pathlib import Path

import httpx2

from agenttalk.adapters.store.root import RootStores
from agenttalk.doors.api.app import create_app
from agenttalk.doors.api.route_table import ROUTES
from agenttalk.doors.pages.sessions import PageRoute
from agenttalk.engine.core import access
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.service import Service
from agenttalk.ports.statements.core import NEWEST_FACT
from agenttalk.wiring import open_root
from doors.pages.pagekit import ADDRESS, Guest
from kits.plankit import Engine, plan, play, task
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


def test_no_page_and_no_get_commits_anything(tmp_path: Path) -> None:
    async def work(engine: Engine) -> None:
        for plan_id in ("p", "q"):
            await engine.submit(plan(task("task"), plan_id=plan_id))
            await engine.ended(plan_id)

    play(tmp_path, work)

    async def read() -> None:
        async with open_root(tmp_path) as deps:  # no loop of an engine runs beside it
            service = Service(deps, is_ready=lambda: True)
            app = create_app(service)
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url=ADDRESS) as client:
                ada = Guest(client, None, service)  # type: ignore[arg-type]
                await ada.enter()
                await access.admit(deps, TOKEN, "operator", "reader")
                routes = [route for route in app.routes if isinstance(route, PageRoute)]
                pages = [route.path for route in routes if "GET" in (route.methods or ()) and "log" not in route.path]
                before, seen = await written(deps), 0
                for path in pages:
                    seen += (await ada.get(filled(path))).status_code == 200
                    assert await written(deps) == before, path
                for path in (spec.path for spec in ROUTES if spec.method == "GET" and spec.path not in APART):
                    answer = await client.get(filled(path), headers={"Authorization": f"Bearer {TOKEN}"})
                    seen += answer.status_code == 200
                    assert await written(deps) == before, path
                assert seen > 35
            service.feed.close()

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
