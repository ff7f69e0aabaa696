"""Taking messages: each once, whatever lies in the inbox, and nothing that misleads."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import Code, MachineError
from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.messages import plan_registry
from agenttalk.engine.operation import fsck
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.ports.statements.messages import ACKNOWLEDGE, ADD_MESSAGE, DEADLETTERS, DELIVERY_OF, PLANS, WITHDRAW
from kits.agentkit import WRITES, Desk
from kits.treekit import Tree, dumped, node, sha256

COMMAND = "cmd_build_001.msg.json"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(Tree(tmp_path))
    desk.program(WRITES)
    return desk


def test_a_message_that_another_router_delivered_is_counted_but_not_logged_as_our_delivery(desk: Desk) -> None:
    desk.command()
    desk.once()
    [plan] = desk.read(PLANS)
    assert dict(zip(["sent", "delivered", "superseded", "duplicate", "dead"], plan[5:], strict=True)) == {
        "sent": 1,
        "delivered": 1,
        "superseded": 0,
        "duplicate": 0,
        "dead": 0,
    }
    assert desk.read(FACTS_OF, subject="deliveries/plan_shop", after=0, limit=9) == []


@pytest.mark.shows("M09")
def test_a_receipt_goes_from_consumed_to_a_final_status(desk: Desk) -> None:
    message_id = desk.command()

    async def scenario(beat: Heartbeat, _: Deps) -> None:
        await beat.tick()
        consumed = desk.ack(message_id)
        assert (consumed["status"], "finished_at" in consumed) == ("CONSUMED", False)
        await beat.run_once()
        final = desk.ack(message_id)
        assert (final["status"], final["consumed_at"]) == ("SUCCEEDED", consumed["consumed_at"])

    desk.play(scenario)


def test_a_copy_of_a_message_is_put_aside_and_does_not_run_again(desk: Desk) -> None:
    message_id = desk.command(required_inputs=["never.md"], wait_for_inputs=True)
    envelope = desk.inbox(COMMAND).read_bytes()
    desk.once()
    desk.deliver(COMMAND, envelope)
    desk.deliver("another.msg.json", envelope)
    tick = desk.once()
    assert tick.claimed == 0
    assert desk.names(".pending") == [f"{message_id}__{COMMAND}"]
    assert desk.names(".processed") == [f"{message_id}__{COMMAND}__dup_1", f"{message_id}__{COMMAND}__dup_2"]
    desk.artifact("design", "design.md", {"never.md": b"now"})
    desk.once()
    assert len(desk.envelopes()) == 1
    desk.deliver(COMMAND, envelope)
    desk.once()
    assert len(desk.envelopes()) == 1
    assert f"{message_id}__{COMMAND}" in desk.names(".processed")
    assert desk.names() == [".pending", ".processed"]


def test_two_copies_found_at_once_are_one_message(desk: Desk) -> None:
    message_id = desk.command()
    desk.deliver("a.msg.json", desk.inbox(COMMAND).read_bytes())
    tick = desk.once()
    assert (tick.claimed, tick.ran) == (1, 1)
    assert desk.names(".processed") == [f"{message_id}__a.msg.json", f"{message_id}__a.msg.json__dup_1"]


@pytest.mark.parametrize("folder", ["", ".sent"])
@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED"])
def test_a_message_with_a_final_receipt_is_put_away_and_does_not_run_again(
    desk: Desk, folder: str, claimed: bool, status: str
) -> None:
    """As when another program worked the message, left its receipt, and died before it moved the file."""
    message_id = desk.command()
    if claimed:
        desk.inbox(".pending").mkdir()
        desk.inbox(COMMAND).rename(desk.inbox(".pending", f"{message_id}__{COMMAND}"))
    receipt = _receipt(desk, message_id, status)
    desk.outbox(folder).mkdir(parents=True, exist_ok=True)
    desk.outbox(folder, f"ack_{message_id}.json").write_bytes(receipt)
    tick = desk.once()
    assert (tick.claimed, tick.ran, tick.errors) == (0, 0, [])
    assert desk.names(".processed") == [f"{message_id}__{COMMAND}"]
    assert (desk.names(), desk.envelopes()) == ([".pending", ".processed"][not claimed :], [])
    assert desk.outbox(folder, f"ack_{message_id}.json").read_bytes() == receipt
    assert (desk.delivery(message_id)["state"], desk.delivery(message_id)["ack"]) == ("processed", status)
    assert desk.task()["state"] == {"SUCCEEDED": "COMPLETED", "FAILED": "FAILED"}[status]
    assert desk.play(lambda _, deps: fsck.check_root(deps)) == []
    assert desk.once().has_worked is False


@pytest.mark.parametrize("fault", ["CONSUMED", "another's", "broken"])
def test_a_receipt_that_is_not_final_or_not_its_own_does_not_keep_a_message_from_running(
    desk: Desk, fault: str
) -> None:
    message_id = desk.command()
    receipt = _receipt(desk, message_id if fault != "another's" else "msg_other", "SUCCEEDED")
    receipt = _receipt(desk, message_id, "CONSUMED") if fault == "CONSUMED" else receipt
    desk.outbox().mkdir(parents=True)
    desk.outbox(f"ack_{message_id}.json").write_bytes(b"{" if fault == "broken" else receipt)
    tick = desk.once()
    assert (tick.claimed, tick.ran) == (1, 1)


def _receipt(desk: Desk, message_id: str, status: str) -> bytes:
    about = {"plan_id": desk.tree.plan_id, "message_id": message_id, "task_id": "build", "consumer_agent_id": "dev"}
    return dumped({**about, "status": status, "consumed_at": "2026-01-08T10:30:00Z"})


@pytest.mark.parametrize("later", [False, True])
def test_a_message_id_with_other_bytes_is_refused(desk: Desk, later: bool) -> None:
    message_id = desk.command()
    other = desk.inbox(COMMAND).read_bytes() + b"\n"
    if later:
        desk.once()
    desk.deliver("other.msg.json", other)
    desk.once()
    assert desk.codes() == ["MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD"]
    assert desk.names(".deadletter") == ["other.msg.json"]
    assert desk.inbox(".deadletter", "other.msg.json").read_bytes() == other
    assert desk.ack(message_id)["status"] == "SUCCEEDED"


@pytest.mark.shows("M11")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{", "ENVELOPE_PARSE_ERROR"),
        (b"", "ENVELOPE_PARSE_ERROR"),
        (b"[]", "SCHEMA_INVALID"),
        (b'{"type": "gossip"}', "UNSUPPORTED_MESSAGE_TYPE"),
        (b'{"a": NaN}', "ENVELOPE_PARSE_ERROR"),
        (b" " * (2 * 1024 * 1024), "FILE_TOO_LARGE"),
    ],
)
def test_what_is_no_message_is_refused_whole_and_once(desk: Desk, data: bytes, code: str) -> None:
    desk.deliver("odd.msg.json", data)
    good = desk.command()
    assert desk.once().dead == 1
    assert desk.codes() == [code]
    assert desk.alerts() == [code]
    assert desk.inbox(".deadletter", "odd.msg.json").read_bytes() == data
    assert desk.ack(good)["status"] == "SUCCEEDED"
    [row] = desk.read(DEADLETTERS, before=2**62, limit=10)

    async def original(_: Heartbeat, deps: Deps) -> bytes:
        return await (await deps.stores.blobs("default")).get(row.original or "")

    assert desk.play(original) == data
    desk.deliver("odd.msg.json", data)
    desk.once()
    assert desk.codes() == [code]
    assert desk.names(".deadletter") == ["odd.msg.json", "odd.msg.json__dup_1"]


def test_an_envelope_of_another_plan_is_refused(desk: Desk) -> None:
    desk.tree.command("somebody", "build", plan_id="plan_other")
    source = desk.tree.box("somebody", "outbox", "plan_other") / COMMAND
    desk.deliver(COMMAND, source.read_bytes())
    desk.once()
    assert desk.codes() == ["PLAN_MISMATCH"]


def test_a_hostile_inbox_is_survived(desk: Desk, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("{}", encoding="utf-8")
    good = desk.command()
    box = desk.inbox()
    os.mkfifo(box / "fifo.msg.json")
    (box / "link.msg.json").symlink_to(secret)
    (box / "dangling.msg.json").symlink_to("nowhere")
    (box / "folder.msg.json").mkdir()
    os.link(secret, box / "hard.msg.json")
    (box / os.fsdecode(b"\xff\xfe.msg.json")).write_bytes(b"{}")
    (box / ".hidden.msg.json").write_bytes(b"{}")
    (box / ".agenttalk-0.tmp.msg.json").write_bytes(b"{}")
    (box / ("x" * 246 + ".msg.json")).write_bytes(b"{")
    tick = desk.once()
    assert tick.errors == []
    assert desk.codes() == ["ENVELOPE_PARSE_ERROR", *["FILE_UNSAFE"] * 6]
    assert desk.ack(good)["status"] == "SUCCEEDED"
    assert desk.names() == [".agenttalk-0.tmp.msg.json", ".deadletter", ".hidden.msg.json", ".pending", ".processed"]
    assert len(desk.names(".deadletter")) == 7
    assert secret.read_text(encoding="utf-8") == "{}"
    assert not desk.once().has_worked


def test_a_name_as_long_as_can_be_is_kept(desk: Desk) -> None:
    message_id = desk.command(message_id="m" * 128)
    envelope = desk.inbox(COMMAND).read_bytes()
    desk.inbox(COMMAND).unlink()
    desk.deliver("文" * 82 + ".msg.json", envelope)
    assert desk.once().ran == 1
    [name] = desk.names(".processed")
    assert name.startswith(f"{message_id}__")
    assert name.endswith(".msg.json")
    desk.deliver("again.msg.json", envelope)
    desk.once()
    assert len(desk.names(".processed")) == 2


def test_boxes_that_are_no_folders_or_no_plans_are_passed_over(desk: Desk, tmp_path: Path) -> None:
    good = desk.command()
    box = desk.folder / "inbox"
    (box / "not a plan!").mkdir()
    (box / "file").write_text("x", encoding="utf-8")
    (box / "link").symlink_to(tmp_path)
    (box / "_unknown").mkdir()
    (box / "_unknown" / COMMAND).write_bytes(b"{}")
    tick = desk.once()
    assert tick.errors == []
    assert desk.ack(good)["status"] == "SUCCEEDED"


def test_a_plan_whose_pending_folder_leads_elsewhere_does_not_hold_up_others(desk: Desk, tmp_path: Path) -> None:
    desk.command()
    desk.inbox(".pending").symlink_to(tmp_path)
    other = desk.tree.command("somebody", "build", plan_id="plan_z")
    source = desk.tree.box("somebody", "outbox", "plan_z") / COMMAND
    target = desk.tree.box("dev", "inbox", "plan_z")
    target.mkdir(parents=True)
    desk.note(source.read_bytes(), "plan_z")
    source.rename(target / COMMAND)
    tick = desk.once()
    assert tick.errors
    assert (desk.tree.box("dev", "outbox", "plan_z") / f"ack_{other}.json").exists()
    assert desk.names() == [".pending", COMMAND]


def test_only_so_many_are_taken_of_one_plan_in_one_look(desk: Desk) -> None:
    desk.limits = EngineLimits(new_messages_per_tick=3)
    for number in range(5):
        desk.artifact("design", f"o{number}", {f"f{number}": b"x"})

    async def scenario(beat: Heartbeat, _: Deps) -> list[int]:
        return [(await beat.tick()).claimed for _ in range(3)]

    assert desk.play(scenario) == [3, 2, 0]


def test_a_claim_that_was_moved_and_not_noted_is_finished_at_the_next_start(desk: Desk) -> None:
    message_id = desk.command()
    desk.inbox(".pending").mkdir()
    desk.inbox(COMMAND).rename(desk.inbox(".pending", f"{message_id}__{COMMAND}"))
    assert desk.once().ran == 1
    assert desk.ack(message_id)["status"] == "SUCCEEDED"
    assert desk.names(".pending") == []


def test_rubbish_in_pending_is_put_aside_at_the_next_start(desk: Desk) -> None:
    message_id = desk.command()
    data = desk.inbox(COMMAND).read_bytes()
    desk.once()
    desk.inbox(".pending", f"{message_id}__{COMMAND}__dup_3").write_bytes(data)
    desk.inbox(".pending", "rubbish").write_bytes(b"x")
    desk.once()
    assert desk.names(".pending") == []
    assert desk.codes() == ["ENVELOPE_PARSE_ERROR"]


def test_claims_that_the_store_would_not_note_are_noted_in_the_next_look(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agenttalk.adapters.store.database import BoardStore

    message_id = desk.command()
    noted = BoardStore.transact

    async def full(*_: object) -> None:
        raise MachineError(Code.STORE_FULL, "no room")

    async def scenario(beat: Heartbeat, _: Deps) -> None:
        monkeypatch.setattr(BoardStore, "transact", full)
        assert (await beat.tick()).errors == ["no room"]
        assert desk.names(".pending") == [f"{message_id}__{COMMAND}"]
        monkeypatch.setattr(BoardStore, "transact", noted)
        await beat.run_once()

    desk.play(scenario)
    assert desk.ack(message_id)["status"] == "SUCCEEDED"


def test_an_older_command_that_comes_late_never_runs(desk: Desk) -> None:
    newer = desk.command(seq=2)
    desk.once()
    older = desk.command(seq=1)
    desk.once()
    assert desk.delivery(older)["state"] == desk.delivery(older)["shown"] == "superseded"
    assert desk.ack(older) is None
    assert [each["command_id"] for each in desk.envelopes()] == ["cmd_build_002"]
    assert f"{older}__{COMMAND}" in desk.names(".processed")
    assert desk.ack(newer)["status"] == "SUCCEEDED"
    [plan] = desk.read(PLANS)
    assert plan[5:8] == (2, 1, 1)


def test_a_newer_command_takes_the_place_of_one_that_waits(desk: Desk) -> None:
    older = desk.command(seq=1, required_inputs=["never.md"], wait_for_inputs=True)
    desk.once()
    desk.command(seq=2)
    desk.once()
    assert desk.delivery(older)["ack"] == "FAILED"
    assert [each["command_id"] for each in desk.envelopes()] == ["cmd_build_002"]
    assert desk.names(".pending") == []


@pytest.mark.parametrize(("kind", "code"), [("command", "COMMAND_NOT_AUTHORISED"), ("artifact", "PRODUCER_MISMATCH")])
def test_in_a_plan_of_ours_what_did_not_come_through_the_router_is_refused(desk: Desk, kind: str, code: str) -> None:
    dag = {"schema_version": "1.1", "plan_id": "plan_shop", "nodes": [node("build", "dev")]}
    desk.play(lambda _, deps: plan_registry.submit(deps, dumped(dag)))
    message_id = desk.command() if kind == "command" else desk.artifact("design", "design.md", {"a.md": b"x"})
    tick = desk.once()
    assert (tick.dead, tick.ran) == (1, 0)
    assert desk.codes() == [code]
    assert desk.ack(message_id) is None


def test_a_message_that_the_router_sent_to_somebody_else_is_refused(desk: Desk) -> None:
    dag = {"schema_version": "1.1", "plan_id": "plan_shop", "nodes": [node("build", "dev")]}
    message_id = desk.command()
    data = desk.inbox(COMMAND).read_bytes()
    known = {"plan_id": "plan_shop", "message_id": message_id, "sha256": sha256(data), "type": "command", "seq": 1}
    rest = {"task_id": "build", "command_id": "cmd_build_001", "output_name": None, "producer": "pm", "name": COMMAND}
    row: dict[str, Any] = {
        **known,
        **rest,
        "envelope": data,
        "dag_sha256": "",
        "at": "2026-01-08T10:30:00Z",
        "state": "delivered",
    }

    async def sent(_: Heartbeat, deps: Deps) -> None:
        await plan_registry.submit(deps, dumped(dag))
        store = await deps.stores.board("default")
        await store.transact(lambda tx: tx.run(ADD_MESSAGE, **row))

    desk.play(sent)
    tick = desk.once()
    assert (tick.claimed, tick.dead, tick.ran) == (0, 1, 0)
    assert desk.codes() == ["COMMAND_NOT_AUTHORISED"]


def test_the_name_of_a_claimed_message_that_was_withdrawn_is_put_away(desk: Desk) -> None:
    message_id = desk.command(required_inputs=["never"], wait_for_inputs=True)

    async def scenario(beat: Heartbeat, deps: Deps) -> None:
        await beat.tick()
        board = await deps.stores.board("default")
        row = (await board.read(DELIVERY_OF, plan_id="plan_shop", message_id=message_id, receiver="dev"))[0]
        await board.transact(
            lambda tx: tx.run(WITHDRAW, id=row[0], ack="FAILED", at=deps.stamp(), details="SUPERSEDED")
        )
        desk.inbox(".pending", f"{message_id}__{COMMAND}").unlink()
        await beat.tick()

    desk.play(scenario)
    assert desk.names(".processed") == [f"{message_id}__{COMMAND}"]
    assert desk.delivery(message_id)["shown"] == "superseded"


def test_messages_that_the_store_says_are_there_are_put_back_when_their_files_are_lost(desk: Desk) -> None:
    message_id = desk.command()
    data = desk.inbox(COMMAND).read_bytes()

    async def scenario(beat: Heartbeat, deps: Deps) -> None:
        await beat.run_once()
        board = await deps.stores.board("default")
        row = (await board.read(DELIVERY_OF, plan_id="plan_shop", message_id=message_id, receiver="dev"))[0]
        await board.transact(
            lambda tx: tx.run(
                ACKNOWLEDGE,
                id=row[0],
                ack=None,
                state="delivered",
                shown="delivered",
                consumed_at=None,
                finished_at=None,
                details=None,
            )
        )
        desk.outbox(f"ack_{message_id}.json").unlink()
        await beat.start()
        await beat.run_once()

    desk.play(scenario)
    assert len(desk.facts(message_id, "turn.ended")) == 2
    assert desk.inbox(".processed", f"{message_id}__{COMMAND}").read_bytes() == data


def test_a_virtual_board_has_its_own_store(desk: Desk) -> None:
    message_id = desk.tree.command("somebody", "build", plan_id="_toolchain")
    source = desk.tree.box("somebody", "outbox", "_toolchain") / COMMAND
    target = desk.tree.box("dev", "inbox", "_toolchain")
    target.mkdir(parents=True)
    desk.note(source.read_bytes(), "_toolchain")
    source.rename(target / COMMAND)
    assert desk.once().ran == 1
    ack = json.loads((desk.tree.box("dev", "outbox", "_toolchain") / f"ack_{message_id}.json").read_bytes())
    assert ack["status"] == "SUCCEEDED"
    assert desk.read(PLANS) == []
    assert not (desk.tree.root / "data" / "_mail").exists()
