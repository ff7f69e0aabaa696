"""An attempt that was leased: its job, and what is known of its task."""

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
    """For the agent's place."""
    consumed_at: str
    """When the agent got the command first."""
    fact: int | None
    """The fact of the task's turn before this one."""
    node: Node
    """What is asked for in the task."""
    watch: TurnMonitor
    """Who looks on."""
    gates: tuple[CheckpointDecision, ...] = ()
    """What checkpoints before the turn decided; none of a task that has nothing to be decided."""
    kind_task: KindTask | None = None
    """The task as its kind has it, if its board has a kind of its own."""
