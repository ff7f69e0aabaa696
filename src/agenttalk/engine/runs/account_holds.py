"""Holds the tasks of agents whose account takes no work for a time, or hands them to the fallbacks of these agents."""

from __future__ import annotations

from typing import Any

from agenttalk.contracts.core import wire
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.engine.budgets import account_waits
from agenttalk.engine.budgets.account_waits import AccountWaits
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.plans import COMMAND_OF_DELIVERY, REASSIGN_TASK, WITHDRAW_DIRECT
from agenttalk.ports.statements.runs import QUEUED_OF_AGENT
from agenttalk.rules.budgets import provider_limits
from agenttalk.rules.budgets.provider_limits import AccountWait
from agenttalk.rules.plans.input_selection import PickedInputs
from agenttalk.rules.proof import rework
from agenttalk.rules.text import turn_words
from agenttalk.rules.text.catalogue import with_messages


def is_held(moves: PlanTransaction, accounts: AccountWaits, plan_id: str, agent_id: str) -> bool:
    """Whether the account of an agent waits, so that none of its tasks of a plan may begin."""
    if not (accounts.any_known or moves.account_waits):
        return False
    return _find_wait(moves, accounts, moves.definitions.load(moves.tx, plan_id), agent_id) is not None


def hold_or_hand_over(moves: PlanTransaction, accounts: AccountWaits, plan_id: str, agent_id: str) -> None:
    """Hand the tasks in the queue of an agent whose account waits to its fallback; without one, they say why they wait.

    A fallback whose account waits too cannot help; then its own fallback is tried.
    """
    plan = moves.definitions.load(moves.tx, plan_id)
    fallback = provider_limits.decide_fallback(
        agent_id,
        {name: profile.fallback for name, profile in plan.profiles.items()},
        lambda name: _find_wait(moves, accounts, plan, name) is not None,
    )
    wait = _find_wait(moves, accounts, plan, agent_id)
    if fallback is not None:
        for task_id, delivery in moves.tx.run(QUEUED_OF_AGENT, plan_id=plan_id, agent_id=agent_id):
            _hand_over(moves, plan, task_id, delivery, agent_id, fallback)
        moves.note_due_tasks()
    elif wait is not None:
        account_waits.hold_tasks(moves.tx, wait, plan_id=plan_id, agent_id=agent_id, at=moves.now)


def _find_wait(
    moves: PlanTransaction, accounts: AccountWaits, plan: PlanDefinition, agent_id: str
) -> AccountWait | None:
    return accounts.find(plan.profile(agent_id), moves.account_waits)


def _hand_over(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, delivery: int, agent_id: str, fallback: str
) -> None:
    """Hand a task to another agent, with all that it was commanded: rework stays rework, and no round is used."""
    tx = moves.tx
    envelope = bytes(tx.run(COMMAND_OF_DELIVERY, id=delivery)[0].envelope)
    body: Any = wire.read(envelope, limit=wire.DOCUMENT_LIMIT)
    command = CommandEnvelope.model_validate_json(envelope).payload.command
    why = turn_words.HANDED_OVER(agent=agent_id, fallback=fallback)
    tx.run(WITHDRAW_DIRECT, id=delivery, at=moves.now, details=why)
    tx.run(REASSIGN_TASK, plan_id=plan.plan_id, task_id=task_id, agent_id=fallback)
    moves.queue_command(
        plan,
        plan.node(tx, task_id),
        PickedInputs(rework.list_own_inputs(command), {}),
        "READY",
        "HANDED_OVER",
        rework=body["payload"]["command"].get("reexecute"),
        agent_id=fallback,
    )
    moved = {"state": "READY", "cause": "HANDED_OVER", **with_messages({"reason": why})}
    tx.record("task.moved", f"{plan.plan_id}/{task_id}", moved)
