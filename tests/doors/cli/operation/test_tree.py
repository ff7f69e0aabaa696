"""What a root tells about a task."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.mailbox import fsio, root_reader
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.rules.commands.generation import generate
from agenttalk.rules.commands.validation import NOTHING

DAG = {"schema_version": "1.1", "plan_id": "shop", "nodes": [{"task_id": "build", "assigned_agent_id": "dev"}]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = root_reader.plan_folder(tmp_path, "shop")
    data = wire.write(DAG)
    fsio.write_file(folder / "task_dag.json", data)
    fsio.write_file(folder / "active_dag_ref.json", wire.write(pointer(wire.sha256(data))))
    return tmp_path


def pointer(digest: str) -> dict[str, Any]:
    return {"plan_id": "shop", "dag_kind": "business", "task_dag_sha256": digest, "task_dag_revision": 3}


def drop(root: Path, *names: str) -> None:
    for name in names:
        fsio.write_file(root / name, b"{}")


def refusal(root: Path, plan_id: str = "shop") -> AgentTalkError:
    with pytest.raises(AgentTalkError) as caught:
        root_reader.read_known(root, plan_id, "build")
    return caught.value


@pytest.mark.shows("C07", "C11")
def test_the_active_dag_its_tasks_and_the_next_number_are_looked_up(root: Path) -> None:
    drop(
        root,
        "system_runtime/plans/shop/commands/cmd_build_001.json",
        "agents/pm/outbox/shop/cmd_build_004.msg.json",
        "agents/pm/outbox/shop/.sent/cmd_reexecute_build_003.msg.json",
        "agents/dev/inbox/shop/.pending/m1__cmd_build_002.msg.json",
        "agents/dev/inbox/other/cmd_build_099.msg.json",
        "agents/dev/inbox/shop/cmd_build_more_088.msg.json",
        "agents/dev/inbox/shop/artifact_build_077.msg.json",
    )
    known = root_reader.read_known(root, "shop", "build")
    assert known.dag_ref is not None
    assert known.dag_ref.sha256 == wire.sha256(wire.write(DAG))
    assert known.dag_ref.revision == 3
    assert known.task_ids == {"build"}
    assert known.last_seq == 4
    assert known.command_ids == {f"cmd_build_00{i}" for i in range(1, 5)}
    assert known.reexecutions == 1
    answer = generate({"plan_id": "shop", "task_id": "build", "prompt": "x"}, known)
    assert answer.command is not None
    assert answer.command.command_id == "cmd_build_005"


def test_a_file_does_not_clash_with_itself(root: Path) -> None:
    drop(root, "agents/pm/outbox/shop/cmd_build_001.msg.json")
    drop(root, "agents/dev/inbox/shop/.pending/m1__cmd_build_001.msg.json")
    assert root_reader.read_known(root, "shop", "build", besides=b"{}").command_ids == frozenset()
    assert root_reader.read_known(root, "shop", "build", besides=b"[]").command_ids == {"cmd_build_001"}
    assert root_reader.read_known(root, "shop", "build", besides=b"").command_ids == {"cmd_build_001"}


def test_boards_have_numbers_but_no_dag(tmp_path: Path) -> None:
    drop(tmp_path, "agents/pm/inbox/_mail/cmd_m1_001.msg.json")
    known = root_reader.read_known(tmp_path, "_mail", "m1")
    assert (known.dag_ref, known.task_ids, known.last_seq) == (None, None, 1)


@pytest.mark.parametrize(("plan_id", "task_id"), [(None, "build"), ("../shop", "build"), (5, 5)])
def test_ids_that_are_none_never_become_paths(root: Path, plan_id: object, task_id: object) -> None:
    assert root_reader.read_known(root, plan_id, task_id) == NOTHING


def test_a_task_that_is_no_id_has_had_no_orders(root: Path) -> None:
    assert root_reader.read_known(root, "shop", "../build").last_seq == 0


def test_what_cannot_be_looked_up_is_told(root: Path) -> None:
    assert refusal(root / "nothing").code is Code.FILE_UNREADABLE
    unknown = refusal(root, "shpo")
    assert (unknown.code, unknown.hint) == (Code.NAME_UNKNOWN, "did you mean 'shop'?")
    assert "plans are in" in refusal(root, "zzz").hint
    assert refusal(root, "zzz").retriable is False


def test_a_dag_that_is_being_switched_is_not_guessed_at(root: Path) -> None:
    fsio.write_file(root_reader.plan_folder(root, "shop") / "task_dag.json", wire.write({**DAG, "x": 1}))
    error = refusal(root)
    assert error.code is Code.ACTIVE_DAG_REF_MISMATCH
    assert error.retriable


def test_numbers_are_compared_as_numbers_and_absurd_ones_ignored(root: Path) -> None:
    drop(
        root,
        "agents/pm/outbox/shop/cmd_build_0002.msg.json",
        "agents/pm/outbox/shop/cmd_build_9999999999999999.msg.json",
    )
    known = root_reader.read_known(root, "shop", "build")
    assert (known.command_ids, known.last_seq) == ({"cmd_build_002"}, 2)


def test_a_dag_in_the_folder_of_another_plan_is_refused(root: Path) -> None:
    folder = root_reader.plan_folder(root, "shop")
    data = wire.write({**DAG, "plan_id": "other"})
    fsio.write_file(folder / "task_dag.json", data)
    fsio.write_file(folder / "active_dag_ref.json", wire.write(pointer(wire.sha256(data))))
    assert refusal(root).code is Code.PLAN_MISMATCH


def test_a_file_that_is_no_json_is_named(root: Path) -> None:
    fsio.write_file(root_reader.plan_folder(root, "shop") / "active_dag_ref.json", b"{")
    assert "active_dag_ref.json: not JSON" in refusal(root).message


def test_a_broken_dag_is_refused(root: Path) -> None:
    folder = root_reader.plan_folder(root, "shop")
    data = wire.write({**DAG, "nodes": 5})
    fsio.write_file(folder / "task_dag.json", data)
    fsio.write_file(folder / "active_dag_ref.json", wire.write(pointer(wire.sha256(data))))
    assert refusal(root).code is Code.FIELD_TYPE


def test_what_lies_behind_a_symlink_of_an_agent_does_not_count(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    away = tmp_path_factory.mktemp("away")
    drop(away, "outbox/shop/cmd_build_007.msg.json", "shop/cmd_build_008.msg.json", "cmd_build_009.msg.json")
    drop(root, "agents/dev/inbox/shop/cmd_build_001.msg.json", "agents/README.md", "agents/qa/outbox")
    (root / "agents/pm").symlink_to(away)
    (root / "agents/dev/outbox").symlink_to(away)
    (root / "agents/dev/inbox/shop/.pending").symlink_to(away)
    assert root_reader.read_known(root, "shop", "build").command_ids == {"cmd_build_001"}


@pytest.mark.parametrize("place", ["agents", "system_runtime/plans/shop", "system_runtime/plans/shop/commands"])
def test_a_symlink_where_the_numbers_and_dags_lie_is_told_and_not_passed_over(
    root: Path, tmp_path_factory: pytest.TempPathFactory, place: str
) -> None:
    moved = tmp_path_factory.mktemp("away") / "moved"
    (root / place).mkdir(exist_ok=True)
    (root / place).rename(moved)
    (root / place).symlink_to(moved)
    assert refusal(root).code is Code.FILE_UNSAFE


def test_a_dag_that_is_a_link_or_too_large_is_refused(root: Path) -> None:
    file = root_reader.plan_folder(root, "shop") / "active_dag_ref.json"
    (root / "other name").hardlink_to(file)
    assert refusal(root).code is Code.FILE_UNSAFE
    file.unlink()
    file.symlink_to(root / "other name")
    assert refusal(root).code is Code.FILE_UNSAFE
    file.unlink()
    assert refusal(root).code is Code.FILE_UNREADABLE
    file.write_bytes(b" " * (wire.ENVELOPE_LIMIT + 1))
    assert refusal(root).code is Code.FILE_TOO_LARGE


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "large"])
def test_only_regular_files_of_a_sane_size_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if kind == "symlink":
        path.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"x" * 11)
    with pytest.raises(AgentTalkError) as caught:
        fsio.read_file(path, limit=10)
    assert caught.value.code is Code.FILE_UNREADABLE


def test_writing_replaces_a_file_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    fsio.write_file(path, b"1")
    fsio.write_file(path, json.dumps({"a": 1}).encode())
    assert path.read_bytes() == b'{"a": 1}'
    assert [each.name for each in path.parent.iterdir()] == ["file.json"]


def test_a_folder_in_the_way_is_told_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "x").touch()
    with pytest.raises(AgentTalkError) as caught:
        fsio.write_file(tmp_path / "file", b"1")
    assert caught.value.code is Code.FILE_UNWRITABLE
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
