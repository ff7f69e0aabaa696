"""Why a task is in its state, also where the engine does not run its plan: then only what messages tell is known."""

from __future__ import annotations

from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.inbox import leases
from agenttalk.engine.views import explain_engine_task
from agenttalk.ports.statements.inbox import ENDED_TURNS
from agenttalk.ports.statements.messages import DELIVERY_OF, NEWEST_ORDER, PLAN, TASK
from agenttalk.ports.statements.plans import COMMAND_OF_DELIVERY, RUN, VERSIONS_FROM
from agenttalk.ports.storage import Store
from agenttalk.rules.text import view_words
from agenttalk.rules.text.catalogue import read_text

_NEXT: Final = {
    "COMPLETED": view_words.CLAIMED,
    "FAILED": view_words.NEWER_COMMAND,
    "SKIPPED": view_words.SKIPPED,
    "BLOCKED_WAITING_INPUT": view_words.INPUTS,
    "BLOCKED_WAITING_REVIEW": view_words.DECIDE,
    "BLOCKED_WAITING_HUMAN": view_words.ANSWER,
}


async def explain_task(deps: Deps, plan_id: str, task_id: str) -> dict[str, Any]:
    """Everything that is to be said of a task. Raises UsageError when there is none."""
    store = await board_of(deps, plan_id)
    rows = await store.read(TASK, plan_id=plan_id, task_id=task_id)
    if not rows or await store.read(RUN, plan_id=plan_id):
        return {**await explain_engine_task.explain_engine_task(deps, plan_id, task_id), "origin": "engine"}
    agent_id, state, _, _, lease, _, delivery, attempt, _, missing, request_id, rounds, _ = rows[0]
    if delivery is None:
        delivery = await _undone(store, plan_id, task_id, agent_id)
    command = await _command(store, plan_id, agent_id, delivery) if delivery is not None else None
    turns = await _turns(store, plan_id, command["message_id"]) if command else []
    words = _NEXT.get(state, view_words.INBOX if command else view_words.NO_COMMAND)
    return {
        "plan_id": plan_id,
        "task_id": task_id,
        "agent_id": agent_id,
        "origin": "foreign",
        "state": state,
        "reason": next((turn["reason"] for turn in reversed(turns) if "reason" in turn), None),
        "running": lease is not None,
        "attempt": attempt,
        "asked": command["asked"] if command else None,
        "promised": None,
        "command": command,
        "outputs": await _outputs(store, plan_id, task_id),
        "waits_for": [],
        "missing": wire.read(bytes(missing)) if missing else [],
        "request_id": request_id,
        "attempts": turns,
        "rounds": rounds,
        "verdict": None,
        "moves_on": view_words.PROGRAM_ENDS() if lease is not None else words(agent=agent_id),
    }


async def _undone(store: Store, plan_id: str, task_id: str, agent_id: str) -> int | None:
    """The delivery of a command that nobody has begun."""
    plans = await store.read(PLAN, plan_id=plan_id)
    about = {"plan_id": plan_id, "task_id": task_id, "dag_sha256": (plans[0].dag_sha256 if plans else None) or ""}
    orders = await store.read(NEWEST_ORDER, **about)
    if not orders:
        return None
    rows = await store.read(DELIVERY_OF, plan_id=plan_id, message_id=orders[0].message_id, receiver=agent_id)
    return rows[0].id if rows else None


async def _command(store: Store, plan_id: str, agent_id: str, delivery: int) -> dict[str, Any]:
    """The command that a task got last, and what became of it."""
    [(message_id, envelope)] = await store.read(COMMAND_OF_DELIVERY, id=delivery)
    command = CommandEnvelope.from_bytes(bytes(envelope)).payload.command
    told = {"message_id": message_id, "command_id": command.command_id, "asked": command.prompt}
    for row in await store.read(DELIVERY_OF, plan_id=plan_id, message_id=message_id, receiver=agent_id):
        return {**told, "state": row.state, "receipt": row.ack, "taken_at": row.consumed_at}
    return {**told, "state": "delivered", "receipt": None, "taken_at": None}


async def _turns(store: Store, plan_id: str, message_id: str) -> list[dict[str, Any]]:
    """How each attempt at a command ended, in order."""
    found = []
    for (body,) in await store.read(ENDED_TURNS, subject=leases.build_turn_subject(plan_id, message_id)):
        told: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
        told["reason"] = read_text(told, "error") if "error" in told else None
        keys = ("command_id", "attempt", "how", "reason", "result", "score", "usage")
        found.append({key: told[key] for key in keys if told.get(key) is not None})
    return found


async def _outputs(store: Store, plan_id: str, task_id: str) -> list[dict[str, Any]]:
    rows = await store.read(VERSIONS_FROM, plan_id=plan_id, task_id=task_id)
    return [
        {"name": row.output_name, "message_id": row.message_id, "command_id": row.command_id, "at": row.accepted_at}
        for row in rows
    ]
