"""Every reason for which a message is refused, met in a real tree, with everything that a dead letter leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import Code
from agenttalk.rules.messages import control_files, routes
from kits.routerkit import Route, alerts, buried, counts, graves, sound, statuses
from kits.treekit import Tree, dumped, node, output, sha256

Sending = Callable[[Tree], Path]


def envelope(tree: Tree, name: str = "cmd_build_001.msg.json", sender: str = "lead") -> dict[str, Any]:
    """The document that lies in an outbox."""
    document: dict[str, Any] = json.loads((tree.box(sender, "outbox") / name).read_bytes())
    return document


def changed(tree: Tree, **fields: Any) -> Path:
    """A command for build, with other fields in its envelope; `...` removes one."""
    tree.command("lead", "build")
    document = {**envelope(tree), **fields}
    return put(tree, {key: value for key, value in document.items() if value is not ...})


def put(tree: Tree, document: dict[str, Any] | bytes, sender: str = "lead") -> Path:
    return tree.put(sender, "cmd_build_001.msg.json", document)


def ordered(tree: Tree, sender: str = "lead", task: str = "build", **fields: Any) -> Path:
    tree.command(sender, task, **fields)
    return tree.box(sender, "outbox") / f"cmd_{task}_001.msg.json"


def handed_over(tree: Tree, output_name: str = "design.md", files: dict[str, bytes] | None = None, **more: Any) -> Path:
    message_id = tree.artifact("pm", "design", output_name, files or {"design.md": b"# Design\n"}, **more)
    return tree.box("pm", "outbox") / f"artifact_{message_id}.msg.json"


def without_its_file(tree: Tree) -> Path:
    path = handed_over(tree)
    (path.parent / "design.md").unlink()
    return path


def with_another_file(tree: Tree) -> Path:
    path = handed_over(tree)
    (path.parent / "design.md").write_bytes(b"# Something else\n")
    return path


def with_a_link_for_a_file(tree: Tree) -> Path:
    path = handed_over(tree)
    (path.parent / "design.md").unlink()
    (path.parent / "design.md").symlink_to("/etc/hostname")
    return path


def with_a_path(path: str) -> Sending:
    return lambda tree: handed_over(tree, payload={"files": [{"path": path, "sha256": sha256(b"x")}]})


def to_nobody(tree: Tree) -> Path:
    tree.dag([node("design", "pm", outputs=[output("design.md", "ghost")])])
    return handed_over(tree)


def of_another_plan(tree: Tree) -> Path:
    tree.command("lead", "build", plan_id="plan_other", dag_ref={"sha256": tree.dags["plan_shop"]})
    lost = tree.box("lead", "outbox", "plan_other") / "cmd_build_001.msg.json"
    tree.box("lead", "outbox").mkdir(parents=True, exist_ok=True)
    return lost.rename(tree.box("lead", "outbox") / lost.name)


DEEP = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
CODES: list[tuple[str, Sending, bool]] = [
    ("PRODUCER_MISMATCH", lambda tree: changed(tree, producer_agent_id="pm"), True),
    ("PLAN_MISMATCH", of_another_plan, True),
    ("TASK_NOT_IN_DAG", lambda tree: ordered(tree, task="paint"), True),
    ("COMMAND_NOT_AUTHORISED", lambda tree: ordered(tree, sender="dev"), True),
    ("COMMAND_DAG_MISMATCH", lambda tree: ordered(tree, dag_ref={"sha256": sha256(b"another")}), True),
    ("COMMAND_ENVELOPE_MISMATCH", lambda tree: changed(tree, task_id="test"), True),
    ("COMMAND_ROUTES_ITSELF", lambda tree: ordered(tree, send_to="dev"), True),
    ("ROUTING_NO_TARGET", lambda tree: handed_over(tree, "undeclared.md"), True),
    ("TARGET_AGENT_NOT_FOUND", to_nobody, True),
    ("MISSING_PAYLOAD", without_its_file, True),
    ("PAYLOAD_HASH_MISMATCH", with_another_file, True),
    ("FILE_UNSAFE", with_a_link_for_a_file, True),
    ("PATH_OUTSIDE_FOLDER", with_a_path("../../../secret"), True),
    ("PATH_OUTSIDE_FOLDER", with_a_path("/etc/hostname"), True),
    ("PATH_OUTSIDE_FOLDER", with_a_path(".sent/old.md"), True),
    ("PATH_OUTSIDE_FOLDER", with_a_path("another.msg.json"), True),
    ("PATH_OUTSIDE_FOLDER", with_a_path("ack_msg_1.json"), True),
    ("UNSUPPORTED_MESSAGE_TYPE", lambda tree: changed(tree, type="broadcast"), True),
    ("SCHEMA_INVALID", lambda tree: changed(tree, created_at="yesterday"), True),
    ("SCHEMA_INVALID", lambda tree: changed(tree, message_id="../x"), False),
    ("SCHEMA_VERSION_UNSUPPORTED", lambda tree: changed(tree, schema_version="2.0"), True),
    ("ENVELOPE_PARSE_ERROR", lambda tree: put(tree, b"{"), False),
    ("ENVELOPE_PARSE_ERROR", lambda tree: put(tree, b""), False),
    ("ENVELOPE_PARSE_ERROR", lambda tree: put(tree, b"\xff\xfe\x00"), False),
    ("ENVELOPE_PARSE_ERROR", lambda tree: put(tree, b'{"a":1,"a":2}'), False),
    ("ENVELOPE_PARSE_ERROR", lambda tree: put(tree, b'{"a":NaN}'), False),
    ("ENVELOPE_PARSE_ERROR", lambda tree: put(tree, DEEP), False),
    ("FILE_TOO_LARGE", lambda tree: put(tree, b" " * 2 * 1024 * 1024), False),
]


@pytest.mark.shows("M11", "M15")
@pytest.mark.parametrize(("code", "send", "named"), CODES, ids=[f"{n}-{each[0]}" for n, each in enumerate(CODES)])
def test_each_refusal_leaves_a_dead_letter_with_all_that_belongs_to_it(
    tree: Tree, route: Route, code: str, send: Sending, named: bool
) -> None:
    path = send(tree)
    data = path.read_bytes()
    tree.command("lead", "design")
    report = route()
    assert (report.dead, report.accepted, report.problems) == (1, 1, [])
    grave = buried(tree, path.parts[-4], path.name, code, data)
    assert grave.entry["original"]["producer_agent_id"] == path.parts[-4]
    assert ("message_id" in grave.entry["original"]) is named
    assert tree.inbox("pm") == ["cmd_design_001.msg.json"]
    assert tree.inbox("dev") == []
    assert counts(tree.root) == {"sent": 2, "delivered": 1, "dead": 1}
    again = route()
    assert again.idle
    assert len(graves(tree)) == 1
    assert sound(tree.root)


@pytest.mark.shows("M07")
def test_an_id_that_was_used_for_something_else_is_refused(tree: Tree, route: Route) -> None:
    tree.command("lead", "build", message_id="m1")
    route()
    tree.command("lead", "build", 2, message_id="m1")
    data = (tree.box("lead", "outbox") / "cmd_build_002.msg.json").read_bytes()
    assert route().dead == 1
    buried(tree, "lead", "cmd_build_002.msg.json", "MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD", data)
    assert statuses(tree, "m1") == ["DELIVERED", "DEADLETTERED"]
    assert counts(tree.root) == {"sent": 2, "delivered": 1, "dead": 1}


@pytest.mark.shows("C07")
def test_a_command_id_is_used_once_in_a_plan(tree: Tree, route: Route) -> None:
    tree.command("lead", "build")
    route()
    tree.command("lead", "build", prompt="Something else.")
    assert route().dead == 1
    assert tree.codes() == ["COMMAND_ID_REUSED"]


def test_an_output_that_must_not_change_is_refused_when_it_does(tree: Tree, route: Route) -> None:
    handed_over(tree, seq=1)
    route()
    handed_over(tree, files={"design.md": b"# Another\n"}, seq=1)
    route()
    assert tree.codes() == ["OUTPUT_VERSION_CONFLICT"]
    assert counts(tree.root) == {"sent": 2, "delivered": 1, "dead": 1}


def test_on_a_virtual_board_the_task_must_exist_and_be_the_senders(tree: Tree, route: Route) -> None:
    tree.artifact("dev", "fix_1", "patch", {"patch.diff": b"-+"}, plan_id="_toolchain")
    tree.command("lead", "fix_1", plan_id="_toolchain")
    assert route().dead == 2
    assert tree.codes("_toolchain") == ["TASK_NOT_FOUND", "TASK_NOT_FOUND"]


@pytest.mark.parametrize("rule", ["route", "check_duplicate", "unpack"])
def test_our_own_fault_keeps_the_message_and_the_router_goes_on(
    tree: Tree, route: Route, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    real = getattr(routes, rule)

    def faulty(what: Any, *rest: Any, **more: Any) -> Any:
        if b"Do build." in (what if isinstance(what, bytes) else dumped(what.envelope.as_json())):
            raise RuntimeError("a fault of ours")
        return real(what, *rest, **more)

    tree.command("lead", "build")
    data = (tree.box("lead", "outbox") / "cmd_build_001.msg.json").read_bytes()
    tree.command("lead", "design")
    with monkeypatch.context() as patch:
        patch.setattr(routes, rule, faulty)
        report = route()
    assert (report.accepted, report.dead) == (1, 1)
    buried(tree, "lead", "cmd_build_001.msg.json", "UNHANDLED_EXCEPTION", data)
    assert counts(tree.root) == {"sent": 2, "delivered": 1, "dead": 1}
    assert sound(tree.root)


@pytest.mark.parametrize("rule", ["advance", "read"])
def test_our_own_fault_with_a_control_file_keeps_it_and_the_router_goes_on(
    tree: Tree, route: Route, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    def faulty(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a fault of ours")

    path = tree.put("dev", "ack_m1.json", {"plan_id": "plan_shop"})
    if rule == "advance":
        path = tree.put("dev", "ack_m1.json", ack())
    data = path.read_bytes()
    tree.command("lead", "design")
    with monkeypatch.context() as patch:
        patch.setattr(control_files, rule, faulty)
        report = route()
    assert (report.accepted, report.dead) == (1, 1)
    buried(tree, "dev", "ack_m1.json", "UNHANDLED_EXCEPTION", data)


def ack() -> dict[str, Any]:
    return {
        "plan_id": "plan_shop",
        "message_id": "m1",
        "task_id": "build",
        "consumer_agent_id": "dev",
        "status": "CONSUMED",
        "consumed_at": "2026-01-08T10:30:00Z",
    }


def test_what_was_refused_for_the_state_of_the_plan_can_be_replayed_and_the_rest_not(tree: Tree, route: Route) -> None:
    without_its_file(tree)
    put(tree, b"{")
    route()
    retriable = {each.entry["reason"]["code"]: each.entry["actions"]["retriable"] for each in graves(tree)}
    assert retriable == {"MISSING_PAYLOAD": True, "ENVELOPE_PARSE_ERROR": False}


def test_every_code_of_an_alert_is_a_public_one(tree: Tree, route: Route) -> None:
    without_its_file(tree)
    put(tree, b"{")
    route()
    assert {each["type"] for each in alerts(tree)} <= set(Code)
    assert len(alerts(tree)) == 2
