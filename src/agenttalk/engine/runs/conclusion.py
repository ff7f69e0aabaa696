"""Writes the end of a turn: its outcome and everything that follows, in one transaction.

There is one way to done. What the agent left becomes evidence, the promise says what is needed, and one rule compares
them (`rules.proof.done.decide`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code, ConflictError
from agenttalk.engine.budgets import account_waits
from agenttalk.engine.budgets.used_budgets import Allowance
from agenttalk.engine.core import records
from agenttalk.engine.plans import artifacts, board_run, questions, transitions
from agenttalk.engine.plans.artifacts import FOLDER, OutgoingArtifact
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof import evidence_store as kept
from agenttalk.engine.proof import plan_tips, rework
from agenttalk.engine.runs import task_race
from agenttalk.engine.runs.resume import UNCOUNTED, VERIFYING, OrphanedLease
from agenttalk.engine.runs.turn_fact import decide_receipt, render_fact
from agenttalk.engine.runs.turn_outcome import decide_outcome, model_of
from agenttalk.ports.agents import Job
from agenttalk.ports.statements.plans import COMMAND_OF_DELIVERY, ENGINE_TASK
from agenttalk.ports.statements.proof import DROP_PERFORMANCE
from agenttalk.ports.statements.runs import END_DELIVERY, END_TURN, NOTE_TIMES
from agenttalk.ports.storage import Tx, Value
from agenttalk.rules.agents import results
from agenttalk.rules.core import isolation, task_states, usage
from agenttalk.rules.core.task_states import Cause, TurnEnding
from agenttalk.rules.core.usage import UsageTotals
from agenttalk.rules.proof import score_gates
from agenttalk.rules.proof.performance import NO_PROOF, OutputContent, Performance, WorkProof
from agenttalk.rules.proof.turn_outcome import SCORE_CODES, TurnOutcome, decide_after_attempt
from agenttalk.rules.text import task_words, verdict_words
from agenttalk.rules.text.catalogue import to_columns
from agenttalk.rules.text.message import ABOUT

_ROWS: Final = 3
"""Rows that the end of a turn usually adds: messages, deliveries, facts. Only a hint for reserving ids."""


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A turn that has ended, with its performance and proof."""

    granted: LeasedAttempt
    performance: Performance
    proof: WorkProof = NO_PROOF


def conclude(moves: PlanTransaction, ends: Sequence[FinishedTurn], *, lightly: bool = False) -> list[TurnOutcome]:
    """Write the ends of turns: first each of them, and then what follows from all of them.

    Raises LEASE_LOST when one of the tasks was leased again meanwhile, and TIP_MOVED when the tip of a plan was moved.
    Nothing of any of them is kept then.
    """
    moves.tx.reserve_ids(_ROWS * len(ends))
    outcomes = [_write_end(moves, end) for end in ends]
    if all(_is_plainly_done(end, outcome) for end, outcome in zip(ends, outcomes, strict=True)):
        jobs = [(end.granted.job, outcome.cause) for end, outcome in zip(ends, outcomes, strict=True)]
        ended = [(moves.definitions.load(moves.tx, job.plan_id), job.task_id, cause) for job, cause in jobs]
        transitions.mark_all_ended(moves, ended, lightly=lightly)
        return outcomes
    for end, outcome in zip(ends, outcomes, strict=True):
        if outcome.again:
            moves.agents[end.granted.job.agent_id] = None
        else:
            _follow(moves, end, outcome)
    return outcomes


def _is_plainly_done(end: FinishedTurn, outcome: TurnOutcome) -> bool:
    """Whether dependants becoming ready is all that follows from a turn."""
    chosen = outcome.gate is not None and outcome.gate.activate
    plain = not end.granted.node.race and end.granted.job.command.command_seq == 1
    return outcome.cause == "FULFILLED" and not chosen and plain


def _write_end(moves: PlanTransaction, end: FinishedTurn) -> TurnOutcome:
    """Decide the outcome of a turn and write its end."""
    granted, performance, proof = end.granted, end.performance, end.proof
    job = granted.job
    sheet = moves.definitions.load(moves.tx, job.plan_id)
    node = sheet.node(moves.tx, job.task_id)
    if proof.move is not None and not (node.race and task_race.is_won(moves.tx, sheet, node)):
        plan_tips.move_tip(moves.tx, job.plan_id, proof.move)
    outcome = decide_outcome(moves, sheet, node, granted, performance, proof)
    outcome = task_race.decide_end(moves.tx, sheet, node, outcome) if node.race else outcome
    if outcome.cause == "ACCOUNT_LIMIT" and performance.limited is not None:
        wait = account_waits.begin_wait(
            moves.tx, performance.limited, plan_id=job.plan_id, task_id=job.task_id, now=moves.deps.now()
        )
        moves.account_waits.append(wait)
        outcome = replace(outcome, reason=account_waits.describe_wait(wait))
    sends = outcome.cause in {"FULFILLED", "GATE_UNMET"}
    parcels = _parcels(moves, sheet, node, granted, performance) if sends else []
    lines = [line for each in parcels for line in each.lines]
    body = render_fact(moves, granted, performance, outcome, proof, lines)
    fact = moves.append_journal_fact("turn.ended", job.plan_id, body)
    end_turn(moves.tx, moves.now, granted, performance, outcome, proof, fact=fact)
    _keep_evidence(moves, granted, outcome, proof)
    if outcome.again:
        return outcome
    board_run.report_turn_end(moves, granted, outcome.cause, outcome.reason, outcome.verdict, proof.evidence)
    _end_delivery(moves, granted, outcome)
    for parcel in parcels:
        parcel.send(moves, sheet, job)
    if sends and _is_all(granted, parcels):
        made = [each.to_candidate(job, moves.now) for each in parcels]
        moves.made[job.plan_id, job.task_id] = sorted(made, key=lambda each: each.output_name, reverse=True)
    if performance.judgements:
        rework.record_judgements(moves, granted, performance.judgements, model_of(granted, performance))
    return outcome


def _is_all(granted: LeasedAttempt, parcels: Sequence[OutgoingArtifact]) -> bool:
    """Whether these outputs are all that dependants can get from a task.

    It made nothing before, what its agent leaves in an outbox does not count, and no person gave it anything, which
    would be filed under the task, too.
    """
    job, needs = granted.job, granted.node.needs
    if job.command.command_seq > 1 or job.profile.driver == FOLDER or any(each.in_folders for each in parcels):
        return False
    inputs = job.command.resolved_inputs
    if not inputs:
        return not needs
    given = f"{job.task_id}/"
    return len(inputs) >= len(needs) and not any(path.startswith(given) for each in inputs for path in each.paths)


def _follow(moves: PlanTransaction, end: FinishedTurn, outcome: TurnOutcome) -> None:
    """Write what follows from the outcome of a turn."""
    granted, performance, proof = end.granted, end.performance, end.proof
    job = granted.job
    sheet = moves.definitions.load(moves.tx, job.plan_id)
    node = sheet.node(moves.tx, job.task_id)
    if outcome.cause == "FULFILLED":
        _follow_success(moves, sheet, node, outcome, is_first=job.command.command_seq == 1)
    elif outcome.cause == "GATE_UNMET":
        transitions.ask_person(moves, sheet, node, task_words.GATE_UNMET(task=job.task_id, why=outcome.reason))
    elif outcome.cause == "INPUT_REJECTED":
        rework.send_back(moves, sheet, granted, performance.judgements, model_of(granted, performance))
    elif outcome.cause in {"NOT_FULFILLED", "CONFLICT"}:
        rework.order_rework(
            moves,
            sheet,
            node,
            granted,
            performance,
            proof,
            cause=outcome.cause,
            reason=outcome.reason or verdict_words.NOT_DONE(),
            verdict=outcome.verdict,
            hand_to=outcome.hand_to,
        )
    elif outcome.cause == "NEEDS_PERSON":
        title = ABOUT(subject=job.task_id, what=outcome.reason)
        request_id = transitions.ask_person(moves, sheet, node, title)
        if performance.how == "unfit":
            questions.request_new_plan(moves.tx, sheet, request_id, "AGENT_UNFIT", title, failed=job.task_id)
    elif outcome.cause in {"MOOT", "RACE_LOST"}:
        transitions.mark_ended(moves, sheet, job.task_id, outcome.cause)
    else:
        _alert(moves, granted, outcome)
        transitions.mark_ended(moves, sheet, job.task_id, outcome.cause)
        if outcome.cause == "REWORK_EXHAUSTED":
            rework.end_without_rounds(
                moves,
                sheet,
                node,
                granted,
                performance,
                proof,
                reason=outcome.reason or verdict_words.NOT_DONE(),
                verdict=outcome.verdict,
                evidence=outcome.evidence,
                stuck=outcome.stuck,
            )


def _follow_success(
    moves: PlanTransaction, sheet: PlanDefinition, node: Node, outcome: TurnOutcome, *, is_first: bool
) -> None:
    """Write what follows from a task that is done."""
    if node.race:
        task_race.end_others(moves, sheet, node)
    transitions.mark_ended(
        moves, sheet, node.task_id, outcome.cause, activated=outcome.gate.activate if outcome.gate else ()
    )
    if not is_first:  # it may have made another version before
        transitions.recheck_waiting(moves, sheet, node.task_id)
        transitions.update_consumers(moves, sheet, node.task_id)


def end_orphaned_lease(
    moves: PlanTransaction,
    left: OrphanedLease,
    used: UsageTotals = usage.NOTHING,
    allowance: Allowance | None = None,
    *,
    work_is_kept: bool = False,
) -> None:
    """End an orphaned lease. Its task is leased again, unless it ended the engine too often.

    `used` is the usage of the turn until then, as far as it is known; it counts against the limits. `work_is_kept` says
    that a person interrupted the turn, and that the next attempt begins with what it left.
    """
    tx, plan_id, task_id = moves.tx, left.plan_id, left.task_id
    sheet = moves.definitions.load(tx, plan_id)
    row = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0]
    revoked = row.cause == "SUPERSEDED"
    died = left.died and not revoked and row.phase not in UNCOUNTED
    how: TurnEnding = "engine_died" if died else "stopped"
    cause = decide_after_attempt(how, retries_used=row.retries, retry_times=0, engine_deaths=row.deaths + int(died))
    cause = "SUPERSEDED" if revoked else cause
    state = task_states.move("RUNNING", cause)
    queued = left.delivery if state == "READY" and not revoked else None
    reason = task_words.INTERRUPTED() if work_is_kept and queued is not None else None
    if not write_orphan_end(
        tx, left, at=moves.now, cause=cause, reason=reason, used=used, queued=queued, deaths=int(died)
    ):
        return
    if allowance is not None:
        allowance.write(tx, left.lease, used)
    if left.phase in VERIFYING:
        tx.run(DROP_PERFORMANCE, plan_id=plan_id, task_id=task_id)
    if revoked:
        node = sheet.node(tx, task_id)
        if not node.race or not task_race.skip_if_won(moves, sheet, node, left.delivery):
            transitions.return_to_waiting(moves, sheet, task_id, left.delivery)
    elif state == "READY":
        moves.agents[left.agent_id] = None
    else:
        transitions.ask_person(
            moves, sheet, sheet.node(tx, task_id), task_words.ENDED_ENGINE(task=task_id, count=row.deaths + 1)
        )


def write_orphan_end(
    tx: Tx,
    left: OrphanedLease,
    *,
    at: str,
    cause: Cause = "ENGINE_ENDED",
    reason: str | None = None,
    used: UsageTotals = usage.NOTHING,
    queued: int | None = None,
    deaths: int = 0,
    killed: int | None = None,
) -> bool:
    """Write the end of a turn that left no result, which counts nothing against its agent.

    False if the lease has ended already. `queued` has the dispatcher start another attempt; `killed` is how many
    processes of the turn were ended, if that was counted.
    """
    [task] = tx.run(ENGINE_TASK, plan_id=left.plan_id, task_id=left.task_id)
    ended = tx.run(
        END_TURN,
        plan_id=left.plan_id,
        task_id=left.task_id,
        epoch=left.epoch,
        lease=left.lease,
        state=task_states.move("RUNNING", cause),
        cause=cause,
        **to_columns(reason),
        queued=queued,
        at=at,
        score=None,
        fact=task.fact,
        unproven=0,
        unisolated=0,
        retries=0,
        sent_back=task.sent_back,
        deaths=deaths,
        **used._asdict(),
    )
    if not ended:
        return False
    [(message_id, _)] = tx.run(COMMAND_OF_DELIVERY, id=left.delivery)
    counted = {} if killed is None else {"killed": killed, "task_id": left.task_id}
    body = {"lease": left.lease, "epoch": left.epoch, "cause": cause, **counted}
    tx.record("lease.ended", records.build_turn_subject(left.plan_id, message_id), body)
    return True


def end_turn(
    tx: Tx,
    at: str,
    granted: LeasedAttempt,
    performance: Performance,
    outcome: TurnOutcome,
    proof: WorkProof = NO_PROOF,
    *,
    fact: int | None,
    in_queue: bool = True,
) -> None:
    """Write the end of a turn into the row of its task and give the lease back.

    `in_queue` says whether the dispatcher starts another attempt; else the heartbeat of the agent does. Raises
    LEASE_LOST, now or when the statements that wait are run, if another attempt has the task.
    """
    job = granted.job
    bad_score = performance.code in SCORE_CODES
    used = usage.measure_usage(performance.usage, seconds=performance.seconds)
    if granted.watch.allowance is not None:
        granted.watch.allowance.write(tx, job.lease, used)
    tx.run_later(
        END_TURN,
        {
            "plan_id": job.plan_id,
            "task_id": job.task_id,
            "epoch": job.epoch,
            "lease": job.lease,
            "state": outcome.state,
            "cause": outcome.cause,
            **to_columns(outcome.reason),
            "queued": granted.delivery if outcome.again and in_queue else None,
            "at": at,
            "score": performance.score,
            "fact": fact,
            "unproven": int(outcome.is_unproven),
            "unisolated": int(isolation.is_missing(performance.sandbox, proof.check_records)),
            "retries": int(outcome.cause == "RETRY" and not bad_score),
            "sent_back": granted.sent_back + int(bad_score),
            "deaths": int(outcome.cause == "ENGINE_ENDED"),
            **used._asdict(),
        },
        partial(_lease_error, job),
    )


def _lease_error(job: Job) -> ConflictError:
    return ConflictError(
        Code.LEASE_LOST,
        f"attempt {job.attempt} of task {job.task_id!r} has lost its lease (epoch {job.epoch})",
        hint="nothing of it is kept; the task was given out again",
    )


def _command_error(job: Job) -> ConflictError:
    return ConflictError(Code.LEASE_LOST, f"the command {job.command.command_id!r} ended meanwhile")


def _keep_evidence(moves: PlanTransaction, granted: LeasedAttempt, outcome: TurnOutcome, proof: WorkProof) -> None:
    """Store the evidence for a task that is done. For one that is not done, no evidence is kept."""
    job = granted.job
    if proof.foreign:
        _warn(moves, granted, proof)
    if job.needs_proof:
        moves.tx.run(DROP_PERFORMANCE, plan_id=job.plan_id, task_id=job.task_id)
    if job.command.promise is not None and job.command.promise.checks:
        kept.write_evidence(moves.tx, job, proof if outcome.cause == "FULFILLED" else NO_PROOF, at=moves.now)


def _warn(moves: PlanTransaction, granted: LeasedAttempt, proof: WorkProof) -> None:
    """Alert people to commits on the plan's branch that no task made, once for each such commit."""
    job = granted.job
    records.alert(
        moves.tx,
        at=moves.now,
        plan_id=job.plan_id,
        code=Code.BRANCH_MOVED,
        message=f"the branch of the plan holds what no task merged: {', '.join(proof.foreign)}",
        key=proof.foreign[0],
        severity="WARNING",
        source=records.RecordSource(None, job.task_id, job.command.command_id),
    )


def _end_delivery(moves: PlanTransaction, granted: LeasedAttempt, outcome: TurnOutcome) -> None:
    status, details = decide_receipt(outcome)
    acted = int(status == "SUCCEEDED")
    ended: dict[str, Value] = {
        "id": granted.delivery,
        "ack": status,
        "at": moves.now,
        "details": details,
        "acted": acted,
    }
    moves.tx.run_later(END_DELIVERY, ended, partial(_command_error, granted.job))
    if granted.job.times.parts:
        times = wire.to_text(granted.job.times.as_json())
        moves.tx.run_later(NOTE_TIMES, {"id": granted.delivery, "times": times})


def _parcels(
    moves: PlanTransaction, sheet: PlanDefinition, node: Node, granted: LeasedAttempt, performance: Performance
) -> list[OutgoingArtifact]:
    """Pack the outputs of a turn for the receivers in the DAG, except for those that the score does not choose."""
    score = performance.score
    due = {each.name: each for each in node.outputs if each.when is None or score_gates.holds(each.when, score)}
    files: dict[str, list[OutputContent]] = {}
    for each in performance.outputs:
        if each.output_name in due:
            files.setdefault(each.output_name, []).append(each)
    return [
        artifacts.pack(sheet, granted.job, due[name], made, score, at=moves.now, key=granted.message_id)
        for name, made in files.items()
    ]


def _alert(moves: PlanTransaction, granted: LeasedAttempt, outcome: TurnOutcome) -> None:
    job = granted.job
    records.alert(
        moves.tx,
        at=moves.now,
        plan_id=job.plan_id,
        code=Code.COMMAND_FAILED,
        message=f"task {job.task_id!r} failed: {results.describe_error(outcome.reason or outcome.cause, b'')}",
        key=granted.message_id,
        source=records.RecordSource(job.agent_id, job.task_id, job.command.command_id),
    )
