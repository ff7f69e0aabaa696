"""What checkpoints held against tasks: warnings, denials, and who has overridden them and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttalk.contracts.core import wire
from agenttalk.ports.statements.budgets import OBJECTIONS_TO, OVERRIDE, PUT_OBJECTION, ObjectionRow

if TYPE_CHECKING:
    from agenttalk.ports import Tx
    from agenttalk.rules.proof.checkpoints import CheckpointDecision


def record_denial(tx: Tx, plan_id: str, task_id: str, decision: CheckpointDecision, at: str) -> None:
    """Keep what a checkpoint held against a task; the same again is the same."""
    reasons = wire.write(list(decision.reasons))
    tx.run(
        PUT_OBJECTION,
        plan_id=plan_id,
        task_id=task_id,
        checkpoint=decision.checkpoint,
        digest=wire.sha256(reasons),
        severity=decision.severity,
        reasons=reasons,
        trace_id=decision.trace_id,
        at=at,
    )


def list_overridden_reasons(tx: Tx, plan_id: str, task_id: str, checkpoint: str) -> frozenset[str]:
    """Reasons of a checkpoint that an operator has overridden for a task, word by word."""
    found = [to_json(row) for row in tx.run(OBJECTIONS_TO, plan_id=plan_id, task_id=task_id)]
    return frozenset(
        reason
        for each in found
        if each["checkpoint"] == checkpoint and "overridden_by" in each
        for reason in each["reasons"]
    )


def find_active_denial(rows: list[ObjectionRow]) -> dict[str, Any] | None:
    """The denial that holds a task up: the last that is not overridden."""
    found = [to_json(row) for row in rows if row.severity == "soft-deny" and row.overridden_by is None]
    return found[-1] if found else None


def override(tx: Tx, plan_id: str, task_id: str, *, by: str, why: str) -> bool:
    """Record that an operator overrides the denial that holds a task up; False when there is none."""
    denial = find_active_denial(tx.run(OBJECTIONS_TO, plan_id=plan_id, task_id=task_id))
    if denial is None:
        return False
    digest = wire.sha256(wire.write(denial["reasons"]))
    about = {"plan_id": plan_id, "task_id": task_id, "checkpoint": denial["checkpoint"], "digest": digest}
    tx.run(OVERRIDE, **about, by=by, why=why)
    told = {name: denial[name] for name in ("checkpoint", "severity", "reasons", "trace_id")}
    tx.record("gate.overridden", f"{plan_id}/{task_id}", {"by": by, "why": why, **told})
    return True


def to_json(row: ObjectionRow) -> dict[str, Any]:
    """One of them, for people and programs."""
    told = {
        "task_id": row.task_id,
        "checkpoint": row.checkpoint,
        "allowed": row.severity == "warning" or row.overridden_by is not None,
        "severity": row.severity,
        "reasons": wire.read(bytes(row.reasons)),
        "trace_id": row.trace_id,
        "at": row.at,
    }
    return told if row.overridden_by is None else {**told, "overridden_by": row.overridden_by, "why": row.why}
