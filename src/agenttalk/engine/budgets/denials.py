"""Objections of checkpoints to tasks: warnings and denials, and who overrode them and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.ports.statements.budgets import OBJECTIONS_TO, OVERRIDE, PUT_OBJECTION, ObjectionRow
from agenttalk.rules.text.catalogue import restore_messages, with_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttalk.ports.storage import Tx
    from agenttalk.rules.proof.checkpoints import CheckpointDecision


def record_denial(tx: Tx, plan_id: str, task_id: str, decision: CheckpointDecision, at: str) -> None:
    """Record the objection of a checkpoint to a task. Recording the same again changes nothing."""
    tx.run(
        PUT_OBJECTION,
        plan_id=plan_id,
        task_id=task_id,
        checkpoint=decision.checkpoint,
        digest=_hash_reasons(decision.reasons),
        severity=decision.severity,
        reasons=wire.write(with_messages({"reasons": decision.reasons})),
        trace_id=decision.trace_id,
        at=at,
    )


def _hash_reasons(reasons: Sequence[str]) -> str:
    """Return what a denial is known by: the words of its reasons."""
    return wire.sha256(wire.write([str(reason) for reason in reasons]))


def list_overridden_reasons(tx: Tx, plan_id: str, task_id: str, checkpoint: str) -> frozenset[str]:
    """Return the reasons of a checkpoint that an operator has overridden for a task, word by word."""
    found = [to_json(row) for row in tx.run(OBJECTIONS_TO, plan_id=plan_id, task_id=task_id)]
    return frozenset(
        reason
        for each in found
        if each["checkpoint"] == checkpoint and "overridden_by" in each
        for reason in each["reasons"]
    )


def find_active_denial(rows: list[ObjectionRow]) -> GateDenial | None:
    """Return the denial that holds a task up: the last one that was not overridden."""
    found = [to_json(row) for row in rows if row.severity == "soft-deny" and row.overridden_by is None]
    return found[-1] if found else None


def override(tx: Tx, plan_id: str, task_id: str, *, by: str, why: str) -> bool:
    """Record that an operator overrides the denial that holds a task up; False when there is none."""
    denial = find_active_denial(tx.run(OBJECTIONS_TO, plan_id=plan_id, task_id=task_id))
    if denial is None:
        return False
    digest = _hash_reasons(denial["reasons"])
    about = {"plan_id": plan_id, "task_id": task_id, "checkpoint": denial["checkpoint"], "digest": digest}
    tx.run(OVERRIDE, **about, by=by, why=why)
    told = {name: denial[name] for name in ("checkpoint", "severity", "reasons", "trace_id")}
    tx.record("gate.overridden", f"{plan_id}/{task_id}", {"by": by, "why": why, **with_messages(told)})
    return True


class GateDenial(TypedDict):
    """An objection of a checkpoint to a task."""

    task_id: str
    checkpoint: str
    allowed: bool
    severity: str
    reasons: list[str]
    trace_id: str | None
    at: str
    overridden_by: NotRequired[str]
    why: NotRequired[str | None]


def to_json(row: ObjectionRow) -> GateDenial:
    """Return a denial as JSON has it."""
    body: Any = restore_messages(wire.read(bytes(row.reasons)))
    denial: GateDenial = {
        "task_id": row.task_id,
        "checkpoint": row.checkpoint,
        "allowed": row.severity == "warning" or row.overridden_by is not None,
        "severity": row.severity,
        "reasons": body["reasons"],
        "trace_id": row.trace_id,
        "at": row.at,
    }
    if row.overridden_by is not None:
        denial |= {"overridden_by": row.overridden_by, "why": row.why}
    return denial
