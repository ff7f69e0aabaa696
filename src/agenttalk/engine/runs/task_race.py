"""Races: several tasks do the same with different agents, and the first that is proven ends the others.

The end of the winner and the ends of the others are one transaction. A turn that still runs then has lost its lease, so
it can write and merge nothing; its task is skipped once its processes have ended, also after a kill of the engine.
"""

from __future__ import annotations

from dataclasses import replace

from agenttalk.contracts.dag import Node
from agenttalk.engine.plans import recalls, transitions
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.storage import Tx
from agenttalk.rules.core import task_states
from agenttalk.rules.core.task_states import State
from agenttalk.rules.plans import failure
from agenttalk.rules.proof.turn_outcome import TurnOutcome
from agenttalk.rules.text import task_words


def decide_end(tx: Tx, plan: PlanDefinition, node: Node, outcome: TurnOutcome) -> TurnOutcome:
    """Decide what a turn leads to in a race: nothing, if another task has won, or if it failed and others go on."""
    others = _read_others(tx, plan, node)
    if not failure.is_race_lost(outcome.state, others.values()):
        return outcome
    winner = _find_winner(others)
    lost = winner or task_words.RACE_LEFT(why=outcome.reason or outcome.cause)
    return replace(outcome, cause="RACE_LOST", reason=lost, again=False, hand_to=None, gate=None)


def is_won(tx: Tx, plan: PlanDefinition, node: Node) -> bool:
    """Whether another task of a race is completed, so that this one may merge nothing any more."""
    return bool(_find_winner(_read_others(tx, plan, node)))


def end_others(moves: PlanTransaction, plan: PlanDefinition, node: Node) -> None:
    """End the other tasks of the race that a task has won."""
    for task_id, state in _read_others(moves.tx, plan, node).items():
        if state in task_states.FINAL:
            continue
        row = moves.tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0]
        if row.lease is not None:
            transitions.revoke_turn(moves, plan, task_id, task_words.RACE_WON(task=node.task_id))
        else:
            _skip(moves, plan, task_id, state, row.delivery, task_words.RACE_WON(task=node.task_id))


def skip_if_won(moves: PlanTransaction, plan: PlanDefinition, node: Node, delivery: int) -> bool:
    """Skip a READY task of a race that another one has won, now that nothing of its turn runs any more."""
    won = _find_winner(_read_others(moves.tx, plan, node))
    if won:
        _skip(moves, plan, node.task_id, "READY", delivery, won)
    return bool(won)


def _skip(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, state: State, delivery: int | None, why: str
) -> None:
    recalls.recall_command(moves, plan, delivery, why)
    transitions.close_questions(moves, plan, task_id)
    transitions.end_idle_task(moves, plan, task_id, state, "RACE_LOST", reason=why)


def _read_others(tx: Tx, plan: PlanDefinition, node: Node) -> dict[str, State]:
    others = [task_id for task_id in node.race if task_id != node.task_id]
    return {task_id: tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0].state for task_id in others}


def _find_winner(others: dict[str, State]) -> str:
    winner = next((task_id for task_id, state in others.items() if state == "COMPLETED"), None)
    return task_words.RACE_WON(task=winner) if winner is not None else ""
