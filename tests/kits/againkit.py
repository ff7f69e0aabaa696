"""Trying tasks of a plan again, in the transaction that an engine would do it in."""

from __future__ import annotations

from agenttalk.engine.core.boards import board_of
from agenttalk.engine.plans import control
from agenttalk.engine.plans.definition import DefinitionCache
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.storage import Tx
from kits.plankit import Engine


async def retry(engine: Engine, task_id: str, *, onwards: bool = True, go_on: bool = False) -> list[str]:
    store = await board_of(engine.deps, "p")

    def work(tx: Tx) -> list[str]:
        moves = PlanTransaction(tx, engine.deps, DefinitionCache(), engine.deps.stamp())
        found = control.retry(moves, "p", task_id, by="ada", onwards=onwards, go_on=go_on)
        moves.finish()
        return found

    found = await store.transact(work)
    engine.dispatcher.nudge()
    return found
