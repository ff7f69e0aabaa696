"""Plans and tasks as messages know them, messages, deliveries, dead letters and published files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.ports.statements.keys import FoundRow, IdRow, MessageIdRow, PlanIdRow, TaskIdRow
from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.rules.core.task_states import State


class PlanRow(NamedTuple):
    """A plan, and how many of its messages are where."""

    plan_id: str
    origin: str
    dag_sha256: str
    revision: int | None
    halted: str | None
    sent: int
    delivered: int
    superseded: int
    duplicate: int
    dead: int


class PlanDocumentsRow(NamedTuple):
    """The documents of a plan."""

    dag: bytes
    pointer: bytes | None
    manifest: bytes | None


class ManifestRow(NamedTuple):
    """The manifest of a plan."""

    manifest: bytes | None


class MessageCountRow(NamedTuple):
    """How many messages there are."""

    messages: int


class MessageStateCountRow(NamedTuple):
    """How many messages are in a state."""

    state: str
    messages: int


class DeadLetterCountRow(NamedTuple):
    """How many dead letters are open."""

    deadletters: int


class MessageTaskRow(NamedTuple):
    """A task as the router knows it."""

    agent_id: str
    state: State
    updated_at: str
    epoch: int
    lease: str | None
    owner: str | None
    delivery: int | None
    attempt: int
    waiting_since: str | None
    missing: bytes | None
    request_id: str | None
    reexecutions: int
    progress: bytes | None


class MessageByIdRow(NamedTuple):
    """A message, found by its id."""

    id: int
    sha256: str
    state: str
    type: str
    task_id: str
    command_id: str | None
    seq: int
    producer: str
    name: str


class MessageRow(NamedTuple):
    """A message with its envelope."""

    message_id: str
    sha256: str
    state: str
    type: str
    task_id: str
    command_id: str | None
    seq: int
    output_name: str | None
    producer: str
    name: str
    envelope: bytes


class FreeIdsRow(NamedTuple):
    """Ids that the next rows get."""

    message: int
    delivery: int
    seq: int


class NewestOrderRow(NamedTuple):
    """The newest command of a task."""

    id: int
    message_id: str
    command_id: str
    seq: int


class EarlierOrderRow(NamedTuple):
    """A command of a task that came before another, with its delivery."""

    id: int
    message_id: str
    command_id: str
    seq: int
    state: str
    delivery: int
    receiver: str
    delivery_state: str
    consumed_at: str | None


class OutputVersionRow(NamedTuple):
    """A version of a known output."""

    message_id: str
    seq: int
    envelope: bytes


class DeliveryUnderWayRow(NamedTuple):
    """A delivery whose files have not reached the inbox, with its message."""

    id: int
    state: str
    message: int
    receiver: str
    delivery_id: str
    message_id: str
    sha256: str
    type: str
    task_id: str
    command_id: str | None
    output_name: str | None
    producer: str
    name: str
    envelope: bytes


class OpenBoxRow(NamedTuple):
    """An inbox with messages that have not ended."""

    receiver: str
    plan_id: str


class DeliveryCountRow(NamedTuple):
    """How many deliveries there are."""

    deliveries: int


class DeliveryRow(NamedTuple):
    """A delivery, with its message."""

    id: int
    state: str
    ack: str | None
    consumed_at: str | None
    shown: str
    message: int
    type: str
    task_id: str
    command_id: str | None
    seq: int


class WithdrawnDeliveryRow(NamedTuple):
    """A delivery that was withdrawn and whose files still lie there."""

    id: int
    plan_id: str
    receiver: str
    shown: str
    message_id: str
    name: str
    sha256: str


class DeliveryIdRow(NamedTuple):
    """The number of a delivery."""

    delivery: int


class DeadLetterRow(NamedTuple):
    """A dead letter."""

    deadletter_id: str
    plan_id: str
    code: str
    reason: str
    agent_id: str
    box: str
    name: str
    message_id: str | None
    sha256: str | None
    original: str | None
    retriable: int
    tries: int
    state: str
    at: str
    id: int


class TriesRow(NamedTuple):
    """How often something was tried."""

    tries: int


class LeavingRow(NamedTuple):
    """A file of an outbox that was taken in and has still to be moved away."""

    id: int
    plan_id: str
    agent_id: str
    name: str
    inode: int
    mtime_ns: int
    target: str
    reason: bytes | None
    payloads: bytes | None


class ControlRow(NamedTuple):
    """A control file that was collected."""

    sha256: str
    body: bytes
    agent_id: str


class PayloadHolderRow(NamedTuple):
    """The delivery that a payload file belongs to."""

    delivery: int
    message_id: str
    name: str
    sha256: str


class TaskStateCountRow(NamedTuple):
    """How many tasks are in a state."""

    state: State
    tasks: int


class ViewBodyRow(NamedTuple):
    """The body of a published file."""

    body: bytes | None


class UnshownViewRow(NamedTuple):
    """A published file that has still to be written."""

    path: str
    body: bytes | None
    content: str | None
    version: int


class ViewRow(NamedTuple):
    """A published file."""

    path: str
    body: bytes | None


class JournalRow(NamedTuple):
    """How far the journal of a plan is written."""

    seq: int
    base: int
    size: int


class PathRow(NamedTuple):
    """A path."""

    path: str


PLANS: Final = Statement("plans", PlanRow)
PLAN: Final = Statement("plan", PlanRow)
PLAN_DOCUMENTS: Final = Statement("plan_documents", PlanDocumentsRow)
PLAN_MANIFEST: Final = Statement("plan_manifest", ManifestRow)
PUT_PLAN: Final = Statement("put_plan", NoRow)
PUT_DOCUMENTS: Final = Statement("put_documents", NoRow)
ADD_PLAN: Final = Statement("add_plan", NoRow)
HALT_PLAN: Final = Statement("halt_plan", PlanIdRow)
TALLY: Final = Statement("tally", NoRow)
IN_FLIGHT: Final = Statement("in_flight", MessageCountRow)
UNBALANCED_PLANS: Final = Statement("unbalanced_plans", PlanIdRow)
COUNTED_MESSAGES: Final = Statement("counted_messages", MessageStateCountRow)
COUNTED_DEADLETTERS: Final = Statement("counted_deadletters", DeadLetterCountRow)
PUT_TASK: Final = Statement("put_task", NoRow)
TASK: Final = Statement("task", MessageTaskRow)
TASKS_OF: Final = Statement("tasks_of", TaskIdRow)
SET_TASK_STATE: Final = Statement("set_task_state", TaskIdRow)
SET_PROGRESS: Final = Statement("set_progress", NoRow)
MESSAGE_BY_ID: Final = Statement("message_by_id", MessageByIdRow)
MESSAGE: Final = Statement("message", MessageRow)
ADD_MESSAGE: Final = Statement("add_message", IdRow)
FREE_MESSAGES: Final = Statement("free_messages", IdRow)
FREE_DELIVERIES: Final = Statement("free_deliveries", IdRow)
FREE_ROWS: Final = Statement("free_rows", FreeIdsRow)
PUT_MESSAGE: Final = Statement("put_message", NoRow)
NEWEST_ORDER: Final = Statement("newest_order", NewestOrderRow)
EARLIER_ORDERS: Final = Statement("earlier_orders", EarlierOrderRow)
NEWEST_VERSIONS: Final = Statement("newest_versions", OutputVersionRow)
SET_MESSAGE_STATE: Final = Statement("set_message_state", IdRow)
ADD_DELIVERY: Final = Statement("add_delivery", IdRow)
DELIVERIES_UNDER_WAY: Final = Statement("deliveries_under_way", DeliveryUnderWayRow)
PLANS_UNDER_WAY: Final = Statement("plans_under_way", PlanIdRow)
OPEN_BOXES: Final = Statement("open_boxes", OpenBoxRow)
MARK_DELIVERED: Final = Statement("mark_delivered", IdRow)
UNDELIVERED_OF: Final = Statement("undelivered_of", DeliveryCountRow)
DELIVERY_OF: Final = Statement("delivery_of", DeliveryRow)
WITHDRAW: Final = Statement("withdraw", IdRow)
WITHDRAWN_DELIVERIES: Final = Statement("withdrawn_deliveries", WithdrawnDeliveryRow)
SET_SHOWN: Final = Statement("set_shown", NoRow)
ACKNOWLEDGE: Final = Statement("acknowledge", IdRow)
RESERVE_PAYLOAD: Final = Statement("reserve_payload", DeliveryIdRow)
FREE_PAYLOADS: Final = Statement("free_payloads", NoRow)
ADD_DEADLETTER: Final = Statement("add_deadletter", IdRow)
DEADLETTERS: Final = Statement("deadletters", DeadLetterRow)
DEADLETTER: Final = Statement("deadletter", DeadLetterRow)
TRY_DEADLETTER: Final = Statement("try_deadletter", TriesRow)
ADD_LEAVING: Final = Statement("add_leaving", NoRow)
LEAVINGS: Final = Statement("leavings", LeavingRow)
LEFT: Final = Statement("left", NoRow)
CONTROL: Final = Statement("control", ControlRow)
PUT_CONTROL: Final = Statement("put_control", NoRow)
ADD_HANDOVER: Final = Statement("add_handover", IdRow)
HANDED_OVER: Final = Statement("handed_over", NoRow)
ORDER_BY_COMMAND: Final = Statement("order_by_command", MessageIdRow)
COUNT_ROUND: Final = Statement("count_round", NoRow)
HOLDER_OF: Final = Statement("holder_of", PayloadHolderRow)
COUNTED_TASKS: Final = Statement("counted_tasks", TaskStateCountRow)
SHOW_VIEW: Final = Statement("show_view", NoRow)
SHOW_VIEWS: Final = Statement("show_views", NoRow)
VIEW_EXISTS: Final = Statement("view_exists", FoundRow)
VIEW_BODY: Final = Statement("view_body", ViewBodyRow)
UNSHOWN_VIEWS: Final = Statement("unshown_views", UnshownViewRow)
VIEW_SHOWN: Final = Statement("view_shown", NoRow)
UNSHOW_VIEWS: Final = Statement("unshow_views", NoRow)
VIEWS_UNDER: Final = Statement("views_under", ViewRow)
JOURNAL_STATE: Final = Statement("journal_state", JournalRow)
JOURNAL_GROWN: Final = Statement("journal_grown", NoRow)
JOURNAL_WRITTEN: Final = Statement("journal_written", NoRow)
JOURNAL_DUE: Final = Statement("journal_due", NoRow)
UNWRITTEN_JOURNALS: Final = Statement("unwritten_journals", PlanIdRow)
UNSHOW_VIEW: Final = Statement("unshow_view", PathRow)
