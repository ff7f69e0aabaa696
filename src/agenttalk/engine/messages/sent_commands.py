"""Commands that do not come out of an outbox: an operator's, and the record of every one that was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import AgentId, MessageId
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core.boards import SYSTEM
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import IdempotentRequest
from agenttalk.engine.messages import admission, delivery, published_files
from agenttalk.engine.messages.admission import AdmissionOutcome
from agenttalk.engine.messages.incoming_file import IncomingFile
from agenttalk.engine.messages.outbox_reader import OutboxFile
from agenttalk.engine.messages.plan_registry import PlanRegistry, RoutedPlan
from agenttalk.ports.folders import FolderEntry
from agenttalk.ports.storage import Tx
from agenttalk.rules.commands import envelopes
from agenttalk.rules.messages.routes import OutboxMessage, Rejection

OPERATOR: Final = "operator"
CommandLogKind = Literal["generated", "validated"]
_MOST: Final = 100
_LONGEST: Final = 300


class SentCommandReceipt(TypedDict):
    """The outcome of a command that was sent in the operator's name."""

    message_id: str
    command_id: str
    fate: AdmissionOutcome


class CommandSummary(TypedDict):
    """The outcome of a command for the ledger."""

    ok: bool
    repairs: list[dict[str, str]]
    errors: list[dict[str, str]]


async def send_command(deps: Deps, command: Command, *, key: str | None = None) -> SentCommandReceipt:
    """Send a command in the operator's name, as it stands. The same command under the same key is sent once.

    Raises UsageError when it may not be delivered, and ConflictError when the key was used for another.
    """
    plan = await _plan(deps, command.plan_id)
    message_id = deps.ids.new("msg")
    envelope = envelopes.wrap(command, producer=AgentId(OPERATOR), message_id=MessageId(message_id), now=deps.now())
    data = envelope.to_bytes()
    nowhere = FolderEntry(envelope.file_name, "regular", len(data), 0, 0, 1)
    parcel = OutboxMessage(OPERATOR, envelope, wire.sha256(data))
    arrival = IncomingFile(OutboxFile(OPERATOR, plan.plan_id, nowhere, None), data, parcel, original=data)
    once = IdempotentRequest(plan.plan_id, OPERATOR, f"send/{key}", command.as_json(), deps.stamp())

    def work(tx: Tx) -> SentCommandReceipt:
        def taken() -> SentCommandReceipt:
            fate = _take_in(tx, arrival, plan, deps)
            return {"message_id": message_id, "command_id": command.command_id, "fate": fate}

        return taken() if key is None else once.run_once(tx, taken)

    sent = await plan.board.transact(work)
    await delivery.deliver(deps, plan.board, plan.plan_id)
    await published_files.publish(deps, plan.board)
    return sent


def _take_in(tx: Tx, arrival: IncomingFile, plan: RoutedPlan, deps: Deps) -> AdmissionOutcome:
    verdict = admission.judge_message(tx, arrival, plan)
    if isinstance(verdict, Rejection):
        raise UsageError(verdict.code, verdict.message, hint="correct the command and send it again")
    return admission.admit_message(tx, arrival, plan, deps, deps.stamp())


async def _plan(deps: Deps, plan_id: str) -> RoutedPlan:
    plan = await PlanRegistry(deps).read_plan(plan_id)
    if plan is None:
        raise UsageError(Code.NAME_UNKNOWN, f"there is no plan {plan_id!r}", hint="'agenttalk status' lists all")
    if plan.halted is not None:
        raise UsageError(Code.ACTIVE_DAG_REF_MISMATCH, plan.halted, hint="repair the plan's files first")
    return plan


async def log_command(deps: Deps, what: CommandLogKind, subject: str, outcome: Mapping[str, Any]) -> None:
    """Record that a command was made, repaired, checked or refused: which fields, never their values."""
    body = summarize_outcome(outcome)
    kind = f"command.{what}" if body["ok"] else "command.refused"
    system = await deps.stores.board(SYSTEM)
    await system.transact(lambda tx: tx.record(kind, _cut(subject), dict(body)))


def summarize_outcome(outcome: Mapping[str, Any]) -> CommandSummary:
    """Summarize the outcome of a command for the ledger: the fields and reasons, up to a limit."""
    return {
        "ok": bool(outcome.get("ok")),
        "repairs": [_summarize_field(each, "why") for each in outcome.get("repairs", ())[:_MOST]],
        "errors": [_summarize_field(each, "code") for each in outcome.get("errors", ())[:_MOST]],
    }


def _summarize_field(each: Mapping[str, Any], reason: str) -> dict[str, str]:
    return {"field": _cut(each.get("field")), reason: _cut(each.get(reason))}


def _cut(text: object) -> str:
    # Typed text may hold lone surrogates, which JSON in UTF-8 cannot.
    return str(text or "")[:_LONGEST].encode("utf-8", "backslashreplace").decode()
