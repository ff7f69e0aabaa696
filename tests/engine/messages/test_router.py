"""What the router does with messages: who gets them, which of them, when, and that none is lost."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from agenttalk.adapters.store.root import database_path
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.messages import plan_registry, published_files
from agenttalk.engine.messages.router import Router
from agenttalk.ports.statements.messages import (
    ADD_PLAN,
    DELIVERY_OF,
    JOURNAL_STATE,
    JOURNAL_WRITTEN,
    PLAN,
    PUT_TASK,
    UNSHOWN_VIEWS,
)
from agenttalk.ports.storage import Tx
from kits.routerkit import Route, alerts, asked, counts, graves, inside, routed, sound, statuses
from kits.treekit import Tree, dumped, node, output, sha256


def envelope(tree: Tree, sender: str, name: str, folder: str = ".sent") -> bytes:
    return (tree.box(sender, "outbox") / folder / name).read_bytes()


# Who gets a message.


@pytest.mark.shows("M02", "M10")
def test_a_command_goes_to_the_tasks_agent_byte_for_byte_and_nowhere_else(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    report = route()
    assert (report.accepted, report.delivered, report.idle) == (1, 1, False)
    assert tree.inbox("dev") == ["cmd_build_001.msg.json"]
    assert tree.inbox("pm") == tree.inbox("tester") == tree.inbox("lead") == []
    name = "cmd_build_001.msg.json"
    assert (tree.box("dev", "inbox") / name).read_bytes() == envelope(tree, "lead", name)
    [line] = tree.journal()
    assert (line["status"], line["from_agent_id"], line["to_agent_id"]) == ("DELIVERED", "lead", "dev")
    assert line["envelope_sha256"] == sha256(envelope(tree, "lead", name))
    assert statuses(tree, message_id) == ["DELIVERED"]
    assert [path.name for path in (tree.plan_folder() / "commands").iterdir()] == [name]
    assert sound(tree.root)


@pytest.mark.shows("M03", "M05")
def test_an_artifact_reaches_everybody_to_whom_its_output_goes(tree: Tree, route: Route) -> None:
    files = {"design.md": b"# Design", "figures/one.svg": b"<svg/>"}
    message_id = tree.artifact("pm", "design", "design.md", files)
    assert route().delivered == 2
    for agent in ("dev", "tester"):
        assert tree.inbox(agent) == [f"artifact_{message_id}.msg.json", "design.md", "figures"]
        for path, data in files.items():
            assert (tree.box(agent, "inbox") / path).read_bytes() == data
    assert sorted(tree.names("agents/pm/outbox/plan_shop/.sent")) == sorted(
        [f"artifact_{message_id}.msg.json", "design.md", "figures"]
    )
    assert statuses(tree, message_id) == ["DELIVERED", "DELIVERED"]
    assert {line["to_agent_id"] for line in tree.journal()} == {"dev", "tester"}
    assert counts(tree.root) == {"sent": 1, "delivered": 1}


def test_a_star_stands_for_every_agent_of_the_plan(tree: Tree, route: Route) -> None:
    tree.dag([node("design", "pm", outputs=[output("design.md", "*")]), node("build", "dev"), node("test", "tester")])
    tree.artifact("pm", "design", "design.md", {"design.md": b"x"})
    assert route().delivered == 3
    assert all("design.md" in tree.inbox(agent) for agent in ("pm", "dev", "tester"))
    assert tree.inbox("lead") == []


def test_an_output_without_receivers_goes_by_the_first_rule_that_matches(tree: Tree, route: Route) -> None:
    rules = [
        {"match": {"content_type": "text/csv"}, "deliver_to": ["tester"]},
        {"match": {"output_name": "b"}, "deliver_to": ["dev"]},
    ]
    outputs = [output("a", content_type="text/csv"), output("b", content_type="text/plain"), output("c")]
    tree.dag([node("design", "pm", outputs=outputs), node("build", "dev"), node("t", "tester")], routing_rules=rules)
    for name in "abc":
        tree.artifact("pm", "design", name, {f"{name}.txt": name.encode()})
    report = route()
    assert (report.delivered, report.dead) == (2, 1)
    assert "a.txt" in tree.inbox("tester")
    assert "b.txt" in tree.inbox("dev")
    assert tree.codes() == ["ROUTING_NO_TARGET"]


def test_a_result_of_the_plan_appears_among_its_artifacts(tree: Tree, route: Route) -> None:
    tree.artifact("tester", "test", "report.md", {"report.md": b"All fine.", "logs/a.txt": b"log"})
    tree.artifact("dev", "build", "app.zip", {"app.zip": b"PK" * 40_000})
    assert route().accepted == 2
    artifacts = tree.root / "system_runtime" / "artifacts" / "plan_shop"
    assert (artifacts / "test" / "report.md" / "report.md").read_bytes() == b"All fine."
    assert (artifacts / "test" / "report.md" / "logs" / "a.txt").read_bytes() == b"log"
    assert (artifacts / "build" / "app.zip" / "app.zip").read_bytes() == b"PK" * 40_000
    assert (tree.box("tester", "inbox") / "app.zip").read_bytes() == b"PK" * 40_000
    assert counts(tree.root) == {"sent": 2, "delivered": 2}
    assert sound(tree.root)


@pytest.mark.parametrize(
    ("commanders", "allowed"),
    [(None, {"lead", "pm"}), (["lead"], {"lead"}), ([], set())],
    ids=["unsaid", "one", "none"],
)
def test_the_manifest_says_who_commands_and_an_empty_list_means_nobody(
    tree: Tree, route: Route, commanders: list[str] | None, allowed: set[str]
) -> None:
    manifest = {"plan_id": "plan_shop", **({"commanders": commanders} if commanders is not None else {})}
    (tree.plan_folder() / "plan_manifest.json").write_bytes(dumped(manifest))
    tree.command("lead", "build", 1)
    tree.command("pm", "test", 1)
    route()
    sent = {agent for agent in ("lead", "pm") if tree.names(f"agents/{agent}/outbox/plan_shop/.sent")}
    assert sent == allowed
    assert set(tree.codes()) <= {"COMMAND_NOT_AUTHORISED"}


# Which of several messages counts.


@pytest.mark.shows("M08")
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)], ids=str)
def test_only_the_newest_order_of_all_that_a_pass_found_is_delivered(
    tree: Tree, route: Route, order: tuple[int, ...]
) -> None:
    senders = {1: "lead", 2: "pm", 3: "tester"}
    ids = {seq: tree.command(senders[seq], "build", seq) for seq in order}
    report = route()
    assert (report.accepted, report.superseded, report.delivered) == (1, 2, 1)
    assert tree.inbox("dev") == ["cmd_build_003.msg.json"]
    for seq in (1, 2):
        assert statuses(tree, ids[seq]) == ["SKIPPED_SUPERSEDED"]
        [line] = [line for line in tree.journal() if line["message_id"] == ids[seq]]
        assert line["superseded_by_message_id"] == ids[3]
        assert (line["superseded_by_command_id"], line["superseded_by_command_seq"]) == ("cmd_build_003", 3)
    assert counts(tree.root) == {"sent": 3, "delivered": 1, "superseded": 2}
    assert sound(tree.root)


@pytest.mark.shows("M08")
def test_an_order_that_nobody_claimed_is_taken_back_when_a_newer_one_comes(tree: Tree, route: Route) -> None:
    old = tree.command("lead", "build", 1)
    route()
    assert tree.inbox("dev") == ["cmd_build_001.msg.json"]
    new = tree.command("lead", "build", 2)
    route()
    assert tree.inbox("dev") == ["cmd_build_002.msg.json"]
    assert statuses(tree, old) == ["DELIVERED", "SKIPPED_SUPERSEDED"]
    assert statuses(tree, new) == ["DELIVERED"]
    recalled = next(line for line in tree.journal() if line["status"] == "SKIPPED_SUPERSEDED")
    assert (recalled["to_agent_id"], recalled["skip_reason"]) == ("dev", "recalled")
    late = tree.command("pm", "build", 1, message_id="late", prompt="x")
    route()
    assert statuses(tree, late) == ["DEADLETTERED"]
    assert counts(tree.root) == {"sent": 3, "delivered": 1, "superseded": 1, "dead": 1}
    assert sound(tree.root)


def test_an_order_that_only_waits_in_the_store_is_taken_back_too(tree: Tree, route: Route) -> None:
    inbox = tree.agent("dev") / "inbox"
    inbox.symlink_to(tree.root / "nowhere")
    old = tree.command("lead", "build", 1)
    assert route().delivered == 0
    assert counts(tree.root) == {"sent": 1, "in_flight": 1}
    inbox.unlink()
    tree.command("lead", "build", 2)
    route()
    assert tree.inbox("dev") == ["cmd_build_002.msg.json"]
    assert statuses(tree, old) == ["SKIPPED_SUPERSEDED"]
    assert counts(tree.root) == {"sent": 2, "delivered": 1, "superseded": 1}


def test_an_order_whose_delivery_a_crash_left_unnoted_is_taken_back_too(tree: Tree, route: Route) -> None:
    inbox = tree.agent("dev") / "inbox"
    inbox.symlink_to(tree.root / "nowhere")
    tree.command("lead", "build", 1)
    route()
    inbox.unlink()
    # The file lies there, and the store does not know it yet.
    tree.box("dev", "inbox").mkdir(parents=True)
    name = "cmd_build_001.msg.json"
    (tree.box("dev", "inbox") / name).write_bytes(envelope(tree, "lead", name))
    tree.command("lead", "build", 2)
    route()
    assert tree.inbox("dev") == ["cmd_build_002.msg.json"]


def test_a_running_order_is_failed_when_a_newer_one_comes(tree: Tree, route: Route) -> None:
    old = tree.command("lead", "build", 1)
    route()
    (tree.box("dev", "inbox") / "cmd_build_001.msg.json").unlink()
    tree.put("dev", f"ack_{old}.json", receipt(old))
    route()
    tree.command("lead", "build", 2)
    route()
    rows = asked(tree.root, DELIVERY_OF, plan_id="plan_shop", message_id=old, receiver="dev")
    assert rows[0][1:3] == ("superseded", "FAILED")
    assert statuses(tree, old)[-1] == "SKIPPED_SUPERSEDED"
    assert tree.journal()[-2]["skip_reason"] == "recalled while it ran"
    [ack] = tree.documents("plans/plan_shop/acks")
    assert (ack["message_id"], ack["status"], ack["consumed_at"]) == (old, "FAILED", "2026-01-08T10:30:00Z")
    assert ack["result"] == {"ok": False, "details": "SUPERSEDED: superseded by cmd_build_002"}
    assert sound(tree.root)
    tree.put("dev", f"ack_{old}.json", receipt(old, status="SUCCEEDED"))
    route()
    assert tree.documents("plans/plan_shop/acks") == [ack]
    assert tree.codes() == []


def test_a_receipt_that_comes_with_the_newer_order_is_no_fault(tree: Tree, route: Route) -> None:
    old = tree.command("lead", "build", 1)
    route()
    (tree.box("dev", "inbox") / "cmd_build_001.msg.json").unlink()
    tree.put("dev", f"ack_{old}.json", receipt(old))
    tree.command("lead", "build", 2)
    route()
    assert tree.codes() == []
    assert sound(tree.root)


def receipt(message_id: str, agent: str = "dev", task: str = "build", status: str = "CONSUMED") -> dict[str, Any]:
    return {
        "plan_id": "plan_shop",
        "message_id": message_id,
        "task_id": task,
        "consumer_agent_id": agent,
        "status": status,
        "consumed_at": "2026-01-08T10:30:00Z",
    }


@pytest.mark.shows("M07")
def test_the_same_message_is_delivered_once_whenever_it_comes_again(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    name = "cmd_build_001.msg.json"
    route()
    data = envelope(tree, "lead", name)
    (tree.box("dev", "inbox") / name).unlink()
    for count in (1, 2):
        tree.put("lead", name, data)
        tree.put("lead", f"again_{count}.msg.json", data)
        report = route()
        assert (report.duplicate, report.delivered) == (2, 0)
    assert tree.inbox("dev") == []
    assert statuses(tree, message_id) == ["DELIVERED", *["SKIPPED_DUPLICATE"] * 4]
    assert counts(tree.root) == {"sent": 5, "delivered": 1, "duplicate": 4}
    assert sorted(tree.names("agents/lead/outbox/plan_shop/.sent")) == [
        "again_1.msg.json",
        "again_2.msg.json",
        name,
        f"{name}__dup_1",
        f"{name}__dup_2",
    ]
    assert sound(tree.root)


def test_a_duplicate_is_one_even_when_its_files_are_gone(tree: Tree, route: Route) -> None:
    message_id = tree.artifact("pm", "design", "notes.md", {"notes.md": b"n"})
    route()
    sent = tree.box("pm", "outbox") / ".sent"
    data = (sent / f"artifact_{message_id}.msg.json").read_bytes()
    shutil.rmtree(sent)
    tree.put("pm", "again.msg.json", data)
    assert route().duplicate == 1
    assert tree.codes() == []


def test_a_message_lost_before_its_delivery_was_noted_is_not_delivered_to_whoever_took_it(
    tree: Tree, route: Route
) -> None:
    inbox = tree.agent("dev") / "inbox"
    inbox.symlink_to(tree.root / "nowhere")
    message_id = tree.command("lead", "build")
    route()
    inbox.unlink()
    pending = tree.box("dev", "inbox") / ".pending"
    pending.mkdir(parents=True)
    name = "cmd_build_001.msg.json"
    (pending / f"{message_id}__{name}").write_bytes(envelope(tree, "lead", name))
    assert route().delivered == 1
    assert tree.inbox("dev") == []
    assert statuses(tree, message_id) == ["DELIVERED"]


def test_versions_of_an_output_follow_its_mode(tree: Tree, route: Route) -> None:
    outputs = [
        output("latest", "dev", versioning={"mode": "keep_latest"}),
        output("fixed", "dev", versioning={"mode": "reject_on_change"}),
        output("each", "dev", versioning={"mode": "immutable_by_message_id"}),
    ]
    tree.dag([node("design", "pm", outputs=outputs), node("build", "dev")])
    for name in ("latest", "fixed", "each"):
        for number, data in enumerate([b"one", b"one", b"two"]):
            tree.artifact("pm", "design", name, {f"{name}.{number}": data} if name == "each" else {name: data}, seq=1)
            route()
    lines = {
        name: [each["status"] for each in tree.journal() if each.get("output_name") == name]
        for name in ("latest", "fixed", "each")
    }
    assert lines["fixed"] == ["DELIVERED", "SKIPPED_DUPLICATE", "DEADLETTERED"]
    assert lines["each"] == ["DELIVERED"] * 3
    assert lines["latest"][:2] == ["DELIVERED", "SKIPPED_DUPLICATE"]
    assert (tree.box("dev", "inbox") / "latest").read_bytes() == b"one"  # the later one waits for it
    assert counts(tree.root) == {"sent": 9, "delivered": 5, "duplicate": 2, "dead": 1, "in_flight": 1}


@pytest.mark.parametrize("keyed", [False, True])
def test_what_an_earlier_order_made_comes_too_late(tree: Tree, route: Route, keyed: bool) -> None:
    keys = [{"idempotency_key": f"k{seq}"} if keyed else {} for seq in range(3)]
    tree.artifact("pm", "design", "notes.md", {"two.md": b"2"}, seq=2, **keys[2])
    route()
    late = tree.artifact("pm", "design", "notes.md", {"one.md": b"1"}, seq=1, **keys[1])
    assert route().superseded == 1
    assert statuses(tree, late) == ["SKIPPED_SUPERSEDED"]
    assert sound(tree.root)


def test_a_payload_waits_until_the_one_before_it_is_claimed(tree: Tree, route: Route) -> None:
    first = tree.artifact("pm", "design", "notes.md", {"notes.md": b"one"}, seq=1)
    route()
    second = tree.artifact("pm", "design", "notes.md", {"notes.md": b"two"}, seq=2)
    route()
    inbox = tree.box("dev", "inbox")
    assert tree.inbox("dev") == [f"artifact_{first}.msg.json", "notes.md"]
    assert (inbox / "notes.md").read_bytes() == b"one"
    assert counts(tree.root) == {"sent": 2, "delivered": 1, "in_flight": 1}
    tree.put("dev", f"ack_{first}.json", receipt(first, task="design", status="SUCCEEDED"))
    (inbox / f"artifact_{first}.msg.json").unlink()
    route()
    assert statuses(tree, second) == ["DELIVERED"]
    assert (inbox / "notes.md").read_bytes() == b"two"
    assert sound(tree.root)


def test_a_payload_waits_for_somebody_who_takes_files_away_by_hand(tree: Tree, route: Route) -> None:
    first = tree.artifact("pm", "design", "notes.md", {"notes.md": b"one"}, seq=1)
    second = tree.artifact("pm", "design", "notes.md", {"notes.md": b"two"}, seq=2, message_id="m2")
    (tree.box("pm", "outbox") / "notes.md").write_bytes(b"one")
    (tree.box("pm", "outbox") / "artifact_m2.msg.json").rename(tree.root / "later")
    route()
    tree.put("pm", "notes.md", b"two")
    (tree.root / "later").rename(tree.box("pm", "outbox") / "artifact_m2.msg.json")
    route()
    inbox = tree.box("dev", "inbox")
    (inbox / f"artifact_{first}.msg.json").rename(tree.root / "taken.json")
    assert route().delivered == 0  # its file still lies there
    (inbox / "notes.md").rename(tree.root / "taken.md")
    assert route().delivered == 1
    assert (inbox / "notes.md").read_bytes() == b"two"
    assert statuses(tree, second) == ["DELIVERED"]


@pytest.mark.parametrize("folder", [".processed", ".deadletter"])
@pytest.mark.parametrize("prefixed", [True, False])
def test_a_payload_waits_for_nobody_who_has_ended_with_the_one_before(
    tree: Tree, route: Route, folder: str, prefixed: bool
) -> None:
    """A receiver of another make may leave the payload where it lies."""
    first = tree.artifact("pm", "design", "notes.md", {"notes.md": b"one"}, seq=1)
    route()
    second = tree.artifact("pm", "design", "notes.md", {"notes.md": b"two"}, seq=2)
    inbox = tree.box("dev", "inbox")
    name = f"artifact_{first}.msg.json"
    (inbox / ".pending").mkdir()
    (inbox / folder).mkdir()
    (inbox / folder / name).write_bytes(b"an earlier one of that name")
    (inbox / name).rename(inbox / ".pending" / f"{first}__{name}")
    assert route().delivered == 0
    target = inbox / folder / (f"{first}__{name}" if prefixed else name)
    (inbox / ".pending" / f"{first}__{name}").rename(target)
    assert route().delivered == 1
    assert (inbox / "notes.md").read_bytes() == b"two"
    assert statuses(tree, second) == ["DELIVERED"]
    assert sound(tree.root)


def test_two_messages_of_one_name_lie_side_by_side_in_an_inbox(tree: Tree, route: Route) -> None:
    tree.dag([node("a", "dev"), node("b", "dev")])
    for sender, task in (("lead", "a"), ("pm", "b")):
        tree.agent(sender)
        tree.command(sender, task, message_id=f"m_{task}")
        box = tree.box(sender, "outbox")
        (box / f"cmd_{task}_001.msg.json").rename(box / "order.msg.json")
    assert route().delivered == 2
    assert tree.inbox("dev") == ["m_b__order.msg.json", "order.msg.json"]
    assert sorted(path.name for path in (tree.plan_folder() / "commands").iterdir()) == [
        "cmd_a_001.msg.json",
        "cmd_b_001.msg.json",
    ]


# Plans.


def test_messages_for_a_plan_that_nobody_knows_wait_and_people_are_told_once(tree: Tree, route: Route) -> None:
    tree.command("lead", "build", plan_id="plan_new")
    assert [route().waiting for _ in range(2)] == [1, 1]
    assert len(alerts(tree, "NAME_UNKNOWN", "_unrouted")) == 1
    sha = tree.dag([node("build", "dev")], plan_id="plan_new")
    tree.command("lead", "build", plan_id="plan_new", dag_ref={"sha256": sha})
    assert route().delivered == 1
    assert tree.inbox("dev", "plan_new") == ["cmd_build_001.msg.json"]


def own_dag(name: str) -> bytes:
    return dumped({"schema_version": "1.1", "plan_id": "own", "nodes": [node("build", "dev", name=name)]})


MANIFEST = dumped({"plan_id": "own", "commanders": ["lead"]})


@pytest.mark.shows("M13")
def test_an_engines_plan_switches_its_dag_as_a_whole(tree: Tree) -> None:
    dags = [own_dag("first"), own_dag("second")]

    async def use(deps: Deps) -> None:
        router = Router(deps)
        for seq, dag in enumerate(dags, 1):
            await plan_registry.submit(deps, dag, manifest=MANIFEST)
            tree.dags["own"] = sha256(dag)
            tree.command("lead", "build", seq, plan_id="own")
            report = await router.pass_()  # one that may know the DAG before
            assert (report.accepted, report.delivered, report.waiting, report.dead) == (1, 1, 0, 0)

    inside(tree.root, use)
    folder = tree.plan_folder("own")
    assert (folder / "task_dag.json").read_bytes() == dags[1]
    pointer = json.loads((folder / "active_dag_ref.json").read_bytes())
    assert (pointer["task_dag_sha256"], pointer["task_dag_revision"]) == (sha256(dags[1]), 2)
    [old] = (folder / "dag_history").iterdir()
    assert old.read_bytes() == dags[0]
    assert old.name.startswith("000001_")
    assert alerts(tree, plan_id="own") == []
    assert alerts(tree, plan_id="_unrouted") == []


@pytest.mark.shows("M13")
def test_the_pointer_is_written_after_the_dag_and_the_history_before_it(tree: Tree) -> None:
    async def submit(deps: Deps) -> None:
        await plan_registry.submit(deps, own_dag("first"))
        await Router(deps).pass_()
        await plan_registry.submit(deps, own_dag("second"))

    inside(tree.root, submit)
    waiting = [row[0].rpartition("/")[2] for row in asked(tree.root, UNSHOWN_VIEWS, limit=100)]
    assert waiting[-2:] == ["task_dag.json", "active_dag_ref.json"]
    assert waiting[0].startswith("000001_")
    folder = tree.plan_folder("own")
    (folder / "active_dag_ref.json").unlink()
    (folder / "active_dag_ref.json").mkdir()  # nothing can be put there
    (folder / "active_dag_ref.json" / "x").touch()
    assert [each["code"] for each in routed(tree.root).problems] == ["FILE_UNWRITABLE"]
    assert (folder / "task_dag.json").read_bytes() == own_dag("second")
    shutil.rmtree(folder / "active_dag_ref.json")
    assert routed(tree.root).problems == []
    assert json.loads((folder / "active_dag_ref.json").read_bytes())["task_dag_sha256"] == sha256(own_dag("second"))


def test_submitting_the_same_dag_again_changes_nothing(tree: Tree) -> None:
    async def submit(deps: Deps) -> None:
        await plan_registry.submit(deps, own_dag("first"))
        await plan_registry.submit(deps, own_dag("first"))
        await Router(deps).pass_()

    inside(tree.root, submit)
    assert asked(tree.root, PLAN, plan_id="own")[0][3] == 1
    assert not (tree.plan_folder("own") / "dag_history").exists()


@pytest.mark.parametrize("name", ["task_dag.json", "active_dag_ref.json"])
def test_an_edited_file_of_an_engines_plan_is_put_back_with_an_alert(tree: Tree, name: str) -> None:
    inside(tree.root, lambda deps: plan_registry.submit(deps, own_dag("first")))
    routed(tree.root)
    file = tree.plan_folder("own") / name
    before = file.read_bytes()
    for count in (1, 2):
        file.write_bytes(b"{}")
        routed(tree.root)
        assert file.read_bytes() == before
        assert len(alerts(tree, "VIEW_EDITED", "own")) == count


def test_an_artifact_on_a_virtual_board_stays_on_the_task(tree: Tree) -> None:
    async def add(deps: Deps) -> None:
        board = await deps.stores.board("_toolchain")

        def work(tx: Tx) -> None:
            tx.run(ADD_PLAN, plan_id="_toolchain", origin="virtual")
            tx.run(PUT_TASK, plan_id="_toolchain", task_id="fix", agent_id="dev", at=deps.stamp())

        await board.transact(work)

    inside(tree.root, add)
    good = tree.artifact("dev", "fix", "patch", {"patch.diff": b"+-"}, plan_id="_toolchain")
    tree.artifact("pm", "fix", "patch", {"patch.diff": b"+-"}, plan_id="_toolchain")
    tree.command("lead", "fix", plan_id="_toolchain")
    report = routed(tree.root)
    assert (report.accepted, report.dead) == (1, 2)
    assert statuses(tree, good, "_toolchain") == ["DELIVERED"]
    assert tree.codes("_toolchain") == ["COMMAND_NOT_AUTHORISED", "PRODUCER_MISMATCH"]
    assert counts(tree.root, "_toolchain", board="_toolchain") == {"sent": 3, "delivered": 1, "dead": 2}
    assert not (tree.root / "data" / "_mail").exists()


# Sums and views.


@pytest.mark.shows("M15")
@pytest.mark.parametrize(("counter", "lost"), [("sent", 1), ("delivered", -1), ("dead", -1), ("superseded", -1)])
def test_a_sum_that_does_not_agree_is_told(tree: Tree, route: Route, counter: str, lost: int) -> None:
    tree.command("lead", "build")
    route()
    assert alerts(tree, "MESSAGE_LOST") == []
    connection = apsw.Connection(str(database_path(tree.root, "default")))
    connection.execute(f"UPDATE plans SET {counter} = {counter} + 1 WHERE plan_id = 'plan_shop'")
    connection.close()
    route()
    [alert] = alerts(tree, "MESSAGE_LOST")
    assert (alert["severity"], alert["message"].partition(" ")[0]) == ("CRITICAL", str(lost))
    route()
    assert len(alerts(tree, "MESSAGE_LOST")) == 1


def test_more_than_a_pass_takes_is_taken_by_the_next_ones(tree: Tree) -> None:
    tree.dag([node(f"t{number}", "dev") for number in range(7)])
    for number in range(7):
        tree.command("lead", f"t{number}")
    taken = [routed(tree.root, limits=EngineLimits(messages_per_pass=3)).accepted for _ in range(4)]
    assert taken == [3, 3, 1, 0]
    assert len(tree.inbox("dev")) == 7
    assert sound(tree.root)


def view_files(root: Path) -> dict[str, bytes]:
    folder = root / "system_runtime"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_deleting_the_views_of_an_engines_plan_loses_nothing(tree: Tree) -> None:
    shutil.rmtree(tree.root / "system_runtime")
    tree.dags["own"] = sha256(own_dag("first"))
    inside(tree.root, lambda deps: plan_registry.submit(deps, own_dag("first"), manifest=MANIFEST))
    tree.command("lead", "build", plan_id="own")
    tree.put("lead", "broken.msg.json", b"{", plan_id="own")
    routed(tree.root)
    before = view_files(tree.root)
    assert {"plans/own/plan_status.json", "plans/own/deliveries.jsonl", "plans/own/task_dag.json"} <= before.keys()
    shutil.rmtree(tree.root / "system_runtime")
    tree.command("lead", "build", 2, plan_id="own")
    assert routed(tree.root).delivered == 1  # the store knows the plan

    async def republish(deps: Deps) -> None:
        await published_files.republish(deps, await deps.stores.board("default"))

    inside(tree.root, republish)
    after = view_files(tree.root)
    assert after.keys() >= before.keys()
    assert after["plans/own/deliveries.jsonl"].startswith(before["plans/own/deliveries.jsonl"])
    for path in before.keys() - {"plans/own/deliveries.jsonl", "plans/own/plan_status.json"}:
        assert after[path] == before[path]
    again = view_files(tree.root)
    inside(tree.root, republish)
    assert view_files(tree.root) == again


@pytest.mark.parametrize("damage", [b'{"torn', b"\x00\x00", None], ids=["torn", "zeros", "cut"])
def test_the_journals_end_is_repaired_after_a_crash(tree: Tree, route: Route, damage: bytes | None) -> None:
    tree.command("lead", "build")
    route()
    journal = tree.plan_folder() / "deliveries.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-7] if damage is None else whole + damage)
    tree.command("lead", "design")
    route()
    assert journal.read_bytes().startswith(whole)
    assert [line["status"] for line in tree.journal()] == ["DELIVERED", "DELIVERED"]


@pytest.mark.parametrize("end", [b"\n", b""], ids=["whole", "torn"])
def test_lines_that_lay_in_the_journal_before_us_stay(tree: Tree, route: Route, end: bytes) -> None:
    journal = tree.plan_folder() / "deliveries.jsonl"
    journal.write_bytes(b'{"message_id": "theirs"}' + end)
    for seq, task in enumerate(["build", "design"]):
        tree.command("lead", task)
        route()
        assert tree.journal()[0]["message_id"] == "theirs"
        assert len(tree.journal()) == seq + 2

    async def republish(deps: Deps) -> None:
        await published_files.republish(deps, await deps.stores.board("default"))

    inside(tree.root, republish)
    assert len(tree.journal()) == 3


def test_the_first_lines_of_a_journal_are_written_once_though_a_crash_hides_them(tree: Tree, route: Route) -> None:
    tree.command("lead", "build")
    route()

    async def forget(deps: Deps) -> None:
        """As after a crash between the lines and the note of them."""
        board = await deps.stores.board("default")
        [(_, base, _)] = await board.read(JOURNAL_STATE, plan_id="plan_shop")
        await board.transact(lambda tx: tx.run(JOURNAL_WRITTEN, plan_id="plan_shop", seq=0, base=base, size=0))

    inside(tree.root, forget)
    route()
    assert len(tree.journal()) == 1


def test_dead_letters_and_alerts_lie_in_folders_of_entries(tree: Tree, route: Route) -> None:
    tree.put("lead", "broken.msg.json", b"{")
    route()
    [grave] = graves(tree)
    folder = tree.root / "system_runtime" / "deadletter" / "plan_shop"
    number = grave.entry["deadletter_id"]
    assert sorted(path.name for path in folder.iterdir()) == [f"{number}.json", f"{number}.original"]


def test_an_idle_pass_changes_nothing(tree: Tree, route: Route) -> None:
    tree.command("lead", "build")
    tree.artifact("pm", "design", "design.md", {"design.md": b"x"})
    route()
    before = view_files(tree.root)
    assert route().idle
    assert view_files(tree.root) == before


def test_a_view_that_an_older_one_was_written_over_is_written_once_more(tree: Tree) -> None:
    """As when a router and a monitor publish at the same time."""
    path = "agent_status/dev.json"

    class Late:
        """A folder that writes only after somebody else showed something newer."""

        def __init__(self, root: Any, newer: Callable[[], None]) -> None:
            self.root, self.newer = root, newer

        def write(self, *arguments: Any, **options: Any) -> None:
            self.newer()
            self.root.write(*arguments, **options)

    async def race(deps: Deps) -> None:
        board, loop = await deps.stores.board("default"), asyncio.get_running_loop()
        news = iter([{"number": 2}])

        async def show(body: dict[str, Any]) -> None:
            await board.transact(lambda tx: records.publish_file(tx, path, body))

        async def newer() -> None:
            for body in news:
                await show(body)
                await published_files.publish(deps, board)

        await show({"number": 1})
        late: Any = Late(deps.root, lambda: asyncio.run_coroutine_threadsafe(newer(), loop).result())
        await published_files.publish(replace(deps, root=late), board)

    inside(tree.root, race)
    assert json.loads((tree.root / "system_runtime" / path).read_bytes()) == {"number": 2}
