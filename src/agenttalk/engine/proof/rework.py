"""Rework: a consumer or the verifier refused work, so the task that made it runs again, with the issues.

When another round makes no sense the task has failed, and a person decides (see `rework_decisions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code
from agenttalk.contracts.validation import Issue
from agenttalk.engine.core import records
from agenttalk.engine.people import dispute_rows
from agenttalk.engine.plans import commands, questions, rework_rounds, transitions, validator_verdicts, versions
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.rework_rounds import FileRecords, ReexecutionOrder, ReworkFact
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.core import PUT_BLOB
from agenttalk.ports.statements.plans import (
    ADD_ROUND,
    COUNT_RUN,
    ENGINE_TASK,
    NOTE_REQUEST,
    WAIT_FOR_INPUT,
    EngineTaskRow,
)
from agenttalk.ports.storage import Tx
from agenttalk.rules.checks.check_results import hash_shown
from agenttalk.rules.core.task_states import Cause
from agenttalk.rules.plans.input_selection import PickedInputs
from agenttalk.rules.proof import rework, turn_outcome
from agenttalk.rules.proof.done import Evidence, Verdict
from agenttalk.rules.proof.performance import OutputContent, Performance, WorkProof
from agenttalk.rules.proof.rework import Judgement
from agenttalk.rules.text import question_words, verdict_words
from agenttalk.rules.text.catalogue import read_text, to_columns
from agenttalk.rules.text.message import WHAT_IS

_FILES: Final = 200
"""Files of a refused version that come with the next command."""
_ASKED: Final = 20
"""Issues of each round that a question shows."""
OPTIONS: Final = ("grant 1", "grant 2", "grant 3", "accept", "abort")


@dataclass(frozen=True, slots=True)
class WorkRefusal:
    """A consumer's refusal of what a task made."""

    validator: str
    consumer: str | None
    """The task that was to use it."""
    command_id: str
    judgement: Judgement
    model: str = ""
    """The model that judged it, as far as that is known."""


def send_back(
    moves: PlanTransaction,
    plan: PlanDefinition,
    granted: LeasedAttempt,
    judgements: Mapping[str, Judgement],
    model: str,
) -> None:
    """Send tasks back whose outputs were refused. The task that refused them waits for the new versions."""
    job = granted.job
    moves.tx.run(
        WAIT_FOR_INPUT,
        plan_id=plan.plan_id,
        task_id=job.task_id,
        missing=wire.write([name for name, each in judgements.items() if not each.accepted]),
        at=moves.now,
    )
    for name, judgement in judgements.items():
        if not judgement.accepted:
            refusal = WorkRefusal(job.agent_id, job.task_id, job.command.command_id, judgement, model)
            for producer in dict.fromkeys(path.partition("/")[0] for path in _paths(granted, name)):
                refuse_work(moves, plan, producer, refusal)


def record_judgements(
    moves: PlanTransaction, granted: LeasedAttempt, judgements: Mapping[str, Judgement], model: str
) -> None:
    """Record the judgements of inputs, and the model that made them."""
    job = granted.job
    body = {
        "validator": job.agent_id,
        "command_id": job.command.command_id,
        "inputs": {name: {**each.as_json(), "paths": _paths(granted, name)} for name, each in judgements.items()},
        **({"model": model} if model else {}),
    }
    moves.tx.record("inputs.judged", f"{job.plan_id}/{job.task_id}", body)
    validator_verdicts.record_input_judgements(moves.tx, job, judgements, model=model, at=moves.now)


def _paths(granted: LeasedAttempt, name: str) -> list[str]:
    return [
        path for each in granted.job.command.resolved_inputs or () if each.input_name == name for path in each.paths
    ]


def refuse_work(
    moves: PlanTransaction, plan: PlanDefinition, producer: str, refusal: WorkRefusal, cause: Cause = "REWORK"
) -> bool:
    """Send one task back, unless it was sent back for another reason meanwhile, or another round makes no sense.

    False when the task is not done, so that there is nothing to refuse.
    """
    tx, plan_id = moves.tx, plan.plan_id
    rows = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=producer)
    if not rows or rows[0].state != "COMPLETED":
        return False
    row, node = rows[0], plan.node(tx, producer)
    issues = refusal.judgement.issues
    fingerprint = rework.fingerprint_issues(issues)
    rounds = rework_rounds.read_round_history(tx, plan, node, used=row.reexecutions, consumer=refusal.consumer)
    answer = rework.decide_another_round(rounds, fingerprint)
    files = read_files_in_force(moves, plan, producer)
    fact: ReworkFact = {
        "by": refusal.validator,
        "consumer": refusal.consumer,
        "command_id": refusal.command_id,
        "fingerprint": list(fingerprint),
        **refusal.judgement.as_json(),
        "files": files,
        "maker": row.agent_id,
        "made_in": row.fact,
        **({"by_model": refusal.model} if refusal.model else {}),
    }
    tx.run(COUNT_RUN, plan_id=plan_id, open=1, completed=-1, failed=0, skipped=0)
    if answer != "yes":
        _give_up(moves, plan, node, fact, stuck=answer == "stuck")
        return True
    [(number,)] = tx.run(ADD_ROUND, plan_id=plan_id, task_id=producer, rounds=1)
    tx.record(rework_rounds.ORDERED, rework_rounds.ledger_subject(plan_id, producer), {"round": number, **fact})
    result = refusal.judgement.as_result(refusal.validator)
    again = build_reexecution(plan_id, producer, row.agent_id, number, result, files, moves)
    _order_next_command(moves, plan, node, row, "COMPLETED", cause, again)
    transitions.update_consumers(moves, plan, producer)
    return True


def build_reexecution(
    plan_id: str,
    task_id: str,
    agent_id: str,
    number: int,
    result: JsonObject,
    files: FileRecords,
    moves: PlanTransaction,
) -> ReexecutionOrder:
    """Make the part of a command that says what was refused and why, and what people decided about disputed checks."""
    disputed = dispute_rows.make_issues(moves.tx, plan_id, task_id)
    if disputed:
        result = {**result, "issues": [*result.get("issues", ()), *disputed]}
    return {
        "original_task_id": task_id,
        "original_agent": agent_id,
        "attempt": max(number, 1),
        "validation_result": result,
        "validated_at": records.format_time(moves.now),
        "previous": files[:_FILES],
    }


def _order_next_command(
    moves: PlanTransaction,
    plan: PlanDefinition,
    node: Node,
    row: EngineTaskRow,
    state: Any,
    cause: Cause,
    again: ReexecutionOrder,
) -> None:
    """Make the next command of a task, with the inputs that it had. It waits if those are not there any more."""
    inputs = commands.inputs_of(moves.tx, row.delivery) if row.delivery is not None else ()
    if versions.has_lost_input(moves.tx, plan, inputs):
        moves.move_task(plan, node.task_id, state, cause)
        transitions.wait_for_inputs(moves, plan, node.task_id)
        return
    picked = PickedInputs(inputs=inputs, sources={}, absent=())
    moves.queue_command(plan, node, picked, state, cause, rework=again, agent_id=row.agent_id)


def rerun_failed(
    moves: PlanTransaction, plan: PlanDefinition, node: Node, row: EngineTaskRow, reexecute: ReexecutionOrder
) -> None:
    """Run a task that failed once more."""
    _order_next_command(moves, plan, node, row, "FAILED", "OPERATOR_RETRY", reexecute)


def read_files_in_force(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> FileRecords:
    """Return the files of the last version of a task's outputs that was not refused."""
    found: dict[str, FileRecords] = {}
    for row in versions.list_versions_in_force(moves.tx, plan.plan_id, task_id):
        listed: FileRecords = [
            {"output_name": row.output_name, "path": path, "sha256": sha256, "size_bytes": size}
            for path, sha256, size in versions.files_of(row.envelope)
        ]
        found.setdefault(row.output_name, listed)
    return [each for listed in found.values() for each in listed]


def _give_up(moves: PlanTransaction, plan: PlanDefinition, node: Node, refused: ReworkFact, *, stuck: bool) -> None:
    """Fail work for which another round makes no sense, and ask a person."""
    sentence = verdict_words.REFUSED_UNCHANGED if stuck else verdict_words.REFUSED_LAST
    reason = sentence(by=refused["by"], why=read_text(refused, "reason"))
    moves.move_task(plan, node.task_id, "COMPLETED", "REWORK_EXHAUSTED", reason=reason)
    records.alert(
        moves.tx,
        at=moves.now,
        plan_id=plan.plan_id,
        code=Code.COMMAND_FAILED,
        message=f"task {node.task_id!r} failed: {reason}",
        key=f"{node.task_id}/{refused['command_id']}",
        source=records.RecordSource(refused["by"], node.task_id, refused["command_id"]),
        details={key: refused[key] for key in ("decision", "score", "reason", "issues")},
    )
    transitions.update_consumers(moves, plan, node.task_id)
    transitions.mark_failed(moves, plan, node.task_id)
    mark_exhausted(moves, plan, node, reason, {**refused, "stuck": stuck})


def mark_exhausted(
    moves: PlanTransaction, plan: PlanDefinition, node: Node, reason: str, last: ReworkFact, *, diff: str = ""
) -> None:
    """Record that a task has no round left, and ask a person what to do with it."""
    tx, plan_id, task_id = moves.tx, plan.plan_id, node.task_id
    question = (question_words.UNCHANGED if last.get("stuck") else question_words.NO_ROUND)(task=task_id)
    seen = {f"{each['output_name']}/{each['path']}": each["sha256"] for each in last["files"]}
    seen |= {"commit": last["left"]} if last.get("left") else {}
    shown = hash_shown(question, seen)
    tx.record(rework_rounds.EXHAUSTED, rework_rounds.ledger_subject(plan_id, task_id), {**last, "shown": shown})
    criteria = {
        "shown": shown,
        "files": seen,
        "history": rework_rounds.rounds_to_json(rework_rounds.read_history(tx, plan_id, task_id), _ASKED),
        **({"diff": diff} if diff else {}),
    }
    request_id = questions.ask_about_task(
        tx,
        plan,
        node,
        "REEXECUTE_LIMIT",
        question,
        WHAT_IS(subject=question, what=reason),
        OPTIONS,
        at=moves.now,
        criteria=criteria,
    )
    tx.run(NOTE_REQUEST, plan_id=plan_id, task_id=task_id, request_id=request_id, **to_columns(reason))


def order_rework(
    moves: PlanTransaction,
    plan: PlanDefinition,
    node: Node,
    granted: LeasedAttempt,
    performance: Performance,
    proof: WorkProof,
    *,
    cause: Cause,
    reason: str,
    verdict: Verdict | None,
    hand_to: str | None,
) -> None:
    """Send a task back to its agent, or to another one, with what is missing and what it left."""
    tx, job = moves.tx, granted.job
    counts = int(cause != "CONFLICT")  # another merge came first, which is not the agent's fault
    [(number,)] = tx.run(ADD_ROUND, plan_id=job.plan_id, task_id=job.task_id, rounds=counts)
    judgement = turn_outcome.build_engine_judgement(reason, verdict, proof)
    files = keep_left_files(moves, performance)
    fact: ReworkFact = {
        "round": number if counts else 0,
        "by": "engine",
        "consumer": None,
        "command_id": job.command.command_id,
        "fingerprint": list(
            rework.fingerprint_issues([*judgement.issues, *read_disputes(tx, job.plan_id, job.task_id)])
        ),
        **judgement.as_json(),
        "files": files,
        **({"breach": list(proof.breach)} if proof.breach else {}),
    }
    tx.record(rework_rounds.ORDERED, rework_rounds.ledger_subject(job.plan_id, job.task_id), {**fact})
    inputs = rework.list_own_inputs(job.command)
    if versions.has_lost_input(tx, plan, inputs):
        transitions.wait_for_inputs(moves, plan, job.task_id)
        return
    picked = PickedInputs(inputs=inputs, sources={}, absent=())
    result = judgement.as_result("engine")
    again = build_reexecution(job.plan_id, job.task_id, job.agent_id, number, result, files, moves)
    moves.queue_command(plan, node, picked, "RUNNING", cause, rework=again, agent_id=hand_to or job.agent_id)


def read_disputes(tx: Tx, plan_id: str, task_id: str) -> tuple[Issue, ...]:
    """Read decisions about checks that an agent disputes. They are news to the agent, so every refusal has them."""
    return tuple(Issue.model_validate(each) for each in dispute_rows.make_issues(tx, plan_id, task_id))


def keep_left_files(moves: PlanTransaction, performance: Performance) -> FileRecords:
    """Keep the files of a turn that are not good enough: the next turn is to fix them."""
    found: FileRecords = []
    for each in performance.outputs[:_FILES]:
        if each.data is not None:
            moves.tx.run(PUT_BLOB, hash=each.sha256, content=each.data)
        found.append(
            {"output_name": each.output_name, "path": each.path, "sha256": each.sha256, "size_bytes": each.size}
        )
    return found


def end_without_rounds(
    moves: PlanTransaction,
    plan: PlanDefinition,
    node: Node,
    granted: LeasedAttempt,
    performance: Performance,
    proof: WorkProof,
    *,
    reason: str,
    verdict: Verdict | None,
    evidence: Sequence[Evidence],
    stuck: bool = False,
) -> None:
    """Record that a task refused by the verifier has no round left, or is `stuck`: it left the same as before."""
    job = granted.job
    judgement = turn_outcome.build_engine_judgement(reason, verdict, proof)
    last: ReworkFact = {
        "by": "engine",
        "consumer": None,
        "command_id": job.command.command_id,
        "attempt": job.attempt,
        "fingerprint": list(rework.fingerprint_issues(judgement.issues)),
        **judgement.as_json(),  # type: ignore[typeddict-item]  # it has none of the other keys
        "files": keep_left_files(moves, performance),
        "left": proof.left,
        "refused": proof.refused,
        "made_score": performance.score,
        "evidence": [asdict(each) for each in evidence],
        "stuck": stuck,
    }
    mark_exhausted(moves, plan, node, reason, last, diff=proof.diff)


def group_by_output(files: FileRecords) -> dict[str, list[OutputContent]]:
    """Group the files of a version by output, as they are sent."""
    found: dict[str, list[OutputContent]] = {}
    for each in files:
        one = OutputContent(each["output_name"], each["path"], each["sha256"], each["size_bytes"] or 0, None)
        found.setdefault(one.output_name, []).append(one)
    return found
