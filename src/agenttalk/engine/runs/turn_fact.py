"""Renders the end of a turn for the ledger and for the receipt."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.runs import checkpoints
from agenttalk.rules.agents import results
from agenttalk.rules.agents.results import AgentResult, TurnFault
from agenttalk.rules.proof import turn_outcome
from agenttalk.rules.proof.done import Verdict
from agenttalk.rules.proof.evidence import Claims
from agenttalk.rules.proof.performance import NO_PROOF, Performance, WorkProof
from agenttalk.rules.proof.turn_outcome import NO_CLAIMS, TurnOutcome
from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.catalogue import with_messages

LOG = logging.getLogger(__name__)
_SHOWN: Final = 16 * 1024
"""Up to this size a result stands in the ledger itself."""


def render_fact(
    moves: PlanTransaction,
    granted: LeasedAttempt,
    performance: Performance,
    outcome: TurnOutcome,
    proof: WorkProof,
    lines: Sequence[str],
) -> bytes:
    """Render the fact of a turn that ended as canonical JSON. `lines` are those of the journal, rendered already."""
    if _is_plain(granted, performance, outcome, proof):
        return _plain(moves, granted, performance, outcome, lines)
    texts = {name: wire.to_text(value) for name, value in _fact_to_json(granted, performance, outcome, proof).items()}
    texts |= {"state": wire.to_text(outcome.state), "lines": f"[{','.join(lines)}]"}
    texts |= {} if outcome.again else {"ack": _ack(moves, granted, outcome)}
    return wire.encode(wire.object_of(texts))


def _is_plain(granted: LeasedAttempt, performance: Performance, outcome: TurnOutcome, proof: WorkProof) -> bool:
    """Whether the fact of a turn consists of its result and its verdict alone."""
    command = granted.job.command
    return (
        performance.how == "finished"
        and outcome.verdict is not None
        and not (outcome.again or outcome.gates or outcome.reason or performance.usage)
        and proof is NO_PROOF
        and outcome.claims is NO_CLAIMS
        and command.on_complete is None
        and command.on_failure is None
    )


def _plain(
    moves: PlanTransaction,
    granted: LeasedAttempt,
    performance: Performance,
    outcome: TurnOutcome,
    lines: Sequence[str],
) -> bytes:
    """Render the fact of a plain turn: the same text as `_fact_to_json` would give, only quicker."""
    job, result, explanation = granted.job, performance.result, performance.explanation
    said = wire.quoted(result) if type(result) is str else wire.to_text(result)
    if len(said) > _SHOWN // 4 and len(data := wire.encode(said)) > _SHOWN:
        shown = f'"result_sha256":"{wire.sha256(data)}"'
    else:
        shown = f'"result":{said}'
    scored = "null" if performance.score is None else wire.to_text(performance.score)
    explained = "null" if explanation is None else wire.to_text(explanation)
    tier = f'"sandbox":"{performance.sandbox}",' if performance.sandbox else ""
    fact_before = "null" if granted.fact is None else str(granted.fact)
    before, after = _verdict_text(outcome.verdict)
    return wire.encode(
        f'{{"ack":{_ack(moves, granted, outcome)},"attempt":{job.attempt},"before":{fact_before},'
        f'"cause":"{outcome.cause}","command_id":"{job.command.command_id}","epoch":{job.epoch},'
        f'"how":"finished","lease":"{job.lease}","lines":[{",".join(lines)}],'
        f'"message_id":"{granted.message_id}",{shown},{tier}"score":{scored},'
        f'"score_explanation":{explained},"state":"{outcome.state}",'
        f'"usage":{{"duration_s":{round(performance.seconds, 3)!r}}},'
        f'"verdict":{before}"promise_id":{wire.to_text(outcome.promise_id)}{after}}}'
    )


@lru_cache(maxsize=256)
def _verdict_text(verdict: Verdict) -> tuple[str, str]:
    """Render a verdict: the fields that stand before the id of its promise, and those after it."""
    said = {name: wire.to_text(value) for name, value in _verdict_to_json(verdict).items()}
    before = "".join([f"{wire.quoted(name)}:{said[name]}," for name in sorted(said) if name < "promise_id"])
    after = "".join([f",{wire.quoted(name)}:{said[name]}" for name in sorted(said) if name > "promise_id"])
    return f"{{{before}", f"{after}}}"


def _fact_to_json(
    granted: LeasedAttempt, performance: Performance, outcome: TurnOutcome, proof: WorkProof
) -> dict[str, object]:
    """Build the fact of a turn."""
    job = granted.job
    body: dict[str, object] = {
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
        body["gates"] = checkpoints.decisions_to_json(outcome.gates)
        if job.command.promise is not None:
            body["promise_id"] = job.command.promise.id
    if outcome.reason:
        body |= with_messages({"reason": outcome.reason})
    if performance.how == "finished":
        said = wire.write(performance.result)
        body |= {"result": performance.result} if len(said) <= _SHOWN else {"result_sha256": wire.sha256(said)}
        body |= {"score": performance.score, "score_explanation": performance.explanation}
    body |= _proof_to_json(proof)
    if job.times.parts:
        body["times"] = job.times.as_json()
    if outcome.claims != NO_CLAIMS:
        body["claims"] = _claims_to_json(outcome.claims)
    notice = _notice(job.command, performance, outcome)
    if notice is not None:
        LOG.info("%s: %s", job.task_id, notice, extra={"action": "task.notice"})
        body["notice"] = notice
    remarks = _remarks(performance, outcome, proof)
    body |= with_messages({"remarks": remarks}) if remarks else {}
    if outcome.verdict is not None:
        besides = {"foreign": list(proof.foreign), "remarks": remarks}
        known = {name: value for name, value in besides.items() if value}
        body["verdict"] = with_messages(
            {"promise_id": outcome.promise_id, **_verdict_to_json(outcome.verdict), **known}
        )
    return body


def _remarks(performance: Performance, outcome: TurnOutcome, proof: WorkProof) -> list[str]:
    """List remarks on a verdict: work that does not count, paths that it rests on, tools that were refused."""
    found = turn_outcome.describe_dropped_work(proof)
    if proof.rests_on:
        found.append(verdict_words.RESTS_ON(paths=", ".join(proof.rests_on)))
    if performance.remark and outcome.cause == "FULFILLED" and performance.ended_badly:
        found.append(performance.remark)
    return found


def _proof_to_json(proof: WorkProof) -> dict[str, object]:
    """Return the findings of other parties about the work, without empty ones."""
    told = {"checks": list(proof.check_records), "commit": proof.commit, "foreign": list(proof.foreign)}
    shown: dict[str, object] = with_messages({name: value for name, value in told.items() if value})
    return shown


def _notice(command: Command, performance: Performance, outcome: TurnOutcome) -> str | None:
    """Fill in the text that a command asks for at the end of its task, well or not."""
    if command.on_complete is None and command.on_failure is None:
        return None
    if outcome.state == "COMPLETED":
        return results.fill_notice(command, AgentResult(performance.result, performance.score))
    return (
        results.fill_notice(command, TurnFault(Code.COMMAND_FAILED, outcome.reason or ""))
        if outcome.state == "FAILED"
        else None
    )


def _claims_to_json(said: Claims) -> list[dict[str, object]]:
    """List the claims; those that a check decides about are set aside."""
    return [
        {"id": each.id, "passed": each.passed, "detail": each.detail, "set_aside": aside}
        for aside, group in ((False, said.evidence), (True, said.set_aside))
        for each in group
    ]


def _verdict_to_json(verdict: Verdict) -> dict[str, object]:
    return {
        "fulfilled": verdict.fulfilled,
        "missing": list(verdict.missing),
        "blockers": list(verdict.blockers),
        "unverified": list(verdict.unverified),
        "trust": verdict.trust,
    }


def decide_receipt(outcome: TurnOutcome) -> tuple[str, str | None]:
    """Decide the status of the receipt for a command, and the reason if the command failed."""
    if outcome.cause in {"FULFILLED", "MOOT"}:
        return "SUCCEEDED", None
    return "FAILED", (outcome.reason or outcome.cause).replace("\0", "\ufffd")


def _ack(moves: PlanTransaction, granted: LeasedAttempt, outcome: TurnOutcome) -> str:
    """Render the receipt for a command as canonical JSON."""
    command = granted.job.command
    status, details = decide_receipt(outcome)
    result = '{"ok":true}' if details is None else f'{{"details":{wire.quoted(details)},"ok":false}}'
    return (
        f'{{"command_id":"{command.command_id}","command_seq":{command.command_seq},'
        f'"consumed_at":"{granted.consumed_at}","consumer_agent_id":"{granted.job.agent_id}",'
        f'"finished_at":"{moves.now}","message_id":"{granted.message_id}","plan_id":"{command.plan_id}",'
        f'"result":{result},"schema_version":"1.0","status":"{status}","task_id":"{command.task_id}"}}'
    )
