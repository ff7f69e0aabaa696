"""Secrets that agents put into their outboxes are refused, and nothing that is kept of them holds one."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import InputError
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.secrets import SecretGuard
from agenttalk.engine.messages.router import Router, RouterReport
from agenttalk.engine.operation.service import Service
from kits.plankit import plan, task
from kits.routerkit import inside, sound
from kits.treekit import Tree, node, output

CANARY = "sk-outbox-4711/x+y"
SPELLINGS = (
    CANARY,
    json.dumps(CANARY)[1:-1],
    CANARY.encode().hex(),
    base64.b64encode(f"a{CANARY}".encode())[4:20].decode(),
)


def kept(root: Path) -> list[str]:
    """Files that hold the canary, or are named like it."""
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return [name for name, data in found.items() if any(each.encode() in data or each in name for each in SPELLINGS)]


def routed(root: Path) -> RouterReport:
    async def use(deps: Deps) -> RouterReport:
        deps.secret_guard.register_values({"API_KEY": CANARY})
        return await Router(deps).run_once()

    return inside(root, use)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.dag([node("build", "dev", outputs=[output("out", "ops")]), node("ship", "ops", depends_on=["build"])])
    return made


def ack(**more: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "plan_id": "plan_shop",
        "message_id": "msg_x",
        "task_id": "build",
        "command_id": "cmd_build_001",
        "command_seq": 1,
        "consumer_agent_id": "dev",
        "status": "CONSUMED",
        "consumed_at": "2026-01-08T10:30:00Z",
        **more,
    }


def test_a_message_a_payload_and_a_control_file_with_a_secret_are_refused_and_kept_without_it(tree: Tree) -> None:
    disguised = base64.b64encode(f"a{CANARY}".encode())
    tree.artifact("dev", "build", "out", {"a.txt": b"see " + CANARY.encode()}, message_id="msg_small")
    tree.artifact("dev", "build", "out", {"b.bin": bytes(100_000) + disguised}, message_id="msg_large")
    tree.artifact("dev", "build", "out", {"c.txt": disguised}, message_id="msg_said", note=CANARY)
    tree.put("dev", "ack_msg_x.json", ack(result={"ok": False, "details": CANARY}))
    report = routed(tree.root)
    assert report.dead == 4
    assert tree.codes() == ["SECRET_EXPOSED"] * 4
    assert tree.inbox("ops") == []
    assert kept(tree.root) == []
    assert "[redacted API_KEY]" in (tree.box("dev", "outbox") / ".rejected" / "ack_msg_x.json").read_text()
    assert sound(tree.root)


def test_a_file_whose_very_name_is_a_secret_is_put_aside_under_another(tree: Tree) -> None:
    envelope_id = tree.artifact("dev", "build", "out", {"a.txt": b"fine"})
    box = tree.box("dev", "outbox")
    name = f"artifact_{CANARY.replace('/', '_')}.msg.json"
    (box / f"artifact_{envelope_id}.msg.json").rename(box / name)
    secret = name.removeprefix("artifact_").removesuffix(".msg.json")

    async def use(deps: Deps) -> RouterReport:
        deps.secret_guard.register_values({"API_KEY": secret})
        return await Router(deps).run_once()

    inside(tree.root, use)
    assert [path for path in tree.root.rglob("*") if secret in path.name] == []
    assert [path.name.partition("-")[0] for path in (box / ".rejected").iterdir()] == ["withheld"]
    assert tree.inbox("ops") == []


def test_what_holds_none_travels_as_before(tree: Tree) -> None:
    tree.artifact("dev", "build", "out", {"a.txt": b"fine"}, message_id="msg_fine")
    assert routed(tree.root).dead == 0
    assert len(tree.inbox("ops")) == 2


def test_tokens_are_known_while_their_attempts_last_and_a_while_longer() -> None:
    discretion = SecretGuard()
    with discretion.guard_token("agt_claims.secret-0815"):
        assert discretion.secrets.redact("it is secret-0815") == "it is [redacted AGENTTALK_TOKEN]"
        with discretion.guard_token("agt_claims.secret-0815"), discretion.guard_token(""):
            pass
        for number in range(100):
            with discretion.guard_token(f"agt_claims.another-{number}"):
                pass
        assert discretion.secrets.find_name(b"secret-0815")
        assert discretion.secrets.find_name(b"another-99")
        assert not discretion.secrets.find_name(b"another-1 ")
    assert discretion.secrets.find_name(b"secret-0815")


def test_a_plan_that_holds_a_secret_is_not_taken(tmp_path: Path) -> None:
    compiled = plan(task("t", "dev", prompt=f"Use {CANARY}."))
    (tmp_path / "agents").mkdir()

    async def use(deps: Deps) -> None:
        deps.secret_guard.register_values({"API_KEY": CANARY})
        await Service(deps).plans.submit(compiled.dag, compiled.manifest, compiled.profiles)

    with pytest.raises(InputError, match="contains the value of API_KEY"):
        inside(tmp_path, use)
    assert kept(tmp_path) == []
