"""Plans that say how many of their tasks run at once: who has to wait for a place, and is asked when there is one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from agenttalk.engine.moves import Moves

_ASKED: Final = 8
"""Agents that are asked when a turn of a plan has ended. One of them gets its place."""


class Crowds:
    """Agents that could not be given a task of a plan, because as many of its tasks run as may.

    It is kept in memory alone: every look asks all agents that have something in their queue.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, None]] = {}

    def hold(self, plans: Iterable[str], agent_id: str) -> None:
        """An agent could begin if one of these plans had a place."""
        for plan_id in plans:
            self._held.setdefault(plan_id, {})[agent_id] = None

    def waiting(self, ended: Iterable[str]) -> list[str]:
        """Some agents that may begin now that turns of plans have ended; each is told once."""
        found: list[str] = []
        for plan_id in ended if self._held else ():
            held = self._held.get(plan_id, {})
            for agent_id in list(islice(held, _ASKED)):
                held.pop(agent_id, None)
                found.append(agent_id)
        return found


def is_full(moves: Moves, plan_id: str) -> bool:
    """Whether as many tasks of a plan run as may, those included that this transaction began."""
    limits = moves.sheets.of(moves.tx, plan_id).limits
    if limits is None or limits.max_running is None:
        return False
    [(at_work,)] = moves.tx.run("at_work_in", plan_id=plan_id)
    return bool(at_work >= limits.max_running)
