"""A plan that is reviewed before it begins, and released when it has ended."""

from __future__ import annotations

import asyncio
import json

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.core import wire
from agenttalk.rules.planfile.compiler import CompiledPlan
from crash.life import Life, Scenario, Step
from crash.scenes import running
from kits.plankit import plan, task
from kits.standingkit import PlanStanding

GATE = "security_gate_result.json"


def _plan() -> CompiledPlan:
    gates = {"build": {"kind": "file", "path": "app.md", "contains": "make"}, "security": {"validator": "b"}}
    return plan(
        task("make", outputs=[{"name": "app.md", "deliverable": True}]),
        task("scan", "b", inputs=[running.takes("app", "app.md")], outputs=[{"name": GATE}]),
        release={"gates": gates},
        review={"reviewers": ["b"]},
    )


async def _work(_: Life, turn: Turn) -> str:
    match turn.task_id:
        case "review_1":
            turn.outputs["dag_review_result_1.json"] = json.dumps({"score": 90, "decision": "APPROVE"})
        case "scan":
            [data] = turn.inputs["app"].values()
            result = {"schema_version": "1.0", "decision": "PASS", "produced_by": "b"}
            turn.outputs[GATE] = json.dumps({**result, "subject": {"sha256": wire.sha256(data)}})
        case _:
            return running.make(turn, "made")
    return "seen"


def shipped(found: PlanStanding) -> bool:
    """Whether everything is decided."""
    return found.release is not None and found.release["state"] == "approved"


async def _settled(life: Life) -> None:
    """Whatever follows from the decision has been done."""
    await asyncio.gather(*(await life.engine()).dispatcher._deciding._releases.values())


SHIPPED = Scenario(
    "shipped",
    lambda _: None,
    (running.until(shipped), Step(_settled), Step(running.show)),
    before=(running.submit(_plan()),),
    functions=running.everybody(_work),
    witness=running.kept,
)
"""Its DAG is approved, a validator and a check pass what it made, and that is archived."""
SCENARIOS = (SHIPPED,)
