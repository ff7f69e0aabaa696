"""Putting a command into its envelope."""

from __future__ import annotations

from datetime import datetime

from agenttalk.contracts.base import AgentId, MessageId
from agenttalk.contracts.command import Command
from agenttalk.contracts.envelope import CommandEnvelope, CommandPayload


def wrap(command: Command, *, producer: AgentId, message_id: MessageId, now: datetime) -> CommandEnvelope:
    """The envelope that carries a command; its ids are the command's."""
    return CommandEnvelope(
        schema_version="1.0",
        message_id=message_id,
        plan_id=command.plan_id,
        producer_agent_id=producer,
        type="command",
        created_at=now,
        task_id=command.task_id,
        command_id=command.command_id,
        idempotency_key=command.idempotency_key,
        payload=CommandPayload(command=command),
    )
