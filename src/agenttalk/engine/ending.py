"""The end of a turn: what it is worth, and everything that follows, in one transaction.

There is one way to done. What the agent left becomes evidence, the promise says what is needed, and one rule compares
them (`rules.done.decide`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from agenttalk.contracts import wire
from agenttalk.contracts.command import Command
from agenttalk.contracts.dag import Node
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.engine import asking, gating, kinds, parcels, records, reworking, rounds, superseding
from agenttalk.engine import evidence as kept
from agenttalk.engine.granting import Granted
from agenttalk.engine.moves import Moves
from agenttalk.engine.parcels import FOLDER, Parcel
from agenttalk.engine.resuming import VERIFYING, Left
from agenttalk.engine.sheets import Sheet
from agenttalk.engine.spending import Allowance
from agenttalk.errors import Code, ConflictError
from agenttalk.ports import Made, Performance, Proof
from agenttalk.rules import aborts, checkpoints, done, failure, gates, lifecycle, results, usage
from agenttalk.rules.checkpoints import Decision
from agenttalk.rules.done import Evidence, Verdict
from agenttalk.rules.evidence import Claims, claims
from agenttalk.rules.gates import Gate
from agenttalk.rules.leases import SCORE_CODES, SCORE_TRIES
from agenttalk.rules.lifecycle import Cause
from agenttalk.rules.results import Fault, Result
from agenttalk.rules.usage import Used

LOG = logging.getLogger(__name__)
_ENDINGS: Final[dict[str, failure.Ending]] = {
    "crashed": "crash",
    "timeout": "timeout",
    "not_started": "driver_error",
    "stopped": "engine_stopped",
    "aborted": "crash",
}
NO_PROOF: Final = Proof()
NO_CLAIMS: Final = Claims()
_SHOWN: Final = 16 * 1024
"""Up to this size a result stands in the ledger itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a turn is worth."""

    cause: Cause
    reason: str | None = None
    verdict: Verdict | None = None
    gate: Gate | None = None
    promise_id: str | None = None
    gates: tuple[Decision, ...] = ()
    """What checkpoints decided of it."""
    again: bool = False
    """Whether the same command is run once more."""
    hand_to: str | None = None
    """The agent that does it next, if it is not the same one."""
    claims: Claims = NO_CLAIMS
    """What the agent said of its own work."""
    evidence: tuple[Evidence, ...] = ()
    """What was found, if it is not enough and no round is left."""


@dataclass(frozen=True, slots=True)
class End:
    """A turn that has ended, and what came of it."""

    granted: Granted
    performance: Performance
    proof: Proof = NO_PROOF


def conclude(moves: Moves, ends: Sequence[End]) -> list[Outcome]:
    """Write the ends of turns down: first each of them, and then what follows from them.

    Raises LEASE_LOST when the task was given to somebody else meanwhile. Nothing of any of them is kept then.
    """
    outcomes = [_write_end(moves, end) for end in ends]
    if all(_is_plainly_done(end, outcome) for end, outcome in zip(ends, outcomes, strict=True)):
        jobs = [end.granted.job for end in ends]
        moves.all_ended([(moves.sheets.of(moves.tx, job.plan_id), job.task_id) for job in jobs])
        return outcomes
    for end, outcome in zip(ends, outcomes, strict=True):
        if outcome.again:
            moves.agents[end.granted.job.agent_id] = None
        else:
            _follow(moves, end, outcome)
    return outcomes


def _is_plainly_done(end: End, outcome: Outcome) -> bool:
    """Whether nothing follows from a turn but that others go on."""
    chosen = outcome.gate is not None and outcome.gate.activate
    return outcome.cause == "FULFILLED" and not chosen and end.granted.job.command.command_seq == 1


def _write_end(moves: Moves, end: End) -> Outcome:
    """Write down what a turn is worth."""
    granted, performance, proof = end.granted, end.performance, end.proof
    job = granted.job
    sheet = moves.sheets.of(moves.tx, job.plan_id)
    node = sheet.node(moves.tx, job.task_id)
    outcome = _gated(moves, sheet, node, granted, performance, proof)
    state = lifecycle.move("RUNNING", outcome.cause)
    sends = outcome.cause in {"FULFILLED", "GATE_UNMET"}
    parcels = _parcels(moves, sheet, node, granted, performance) if sends else []
    body = _told(granted, performance, outcome, proof) | {
        "state": state,
        "lines": [line for each in parcels for line in each.lines],
    }
    body |= {} if outcome.again else {"ack": _ack(moves, granted, outcome)}
    _end_turn(moves, granted, performance, outcome, moves.note("turn.ended", job.plan_id, body))
    _keep(moves, granted, outcome, proof)
    if outcome.again:
        return outcome
    kinds.note_end(moves, granted, outcome.cause, outcome.reason, outcome.verdict, proof.evidence)
    _end_delivery(moves, granted, outcome)
    for parcel in parcels:
        parcel.send(moves, sheet, job)
    if sends and _is_all(granted, parcels):
        made = [each.candidate(job, moves.at) for each in parcels]
        moves.made[job.plan_id, job.task_id] = sorted(made, key=lambda each: each.output_name, reverse=True)
    if performance.judgements:
        reworking.note(moves, granted, performance.judgements)
    return outcome


def _is_all(granted: Granted, parcels: Sequence[Parcel]) -> bool:
    """Whether nothing else can have come from a task.

    It made nothing before, what its agent leaves in an outbox does not count, and no person gave it anything, which
    would be filed under the task, too.
    """
    job, needs = granted.job, granted.node.needs
    if job.command.command_seq > 1 or job.profile.driver == FOLDER or any(each.in_folders for each in parcels):
        return False
    inputs = job.command.resolved_inputs or ()
    given = f"{job.task_id}/"
    return len(inputs) >= len(needs) and not any(path.startswith(given) for each in inputs for path in each.paths)


def _follow(moves: Moves, end: End, outcome: Outcome) -> None:
    """Have everything done that follows from the end of a turn."""
    granted, performance, proof = end.granted, end.performance, end.proof
    job = granted.job
    sheet = moves.sheets.of(moves.tx, job.plan_id)
    node = sheet.node(moves.tx, job.task_id)
    if outcome.cause == "FULFILLED":
        moves.ended(sheet, job.task_id, outcome.cause, activated=outcome.gate.activate if outcome.gate else ())
        if job.command.command_seq > 1:  # it may have made another version before
            moves.look_at_waiting(sheet, job.task_id)
            superseding.superseded(moves, sheet, job.task_id)
    elif outcome.cause == "GATE_UNMET":
        moves.ask_person(sheet, node, f"the gate of {job.task_id} is not met: {outcome.reason}")
    elif outcome.cause == "INPUT_REJECTED":
        reworking.send_back(moves, sheet, granted, performance.judgements)
    elif outcome.cause in {"NOT_FULFILLED", "CONFLICT"}:
        reworking.order_again(
            moves,
            sheet,
            node,
            granted,
            performance,
            proof,
            cause=outcome.cause,
            reason=outcome.reason or "not done",
            verdict=outcome.verdict,
            hand_to=outcome.hand_to,
        )
    elif outcome.cause == "NEEDS_PERSON":
        title = f"{job.task_id}: {outcome.reason}"
        request_id = moves.ask_person(sheet, node, title)
        asking.request_plan(moves.tx, sheet, request_id, "AGENT_UNFIT", title, failed=job.task_id)
    else:
        _alert(moves, granted, outcome)
        moves.ended(sheet, job.task_id, outcome.cause)
        if outcome.cause == "REWORK_EXHAUSTED":
            reworking.out_of_rounds(
                moves,
                sheet,
                node,
                granted,
                performance,
                proof,
                reason=outcome.reason or "not done",
                verdict=outcome.verdict,
                evidence=outcome.evidence,
            )


def _gated(moves: Moves, sheet: Sheet, node: Node, granted: Granted, performance: Performance, proof: Proof) -> Outcome:
    """What a turn is worth, with what the checkpoints after it decided."""
    job = granted.job
    promise = job.command.promise
    abort = gating.stopped_by(promise, granted.allowance, job.lease, performance)
    if promise is None and abort is None and not proof.breach:
        return judge(moves, sheet, node, granted, performance, proof)
    later = gating.after_turn(node, promise, job.lease, performance, proof, abort, proven=job.proven)
    if abort is not None:
        outcome = Outcome("ABORTED", str(abort))
    else:
        outcome = judge(moves, sheet, node, granted, performance, proof, later)
    return replace(outcome, gates=(*granted.gates, *later))


def give_up(moves: Moves, left: Left, used: Used = usage.NOTHING, allowance: Allowance | None = None) -> None:
    """End the lease of a process that died, or of ours that is to stop. Its task is given out again.

    What it `used` until then counts, as far as somebody still knows it.
    """
    tx, plan_id, task_id = moves.tx, left.plan_id, left.task_id
    sheet = moves.sheets.of(tx, plan_id)
    row = tx.run("engine_task", plan_id=plan_id, task_id=task_id)[0]
    revoked = row[8] == "SUPERSEDED"
    died = left.died and not revoked and row[7] != "asking"  # a question that waits for its answer ends no engine
    how: failure.Ending = "engine_died" if died else "engine_stopped"
    cause: Cause = failure.attempt_ended(how, retries_used=row[11], retry_times=0, engine_deaths=row[13] + int(died))
    cause = "SUPERSEDED" if revoked else cause
    state = lifecycle.move("RUNNING", cause)
    if not tx.run(
        "end_turn",
        plan_id=plan_id,
        task_id=task_id,
        epoch=left.epoch,
        lease=left.lease,
        state=state,
        cause=cause,
        reason=None,
        queued=left.delivery if state == "READY" and not revoked else None,
        at=moves.at,
        score=None,
        fact=row[19],
        retries=0,
        sent_back=row[12],
        deaths=int(died),
        **used._asdict(),
    ):
        return
    if allowance is not None:
        allowance.write(tx, left.lease, used)
    if left.phase in VERIFYING:
        tx.run("drop_performance", plan_id=plan_id, task_id=task_id)
    [(message_id, _)] = tx.run("command_of_delivery", id=left.delivery)
    body = {"lease": left.lease, "epoch": left.epoch, "cause": cause}
    tx.record("lease.ended", f"turns/{plan_id}/{message_id}", body)
    if revoked:
        superseding.released(moves, sheet, task_id, left.delivery)
    elif state == "READY":
        moves.agents[left.agent_id] = None
    else:
        moves.ask_person(sheet, sheet.node(tx, task_id), f"{task_id} ended the engine {row[13] + 1} times")


def is_done(granted: Granted, performance: Performance, proof: Proof, at: str) -> bool:
    """Whether what was found would fulfil the task's promise, if its gates are met."""
    node, job = granted.node, granted.job
    promise = job.command.promise or done.derive(node, promise_id="", score=performance.score)
    later = gating.after_turn(node, job.command.promise, job.lease, performance, proof, None, proven=job.proven)
    seen = evidence(node, performance, Gate(met=True), at)
    said = _claims(promise, granted, performance, seen, at)
    found = [*seen, *proof.evidence, *said.evidence]
    return done.decide(promise, found, checkpoints.latest([*granted.gates, *later])).fulfilled


def _claims(
    promise: CompletionPromise, granted: Granted, performance: Performance, seen: Sequence[Evidence], at: str
) -> Claims:
    """What the agent says of its work. Under names of checks, and of what the engine sees itself, that is set aside."""
    names = {each.id for each in seen}
    if granted.kind_task is not None:  # what such a promise asks for is found by its kind alone
        names |= {name for criterion in promise.acceptance for name in criterion.evidence_required}
    return claims(promise, performance.claims, by=granted.job.agent_id, at=at, seen=names)


def judge(
    moves: Moves,
    sheet: Sheet,
    node: Node,
    granted: Granted,
    performance: Performance,
    proof: Proof = NO_PROOF,
    later: tuple[Decision, ...] = (),
) -> Outcome:
    """What follows from what an agent did. `later` is what checkpoints after the turn decided."""
    if performance.code in SCORE_CODES:
        if granted.sent_back < SCORE_TRIES:
            return Outcome("RETRY", performance.error, again=True)
        return Outcome("FAILED_FOR_GOOD", performance.error)
    if performance.how == "refused":
        worst = [f"{name}: {each.reason}" for name, each in performance.judgements.items() if not each.accepted]
        return Outcome("INPUT_REJECTED", f"what it was given is not good enough: {'; '.join(worst)}")
    if performance.how == "unfit":
        return _unfit(moves, sheet, node, granted, performance)
    if performance.how != "finished":
        row = moves.tx.run("engine_task", plan_id=sheet.plan_id, task_id=node.task_id)[0]
        cause = failure.attempt_ended(
            _ENDINGS[performance.how],
            retries_used=granted.retries,
            retry_times=granted.job.command.retry_times,
            engine_deaths=row[13],
        )
        return Outcome(cause, performance.error, again=cause in {"RETRY", "ENGINE_ENDED"})
    if proof.breach and aborts.acts(granted.job.command.promise, "scope-drift"):
        return Outcome("ABORTED", str(checkpoints.drift(proof.breach)))
    if proof.conflict:
        return Outcome("CONFLICT", f"it does not merge with what others did meanwhile: {proof.conflict}")
    return _worth(moves, sheet, node, granted, performance, proof, later)


def _worth(
    moves: Moves,
    sheet: Sheet,
    node: Node,
    granted: Granted,
    performance: Performance,
    proof: Proof,
    later: tuple[Decision, ...],
) -> Outcome:
    """Hold what was found against the promise."""
    promise = sheet.promise(node, performance.score)
    gate = gates.judge(node, scores=_scores(moves, sheet, node, performance.score), evidence=())
    refused = proof.refused or (str(checkpoints.drift(proof.breach)) if proof.breach else "")
    aborted = f"what it left cannot be taken: {refused}" if refused else None
    seen = evidence(node, performance, gate, moves.at)
    said = _claims(promise, granted, performance, seen, moves.at)
    results_of_gates = checkpoints.latest([*granted.gates, *later]) if later else ()
    verdict = done.decide(promise, [*seen, *proof.evidence, *said.evidence], results_of_gates, aborted=aborted)
    if verdict.fulfilled:
        return Outcome("FULFILLED", None, verdict, gate, promise.id, claims=said)
    if not gate.met and not refused and is_done(granted, performance, proof, moves.at):
        return Outcome("GATE_UNMET", "; ".join(gate.unmet), verdict, gate, promise.id, claims=said)
    reexecutions = moves.tx.run("engine_task", plan_id=sheet.plan_id, task_id=node.task_id)[0][14]
    left: Cause = "NOT_FULFILLED" if reexecutions < rounds.most(moves.tx, sheet, node) else "REWORK_EXHAUSTED"
    if proof.idle and granted.job.profile.driver == "cli":
        performance = replace(performance, remark="the agent says that it is finished, and has changed nothing")
    reason = "; ".join(_faults(performance, verdict))
    found = (*seen, *proof.evidence, *said.evidence)
    return Outcome(left, reason, verdict, promise_id=promise.id, claims=said, evidence=found)


def _faults(performance: Performance, verdict: Verdict) -> list[str]:
    """Everything that stands in the way of done, in words."""
    return [
        *([performance.error] if performance.code is not None else []),
        *(f"{name} {why}" for name, why in performance.misfits.items()),
        *verdict.blockers,
        *(f"{name} is missing" for name in verdict.missing),
        *([performance.remark] if performance.remark else []),
    ]


def _unfit(moves: Moves, sheet: Sheet, node: Node, granted: Granted, performance: Performance) -> Outcome:
    """An agent says that it is not fit for a task: the agent that its policy names does it, or a person decides."""
    reason = f"{granted.job.agent_id} says that it is not fit for this: {performance.error}"
    target = node.failure_policy.reexecute_target_agent_id if node.failure_policy else None
    row = moves.tx.run("engine_task", plan_id=sheet.plan_id, task_id=node.task_id)[0]
    if (
        target in {None, granted.job.agent_id}
        or target not in sheet.profiles
        or row[14] >= rounds.most(moves.tx, sheet, node)
    ):
        return Outcome("NEEDS_PERSON", reason)
    return Outcome("NOT_FULFILLED", reason, hand_to=target)


def evidence(node: Node, performance: Performance, gate: Gate, at: str) -> list[Evidence]:
    """What the engine saw itself: outputs that are there with their hash, a result, a score."""
    names = {each.output_name for each in performance.outputs} - performance.misfits.keys()
    found = [
        Evidence(
            f"output:{output.name}",
            output.name in names,
            True,
            "observed",
            "engine",
            at,
            performance.misfits.get(output.name, "stored with its hash" if output.name in names else "it is not there"),
        )
        for output in gates.due_outputs(node, performance.score)
    ]
    said = _says_something(performance.result)
    found.append(Evidence("result", said, True, "observed", "engine", at, "not empty" if said else "it is empty"))
    if performance.score is not None:
        found.append(Evidence("score", True, True, "observed", "engine", at, f"{performance.score:g}"))
    answered = gate.met or gate.branch is not None
    found.append(Evidence("gates", answered, True, "observed", "engine", at, "; ".join(gate.unmet)))
    return found


def _says_something(result: Any) -> bool:
    """Whether a result is one: not nothing, blank, or an empty list or object."""
    if isinstance(result, str):
        return bool(result.strip())
    return result is not None and result not in ([], {})


def _scores(moves: Moves, sheet: Sheet, node: Node, own: float | None) -> dict[str, float | None]:
    scores: dict[str, float | None] = {node.task_id: own}
    for name in node.gates.thresholds if node.gates else ():
        task_id = name.removesuffix("_min_score")
        if task_id not in scores:
            rows = moves.tx.run("score_of", plan_id=sheet.plan_id, task_id=task_id)
            if rows:
                scores[task_id] = rows[0][0]
    return scores


def _end_turn(moves: Moves, granted: Granted, performance: Performance, outcome: Outcome, fact: int) -> None:
    job = granted.job
    bad_score = performance.code in SCORE_CODES
    used = usage.spent(performance.usage, seconds=performance.seconds)
    if granted.allowance is not None:
        granted.allowance.write(moves.tx, job.lease, used)
    lost = ConflictError(
        Code.LEASE_LOST,
        f"attempt {job.attempt} of task {job.task_id!r} has lost its lease (epoch {job.epoch})",
        hint="nothing of it is kept; the task was given out again",
    )
    moves.tx.later(
        "end_turn",
        {
            "plan_id": job.plan_id,
            "task_id": job.task_id,
            "epoch": job.epoch,
            "lease": job.lease,
            "state": lifecycle.move("RUNNING", outcome.cause),
            "cause": outcome.cause,
            "reason": outcome.reason,
            "queued": granted.delivery if outcome.again else None,
            "at": moves.at,
            "score": performance.score,
            "fact": fact,
            "retries": int(outcome.cause == "RETRY" and not bad_score),
            "sent_back": granted.sent_back + int(bad_score),
            "deaths": int(outcome.cause == "ENGINE_ENDED"),
            **used._asdict(),
        },
        lost,
    )


def _keep(moves: Moves, granted: Granted, outcome: Outcome, proof: Proof) -> None:
    """Keep what shows that a task is done. Of one that is not done, nothing does."""
    job = granted.job
    if proof.foreign:
        _warn(moves, granted, proof)
    if job.proven:
        moves.tx.run("drop_performance", plan_id=job.plan_id, task_id=job.task_id)
    if job.command.promise is not None and job.command.promise.checks:
        kept.put(moves.tx, job, proof if outcome.cause == "FULFILLED" else NO_PROOF, at=moves.at)


def _warn(moves: Moves, granted: Granted, proof: Proof) -> None:
    """Tell people that somebody else put something on the plan's branch; once for each such commit."""
    job = granted.job
    records.alert(
        moves.tx,
        at=moves.at,
        plan_id=job.plan_id,
        code=Code.BRANCH_MOVED,
        message=f"the branch of the plan holds what no task merged: {', '.join(proof.foreign)}",
        key=proof.foreign[0],
        severity="WARNING",
        source=records.Source(None, job.task_id, job.command.command_id),
    )


def _told(granted: Granted, performance: Performance, outcome: Outcome, proof: Proof) -> dict[str, Any]:
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


def _end_delivery(moves: Moves, granted: Granted, outcome: Outcome) -> None:
    status, details = _receipt(outcome)
    acted = int(status == "SUCCEEDED")
    lost = ConflictError(Code.LEASE_LOST, f"the command {granted.job.command.command_id!r} ended meanwhile")
    ended: dict[str, Any] = {"id": granted.delivery, "ack": status, "at": moves.at, "details": details, "acted": acted}
    moves.tx.later("end_delivery", ended, lost)


def _receipt(outcome: Outcome) -> tuple[str, str | None]:
    """How a command ended, and why if it did not end well."""
    if outcome.cause == "FULFILLED":
        return "SUCCEEDED", None
    return "FAILED", (outcome.reason or outcome.cause).replace("\0", "\ufffd")


def _ack(moves: Moves, granted: Granted, outcome: Outcome) -> dict[str, Any]:
    """The receipt for a command."""
    command = granted.job.command
    status, details = _receipt(outcome)
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


def _parcels(moves: Moves, sheet: Sheet, node: Node, granted: Granted, performance: Performance) -> list[Parcel]:
    """The outputs of a turn, for whom the DAG names. Those that the score does not choose go nowhere."""
    score = performance.score
    due = {each.name: each for each in node.outputs if each.when is None or gates.holds(each.when, score)}
    files: dict[str, list[Made]] = {}
    for each in performance.outputs:
        if each.output_name in due:
            files.setdefault(each.output_name, []).append(each)
    return [
        parcels.pack(sheet, granted.job, due[name], made, score, at=moves.at, key=granted.message_id)
        for name, made in files.items()
    ]


def _alert(moves: Moves, granted: Granted, outcome: Outcome) -> None:
    job = granted.job
    records.alert(
        moves.tx,
        at=moves.at,
        plan_id=job.plan_id,
        code=Code.COMMAND_FAILED,
        message=f"task {job.task_id!r} failed: {results.error_of(outcome.reason or outcome.cause, b'')}",
        key=granted.message_id,
        source=records.Source(job.agent_id, job.task_id, job.command.command_id),
    )
