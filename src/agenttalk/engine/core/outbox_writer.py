"""Writes the engine's messages into an agent's outbox: rows first, files afterwards, each exactly once."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple, Protocol

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.core.base import parse_instant, write_time
from agenttalk.contracts.errors import InputError, MissingError
from agenttalk.contracts.record import Ack, TaskStateReport
from agenttalk.engine.core import records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.ports.statements.inbox import DROP_HANDOVER, HANDOVERS_IN, HandoverRow
from agenttalk.ports.statements.messages import ADD_HANDOVER, HANDED_OVER, MESSAGE_BY_ID
from agenttalk.ports.storage import Tx

_AT_ONCE: Final = 200


class Sender(Protocol):
    """The owner of the outbox."""

    @property
    def agent_id(self) -> str:
        """The agent."""

    @property
    def plan_id(self) -> str:
        """The plan."""


def queue_control_file(tx: Tx, seat: Sender, name: str, data: bytes) -> None:
    """Queue a control file for the outbox. It replaces one of that name that was not written yet."""
    tx.run(DROP_HANDOVER, plan_id=seat.plan_id, agent_id=seat.agent_id, name=name)
    queue_content(tx, seat, name, records.store_content(tx, data))


def queue_content(tx: Tx, seat: Sender, name: str, content: str, message_id: str | None = None) -> None:
    """Queue a content for the outbox. The files of a message come before its envelope."""
    tx.run(
        ADD_HANDOVER,
        plan_id=seat.plan_id,
        agent_id=seat.agent_id,
        name=name,
        content=content,
        message_id=message_id,
    )


class ReceiptSubject(NamedTuple):
    """A message as its receipt names it, with its task and its command."""

    message_id: str
    task_id: str | None
    command_id: str | None
    command_seq: int | None

    def as_json(self) -> dict[str, object]:
        """Return the fields that have a value."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def acknowledge(tx: Tx, seat: Sender, subject: ReceiptSubject, status: str, *, consumed_at: str, **more: Any) -> Ack:
    """Queue a receipt, and return it."""
    ack = Ack.from_json(
        {
            **subject.as_json(),
            "plan_id": seat.plan_id,
            "consumer_agent_id": seat.agent_id,
            "status": status,
            "consumed_at": consumed_at,
            **more,
        }
    )
    queue_control_file(tx, seat, root_layout.ack_name(ack.message_id), ack.to_bytes() + b"\n")
    return ack


def report_state(tx: Tx, seat: Sender, task_id: str, state: str, *, at: str, **more: Any) -> None:
    """Queue the state of a task."""
    report = TaskStateReport.from_json(
        {
            "plan_id": seat.plan_id,
            "task_id": task_id,
            "agent_id": seat.agent_id,
            "state": state,
            "updated_at": write_time(parse_instant(at)),
            **more,
        }
    )
    queue_control_file(tx, seat, f"task_state_{task_id}.json", report.to_bytes() + b"\n")


async def write_queued_files(seat: AgentInPlan) -> int:
    """Write everything that is queued into the outbox, in order. Return the number of files.

    A file that got there before, whose row was left by a crash, is recognised by the message in the store or
    by the file in `.sent`, and not written again.
    """
    done = 0
    while rows := await seat.store.read(HANDOVERS_IN, agent_id=seat.agent_id, plan_id=seat.plan_id, limit=_AT_ONCE):
        for row in rows:
            if not await _arrived(seat, row):
                data = await seat.blobs.get(row.content)
                await asyncio.to_thread(_write, seat, row.name, data)
        ids = [row.id for row in rows]
        await seat.store.transact(lambda tx, ids=ids: [tx.run(HANDED_OVER, id=each) for each in ids])  # type: ignore[misc]
        done += len(rows)
    return done


async def _arrived(seat: AgentInPlan, row: HandoverRow) -> bool:
    if row.message_id is not None:
        known = await seat.store.read(MESSAGE_BY_ID, plan_id=seat.plan_id, message_id=row.message_id)
        if known and (known[0].sha256 == row.content or not row.name.endswith(root_layout.MESSAGE)):
            return True
    return await asyncio.to_thread(_sent, seat, row.name, row.content)


def _sent(seat: AgentInPlan, name: str, content: str) -> bool:
    try:
        found = seat.root.digest(f"{seat.outbox}/{root_layout.SENT}/{name}", seat.deps.limits.payload_bytes)
    except (MissingError, InputError):
        return False
    return found.sha256 == content


def _write(seat: AgentInPlan, name: str, data: bytes) -> None:
    seat.root.write(f"{seat.outbox}/{name}", data, parents=True)
