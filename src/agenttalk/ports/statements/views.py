"""What people and programs look at, page by page, and what is counted from the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.ports.statements.core import FactBodyRow
from agenttalk.ports.statements.keys import TaskCountRow
from agenttalk.ports.statements.messages import TaskStateCountRow
from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.rules.core.task_states import Cause, Phase, State


class FactAfterRow(NamedTuple):
    """A fact; without its body if that is very long."""

    seq: int
    at: str
    kind: str
    subject: str
    body: bytes | None


class OrderTimesRow(NamedTuple):
    """When a command was taken, and when it ended."""

    task_id: str
    seq: int
    consumed_at: str
    finished_at: str | None
    ack: str | None
    times: str | None
    """When the parts of its last turn began and ended, as JSON."""


class TroubledTaskRow(NamedTuple):
    """A task that cannot go on by itself."""

    task_id: str
    agent_id: str
    state: State
    cause: Cause | None
    reason: str | None
    request_id: str | None
    updated_at: str
    reason_message: str | None


class RunCountsRow(NamedTuple):
    """How far a plan has come."""

    state: str
    open: int
    completed: int
    failed: int
    skipped: int


class CountedFactRow(NamedTuple):
    """A fact that says how far an agent could be believed."""

    link: int | None
    kind: str
    subject: str
    body: bytes


class HonestyRow(NamedTuple):
    """What an agent claimed with a model, and what of it was proven."""

    agent_id: str
    model: str
    turns: int
    claims: int
    proven: int
    unproven: int
    refuted: int
    overturned: int
    stale: int
    rounds: int
    judged: int
    misled: int
    overruled: int
    tokens: int
    cost_usd: float
    seconds: float
    disputed: int
    upheld: int
    dismissed: int
    unjudged: int
    unisolated: int
    gamed: int


class ReceiverRow(NamedTuple):
    """A receiver."""

    receiver: str


class RunPageRow(NamedTuple):
    """A plan of a page."""

    plan_id: str
    state: str
    open: int
    completed: int
    failed: int
    skipped: int
    began_at: str
    ended_at: str | None


class ForeignPlanRow(NamedTuple):
    """A foreign plan."""

    plan_id: str
    halted: str | None


class EdgeRow(NamedTuple):
    """An edge of a DAG."""

    task_id: str
    dependant: str


class PlanAckRow(NamedTuple):
    """A command of a plan, and how far a receiver came with it."""

    id: int
    message_id: str
    task_id: str
    command_id: str | None
    seq: int
    receiver: str
    state: str
    ack: str | None
    stored_at: str | None
    injected_at: str | None
    acted_at: str | None
    consumed_at: str | None
    finished_at: str | None
    details: str | None
    prompt_sha256: str | None


class PlanArtifactRow(NamedTuple):
    """An artifact of a plan."""

    id: int
    message_id: str
    task_id: str
    output_name: str
    seq: int
    producer: str
    state: str
    accepted_at: str
    envelope: bytes


class TaskOrderRow(NamedTuple):
    """A command of a task, and how far its receiver came, if it has one."""

    message_id: str
    command_id: str
    seq: int
    envelope: bytes
    receiver: str | None
    state: str | None
    ack: str | None
    consumed_at: str | None
    finished_at: str | None
    prompt_sha256: str | None


class SupersededOrderRow(NamedTuple):
    """A command that was withdrawn, and why."""

    command_id: str | None
    details: str | None
    finished_at: str | None


class FactRow(NamedTuple):
    """A fact of the ledger."""

    seq: int
    link: int | None
    at: str
    kind: str
    subject: str
    body: bytes
    hash: bytes | None


class AtWorkRow(NamedTuple):
    """A task that is worked on."""

    plan_id: str
    task_id: str
    agent_id: str
    state: State
    phase: Phase | None
    attempt: int
    leased_at: str | None


class QueueLengthRow(NamedTuple):
    """How many tasks wait for an agent."""

    agent_id: str
    tasks: int


class RunStateCountRow(NamedTuple):
    """How many plans are in a state, and their tasks."""

    state: str
    runs: int
    open: int
    completed: int
    failed: int
    skipped: int


class OutgoingCountsRow(NamedTuple):
    """How many posts wait, and how many are held back."""

    waiting: int
    held: int


class SizeRow(NamedTuple):
    """The size of a content."""

    size: int


class PieceRow(NamedTuple):
    """A piece of a content."""

    piece: bytes


class DoneFactRow(NamedTuple):
    """A fact that may have called a task done."""

    seq: int
    at: str
    kind: str
    subject: str
    body: bytes


class EnvelopeRow(NamedTuple):
    """The envelope of a message."""

    envelope: bytes


FACTS_AFTER: Final = Statement("facts_after", FactAfterRow)
RECENT_TURNS: Final = Statement("recent_turns", FactBodyRow)
ORDERS_OF_PLAN: Final = Statement("orders_of_plan", OrderTimesRow)
TROUBLED_TASKS: Final = Statement("troubled_tasks", TroubledTaskRow)
RUN_COUNTS: Final = Statement("run_counts", RunCountsRow)
FACTS_TO_COUNT: Final = Statement("facts_to_count", CountedFactRow)
ADD_HONESTY: Final = Statement("add_honesty", NoRow)
HONESTY: Final = Statement("honesty", HonestyRow)
TAKEN_BY: Final = Statement("taken_by", ReceiverRow)
PLAN_PAGE: Final = Statement("plan_page", RunPageRow)
UNPROVEN_IN: Final = Statement("unproven_in", TaskCountRow)
UNISOLATED_IN: Final = Statement("unisolated_in", TaskCountRow)
OPEN_PLAN_PAGE: Final = Statement("open_plan_page", RunPageRow)
FOREIGN_PLAN_PAGE: Final = Statement("foreign_plan_page", ForeignPlanRow)
PLAN_EDGES: Final = Statement("plan_edges", EdgeRow)
PLAN_ACKS: Final = Statement("plan_acks", PlanAckRow)
PLAN_ARTIFACTS: Final = Statement("plan_artifacts", PlanArtifactRow)
TASK_ORDERS: Final = Statement("task_orders", TaskOrderRow)
SUPERSEDED_ORDERS: Final = Statement("superseded_orders", SupersededOrderRow)
PLAN_FACTS: Final = Statement("plan_facts", FactRow)
LEDGER_PAGE: Final = Statement("ledger_page", FactRow)
LEDGER_OF: Final = Statement("ledger_of", FactRow)
AT_WORK: Final = Statement("at_work", AtWorkRow)
QUEUE_LENGTHS: Final = Statement("queue_lengths", QueueLengthRow)
COUNTED_STATES: Final = Statement("counted_states", TaskStateCountRow)
COUNTED_RUNS: Final = Statement("counted_runs", RunStateCountRow)
COUNTED_OUTGOING: Final = Statement("counted_outgoing", OutgoingCountsRow)
BLOB_SIZE: Final = Statement("blob_size", SizeRow)
BLOB_PIECE: Final = Statement("blob_piece", PieceRow)
DONES_BEFORE: Final = Statement("dones_before", DoneFactRow)
ORDER_NAMED: Final = Statement("order_named", EnvelopeRow)
