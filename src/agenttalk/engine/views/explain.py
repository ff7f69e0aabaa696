"""Explains why a task is in its state. Of a foreign plan only what its messages show is known."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_status import describe_status
from agenttalk.engine.views import explain_engine_task
from agenttalk.ports.statements.core import TASK_STATUS
from agenttalk.ports.statements.inbox import ENDED_TURNS
from agenttalk.ports.statements.messages import DELIVERY_OF, NEWEST_ORDER, PLAN, TASK
from agenttalk.ports.statements.plans import COMMAND_OF_DELIVERY, RUN, VERSIONS_FROM
from agenttalk.ports.storage import Store
from agenttalk.rules.text import view_words
from agenttalk.rules.text.catalogue import read_text

if TYPE_CHECKING:
    from agenttalk.engine.views.models.attempts import AttemptView
    from agenttalk.engine.views.models.tasks import CommandReceipt, ForeignOutput, TaskExplanation

_TURN_FIELDS: Final = ("command_id", "attempt", "how", "reason", "result", "score", "usage")
"""The fields of an attempt that views show."""
_NEXT: Final = {
    "COMPLETED": view_words.CLAIMED,
    "FAILED": view_words.NEWER_COMMAND,
    "SKIPPED": view_words.SKIPPED,
    "BLOCKED_WAITING_INPUT": view_words.INPUTS,
    "BLOCKED_WAITING_REVIEW": view_words.DECIDE,
    "BLOCKED_WAITING_HUMAN": view_words.ANSWER,
}


async def explain_task(deps: Deps, plan_id: str, task_id: str, stale: Collection[str] = ()) -> TaskExplanation:
    """Explain the state of a task. Raises UsageError when there is no such task.

    `stale` names tasks that were found stale, which is not stored yet.
    """
    store = await board_of(deps, plan_id)
    rows = await store.read(TASK, plan_id=plan_id, task_id=task_id)
    if not rows or await store.read(RUN, plan_id=plan_id):
        return await explain_engine_task.explain_engine_task(deps, plan_id, task_id, stale)
    [status_row] = await store.read(TASK_STATUS, plan_id=plan_id, task_id=task_id)
    status = describe_status(status_row)
    row = rows[0]
    delivery = row.delivery
    if delivery is None:
        delivery = await _find_waiting_delivery(store, plan_id, task_id, row.agent_id)
    command = await _read_command(store, plan_id, row.agent_id, delivery) if delivery is not None else None
    turns = await _read_turns(store, plan_id, command["message_id"]) if command else []
    next_step = _NEXT.get(row.state, view_words.INBOX if command else view_words.NO_COMMAND)
    last_error: Any = next((turn["reason"] for turn in reversed(turns) if "reason" in turn), None)
    return {
        **status,
        "reason": status["reason"] or last_error,
        "plan_id": plan_id,
        "running": row.lease is not None,
        "asked": command["asked"] if command else None,
        "promised": None,
        "command": command,
        "outputs": await _list_outputs(store, plan_id, task_id),
        "waits_for": [],
        "attempts": turns,
        "verdict": None,
        "broke": None,
        "choices": [],
        "superseded": [],
        "history": [],
        "gates": [],
        "branch": None,
        "disputes": [],
        "review": None,
        "release": None,
        "moves_on": view_words.PROGRAM_ENDS() if row.lease is not None else next_step(agent=row.agent_id),
    }


async def _find_waiting_delivery(store: Store, plan_id: str, task_id: str, agent_id: str) -> int | None:
    """Return the delivery of the newest command of a task, if its agent has not taken it yet."""
    plans = await store.read(PLAN, plan_id=plan_id)
    dag_sha256 = (plans[0].dag_sha256 if plans else None) or ""
    commands = await store.read(NEWEST_ORDER, plan_id=plan_id, task_id=task_id, dag_sha256=dag_sha256)
    if not commands:
        return None
    rows = await store.read(DELIVERY_OF, plan_id=plan_id, message_id=commands[0].message_id, receiver=agent_id)
    return rows[0].id if rows else None


async def _read_command(store: Store, plan_id: str, agent_id: str, delivery: int) -> CommandReceipt:
    """Return the last command of a task, and how far its agent came with it."""
    [row] = await store.read(COMMAND_OF_DELIVERY, id=delivery)
    command = CommandEnvelope.from_bytes(bytes(row.envelope)).payload.command
    receipt: CommandReceipt = {
        "message_id": row.message_id,
        "command_id": command.command_id,
        "asked": command.prompt,
        "state": "delivered",
        "receipt": None,
        "taken_at": None,
    }
    for found in await store.read(DELIVERY_OF, plan_id=plan_id, message_id=row.message_id, receiver=agent_id):
        receipt |= {"state": found.state, "receipt": found.ack, "taken_at": found.consumed_at}
    return receipt


async def _read_turns(store: Store, plan_id: str, message_id: str) -> list[AttemptView]:
    """Return how each attempt at a command ended, in order."""
    turns: list[AttemptView] = []
    for row in await store.read(ENDED_TURNS, subject=records.build_turn_subject(plan_id, message_id)):
        body: Any = wire.read(bytes(row.body), limit=wire.DOCUMENT_LIMIT)
        body["reason"] = read_text(body, "error") if "error" in body else None
        shown: Any = {key: body[key] for key in _TURN_FIELDS if body.get(key) is not None}
        turns.append(shown)
    return turns


async def _list_outputs(store: Store, plan_id: str, task_id: str) -> list[ForeignOutput]:
    rows = await store.read(VERSIONS_FROM, plan_id=plan_id, task_id=task_id)
    return [
        {"name": row.output_name, "message_id": row.message_id, "command_id": row.command_id, "at": row.accepted_at}
        for row in rows
    ]
