"""Artifacts that arrive: kept under their paths, the newest in front, the others in history."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.ports.statements.messages import DELIVERY_OF, RESERVE_PAYLOAD
from kits.agentkit import WRITES, Desk
from kits.treekit import Tree, sha256


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(Tree(tmp_path))
    desk.program(WRITES)
    return desk


def text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def test_an_artifact_is_kept_and_indexed_and_its_payloads_are_put_away(desk: Desk) -> None:
    message_id = desk.artifact("design", "design.md", {"doc/design.md": b"Blue.", "a.png": b"x" * 200_000})
    tick = desk.once()
    assert (tick.claimed, tick.archived) == (1, 1)
    assert text(desk.inputs("design", "design.md", "doc", "design.md")) == "Blue."
    assert desk.inputs("design", "design.md", "a.png").stat().st_size == 200_000
    index = json.loads(desk.inputs("input_index.json").read_bytes())
    [entry] = index["entries"]
    assert (entry["message_id"], entry["task_id"], entry["output_name"]) == (message_id, "design", "design.md")
    assert entry["files"][1] == {
        "path": "doc/design.md",
        "sha256": sha256(b"Blue."),
        "stored_at": "design/design.md/doc/design.md",
    }
    assert desk.ack(message_id)["status"] == "SUCCEEDED"
    assert text(desk.inbox(".processed", "_payload", message_id, "doc", "design.md")) == "Blue."
    assert desk.names() == [".pending", ".processed"]
    assert desk.delivery(message_id) == {
        **desk.delivery(message_id),
        "state": "processed",
        "shown": "processed",
        "ack": "SUCCEEDED",
    }


def test_a_folder_named_like_the_message_is_left_out_of_the_paths(desk: Desk) -> None:
    desk.artifact("design", "design.md", {"m1/design.md": b"one"}, message_id="m1", seq=1)
    desk.artifact("design", "design.md", {"m2/design.md": b"two"}, message_id="m2", seq=2)
    desk.once()
    assert text(desk.inputs("design", "design.md", "design.md")) == "two"
    assert text(desk.inputs(".history", "m1", "design.md")) == "one"


def test_a_newer_version_replaces_and_the_old_one_stays_in_history(desk: Desk) -> None:
    first = desk.artifact("design", "design.md", {"design.md": b"one"}, seq=1)
    desk.once()
    desk.artifact("design", "design.md", {"design.md": b"two"}, seq=2)
    desk.once()
    assert text(desk.inputs("design", "design.md", "design.md")) == "two"
    assert text(desk.inputs(".history", first, "design.md")) == "one"


def test_an_older_version_that_comes_late_goes_straight_to_history(desk: Desk) -> None:
    desk.artifact("design", "design.md", {"design.md": b"two"}, seq=2)
    desk.once()
    late = desk.artifact("design", "design.md", {"design.md": b"one"}, seq=1)
    desk.once()
    assert text(desk.inputs("design", "design.md", "design.md")) == "two"
    assert text(desk.inputs(".history", late, "design.md")) == "one"
    assert desk.ack(late)["status"] == "SUCCEEDED"


def test_history_holds_no_inputs(desk: Desk) -> None:
    desk.artifact("design", "design.md", {"design.md": b"two"}, seq=2)
    desk.artifact("design", "old", {"old.md": b"two"}, seq=2)
    desk.once()
    desk.artifact("design", "design.md", {"design.md": b"one"}, seq=1)
    waiting = desk.command(resolved_inputs=[{"input_name": "all", "required": True, "paths": ["*.md"]}])
    desk.once()
    laid = desk.folder / "workspace" / "plan_shop" / "build" / ".agenttalk" / "cmd_build_001-1" / "inputs" / "all"
    assert sorted(path.name for path in laid.rglob("*.md")) == ["design.md", "old.md"]
    assert text(laid / "design.md") == "two"
    assert desk.ack(waiting)["status"] == "SUCCEEDED"


def test_the_same_number_with_other_content_is_a_conflict(desk: Desk) -> None:
    desk.artifact("design", "design.md", {"design.md": b"one"}, seq=1)
    desk.once()
    second = desk.artifact("design", "design.md", {"design.md": b"other", "more.md": b"more"}, seq=1)
    tick = desk.once()
    assert (tick.archived, tick.dead) == (0, 1)
    assert desk.codes() == desk.alerts() == ["INPUT_CONFLICT"]
    assert text(desk.inputs("design", "design.md", "design.md")) == "one"
    assert text(desk.inputs("design", "design.md", "more.md")) is None
    assert desk.names(".deadletter") == ["_payload", f"{second}__artifact_{second}.msg.json"]
    assert text(desk.inbox(".deadletter", "_payload", second, "design.md")) == "other"
    assert desk.ack(second)["status"] == "FAILED"
    assert desk.delivery(second)["shown"] == "dead"


def test_the_same_content_again_is_fine(desk: Desk) -> None:
    desk.artifact("design", "design.md", {"design.md": b"one"}, seq=1)
    desk.artifact("design", "notes", {"design2.md": b"one"}, seq=1)
    desk.once()
    again = desk.artifact("design", "design.md", {"design.md": b"one"}, seq=1)
    newer = desk.artifact("design", "notes", {"design2.md": b"one"}, seq=3)
    desk.once()
    assert {desk.ack(each)["status"] for each in (again, newer)} == {"SUCCEEDED"}
    late = desk.artifact("design", "notes", {"design2.md": b"two"}, seq=2)
    desk.once()
    assert desk.ack(late)["status"] == "SUCCEEDED"
    assert text(desk.inputs("design", "notes", "design2.md")) == "one"


@pytest.mark.parametrize(("change", "code"), [("gone", "MISSING_PAYLOAD"), ("edited", "PAYLOAD_HASH_MISMATCH")])
@pytest.mark.parametrize("size", [5, 100_000])
def test_a_payload_that_is_not_what_the_envelope_says_kills_the_message(
    desk: Desk, change: str, code: str, size: int
) -> None:
    message_id = desk.artifact("design", "design.md", {"design.md": b"x" * size})
    if change == "gone":
        desk.inbox("design.md").unlink()
    else:
        desk.inbox("design.md").write_bytes(b"y" * size)
    assert desk.once().dead == 1
    assert desk.codes() == [code]
    assert desk.ack(message_id)["status"] == "FAILED"
    assert desk.names(".deadletter") == [f"{message_id}__artifact_{message_id}.msg.json"]


@pytest.mark.parametrize("kind", ["symlink", "fifo", "large"])
def test_a_payload_that_misleads_kills_the_message(desk: Desk, kind: str) -> None:
    desk.limits = EngineLimits(payload_bytes=1000)
    desk.artifact("design", "design.md", {"design.md": b"Blue."})
    path = desk.inbox("design.md")
    path.unlink()
    if kind == "symlink":
        path.symlink_to("/etc/hostname")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes(b"x" * 2000)
    desk.once()
    assert desk.codes() == [{"large": "FILE_TOO_LARGE"}.get(kind, "FILE_UNSAFE")]


def test_a_payload_that_is_gone_is_taken_from_the_store_when_it_has_the_content(desk: Desk) -> None:
    desk.artifact("design", "one", {"one.md": b"Blue."})
    desk.once()
    message_id = desk.artifact("design", "two", {"two.md": b"Blue."})
    desk.inbox("two.md").unlink()
    desk.once()
    assert text(desk.inputs("design", "two", "two.md")) == "Blue."
    assert desk.ack(message_id)["status"] == "SUCCEEDED"


def test_a_hidden_payload_is_refused(desk: Desk) -> None:
    desk.artifact("design", "design.md", {".secret/x": b"Blue."})
    desk.once()
    assert desk.codes() == ["PATH_OUTSIDE_FOLDER"]


def test_outputs_with_odd_names_get_folders_of_their_own(desk: Desk) -> None:
    desk.artifact("design", "../../etc", {"passwd": b"x"})
    desk.once()
    [entry] = json.loads(desk.inputs("input_index.json").read_bytes())["entries"]
    stored = entry["files"][0]["stored_at"]
    assert text(desk.inputs() / stored) == "x"
    assert (desk.inputs() / stored).resolve().is_relative_to(desk.inputs())


def test_an_inputs_folder_that_leads_elsewhere_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    desk.artifact("design", "design.md", {"design.md": b"Blue."})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    desk.inputs().parent.mkdir(parents=True)
    desk.inputs().symlink_to(elsewhere)
    assert desk.once().errors
    assert list(elsewhere.iterdir()) == []
    desk.inputs().unlink()
    assert desk.once().errors == []
    assert text(desk.inputs("design", "design.md", "design.md")) == "Blue."


def test_a_payload_stays_reserved_until_it_left_the_inbox(desk: Desk) -> None:
    message_id = desk.artifact("design", "design.md", {"design.md": b"Blue."})

    async def scenario(beat: Heartbeat, deps: Deps) -> int:
        board = await deps.stores.board("default")
        await beat.tick()
        row = (await board.read(DELIVERY_OF, plan_id="plan_shop", message_id=message_id, receiver="dev"))[0]
        rows = await board.transact(
            lambda tx: tx.run(
                RESERVE_PAYLOAD, plan_id="plan_shop", receiver="dev", path="design.md", delivery=row[0] + 1
            )
        )
        number: int = rows[0][0] - row[0]
        return number

    assert desk.play(scenario) == 1
