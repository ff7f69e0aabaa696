"""What a submission writes is the same in every database, in parts or as a whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.core import wire
from agenttalk.engine.plans import submission
from agenttalk.ports.statements.messages import PLAN_DOCUMENTS, VIEW_BODY
from agenttalk.ports.statements.plans import DEPENDANTS, DUE_TASKS, NODE, RUN
from agenttalk.wiring import open_root
from kits.plankit import plan, task
from kits.storekit import Place

BRANCH = {"required": True, "branches": [{"when": "score < 50", "activate": ["t3"]}]}


@pytest.mark.parametrize("at_once", [2, 100])
def test_a_plan_is_kept_as_it_was_handed_over(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(submission, "_AT_ONCE", at_once)
    monkeypatch.setattr(submission, "_LARGE", 10 * at_once**2)
    judge: dict[str, Any] = {"gates": BRANCH, "score_required": True, "score_criteria": '0–100 \\ "%" 写\n\x00'}
    tasks = [task(f"t{n}", needs=["t0"] * 2 if n else [], **(judge if n == 1 else {})) for n in range(5)]
    compiled = plan(*tasks)
    root = tmp_path / "root"
    for name in ("agents", "system_runtime"):
        (root / name).mkdir(parents=True)

    async def main() -> dict[str, Any]:
        async with open_root(root, url=place.url) as deps:
            args = (deps, compiled.dag, compiled.manifest, compiled.profiles)
            assert await submission.submit(*args)
            assert await submission.submit(*args) is False
            store = await deps.stores.board("default")
            nodes = {
                node.task_id: await store.read(NODE, plan_id="p", task_id=node.task_id) for node in compiled.dag.nodes
            }
            return {
                "nodes": {name: [each and bytes(each) for each in rows[0]] for name, rows in nodes.items()},
                "dependants": await store.read(DEPENDANTS, plan_id="p", task_id="t0"),
                "due": await store.read(DUE_TASKS, plan_id="p", limit=9),
                "run": (await store.read(RUN, plan_id="p"))[0][0],
                "dag": bytes((await store.read(PLAN_DOCUMENTS, plan_id="p"))[0][0]),
                "profile": (await store.read(VIEW_BODY, path="agents/a/agent_profile.json"))[0].body,
            }

    found = asyncio.run(main())
    links = {"t1": [b'["t3"]', None], "t3": [None, b'["t1"]']}
    assert found["nodes"] == {
        node.task_id: [wire.write(node.as_json()), *links.get(node.task_id, [None, None])]
        for node in compiled.dag.nodes
    }
    assert found["dependants"] == [(f"t{n}", "PENDING", 2 if n == 3 else 1) for n in range(1, 5)]
    assert found["due"] == [("t0", None)]
    assert (found["run"], found["dag"]) == ("RUNNING", wire.write(compiled.dag.as_json()))
    assert found["profile"] == compiled.profiles["a"].to_bytes() + b"\n"
