"""Takes back commands of the engine, because the plan, or what they were made for, has changed.

The plan's folder shows that: a line in the journal names the command that took its place, if one did, and a
receipt says that it was not carried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttalk.contracts.command import make_command_id
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import Code
from agenttalk.contracts.record import Ack
from agenttalk.engine.core import records
from agenttalk.ports.statements.messages import SET_MESSAGE_STATE, WITHDRAW
from agenttalk.ports.statements.plans import ORDER_OF_DELIVERY, WITHDRAW_DIRECT
from agenttalk.ports.storage import Tx

if TYPE_CHECKING:
    from agenttalk.engine.plans.definition import PlanDefinition
    from agenttalk.engine.plans.transaction import PlanTransaction


def recall_command(
    moves: PlanTransaction, plan: PlanDefinition, delivery: int | None, why: str, *, newer: int | None = None
) -> None:
    """Take back a command that is not to be carried out any more; one in an inbox vanishes from there.

    `newer` is the number of the command that takes its place, if there is one already.
    """
    if delivery is None:
        return
    tx, plan_id = moves.tx, plan.plan_id
    [order] = tx.run(ORDER_OF_DELIVERY, id=delivery)
    if order.delivery_state not in {"stored", "delivered", "claimed"}:
        return
    details = f"{Code.SUPERSEDED}: {why}"
    profile = plan.profiles.get(order.receiver)
    in_folder = profile is None or profile.driver == "folder"  # who is not in the plan any more may have an inbox
    ack = None if in_folder and order.delivery_state != "claimed" else "FAILED"
    if in_folder:
        tx.run(WITHDRAW, id=delivery, ack=ack, at=moves.now, details=details)
        moves.note_inbox_change()
    else:
        tx.run(WITHDRAW_DIRECT, id=delivery, at=moves.now, details=details)
    tx.run(SET_MESSAGE_STATE, id=order.id, state="superseded")
    records.count_messages(tx, plan_id, superseded=1, delivered=-1 if order.state == "delivered" else 0)
    tx.record("message.recalled", order.message_id, {"seq": order.seq, "was": order.delivery_state, "why": why})
    command = CommandEnvelope.model_validate_json(bytes(order.envelope))
    letter = records.JournalMessage(
        plan_id, order.message_id, order.sha256, command.producer_agent_id, command.task_id, order.command_id
    )
    by: dict[str, object] = {}
    if newer is not None:
        command_of_newer = make_command_id(command.task_id, newer)
        by = {"superseded_by_command_id": command_of_newer, "superseded_by_command_seq": newer}
    records.write_journal_line(
        tx,
        letter,
        "SKIPPED_SUPERSEDED",
        at=moves.now,
        delivery_id=moves.deps.ids.new("dlv"),
        to=order.receiver,
        skip_reason=why,
        **by,
    )
    if ack is not None:
        _acknowledge(tx, command, order.receiver, order.seq, details, moves.now)


def _acknowledge(tx: Tx, command: CommandEnvelope, receiver: str, seq: int, details: str, at: str) -> None:
    """Write the receipt of a command that the engine took back: its agent does not leave one."""
    said = {
        "schema_version": "1.0",
        "plan_id": command.plan_id,
        "message_id": command.message_id,
        "task_id": command.task_id,
        "command_id": command.command_id,
        "command_seq": seq,
        "consumer_agent_id": receiver,
        "status": "FAILED",
        "consumed_at": records.format_time(at),
        "finished_at": records.format_time(at),
        "result": {"ok": False, "details": details},
    }
    ack = Ack.from_json(said)
    records.publish_file(tx, f"plans/{command.plan_id}/acks/{root_layout.ack_name(command.message_id)}", ack.as_json())
