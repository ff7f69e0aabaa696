"""What only shows something writes nothing: no commit is made, nothing is counted, and no file changes."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from agenttalk.adapters.store.root import RootStores
from agenttalk.doors.api.route_table import ROUTES
from agenttalk.doors.pages.sessions import PageRoute
from agenttalk.engine.core import access
from doors.pages.pagekit import Guest, visit
from kits.plankit import plan, task
from preloaded import run

NAMES = {
    "id": "p", "task": "task", "board": "default", "sha256": "ab" * 32, "name": "style.css", "source": "x",
}  # fmt: skip


APART = {
    "/api/events",  # it has no end
    "/api/fsck",  # it compares several counts at one moment, in a transaction that writes nothing
}


def filled(path: str) -> str:
    for name, value in NAMES.items():
        path = path.replace(f"{{{name}}}", value)
    return path.replace("/tasks/task", "/tasks/p:task") if path.startswith("/api/projects") else path


def test_no_page_and_no_get_commits_anything(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("task")))
        await ada.engine.ended()
        stores = ada.engine.deps.stores
        assert isinstance(stores, RootStores)
        app = ada.client._transport.app  # type: ignore[attr-defined]
        pages = [route.path for route in app.routes if isinstance(route, PageRoute) and "GET" in (route.methods or ())]
        pages = [path for path in pages if path not in {"/login", "/logout"}]
        specs = [spec.path for spec in ROUTES if spec.method == "GET" and spec.path not in APART]
        token = "op_reads"
        await access.admit(ada.engine.deps, token, "operator", "reader")
        for path in pages:
            await ada.get(filled(path))  # what is made once, such as a board that is opened, is made now
        await ada.engine.submit(plan(task("task"), plan_id="q"))
        await ada.engine.ended("q")  # and this is new for everything that counts
        before = stores.commits()
        seen = 0
        for path in pages:
            seen += (await ada.get(filled(path))).status_code == 200
            assert stores.commits() == before, path
        for path in specs:
            answer = await ada.client.get(filled(path), headers={"Authorization": f"Bearer {token}"})
            seen += answer.status_code == 200
            assert stores.commits() == before, path
        assert seen > 40

    visit(tmp_path, use)


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
