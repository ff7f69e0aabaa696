"""Tasks of folder agents: no program is started, so the files that such an agent leaves show its progress.

The receipt says that a task was taken, and how it ended; outputs that are all there say so too. Only time limits it.
"""

from __future__ import annotations

from typing import Final

from agenttalk.contracts.command import Reexecution
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.dag import Node
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope
from agenttalk.engine.plans import inputs, transitions
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof import rework
from agenttalk.engine.proof.rework import WorkRefusal
from agenttalk.engine.runs import checkpoints as run_checkpoints
from agenttalk.ports.statements.plans import (
    ACKNOWLEDGE_BY_HAND,
    COMMAND_OF_DELIVERY,
    DEPENDANTS,
    ENGINE_TASK,
    LAST_SEQ,
    VERSIONS_FROM,
)
from agenttalk.ports.statements.runs import END_BY_HAND, END_REFUSAL, OPEN_REFUSALS, TASKS_BY_HAND, FolderTaskRow
from agenttalk.rules.core import task_states
from agenttalk.rules.core.task_states import Cause
from agenttalk.rules.proof import checkpoints, done, score_gates, turn_outcome
from agenttalk.rules.proof.performance import OutputContent, Performance
from agenttalk.rules.proof.rework import Judgement
from agenttalk.rules.text import task_words
from agenttalk.rules.text.catalogue import to_columns
from agenttalk.rules.text.message import join

FINAL: Final = frozenset({"SUCCEEDED", "FAILED"})


def check_folder_tasks(moves: PlanTransaction, sheet: PlanDefinition) -> None:
    """Check every task of a folder agent for a receipt or for complete outputs."""
    if all(profile.driver != "folder" for profile in sheet.profiles.values()):
        return
    if getattr(moves.deps.kinds.get(moves.tx.board), "settles", False):
        return  # the kind of the board decides by its own evidence, not by the receipt
    for refusal in moves.tx.run(OPEN_REFUSALS, plan_id=sheet.plan_id):
        _refuse(moves, sheet, *refusal)
    for row in moves.tx.run(TASKS_BY_HAND, plan_id=sheet.plan_id):
        if not moves.is_ordered(sheet, row.task_id):
            _check_folder_task(moves, sheet, row)


def _refuse(
    moves: PlanTransaction, sheet: PlanDefinition, refusal_id: str, producer: str, sender: str, body: bytes
) -> None:
    """Carry out the refusal of an input by a folder agent: the input is made again, and the task waits for it."""
    tx = moves.tx
    tx.run(END_REFUSAL, refusal_id=refusal_id, at=moves.now)
    said = Reexecution.model_validate(wire.read(bytes(body)))
    result = said.validation_result
    judgement = Judgement(False, result.score, result.reason, tuple(result.issues), result.expectations, result.prompt)
    users = [row.dependant for row in tx.run(DEPENDANTS, plan_id=sheet.plan_id, task_id=producer)]
    own = [each for each in users if tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=each)[0].agent_id == sender]
    consumer = own[0] if own else f"agent:{sender}"
    counts = rework.refuse_work(moves, sheet, producer, WorkRefusal(sender, consumer, refusal_id, judgement))
    tx.record("refusal.ended", f"{sheet.plan_id}/{producer}", {"by": sender, "counts": counts})


def _check_folder_task(moves: PlanTransaction, sheet: PlanDefinition, row: FolderTaskRow) -> None:
    node = sheet.node(moves.tx, row.task_id)
    made = _read_handed_in(moves, sheet, node, row.delivery)
    complete = bool(node.outputs) and {each.name for each in score_gates.due_outputs(node, None)} <= {
        each.output_name for each in made
    }
    since = row.updated_at
    if row.state == "READY":
        if row.ack is None and not complete:
            return
        moves.move_task(sheet, row.task_id, "READY", "LEASED")
        since = moves.now
    if row.ack in FINAL or complete:
        _end(moves, sheet, node, row.delivery, made, ack=row.ack or "SUCCEEDED", details=row.details)
        return
    limit = node.timeout or sheet.policies.timeout_default_seconds
    if (parse_instant(moves.now) - parse_instant(since)).total_seconds() > limit:
        _end(moves, sheet, node, row.delivery, made, ack="FAILED", details=task_words.NOTHING_CAME(seconds=limit))


def _read_handed_in(
    moves: PlanTransaction, sheet: PlanDefinition, node: Node, delivery: int
) -> tuple[OutputContent, ...]:
    """Read the outputs for the command that is in force."""
    [(_, data)] = moves.tx.run(COMMAND_OF_DELIVERY, id=delivery)
    command_id = CommandEnvelope.model_validate_json(bytes(data)).command_id
    found = []
    for row in moves.tx.run(VERSIONS_FROM, plan_id=sheet.plan_id, task_id=node.task_id):
        if row.command_id in {None, command_id}:
            artifact = ArtifactEnvelope.model_validate_json(bytes(row.envelope))
            found += [
                OutputContent(row.output_name, file.path, file.sha256, file.size_bytes or 0, None)
                for file in artifact.payload.files
            ]
    return tuple(found)


def _end(
    moves: PlanTransaction,
    sheet: PlanDefinition,
    node: Node,
    delivery: int,
    made: tuple[OutputContent, ...],
    *,
    ack: str,
    details: str | None,
) -> None:
    performance = Performance("finished", result=details, outputs=made)
    gate = score_gates.judge_gates(node, scores={}, evidence=())
    promise = sheet.promise(node)
    decisions = (
        run_checkpoints.decide_folder_turn(sheet, node, delivery, performance) if node.promise is not None else ()
    )
    found = turn_outcome.observe_evidence(node, performance, gate, moves.now)
    verdict = done.decide(promise, found, checkpoints.latest_results(decisions))
    cause, reason = _judge_receipt(moves, sheet, node, verdict, ack=ack, details=details)
    told: dict[str, object] = {"fulfilled": verdict.fulfilled, "blockers": list(verdict.blockers)}
    if not moves.tx.run(
        END_BY_HAND,
        plan_id=sheet.plan_id,
        task_id=node.task_id,
        state=task_states.move("RUNNING", cause),
        cause=cause,
        **to_columns(reason),
        retries=int(cause == "RETRY"),
        unproven=int(cause == "FULFILLED" and verdict.trust in {None, "claimed"}),
        at=moves.now,
    ):
        return
    fine = cause == "FULFILLED"
    moves.tx.run(ACKNOWLEDGE_BY_HAND, id=delivery, ack="SUCCEEDED" if fine else "FAILED", details=details, at=moves.now)
    subject = f"{sheet.plan_id}/{node.task_id}"
    body: dict[str, object] = {
        "ack": ack,
        "cause": cause,
        "reason": reason,
        "verdict": {"promise_id": promise.id, **told},
    }
    if decisions:
        body["gates"] = run_checkpoints.decisions_to_json(decisions)
    moves.tx.record("task.by_hand", subject, body)
    if fine:
        transitions.mark_ended(moves, sheet, node.task_id, cause, activated=gate.activate)
        if moves.tx.run(LAST_SEQ, plan_id=sheet.plan_id, task_id=node.task_id)[0].seq > 1:
            transitions.recheck_waiting(moves, sheet, node.task_id)
            transitions.update_consumers(moves, sheet, node.task_id)
    elif cause == "RETRY":
        inputs.queue_next_command(moves, sheet, node, cause)
    else:
        transitions.mark_ended(moves, sheet, node.task_id, cause)


def _judge_receipt(
    moves: PlanTransaction, sheet: PlanDefinition, node: Node, verdict: done.Verdict, *, ack: str, details: str | None
) -> tuple[Cause, str | None]:
    done_cause = turn_outcome.find_done_cause(verdict) if ack == "SUCCEEDED" else None
    if done_cause is not None:
        return done_cause, None
    retries = moves.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=node.task_id)[0].retries
    cause = turn_outcome.decide_after_attempt(
        "crashed", retries_used=retries, retry_times=node.retry_times or 0, engine_deaths=0
    )
    faults = [*verdict.blockers, *(task_words.NAME_MISSING(name=name) for name in verdict.missing)]
    return cause, details or (join(faults) if faults else task_words.UNDONE())
