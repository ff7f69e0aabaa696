"""Disputes of agents who work in folders, and of tasks that are called off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agenttalk.engine.people import questions
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import promise
from kits.standingkit import explain_json
from kits.treekit import Tree

CHECK = {"id": "long", "kind": "file", "path": "draft.md", "min_bytes": 100}


def left(tree: Tree, name: str = "d1", agent: str = "writer", **changes: Any) -> None:
    """A dispute in an agent's outbox."""
    said = {"schema_version": "1.0", "dispute_id": name, "plan_id": "p", "task_id": "draft", "agent_id": "writer"}
    said |= {"check": "long", "reason": "Short is what was asked for.", **changes}
    folder = tree.root / "agents" / agent / "outbox/p"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"check_dispute_{name}.json").write_text(json.dumps(said))


async def begun(engine: Engine, root: Path) -> Tree:
    outputs = [{"name": "draft.md", "deliverable": True}]
    await engine.submit(
        plan(
            task("draft", "writer", outputs=outputs, promise=promise(CHECK)),
            task("other", "writer", needs=["draft"]),
            agents={"writer": {"driver": "folder"}, "thief": {"driver": "folder"}},
        )
    )
    tree = Tree(root, plan_id="p")
    tree.agent("writer")
    tree.agent("thief")
    await engine.until(lambda now: states(now)["draft"] == "READY")
    await engine.route()
    return tree


def test_a_file_in_the_outbox_disputes_a_check(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        tree = await begun(engine, tmp_path)
        left(tree)
        await engine.route()
        left(tree)
        left(tree, "d2", reason="And again.")
        await engine.route()
        [request] = await questions.list_open(engine.deps)
        assert "> Short is what was asked for." in (request.document.needed.decision or None).question  # type: ignore[union-attr]
        assert tree.codes() == []
        assert states(await engine.ended())["draft"] == "READY"
        await engine.answer("REJECT", notes="Long is what was ordered.")
        [dispute] = (await explain_json(engine.deps, "p", "draft"))["disputes"]
        assert (dispute["state"], dispute["note"]) == ("dismissed", "Long is what was ordered.")
        left(tree, "d3")
        await engine.route()
        assert tree.codes() == ["DISPUTE_REFUSED"]

    play(tmp_path, use, proving=True)


def test_what_is_not_ones_own_or_not_there_is_not_disputed(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        tree = await begun(engine, tmp_path)
        left(tree, "a", agent="thief")
        left(tree, "b", agent="thief", agent_id="thief")
        left(tree, "c", task_id="nothing")
        left(tree, "d", check="lnog")
        left(tree, "e", reason="x" * 2_001)
        await engine.route()
        expected = ["FIELD_VALUE", "NAME_UNKNOWN", "PRODUCER_MISMATCH", "PRODUCER_MISMATCH", "TASK_NOT_IN_DAG"]
        assert sorted(tree.codes()) == expected
        assert await questions.list_open(engine.deps) == []

    play(tmp_path, use, proving=True)


def test_a_dispute_of_a_plan_that_is_called_off_is_closed(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        tree = await begun(engine, tmp_path)
        left(tree)
        await engine.route()
        await engine.dispatcher.operator.cancel("p", by="ada", why="enough")
        assert await questions.list_open(engine.deps) == []
        [dispute] = (await explain_json(engine.deps, "p", "draft"))["disputes"]
        assert (dispute["state"], dispute["answered_by"]) == ("closed", "engine")
        left(tree, "d2")
        await engine.route()
        assert tree.codes() == ["DISPUTE_REFUSED"]

    play(tmp_path, use, proving=True)
