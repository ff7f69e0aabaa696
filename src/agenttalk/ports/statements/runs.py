"""Leases and turns, of tasks and of commands in inboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.ports.statements.keys import AgentIdRow, EpochRow, FoundRow, IdRow, PlanIdRow, TaskCountRow, TaskIdRow
from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.rules.core.task_states import Phase, State


class NextTaskRow(NamedTuple):
    """The first task in an agent's queue."""

    plan_id: str
    task_id: str
    delivery: int
    epoch: int
    retries: int
    sent_back: int
    reason: str | None
    fact: int | None
    attempt: int
    priority: int
    agent_id: str
    reason_message: str | None


class LeasedTaskRow(NamedTuple):
    """The epoch and the attempt of a new lease."""

    epoch: int
    attempt: int


class AttemptNumberRow(NamedTuple):
    """The number of an attempt."""

    attempt: int


class WorkingTaskRow(NamedTuple):
    """A task that an agent works on."""

    plan_id: str
    task_id: str
    agent_id: str
    epoch: int
    lease: str
    owner: str
    delivery: int
    phase: Phase | None


class ScoreRow(NamedTuple):
    """The score of a task that is done."""

    score: float | None


class TakenDeliveryRow(NamedTuple):
    """When a delivery was taken."""

    consumed_at: str


class WorkingLeaseRow(NamedTuple):
    """A lease of a plan."""

    lease: str
    task_id: str


class AnsweredFailureRow(NamedTuple):
    """A task without rounds, and what a person answered."""

    plan_id: str
    task_id: str
    request_id: str
    response: bytes
    answered_by: str


class RefusalRow(NamedTuple):
    """A refusal that came through a folder."""

    refusal_id: str
    task_id: str
    agent_id: str
    body: bytes


class FolderTaskRow(NamedTuple):
    """A task that an agent works on by hand, and its receipt."""

    task_id: str
    state: State
    delivery: int
    ack: str | None
    details: str | None
    updated_at: str


class AgentQueueRow(NamedTuple):
    """A task in the queue of an agent."""

    task_id: str
    delivery: int


NEXT_TASK: Final = Statement("next_task", NextTaskRow)
NEXT_TASK_APART: Final = Statement("next_task_apart", NextTaskRow)
QUEUED_OF_AGENT: Final = Statement("queued_of_agent", AgentQueueRow)
LEASE_TASK: Final = Statement("lease_task", LeasedTaskRow)
START_TASK: Final = Statement("start_task", AttemptNumberRow)
START_FIRST: Final = Statement("start_first", NoRow)
LEASE_COMMAND: Final = Statement("lease_command", EpochRow)
HOLDS_LEASE: Final = Statement("holds_lease", FoundRow)
SET_AWAITING: Final = Statement("set_awaiting", NoRow)
RUNNING_PLAN: Final = Statement("running_plan", PlanIdRow)
END_TURN: Final = Statement("end_turn", TaskIdRow)
QUEUEING_AGENTS: Final = Statement("queueing_agents", AgentIdRow)
WORKING_TASKS: Final = Statement("working_tasks", WorkingTaskRow)
WORKING_COMMANDS: Final = Statement("working_commands", WorkingTaskRow)
AT_WORK_IN: Final = Statement("at_work_in", TaskCountRow)
SCORE_OF: Final = Statement("score_of", ScoreRow)
TAKE_DELIVERY: Final = Statement("take_delivery", TakenDeliveryRow)
END_DELIVERY: Final = Statement("end_delivery", IdRow)
NOTE_TIMES: Final = Statement("note_times", NoRow)
WORKING_IN_PLAN: Final = Statement("working_in_plan", WorkingLeaseRow)
ANSWERED_FAILURES: Final = Statement("answered_failures", AnsweredFailureRow)
OPEN_REFUSALS: Final = Statement("open_refusals", RefusalRow)
END_REFUSAL: Final = Statement("end_refusal", NoRow)
TASKS_BY_HAND: Final = Statement("tasks_by_hand", FolderTaskRow)
END_BY_HAND: Final = Statement("end_by_hand", TaskIdRow)
