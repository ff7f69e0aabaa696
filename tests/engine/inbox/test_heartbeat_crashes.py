"""Killed before each single step, an agent ends where it would have ended: nothing lost, nothing twice.

A step is a change of a folder or a commit. The child process kills itself before step n; whoever starts next
finishes. Between two steps nothing durable happens, so these are all places where a crash can make a difference.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.store.database import BoardStore
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.ports.agents import ProgramTurn, TurnEnd
from agenttalk.ports.statements.messages import PLANS
from agenttalk.wiring import open_root
from effort import DEEP, some
from kits.agentkit import WRITES, Desk
from kits.treekit import Tree

STEPS = ("write", "move", "remove", "make_folder")


class Writes:
    """A driver whose program hands over a file and a folder."""

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        out = Path(turn.env["AGENTTALK_OUTPUTS"])
        (out / "made.txt").write_text("made", encoding="utf-8")
        (out / "site").mkdir()
        (out / "site" / "index.html").write_bytes(b"<p>" * 30_000)
        return TurnEnd("finished", 0, b"", b"", 0.1)


class Counted:
    """Counts steps in this process, and kills it before one of them."""

    def __init__(self, deadly: int) -> None:
        self.steps = 0
        self._deadly = deadly

    def step(self) -> None:
        self.steps += 1
        if self.steps == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        for name in STEPS:
            setattr(SafeFolder, name, self._stepping(getattr(SafeFolder, name)))
        commit = BoardStore.transact

        async def transact(board: BoardStore, work: Any) -> Any:
            self.step()
            return await commit(board, work)

        BoardStore.transact = transact  # type: ignore[assignment,method-assign]

    def _stepping(self, original: Any) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.step()
            return original(*args, **kwargs)

        return wrapped


def fill(desk: Desk) -> None:
    desk.program(WRITES)
    desk.artifact("design", "design.md", {"m1/design.md": b"one", "m1/big": b"x" * 70_000}, message_id="m1", seq=1)
    desk.artifact("design", "design.md", {"design.md": b"two"}, message_id="m2", seq=2)
    desk.artifact("design", "design.md", {"m3/deep/x.md": b"x", "m3/design.md": b"no"}, message_id="m3", seq=2)
    desk.artifact("design", "design.md", {"gone.md": b"x"}, message_id="m4", seq=2)
    desk.inbox("gone.md").unlink()
    desk.deliver("broken.msg.json", b"{")
    desk.command("build", message_id="m5", required_inputs=["design.md"], wait_for_inputs=True)
    desk.deliver("copy.msg.json", desk.inbox("cmd_build_001.msg.json").read_bytes())
    desk.command("wait", message_id="m6", required_inputs=["never"], wait_for_inputs=True)
    desk.command("next", 1, message_id="m7", required_inputs=["never"], wait_for_inputs=True)
    desk.command("next", 2, message_id="m8")


def run(desk: Desk, deadly: int) -> int | None:
    """Let a child do everything that can be done; None when it was killed, else how many steps it took."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _child(desk, deadly, theirs)
        finally:
            os._exit(code)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    assert status == 0, told.decode()
    return int(told)


def _child(desk: Desk, deadly: int, pipe: int) -> int:
    counted = Counted(deadly)
    counted.install()

    async def work() -> list[str]:
        async with open_root(desk.tree.root, clock=desk.clock) as deps:
            known = LocalProcesses()
            return (await Heartbeat(deps, "dev", Writes(), known).run_once()).errors

    errors = asyncio.run(work())
    os.write(pipe, repr(errors).encode() if errors else str(counted.steps).encode())
    return len(errors)


def outcome(root: Path) -> dict[str, Any]:
    """Everything that must be the same, whatever happened on the way."""
    files = {}
    for path in sorted((root / "agents" / "dev").rglob("*")):
        where = str(path.relative_to(root))
        if path.is_file() and ".agenttalk" not in where and path.name != "status_heartbeat.json":
            files[where] = hashlib.sha256(path.read_bytes()).hexdigest()
    with sqlite3.connect(root / "data" / "projects" / "default" / "blackboard.db") as database:

        def ask(query: str) -> list[Any]:
            return database.execute(query).fetchall()

        answer = {
            "files": files,
            "deliveries": ask(
                "SELECT m.message_id, d.state, d.shown, d.ack, d.details FROM deliveries d JOIN messages m "
                "ON m.id = d.message ORDER BY 1"
            ),
            "tasks": ask("SELECT task_id, state, lease, owner, token, waiting_since FROM tasks ORDER BY 1"),
            "tally": ask("SELECT sent, delivered, superseded, duplicate, dead FROM plans"),
            "messages": ask("SELECT message_id, state FROM messages ORDER BY 1"),
            "inputs": ask("SELECT path, sha256, seq, message_id, before_message_id FROM inputs ORDER BY 1"),
            "letters": ask("SELECT code, name FROM deadletters ORDER BY 1"),
            "left": ask("SELECT count(*) FROM handovers"),
            "views": ask("SELECT path FROM views ORDER BY 1"),
            "facts": ask(
                "SELECT kind, count(*) FROM ledger WHERE kind NOT LIKE 'lease.%' AND kind <> 'turn.injected' "
                "GROUP BY 1 ORDER BY 1"
            ),
        }
    database.close()
    return answer


def differences(left: dict[str, Any], right: dict[str, Any]) -> list[Any]:
    """Only what differs, so that a failure can be read."""
    flat = [{(key, str(item)) for key, items in each.items() for item in _items(items)} for each in (left, right)]
    return sorted(flat[0] ^ flat[1])


def _items(value: Any) -> list[Any]:
    return list(value.items()) if isinstance(value, dict) else list(value)


@pytest.fixture
def filled() -> Iterator[Desk]:
    """In memory where that is possible: a killed process loses nothing that it wrote, synced or not."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        desk = Desk(Tree(Path(folder) / "filled"))
        fill(desk)
        assert desk.read(PLANS) == []  # the store is made here, not before each crash
        yield desk


def copy_of(desk: Desk, name: str) -> Desk:
    root = desk.tree.root.parent / name
    shutil.copytree(desk.tree.root, root)
    return Desk(Tree(root))


@pytest.mark.random
def test_killed_before_each_step_and_again_while_it_recovers_it_ends_the_same(filled: Desk) -> None:
    reference = copy_of(filled, "reference")
    steps = run(reference, 0)
    assert steps is not None
    expected = outcome(reference.tree.root)
    assert dict(expected["facts"])["turn.ended"] == 2
    assert expected["left"] == [(0,)]
    assert [code for code, _ in expected["letters"]] == ["ENVELOPE_PARSE_ERROR", "INPUT_CONFLICT", "MISSING_PAYLOAD"]
    assert steps > 60
    for deadly in some(range(1, steps + 1, 1 if DEEP else 3)):
        desk = copy_of(filled, f"crash{deadly}")
        assert run(desk, deadly) is None
        if deadly % 8 == 1 or DEEP:
            run(desk, 1 + deadly * 7 % 31)
        run(desk, 0)
        assert differences(outcome(desk.tree.root), expected) == [], f"killed before step {deadly}"
        shutil.rmtree(desk.tree.root)
