"""Refusals of agents that work in folders: an order to make something again, or a validator's result.

The router checks the sender and stores the refusal; the party that runs the plan orders the rework.
"""

from __future__ import annotations

import json
from typing import Any

from agenttalk.contracts.command import ReexecuteRequest, Reexecution
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import Code
from agenttalk.contracts.validation import ArtifactValidationResult
from agenttalk.engine.core import plan_settings, records
from agenttalk.engine.messages.plan_registry import RoutedPlan
from agenttalk.ports.statements.messages import DELIVERY_OF
from agenttalk.ports.statements.plans import ADD_REFUSAL, ENGINE_TASK, OUTPUTS_IN_FORCE, RUN_STATE
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages import routes
from agenttalk.rules.messages.routes import RESERVED, OutboxMessage, Rejection


def find_refusal(parcel: OutboxMessage) -> Reexecution | None:
    """Find the refusal in a command of an agent; None if it is not one."""
    if not isinstance(parcel.envelope, CommandEnvelope) or parcel.owner in RESERVED:
        return None
    command = parcel.envelope.payload.command
    return _with_prompt(command.reexecute, command.prompt) if command.reexecute is not None else None


def reexecution_from_request(request: ReexecuteRequest) -> Reexecution:
    """Convert a request for re-execution to the form of commands."""
    said = Reexecution(
        original_task_id=request.original_task_id,
        original_agent=request.original_agent,
        attempt=1,
        validation_result=request.validation_result,
    )
    return _with_prompt(said, request.prompt)


def _with_prompt(said: Reexecution, prompt: str | None) -> Reexecution:
    """Add the sender's prompt to the result of a refusal: it is the sender's text, not an instruction of the engine."""
    result = said.validation_result
    if prompt is None or result.prompt is not None:
        return said
    return said.model_copy(update={"validation_result": result.model_copy(update={"prompt": prompt})})


def reexecution_from_result(result: ArtifactValidationResult) -> Reexecution:
    """Convert a validator's refusal to the form of commands."""
    reason = result.issues[0].description if result.issues else "it is not good enough"
    subject = result.subject
    return Reexecution.model_validate(
        {
            "original_task_id": subject.task_id,
            "original_agent": subject.producer_agent_id,
            "attempt": 1,
            "validation_result": {
                "validator": result.validator_agent_id,
                "score": result.score or 0,
                "reason": reason,
                "issues": [issue.as_json() for issue in result.issues],
            },
        }
    )


def accept_refusal(
    tx: Tx, plan: RoutedPlan, sender: str, said: Reexecution, *, at: str, sha256: str | None = None
) -> Rejection | None:
    """Keep a refusal in a plan that the engine runs; or why it does not count. `sha256` is what it is about."""
    node = plan.facts.nodes.get(said.original_task_id) if plan.facts else None
    rows = tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=said.original_task_id)
    if plan.facts is None or node is None or not rows:
        return Rejection(Code.TASK_NOT_IN_DAG, f"the plan's DAG has no task {said.original_task_id!r}")
    refused = routes.reject_reexecution(sender, node, rows[0].agent_id, said, plan.facts)
    if refused is not None:
        return refused
    if sender in plan_settings.driven_agents(tx, plan.plan_id):
        return Rejection(Code.COMMAND_NOT_AUTHORISED, f"{sender!r} is asked what it thinks before it uses something")
    if rows[0].state != "COMPLETED" or tx.run(RUN_STATE, plan_id=plan.plan_id) == [("ENDED",)]:
        return Rejection(Code.ILLEGAL_TRANSITION, f"{node.task_id!r} has made nothing that could be refused now")
    hashes = _read_received_hashes(tx, plan.plan_id, node.task_id, sender)
    if not hashes or (sha256 is not None and sha256 not in hashes):
        return Rejection(Code.COMMAND_NOT_AUTHORISED, f"{sender!r} has not received what it refuses")
    refusal_id = records.derive_id("refusal", f"{plan.plan_id}/{node.task_id}/{sender}/{at}")
    body = wire.write(said.as_json())
    tx.run(
        ADD_REFUSAL,
        plan_id=plan.plan_id,
        refusal_id=refusal_id,
        task_id=node.task_id,
        agent_id=sender,
        body=body,
        at=at,
    )
    told = {"by": sender, "reason": said.validation_result.reason}
    tx.record("refusal.accepted", f"{plan.plan_id}/{node.task_id}", told)
    return None


def _read_received_hashes(tx: Tx, plan_id: str, task_id: str, receiver: str) -> set[str]:
    """Return the hashes of current files that an agent has in its inbox, or took from there."""
    found: set[str] = set()
    for row in tx.run(OUTPUTS_IN_FORCE, plan_id=plan_id, task_id=task_id, gateway=root_layout.GATEWAY):
        states = {
            each.state for each in tx.run(DELIVERY_OF, plan_id=plan_id, message_id=row.message_id, receiver=receiver)
        }
        if states & {"delivered", "claimed", "processed"}:
            found |= {file["sha256"] for file in _files(row.envelope)}
    return found


def _files(envelope: bytes) -> list[JsonObject]:
    payload: Any = json.loads(envelope)["payload"]
    return list(payload["files"])
