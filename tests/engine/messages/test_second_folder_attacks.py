"""Folders once more: what agents and other routers leave there that should count for nothing, or that looks odd."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from agenttalk.engine.operation.monitor import Monitor
from engine.messages.test_generous_folders import receipt, task_state
from kits.agentkit import WRITES, Desk
from kits.routerkit import Route, alerts, inside, sound, statuses
from kits.treekit import Tree, dumped, sha256

pytestmark = pytest.mark.rest

AT = "2026-03-01T12:00:00Z"
LATER = "2026-03-01T13:00:00Z"


def state_file(state: str = "COMPLETED", **fields: Any) -> dict[str, Any]:
    about = {"schema_version": "1.0", "plan_id": "plan_shop", "task_id": "build", "agent_id": "dev", "updated_at": AT}
    return {**about, "state": state, **fields}


def watch(tree: Tree) -> None:
    inside(tree.root, lambda deps: Monitor(deps).pass_())


# Done without a command


@pytest.mark.parametrize(
    "how", ["a refused message", "a file's name", "one letter", "an artifact", "another's command"]
)
def test_no_line_makes_a_state_believed_unless_it_brought_that_command_to_that_agent(
    tree: Tree, route: Route, how: str
) -> None:
    """An agent says that its task is done, and names as its command something that stands in the journal anyhow."""
    named = "msg_claimed"
    if how == "a refused message":
        tree.command("dev", "test", message_id=named, dag_ref={"sha256": sha256(b"bogus")})
    elif how == "a file's name":
        tree.put("dev", f"x{named}x.msg.json", b"{")
    elif how == "one letter":
        named = "e"
        tree.put("dev", "broken.msg.json", b"{")
    elif how == "an artifact":
        tree.artifact("pm", "design", "design.md", {"design.md": b"x"}, message_id=named)
    else:
        tree.command("lead", "test", message_id=named)
    route()
    assert named in (tree.plan_folder() / "deliveries.jsonl").read_text(encoding="utf-8")
    tree.put("dev", "task_state_build.json", state_file(message_id=named))
    watch(tree)
    [shown] = [each for each in status_of(tree) if each["task_id"] == "build"]
    assert shown["state"] != "COMPLETED"


def status_of(tree: Tree) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((tree.plan_folder() / "plan_status.json").read_bytes())["tasks"]
    return found


def test_a_state_is_believed_where_another_router_brought_its_command(tree: Tree) -> None:
    desk = Desk(tree)
    named = desk.command("build")  # with the line that another router writes
    desk.inbox("cmd_build_001.msg.json").unlink()  # the agent of another party took it
    tree.put("dev", "task_state_build.json", state_file(message_id=named))
    watch(tree)
    [shown] = [each for each in status_of(tree) if each["task_id"] == "build"]
    assert shown["state"] == "COMPLETED"


# Receipts and clocks


def test_receipts_that_go_backwards_change_nothing(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    name = f"ack_{message_id}.json"
    tree.put("dev", name, receipt(message_id))
    assert (route().collected, task_state(tree)) == (1, "COMPLETED")
    for status in ("CONSUMED", "FAILED"):
        tree.put("dev", name, receipt(message_id, status))
        route()
        assert task_state(tree) == "COMPLETED"
    assert tree.codes() == ["CONTROL_CHANGED"] * 2
    assert sound(tree.root)


def test_a_clock_that_was_years_ahead_does_not_silence_an_agent_for_years(tree: Tree, route: Route) -> None:
    tree.command("lead", "build")
    route()
    tree.put("dev", "task_state_build.json", state_file("BLOCKED_WAITING_INPUT", updated_at="9999-12-31T23:59:59Z"))
    route()
    before = task_state(tree)
    tree.put("dev", "task_state_build.json", state_file("RUNNING", updated_at=LATER))
    route()
    assert (before, task_state(tree)) == ("BLOCKED_WAITING_INPUT", "RUNNING")
    tree.put("dev", "task_state_build.json", state_file("BLOCKED_WAITING_INPUT", updated_at=AT))
    route()
    assert task_state(tree) == "RUNNING", "what is really older says nothing new"


def test_a_receipt_of_a_command_that_was_replaced_does_not_complete_the_task(tree: Tree, route: Route) -> None:
    first = tree.command("lead", "build")
    route()
    tree.put("dev", f"ack_{first}.json", receipt(first, "CONSUMED"))
    route()
    tree.command("lead", "build", 2)
    route()
    tree.put("dev", f"ack_{first}.json", receipt(first, consumed_at=AT, finished_at="9999-12-31T23:59:59Z"))
    route()
    assert task_state(tree) != "COMPLETED"
    assert sound(tree.root)


# Ids and names


def test_a_message_that_is_refused_takes_no_id_from_an_honest_one(tree: Tree, route: Route) -> None:
    tree.agent("eve")
    tree.command("eve", "build", message_id="msg_wanted", dag_ref={"sha256": sha256(b"bogus")})
    tree.put("eve", "artifact_x.msg.json", dumped({"message_id": "msg_wanted", "plan_id": "plan_shop"}))
    assert route().dead == 2
    tree.command("lead", "build", message_id="msg_wanted")
    assert route().delivered == 1
    assert tree.inbox("dev") == ["cmd_build_001.msg.json"]


def test_two_of_one_id_with_other_content_are_one_and_a_dead_letter(tree: Tree, route: Route) -> None:
    tree.artifact("pm", "design", "design.md", {"design.md": b"good"}, message_id="m1")
    route()
    tree.artifact("pm", "design", "notes.md", {"notes.md": b"other"}, message_id="m1")
    report = route()
    assert (report.dead, tree.inbox("dev").count("notes.md")) == (1, 0)
    assert (tree.box("dev", "inbox") / "design.md").read_bytes() == b"good"


def test_names_that_differ_in_case_alone_are_two_files(tree: Tree, route: Route) -> None:
    files = {"Design.md": b"large", "design.md": b"small"}
    tree.artifact("pm", "design", "design.md", files)
    assert (route().delivered, tree.codes()) == (2, [])
    inbox = tree.box("dev", "inbox")
    assert {name: (inbox / name).read_bytes() for name in files} == files


def test_a_router_that_delivers_twice_under_other_names_has_it_run_once(tree: Tree) -> None:
    desk = Desk(tree)
    desk.program(WRITES)
    message_id = desk.command("build")
    content = desk.inbox("cmd_build_001.msg.json").read_bytes()
    desk.deliver("again.msg.json", content)
    assert desk.once().ran == 1
    desk.deliver("CMD_BUILD_001.msg.json", content)
    desk.deliver("cmd_build_001.msg.json", content)
    assert desk.once().ran == 0
    assert (desk.ack(message_id)["status"], desk.codes()) == ("SUCCEEDED", [])


def test_the_same_line_does_not_bring_other_bytes(tree: Tree) -> None:
    desk = Desk(tree)
    desk.program(WRITES)
    desk.command("build")
    path = desk.inbox("cmd_build_001.msg.json")
    told = json.loads(path.read_bytes())
    told["payload"]["command"]["prompt"] = "Do something else."
    path.write_bytes(dumped(told))
    assert desk.once().ran == 0
    assert desk.alerts() == ["MESSAGE_UNROUTED"]


# Plans that go away


def test_a_plan_whose_folder_disappears_delivers_nothing_and_goes_on_when_it_is_back(tree: Tree, route: Route) -> None:
    route()
    aside = tree.root / "aside"
    shutil.move(tree.plan_folder(), aside)
    message_id = tree.command("lead", "build")
    report = route()
    assert (report.delivered, tree.inbox("dev")) == (0, [])
    shutil.rmtree(tree.plan_folder(), ignore_errors=True)
    shutil.move(aside, tree.plan_folder())
    assert route().delivered == 1
    assert statuses(tree, message_id) == ["DELIVERED"]
    assert sound(tree.root)


def test_a_dead_letter_that_is_put_back_again_and_again_is_told_once(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    inbox = tree.box("dev", "inbox")
    data = (inbox / "cmd_build_001.msg.json").read_bytes()
    dead = inbox / ".deadletter"
    dead.mkdir()
    for number in range(3):
        (dead / f"{number}.msg.json").write_bytes(data)
        (inbox / "cmd_build_001.msg.json").write_bytes(data)
        route()
    assert statuses(tree, message_id) == ["DELIVERED", "FAILED"]
    assert tree.codes() == ["DEADLETTERED_BY_RECEIVER"]
    assert len(alerts(tree, "DEADLETTERED_BY_RECEIVER")) == 1
    desk = Desk(tree)
    desk.program(WRITES)
    assert desk.once().ran == 0, "what has failed does not run because its file lies there once more"


# Honest, and odd


def test_a_receipt_that_comes_before_its_artifact_loses_nothing(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    tree.put("dev", f"ack_{message_id}.json", receipt(message_id))
    route()
    tree.artifact("dev", "build", "app.zip", {"app.zip": b"zip"}, seq=1)
    assert route().delivered == 1
    assert (tree.box("tester", "inbox") / "app.zip").read_bytes() == b"zip"
    assert (task_state(tree), tree.codes()) == ("COMPLETED", [])


def test_an_agent_that_works_before_it_is_asked_has_its_work_delivered(tree: Tree, route: Route) -> None:
    tree.artifact("pm", "design", "design.md", {"design.md": b"early"})
    assert route().delivered == 2
    tree.command("lead", "design")
    assert route().delivered == 1
    assert tree.codes() == []
