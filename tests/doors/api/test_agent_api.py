"""A part without an engine serves its agents by itself, and nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

from agenttalk.adapters.store import operator_folder
from agenttalk.doors.api.server import socket_folder
from agenttalk.engine.core import access
from agenttalk.ports.statements.core import COMMENTS_OF
from agenttalk.wiring import agent_api, open_root
from doors.api.enginekit import REPORTS, agenttalk, programmed
from kits.treekit import Tree


def asked(path: str, where: str, token: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(where)
        head = f"GET {path} HTTP/1.1\r\nHost: agenttalk\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        found = b""
        while piece := connection.recv(65536):
            found += piece
        return found


def test_a_heartbeat_alone_takes_reports_of_its_programs(tree: Tree) -> None:
    programmed(tree, "dev", REPORTS + "print(json.dumps({'result': say('on it')}))\n")
    tree.command("lead", "build")
    root = ("--root", str(tree.root))
    assert agenttalk("route", "--once", *root).returncode == 0
    beat = agenttalk("heartbeat", "--agent", "dev", "--once", *root, "--json")
    assert beat.returncode == 0, beat.stdout + beat.stderr

    async def look() -> list[str]:
        async with open_root(tree.root) as deps:
            store = await deps.stores.board("default")
            found = await store.read(COMMENTS_OF, plan_id="plan_shop", task_id="build", after=0, limit=9)
            return [row[4] for row in found]

    assert asyncio.run(look()) == ["on it"]


def test_it_serves_tasks_alone(tree: Tree) -> None:
    async def look() -> None:
        async with open_root(tree.root) as deps, agent_api(deps, tree.root) as one, agent_api(deps, tree.root) as two:
            await access.admit(deps, "op", "operator", "operator")
            assert one.socket != two.socket
            assert one.http != two.http
            for path, status in (("/healthz", 200), ("/readyz", 200), ("/api/status", 404), ("/api/passes", 404)):
                answer = await asyncio.to_thread(asked, path, one.socket, "op")
                assert answer.startswith(f"HTTP/1.1 {status} ".encode()), path
            answer = await asyncio.to_thread(asked, "/api/projects/default/tasks/a:b", two.socket, "op")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "TASK_NOT_FOUND"

    asyncio.run(look())
    assert list(socket_folder(operator_folder.root_name(tree.root)).iterdir()) == []


def test_sockets_of_dead_parts_are_removed_and_those_of_living_ones_stay(tree: Tree) -> None:
    folder = socket_folder(operator_folder.root_name(tree.root))
    dead, alive, other = (folder / f"part-{pid}-abcdef.sock" for pid in ("4194303", str(os.getppid()), "x"))
    for path in (dead, alive, other):
        path.touch()

    async def look() -> None:
        async with open_root(tree.root) as deps, agent_api(deps, tree.root) as api:
            assert await asyncio.to_thread(Path(api.socket).exists)

    asyncio.run(look())
    assert [path.exists() for path in (dead, alive, other)] == [False, True, True]
