"""Adds the present activity of a plan's tasks to a status that was read from the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime

from agenttalk.engine.budgets.turn_monitor import TurnMonitors
from agenttalk.engine.core.task_status import TaskView
from agenttalk.rules.agents.activity import STORED, ActivityPhase, TaskActivity


class ActivityReader:
    """Reads what turns are doing, from memory. Reading costs nothing that grows with the history of a plan."""

    def __init__(self, watches: TurnMonitors, now: Callable[[], datetime], redact: Callable[[str], str]) -> None:
        """`now` reads the clock, and `redact` removes secrets from what agents say."""
        self._watches = watches
        self._now = now
        self._redact = redact

    def read(self, board: str, plan_id: str, task: TaskView, busy: Collection[str]) -> TaskActivity | None:
        """Return what a task is doing; None if nothing is done for it, and it waits for no agent.

        `busy` are the agents that have a place.
        """
        if task["waits_for_account"] is not None:  # its reason says so
            return None
        if task["state"] == "READY":
            return _describe("queued_agent" if task["agent_id"] in busy else "queued", task)
        if task["state"] != "RUNNING":
            return None
        watch = self._watches.find(board, plan_id, task["task_id"])
        if watch is None and task["activity"] is not None:  # its turn ended after the task was read
            return task["activity"]
        if watch is None or (watch.activity.phase == "working" and task["phase"] in {"offered", "elsewhere"}):
            return _describe(STORED[task["phase"] or "executing"], task)
        return watch.activity.read(self._now(), watch.used, task["rounds"] + 1, self._redact)

    def add_to(self, board: str, plan_id: str, tasks: Iterable[TaskView], busy: Collection[str]) -> None:
        """Add what they are doing to the views of tasks."""
        for task in tasks:
            task["activity"] = self.read(board, plan_id, task, busy)


def _describe(phase: ActivityPhase, task: TaskView) -> TaskActivity:
    """Return an activity of which no more is known than the row of the task says."""
    return {
        "phase": phase,
        "detail": "",
        "tool": "",
        "file": "",
        "since": task["since"],
        "round": task["rounds"] + 1,
        "rounds": None,
        "tests_done": None,
        "tests_total": None,
        "tokens": 0,
        "cost_usd": 0.0,
    }
