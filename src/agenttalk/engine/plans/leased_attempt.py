"""A leased attempt: its job, and what is known of its task."""

from __future__ import annotations

from dataclasses import dataclass

from agenttalk.contracts.dag import Node
from agenttalk.engine.budgets.turn_monitor import TurnMonitor
from agenttalk.ports.agents import Job
from agenttalk.ports.kinds import KindTask
from agenttalk.rules.proof.checkpoints import CheckpointDecision


@dataclass(frozen=True, slots=True)
class LeasedAttempt:
    """A lease, and the job that it is for."""

    job: Job
    delivery: int
    message_id: str
    retries: int
    sent_back: int
    ticket: int
    """Its place among the agent's slots."""
    consumed_at: str
    """When the agent got the command first."""
    fact: int | None
    """The fact of the task's turn before this one."""
    node: Node
    """The task, as its plan defines it."""
    watch: TurnMonitor
    """Monitors its usage, and can stop the turn."""
    gates: tuple[CheckpointDecision, ...] = ()
    """The decisions of checkpoints before the turn; none of a task without a promise or limits."""
    kind_task: KindTask | None = None
    """The task as the kind of its board keeps it, if the board has a kind."""
