"""What a turn is worth: what was found of it is held against what was promised (`rules.proof.done.decide`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.engine.plans import rework_rounds
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transitions import TaskTransitions
from agenttalk.engine.proof import rework
from agenttalk.engine.runs import checkpoints as run_checkpoints
from agenttalk.ports import Performance, WorkProof
from agenttalk.ports.statements.core import FACT
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.statements.runs import SCORE_OF
from agenttalk.rules.budgets import aborts
from agenttalk.rules.budgets.aborts import Abort
from agenttalk.rules.core.task_states import Cause
from agenttalk.rules.messages.leases import SCORE_CODES, SCORE_TRIES
from agenttalk.rules.plans import failure
from agenttalk.rules.proof import checkpoints, done, honesty, score_gates
from agenttalk.rules.proof.checkpoints import CheckpointDecision
from agenttalk.rules.proof.done import Evidence, Verdict
from agenttalk.rules.proof.evidence import Claims, collect_claims
from agenttalk.rules.proof.score_gates import ScoreGateResult
from agenttalk.rules.text import verdict_words
from agenttalk.rules.toolchain import read_back

_ENDINGS: Final[dict[str, failure.Ending]] = {
    "crashed": "crash",
    "timeout": "timeout",
    "not_started": "driver_error",
    "stopped": "engine_stopped",
    "lost": "lost",
    "aborted": "crash",
}
NO_PROOF: Final = WorkProof()
NO_CLAIMS: Final = Claims()
_MET: Final = ScoreGateResult(met=True)
_REMEMBERED: Final = 1000
"""Verdicts on plain turns."""
_verdicts: dict[tuple[Any, ...], Verdict] = {}


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """What a turn is worth."""

    cause: Cause
    reason: str | None = None
    verdict: Verdict | None = None
    gate: ScoreGateResult | None = None
    promise_id: str | None = None
    gates: tuple[CheckpointDecision, ...] = ()
    """What checkpoints decided of it."""
    again: bool = False
    """Whether the same command is run once more."""
    hand_to: str | None = None
    """The agent that does it next, if it is not the same one."""
    claims: Claims = NO_CLAIMS
    """What the agent said of its own work."""
    evidence: tuple[Evidence, ...] = ()
    """What was found, if it is not enough and no round is left."""
    stuck: bool = False
    """Whether rounds are left, and the same issues came back unchanged."""

    @property
    def is_unproven(self) -> bool:
        """Whether it is done by its agent's word alone."""
        trust = self.verdict.trust if self.verdict is not None else None
        return self.cause == "FULFILLED" and trust in {None, "claimed"}


def decide_outcome(
    moves: TaskTransitions,
    sheet: PlanDefinition,
    node: Node,
    granted: LeasedAttempt,
    performance: Performance,
    proof: WorkProof,
) -> TurnOutcome:
    """What a turn is worth, with what the checkpoints after it decided."""
    job = granted.job
    promise = job.command.promise
    abort = run_checkpoints.find_abort(promise, granted.watch.allowance, job.lease, performance)
    if promise is None and abort is None and not proof.breach:
        return judge_turn(moves, sheet, node, granted, performance, proof)
    ends = _breach_ends(moves, sheet, node, granted, proof)
    later = run_checkpoints.decide_after_turn(
        node, job.lease, performance, proof, abort, proven=job.needs_proof, breach_ends=ends
    )
    if abort is not None:
        outcome = _outcome_of_pause(moves, granted, abort) if abort.pauses else TurnOutcome("ABORTED", str(abort))
    else:
        outcome = judge_turn(moves, sheet, node, granted, performance, proof, later, breach_ends=ends)
    return replace(outcome, gates=(*granted.gates, *later))


def _breach_ends(
    moves: TaskTransitions, sheet: PlanDefinition, node: Node, granted: LeasedAttempt, proof: WorkProof
) -> bool:
    """Whether a turn that left its scope is the end of its task."""
    if not proof.breach:
        return False
    used = moves.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=node.task_id)[0].reexecutions
    before = rework_rounds.has_breached_scope(moves.tx, sheet.plan_id, node.task_id, used)
    acts = aborts.stops_run(granted.job.command.promise, "scope-drift")
    return checkpoints.is_final_breach(acts=acts, before=before, hidden=proof.hidden)


def _outcome_of_pause(moves: TaskTransitions, granted: LeasedAttempt, abort: Abort) -> TurnOutcome:
    """The day stopped a turn: the checkpoint before the next one has it wait, unless that happened too often."""
    before, fact = 0, granted.fact
    while fact is not None and before < failure.DAYS:
        [(body,)] = moves.tx.run(FACT, seq=fact)
        told: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
        if told.get("cause") != "DAY_SPENT":
            break
        before, fact = before + 1, told.get("before")
    cause = failure.decide_after_day_limit(before)
    if cause == "DAY_SPENT":
        return TurnOutcome(cause, str(abort), again=True)
    return TurnOutcome(cause, f"the limit of the day has stopped it {before + 1} times in a row: {abort}")


def model_of(granted: LeasedAttempt, performance: Performance) -> str:
    """The model that a turn was taken with, as it was told; else the one that was asked for."""
    return honesty.model_of({"usage": performance.usage}) or granted.job.profile.model


def is_done(granted: LeasedAttempt, performance: Performance, proof: WorkProof, at: str) -> bool:
    """Whether what was found would fulfil the task's promise, if its gates are met."""
    node, job = granted.node, granted.job
    promise = job.command.promise or done.derive_promise(node, promise_id="", score=performance.score)
    later = run_checkpoints.decide_after_turn(node, job.lease, performance, proof, None, proven=job.needs_proof)
    seen = observe_evidence(node, performance, ScoreGateResult(met=True), at)
    said = _claims(promise, granted, performance, seen, at)
    found = [*seen, *proof.evidence, *said.evidence]
    return done.decide(promise, found, checkpoints.latest_results([*granted.gates, *later])).fulfilled


def _claims(
    promise: CompletionPromise, granted: LeasedAttempt, performance: Performance, seen: Sequence[Evidence], at: str
) -> Claims:
    """What the agent says of its work. Under names of checks, and of what the engine sees itself, that is set aside."""
    names = {each.id for each in seen}
    if granted.kind_task is not None:  # what such a promise asks for is found by its kind alone
        names |= {name for criterion in promise.acceptance for name in criterion.evidence_required}
    return collect_claims(promise, performance.claims, by=granted.job.agent_id, at=at, seen=names)


def judge_turn(
    moves: TaskTransitions,
    sheet: PlanDefinition,
    node: Node,
    granted: LeasedAttempt,
    performance: Performance,
    proof: WorkProof = NO_PROOF,
    later: tuple[CheckpointDecision, ...] = (),
    *,
    breach_ends: bool = False,
) -> TurnOutcome:
    """What follows from what an agent did. `later` is what checkpoints after the turn decided."""
    if performance.code in SCORE_CODES:
        if granted.sent_back < SCORE_TRIES:
            return TurnOutcome("RETRY", performance.error, again=True)
        return TurnOutcome("FAILED_FOR_GOOD", performance.error)
    if performance.how == "refused":
        worst = [f"{name}: {each.reason}" for name, each in performance.judgements.items() if not each.accepted]
        return TurnOutcome("INPUT_REJECTED", f"what it was given is not good enough: {'; '.join(worst)}")
    if performance.how == "unfit":
        return _outcome_of_unfit_agent(moves, sheet, node, granted, performance)
    if performance.how != "finished":
        row = moves.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=node.task_id)[0]
        cause = failure.decide_after_attempt(
            _ENDINGS[performance.how],
            retries_used=granted.retries,
            retry_times=granted.job.command.retry_times,
            engine_deaths=row.deaths,
        )
        return TurnOutcome(cause, performance.error, again=cause in {"RETRY", "ENGINE_ENDED"})
    if breach_ends:
        return TurnOutcome("ABORTED", str(checkpoints.make_drift_abort(proof.breach)))
    if proof.moot:
        return TurnOutcome("MOOT", proof.moot)
    if proof.conflict:
        return TurnOutcome("CONFLICT", verdict_words.CONFLICT(conflict=proof.conflict))
    return _judge_by_promise(moves, sheet, node, granted, performance, proof, later)


def _judge_by_promise(
    moves: TaskTransitions,
    sheet: PlanDefinition,
    node: Node,
    granted: LeasedAttempt,
    performance: Performance,
    proof: WorkProof,
    later: tuple[CheckpointDecision, ...],
) -> TurnOutcome:
    """Hold what was found against the promise."""
    if not later and _is_plain(sheet, node, granted, performance, proof):
        verdict = _plain_verdict(node, performance, moves.at)
        if verdict.fulfilled:
            return TurnOutcome("FULFILLED", None, verdict, _MET, sheet.promise_id(node.task_id))
    promise = sheet.promise(node, performance.score)
    gate = score_gates.judge_gates(node, scores=_scores(moves, sheet, node, performance.score), evidence=())
    refused = proof.refused or (str(checkpoints.make_drift_abort(proof.breach)) if proof.breach else "")
    aborted = verdict_words.NOT_TAKEN(whys=refused) if refused else None
    seen = observe_evidence(node, performance, gate, moves.at)
    said = _claims(promise, granted, performance, seen, moves.at)
    results_of_gates = checkpoints.latest_results([*granted.gates, *later]) if later else ()
    verdict = done.decide(promise, [*seen, *proof.evidence, *said.evidence], results_of_gates, aborted=aborted)
    if verdict.fulfilled:
        return TurnOutcome("FULFILLED", None, verdict, gate, promise.id, claims=said)
    if not gate.met and not refused and is_done(granted, performance, proof, moves.at):
        return TurnOutcome("GATE_UNMET", "; ".join(gate.unmet), verdict, gate, promise.id, claims=said)
    if proof.idle and granted.job.profile.driver in {"cli", "acp"}:
        also = f"; {performance.remark}" if performance.ended_badly else ""
        performance = replace(performance, remark=verdict_words.IDLE() + also)
    reason = "; ".join(_faults(performance, verdict))
    found = (*seen, *proof.evidence, *said.evidence)
    outcome = _decide_rework(moves, sheet, node, granted, proof, verdict, reason)
    return replace(outcome, verdict=verdict, promise_id=promise.id, claims=said, evidence=found)


def _decide_rework(
    moves: TaskTransitions,
    sheet: PlanDefinition,
    node: Node,
    granted: LeasedAttempt,
    proof: WorkProof,
    verdict: Verdict,
    reason: str,
) -> TurnOutcome:
    """Whether work that is not good enough is done once more, and why it is not."""
    if read_back.is_beyond_repair(proof.evidence):
        return TurnOutcome("REWORK_EXHAUSTED", reason)
    used = moves.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=node.task_id)[0].reexecutions
    judgement = rework.build_engine_judgement(reason, verdict, proof)
    issues = rework.collect_issues(moves.tx, sheet.plan_id, node.task_id, judgement)
    outside = granted.kind_task is not None
    answer = rework_rounds.decide_another_round(moves.tx, sheet, node, issues, used=used, converges=not outside)
    if answer == "yes":
        return TurnOutcome("NOT_FULFILLED", reason)
    if answer == "stuck":
        return TurnOutcome("REWORK_EXHAUSTED", verdict_words.UNCHANGED(whys=reason), stuck=True)
    return TurnOutcome("REWORK_EXHAUSTED", reason)


def _is_plain(
    sheet: PlanDefinition, node: Node, granted: LeasedAttempt, performance: Performance, proof: WorkProof
) -> bool:
    """Whether nothing was promised but what follows from the node, and nothing was found but what the engine saw."""
    return (
        node.promise is None
        and node.gates is None
        and not node.score_required
        and node.task_id not in sheet.joined_checks
        and granted.kind_task is None
        and not granted.gates
        and performance.score is None
        and not performance.claims
        and not performance.misfits
        and proof is NO_PROOF
    )


def _plain_verdict(node: Node, performance: Performance, at: str) -> Verdict:
    """What `decide` says of a plain turn. It says the same whenever the same is asked for and the same was seen."""
    asked = tuple([(each.name, each.optional, each.when) for each in node.outputs])
    key = (asked, frozenset([each.output_name for each in performance.outputs]), _says_something(performance.result))
    verdict = _verdicts.get(key)
    if verdict is None:
        promise = done.derive_promise(node, promise_id="")
        verdict = done.decide(promise, observe_evidence(node, performance, _MET, at), ())
        if len(_verdicts) >= _REMEMBERED:
            _verdicts.clear()
        _verdicts[key] = verdict
    return verdict


def _faults(performance: Performance, verdict: Verdict) -> list[str]:
    """Everything that stands in the way of done, in words."""
    return [
        *([performance.error] if performance.code is not None else []),
        *(f"{name} {why}" for name, why in performance.misfits.items()),
        *verdict.blockers,
        *(verdict_words.MISSING(name=name) for name in verdict.missing),
        *([performance.remark] if performance.remark else []),
    ]


def _outcome_of_unfit_agent(
    moves: TaskTransitions, sheet: PlanDefinition, node: Node, granted: LeasedAttempt, performance: Performance
) -> TurnOutcome:
    """An agent says that it is not fit for a task: the agent that its policy names does it, or a person decides."""
    reason = verdict_words.UNFIT(agent=granted.job.agent_id, why=performance.error)
    target = node.failure_policy.reexecute_target_agent_id if node.failure_policy else None
    used = moves.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=node.task_id)[0].reexecutions
    judgement = rework.build_engine_judgement(reason, None, NO_PROOF)
    issues = rework.collect_issues(moves.tx, sheet.plan_id, node.task_id, judgement)
    if (
        target in {None, granted.job.agent_id}
        or target not in sheet.profiles
        or rework_rounds.decide_another_round(moves.tx, sheet, node, issues, used=used) != "yes"
    ):
        return TurnOutcome("NEEDS_PERSON", reason)
    return TurnOutcome("NOT_FULFILLED", reason, hand_to=target)


def observe_evidence(node: Node, performance: Performance, gate: ScoreGateResult, at: str) -> list[Evidence]:
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
            performance.misfits.get(
                output.name, "stored with its hash" if output.name in names else verdict_words.OUTPUT_NOT_THERE()
            ),
        )
        for output in score_gates.due_outputs(node, performance.score)
    ]
    said = _says_something(performance.result)
    found.append(
        Evidence("result", said, True, "observed", "engine", at, "not empty" if said else verdict_words.EMPTY())
    )
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


def _scores(moves: TaskTransitions, sheet: PlanDefinition, node: Node, own: float | None) -> dict[str, float | None]:
    scores: dict[str, float | None] = {node.task_id: own}
    for name in node.gates.thresholds if node.gates else ():
        task_id = name.removesuffix("_min_score")
        if task_id not in scores:
            rows = moves.tx.run(SCORE_OF, plan_id=sheet.plan_id, task_id=task_id)
            if rows:
                scores[task_id] = rows[0].score
    return scores
