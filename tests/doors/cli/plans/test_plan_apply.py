"""`agenttalk plan apply`: what a new plan takes the place of is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doors.cli.plans.test_run import PATIENCE, Desk, desk, task, waited

__all__ = ["desk"]


def journal(desk: Desk) -> list[dict[str, Any]]:
    """The lines of the plan's deliveries about what was superseded."""
    text = (desk.root / "system_runtime/plans/shop/deliveries.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    return [each for each in lines if each["status"] == "SKIPPED_SUPERSEDED"]


@pytest.mark.mends("B5")
def test_commands_that_a_new_plan_takes_back_are_journalled_acknowledged_and_explained(desk: Desk) -> None:
    slow, stays, goes = task("slow", priority="HIGH"), task("stays"), task("goes")
    plan = desk.plan(slow, stays, goes, task("changed"))
    child = desk.start("run", plan)
    waited(lambda: desk.ran == ["slow cmd_slow_001 1"])
    plan = desk.plan(slow, stays, task("changed", name="Another"))
    assert desk.json("plan", "apply", plan) | {"ok": True} == {
        "ok": True,
        "plan_id": "shop",
        "added": [],
        "changed": ["changed"],
        "removed": ["goes"],
    }
    desk.let("go")
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, out + err
    lines = {each["command_id"]: each for each in journal(desk)}
    assert set(lines) == {"cmd_stays_001", "cmd_goes_001", "cmd_changed_001"}
    assert {each["to_agent_id"] for each in lines.values()} == {"worker"}
    assert lines["cmd_stays_001"]["superseded_by_command_id"] == "cmd_stays_002"
    assert lines["cmd_stays_001"]["skip_reason"] == "revision 2 of the plan is in force"
    for line in lines.values():
        ack = json.loads((desk.root / f"system_runtime/plans/shop/acks/ack_{line['message_id']}.json").read_bytes())
        assert (ack["status"], ack["command_id"]) == ("FAILED", line["command_id"])
        assert ack["result"]["details"].startswith("SUPERSEDED: revision 2")
    for name in ("stays", "goes", "changed"):
        said = f"cmd_{name}_001 was superseded before it ran: revision 2 of the plan is in force"
        assert said in desk("explain", f"shop/{name}")
    assert "superseded" not in desk("explain", "shop/slow")
    assert desk.ran[1:] == ["stays cmd_stays_002 1", "changed cmd_changed_002 1"]
    assert desk.json("fsck")["faults"] == []
    desk("audit", "verify")


@pytest.mark.mends("B5")
def test_a_command_in_an_inbox_vanishes_from_there_when_a_new_plan_takes_it_back(desk: Desk) -> None:
    agents = {"outside": {"driver": "folder"}}
    plan = desk.plan(task("by_hand", "outside"), agents=agents)
    desk("run", plan, code=3)
    inbox = desk.root / "agents/outside/inbox/shop"
    assert (inbox / "cmd_by_hand_001.msg.json").exists()
    desk("plan", "apply", desk.plan(task("by_hand", "outside", name="Another"), agents=agents))
    desk("run", desk.plan(task("by_hand", "outside", name="Another"), agents=agents), code=3)
    assert [each.name for each in inbox.glob("cmd_*.msg.json")] == ["cmd_by_hand_002.msg.json"]
    assert [each["command_id"] for each in journal(desk)] == ["cmd_by_hand_001"]
    assert desk.json("fsck")["faults"] == []
