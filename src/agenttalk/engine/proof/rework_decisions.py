"""Decisions of a person on a task without a round of rework left: more rounds, accept it as it is, or abort.

An answer to the question and the operator's command do the same. Accepting goes through `rules.proof.done.decide` like
every other way to done: what the person confirms becomes evidence, bound to the hash of what was shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import wire
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.people import questions as people_questions
from agenttalk.engine.plans import artifacts, control, questions, rework_rounds, transitions
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.rework_rounds import ReworkFact
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof import rework as proof_rework
from agenttalk.ports.proof import AcceptedWork
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.statements.plans import (
    ADD_ROUND,
    COMMAND_OF_DELIVERY,
    COUNT_RUN,
    ENGINE_TASK,
    NOTE_REQUEST,
    RUN_STATE,
    SET_RUN_STATE,
    EngineTaskRow,
)
from agenttalk.ports.storage import Tx
from agenttalk.rules.proof import done, rework, turn_outcome
from agenttalk.rules.proof.done import Evidence, Trust, Verdict
from agenttalk.rules.proof.rework import ReworkDecision, RoundGrant, TaskAbandonment, WorkAcceptance
from agenttalk.rules.text import question_words, task_words
from agenttalk.rules.text.catalogue import read_column, read_own_text, to_columns

_HINT: Final = "'agenttalk explain {}/{}' shows every round, 'agenttalk retry' tries a failed task again"


def find_unmerged_work(tx: Tx, plan: PlanDefinition, task_id: str) -> AcceptedWork | None:
    """Return what has to be merged when a task is accepted as it is. None when there is nothing."""
    _read_exhausted_task(tx, plan, task_id)
    told = _last(tx, plan, task_id)
    node = plan.node(tx, task_id)
    if not told.get("left") or plan.workspace is None or node.workspace != "repo":
        return None
    promise = plan.promise(node, told.get("made_score"))
    others = plan.other_promises(tx, task_id)
    return AcceptedWork(plan.plan_id, task_id, plan.workspace, promise, told["command_id"], told["attempt"], others)


def apply_decision(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, decision: ReworkDecision, *, by: str, commit: str = ""
) -> None:
    """Carry out a person's decision. Raises UsageError when the task does not wait for it, or cannot be accepted."""
    row = _read_exhausted_task(moves.tx, plan, task_id)
    match decision:
        case RoundGrant(rounds=number):
            _grant(moves, plan, task_id, row, number, by)
        case WorkAcceptance():
            _accept(moves, plan, task_id, row, by, commit)
        case TaskAbandonment():
            moves.tx.record(rework_rounds.ABORTED, rework_rounds.ledger_subject(plan.plan_id, task_id), {"by": by})
            moves.tx.run(
                NOTE_REQUEST,
                plan_id=plan.plan_id,
                task_id=task_id,
                request_id=None,
                **to_columns(task_words.ABORTED_BY(why=read_column(row.reason, row.reason_message), by=by)),
            )
    if row.request_id is not None and moves.tx.run(REQUEST, request_id=row.request_id)[0].state == "open":
        people_questions.close(moves.tx, row.request_id, f"{by} decided: {decision}", at=moves.now)


def ask_again(moves: PlanTransaction, plan: PlanDefinition, task_id: str, answered: str, why: str) -> None:
    """Ask again, with the reason, because an answer could not be carried out."""
    tx = moves.tx
    row = tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0]
    if row.request_id != answered:
        return  # another decision was made meanwhile
    [asked] = tx.run(REQUEST, request_id=answered)
    body = people_questions.read_request(asked)
    needed, title = body.needed, read_own_text(body.as_json(), "title")
    request_id = questions.ask_about_task(
        tx,
        plan,
        plan.node(tx, task_id),
        "REEXECUTE_LIMIT",
        title,
        question_words.ANSWER_FAILED(title=title, why=why),
        proof_rework.OPTIONS,
        at=moves.now,
        criteria=needed.criteria,
    )
    tx.run(
        NOTE_REQUEST,
        plan_id=plan.plan_id,
        task_id=task_id,
        request_id=request_id,
        **to_columns(read_column(row.reason, row.reason_message)),
    )


def _read_exhausted_task(tx: Tx, plan: PlanDefinition, task_id: str) -> EngineTaskRow:
    """Return the row of a task without a round left. Raises UsageError if it is not such a task."""
    rows = tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)
    hint = _HINT.format(plan.plan_id, task_id)
    if not rows:
        raise UsageError(Code.TASK_NOT_FOUND, f"plan {plan.plan_id!r} has no task {task_id!r}", hint=hint)
    if rows[0].state != "FAILED" or rows[0].cause != "REWORK_EXHAUSTED":
        what = f"{task_id} is {rows[0].state}, and this is for tasks that have no round of rework left"
        raise UsageError(Code.ILLEGAL_TRANSITION, what, hint=hint)
    return rows[0]


def _last(tx: Tx, plan: PlanDefinition, task_id: str) -> ReworkFact:
    """Return the findings of the last round."""
    return rework_rounds.find_latest(tx, plan.plan_id, task_id, rework_rounds.EXHAUSTED) or {"files": []}


def _grant(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, row: EngineTaskRow, number: int, by: str
) -> None:
    tx, plan_id = moves.tx, plan.plan_id
    told = _last(tx, plan, task_id)
    tx.record(
        rework_rounds.GRANTED,
        rework_rounds.ledger_subject(plan_id, task_id),
        {"by": by, "rounds": number, "most": row.reexecutions + number},
    )
    _reopen_plan(moves, plan_id)
    tx.run(COUNT_RUN, plan_id=plan_id, open=1, completed=0, failed=-1, skipped=0)
    [(used,)] = tx.run(ADD_ROUND, plan_id=plan_id, task_id=task_id, rounds=1)
    keys = ("score", "reason", "issues", "expectations")
    result = {"validator": told["by"], **{key: value for key, value in told.items() if key in keys}}
    again = proof_rework.build_reexecution(plan_id, task_id, row.agent_id, used, result, told["files"], moves)
    proof_rework.rerun_failed(moves, plan, plan.node(tx, task_id), row, again)
    _wake(moves, plan, task_id)


def _accept(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, row: EngineTaskRow, by: str, commit: str
) -> None:
    tx, plan_id = moves.tx, plan.plan_id
    told = _last(tx, plan, task_id)
    verdict, confirmed = verdict_of(moves, plan, task_id, told, by)
    cause = turn_outcome.find_done_cause(verdict, accepted=True)
    if cause is None:
        why = "; ".join([*verdict.blockers, *(f"{name} is missing" for name in verdict.missing)])
        raise UsageError(Code.ILLEGAL_TRANSITION, f"{task_id} cannot be accepted: {why}", hint="grant rounds, or abort")
    body = {
        "by": by,
        "shown": told["shown"],
        "overrules": {key: told.get(key) for key in ("by", "consumer", "reason")}
        | ({"model": told["by_model"]} if told.get("by_model") else {}),
        "confirmed": [each.id for each in confirmed],
        "trust": confirmed[0].trust if confirmed else verdict.trust,
        "files": told["files"],
        "verdict": {"fulfilled": True, "unverified": list(verdict.unverified), "trust": verdict.trust},
    }
    tx.record(
        rework_rounds.ACCEPTED,
        rework_rounds.ledger_subject(plan_id, task_id),
        body | ({"commit": commit} if commit else {}),
    )
    _reopen_plan(moves, plan_id)
    moves.move_task(plan, task_id, "FAILED", cause, reason=task_words.ACCEPTED_BY(by=by))
    moves.count(plan_id, "failed", number=-1)
    moves.count(plan_id, "completed")
    _send(moves, plan, task_id, row, told)
    transitions.mark_completed(moves, plan, task_id)
    transitions.update_consumers(moves, plan, task_id)
    _wake(moves, plan, task_id)


def verdict_of(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, last: ReworkFact, by: str
) -> tuple[Verdict, list[Evidence]]:
    """Decide the promise with what a person confirms added. Return the verdict and these confirmations."""
    promise = plan.promise(plan.node(moves.tx, task_id), last.get("made_score"))
    found = [Evidence(**each) for each in last.get("evidence", ())]
    trust: Trust = "attested" if people_questions.exposed_agents(moves.tx, moves.deps, plan.plan_id) else "confirmed"
    confirmed = rework.make_confirmations(promise, found, by=by, at=moves.now, shown=last["shown"], trust=trust)
    return done.decide(
        promise, [*found, *confirmed], (), aborted=last.get("refused") or None, confirmed=True, word=trust
    ), confirmed


def _send(moves: PlanTransaction, plan: PlanDefinition, task_id: str, row: EngineTaskRow, last: ReworkFact) -> None:
    """Deliver what was refused, as new messages: the old ones went no further."""
    tx = moves.tx
    [(message_id, envelope)] = tx.run(COMMAND_OF_DELIVERY, id=row.delivery)
    command = CommandEnvelope.model_validate_json(bytes(envelope)).payload.command
    work = _Work(plan.plan_id, task_id, row.agent_id, command)
    outputs = {each.name: each for each in plan.node(tx, task_id).outputs}
    lines: list[str] = []
    for name, files in proof_rework.group_by_output(last["files"]).items():
        if name in outputs:
            key = f"accepted/{message_id}/{last['shown']}"
            parcel = artifacts.pack(plan, work, outputs[name], files, last.get("made_score"), at=moves.now, key=key)
            parcel.send(moves, plan, work)
            lines += parcel.lines
    if lines:
        body = {"lines": f"[{','.join(lines)}]", "task_id": wire.to_text(task_id)}
        moves.append_journal_fact("outputs.accepted", plan.plan_id, wire.encode(wire.object_of(body)))


@dataclass(frozen=True, slots=True)
class _Work:
    """The task and command that made the outputs."""

    plan_id: str
    task_id: str
    agent_id: str
    command: Command


def _reopen_plan(moves: PlanTransaction, plan_id: str) -> None:
    if moves.tx.run(RUN_STATE, plan_id=plan_id) == [("ENDED",)]:
        moves.tx.run(SET_RUN_STATE, plan_id=plan_id, state="RUNNING", at=moves.now)
    moves.note_due_tasks()


def _wake(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Have tasks that the failure stopped wait for what is open before them. The questions about them are closed."""
    for woken in control.wake_stopped(moves, plan, task_id):
        transitions.recount_waits(moves, plan, woken)
        transitions.close_questions(moves, plan, woken)
