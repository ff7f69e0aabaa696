"""Plans of which not everything begins that could.

Some say how many of their tasks run at once: who has to wait for a place is asked when there is one. And an engine that
is there for one plan leaves others as they are.
"""

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
        self._taken_up: set[str] = set()
        self.others: set[str] = set()
        """Plans that are left as they are: an engine that is there for one plan begins nothing of those before it."""

    def leave(self, plans: Iterable[str]) -> None:
        """Begin nothing of these plans, unless somebody takes them up or has done so before."""
        self.others.update(set(plans) - self._taken_up)

    def take_up(self, plan_id: str) -> None:
        """Somebody wants a plan to go on here."""
        self._taken_up.add(plan_id)
        self.others.discard(plan_id)

    def hold(self, plans: Iterable[str], agent_id: str) -> None:
        """An agent could begin if one of these plans had a place."""
        for plan_id in (each for each in plans if each not in self.others):
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
