"""Plans that the engine runs, their tasks and how those move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.ports.statements.keys import AgentIdRow, IdRow, NewestRow, PlanIdRow, SeqRow, TaskCountRow, TaskIdRow
from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.rules.core.task_states import Cause, Phase, State


class SubmittedRow(NamedTuple):
    """The state of a plan that is to be submitted."""

    origin: str | None
    dag_sha256: str | None
    state: str | None
    settings: bytes | None


class RunRow(NamedTuple):
    """A plan that the engine runs."""

    state: str
    settings: bytes
    open: int
    completed: int
    failed: int
    skipped: int
    began_at: str
    ended_at: str | None
    dag_sha256: str
    revision: int | None
    closing: int


class OpenRunRow(NamedTuple):
    """A plan that has not ended."""

    plan_id: str
    state: str
    open: int


class RunTallyRow(NamedTuple):
    """The numbers of a plan's tasks by state, after a change."""

    open: int
    closing: int
    completed: int
    failed: int
    skipped: int
    plan_id: str


class NodeRow(NamedTuple):
    """The node of a task, its conditional tasks and its activators."""

    node: bytes
    wards: bytes | None
    guards: bytes | None


class DependantRow(NamedTuple):
    """A task that depends on another one."""

    dependant: str
    state: State
    unmet: int | None


class EngineTaskRow(NamedTuple):
    """A task that the engine runs."""

    agent_id: str
    state: State
    epoch: int
    lease: str | None
    delivery: int | None
    attempt: int
    unmet: int | None
    phase: Phase | None
    cause: Cause | None
    reason: str | None
    score: float | None
    retries: int
    sent_back: int
    deaths: int
    reexecutions: int
    missing: bytes | None
    request_id: str | None
    waiting_since: str | None
    held: int
    fact: int | None
    reason_message: str | None


class MetTaskRow(NamedTuple):
    """A task that waits for one task less."""

    task_id: str
    unmet: int | None
    state: State
    delivery: int | None


class UnmetRow(NamedTuple):
    """How many tasks a task still waits for, and its state."""

    unmet: int | None
    state: State


class DueTaskRow(NamedTuple):
    """A task that nothing holds up."""

    task_id: str
    delivery: int | None


class OutputInForceRow(NamedTuple):
    """An output of a task that is on its way or delivered."""

    id: int
    message_id: str
    state: str
    seq: int
    output_name: str
    command_id: str | None
    envelope: bytes


class VersionBeforeRow(NamedTuple):
    """An output of a task that was there before a message."""

    output_name: str
    message_id: str
    seq: int
    state: str
    producer: str
    envelope: bytes


class DeliveredOrderRow(NamedTuple):
    """The command of a delivery."""

    id: int
    message_id: str
    state: str
    seq: int
    command_id: str | None
    envelope: bytes
    receiver: str
    delivery_state: str
    sha256: str


class LeaseRow(NamedTuple):
    """A lease."""

    lease: str


class RunStateRow(NamedTuple):
    """The state of a plan."""

    state: str


class NewestOutputRow(NamedTuple):
    """A version of an output of a task."""

    output_name: str
    message_id: str
    seq: int
    command_id: str | None
    accepted_at: str
    envelope: bytes


class CommandEnvelopeRow(NamedTuple):
    """A command with its envelope."""

    message_id: str
    envelope: bytes


class RoundsRow(NamedTuple):
    """How many rounds of rework a task had."""

    reexecutions: int


class ActivityRow(NamedTuple):
    """The work of a plan that continues by itself, and the state of the plan."""

    working: int
    queued: int
    due: int
    state: str | None
    open: int | None


class StandingRow(NamedTuple):
    """The state of a task, its agent and its score."""

    task_id: str
    agent_id: str
    state: State
    cause: Cause | None
    score: float | None


class CursorRow(NamedTuple):
    """The progress of a task or delivery."""

    value: int


class EngineCommandRow(NamedTuple):
    """A command that the engine made."""

    seq: int
    plan_id: str
    name: str
    envelope: bytes


class EndedAckRow(NamedTuple):
    """The end of a turn, for its receipt."""

    seq: int
    body: bytes


class StoppedDependantRow(NamedTuple):
    """A task that a failure before it has stopped."""

    dependant: str
    state: State


class AnsweredTaskRow(NamedTuple):
    """A task that waited for a person, and the answer."""

    task_id: str
    state: State
    cause: Cause | None
    delivery: int | None
    response: bytes
    answered_by: str


class WaitingTaskRow(NamedTuple):
    """A task that waits for inputs."""

    task_id: str
    waiting_since: str
    request_id: str | None
    cause: Cause | None


class ChangedRunRow(NamedTuple):
    """A plan whose state has changed."""

    plan_id: str
    closing: int
    """Whether it closes before it ends, because it proved something."""


class PlanNodeRow(NamedTuple):
    """A node of a plan."""

    task_id: str
    node: bytes


ADD_RUN: Final = Statement("add_run", PlanIdRow)
SUBMITTED: Final = Statement("submitted", SubmittedRow)
RUN: Final = Statement("run", RunRow)
OPEN_RUNS: Final = Statement("open_runs", OpenRunRow)
ANY_RUN: Final = Statement("any_run", PlanIdRow)
SET_RUN_STATE: Final = Statement("set_run_state", ChangedRunRow)
COUNT_RUN: Final = Statement("count_run", RunTallyRow)
PUT_NODES: Final = Statement("put_nodes", NoRow)
LINK_NODE: Final = Statement("link_node", NoRow)
NODE: Final = Statement("node", NodeRow)
PUT_EDGE: Final = Statement("put_edge", NoRow)
PUT_EDGES: Final = Statement("put_edges", NoRow)
DEPENDANTS: Final = Statement("dependants", DependantRow)
PUT_ENGINE_TASK: Final = Statement("put_engine_task", NoRow)
PUT_ENGINE_TASKS: Final = Statement("put_engine_tasks", NoRow)
ENGINE_TASK: Final = Statement("engine_task", EngineTaskRow)
MEET: Final = Statement("meet", MetTaskRow)
MEET_ONE: Final = Statement("meet_one", UnmetRow)
MEET_FIRST: Final = Statement("meet_first", NoRow)
ACTIVATE: Final = Statement("activate", UnmetRow)
DUE_TASKS: Final = Statement("due_tasks", DueTaskRow)
QUEUE_TASK: Final = Statement("queue_task", NoRow)
READY_TASK: Final = Statement("ready_task", NoRow)
REASSIGN_TASK: Final = Statement("reassign_task", NoRow)
SET_ENGINE_TASK: Final = Statement("set_engine_task", NoRow)
QUEUE_FIRST: Final = Statement("queue_first", NoRow)
SET_PHASE: Final = Statement("set_phase", NoRow)
WAIT_FOR_INPUT: Final = Statement("wait_for_input", NoRow)
OUTPUTS_IN_FORCE: Final = Statement("outputs_in_force", OutputInForceRow)
VERSIONS_BEFORE: Final = Statement("versions_before", VersionBeforeRow)
WITHDRAW_DELIVERIES: Final = Statement("withdraw_deliveries", IdRow)
ORDER_OF_DELIVERY: Final = Statement("order_of_delivery", DeliveredOrderRow)
REVOKE_TURN: Final = Statement("revoke_turn", LeaseRow)
SET_UNMET: Final = Statement("set_unmet", NoRow)
UNMEET: Final = Statement("unmeet", NoRow)
RUN_STATE: Final = Statement("run_state", RunStateRow)
UNQUEUE_PLAN: Final = Statement("unqueue_plan", NoRow)
REQUEUE_PLAN: Final = Statement("requeue_plan", AgentIdRow)
UNQUEUE_AGENT: Final = Statement("unqueue_agent", NoRow)
ADD_ARRIVED_ARTIFACT: Final = Statement("add_arrived_artifact", NoRow)
PUT_DELIVERY: Final = Statement("put_delivery", NoRow)
LAST_SEQ: Final = Statement("last_seq", SeqRow)
VERSIONS_FROM: Final = Statement("versions_from", NewestOutputRow)
COMMAND_OF_DELIVERY: Final = Statement("command_of_delivery", CommandEnvelopeRow)
ADD_ROUND: Final = Statement("add_round", RoundsRow)
NOTE_REQUEST: Final = Statement("note_request", NoRow)
ACTIVITY: Final = Statement("activity", ActivityRow)
STANDINGS: Final = Statement("standings", StandingRow)
SKIPPED_BY_FAILURE: Final = Statement("skipped_by_failure", TaskCountRow)
CURSOR_VALUE: Final = Statement("cursor_value", CursorRow)
SET_CURSOR: Final = Statement("set_cursor", NoRow)
ENGINE_COMMANDS: Final = Statement("engine_commands", EngineCommandRow)
NEWEST_MESSAGE: Final = Statement("newest_message", NewestRow)
ENDED_ACKS: Final = Statement("ended_acks", EndedAckRow)
CANCEL_TASKS: Final = Statement("cancel_tasks", TaskIdRow)
CANCEL_DELIVERIES: Final = Statement("cancel_deliveries", NoRow)
STOPPED_DEPENDANTS: Final = Statement("stopped_dependants", StoppedDependantRow)
FRESH_START: Final = Statement("fresh_start", NoRow)
ANSWERED_TASKS: Final = Statement("answered_tasks", AnsweredTaskRow)
WAITING_TASKS: Final = Statement("waiting_tasks", WaitingTaskRow)
ADD_REFUSAL: Final = Statement("add_refusal", NoRow)
ACKNOWLEDGE_BY_HAND: Final = Statement("acknowledge_by_hand", NoRow)
NODES_OF: Final = Statement("nodes_of", PlanNodeRow)
REMOVED_TASKS: Final = Statement("removed_tasks", TaskIdRow)
HELD_TASKS: Final = Statement("held_tasks", TaskIdRow)
DROP_EDGES: Final = Statement("drop_edges", NoRow)
DROP_NODES: Final = Statement("drop_nodes", NoRow)
DROP_TASKS: Final = Statement("drop_tasks", NoRow)
DROP_TASK: Final = Statement("drop_task", NoRow)
RECOUNT_TASK: Final = Statement("recount_task", NoRow)
RECOUNT_RUN: Final = Statement("recount_run", NoRow)
SET_RUN_CLOSING: Final = Statement("set_run_closing", NoRow)
SET_RUN_SETTINGS: Final = Statement("set_run_settings", NoRow)
WITHDRAW_DIRECT: Final = Statement("withdraw_direct", NoRow)
