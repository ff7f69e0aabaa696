"""Some tasks of a plan, for those who have seen all of it and were told what changed.

It is as much work as there are tasks that are asked for, however large the plan is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agenttalk.engine import standing
from agenttalk.engine.deps import Deps
from agenttalk.engine.plans import board_of
from agenttalk.errors import Code, UsageError


async def some(deps: Deps, plan_id: str, names: Iterable[str]) -> dict[str, Any]:
    """How far a plan has come, and the tasks of these names that it has. Raises UsageError when there is none."""
    store = await board_of(deps, plan_id)
    rows = await store.read("run_counts", plan_id=plan_id)
    if not rows:
        hint = "'agenttalk status' lists all"
        raise UsageError(Code.NAME_UNKNOWN, f"the engine runs no plan {plan_id[:80]!r}", hint=hint)
    state, still_open, completed, failed, skipped = rows[0]
    found = [
        standing.task_of(row)
        for name in dict.fromkeys(names)
        for row in await store.read("task_standing", plan_id=plan_id, task_id=name.replace("\0", ""))
    ]
    [(unproven,)] = await store.read("unproven_in", plan_id=plan_id)
    [(unisolated,)] = await store.read("unisolated_in", plan_id=plan_id)
    left = standing.open_in(plan_id, still_open)
    counts = {"open": left, "completed": completed, "failed": failed, "skipped": skipped}
    counts |= {"unproven": unproven, "not_isolated": unisolated}
    return {"plan_id": plan_id, "state": state, "counts": counts, "tasks": found}
