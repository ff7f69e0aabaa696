"""Where agents wait: the ledger and the timeline say how long, for work in a repository and work without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agenttalk.contracts.core.base import parse_instant
from agenttalk.engine.views import plans
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.rules.core.turn_times import read_turn_times
from kits.plankit import Engine, plan, play, task
from kits.provekit import program, promise, repository


def test_the_end_of_a_turn_says_when_its_agent_and_its_checks_began_and_ended(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"t0.txt": "todo\n", "t1.txt": "todo\n"})
    agents = {name: program(tmp_path, name, f"pathlib.Path('{name}.txt').write_text('done')") for name in ("t0", "t1")}
    tasks = [
        task(
            name,
            name,
            workspace="repo",
            needs=needs,
            promise=promise({"id": "ok", "kind": "run", "run": f"grep -q done {name}.txt"}),
        )
        for name, needs in (("t0", []), ("t1", ["t0"]))
    ]
    plain = task("said", "b")

    async def use(engine: Engine) -> tuple[list[Any], list[Any]]:
        await engine.submit(plan(*tasks, plain, agents=agents, workspace={"repo": str(repo)}))
        await engine.ended("p")
        store = await engine.deps.stores.board("default")
        facts = await store.read(FACTS_OF, subject="deliveries/p", after=0, limit=100)
        return facts, (await plans.describe_plan(engine.deps, "p"))["spans"]

    facts, spans = play(tmp_path / "root", use, proving=True)
    ended = {
        body["command_id"]: (row.at, read_turn_times(body.get("times")))
        for row in facts
        if row.kind == "turn.ended" and (body := json.loads(bytes(row.body)))
    }
    assert ended["cmd_said_001"][1] == {}
    for command in ("cmd_t0_001", "cmd_t1_001"):
        at, times = ended[command]
        order = [moment for part in ("turn", "baseline", "agent", "checks") for moment in times[part]]
        assert order == sorted(order)
        assert order[-1] <= parse_instant(at)
    waits = {span.task_id: [wait.what for wait in span.waits] for span in spans}
    assert waits == {"said": [], "t0": ["agent", "agent", "check", "end"], "t1": ["agent", "agent", "check", "end"]}
    assert all(span.begin <= wait.begin < wait.end <= span.end for span in spans for wait in span.waits)
