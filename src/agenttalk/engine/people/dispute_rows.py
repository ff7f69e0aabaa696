"""Rows of disputed checks, and how an answer settles one."""

from __future__ import annotations

from collections.abc import Sequence

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.ports.statements.proof import ANSWER_DISPUTE, DISPUTE_OF_REQUEST, DISPUTES_OF
from agenttalk.ports.storage import Tx
from agenttalk.rules.proof import disputes
from agenttalk.rules.proof.disputes import Dispute, DisputeOutcome, DisputeView
from agenttalk.rules.text.catalogue import with_messages

RAISED = "check.disputed"
ANSWERED = "dispute.answered"


def list_disputes(tx: Tx, plan_id: str, task_id: str) -> list[Dispute]:
    """List the disputes of a task, the oldest first."""
    return tx.run(DISPUTES_OF, plan_id=plan_id, task_id=task_id)


class OpenDisputeView(DisputeView):
    """A dispute, and what to do about it."""

    moves_on: str


def disputes_to_json(found: Sequence[Dispute], plan_id: str, task_id: str) -> list[OpenDisputeView]:
    """Show disputes to people and programs, each with what to do about it."""
    return [{**each.as_json(), "moves_on": disputes.describe_next_step(each, plan_id, task_id)} for each in found]


def make_issues(tx: Tx, plan_id: str, task_id: str) -> list[JsonObject]:
    """Return what the next command of a task tells its agent about its disputes."""
    return [
        {"severity": "MEDIUM", "category": "dispute", **with_messages({"description": text})}
        for text in disputes.describe_disputes(list_disputes(tx, plan_id, task_id))
    ]


def find_outcome(tx: Tx, response: HumanInterventionResponse, *, by: str) -> tuple[bool, DisputeOutcome | None]:
    """Return whether a question is about a dispute, and how an answer settles it."""
    if not tx.run(DISPUTE_OF_REQUEST, request_id=response.request_id):
        return False, None
    by_engine = response.responder.role == "system" and by == "engine"
    return True, disputes.read_outcome(response.decision, response.decision_answers, by_engine=by_engine)


def settle(tx: Tx, response: HumanInterventionResponse, *, by: str, at: str) -> None:
    """Settle a dispute by an answer. Answers to other questions change nothing."""
    found, result = find_outcome(tx, response, by=by)
    if not found or result is None:
        return
    request_id, note = response.request_id, response.notes
    if tx.run(ANSWER_DISPUTE, request_id=request_id, state=result, by=by, at=at, note=note):
        row = tx.run(DISPUTE_OF_REQUEST, request_id=request_id)[0]
        told = {"check": row.check_id, "agent_id": row.agent_id, "state": result, "by": by, "note": note}
        tx.record(ANSWERED, f"{row.plan_id}/{row.task_id}", {"request_id": request_id, **told})
