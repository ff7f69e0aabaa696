"""A machine that will not: full disks, read-only folders, a clock that jumps. Nothing is lost, and it goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import MachineError
from agenttalk.engine.messages.router import RouterReport
from kits.routerkit import Watch, alerts, counts, routed, sound, statuses
from kits.treekit import Tree, node

SHOP = [
    node("design", "pm", outputs=[{"name": "design.md", "deliver_to": ["dev", "tester"]}]),
    node("build", "dev"),
    node("test", "tester"),
]


@dataclass
class Disk:
    """A small disk of our own."""

    path: Path

    def fill(self) -> None:
        """Leave no block free."""
        with (self.path / "filler").open("ab", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def empty(self) -> None:
        (self.path / "filler").unlink()

    def writable(self, yes: bool) -> None:
        subprocess.run(["mount", "-o", f"remount,{'rw' if yes else 'ro'}", self.path], check=True, timeout=600)


Mount = Callable[..., Disk]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mounts small disks, and takes every one away again."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a disk that is full or read-only can only be made by root, with 'mount'")
    mounted: list[Path] = []

    def make(path: Path, size: str = "4m") -> Disk:
        path.mkdir(parents=True, exist_ok=True)
        options = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "agenttalk-test", str(path)]
        done = subprocess.run(options, check=False, capture_output=True, text=True, timeout=600)
        if done.returncode:
            pytest.skip(f"this machine lets nobody mount a disk: {done.stderr.strip()}")
        mounted.append(path)
        return Disk(path)

    yield make
    for path in reversed(mounted):
        subprocess.run(["umount", "-l", path], check=True, timeout=600)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def planted(root: Path) -> Tree:
    tree = Tree(root)
    tree.dag(SHOP)
    tree.agent("lead")
    return tree


def told(root: Path) -> list[dict[str, str]]:
    """What a pass on a machine that will not says: the problems it reports, or the error it ends with."""
    try:
        report = routed(root)
    except MachineError as error:
        return [{"code": str(error.code), "message": error.message, "hint": error.hint}]
    return report.problems


def messages(tree: Tree) -> list[str]:
    """A command and an artifact, which reach three inboxes."""
    files = {"design.md": b"# Design\n" * 100}
    return [tree.command("lead", "build"), tree.artifact("pm", "design", "design.md", files)]


def arrived(tree: Tree, sent: list[str]) -> None:
    """All of them are where they belong, once."""
    assert tree.inbox("dev") == sorted(["cmd_build_001.msg.json", f"artifact_{sent[1]}.msg.json", "design.md"])
    assert tree.inbox("tester") == [f"artifact_{sent[1]}.msg.json", "design.md"]
    assert (tree.box("dev", "inbox") / "design.md").read_bytes() == b"# Design\n" * 100
    assert statuses(tree, sent[0]) == ["DELIVERED"]
    assert statuses(tree, sent[1]) == ["DELIVERED", "DELIVERED"]
    assert tree.names("agents/lead/outbox/plan_shop") == tree.names("agents/pm/outbox/plan_shop") == []
    assert tree.codes() == []
    assert counts(tree.root) == {"sent": 2, "delivered": 2}
    assert sound(tree.root)


def test_on_a_full_disk_nothing_is_lost_and_it_goes_on_when_there_is_room(root: Path, mount: Mount) -> None:
    disk = mount(root)
    tree = planted(root)
    routed(root)
    sent = messages(tree)
    disk.fill()
    problems = told(root)
    assert problems
    assert any("room" in each["hint"] for each in problems)
    told(root)
    assert tree.names("agents/lead/outbox/plan_shop") + tree.names("agents/lead/outbox/plan_shop/.sent")
    disk.empty()
    routed(root)
    routed(root)
    arrived(tree, sent)


@pytest.mark.parametrize("where", ["data", "agents", "system_runtime"])
def test_each_part_may_be_full_alone(root: Path, mount: Mount, where: str) -> None:
    disk = mount(root / where)
    tree = planted(root)
    for agent in ("lead", "pm", "dev", "tester"):
        tree.box(agent, "outbox").mkdir(parents=True)
    routed(root)
    sent = messages(tree)
    disk.fill()
    problems = told(root)
    hints = [each["hint"] for each in problems] + [
        each["details"].get("hint", "") for each in alerts(tree) if "hint" in each["details"]
    ]
    assert any("room" in hint for hint in hints), (problems, hints)
    if where == "data":
        assert [each["code"] for each in problems] == ["STORE_FULL"]
        assert tree.inbox("dev") == []
    disk.empty()
    routed(root)
    routed(root)
    arrived(tree, sent)


@pytest.mark.parametrize("where", ["data", "agents", "system_runtime"])
def test_each_part_may_be_read_only_alone(root: Path, mount: Mount, where: str) -> None:
    disk = mount(root / where)
    tree = planted(root)
    routed(root)
    sent = messages(tree)
    disk.writable(False)
    problems = told(root)
    hints = [each["hint"] for each in problems] + [
        each["details"]["hint"] for each in alerts(tree) if "hint" in each["details"]
    ]
    assert any("writable" in hint or "permissions" in hint for hint in hints), (problems, hints)
    told(root)
    disk.writable(True)
    routed(root)
    routed(root)
    arrived(tree, sent)


def test_what_was_acknowledged_before_the_disk_filled_is_there_after_a_restart(root: Path, mount: Mount) -> None:
    disk = mount(root)
    tree = planted(root)
    sent = messages(tree)
    routed(root)
    disk.fill()
    for _ in range(3):
        told(root)
    disk.empty()
    routed(root)
    assert counts(root) == {"sent": 2, "delivered": 2}
    assert statuses(tree, sent[0]) == ["DELIVERED"]
    assert sound(root)


def test_a_recall_that_the_disk_refuses_is_made_up_for(root: Path, mount: Mount) -> None:
    disk = mount(root / "agents" / "dev")
    tree = planted(root)
    tree.command("lead", "build", 1)
    routed(root)
    tree.command("lead", "build", 2)
    disk.writable(False)
    told(root)
    assert tree.inbox("dev") == ["cmd_build_001.msg.json"]
    disk.writable(True)
    routed(root)
    assert tree.inbox("dev") == ["cmd_build_002.msg.json"]
    assert counts(root) == {"sent": 2, "delivered": 1, "superseded": 1}
    assert sound(root)


@pytest.mark.parametrize("jumps", [(0, 0, 0, 0), (-3600, 3600, -3600, 0), (3600, -7200, 3600, 3600)], ids=str)
def test_a_clock_that_jumps_changes_no_decision(tmp_path: Path, jumps: tuple[int, ...]) -> None:
    clock = Watch()
    tree = planted(tmp_path)
    sent = tree.box("lead", "outbox") / ".sent"
    reports: list[RouterReport] = []
    steps: list[Callable[[], Any]] = [
        lambda: [tree.command("lead", "build", seq, message_id=f"m{seq}") for seq in (2, 1)],
        lambda: [tree.command("pm", "build", 3, message_id="m3"), tree.put("lead", "bad.msg.json", b"{")],
        lambda: tree.put("lead", "again.msg.json", (sent / "cmd_build_002.msg.json").read_bytes()),
        lambda: tree.artifact("pm", "design", "design.md", {"design.md": b"x"}, message_id="m4"),
    ]
    for step, jump in zip(steps, jumps, strict=True):
        step()
        clock.move(jump)
        reports.append(routed(tmp_path, clock=clock))
    seen = [(each.accepted, each.superseded, each.duplicate, each.dead, each.delivered) for each in reports]
    assert seen == [(1, 1, 0, 0, 1), (1, 0, 0, 1, 1), (0, 0, 1, 0, 0), (1, 0, 0, 0, 2)]
    assert tree.inbox("dev") == ["artifact_m4.msg.json", "cmd_build_003.msg.json", "design.md"]
    assert counts(tmp_path) == {"sent": 6, "delivered": 2, "superseded": 2, "duplicate": 1, "dead": 1}
    assert len(alerts(tree)) == 1
    assert sound(tmp_path)
