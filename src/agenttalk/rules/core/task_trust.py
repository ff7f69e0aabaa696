"""Decides how far the state of a task can be trusted. Every view of a task shows the answer of this one rule."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from agenttalk.contracts.core.vocabulary import Freshness
from agenttalk.rules.core.task_states import State


class TaskRecord(Protocol):
    """What the store has about a task."""

    @property
    def state(self) -> State:
        """Its state."""

    @property
    def unmet(self) -> int | None:
        """How many dependencies are open; None where the engine does not run the plan."""

    @property
    def fresh(self) -> int:
        """Whether nothing that its evidence covers has changed."""

    @property
    def unproven(self) -> int:
        """Whether its completion rests on its agent's word alone."""

    @property
    def unisolated(self) -> int:
        """Whether its agent or a check ran without a sandbox."""


class TaskTrust(NamedTuple):
    """How far the state of a task can be trusted."""

    proven: bool | None
    """Whether a completed task is so by more than its agent's word; None while it is not completed."""
    freshness: Freshness | None
    """Whether the evidence of a completed task still holds; None where the engine has seen no evidence."""
    isolated: bool | None
    """Whether all that a task rests on ran in a sandbox; None where it rests on nothing yet."""


def judge_trust(task: TaskRecord, *, is_outdated: bool = False) -> TaskTrust:
    """Judge a task. `is_outdated` says that its evidence was found stale, and that this is not stored yet."""
    completed = task.state == "COMPLETED"
    if task.unmet is None:  # a foreign plan: the engine has seen nothing of the work
        return TaskTrust(False if completed else None, None, None)
    freshness: Freshness | None = None
    if completed:
        freshness = "fresh" if task.fresh and not is_outdated else "stale"
    isolated = False if task.unisolated else True if completed else None
    return TaskTrust(not task.unproven if completed else None, freshness, isolated)
