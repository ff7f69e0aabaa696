"""Messages and control files on their way through the router."""

from __future__ import annotations

import json
import shutil
from typing import Any

from agenttalk.engine.messages import plan_registry
from agenttalk.engine.people import questions
from crash.life import Life, Scenario, Step, by_hand, route
from kits.treekit import Tree, dumped, node, output

SHOP = [
    node("design", "pm", outputs=[output("design.md", "dev", "tester"), output("notes.md", "dev")]),
    node("build", "dev", depends_on=["design"], outputs=[output("app.zip", "tester", deliverable=True)]),
    node("test", "tester", depends_on=["build"], outputs=[output("report.md", deliverable=True)]),
]


def _shop(tree: Tree) -> None:
    tree.dag(SHOP)
    tree.agent("lead")


def _orders(tree: Tree) -> None:
    """An older and a newer command of one task, one that is recalled later, and two that are no commands."""
    tree.command("lead", "design", 1, message_id="msg_design_1")
    tree.command("lead", "design", 2, message_id="msg_design_2")
    tree.command("lead", "build", 1, message_id="msg_build_1")
    tree.put("lead", "broken.msg.json", b'{"schema_version": "1.0", "message_id": ')
    tree.command("lead", "test", 1, message_id="msg_forged")
    forged = tree.box("lead", "outbox") / "cmd_test_001.msg.json"
    text = forged.read_bytes().replace(b'"producer_agent_id": "lead"', b'"producer_agent_id": "pm"')
    tree.put("lead", forged.name, text)


def _newer_orders(tree: Tree) -> None:
    tree.command("lead", "build", 2, message_id="msg_build_2")
    sent = tree.box("lead", "outbox") / ".sent" / "cmd_design_002.msg.json"
    tree.put("lead", "again.msg.json", sent.read_bytes())


COMMANDS = Scenario(
    "commands",
    _shop,
    (by_hand(_orders), route(), by_hand(_newer_orders, seconds=60), route(seconds=60)),
    made=False,
)


def _designs(tree: Tree) -> None:
    """One file for two receivers that is too large for the database, and two messages with a file of one name."""
    tree.artifact("pm", "design", "design.md", {"design.md": b"Blue. " * 12_000}, message_id="msg_design")
    tree.artifact("pm", "design", "notes.md", {"notes/n.txt": b"one"}, message_id="msg_notes_1", seq=1)


def _second_notes(tree: Tree) -> None:
    tree.artifact("pm", "design", "notes.md", {"notes/n.txt": b"two"}, message_id="msg_notes_2", seq=2)
    tree.artifact("dev", "build", "app.zip", {"app.zip": b"zip"}, message_id="msg_app")
    tree.artifact("tester", "test", "report.md", {"report.md": b"fine"}, message_id="msg_report")
    tree.artifact("tester", "test", "report.md", {"lost.md": b"fine"}, message_id="msg_lost")
    (tree.box("tester", "outbox") / "lost.md").unlink()


def _notes_are_taken(tree: Tree) -> None:
    """A receiver that is not ours takes a message and its file away."""
    inbox = tree.box("dev", "inbox")
    (inbox / ".processed").mkdir(exist_ok=True)
    (inbox / "artifact_msg_notes_1.msg.json").rename(inbox / ".processed" / "artifact_msg_notes_1.msg.json")
    shutil.rmtree(inbox / "notes")


ARTIFACTS = Scenario(
    "artifacts",
    _shop,
    (
        by_hand(_designs),
        route(),
        by_hand(_second_notes, seconds=60),
        route(seconds=60),
        by_hand(_notes_are_taken, seconds=120),
        route(seconds=120),
    ),
)


def _receipt(status: str, **more: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "plan_id": "plan_shop",
        "message_id": "msg_design",
        "task_id": "design",
        "command_id": "cmd_design_001",
        "command_seq": 1,
        "consumer_agent_id": "pm",
        "status": status,
        "consumed_at": "2026-03-01T12:00:00Z",
        **more,
    }


def _told(tree: Tree) -> None:
    tree.put("pm", "ack_msg_design.json", _receipt("CONSUMED"))
    report: dict[str, Any] = {"schema_version": "1.0", "plan_id": "plan_shop", "task_id": "design", "agent_id": "pm"}
    report |= {"state": "RUNNING", "updated_at": "2026-03-01T12:01:00Z", "progress": {"percent": 40}}
    tree.put("pm", "task_state_design.json", report)
    tree.put("pm", "human_intervention_request_r1.json", _question())
    decision: dict[str, Any] = {
        "schema_version": "1.0",
        "decision_id": "d1",
        "decision_type": "DAG_REVIEW",
        "decision": "APPROVE",
    }
    decision |= {"plan_id": "plan_shop", "decided_by_agent_id": "pm"}
    decision["subject"] = {"kind": "task_dag", "ref_sha256": tree.dags["plan_shop"]}
    tree.put("pm", "decision_record_d1.json", decision)
    tree.put("pm", "decision_record_d2.json", {**decision, "decision_id": "d2", "plan_id": "another"})


def _question() -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "request_id": "r1",
        "plan_id": "plan_shop",
        "created_at": "2026-03-01T12:01:00Z",
        "created_by": {"agent_id": "pm", "task_id": "design", "command_id": "cmd_design_001"},
        "severity": "HIGH",
        "type": "MISSING_FILE",
        "title": "A brief is missing",
        "blocking": True,
        "needed": {"files": [{"name": "brief.md", "deliver_to_agent_id": "pm"}]},
    }


def _finished(tree: Tree) -> None:
    tree.put(
        "pm", "ack_msg_design.json", _receipt("SUCCEEDED", finished_at="2026-03-01T12:02:00Z", result={"ok": True})
    )


async def _answer(life: Life) -> None:
    """Somebody who died with the process asks whether his answer is there, and gives it again if it is not."""
    _, request = await questions.find_question(life.deps, "r1")
    if request.state == "open":
        await questions.answer(life.deps, "r1", by="ann", decision="PROVIDE", files={"brief.md": b"Be brief."})


CONTROL = Scenario(
    "control",
    _shop,
    (
        by_hand(lambda tree: tree.command("lead", "design", 1, message_id="msg_design")),
        route(),
        by_hand(_told, seconds=60),
        route(seconds=60),
        Step(_answer, seconds=90),
        by_hand(_finished, seconds=120),
        route(seconds=120),
    ),
)


def _dag(*tasks: str) -> bytes:
    nodes = [node(task, "dev", outputs=[output("out.md", "tester")]) for task in tasks]
    return dumped({"schema_version": "1.1", "plan_id": "plan_ours", "nodes": nodes})


def _crew(tree: Tree) -> None:
    for agent_id in ("lead", "dev", "tester"):
        tree.agent(agent_id)


MANIFEST = dumped({"plan_id": "plan_ours", "commanders": ["lead"]})


async def _submit(life: Life) -> None:
    await plan_registry.submit(life.deps, _dag("one"), manifest=MANIFEST)


async def _switch(life: Life) -> None:
    await plan_registry.submit(life.deps, _dag("one", "two"), manifest=MANIFEST)


def _ordered(tree: Tree, task_id: str, message_id: str) -> None:
    pointer = json.loads((tree.plan_folder("plan_ours") / "active_dag_ref.json").read_bytes())
    tree.dags["plan_ours"] = pointer["task_dag_sha256"]
    tree.command("lead", task_id, message_id=message_id, plan_id="plan_ours")


def _too_late(tree: Tree) -> None:
    """A command under the DAG that was just replaced, and one of a plan that nobody knows."""
    tree.command("lead", "one", 2, message_id="msg_one_2", plan_id="plan_ours")
    tree.dags["plan_else"] = "sha256:" + "0" * 64
    tree.command("lead", "any", message_id="msg_else", plan_id="plan_else")


PLANS = Scenario(
    "plans",
    _crew,
    (
        Step(_submit),
        route(),
        by_hand(lambda tree: _ordered(tree, "one", "msg_one")),
        route(),
        Step(_switch, seconds=60),
        by_hand(_too_late, seconds=60),
        route(seconds=60),
        by_hand(lambda tree: _ordered(tree, "two", "msg_two"), seconds=120),
        route(seconds=120),
    ),
)
SCENARIOS = (COMMANDS, ARTIFACTS, CONTROL, PLANS)
