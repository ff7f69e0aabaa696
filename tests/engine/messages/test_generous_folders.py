"""What other parties leave in the folders, one thing at a time: it is read, told, and never does what it should not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.engine.operation.monitor import Monitor
from agenttalk.ports.statements.messages import TASK
from kits.agentkit import WRITES, Desk
from kits.plankit import Engine, plan, play, task
from kits.routerkit import Route, alerts, asked, inside, routed, sound, statuses
from kits.treekit import Tree, dumped, node, output, question, sha256

AT = "2026-03-01T12:00:00Z"
LATER = "2026-03-01T13:00:00Z"
OTHER = [node("build", "dev", outputs=[output("app.zip", "tester")]), node("test", "tester")]


def mended(tree: Tree) -> set[str]:
    """The fields that people were told of."""
    return {each["details"]["field"] for each in alerts(tree, "FORM_MENDED")}


def task_state(tree: Tree, task_id: str = "build") -> str:
    state: str = asked(tree.root, TASK, plan_id=tree.plan_id, task_id=task_id)[0][1]
    return state


def receipt(message_id: str, status: str = "SUCCEEDED", **fields: Any) -> dict[str, Any]:
    about = {"schema_version": "1.0", "plan_id": "plan_shop", "message_id": message_id, "task_id": "build"}
    return {**about, "consumer_agent_id": "dev", "status": status, "consumed_at": AT, "finished_at": AT, **fields}


@pytest.mark.mends("D1")
def test_an_artifact_whose_correlation_names_its_command_is_delivered(tree: Tree, route: Route) -> None:
    correlation = {"parent_command_id": "cmd_design_001"}
    tree.artifact("pm", "design", "design.md", {"design.md": b"x"}, correlation=correlation)
    assert (route().delivered, tree.codes()) == (2, [])
    assert "design.md" in tree.inbox("dev")


@pytest.mark.mends("D2")
def test_a_receipt_with_an_object_for_details_completes_its_task(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    result = {"ok": True, "details": {"artifacts": [{"output_name": "app.zip"}]}}
    tree.put("dev", f"ack_{message_id}.json", receipt(message_id, result=result))
    assert (route().collected, tree.codes()) == (1, [])
    assert task_state(tree) == "COMPLETED"
    [ack] = tree.documents("plans/plan_shop/acks")
    assert json.loads(ack["result"]["details"]) == result["details"]
    assert mended(tree) == {"result.details"}


@pytest.mark.mends("D3")
def test_an_output_travels_under_its_own_name_unless_another_file_has_it(tmp_path: Path) -> None:
    desk = Desk(Tree(tmp_path))
    desk.program(WRITES)
    desk.command("build", 1)
    desk.once()
    desk.command("build", 2)
    (desk.folder / "work.py").write_text(WRITES.replace('"made"', '"again"'), encoding="utf-8")
    desk.once()
    first, second = [each["payload"]["files"][0]["path"] for each in desk.envelopes()]
    assert "made.txt" in {first, second}
    apart = next(path for path in (first, second) if path != "made.txt")
    assert apart.endswith("/made.txt")  # nobody has taken the first one away
    assert (desk.outbox("made.txt").read_text(), desk.outbox(apart).read_text()) == ("made", "again")


@pytest.mark.mends("D4")
def test_a_request_without_a_title_reaches_a_person(tree: Tree, route: Route) -> None:
    asked_for = question("r1", for_whom="dev") | {"title": None, "blocking": {"status": "BLOCKED_WAITING_HUMAN"}}
    tree.put("dev", "human_intervention_request_r1.json", asked_for)
    blocking = {"reason": "MISSING_INPUTS", "missing": [{"name": "prices.csv", "sensitivity": "UNKNOWN"}]}
    about = {"schema_version": "1.0", "plan_id": "plan_shop", "task_id": "build", "agent_id": "dev", "updated_at": AT}
    tree.put("dev", "task_state_build.json", {**about, "state": "BLOCKED_WAITING_HUMAN", "blocking": blocking})
    assert (route().collected, tree.codes()) == (2, [])
    [shown] = tree.documents("plans/plan_shop/human_requests")
    assert shown["title"] == "build: prices.csv"
    assert tree.inbox("agent_human_gateway") == ["human_intervention_request_r1.json"]
    assert task_state(tree) == "BLOCKED_WAITING_HUMAN"
    assert mended(tree) == {"title", "blocking", "blocking.missing"}


@pytest.mark.mends("D5")
def test_a_receipt_stays_until_its_message_has_left_the_inbox_and_a_state_stays(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    name = f"ack_{message_id}.json"
    inbox, outbox = tree.box("dev", "inbox"), tree.box("dev", "outbox")
    pending = inbox / ".pending" / f"{message_id}__cmd_build_001.msg.json"
    pending.parent.mkdir()
    (inbox / "cmd_build_001.msg.json").rename(pending)
    about = {"schema_version": "1.0", "plan_id": "plan_shop", "task_id": "build", "agent_id": "dev", "updated_at": AT}
    tree.put("dev", "task_state_build.json", {**about, "state": "COMPLETED"})
    for status in ("CONSUMED", "SUCCEEDED"):
        tree.put("dev", name, receipt(message_id, status))
        assert route().collected >= 1
        assert (outbox / name).exists()
    assert route().collected == 0  # it is read once more, and says nothing new
    pending.rename(inbox / "done.msg.json.away")
    tree.put("dev", "task_state_build.json", {**about, "state": "COMPLETED", "updated_at": LATER})
    route()
    assert not (outbox / name).exists()
    assert (outbox / ".sent" / name).exists()
    assert (outbox / "task_state_build.json").exists()
    assert (task_state(tree), tree.codes()) == ("COMPLETED", [])


@pytest.mark.mends("D6")
def test_a_manifest_is_read_as_far_as_anything_depends_on_it(tree: Tree, route: Route) -> None:
    manifest = {
        "schema_version": "1.0",
        "plan_id": "plan_shop",
        "commanders": ["lead"],
        "deliverables": [{"name": "app.zip", "accept_if": {"evidence_required": ["x.json"]}}],
        "limits": "none",
    }
    path = tree.plan_folder() / "plan_manifest.json"
    path.write_bytes(dumped(manifest))
    tree.command("lead", "build")
    assert route().delivered == 1
    assert mended(tree) == {"deliverables[0].accept_if", "limits"}
    path.write_bytes(dumped({**manifest, "commanders": "lead"}))
    tree.command("lead", "build", 2)
    assert route().waiting == 1  # who may command is not guessed
    [told] = alerts(tree, "SCHEMA_INVALID")
    assert told["message"].startswith("plan_manifest.json: ")


@pytest.mark.mends("D6")
def test_a_manifest_of_a_release_without_artifacts_is_collected(tree: Tree, route: Route) -> None:
    release: dict[str, Any] = {
        "schema_version": "1.0",
        "release_id": "r",
        "artifacts": None,
        "evidence_required": [],
        "decision": "REJECT",
    }
    tree.put("lead", "release_manifest_r.json", release)
    assert (route().collected, tree.codes()) == (1, [])
    assert mended(tree) == {"artifacts", "evidence_refs"}


@pytest.mark.mends("D7")
@pytest.mark.parametrize(("uptime", "shown"), [(None, None), (12.75, 12)])
def test_no_agent_is_dropped_for_its_uptime(tree: Tree, uptime: float | None, shown: int | None) -> None:
    sign = {"agent_id": "dev", "last_heartbeat": AT, "health": "HEALTHY", "status": "RUNNING"}
    (tree.agent("dev") / "status_heartbeat.json").write_bytes(dumped({**sign, "uptime_seconds": uptime}))
    (tree.agent("pm") / "status_heartbeat.json").write_bytes(b"{")
    seen = inside(tree.root, lambda deps: Monitor(deps).pass_())
    assert seen.agents.keys() == {"dev", "pm"}
    assert seen.agents["pm"] == "UNREADABLE"
    assert any("status_heartbeat.json of pm" in problem["message"] for problem in seen.problems)
    [status] = tree.documents("agent_status")
    assert status.get("uptime_seconds") == shown


@pytest.mark.mends("D7")
def test_our_own_uptime_is_whole_seconds(tmp_path: Path) -> None:
    desk = Desk(Tree(tmp_path))
    desk.program(WRITES)
    desk.once()
    sign = json.loads((desk.folder / "status_heartbeat.json").read_bytes())
    assert isinstance(sign["uptime_seconds"], int)


@pytest.mark.mends("D8", "D12")
def test_commands_and_dags_of_the_engine_say_everything(tmp_path: Path) -> None:
    makes = task("make", outputs=[{"name": "draft.md"}])
    uses = task("use", "b", needs=["make"], inputs=[{"name": "draft", "from": "draft.md"}])

    async def use(running: Engine) -> None:
        await running.submit(plan(makes, uses))
        await running.ended()
        await running.route()

    play(tmp_path, use)
    folder = tmp_path / "system_runtime" / "plans" / "p"
    dag = json.loads((folder / "task_dag.json").read_bytes())
    [made] = dag["nodes"][0]["outputs"]
    assert made["idempotency_key"] == "p:make:draft.md"
    [need] = dag["nodes"][1]["inputs"]
    assert need["pick_policy"] == "latest_by_delivered_at"
    [path] = (folder / "commands").glob("cmd_make_001.msg.json")
    command = json.loads(path.read_bytes())["payload"]["command"]
    assert command["produces"] == [{"output_name": "draft.md", "files": [{"path": "draft.md"}]}]


@pytest.mark.mends("D9")
@pytest.mark.parametrize("claimed", [False, True])
def test_a_command_that_its_receiver_dead_lettered_has_failed(tree: Tree, route: Route, claimed: bool) -> None:
    message_id = tree.command("lead", "build")
    route()
    inbox = tree.box("dev", "inbox")
    (inbox / ".deadletter").mkdir()
    name = f"{message_id}__cmd_build_001.msg.json" if claimed else "cmd_build_001.msg.json"
    (inbox / "cmd_build_001.msg.json").rename(inbox / ".deadletter" / name)
    assert route().dead == 1
    assert task_state(tree) == "FAILED"
    assert tree.codes() == ["DEADLETTERED_BY_RECEIVER"]
    assert statuses(tree, message_id) == ["DELIVERED", "FAILED"]
    [ack] = tree.documents("plans/plan_shop/acks")
    assert (ack["status"], ack["consumer_agent_id"]) == ("FAILED", "dev")
    assert route().dead == 0
    assert sound(tree.root)


@pytest.mark.mends("D9")
@pytest.mark.parametrize("how", ["changed", "torn"])
def test_a_command_does_not_fail_because_another_of_its_id_was_dead_lettered(
    tree: Tree, route: Route, how: str
) -> None:
    message_id = tree.command("lead", "build")
    route()
    inbox = tree.box("dev", "inbox")
    data = (inbox / "cmd_build_001.msg.json").read_bytes()
    (inbox / ".deadletter").mkdir()
    other = data.replace(b"lead", b"lean") if how == "changed" else data[:-9]
    (inbox / ".deadletter" / f"{message_id}__forged.msg.json").write_bytes(other)
    assert route().dead == 0
    assert statuses(tree, message_id) == ["DELIVERED"]
    assert sound(tree.root)


@pytest.mark.mends("D10")
def test_a_look_of_the_monitor_leaves_a_newer_status_of_another_party(tree: Tree) -> None:
    path = tree.plan_folder() / "plan_status.json"
    theirs = {"schema_version": "1.0", "plan_id": "plan_shop", "updated_at": "2999-01-01T00:00:00Z", "tasks": []}
    path.write_bytes(dumped(theirs))
    inside(tree.root, lambda deps: Monitor(deps).pass_())
    assert json.loads(path.read_bytes()) == theirs
    assert len(alerts(tree, "VIEW_FOREIGN")) == 1
    path.write_bytes(dumped({**theirs, "updated_at": "2020-01-01T00:00:00Z"}))
    tree.command("lead", "build")
    routed(tree.root)
    tree.put("dev", "task_state_build.json", {**state_of("build", "dev"), "state": "RUNNING"})
    routed(tree.root)
    assert len(json.loads(path.read_bytes())["tasks"]) == 3  # ours is later


def state_of(task_id: str, agent_id: str) -> dict[str, Any]:
    about = {"schema_version": "1.0", "plan_id": "plan_shop", "task_id": task_id, "agent_id": agent_id}
    return {**about, "updated_at": AT}


@pytest.mark.mends("D11")
def test_a_result_whose_issues_have_messages_is_collected(tree: Tree, route: Route) -> None:
    subject = {
        "producer_agent_id": "dev",
        "task_id": "build",
        "artifact_name": "app.zip",
        "artifact_sha256": sha256(b""),
    }
    result = {"schema_version": "1.0", "validation_id": "v", "validator_agent_id": "tester", "validated_at": AT}
    issue = {"severity": "HIGH", "category": "E2E", "message": "It fails.", "suggestion": "Mend it."}
    said = {**result, "subject": subject, "decision": "REJECT", "issues": [issue]}
    tree.put("tester", "artifact_validation_result_v.json", said)
    assert (route().collected, tree.codes()) == (1, [])
    [kept] = tree.documents("plans/plan_shop/validations")
    assert kept["issues"][0]["description"] == "It fails."
    assert mended(tree) == {"issues[0].description"}


@pytest.mark.mends("D12")
def test_a_file_that_cannot_be_read_has_a_line(tree: Tree, route: Route) -> None:
    tree.put("dev", "broken.msg.json", b"{")
    tree.put("dev", "ack_broken.json", b"[")
    assert route().dead == 2
    lines = {line["file_name"]: line for line in tree.journal()}
    assert lines.keys() == {"broken.msg.json", "ack_broken.json"}
    assert {line["status"] for line in lines.values()} == {"DEADLETTERED"}
    assert lines["broken.msg.json"]["envelope_sha256"] == sha256(b"{")
    assert all(line["message_id"].startswith("unread_") for line in lines.values())


# What nobody brought


def put_into_inbox(desk: Desk, **fields: Any) -> str:
    """A command that somebody lays straight into an inbox."""
    message_id = desk.tree.command("lead", "build", **fields)
    source = desk.tree.box("lead", "outbox") / "cmd_build_001.msg.json"
    target = desk.inbox("cmd_build_001.msg.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    return message_id


@pytest.fixture
def desk(tree: Tree) -> Desk:
    desk = Desk(tree)
    desk.program(WRITES)
    return desk


@pytest.mark.mends("B6")
def test_a_command_with_a_bogus_dag_that_nobody_brought_is_refused(desk: Desk) -> None:
    put_into_inbox(desk, dag_ref={"sha256": sha256(b"bogus")})
    assert desk.once().ran == 0
    assert desk.codes() == ["COMMAND_DAG_MISMATCH"]
    assert desk.names(".deadletter") == ["cmd_build_001.msg.json"]


@pytest.mark.mends("B6")
def test_a_command_that_nobody_brought_waits_until_a_router_says_that_it_did(desk: Desk) -> None:
    message_id = put_into_inbox(desk)
    for _ in range(2):
        assert desk.once().ran == 0
    assert (desk.alerts(), desk.codes()) == (["MESSAGE_UNROUTED"], [])
    lying = desk.inbox("cmd_build_001.msg.json").read_bytes()
    agent_id, desk.agent_id = desk.agent_id, "pm"
    desk.note(lying)  # it says that it was brought to another agent
    desk.agent_id = agent_id
    assert desk.once().ran == 0
    desk.note(lying)
    assert desk.once().ran == 1
    assert desk.ack(message_id)["status"] == "SUCCEEDED"


@pytest.mark.mends("B6")
def test_the_operator_may_let_run_what_nobody_brought(desk: Desk) -> None:
    put_into_inbox(desk)
    desk.unrouted = True
    assert desk.once().ran == 1


@pytest.mark.mends("B6")
def test_what_the_operator_lets_run_is_held_against_the_dag_all_the_same(desk: Desk) -> None:
    put_into_inbox(desk, dag_ref={"sha256": sha256(b"bogus")})
    desk.unrouted = True
    assert (desk.once().ran, desk.codes()) == (0, ["COMMAND_DAG_MISMATCH"])


@pytest.mark.mends("B6")
def test_many_that_nobody_brought_hold_up_no_other(desk: Desk) -> None:
    good = desk.command("build", 2)
    lying = json.loads(desk.inbox("cmd_build_002.msg.json").read_bytes())
    for number in range(60):
        name = f"a{number:03d}.msg.json"
        desk.inbox(name).write_bytes(dumped({**lying, "message_id": f"forged_{number}"}))
    for _ in range(2):
        desk.once()
    assert desk.ack(good)["status"] == "SUCCEEDED"


@pytest.mark.mends("B6")
def test_an_artifact_of_anothers_task_is_refused_by_the_router_and_in_the_inbox(desk: Desk, route: Route) -> None:
    tree = desk.tree
    tree.agent("eve")
    tree.artifact("eve", "design", "design.md", {"design.md": b"evil"}, message_id="m1")
    assert route().dead == 1
    assert tree.codes() == ["PRODUCER_MISMATCH"]
    [letter] = tree.documents("deadletter/plan_shop")
    assert letter["reason"]["message"] == "task 'design' is 'pm''s, not 'eve''s"
    assert tree.inbox("dev") == []
    tree.artifact("eve", "design", "notes.md", {"notes.md": b"evil"}, message_id="m2")
    box = tree.box("eve", "outbox")
    desk.inbox().mkdir(parents=True, exist_ok=True)
    (box / "notes.md").rename(desk.inbox("notes.md"))
    desk.deliver("artifact_m2.msg.json", (box / "artifact_m2.msg.json").read_bytes())  # another router was lax
    assert desk.once().archived == 0
    assert "PRODUCER_MISMATCH" in desk.codes()


# Another DAG


def switch(tree: Tree) -> None:
    before = dict(tree.dags)
    tree.dag(OTHER)
    assert tree.dags != before


@pytest.mark.mends("B5")
def test_a_waiting_command_of_the_old_dag_does_not_run_on_the_new_one(desk: Desk) -> None:
    message_id = desk.command("build", required_inputs=["design.md"], wait_for_inputs=True)
    desk.once()
    assert desk.task()["state"] == "BLOCKED_WAITING_INPUT"
    switch(desk.tree)
    desk.artifact("build", "design.md", {"design.md": b"x"})
    assert desk.once().ran == 0
    ack = desk.ack(message_id)
    assert (ack["status"], ack["result"]["ok"]) == ("FAILED", False)
    assert ack["result"]["details"].startswith("SUPERSEDED: it was made for the DAG ")
    assert desk.task()["state"] == "PENDING"
    routed(desk.tree.root)
    assert "SKIPPED_SUPERSEDED" in statuses(desk.tree, message_id)
    assert sound(desk.tree.root)


@pytest.mark.mends("B5")
def test_a_command_that_lies_in_an_inbox_is_taken_back_when_the_dag_changes(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    assert tree.inbox("dev") == ["cmd_build_001.msg.json"]
    switch(tree)
    route()
    assert tree.inbox("dev") == []
    assert statuses(tree, message_id) == ["DELIVERED", "SKIPPED_SUPERSEDED"]
    tree.command("lead", "build", 2)
    assert route().delivered == 1
    assert sound(tree.root)


@pytest.mark.mends("B5")
def test_a_command_that_somebody_works_on_ends_though_the_dag_changes(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    tree.put("dev", f"ack_{message_id}.json", receipt(message_id, "CONSUMED"))
    route()
    switch(tree)
    route()
    tree.put("dev", f"ack_{message_id}.json", receipt(message_id, "SUCCEEDED"))
    route()
    assert task_state(tree) == "COMPLETED"
    assert statuses(tree, message_id) == ["DELIVERED"]


def test_while_a_plans_files_contradict_each_other_nothing_begins(desk: Desk) -> None:
    desk.command("build")
    dag = desk.tree.plan_folder() / "task_dag.json"
    good = dag.read_bytes()
    dag.write_bytes(dumped({"schema_version": "1.1", "plan_id": "plan_shop", "nodes": OTHER}))
    assert desk.once().ran == 0
    dag.write_bytes(good)
    assert desk.once().ran == 1
