"""The rounds of a task: who refused its work, why, and how each round ended. They are facts, and kept for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.dag import Node
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.ports.statements.core import FACTS_OF, LATEST_FACT, FactOfSubjectRow
from agenttalk.ports.storage import Tx
from agenttalk.rules.proof.rework import IssueRecord, RoundHistory

ORDERED: Final = "rework.ordered"
EXHAUSTED: Final = "rework.exhausted"
GRANTED: Final = "rework.granted"
ACCEPTED: Final = "rework.accepted"
ABORTED: Final = "rework.aborted"
ALL: Final = 1_000
"""The most facts that are read of a task. People grant rounds, so there are few."""


class FileRecord(TypedDict):
    """A file of a version, as commands and facts write it."""

    output_name: str
    path: str
    sha256: str
    size_bytes: int | None


FileRecords = list[FileRecord]


class ReworkFact(TypedDict, total=False):
    """A fact about a task's rework: a round that was ordered or granted, the end of all rounds, an acceptance."""

    round: int
    """Its number; 0 where it does not count."""
    by: str
    consumer: str | None
    """The task that refused the work; null where the engine did."""
    by_model: str
    command_id: str
    attempt: int
    fingerprint: list[str]
    decision: str
    score: float
    reason: str
    reason_message: Any
    issues: list[IssueRecord]
    expectations: Any
    prompt: str
    unusable: int
    files: FileRecords
    maker: str
    made_in: int | None
    """The fact of the turn that made the work."""
    made_score: float | None
    breach: list[str]
    left: str
    """The commit with what the last turn left."""
    refused: str
    evidence: list[JsonObject]
    stuck: bool
    shown: str
    """The hash of what a person was shown."""
    rounds: int
    most: int
    """How many rounds the task may have from now on."""
    verdict: JsonObject


class ReexecutionOrder(TypedDict):
    """The part of a command that says what was refused and why, as the command has it."""

    original_task_id: str
    original_agent: str
    attempt: int
    validation_result: JsonObject
    validated_at: str
    previous: FileRecords


class Round(NamedTuple):
    """One event of a task's rework."""

    at: str
    kind: str
    body: ReworkFact


def ledger_subject(plan_id: str, task_id: str) -> str:
    """Return the subject of a task's rounds in the ledger."""
    return f"rework/{plan_id}/{task_id}"


def read_history(tx: Tx, plan_id: str, task_id: str) -> list[Round]:
    """Read all rounds of a task, the oldest first."""
    return read_rounds(tx.run(FACTS_OF, subject=ledger_subject(plan_id, task_id), after=0, limit=ALL))


def read_rounds(rows: Sequence[FactOfSubjectRow]) -> list[Round]:
    """Read rounds from rows of `facts_of`."""
    return [Round(at, kind, _body(body)) for _, at, kind, body in rows]


def find_latest(tx: Tx, plan_id: str, task_id: str, kind: str) -> ReworkFact | None:
    """Find the last event of a kind."""
    rows = tx.run(LATEST_FACT, subject=ledger_subject(plan_id, task_id), kind=kind)
    return _body(rows[0].body) if rows else None


def _body(data: Any) -> ReworkFact:
    body: Any = wire.read(bytes(data), limit=wire.DOCUMENT_LIMIT)
    return body  # type: ignore[no-any-return]


def planned_rounds(plan: PlanDefinition, node: Node) -> int:
    """Return how many rounds of rework the plan gives a task."""
    own = node.failure_policy.max_reexecute_times if node.failure_policy else None
    return own if own is not None else plan.policies.max_reexecute_times


def allowed_rounds(tx: Tx, plan: PlanDefinition, node: Node) -> int:
    """Return how many rounds a task has, with those that a person granted."""
    said = planned_rounds(plan, node)
    granted = find_latest(tx, plan.plan_id, node.task_id, GRANTED)
    return max(said, granted["most"]) if granted else said


def read_round_history(
    tx: Tx, plan: PlanDefinition, node: Node, *, used: int, consumer: str | None = None
) -> RoundHistory:
    """Read the rounds of a task that count: not those before a person granted more.

    `consumer` is the task that refuses its work now, None the engine.
    """
    counted = list_counted_rounds(tx, plan.plan_id, node.task_id, used)
    issue_sets = tuple(tuple(body["fingerprint"]) for body in counted if body.get("consumer") == consumer)
    return RoundHistory(used, allowed_rounds(tx, plan, node), issue_sets)


def list_counted_rounds(tx: Tx, plan_id: str, task_id: str, used: int) -> list[ReworkFact]:
    """List the rounds that count: the last `used` ones since a person granted more."""
    if not used:
        return []
    rounds = read_history(tx, plan_id, task_id)
    since = max((number for number, each in enumerate(rounds) if each.kind == GRANTED), default=-1)
    ordered = [each.body for each in rounds[since + 1 :] if each.kind == ORDERED and each.body.get("round")]
    return ordered[-used:]


def rounds_to_json(told: Sequence[Round], issues: int) -> list[dict[str, object]]:
    """Show rounds to people, each with so many issues."""
    found = []
    for each in told:
        hidden = {"evidence", "verdict", "made_in"}
        body: dict[str, object] = {key: value for key, value in each.body.items() if key not in hidden}
        refused = each.body.get("issues", [])
        if len(refused) > issues:
            body |= {"issues": refused[:issues], "more_issues": len(refused) - issues}
        found.append({"at": each.at, "what": each.kind.removeprefix("rework."), **body})
    return found
