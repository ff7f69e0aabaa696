"""The promise of a task as a list: of each line, who has shown it, how, and when. For programs and pages alike."""

from __future__ import annotations

from typing import Any, Final

from agenttalk.contracts import wire
from agenttalk.contracts.dag import Node
from agenttalk.engine.sheets import joined_of, sheet_of
from agenttalk.ports import Row, Store
from agenttalk.rules import checklist
from agenttalk.rules.checklist import Item, Seen

_BY: Final = {"claimed": "the agent", "confirmed": "a person"}
"""Whose word it is, where the evidence names nobody. Everything else the engine has seen itself."""


async def checklist_of(store: Store, told: dict[str, Any]) -> list[Item]:
    """Each line of a task's promise; `told` is what `explain` tells of the task."""
    plan_id, task_id = told["plan_id"], told["task_id"]
    node = Node.model_validate_json(bytes((await store.read("node", plan_id=plan_id, task_id=task_id))[0][0]))
    sheet = sheet_of(plan_id, (await store.read("run", plan_id=plan_id))[0])
    sheet.joined = joined_of(await store.read("joined_checks", plan_id=plan_id))
    kept = await store.read("evidence_of_task", plan_id=plan_id, task_id=task_id)
    attempts = [turn for turn in told["attempts"] if "verdict" in turn]
    ended_at = (await store.read("task", plan_id=plan_id, task_id=task_id))[0][2]
    if told["state"] == "COMPLETED" and kept:
        seen = [_kept(row) for row in kept]
    else:
        seen = [_seen(each, ended_at) for each in (attempts[-1].get("checks", ()) if attempts else ())]
    stale = told["freshness"] == "stale"
    promise = sheet.promise(node)
    at = ended_at if attempts else None
    return checklist.of(promise.acceptance, seen, told["verdict"], stale=stale, ended_at=at)


def _kept(row: Row) -> Seen:
    check_id, _, _, _, result, _, fresh, at = row
    told: Any = wire.read(bytes(result), limit=wire.DOCUMENT_LIMIT)
    return _seen({**told, "id": check_id}, at, fresh=bool(fresh))


def _seen(told: dict[str, Any], at: str, *, fresh: bool = True) -> Seen:
    trust = str(told.get("trust") or "claimed")
    return Seen(
        told["id"],
        bool(told.get("passed")),
        fresh,
        trust,
        str(told.get("by") or _BY.get(trust, "engine")),
        str(told.get("at") or at),
        str(told.get("detail") or ""),
    )
