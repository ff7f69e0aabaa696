"""Router and heartbeats together: a command goes out, its output reaches the next agent, which works with it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.messages.router import Router
from agenttalk.ports.statements.messages import ADD_HANDOVER, PLAN
from agenttalk.ports.storage import Tx
from agenttalk.wiring import open_root
from kits.treekit import Tree, node, output, sha256

DESIGN = """
import os, pathlib
n = os.environ["AGENTTALK_COMMAND_ID"][-3:]
(pathlib.Path(os.environ["AGENTTALK_OUTPUTS"]) / "design.md").write_text(f"design {n}")
"""
BUILD = """
import os, pathlib
text = "".join(p.read_text() for p in pathlib.Path(os.environ["AGENTTALK_INPUTS"]).rglob("*.md") if p.is_file())
(pathlib.Path(os.environ["AGENTTALK_OUTPUTS"]) / "app.zip").write_text(f"built from {text}")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.dag(
        [
            node("design", "pm", outputs=[output("design.md", "dev")]),
            node("build", "dev", depends_on=["design"], outputs=[output("app.zip", deliverable=True)]),
        ]
    )
    tree.agent("lead")
    for agent_id, program in (("pm", DESIGN), ("dev", BUILD)):
        folder = tree.agent(agent_id, driver="script", argv=[sys.executable, "work.py"])
        (folder / "work.py").write_text(program, encoding="utf-8")
    return tree


def work(tree: Tree, rounds: int = 4) -> None:
    """Router and agents in turn, until nothing is left to do."""

    async def run() -> None:
        async with open_root(tree.root) as deps:
            known = LocalProcesses()
            router = Router(deps)
            beats = [Heartbeat(deps, agent_id, ScriptDriver(known), known) for agent_id in ("pm", "dev")]
            for _ in range(rounds):
                await router.pass_()
                for beat in beats:
                    tick = await beat.run_once()
                    assert tick.errors == []
            await router.pass_()

    asyncio.run(run())


def built(tree: Tree) -> str:
    found = (tree.root / "system_runtime" / "artifacts" / "plan_shop" / "build").rglob("app.zip")
    [path] = [each for each in found if each.is_file()]
    return path.read_text(encoding="utf-8")


@pytest.mark.shows("M05", "M06")
def test_an_output_reaches_the_next_agent_and_the_command_that_waits_for_it(shop: Tree) -> None:
    waiting = shop.command("lead", "build", required_inputs=["design.md"], wait_for_inputs=True)
    work(shop)
    assert not list((shop.root / "system_runtime" / "artifacts").rglob("app.zip"))
    shop.command("lead", "design")
    work(shop)
    assert built(shop) == "built from design 001"
    assert shop.codes() == []
    acks = {each["message_id"]: each["status"] for each in shop.documents("plans/plan_shop/acks")}
    assert acks[waiting] == "SUCCEEDED"
    assert shop.inbox("dev") == shop.inbox("pm") == []
    lying = [path.name for path in shop.box("pm", "outbox").rglob("*") if path.is_file() and ".sent" not in path.parts]
    assert lying == ["task_state_design.json"]
    assert {each["status"] for each in shop.journal()} == {"DELIVERED"}


def test_what_the_router_took_already_is_not_handed_over_again(shop: Tree) -> None:
    """As after a crash between the writing of a file and the note that it was written."""
    message_id = shop.command("lead", "design")
    work(shop)
    sent = shop.box("pm", "outbox") / ".sent"
    [envelope] = sent.glob("artifact_*.msg.json")
    artifact_id = json.loads(envelope.read_bytes())["message_id"]
    ack = sent / f"ack_{message_id}.json"
    rows = [
        ("design.md", sent / "design.md", artifact_id),
        (envelope.name, envelope, artifact_id),
    ]

    async def left_over() -> None:
        async with open_root(shop.root) as deps:
            board = await deps.stores.board("default")

            def again(tx: Tx) -> None:
                about = {"plan_id": "plan_shop", "agent_id": "pm"}
                for name, path, message in [*rows, (ack.name, ack, None)]:
                    content = sha256(path.read_bytes())
                    tx.run(ADD_HANDOVER, **about, name=name, content=content, message_id=message)

            await board.transact(again)

    asyncio.run(left_over())
    before = shop.journal()
    work(shop)
    assert shop.journal() == before
    assert shop.codes() == []


def test_a_newer_design_takes_the_place_of_the_one_before(shop: Tree) -> None:
    shop.command("lead", "design", 1)
    work(shop)
    shop.command("lead", "design", 2)
    work(shop)
    shop.command("lead", "build", 3, required_inputs=["design.md"], wait_for_inputs=True)
    work(shop)
    assert shop.codes() == []
    assert built(shop) == "built from design 002"
    inputs = shop.root / "agents/dev/workspace/plan_shop/inputs"
    assert [path.read_text(encoding="utf-8") for path in (inputs / ".history").rglob("*.md")] == ["design 001"]


@pytest.mark.shows("M15")
def test_nothing_is_lost_and_the_ledger_holds(shop: Tree) -> None:
    for seq in (1, 2, 3):
        shop.command("lead", "design", seq)
    work(shop)
    status = json.loads((shop.root / "agents/pm/status_heartbeat.json").read_bytes())
    assert status["health"] == "HEALTHY"

    async def counts() -> tuple[int, ...]:
        async with open_root(shop.root) as deps:
            board = await deps.stores.board("default")
            [row] = await board.read(PLAN, plan_id="plan_shop")
            return tuple(row[5:])

    sent, *others = asyncio.run(counts())
    assert sent == sum(others)
