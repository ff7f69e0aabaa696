"""Statements of an agent's heartbeat."""

from __future__ import annotations

from typing import Final, NamedTuple

from agenttalk.ports.statements.keys import BodyRow, IdRow, PlanIdRow
from agenttalk.ports.statements.statement import NoRow, Statement


class KnownDeliveryRow(NamedTuple):
    """A message, and its delivery to a receiver if there is one."""

    id: int
    sha256: str
    name: str
    delivery: int | None
    state: str | None
    shown: str | None
    ack: str | None


class ClaimedNameRow(NamedTuple):
    """The file of a message in `.pending`."""

    message_id: str
    name: str


class ClaimedMessageRow(NamedTuple):
    """A message whose file lies in `.pending`."""

    id: int
    message_id: str
    sha256: str
    type: str
    task_id: str
    command_id: str | None
    seq: int
    output_name: str
    name: str
    envelope: bytes
    consumed_at: str


class ClaimedOrderRow(NamedTuple):
    """A command that an agent has claimed."""

    id: int
    message_id: str
    task_id: str
    priority: int
    seq: int


class OrderEnvelopeRow(NamedTuple):
    """The envelope of a command, and how far its delivery came."""

    envelope: bytes
    consumed_at: str | None
    state: str


class DeliveryStateRow(NamedTuple):
    """The state of a delivery, and the one that its files show."""

    state: str
    shown: str


class UnclaimedMessageRow(NamedTuple):
    """A message in an inbox that is not claimed."""

    message_id: str
    name: str
    envelope: bytes


class UnsettledDeliveryRow(NamedTuple):
    """A delivery whose files have still to be put away."""

    id: int
    state: str
    message_id: str
    type: str
    task_id: str
    output_name: str | None
    seq: int
    name: str
    envelope: bytes


class InputRow(NamedTuple):
    """A file that an agent has in its workspace."""

    task_id: str
    output_name: str
    path: str
    sha256: str
    seq: int
    message_id: str
    received_at: str
    before_message_id: str | None
    before_sha256: str | None


class OutputInputRow(NamedTuple):
    """A file of a known output in an agent's workspace."""

    path: str
    sha256: str
    seq: int
    message_id: str
    before_message_id: str | None
    before_sha256: str | None


class WaitingSinceRow(NamedTuple):
    """Since when a task waits."""

    waiting_since: str


class HandoverRow(NamedTuple):
    """A file that an outbox has still to get."""

    id: int
    name: str
    content: str
    message_id: str | None


class StagesRow(NamedTuple):
    """When a message was used."""

    injected_at: str | None
    prompt_sha256: str | None
    acted_at: str | None


class AttemptTokenRow(NamedTuple):
    """The row that the token of an attempt is checked against."""

    epoch: int
    token: str | None


PLANS_OF_AGENT: Final = Statement("plans_of_agent", PlanIdRow)
KNOWN_DELIVERY: Final = Statement("known_delivery", KnownDeliveryRow)
ADD_TASK: Final = Statement("add_task", NoRow)
CLAIM_DELIVERY: Final = Statement("claim_delivery", IdRow)
TAKEN_WITHDRAWN: Final = Statement("taken_withdrawn", IdRow)
CLAIMED_NAMES: Final = Statement("claimed_names", ClaimedNameRow)
CLAIMED_MESSAGES: Final = Statement("claimed_messages", ClaimedMessageRow)
CLAIMED_ORDERS: Final = Statement("claimed_orders", ClaimedOrderRow)
ORDER_OF: Final = Statement("order_of", OrderEnvelopeRow)
DELIVERY_STATE: Final = Statement("delivery_state", DeliveryStateRow)
UNCLAIMED_MESSAGES: Final = Statement("unclaimed_messages", UnclaimedMessageRow)
UNSETTLED: Final = Statement("unsettled", UnsettledDeliveryRow)
FINISH_DELIVERY: Final = Statement("finish_delivery", IdRow)
MARK_INJECTED: Final = Statement("mark_injected", NoRow)
MARK_ARTIFACT_INJECTED: Final = Statement("mark_artifact_injected", NoRow)
INPUTS_OF: Final = Statement("inputs_of", InputRow)
INPUTS_OF_OUTPUT: Final = Statement("inputs_of_output", OutputInputRow)
PUT_INPUT: Final = Statement("put_input", NoRow)
RETIRE_INPUT: Final = Statement("retire_input", NoRow)
WAIT_FOR_INPUTS: Final = Statement("wait_for_inputs", WaitingSinceRow)
STOP_WAITING: Final = Statement("stop_waiting", NoRow)
DROP_HANDOVER: Final = Statement("drop_handover", NoRow)
HANDOVERS_IN: Final = Statement("handovers_in", HandoverRow)
STAGES_OF: Final = Statement("stages_of", StagesRow)
ATTEMPT_TOKEN: Final = Statement("attempt_token", AttemptTokenRow)
ENDED_TURNS: Final = Statement("ended_turns", BodyRow)
