"""What the ledger and the receipt say of a turn that has ended."""

from __future__ import annotations

import logging
from typing import Any, Final

from agenttalk.contracts import wire
from agenttalk.contracts.command import Command
from agenttalk.engine import gating
from agenttalk.engine.granting import Granted
from agenttalk.engine.moves import Moves
from agenttalk.engine.worth import NO_CLAIMS, Outcome
from agenttalk.errors import Code
from agenttalk.ports import Performance, Proof
from agenttalk.rules import lifecycle, results
from agenttalk.rules.done import Verdict
from agenttalk.rules.evidence import Claims
from agenttalk.rules.results import Fault, Result

LOG = logging.getLogger(__name__)
_SHOWN: Final = 16 * 1024
"""Up to this size a result stands in the ledger itself."""


def told(granted: Granted, performance: Performance, outcome: Outcome, proof: Proof) -> dict[str, Any]:
    """The fact of a turn."""
    job = granted.job
    body: dict[str, Any] = {
        "message_id": granted.message_id,
        "before": granted.fact,
        "lease": job.lease,
        "epoch": job.epoch,
        "attempt": job.attempt,
        "command_id": job.command.command_id,
        "how": performance.how,
        "cause": outcome.cause,
        "usage": {"duration_s": round(performance.seconds, 3), **performance.usage},
    }
    if performance.sandbox:
        body["sandbox"] = performance.sandbox
    if outcome.gates:
        body["gates"] = gating.told(outcome.gates)
        if job.command.promise is not None:
            body["promise_id"] = job.command.promise.id
    if outcome.reason:
        body["reason"] = outcome.reason
    if performance.how == "finished":
        said = wire.write(performance.result)
        body |= {"result": performance.result} if len(said) <= _SHOWN else {"result_sha256": wire.sha256(said)}
        body |= {"score": performance.score, "score_explanation": performance.explanation}
    body |= _proven(proof)
    if outcome.claims != NO_CLAIMS:
        body["claims"] = _claimed(outcome.claims)
    notice = _notice(job.command, performance, outcome)
    if notice is not None:
        LOG.info("%s: %s", job.task_id, notice, extra={"action": "task.notice"})
        body["notice"] = notice
    if outcome.verdict is not None:
        body["verdict"] = {"promise_id": outcome.promise_id, **_verdict(outcome.verdict)}
        body["verdict"] |= {"foreign": list(proof.foreign)} if proof.foreign else {}
    return body


def _proven(proof: Proof) -> dict[str, Any]:
    """What others found out about the work; only what is there."""
    told = {"checks": list(proof.told), "commit": proof.commit, "foreign": list(proof.foreign)}
    return {name: value for name, value in told.items() if value}


def _notice(command: Command, performance: Performance, outcome: Outcome) -> str | None:
    """The text that a command wants to be told when its task has ended, well or not."""
    if command.on_complete is None and command.on_failure is None:
        return None
    state = lifecycle.move("RUNNING", outcome.cause)
    if state == "COMPLETED":
        return results.notice(command, Result(performance.result, performance.score))
    return results.notice(command, Fault(Code.COMMAND_FAILED, outcome.reason or "")) if state == "FAILED" else None


def _claimed(said: Claims) -> list[dict[str, Any]]:
    """Claims for the ledger; those that a check decides about are set aside."""
    return [
        {"id": each.id, "passed": each.passed, "detail": each.detail, "set_aside": aside}
        for aside, group in ((False, said.evidence), (True, said.set_aside))
        for each in group
    ]


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "fulfilled": verdict.fulfilled,
        "missing": list(verdict.missing),
        "blockers": list(verdict.blockers),
        "unverified": list(verdict.unverified),
        "trust": verdict.trust,
    }


def receipt(outcome: Outcome) -> tuple[str, str | None]:
    """How a command ended, and why if it did not end well."""
    if outcome.cause == "FULFILLED":
        return "SUCCEEDED", None
    return "FAILED", (outcome.reason or outcome.cause).replace("\0", "\ufffd")


def ack(moves: Moves, granted: Granted, outcome: Outcome) -> dict[str, Any]:
    """The receipt for a command."""
    command = granted.job.command
    status, details = receipt(outcome)
    return {
        "schema_version": "1.0",
        "plan_id": command.plan_id,
        "message_id": granted.message_id,
        "task_id": command.task_id,
        "command_id": command.command_id,
        "command_seq": command.command_seq,
        "consumer_agent_id": granted.job.agent_id,
        "status": status,
        "consumed_at": granted.consumed_at,
        "finished_at": moves.at,
        "result": {"ok": True} if details is None else {"ok": False, "details": details},
    }
