"""Recalls commands that a newer one supersedes, or whose DAG is no longer active.

An unclaimed command vanishes from its inbox. One that waits fails, and its receipt says why. One that runs is
cancelled by a newer command; a new DAG lets it end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.core.wire import MAX_INTEGER
from agenttalk.contracts.errors import Code
from agenttalk.engine.core import outbox_writer, records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.records import JournalMessage
from agenttalk.ports.statements.inbox import STOP_WAITING
from agenttalk.ports.statements.messages import (
    EARLIER_ORDERS,
    MESSAGE,
    SET_MESSAGE_STATE,
    SET_TASK_STATE,
    TASK,
    WITHDRAW,
    EarlierOrderRow,
    MessageTaskRow,
)
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages.routes import CommandOrder

_WAITING: Final = frozenset({"BLOCKED_WAITING_INPUT", "BLOCKED_WAITING_HUMAN", "READY", "RUNNING"})
_RUNNING: Final = "RUNNING"


class MessageReceiver(NamedTuple):
    """A receiver of a message."""

    agent_id: str
    plan_id: str


def describe_newer_command(newest: CommandOrder) -> dict[str, Any]:
    """Describe the newer command for the journal."""
    return {
        "superseded_by_message_id": newest.message_id,
        "superseded_by_command_id": newest.command_id,
        "superseded_by_command_seq": newest.seq,
    }


def recall(tx: Tx, newer: CommandOrder, plan_id: str, dag_sha256: str, deps: Deps, at: str) -> None:
    """Withdraw older orders of the task: unclaimed ones vanish, a running one fails and is cancelled."""
    about = {"plan_id": plan_id, "task_id": newer.task_id}
    for row in tx.run(EARLIER_ORDERS, **about, dag_sha256=dag_sha256, seq=newer.seq):
        claimed = row.delivery_state == "claimed"
        why = f"{Code.SUPERSEDED}: superseded by {newer.command_id}"
        said = "recalled while it ran" if claimed else "recalled"
        _withdraw(tx, row, about, deps, at=at, why=why, skip_reason=said, **describe_newer_command(newer))
        tx.record(
            "message.recalled", row.message_id, {"seq": row.seq, "was": row.delivery_state, "by": newer.message_id}
        )


def withdraw_outdated(tx: Tx, plan_id: str, tasks: Iterable[str], *, old: str, new: str, deps: Deps, at: str) -> int:
    """Withdraw the commands of an earlier DAG that do not run; return how many there were."""
    count = 0
    for task_id in tasks:
        about = {"plan_id": plan_id, "task_id": task_id}
        for row in tx.run(EARLIER_ORDERS, **about, dag_sha256=old, seq=MAX_INTEGER):
            task = tx.run(TASK, **about)
            if task and _runs(task[0], row):
                continue
            why = f"{Code.SUPERSEDED}: it was made for the DAG {old[:23]}…, and {new[:23]}… is in force"
            _withdraw(tx, row, about, deps, at=at, why=why, skip_reason="its DAG is not in force any more")
            tx.record(
                "message.outdated", row.message_id, {"seq": row.seq, "was": row.delivery_state, "dag_sha256": old}
            )
            if task and task[0].state in _WAITING:
                tx.run(STOP_WAITING, **about)
                tx.run(SET_TASK_STATE, **about, state="PENDING", at=at)
            count += 1
    return count


def _runs(task: MessageTaskRow, order: EarlierOrderRow) -> bool:
    """Whether a task is being worked on: by a turn of ours, or, as its receipt says, by an agent in a folder."""
    leased = task.lease is not None and task.delivery == order.delivery
    return leased or (order.delivery_state == "claimed" and task.lease is None and task.state == _RUNNING)


def _withdraw(
    tx: Tx, row: EarlierOrderRow, about: dict[str, str], deps: Deps, *, at: str, why: str, **said: Any
) -> None:
    plan_id, task_id = about["plan_id"], about["task_id"]
    claimed = row.delivery_state == "claimed"
    tx.run(WITHDRAW, id=row.delivery, ack="FAILED" if claimed else None, at=at, details=why)
    if claimed:
        named = outbox_writer.ReceiptSubject(row.message_id, task_id, row.command_id, row.seq)
        _fail(tx, MessageReceiver(row.receiver, plan_id), named, row.consumed_at or at, why, at)
    tx.run(SET_MESSAGE_STATE, id=row.id, state="superseded")
    records.count_messages(tx, plan_id, superseded=1, delivered=-1 if row.state == "delivered" else 0)
    [message] = tx.run(MESSAGE, id=row.id)
    letter = JournalMessage(plan_id, row.message_id, message.sha256, message.producer, task_id, row.command_id)
    delivery_id = deps.ids.new("dlv")
    records.write_journal_line(
        tx, letter, "SKIPPED_SUPERSEDED", at=at, delivery_id=delivery_id, to=row.receiver, **said
    )


def _fail(
    tx: Tx, receiver: MessageReceiver, about: outbox_writer.ReceiptSubject, consumed_at: str, why: str, at: str
) -> None:
    """End a claimed command with a receipt of the engine. The receiver later leaves an equal one."""
    times = {"consumed_at": consumed_at, "finished_at": at}
    ack = outbox_writer.acknowledge(tx, receiver, about, "FAILED", **times, result={"ok": False, "details": why})
    records.publish_file(tx, f"plans/{receiver.plan_id}/acks/{root_layout.ack_name(ack.message_id)}", ack.as_json())
